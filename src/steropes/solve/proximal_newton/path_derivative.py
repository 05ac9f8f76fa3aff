"""The derivative of the replicates' optima with respect to their penalties.

If λ and κ depend on a number v, the nonzero coefficients of an optimum satisfy

    (H + κ) dβ/dv = −(dλ/dv sign β + dκ/dv β),

and the others stay zero (Bertrand, Klopfenstein, Massias, Blondel, Vaiter, Gramfort and Salmon
2022, JMLR 23:149, on derivatives of held-out scores). The Hessian of the quadratic models is only
approximate. Further steps, from the gradients at the end of the first, remove its error.
"""

from __future__ import annotations

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import map_rows
from ...backends.reductions_of_tall_arrays import column_max, column_sum
from ..current_iterates import Iterate
from ..data_term import DataTerm
from ..elastic_net_penalty import ElasticNetPenalty
from ..solver_constants import DEFAULT, StepPolicy
from .hessian_damping import Damping
from .step_phases import Curvatures, minima

__all__ = ["Response"]

# This multiple of λ keeps a coefficient at zero.
FIXING_MULTIPLE = 1e6


class Response:
    """First-order movement of nearly optimal points when their penalties change.

    The losses are tilted so that their optima are exactly at the starting points, whatever
    violations these have.

    Parameters
    ----------
    term, point
        The current points. Their objective is no longer known once they move.
    now, then : ElasticNetPenalty
        The penalties, which differ little.
    unit : (k, lanes) array
        Size of one unit of violation of each column of the working set.
    """

    def __init__(
        self, term: DataTerm, point: Iterate, now: ElasticNetPenalty,
        then: ElasticNetPenalty, curvatures: Curvatures, unit: Array,
        policy: StepPolicy = DEFAULT.step,
    ) -> None:  # fmt: skip
        W, beta = term.W, point.beta[term.W]
        xp = array_namespace(beta)
        self.term, self.point, self.curvatures, self.unit = term, point, curvatures, unit
        self.policy = policy
        self.l2, self.free = then.l2[W], now.free[W]
        self.lasso = now.lasso
        moving = (beta != 0) | (now.l1[W] == 0)
        # λ of coefficients that stay zero.
        self.held = xp.where(moving, 0.0, FIXING_MULTIPLE * now.l1[W])
        # The constant part of the new penalties' slopes, and the tilt that makes the start optimal.
        tilt = (then.l1[W] - now.l1[W]) * xp.sign(beta) - now.l2[W] * beta - term.gradient()
        self.tilt = xp.where(moving, tilt, -term.gradient())
        self.first = np.sqrt(column_sum(self._violation() ** 2))
        self.enough = policy.derivative_share * self.first

    @property
    def diverged(self) -> bool:
        """Whether violations have grown, because the shared Hessian is too inaccurate.

        The points are then not on the path of the optima.
        """
        size = np.sqrt(column_sum(self._violation() ** 2))
        return bool((size > self.first).any())

    def step(self) -> bool:
        """Take a step; return whether one was needed."""
        term, point = self.term, self.point
        v = self._violation()
        todo: np.ndarray = np.sqrt(column_sum(v * v)) > self.enough
        if not todo.any():
            return False
        aim = self.policy.derivative_step_share * column_max(v)
        live = [int(b) for b in np.flatnonzero(todo[: term.B])]
        # A linear system: models at zero of coefficients that have a ridge or stay zero.
        zero = array_namespace(self.l2).zeros(self.l2.shape)
        models = self._slopes(), zero, self.held, self.l2
        D, _ = minima(term, models, self.free, self.curvatures, Damping(term.lanes, self.policy),
                      live, self.unit, aim, linear=self.lasso)  # fmt: skip
        trial = term.along(D, todo)
        trial.loss(np.ones(term.lanes))
        trial.commit()
        point.move(term.W, point.beta[term.W] + D)
        return True

    def _slopes(self) -> Array:
        """Compute the slopes (k, lanes) that vanish at the new optima, for the signs at first."""
        term, beta = self.term, self.point.beta[self.term.W]
        xp = array_namespace(beta)

        def slopes(g: Array, tilt: Array, l2: Array, beta: Array, held: Array) -> tuple[Array]:
            return (xp.where(held > 0, 0.0, g + tilt + l2 * beta),)

        return map_rows(term.pool, slopes, term.gradient(), self.tilt, self.l2, beta, self.held)[0]

    def _violation(self) -> Array:
        """Return the size of the slopes in units of violation."""
        size = map_rows(self.term.pool, lambda s, u: (abs(s / u),), self._slopes(), self.unit)
        return size[0]
