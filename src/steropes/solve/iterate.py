"""Where the replicates are, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..backends.tall_reductions import column_sum, row_any
from ..priors import INFINITE_PENALTY

__all__ = ["Penalty", "Point", "on_the_way"]

SOFTER = 1.7  # ratio of one penalty on the way to the next,
SLOWLY = 3  # for so many; before, with few columns, it is
FAST = 6.0


@dataclass
class Point:
    """The replicates' points.

    Attributes
    ----------
    beta : (p, lanes) array
        In the scaled columns.
    objective : (lanes,) array
        Loss and penalty.
    gradients : (p, lanes) array or None
        Of the loss over all columns, where they are known at these points.
    steps : (lanes,) int array
        Steps so far.
    """

    beta: np.ndarray
    objective: np.ndarray
    gradients: np.ndarray | None
    steps: np.ndarray

    @classmethod
    def zero(cls, p: int, lanes: int) -> Point:
        """All coefficients at zero."""
        return cls(np.zeros((p, lanes)), np.zeros(lanes), None, np.zeros(lanes, np.int64))

    def place(self, beta: np.ndarray) -> None:
        """Be at coefficients (p, B); lanes without a replicate stay where they are."""
        self.beta[:, : beta.shape[1]] = beta
        self.gradients = None

    def move(self, W: np.ndarray, beta: np.ndarray, objective: np.ndarray | None = None) -> None:
        """Be at coefficients (k, lanes) of the columns W; None for an objective nobody asks for."""
        self.beta[W] = beta
        self.gradients = None
        if objective is not None:
            self.objective = objective

    def begin(self) -> None:
        """Count steps anew."""
        self.steps[:] = 0

    def stepped(self, lanes: np.ndarray) -> None:
        """Count a step of some replicates, (lanes,) bool."""
        self.steps += lanes


@dataclass(frozen=True)
class Penalty:
    """Σ_j l1_j |β_j| + ½ l2_j β_j² of each replicate, in the scaled columns.

    Attributes
    ----------
    l1, l2 : (p, lanes) arrays
    free : (p,) bool array
        Columns without any penalty.
    """

    l1: np.ndarray
    l2: np.ndarray
    free: np.ndarray

    @classmethod
    def of(cls, l1: np.ndarray, l2: np.ndarray, scale: np.ndarray, B: int, lanes: int) -> Penalty:
        """Penalties (p,) or (p, B) of columns in X's units."""
        with np.errstate(over="ignore"):  # what is held stays so in a column of any unit
            first = np.minimum(
                _in_lanes(np.asarray(l1, np.float64), scale, B, lanes), INFINITE_PENALTY
            )
        second = _in_lanes(np.asarray(l2, np.float64), scale**2, B, lanes)
        some = np.logical_or(row_any(first), row_any(second))
        return cls(first, second, np.logical_not(some))

    @cached_property
    def lasso(self) -> bool:
        """Whether any of it is in ℓ1."""
        return bool((self.l1 > 0).any())

    def times(self, factor: float) -> Penalty:
        """A stronger or weaker penalty of the same form."""
        return Penalty(factor * self.l1, factor * self.l2, self.free)

    def value(self, beta: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Of coefficients (k, lanes) of the columns W, the others being zero: (lanes,)."""
        with np.errstate(over="ignore"):  # an infinite value makes the line search step back
            return column_sum(self.l1[W] * np.abs(beta) + 0.5 * self.l2[W] * beta * beta)


def _in_lanes(penalty: np.ndarray, unit: np.ndarray, B: int, lanes: int) -> np.ndarray:
    if penalty.ndim == 1:
        penalty = penalty[:, None]
    scaled = penalty / unit[:, None]
    out = np.empty((len(penalty), lanes))
    out[:, :B] = scaled
    out[:, B:] = scaled[:, :1]
    return out


def on_the_way(strongest: float) -> list[float]:
    """Factors of the penalties on the way from one that is so much stronger, largest first."""
    factors: list[float] = []
    factor = SOFTER
    while factor < strongest:
        factors.append(factor)
        factor *= SOFTER if len(factors) < SLOWLY else FAST
    return factors[::-1]
