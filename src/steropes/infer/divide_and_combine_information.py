"""Combination of cumulative model fits to subsets of rows (Li, Chen and Shepherd 2022, §2.2)."""

from __future__ import annotations

import numpy as np

from .cumulative_probability_variances import CumulativeInformation

__all__ = ["SubsetInformation", "combine_thresholds", "subset_positions"]


def subset_positions(values: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Find the threshold of a subset that corresponds to each threshold of all rows.

    Parameters
    ----------
    values : (M,) array
        Distinct outcomes of all rows.
    part : (M_k,) array
        Distinct outcomes of the subset; its α is a step function on [min, max) of them.

    Returns
    -------
    (M − 1,) int array
        −1 where the subset has no threshold.
    """
    at = np.searchsorted(part, values[:-1], side="right") - 1
    return np.where(at < len(part) - 1, at, -1)


def combine_thresholds(positions: list[np.ndarray], alphas: list[np.ndarray]) -> np.ndarray:
    """Average the subsets' α(y) where they are defined, and make the ends monotone, (M − 1,).

    The set of subsets in the mean changes only at the two ends, so the mean can decrease only
    there; α is lowered towards the left end and raised towards the right one.
    """
    total, count = np.zeros(len(positions[0])), np.zeros(len(positions[0]))
    for at, alpha in zip(positions, alphas, strict=True):
        ok = at >= 0
        total[ok] += alpha[at[ok]]
        count[ok] += 1
    if not count.all():
        raise ValueError("an outcome lies outside every subset")
    alpha = total / count
    whole = np.flatnonzero(count == len(positions))
    first, last = (whole[0], whole[-1]) if len(whole) else (len(alpha) // 2, len(alpha) // 2)
    alpha[: first + 1] = np.minimum.accumulate(alpha[: first + 1][::-1])[::-1]
    alpha[last:] = np.maximum.accumulate(alpha[last:])
    return alpha


class SubsetInformation:
    """Covariances of means over independent subsets, with the methods of `CumulativeInformation`.

    Parameters
    ----------
    positions : list of (M − 1,) int arrays
        See `subset_positions`.
    """

    def __init__(self, parts: list[CumulativeInformation], positions: list[np.ndarray]) -> None:
        self.parts, self.positions = parts, positions
        self.count = np.sum([at >= 0 for at in positions], axis=0)
        self.scale = parts[0].scale

    def beta_covariance(self) -> np.ndarray:
        """Compute the covariance of β, (p, p)."""
        return (
            np.sum([part.beta_covariance() for part in self.parts], axis=0) / len(self.parts) ** 2
        )

    def alpha_variance(self) -> np.ndarray:
        """Compute the variance of each α_k, (M − 1,)."""
        out = np.zeros(len(self.count))
        for part, at in zip(self.parts, self.positions, strict=True):
            ok = at >= 0
            out[ok] += part.alpha_variance()[at[ok]]
        return out / self.count**2

    def predictor_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β, (rows, thresholds), by `functional_variance`."""
        out = np.empty((len(X), len(thresholds)))
        for j, k in enumerate(thresholds):
            c = np.zeros((len(self.count), len(X)))
            c[k] = 1.0
            out[:, j] = self.functional_variance(c, X)
        return out

    def paired_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β for one threshold per row, (rows,)."""
        return np.array(
            [
                self.predictor_variance(thresholds[i : i + 1], X[i : i + 1])[0, 0]
                for i in range(len(X))
            ]
        )

    def functional_variance(self, c: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of functions with gradient c (M − 1, rows) in α − x'β, for X."""
        out = np.zeros(len(X))
        n_parts = len(self.parts)
        for part, at in zip(self.parts, self.positions, strict=True):
            ok = at >= 0
            own = np.zeros((part.K, len(X)))
            np.add.at(own, at[ok], c[ok] / self.count[ok, None])
            # β is a mean over all subsets, even where α(y) is a mean over some of them.
            out += part.functional_variance(own, X, c.sum(axis=0) / n_parts)
        return out
