"""How far the folds of a path are solved: scores differ by their errors, not by their digits."""

from __future__ import annotations

from dataclasses import dataclass

from .path_policy import PathPolicy

__all__ = ["Tolerances"]


@dataclass(frozen=True)
class Tolerances:
    """KKT violations to which fits of a path are solved.

    Parameters
    ----------
    tol : float
        The cross-validation's.
    selects, adaptive : bool
        Whether the prior has a λ; whether its penalties go by the coefficients.
    rows, columns : int
        Of the model; rows of η.
    policy : PathPolicy
    """

    tol: float
    selects: bool
    adaptive: bool
    rows: int
    columns: int
    policy: PathPolicy

    def owed(self, nonzero: int) -> float:
        """What a fold's fit has to reach, with so many coefficients that are not zero."""
        if not self.selects:
            return self.tol * (
                self.policy.adaptive_factor if self.adaptive else self.policy.ridge_factor
            )
        if nonzero <= self.policy.many_nonzero or self._small:
            return self.tol
        smallest = (
            nonzero > self.policy.dearest_nonzero and self.rows > self.policy.dearest_rows * nonzero
        )
        return max(
            self.tol,
            min(
                self.tol * (self.policy.dearest_factor if smallest else self.policy.dear_factor),
                self.policy.loosest,
            ),
        )

    def folds(self, nonzero: int) -> float:
        """What it is solved to."""
        return self.owed(nonzero) * (
            self.policy.small_factor if self.selects and self._small else 1.0
        )

    def full(self, nonzero: int) -> float:
        """What the fit of all rows is solved to."""
        return self.policy.full_factor * self.folds(nonzero)

    @property
    def _small(self) -> bool:
        return self.rows * self.columns <= self.policy.small
