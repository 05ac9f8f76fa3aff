"""How far the folds of a path are solved: scores differ by their errors, not by their digits."""

from __future__ import annotations

from dataclasses import dataclass

from .search import DEAR

__all__ = ["Tolerances"]

SMALL = 2_000_000  # rows times columns up to which exactness costs nothing,
FINER = 1e-4  # and the folds' tolerance is that much finer: no rounding decides between variances
COARSER = 10  # the folds' tolerance where variances are dear: λ is small beside the score's error,
COARSEST = 30  # and smaller yet with
HUNDREDS = 700  # nonzero coefficients,
ROWS = 20  # where there are so many rows for each;
LOOSEST = 0.1  # of λ: no multiple of a tolerance is more
UNIT = 1e-5  # of the tolerance, without λ: the unit is the score's standard error then,
ADAPTIVE = 1e-2  # far coarser than λ near the best one; an adaptive prior's goes by coefficients
FULL = 0.1  # of it: how far the fit of all rows goes, which tells where the folds are


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
    """

    tol: float
    selects: bool
    adaptive: bool
    rows: int
    columns: int

    def owed(self, nonzero: int) -> float:
        """What a fold's fit has to reach, with so many coefficients that are not zero."""
        if not self.selects:
            return self.tol * (ADAPTIVE if self.adaptive else UNIT)
        if nonzero <= DEAR or self._small:
            return self.tol
        smallest = nonzero > HUNDREDS and self.rows > ROWS * nonzero
        return max(self.tol, min(self.tol * (COARSEST if smallest else COARSER), LOOSEST))

    def folds(self, nonzero: int) -> float:
        """What it is solved to."""
        return self.owed(nonzero) * (FINER if self.selects and self._small else 1.0)

    def full(self, nonzero: int) -> float:
        """What the fit of all rows is solved to."""
        return FULL * self.folds(nonzero)

    @property
    def _small(self) -> bool:
        return self.rows * self.columns <= SMALL
