"""A prior's smooth term in a problem whose first columns have no prior."""

from __future__ import annotations

import numpy as np

from ..priors import SmoothTerm

__all__ = ["ShiftedSmoothTerm"]


class ShiftedSmoothTerm:
    """A smooth term in the columns after the first ``n_free`` ones; see `SmoothTerm`."""

    def __init__(self, inner: SmoothTerm, n_free: int) -> None:
        self.inner, self.n_free = inner, n_free

    def value(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.value`."""
        return self.inner.value(beta[self.n_free :])

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.gradient`."""
        out = np.zeros(beta.shape)
        out[self.n_free :] = self.inner.gradient(beta[self.n_free :])
        return out

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.hessian`."""
        out = np.zeros((len(columns), len(columns)))
        at = np.flatnonzero(columns >= self.n_free)
        inner = self.inner.hessian(beta[self.n_free :], columns[at] - self.n_free)
        out[np.ix_(at, at)] = inner
        return out
