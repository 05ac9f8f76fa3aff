"""Base class of designs with one linear predictor for each row of X, centred or not."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .memory_estimate import Estimated

__all__ = ["PlainColumns"]


class PlainColumns(Estimated):
    """X as columns that may be centred and may begin with an intercept."""

    n: int
    p: int
    # Whether the first column is an intercept.
    _has_intercept: bool

    @property
    @abstractmethod
    def center(self) -> np.ndarray:
        """Value subtracted from each column, (p,), in the user's units."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, p)."""
        return self.n, self.p

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.n

    def centers_at(self, beta: np.ndarray) -> np.ndarray:
        """Compute the linear predictor at the columns' centres.

        Parameters
        ----------
        beta : (p,) array
            Coefficients in X's units.

        Returns
        -------
        (1,) array
            Σ center_j β_j.
        """
        return np.array([self.center @ beta])

    def uncentered_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Convert the intercept at the columns' centres to an intercept at X = 0.

        Parameters
        ----------
        beta : (p,) or (p, m) array
            Coefficients in X's units, the intercept first if the design has one.

        Returns
        -------
        array
            A copy with the other intercept.
        """
        out = np.array(beta, np.float64)
        if self._has_intercept:
            out[0] -= self.center @ out
        return out
