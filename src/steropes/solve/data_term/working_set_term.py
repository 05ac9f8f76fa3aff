"""A data term of several outcomes that sees only the columns of its working set."""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import Array
from .data_term_interfaces import CurvatureAt
from .local_term import LocalTerm

__all__ = ["WorkingSetTerm"]


class WorkingSetTerm(LocalTerm):
    """Replicates with a working set that the caller manages.

    Columns outside of the working set count as optimal: their gradient is reported as zero. The
    caller checks them with `all_gradients` or through the certificate.
    """

    _relative: tuple[np.ndarray, np.ndarray] | None = None  # columns, and theirs

    def gradients(self, tol: float) -> np.ndarray:
        """Return the gradient, with zeros outside of the working set."""
        g = np.zeros((self.p, self.lanes))
        g[self.W] = self.gradient()
        return g

    def all_gradients(self, tol: float) -> np.ndarray:
        """Compute the gradient over all columns, as `LocalTerm.gradients` does."""
        return super().gradients(tol)

    def curvatures(self) -> Array:
        """Compute the diagonal of each replicate's curvature at its point, (n, lanes)."""
        V = self.backend.xp.zeros_like(self.w)
        for b in range(self.B):
            one, own = slice(b, b + 1), self.likelihood.of_lane(b)
            V[:, b] = own.curvature(self.eta[:, one], own.weigh(self.w[:, one])).v
        return V

    def set_relative(self, relative: np.ndarray) -> None:
        """Set the result of `relative` for the next Hessian over the current working set."""
        self._relative = self.W.copy(), relative

    def relative(self, curvature: CurvatureAt) -> np.ndarray | None:
        """Return relative diagonals; columns that joined later get each replicate's median."""
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
