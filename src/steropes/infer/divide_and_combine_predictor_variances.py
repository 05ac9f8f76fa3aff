"""Variances of linear predictors after divide-and-combine, without M × rows arrays."""

from __future__ import annotations

import numpy as np

from .cumulative_probability_variances import CumulativeInformation
from .divide_and_combine_information import SubsetInformation

__all__ = ["FastSubsetInformation"]


class FastSubsetInformation(SubsetInformation):
    """Covariances of means over independent subsets, with a direct formula for one threshold.

    α(y_k) is the mean over the ``count[k]`` subsets that define it, and β the mean over all K. A
    subset with threshold j contributes

        (T⁻¹)_jj / count² + q'Vq,    q = (m − J_j) / count − x/K,

    to the variance of α(y_k) − x'β, where m is the centre of its columns. A common centre is
    subtracted from x first.
    """

    def predictor_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β, (rows, thresholds)."""
        out = np.zeros((len(X), len(thresholds)))
        center = self._center()
        for part, at in zip(self.parts, self.positions, strict=True):
            own, b = self._share(part, at, thresholds, center)
            a = (X - center) @ part.root / len(self.parts)
            q = (a**2).sum(axis=1)[:, None] - 2 * (a @ b.T) + (b**2).sum(axis=1)
            out += own + np.maximum(q, 0.0)
        return out

    def paired_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β for one threshold per row, (rows,)."""
        out = np.zeros(len(X))
        center = self._center()
        for part, at in zip(self.parts, self.positions, strict=True):
            own, b = self._share(part, at, thresholds, center)
            a = (X - center) @ part.root / len(self.parts)
            out += own + ((a - b) ** 2).sum(axis=1)
        return out

    def _center(self) -> np.ndarray:
        """Average the centres of the subsets' columns."""
        return np.mean([part.center for part in self.parts], axis=0)

    def _share(
        self,
        part: CumulativeInformation,
        at: np.ndarray,
        thresholds: np.ndarray,
        center: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (T⁻¹)_jj / count² and q times V's root per threshold, at the common centre."""
        j, ok = np.maximum(at[thresholds], 0), at[thresholds] >= 0
        share = ok / self.count[thresholds]
        q = share[:, None] * (part.center - part.J[j]) - center / len(self.parts)
        return share**2 * part.t_diagonal[j], q @ part.root
