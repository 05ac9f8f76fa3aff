"""The separable penalty of a batch: ℓ1 and squared ℓ2 terms of each coefficient and replicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..backends.array_namespace import array_namespace
from ..backends.backend_interface import Array
from ..backends.elementwise_row_blocks import map_rows
from ..backends.reductions_of_tall_arrays import column_sum, row_any
from ..backends.thread_pool import ThreadPool
from ..priors import INFINITE_PENALTY
from .solver_constants import DEFAULT, WorkingSetPolicy

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

    l1: Array
    l2: Array
    free: np.ndarray
    _last: dict[str, tuple[Array, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, l1: np.ndarray, l2: np.ndarray, scale: np.ndarray, B: int, lanes: int,
        here: Callable[[np.ndarray], Array] = np.asarray,
    ) -> ElasticNetPenalty:  # fmt: skip
        """Convert penalties (p,) or (p, B) of columns in X's units.

        ``here`` transfers them to where the coefficients are; see `DataTerm.asarray`.
        """
        with np.errstate(over="ignore"):  # An infinite penalty stays infinite in any unit.
            first = np.minimum(_scaled(l1, scale), INFINITE_PENALTY)
        second = _scaled(l2, scale**2)
        free = np.logical_not(np.logical_or(row_any(first), row_any(second)))
        return cls(_in_lanes(here(first), B, lanes), _in_lanes(here(second), B, lanes), free)

    @cached_property
    def some_l1(self) -> np.ndarray:
        """Whether each column has an ℓ1 term in some replicate, (p,)."""
        return row_any(self.l1 > 0)

    @cached_property
    def every_l1(self) -> np.ndarray:
        """Whether each column has an ℓ1 term in all replicates, (p,)."""
        return np.logical_not(row_any(self.l1 == 0))

    @cached_property
    def lasso(self) -> bool:
        """Whether the penalty has an ℓ1 term."""
        return bool(self.some_l1.any())

    def times(self, factor: float) -> ElasticNetPenalty:
        """Return the penalty multiplied by a factor."""
        return ElasticNetPenalty(factor * self.l1, factor * self.l2, self.free)

    def within(self, W: np.ndarray) -> tuple[Array, Array]:
        """Return l1 and l2 of the columns W, (k, lanes), which are kept until others are asked for.

        They must not be changed; arrays of the host are not writable.
        """
        if "W" not in self._last or self._last["W"][0] is not W:
            l1, l2 = self.l1[W], self.l2[W]
            if isinstance(l1, np.ndarray):
                l1.flags.writeable = l2.flags.writeable = False
            self._last["W"] = W, l1, l2
        _, l1, l2 = self._last["W"]
        return l1, l2

    def value(self, beta: Array, W: np.ndarray, pool: ThreadPool | None = None) -> np.ndarray:
        """Evaluate at coefficients (k, lanes) of the columns W, with others zero, (lanes,)."""

        def terms(beta: Array, l1: Array, l2: Array) -> tuple[Array]:
            return (l1 * abs(beta) + 0.5 * l2 * beta * beta,)

        with np.errstate(over="ignore"):  # An infinite value shortens the step.
            return column_sum(map_rows(pool, terms, beta, *self.within(W))[0])


def _scaled(penalty: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Divide penalties (p,) or (p, B) by the columns' units; the result is (p, 1) or (p, B)."""
    whole = np.asarray(penalty, np.float64)
    return (whole[:, None] if whole.ndim == 1 else whole) / unit[:, None]


def _in_lanes(penalty: Array, B: int, lanes: int) -> Array:
    """Repeat penalties (p, 1), or pad those of replicates (p, B) with the first one's."""
    out = array_namespace(penalty).zeros((len(penalty), lanes))
    out[:, :B] = penalty
    out[:, B:] = penalty[:, :1]
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
