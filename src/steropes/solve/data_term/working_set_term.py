"""A data term of outcomes side by side that knows of no columns but those of the working set."""

from __future__ import annotations

from typing import Any

import numpy as np

from .local_term import LocalTerm
from .protocols import CurvatureAt

__all__ = ["WorkingSetTerm"]


class WorkingSetTerm(LocalTerm):
    """Replicates whose working set someone else sees to.

    The columns outside of it count as at their optimum: the gradient there is zero. Whoever makes
    the term looks at them with `everywhere`, or has the certificate do so.
    """

    _relative: tuple[np.ndarray, np.ndarray] | None = None  # columns, and theirs

    def gradients(self, tol: float) -> np.ndarray:
        """See `DataTerm.gradients`."""
        g = np.zeros((self.p, self.lanes))
        g[self.W] = self.gradient()
        return g

    def everywhere(self, tol: float) -> np.ndarray:
        """What `LocalTerm.gradients` is: of all columns."""
        return super().gradients(tol)

    def curvatures(self) -> Any:
        """The diagonal of each replicate's curvature where it is, (n, lanes)."""
        V = self.backend.xp.zeros_like(self.w)
        for b in range(self.B):
            one, own = slice(b, b + 1), self.likelihood.of_lane(b)
            V[:, b] = own.curvature(self.eta[:, one], own.weigh(self.w[:, one])).v
        return V

    def know_relative(self, relative: np.ndarray) -> None:
        """Take what the next Hessian's `relative` is of the working set as it is."""
        self._relative = self.W.copy(), relative

    def relative(self, curvature: CurvatureAt) -> np.ndarray | None:
        """See `DataTerm.relative`; of columns that joined since what it mostly is of the others."""
        if self._relative is None:
            return super().relative(curvature)
        known, relative = self._relative
        k = len(known)
        if len(self.W) < k or not np.array_equal(self.W[:k], known):
            return super().relative(curvature)
        if len(self.W) == k:
            return relative
        usual = np.median(relative, axis=0) if k else np.ones(self.lanes)
        return np.vstack([relative, np.tile(usual, (len(self.W) - k, 1))])
