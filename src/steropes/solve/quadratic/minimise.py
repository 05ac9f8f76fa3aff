"""The minima of replicates' models: coordinate descent finds the support, Newton the values.

Coordinate descent is quick to tell which coefficients are zero and slow along correlated columns,
of which thousands move a little, all the same way, for a long time. So its sweeps take turns with
a Newton step on the support (`support_steps`), along which coefficients stop at zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...backends.tall import column_any, column_max, column_sum, columns, row_any, row_max, row_min
from ..certificate import violations
from .fixed_sign_minimum import fixed_sign_minimum
from .low_rank import LowRank
from .preconditioner_cache import PreconditionerCache
from .reduced_matrix import Part, ReducedMatrix
from .support_newton import support_steps

__all__ = ["Minimiser", "ModelBatch"]

EXACT = 5  # rounds between two products that free the slopes of what roundings add up to
ROUNDS = 40
READY = 0.02  # A Newton step that starts from a smaller violation is solved through.
SWEEPS = 6  # as many more, at the rate of the last, cost no more than a Newton step
SWEEPS_ALONE = 2  # the same of a single replicate, whose sweeps others help little with
SLOW = 0.5  # contraction in a round with a Newton step from which its system is solved exactly,
DEAR = 150  # which is dear with more columns than that: it is left to the driver's next step
EASY = 0.7  # if the violation is no more than such a share of the first one; or else the step is
PATIENCE = 2  # made again before, until so many rounds in a row were slow
WORTH = 0.35  # share of the coordinates from which on supports' products are with the whole matrix
CUTS = 5  # times that a Newton step is shortened
SHORTER = 0.4
FAR = 4.0
CLOSE = 0.5  # of the tolerance: a residual that no more is done about
ROUGH, FINE = 0.2, 1e-3  # of a residual: as far as a Newton step is solved


@dataclass
class ModelBatch:
    """The replicates' models  g'(y−y₀) + ½ (y−y₀)'(A + low)(y−y₀) + Σ l1|y| + ½ Σ l2 y².

    All (k, B) but for ``tolerance`` (B,); ``y`` holds y₀.
    """

    g: np.ndarray
    y: np.ndarray
    l1: np.ndarray
    l2: np.ndarray
    unit: np.ndarray
    low: LowRank
    tolerance: np.ndarray

    def only(self, at: np.ndarray) -> ModelBatch:
        """The models of some coordinates, the others staying where they are."""
        return ModelBatch(
            self.g[at], self.y[at], self.l1[at], self.l2[at], self.unit[at], self.low.only(at),
            self.tolerance,
        )  # fmt: skip

    def slopes(self, shared: ReducedMatrix, D: np.ndarray) -> np.ndarray:
        """Slopes of the smooth terms at y₀ + D, (k, B)."""
        return self.g + shared.times(D) + self.low.product(D) + self.l2 * (self.y + D)


class Minimiser:
    """State of a search.

    Attributes
    ----------
    y : (k, B) array
        The point.
    s : (k, B) array
        Slopes of the smooth terms there.

    Parameters
    ----------
    factors : PreconditionerCache
    at : (k,) int array
        Which of its coordinates these are.
    start : (k, B) array, optional
        Where to start from, away from ``models.y``.
    alone : bool
        Whether no other replicate uses the factors.
    """

    def __init__(
        self,
        shared: ReducedMatrix,
        models: ModelBatch,
        factors: PreconditionerCache,
        at: np.ndarray,
        start: np.ndarray | None = None,
        alone: bool = False,
    ) -> None:
        self.shared, self.m, self.factors, self.at = shared, models, factors, at
        self.alone = alone
        self._part: Part | None = None  # of the supports
        if start is None:
            self.y = models.y.copy()
            self.s = models.g + models.l2 * models.y
        else:
            self.y = models.y + start
            self.s = models.slopes(shared, start)
        self.h = shared.diagonal[:, None] + models.l2 + models.low.diagonal()
        self._sweeps = shared.sweeps(models.low)
        self._let_go()

    def run(self) -> np.ndarray:
        """Return y − y₀ at the minimum, or after as many rounds as are worth it."""
        m = self.m
        first = self._violation()
        violation = np.full(self.y.shape[1], np.inf)  # one sweep is made in any case
        settled = violation  # before the last Newton step
        stalls = np.zeros(len(first), np.int64)
        for r in range(ROUNDS):
            live = violation > m.tolerance
            if not live.any():
                break
            self._sweep(live)
            if r % EXACT == EXACT - 1:
                self._refresh()
            before, violation = violation, self._violation()
            live = violation > m.tolerance
            if not live.any():
                break
            most = SWEEPS if len(live) > 1 else SWEEPS_ALONE
            if (_sweeps_left(before[live], violation[live], m.tolerance[live]) > most).any():
                stalled = live & (violation > SLOW * settled)
                settled = violation
                stalls = np.where(stalled, stalls + 1, 0)
                dear = self._dear(stalled)
                if not self._small(stalled):
                    self._newton(live, violation)
                elif dear and (violation <= EASY * first)[live].all():
                    break  # what is left costs more than another step of the driver
                elif dear and stalls.max() < PATIENCE:
                    self._newton(live, violation)
                else:
                    self._polish(stalled)
                violation = self._violation()
        return self.y - self.m.y

    def _let_go(self) -> None:
        """What has no curvature and a penalty is zero: in the rows of a fold a column may be."""
        m = self.m
        flat = (self.h <= 0) & (self.y != 0) & (np.abs(self.s) < m.l1)
        if flat.any():
            self.y = np.where(flat, 0.0, self.y)
            self._refresh()

    def _violation(self) -> np.ndarray:
        nothing = np.zeros(1)  # the slopes have the ℓ2 part already
        v = violations(self.s, self.y, self.m.l1, nothing) / self.m.unit
        return column_max(np.where(self.h > 0, v, 0.0))

    def _refresh(self) -> None:
        """The slopes, free of what the sweeps' roundings have added up to."""
        self.s = self.m.slopes(self.shared, self.y - self.m.y)

    def _sweep(self, live: np.ndarray) -> None:
        """One sweep of coordinate descent over the coordinates that can move."""
        m = self.m
        self._sweeps.run(self.s, self.y, np.where(live, self.h, 0.0), m.l1, m.l2)

    def linear_step(self, left: float) -> np.ndarray:
        """The Newton step with today's signs, whatever becomes of them; a share of it is left."""
        lanes = np.arange(self.y.shape[1])
        step, _ = self._support_step(lanes, np.full(len(lanes), left))
        return step

    def _newton(self, live: np.ndarray, violation: np.ndarray) -> None:
        """A step towards the minimum with today's signs; what would change its sign is zero.

        It is solved as far as signs are worth believing.
        """
        lanes = np.flatnonzero(live)
        through = np.clip(CLOSE * self.m.tolerance[lanes] / violation[lanes], FINE, ROUGH)
        exact = np.where(violation[lanes] < READY, through, ROUGH)
        step, change = self._support_step(lanes, exact)
        if len(lanes) < self.y.shape[1]:
            p, Hp = np.zeros(self.y.shape), np.zeros(self.y.shape)
            p[:, lanes], Hp[:, lanes] = step, change
            step, change = p, Hp
        self._along(step, change, live)

    def _support_step(self, lanes: np.ndarray, exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Newton's steps (k, len(lanes)) of some replicates, and what they change of the slopes."""
        m, y = self.m, self.y
        own, l1, l2, h = (columns(x, lanes) for x in (y, m.l1, m.l2, self.h))
        support = ((own != 0) | (l1 == 0)) & (h > 0)
        union = np.flatnonzero(row_any(support))
        if len(union) == 0:
            return np.zeros(own.shape), np.zeros(own.shape)
        size = row_min(np.abs(y)) * np.sqrt(np.maximum(row_max(self.h), 0.0))
        mine = self.at, support, size, l2
        self.factors.prepare(*mine, alone=self.alone)
        self._part = part = self.shared.taken(union, self._part, WORTH)
        everywhere = len(part.at) == len(y)

        def here(x: np.ndarray) -> np.ndarray:
            return x if everywhere else x[part.at]

        slopes, unit = columns(self.s, lanes), columns(m.unit, lanes)
        support, l2, low = here(support), here(l2), m.low.lanes(lanes)
        step, change, iterations = support_steps(
            part.shared, low if everywhere else low.only(part.at), l2, support,
            -here(slopes + l1 * np.sign(own)), CLOSE * m.tolerance[lanes] * here(unit),
            self.factors.inverse(here(self.at), support, l2, here(h)), exact,
        )  # fmt: skip
        # Of a step that is solved through there are so many for each digit.
        self.factors.took(round(iterations * np.log(ROUGH) / np.log(exact.min())), *mine)
        if everywhere:
            return step, change
        p = np.zeros(own.shape)
        p[part.at] = step
        return p, self._product(p, lanes)

    def _size(self, lanes: np.ndarray) -> int:
        """The largest of some supports."""
        return int((self.y[:, lanes] != 0).sum(axis=0).max(initial=0))

    def _small(self, lanes: np.ndarray) -> bool:
        """Whether supports are small enough to be solved exactly, one by one."""
        return bool(lanes.any()) and self._size(lanes) < self.shared.solvable

    def _dear(self, lanes: np.ndarray) -> bool:
        """Whether that takes longer than what a step of the driver has to do beside."""
        return self._size(lanes) > DEAR

    def _polish(self, lanes: np.ndarray) -> None:
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
        """Some models' matrices times D (k, len(lanes))."""
        m = self.m
        return self.shared.times(D) + m.low.lanes(lanes).product(D) + columns(m.l2, lanes) * D

    def _along(self, p: np.ndarray, Hp: np.ndarray, live: np.ndarray) -> None:
        """Take the longest of some steps along p that lowers each replicate's model.

        ``Hp`` are the models' matrices times p: of a step there is left what stops at zero.
        """
        m, y, everyone = self.m, self.y, np.arange(self.y.shape[1])
        step = np.where(live, 1.0, 0.0)
        chosen = np.zeros(y.shape)
        change = np.zeros(y.shape)  # of the slopes
        waiting = live.copy()
        for _ in range(CUTS):
            new = y + step * p
            new[(new * y < 0) & (m.l1 > 0)] = 0.0
            D, whole = np.where(waiting, new - y, 0.0), np.where(waiting, step, 0.0)
            stopped = np.where(new == 0.0, D - whole * p, 0.0)
            if np.abs(stopped).max(initial=0.0) > FAR * np.abs(D).max(initial=0.0):
                HD = self._product(D, everyone)  # a difference of two long steps would be rounding
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
            step = step * SHORTER
        gone = chosen == -y
        self.y = y + chosen
        self.y[gone] = 0.0
        self.s = self.s + change


def _sweeps_left(before: np.ndarray, now: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """How many more sweeps replicates need that contract as in the last one."""
    with np.errstate(divide="ignore"):  # before the first sweep nothing is known: one more
        rate = np.log(np.minimum(now / before, 1.0))
        return np.where(rate < 0, np.log(tolerance / now) / rate, np.inf)
