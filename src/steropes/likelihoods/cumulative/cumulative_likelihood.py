"""The likelihood of the cumulative probability model P(Y ≤ y | x) = F(α(y) − η).

The thresholds α are free nuisance parameters of each replicate. The levels of a replicate are those
of its rows with weight, so an outcome that occurs only in rows without weight has no level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...backends.backend_interface import Backend
from ..hessian_structures import ProfiledCurvature
from ..likelihood_constants import LEVELS
from ..nuisance_hessian import Block
from ..nuisance_interface import Nuisance, NuisancePoint
from ..nuisance_likelihood import NuisanceLikelihood, gone
from .censored_outcome import Interval
from .cumulative_loss import CumulativeRows, Evaluation, Thresholds
from .levels_with_mass import (
    always_with_mass,
    cover_all_rows,
    expand_thresholds,
    levels_to_restore,
    restrict_levels,
    transfer_thresholds,
)
from .shard_threshold_sums import ShardedLevels
from .turnbull_intervals import Levels, find_levels, place

__all__ = ["CumulativeLikelihood", "LevelsWithMass", "PointOnLevels"]


class CumulativeLikelihood(NuisanceLikelihood):
    """−Σ w log(F(α_up − η) − F(α_low − η)) with the thresholds as nuisance parameters.

    Parameters
    ----------
    y : Interval
        Outcome in the rows of X; no copy is made.
    link : str
        Name of the link.
    used : (n,) bool array
        Rows of X that have weight in any replicate.
    """

    shift_invariant = True

    def __init__(self, y: Interval, link: str, used: np.ndarray, backend: Backend) -> None:
        super().__init__(backend)
        self.y, self.link = y, link
        self.convex = link != "cauchit"
        self.levels = find_levels(y, used)
        self.order: np.ndarray = self.levels.order
        self.n = len(self.order)
        self.place = np.full(len(used), -1)  # position of each row of X in the model's order
        self.place[self.order] = np.arange(self.n)

    def thresholds_around(self) -> tuple[np.ndarray, np.ndarray]:
        """See `NuisanceLikelihood.thresholds_around`."""
        return self.levels.low, self.levels.up

    def shard_thresholds(self, cuts: np.ndarray, columns: int) -> ShardedLevels | None:
        """See `NuisanceLikelihood.shard_thresholds`."""
        numbers = (self.levels.M - 1) * min(columns, LEVELS.assumed_working_set) * (len(cuts) - 1)
        if self.y.upper is not None or not self.convex or numbers > 2 * self.n:
            return None
        return ShardedLevels(self, cuts)

    def begin(self, eta: np.ndarray, w: np.ndarray, like: Nuisance | None = None) -> LevelsWithMass:
        """See `NuisanceLikelihood.begin`; starts from the marginal distribution or ``like``."""
        counted = w > 0
        levels, at = self.levels, None
        if not counted.all():
            used = np.zeros(len(self.place), bool)
            used[self.order[counted]] = True
            levels = find_levels(self.y, used)
            at = self.place[levels.order]
            eta, w = eta[at], w[at]
        rows = CumulativeRows(levels, self.link, w, self.backend)
        loose = ~always_with_mass(levels)
        start = rows.start(eta)
        if isinstance(like, LevelsWithMass):
            start = _read_off(like, start, levels) or start
        return LevelsWithMass(
            likelihood=self, rows=rows, position=at,
            thresholds=start,
            whole=levels, keep=np.ones(levels.M, bool), loose=loose if loose.any() else None,
        )  # fmt: skip


@dataclass(frozen=True)
class LevelsWithMass(Nuisance):
    """Thresholds of one replicate and the levels that they separate.

    Attributes
    ----------
    rows : CumulativeRows
        Rows over the levels with mass.
    position : (m,) int array or None
        Positions of those rows in the model's order; None means all rows.
    thresholds : Thresholds
        Thresholds between the levels with mass.
    whole : Levels
        All levels of these rows.
    keep : (M,) bool array
        Levels with mass.
    loose : (M,) bool array or None
        Levels that may end without mass; None if there are none.
    shrunk : (K,) bool array or None
        Levels that the last step nearly closed.
    rounds : int
        Number of times that dropped levels were restored.
    """

    likelihood: CumulativeLikelihood
    rows: CumulativeRows
    position: np.ndarray | None
    thresholds: Thresholds
    whole: Levels
    keep: np.ndarray
    loose: np.ndarray | None
    shrunk: np.ndarray | None = None
    rounds: int = 0

    @property
    def K(self) -> int:
        """Number of thresholds."""
        return self.rows.K

    @property
    def values(self) -> np.ndarray:
        """Levels with mass, (K + 1,)."""
        return self.rows.levels.values

    def at(self, eta: np.ndarray) -> PointOnLevels:
        """See `Nuisance.at`."""
        own = eta if self.position is None else eta[self.position]
        return PointOnLevels(self, self.rows.evaluate(self.thresholds, own), len(eta))

    def moved(self, direction: np.ndarray, t: float) -> LevelsWithMass:
        """See `Nuisance.moved`."""
        new = self.thresholds.moved(direction, t)
        shrunk = None
        if self.loose is not None:
            shrinks = (
                np.diff(direction, prepend=0.0) < -LEVELS.shrinking_share * self.thresholds.delta
            )
            shrunk = shrinks & (new.delta < LEVELS.empty_width) & self.loose[self.keep][:-1]
            shrunk[0] = False
        return replace(self, thresholds=new, shrunk=shrunk)

    def at_thresholds(self, thresholds: Thresholds) -> LevelsWithMass:
        """Return the same levels with other thresholds."""
        return replace(self, thresholds=thresholds)

    def settled(self) -> LevelsWithMass:
        """See `Nuisance.settled`; drops levels that are losing their mass."""
        if self.shrunk is None or self.loose is None or not self.shrunk.any():
            return self
        drop = np.flatnonzero(self.keep)[:-1][self.shrunk]
        change = self.keep.copy()
        change[drop] = False
        change = cover_all_rows(self.whole, change)
        if (change == self.keep).all():  # otherwise a row would have no level
            loose = self.loose.copy()
            loose[drop] = False
            return replace(self, loose=loose, shrunk=None)
        return self._over(change)

    def readmitted(self, eta: np.ndarray, tol: float) -> LevelsWithMass | None:
        """See `Nuisance.readmitted`."""
        if self.keep.all() or self.rounds >= LEVELS.max_restorations:
            return None
        at = self.likelihood.place[self.whole.order]
        everything = CumulativeRows(self.whole, self.rows.link, self._weights(), self.rows.backend)
        alpha = expand_thresholds(self.thresholds.alpha, self.keep)
        ev = everything.evaluate(Thresholds(alpha, np.diff(alpha, prepend=0.0)), eta[at])
        g = -everything.to_thresholds(ev.la, ev.lb)
        change = self.keep | levels_to_restore(self.keep, g, everything.weight_sum, tol)
        if (change == self.keep).all():
            return None
        return replace(self._over(change), rounds=self.rounds + 1)

    def _weights(self) -> np.ndarray:
        """Return the weights of the rows in the order of all levels."""
        of = np.empty(len(self.likelihood.place))
        of[self.rows.levels.order] = self.rows.weights
        return of[self.whole.order]

    def _over(self, change: np.ndarray) -> LevelsWithMass:
        """Transfer the thresholds to other levels."""
        levels = restrict_levels(self.whole, change)
        of = np.empty(len(self.likelihood.place))
        of[self.rows.levels.order] = self.rows.weights
        rows = CumulativeRows(levels, self.rows.link, of[levels.order], self.rows.backend)
        thresholds = transfer_thresholds(self.thresholds.alpha, self.keep, change)
        position = self.likelihood.place[levels.order]
        return replace(
            self, rows=rows, position=position, thresholds=thresholds, keep=change, shrunk=None
        )

    def score_residuals(self, eta: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """See `Nuisance.score_residuals`."""
        own, z = (x if self.position is None else x[self.position] for x in (eta, Z))
        rows, levels = self.rows, self.rows.levels
        ev = rows.evaluate(self.thresholds, own)
        block = rows.block(ev)
        C = [-rows.to_thresholds(ev.ua * x, ev.ub * x) for x in z.T]
        J = np.zeros((self.K + 1, len(C)))  # index −1 and K: no threshold
        J[: self.K] = block.solve(np.stack(C, axis=1))
        up, low = J[levels.up], J[levels.low]
        # ℓ_a and −ℓ_b are of order n and nearly equal, so s is more accurate than their sum.
        U = (up + low) * (0.5 * ev.s)[:, None] + (up - low) * (0.5 * (ev.la - ev.lb))[:, None]
        one = (levels.low < 0) | (levels.up >= self.K)
        U[one] = ev.la[one, None] * up[one] + ev.lb[one, None] * low[one]
        U = -(U + ev.s[:, None] * z)
        if self.position is None:
            return U
        out = np.zeros(Z.shape)
        out[self.position] = U
        return out

    def score(self, eta: np.ndarray, weights: np.ndarray) -> float:
        """See `Nuisance.score`; an outcome counts as the bin of levels that contains it."""
        y, at = self.likelihood.y, np.flatnonzero(weights > 0)
        user = self.likelihood.order[at]
        part = Interval(y.lower[user], None if y.upper is None else y.upper[user])
        low, up = place(self.values, part)
        levels = Levels(self.values, user, low, up, np.empty(0, np.int64), True)
        rows = CumulativeRows(levels, self.rows.link, weights[at], self.rows.backend)
        return -rows.loss(self.thresholds, eta[at])


class PointOnLevels(NuisancePoint):
    """Loss and derivatives of one replicate at its thresholds and η.

    The thresholds are eliminated at construction, after which little of an evaluation is kept.
    """

    def __init__(self, nuisance: LevelsWithMass, ev: Evaluation, n: int) -> None:
        self.nuisance: LevelsWithMass = nuisance
        self.loss, self.n = ev.loss, n
        self._eliminated = _eliminated_if_finite(nuisance.rows, ev)
        whole = self._eliminated is None or not nuisance.likelihood.convex
        self._ev: Evaluation | None = ev if whole else None

    @property
    def _known(self) -> _Eliminated:
        """The elimination of the thresholds; raises if their curvature is not finite."""
        if self._eliminated is not None:
            return self._eliminated
        assert self._ev is not None
        return _eliminate(self.nuisance.rows, self._ev)

    def _spread(self, x: np.ndarray) -> np.ndarray:
        """Scatter values of rows with weight to the rows of the model."""
        if self.nuisance.position is None:
            return x
        out = np.zeros(self.n)
        out[self.nuisance.position] = x
        return out

    def gradient(self) -> np.ndarray:
        """See `NuisancePoint.gradient`."""
        return self._spread(self._known.r)

    @property
    def usable(self) -> bool:
        """See `NuisancePoint.usable`."""
        try:
            fall = self._known.fall
            # Without convexity the predicted decrease belongs to a modified curvature.
            if not self.nuisance.likelihood.convex:
                return True
            return not gone(fall, self.loss, float(self.nuisance.rows.weights.sum()))
        except FloatingPointError:
            return False

    @property
    def fall(self) -> float:
        """See `NuisancePoint.fall`."""
        return self._known.fall

    def direction(self, d_eta: np.ndarray) -> np.ndarray:
        """See `NuisancePoint.direction`."""
        known, position = self._known, self.nuisance.position
        own = d_eta if position is None else d_eta[position]
        change = self.nuisance.rows.to_thresholds(known.ev.ua * own, known.ev.ub * own)
        return known.block.solve(change) - known.t

    def curvature(
        self, coarse: bool = False, positive: bool = False, magnitude: bool = False
    ) -> ProfiledCurvature:
        """See `NuisancePoint.curvature`."""
        rows, known, safer = self.nuisance.rows, self._known, None
        ev, block = known.ev, known.block
        if self._ev is not None and (positive or magnitude):
            ev = self._ev.rectified() if magnitude else self._ev.clipped()
            block = rows.block(ev)
        elif not self.nuisance.likelihood.convex:

            def safer() -> ProfiledCurvature:
                return self.curvature(coarse, positive=True)

        own = rows.curvature(ev, block)
        return replace(
            own, v=self._spread(own.v), rows=self.nuisance.position, coarse=coarse, safer=safer
        )


@dataclass(frozen=True)
class _Eliminated:
    """The quantities kept after elimination of the thresholds.

    Attributes
    ----------
    ev : Evaluation
        Curvatures of the rows, clipped if the Hessian of the thresholds would not be positive.
    r : (m,) array
        Derivative of the loss in η.
    block : Block
        The Hessian T of the thresholds.
    t : (K,) array
        T⁻¹g.
    fall : float
        g'T⁻¹g.
    """

    ev: Evaluation
    r: np.ndarray
    block: Block
    t: np.ndarray
    fall: float


def _eliminated_if_finite(rows: CumulativeRows, ev: Evaluation) -> _Eliminated | None:
    """Eliminate the thresholds; None if the loss or their curvature is not finite."""
    if not np.isfinite(ev.loss):
        return None
    try:
        return _eliminate(rows, ev)
    except FloatingPointError:
        return None


def _eliminate(rows: CumulativeRows, ev: Evaluation) -> _Eliminated:
    """Eliminate the thresholds, with clipped curvatures if necessary."""
    g = -rows.to_thresholds(ev.la, ev.lb)
    block = rows.block(ev)
    if not block.positive:
        ev = ev.clipped()
        block = rows.block(ev)
        if not block.positive:
            raise FloatingPointError("the curvature of the thresholds is not finite")
    t = block.solve(g)
    with np.errstate(invalid="ignore"):  # t may not be finite; callers check
        r = ev.s + rows.to_rows(t, ev.ua, ev.ub)
        fall = float(g @ t)
    return _Eliminated(ev.curvatures_only(), r, block, t, fall)


def _read_off(like: LevelsWithMass, own: Thresholds, levels: Levels) -> Thresholds | None:
    """Derive thresholds from another replicate; None unless it has all of these levels.

    The width of a level depends on its mass, as in the marginal distribution. The ratio of the two
    widths reflects the covariates and varies little between levels, so it is taken from the other
    replicate.
    """
    at = np.searchsorted(like.values, levels.values)
    at = np.minimum(at, len(like.values) - 1)
    if not (like.values[at] == levels.values).all():
        return None
    marginal = like.rows.start()
    ratio = like.thresholds.delta / marginal.delta
    delta = own.delta * ratio[np.minimum(at[:-1], like.K - 1)]
    middle = len(delta) // 2
    alpha = like.thresholds.alpha[min(int(at[middle]), like.K - 1)]
    return Thresholds.build(float(alpha), middle, delta)
