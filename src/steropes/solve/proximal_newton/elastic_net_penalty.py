"""The separable penalty of a batch: ℓ1 and squared ℓ2 terms of each coefficient and replicate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...backends.row_blocks import map_rows
from ...backends.tall_reductions import column_sum, row_any
from ...backends.thread_pool import ThreadPool
from ...priors import INFINITE_PENALTY
from ..solver_constants import DEFAULT, WorkingSetPolicy

__all__ = ["ElasticNetPenalty", "continuation_factors"]


@dataclass(frozen=True)
class ElasticNetPenalty:
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
    _last: dict[str, tuple[np.ndarray, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, l1: np.ndarray, l2: np.ndarray, scale: np.ndarray, B: int, lanes: int
    ) -> ElasticNetPenalty:
        """Convert penalties (p,) or (p, B) of columns in X's units."""
        with np.errstate(over="ignore"):  # An infinite penalty stays infinite in any unit.
            first = np.minimum(
                _in_lanes(np.asarray(l1, np.float64), scale, B, lanes), INFINITE_PENALTY
            )
        second = _in_lanes(np.asarray(l2, np.float64), scale**2, B, lanes)
        some = np.logical_or(row_any(first), row_any(second))
        return cls(first, second, np.logical_not(some))

    @cached_property
    def lasso(self) -> bool:
        """Whether the penalty has an ℓ1 term."""
        return bool((self.l1 > 0).any())

    def times(self, factor: float) -> ElasticNetPenalty:
        """Return the penalty multiplied by a factor."""
        return ElasticNetPenalty(factor * self.l1, factor * self.l2, self.free)

    def within(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return l1 and l2 of the columns W, (k, lanes), which are kept until others are asked for.

        The arrays are not writable.
        """
        if "W" not in self._last or self._last["W"][0] is not W:
            l1, l2 = self.l1[W], self.l2[W]
            l1.flags.writeable = l2.flags.writeable = False
            self._last["W"] = W, l1, l2
        _, l1, l2 = self._last["W"]
        return l1, l2

    def value(self, beta: np.ndarray, W: np.ndarray, pool: ThreadPool | None = None) -> np.ndarray:
        """Evaluate at coefficients (k, lanes) of the columns W, with others zero, (lanes,)."""

        def terms(beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> tuple[np.ndarray]:
            return (l1 * np.abs(beta) + 0.5 * l2 * beta * beta,)

        with np.errstate(over="ignore"):  # An infinite value shortens the step.
            return column_sum(map_rows(pool, terms, beta, *self.within(W))[0])


def _in_lanes(penalty: np.ndarray, unit: np.ndarray, B: int, lanes: int) -> np.ndarray:
    """Divide penalties by the columns' units, and pad them to lanes with the first replicate's."""
    if penalty.ndim == 1:
        penalty = penalty[:, None]
    scaled = penalty / unit[:, None]
    out = np.empty((len(penalty), lanes))
    out[:, :B] = scaled
    out[:, B:] = scaled[:, :1]
    return out


def continuation_factors(
    strongest: float, policy: WorkingSetPolicy = DEFAULT.working_set
) -> list[float]:
    """Return decreasing factors of stronger penalties that lead to the requested one.

    ``strongest`` is the factor at which all coefficients would be zero.
    """
    factors: list[float] = []
    factor = policy.near_ratio
    while factor < strongest:
        factors.append(factor)
        near = len(factors) < policy.near_penalties
        factor *= policy.near_ratio if near else policy.far_ratio
    return factors[::-1]
