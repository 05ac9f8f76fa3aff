"""Combining the fits of subsets into one (Li, Chen and Shepherd 2022, §2.2)."""

from __future__ import annotations

import numpy as np

from .cumulative_information import CumulativeInformation

__all__ = ["SubsetInformation", "combine_thresholds", "subset_positions"]


def subset_positions(values: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The threshold of a subset that holds at each threshold of the whole, −1 where none.

    Parameters
    ----------
    values : (M,) array
        Distinct outcomes of all rows.
    part : (M_k,) array
        Those of the subset: its α is a step function on [min, max) of them.
    """
    at = np.searchsorted(part, values[:-1], side="right") - 1
    return np.where(at < len(part) - 1, at, -1)


def combine_thresholds(positions: list[np.ndarray], alphas: list[np.ndarray]) -> np.ndarray:
    """Mean of the subsets' α(y) where they are defined, monotone at the ends, (M − 1,).

    The set of subsets that a mean is over only changes at the two ends, so only there can it
    fall; α is lowered towards the left end and raised towards the right one.
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
    """Covariances of means over independent subsets, with the methods of one fit's.

    Parameters
    ----------
    parts : list of CumulativeInformation
    positions : list of (M − 1,) int arrays
        See `subset_positions`.
    """

    def __init__(self, parts: list[CumulativeInformation], positions: list[np.ndarray]) -> None:
        self.parts, self.positions = parts, positions
        self.count = np.sum([at >= 0 for at in positions], axis=0)
        self.scale = parts[0].scale

    def beta(self) -> np.ndarray:
        """Covariance of β, (p, p)."""
        return np.sum([part.beta() for part in self.parts], axis=0) / len(self.parts) ** 2

    def alpha(self) -> np.ndarray:
        """Variance of every α_k, (M − 1,)."""
        out = np.zeros(len(self.count))
        for part, at in zip(self.parts, self.positions, strict=True):
            ok = at >= 0
            out[ok] += part.alpha()[at[ok]]
        return out / self.count**2

    def predictor(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Variance of α_k − x'β, (rows, thresholds); see `functional` for the covariances."""
        out = np.empty((len(X), len(thresholds)))
        for j, k in enumerate(thresholds):
            c = np.zeros((len(self.count), len(X)))
            c[k] = 1.0
            out[:, j] = self.functional(c, X)
        return out

    def paired(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Variance of α_k − x'β for one threshold a row, (rows,)."""
        return np.array(
            [self.predictor(thresholds[i : i + 1], X[i : i + 1])[0, 0] for i in range(len(X))]
        )

    def functional(self, c: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Variance of functions with gradient c (M − 1, rows) in α − x'β, for rows X."""
        out = np.zeros(len(X))
        n_parts = len(self.parts)
        for part, at in zip(self.parts, self.positions, strict=True):
            ok = at >= 0
            own = np.zeros((part.K, len(X)))
            np.add.at(own, at[ok], c[ok] / self.count[ok, None])
            # β enters every subset's share alike, whatever subsets α(y) is a mean over.
            out += part.functional(own, X, c.sum(axis=0) / n_parts)
        return out
