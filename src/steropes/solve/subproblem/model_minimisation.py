"""Minimisation of the replicates' models by coordinate descent and Newton steps on the support.

Coordinate descent quickly finds which coefficients are zero, but it is slow along correlated
columns, where thousands move a little in the same direction for many sweeps. Its sweeps therefore
alternate with Newton steps on the support (`support_steps`), in which coefficients stop at zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...backends.array_namespace import to_host
from ...backends.backend_interface import Array
from ...backends.reductions_of_tall_arrays import (
    column_any,
    column_max,
    column_sum,
    columns,
    row_any,
    row_max,
    row_min,
)
from ..optimality.optimality_certificate import violations
from .conjugate_gradients import support_steps
from .fixed_sign_minimum import fixed_sign_minimum
from .low_rank_hessian_terms import LowRank
from .preconditioners.preconditioner_choice import PreconditionerCache
from .reduced_hessian import Part, ReducedHessian

__all__ = ["Minimiser", "ModelBatch"]


@dataclass
class ModelBatch:
    """The replicates' models  g'(y−y₀) + ½ (y−y₀)'(A + low)(y−y₀) + Σ l1|y| + ½ Σ l2 y².

    Arrays are (k, B) except ``tolerance`` (B,); ``y`` holds y₀. Those of ``g`` to ``low`` are on a
    device if the solver keeps them there.
    """

    g: Array
    y: Array
    l1: Array
    l2: Array
    unit: Array
    low: LowRank
    tolerance: np.ndarray

    def only(self, at: np.ndarray) -> ModelBatch:
        """Return the models of some coordinates, with the others fixed."""
        return ModelBatch(
            self.g[at], self.y[at], self.l1[at], self.l2[at], self.unit[at], self.low.only(at),
            self.tolerance,
        )  # fmt: skip

    def on_host(self) -> ModelBatch:
        """Return the models with arrays of the host."""
        g, y, l1, l2, unit = map(to_host, (self.g, self.y, self.l1, self.l2, self.unit))
        return ModelBatch(g, y, l1, l2, unit, self.low.on_host(), self.tolerance)

    def slopes(self, shared: ReducedHessian, D: np.ndarray) -> np.ndarray:
        """Compute slopes of the smooth terms at y₀ + D, (k, B)."""
        return self.g + shared.times(D) + self.low.product(D) + self.l2 * (self.y + D)


class Minimiser:
    """The state of a minimisation.

    Attributes
    ----------
    y : (k, B) array
        The point.
    s : (k, B) array
        Slopes of the smooth terms at the point.

    Parameters
    ----------
    at : (k,) int array
        The coordinates of ``factors`` that these are.
    start : (k, B) array, optional
        The initial step from ``models.y``.
    alone : bool
        Whether no other replicate uses the factors.
    """

    def __init__(
        self,
        shared: ReducedHessian,
        models: ModelBatch,
        factors: PreconditionerCache,
        at: np.ndarray,
        start: np.ndarray | None = None,
        alone: bool = False,
    ) -> None:
        self.shared, self.m, self.factors, self.at = shared, models, factors, at
        self.alone, self.policy = alone, shared.policy
        self._part: Part | None = None  # The submatrix of the supports.
        if start is None:
            self.y = models.y.copy()
            self.s = models.g + models.l2 * models.y
        else:
            self.y = models.y + start
            self.s = models.slopes(shared, start)
        self.h = shared.diagonal[:, None] + models.l2 + models.low.diagonal()
        self._sweeps = shared.sweeps(models.low)
        self._zero_flat_coordinates()

    def run(self) -> np.ndarray:
        """Return y − y₀ at the minimum, or where further rounds are not worthwhile."""
        m, policy = self.m, self.policy
        first = self._violation()
        violation = np.full(self.y.shape[1], np.inf)  # At least one sweep is made.
        settled = violation  # The violation before the last Newton step.
        share, stalls = 0.0, np.zeros(len(first), np.int64)
        for r in range(policy.max_rounds):
            live = violation > m.tolerance
            if not live.any():
                break
            self._sweep(live, share * np.where(np.isfinite(violation), violation, 0.0))
            if (r + 1) % policy.refresh_rounds == 0:
                self._refresh()
            before, violation = violation, self._violation()
            live = violation > m.tolerance
            if not live.any():
                break
            most = policy.max_sweeps if len(live) > 1 else policy.max_sweeps_alone
            if (_sweeps_left(before[live], violation[live], m.tolerance[live]) > most).any():
                stalled = live & (violation > policy.slow_contraction * settled)
                settled = violation
                stalls = np.where(stalled, stalls + 1, 0)
                dear = self._expensive(stalled)
                if not self._exactly_solvable(stalled):
                    self._newton(live, violation)
                elif dear and (violation <= policy.sufficient_share * first)[live].all():
                    break  # The rest costs more than another step of the driver.
                elif dear and stalls.max() < policy.slow_rounds:
                    self._newton(live, violation)
                else:
                    self._minimise_exactly(stalled)
                violation = self._violation()
                share = policy.resting_share
        return self.y - self.m.y

    def _zero_flat_coordinates(self) -> None:
        """Set penalised coefficients without curvature to zero, such as those absent in a fold."""
        m = self.m
        flat = (self.h <= 0) & (self.y != 0) & (np.abs(self.s) < m.l1)
        if flat.any():
            self.y = np.where(flat, 0.0, self.y)
            self._refresh()

    def _violation(self) -> np.ndarray:
        """Compute each replicate's largest violation, in units, (B,)."""
        nothing = np.zeros(1)  # The slopes include the ℓ2 part.
        v = violations(self.s, self.y, self.m.l1, nothing) / self.m.unit
        return column_max(np.where(self.h > 0, v, 0.0))

    def _refresh(self) -> None:
        """Recompute the slopes to remove accumulated rounding errors."""
        self.s = self.m.slopes(self.shared, self.y - self.m.y)

    def _sweep(self, live: np.ndarray, rest: np.ndarray) -> None:
        """Sweep over coordinates of the live replicates that violate by more than ``rest`` (B,).

        After a Newton step most violations are far below the largest, and moving all of them takes
        most of a sweep's time.
        """
        m = self.m
        self._sweeps.run(self.s, self.y, np.where(live, self.h, 0.0), m.l1, m.l2, rest * m.unit)

    def linear_step(self, left: float) -> np.ndarray:
        """Compute the Newton step for the current signs, to a relative residual ``left``."""
        lanes = np.arange(self.y.shape[1])
        step, _ = self._support_step(lanes, np.full(len(lanes), left))
        return step

    def _newton(self, live: np.ndarray, violation: np.ndarray) -> None:
        """Take a Newton step for the current signs; coefficients that would cross zero stop there.

        Its accuracy depends on how well the signs are known.
        """
        lanes, policy = np.flatnonzero(live), self.policy
        rough, fine = policy.rough_residual, policy.fine_residual
        wanted = policy.residual_share * self.m.tolerance[lanes] / violation[lanes]
        through = np.clip(wanted, fine, rough)
        exact = np.where(violation[lanes] < policy.ready_violation, through, rough)
        step, change = self._support_step(lanes, exact)
        if len(lanes) < self.y.shape[1]:
            p, Hp = np.zeros(self.y.shape), np.zeros(self.y.shape)
            p[:, lanes], Hp[:, lanes] = step, change
            step, change = p, Hp
        self._along(step, change, live)

    def _support_step(self, lanes: np.ndarray, exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute Newton steps (k, len(lanes)) of some replicates and changes of the slopes."""
        m, y, policy = self.m, self.y, self.policy
        own, l1, l2, h = (columns(x, lanes) for x in (y, m.l1, m.l2, self.h))
        support = ((own != 0) | (l1 == 0)) & (h > 0)
        union = np.flatnonzero(row_any(support))
        if len(union) == 0:
            return np.zeros(own.shape), np.zeros(own.shape)
        size = row_min(np.abs(y)) * np.sqrt(np.maximum(row_max(self.h), 0.0))
        mine = self.at, support, size, l2
        self.factors.prepare(*mine, alone=self.alone)
        self._part = part = self.shared.taken(union, self._part, policy.max_support_share)
        whole = len(part.at) == len(y)

        def here(x: np.ndarray) -> np.ndarray:
            return x if whole else x[part.at]

        slopes, unit = columns(self.s, lanes), columns(m.unit, lanes)
        support, l2, low = here(support), here(l2), m.low.lanes(lanes)
        step, change, iterations = support_steps(
            part.shared, low if whole else low.only(part.at), l2, support,
            -here(slopes + l1 * np.sign(own)),
            policy.residual_share * m.tolerance[lanes] * here(unit),
            self.factors.inverse(here(self.at), support, l2, here(h)), exact,
        )  # fmt: skip
        # Iterations are converted to those of a rough solution, as they are proportional to digits.
        rough = iterations * np.log(policy.rough_residual) / np.log(exact.min())
        self.factors.record_iterations(round(rough), *mine)
        if whole:
            return step, change
        p = np.zeros(own.shape)
        p[part.at] = step
        return p, self._product(p, lanes)

    def _size(self, lanes: np.ndarray) -> int:
        """Return the size of the largest of some supports."""
        return int((self.y[:, lanes] != 0).sum(axis=0).max(initial=0))

    def _exactly_solvable(self, lanes: np.ndarray) -> bool:
        """Return whether supports are small enough for exact solutions, one by one."""
        return bool(lanes.any()) and self._size(lanes) < self.shared.solvable

    def _expensive(self, lanes: np.ndarray) -> bool:
        """Return whether exact solutions take longer than the rest of a driver's step."""
        return self._size(lanes) > self.policy.dear_support

    def _minimise_exactly(self, lanes: np.ndarray) -> None:
        """Minimise some replicates' models exactly for their current signs."""
        m = self.m

        def one(b: int) -> np.ndarray:
            low = m.low.lanes([b])
            return fixed_sign_minimum(
                self.shared, low, m.l1[:, b], m.l2[:, b], self.y[:, b], self.s[:, b]
            )

        at = [int(b) for b in np.flatnonzero(lanes)]
        for b, y in zip(at, self.shared.pool.map(one, [(b,) for b in at]), strict=True):
            self.y[:, b] = y
        self._refresh()

    def _product(self, D: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Multiply some models' matrices by D (k, len(lanes))."""
        m = self.m
        return self.shared.times(D) + m.low.lanes(lanes).product(D) + columns(m.l2, lanes) * D

    def _along(self, p: np.ndarray, Hp: np.ndarray, live: np.ndarray) -> None:
        """Take the longest of some steps along p that lowers each replicate's model.

        ``Hp`` is the product of the models' matrices with p. It is corrected for
        coordinates that stop at zero.
        """
        m, y, everyone = self.m, self.y, np.arange(self.y.shape[1])
        step = np.where(live, 1.0, 0.0)
        chosen = np.zeros(y.shape)
        change = np.zeros(y.shape)  # Change of the slopes.
        waiting = live.copy()
        for _ in range(self.policy.max_cuts):
            new = y + step * p
            new[(new * y < 0) & (m.l1 > 0)] = 0.0
            D, whole = np.where(waiting, new - y, 0.0), np.where(waiting, step, 0.0)
            stopped = np.where(new == 0.0, D - whole * p, 0.0)
            largest = self.policy.max_cancellation * np.abs(D).max(initial=0.0)
            if np.abs(stopped).max(initial=0.0) > largest:
                # The difference of two long steps would consist of rounding errors.
                HD = self._product(D, everyone)
            else:
                HD = whole * Hp
                some = np.flatnonzero(column_any(stopped))
                if len(some):
                    HD[:, some] += self._product(columns(stopped, some), some)
            gain = column_sum(self.s * D + 0.5 * D * HD + m.l1 * (np.abs(y + D) - np.abs(y)))
            good = waiting & (gain < 0)
            chosen, change = np.where(good, D, chosen), np.where(good, HD, change)
            waiting &= ~good
            if not waiting.any():
                break
            step = step * self.policy.cut_factor
        gone = chosen == -y
        self.y = y + chosen
        self.y[gone] = 0.0
        self.s = self.s + change


def _sweeps_left(before: np.ndarray, now: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Estimate how many more sweeps replicates need at the contraction of the last one."""
    with np.errstate(divide="ignore"):  # The rate is unknown before the first sweep.
        rate = np.log(np.minimum(now / before, 1.0))
        return np.where(rate < 0, np.log(tolerance / now) / rate, np.inf)
