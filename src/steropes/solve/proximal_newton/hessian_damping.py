"""Damping: curvature added to a quadratic model that approximates the loss poorly."""

from __future__ import annotations

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import map_rows
from ...backends.reductions_of_tall_arrays import column_any
from ...backends.thread_pool import ThreadPool
from ..optimality.optimality_certificate import violations
from ..solver_constants import DEFAULT, StepPolicy

__all__ = ["Damping"]


class Damping:
    """Damping of each replicate, and limits of its steps.

    A replicate with a step that failed to descend is damped in all coordinates (Levenberg 1944,
    Marquardt 1963), ten times as much after each failure and a tenth after each success. Steps of
    columns without penalty are limited. The limit is doubled after a step that it shortened and
    that was then taken whole, because large columns that nearly cancel have large coefficients.

    Attributes
    ----------
    level : (lanes,) array
        Damping relative to the curvature.
    room : (lanes,) array
        Limit for columns without penalty, relative to its least value.
    stretch : (lanes,) array
        Limit for other columns, in trust radii. A column of unit size may be tiny except in one
        row, which may have no weight in a replicate; its coefficient is then thousands of radii
        away.
    """

    def __init__(self, lanes: int, policy: StepPolicy = DEFAULT.step) -> None:
        self.policy = policy
        self.level = np.zeros(lanes)
        self.room, self.stretch = np.ones(lanes), np.ones(lanes)
        self._short = np.zeros(lanes, bool)  # Whether the trust radius limited the last step.
        self._times = np.zeros(lanes, np.int64)  # Number of limited whole steps in a row.

    def stepped(self, held: np.ndarray, t: np.ndarray) -> None:
        """Adapt the limits after steps of length t (lanes,); ``held`` marks shortened ones."""
        policy = self.policy
        factor = np.where(t == 1.0, 2.0, np.where(t > 0, 0.5, 1.0))
        self.room = np.maximum(1.0, np.where(held, factor, 1.0) * self.room)
        self._times = np.where(self._short & (t == 1.0), self._times + 1, 0)
        shrink = np.where(self._short & (t < 1.0), 0.5, 1.0)
        factor = np.where(self._times > policy.patient_steps, 2.0, shrink)
        self.stretch = np.clip(factor * self.stretch, 1.0, policy.max_stretch)
        self._short[:] = False

    def hopeless(self, failed: np.ndarray) -> np.ndarray:
        """Return which of the failed replicates already have the strongest damping."""
        return failed & (self.level >= self.policy.max_damping)

    def failed(self, lanes: np.ndarray) -> None:
        """Increase the damping of replicates with a step that found no descent."""
        self.level[lanes] = np.maximum(1.0, 10 * self.level[lanes])

    def moved(self, lanes: np.ndarray) -> None:
        """Reduce the damping of replicates that moved."""
        self.level[lanes] *= np.where(self.level[lanes] > 0.1, 0.1, 0.0)

    def added(
        self, lanes: np.ndarray | list[int], h: Array, g: Array, beta: Array,
        l1: Array, l2: Array, trust_radius: float, pool: ThreadPool | None = None,
    ) -> Array | None:  # fmt: skip
        """Return the curvature to add so that no coefficient leaves the trust region.

        A rare column may have hardly any curvature: its ones may be in rows of a fold, and exp may
        have underflowed. Alone it would step by its violation over its curvature. Under an ℓ1
        penalty this is limited to ``trust_radius`` times ``stretch``. Near the optimum there is no
        violation and nothing is added.

        Parameters
        ----------
        h, g, beta, l1, l2 : (k, len(lanes)) arrays
            Curvature and gradient of the loss, coefficients, penalties.
        trust_radius : float
            See `DataTerm`.

        Returns
        -------
        array like h, or None if nothing is added
        """
        xp = array_namespace(g)
        limited = bool(l1.any()) and np.isfinite(trust_radius)
        if not limited and not self.level[lanes].any():
            return None
        level, reach = xp.asarray(self.level[lanes]), xp.asarray(trust_radius * self.stretch[lanes])

        def needed(h: Array, g: Array, beta: Array, l1: Array, l2: Array) -> tuple[Array, Array]:
            curve = h + l2
            mu = level * xp.maximum(curve, 0.0)
            if not limited:
                return mu, mu > 0
            least = violations(g, beta, l1, l2) / reach
            return xp.maximum(mu, least - curve), least > curve

        mu, short = map_rows(pool, needed, h, g, beta, l1, l2)
        if limited:
            self._short[lanes] = column_any(short)
        return mu if (mu > 0).any() else None
