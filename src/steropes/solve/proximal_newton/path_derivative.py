"""How optima move with their penalties, to first order.

Where λ and κ depend on a number v, the coefficients of an optimum that are not zero satisfy

    (H + κ) dβ/dv = −(dλ/dv sign β + dκ/dv β),

and those that are zero stay there (Bertrand, Klopfenstein, Massias, Blondel, Vaiter, Gramfort and
Salmon 2022, JMLR 23:149, on derivatives of held-out scores). The models of a step know H nearly:
its error is taken out by more steps, from the gradients where the first one led.
"""

from __future__ import annotations

import numpy as np

from ...backends.tall_reductions import column_max, column_sum
from ..data_term import DataTerm
from .damping import Damping
from .elastic_net_penalty import ElasticNetPenalty
from .iterate import Iterate
from .step import Curvatures, minima

__all__ = ["Response"]

DONE = 0.05  # of the violations at first: with so much left they are there
INFINITE_PENALTY = 1e6  # times λ: nothing moves that
PRECISION = 0.3  # of the largest that is left: to what a step is solved


class Response:
    """First-order movement of nearly optimal points when their penalties change.

    The losses are tilted so that their optima are exactly at the starting points, whatever these
    violate.

    Parameters
    ----------
    term, point
        Where the replicates are; the objective is no longer known once they move.
    now, then : ElasticNetPenalty
        Which differ little.
    curvatures : Curvatures
    unit : (k, lanes) array
        Size of one unit of violation of each column of the working set.
    """

    def __init__(
        self, term: DataTerm, point: Iterate, now: ElasticNetPenalty,
        then: ElasticNetPenalty, curvatures: Curvatures, unit: np.ndarray,
    ) -> None:  # fmt: skip
        W, beta = term.W, point.beta[term.W]
        self.term, self.point, self.curvatures, self.unit = term, point, curvatures, unit
        self.l2, self.free = then.l2[W], now.free[W]
        self.lasso = now.lasso
        there = (beta != 0) | (now.l1[W] == 0)
        self.held = np.where(
            there, 0.0, INFINITE_PENALTY * now.l1[W]
        )  # λ of those that are zero and stay so
        # Slopes of the penalties then that do not move, and what makes the start an optimum now.
        tilt = (then.l1[W] - now.l1[W]) * np.sign(beta) - now.l2[W] * beta - term.gradient()
        self.tilt = np.where(there, tilt, -term.gradient())
        self.first = np.sqrt(column_sum(self._violation() ** 2))
        self.enough = DONE * self.first

    @property
    def diverged(self) -> bool:
        """Whether violations have grown, as they do where the shared Hessian is far off.

        The points are then not where the optima move.
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
        aim = PRECISION * column_max(v)
        live = [int(b) for b in np.flatnonzero(todo[: term.B])]
        # A linear system: models at zero of coefficients that have a penalty in ℓ2, or stay there.
        models = self._slopes(), np.zeros(self.l2.shape), self.held, self.l2
        D, _ = minima(term, models, self.free, self.curvatures, Damping(term.lanes), live,
                      self.unit, aim, linear=self.lasso)  # fmt: skip
        trial = term.along(D, todo)
        trial.loss(np.ones(term.lanes))
        trial.commit()
        point.move(term.W, point.beta[term.W] + D)
        return True

    def _slopes(self) -> np.ndarray:
        """What is to be zero, (k, lanes): signs are those of the start."""
        beta = self.point.beta[self.term.W]
        slopes: np.ndarray = self.term.gradient() + self.tilt + self.l2 * beta
        slopes[self.held > 0] = 0.0
        return slopes

    def _violation(self) -> np.ndarray:
        return np.abs(self._slopes() / self.unit)
