"""Tolerances of the fits along a path of variances."""

from __future__ import annotations

from dataclasses import dataclass

from .variance_path_constants import PathPolicy

__all__ = ["Tolerances"]


@dataclass(frozen=True)
class Tolerances:
    """KKT violations to which fits of a path are solved.

    Parameters
    ----------
    tol : float
        That of the cross-validation.
    selects, adaptive : bool
        Whether the prior has a λ, and whether its penalties depend on the coefficients.
    rows, columns : int
        Numbers of rows of η and of columns.
    """

    tol: float
    selects: bool
    adaptive: bool
    rows: int
    columns: int
    policy: PathPolicy

    def owed(self, nonzero: int) -> float:
        """Return the tolerance that a fold's fit must reach with this many nonzero coefficients."""
        policy = self.policy
        if not self.selects:
            return self.tol * (policy.adaptive_factor if self.adaptive else policy.ridge_factor)
        if nonzero <= policy.many_nonzero or self._small:
            return self.tol
        dearest = nonzero > policy.dearest_nonzero and self.rows > policy.dearest_rows * nonzero
        factor = policy.dearest_factor if dearest else policy.dear_factor
        return max(self.tol, min(self.tol * factor, policy.loosest))

    def folds(self, nonzero: int) -> float:
        """Return the tolerance to which it is solved, smaller than `owed` for small data."""
        exact = self.selects and self._small
        return self.owed(nonzero) * (self.policy.small_factor if exact else 1.0)

    def full(self, nonzero: int) -> float:
        """Return the tolerance of the fit of all rows."""
        return self.policy.full_factor * self.folds(nonzero)

    @property
    def _small(self) -> bool:
        """Whether the data are so small that exact fits cost nothing."""
        return self.rows * self.columns <= self.policy.small
