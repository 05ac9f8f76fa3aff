"""People to be matched, with their distances, and the sets that each method makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.column_lookup import unknown_column
from steropes.designs.comparative.balance_table import shares_of_groups, standard_deviations
from steropes.designs.comparative.cardinality_matching import cardinality_matching
from steropes.designs.comparative.coarsened_exact_matching import (
    coarsened,
    score_cells,
    sets_of_cells,
    sturges,
)
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.full_matching import full_matching
from steropes.designs.comparative.nearest_matching import (
    Allowed,
    Neighbours,
    closest_pairs,
    match_with_replacement,
)
from steropes.designs.propensity.score_matching import DIGITS, Match, OrderedScores
from steropes.designs.propensity.tied_scores import tie_keys
from steropes.designs.propensity.weights_by_estimand import Estimand, set_weights
from steropes.designs.values.estimands import SPREAD_OF_ESTIMAND
from steropes.errors import DataError, listed

__all__ = ["Distance", "Matcher", "MatchingRules", "Method", "weights_of_pairs", "weights_of_sets"]

Method = Literal["nearest", "full", "coarsened", "cardinality", "strata"]
Distance = Literal["logit", "score", "mahalanobis"]
# The calliper of greedy matching on a score, in standard deviations of its logit.
CALIPER = Match.caliper


class MatchingRules(Protocol):
    """The settings of `Matching`, which documents them."""

    method: Method
    distance: Distance
    caliper: float | None
    column_calipers: Mapping[str, float] | None
    exact: Sequence[str]
    ratio: int
    min_ratio: int
    replace: bool
    tie_tolerance: float
    bins: int | Mapping[str, int] | None
    tolerance: float
    strata: int
    random_state: int


class Matcher:
    """The people to match, with their distances.

    Parameters
    ----------
    matching : MatchingRules
        The settings, those of `Matching`.
    """

    def __init__(
        self,
        matching: MatchingRules,
        columns: CovariateColumns,
        target: NDArray,
        estimand: Estimand,
        score: NDArray | None,
        ids: ArrayLike | None,
    ) -> None:
        self.rule, self.columns, self.estimand, self.score = matching, columns, estimand, score
        self.target = target
        self.ids = np.arange(columns.n) if ids is None else np.asarray(ids)
        if len(self.ids) != columns.n or not pd.Index(self.ids).is_unique:
            raise DataError("ids must be one unique id for each row of X.")
        for name in (*matching.exact, *(matching.column_calipers or {}), *self._bins()):
            if name not in columns.variables:
                raise unknown_column("exact, column_calipers or bins", name, columns.variables)
        labels = [
            name
            for name in (*(matching.column_calipers or {}), *self._bins())
            if name in columns.factors
        ]
        if labels:
            raise DataError(
                f"column_calipers and bins are for numbers, and {listed(labels)} has labels; name "
                "it in exact, or leave it out (coarsened matching compares labels)."
            )

    def _bins(self) -> dict[str, int]:
        """Return the numbers of intervals of single columns."""
        bins = self.rule.bins
        return dict(bins) if isinstance(bins, Mapping) else {}

    @property
    def cells(self) -> NDArray:
        """The cell of each person by the exact columns, (n,)."""
        if not self.rule.exact:
            return np.zeros(self.columns.n, dtype=np.int64)
        exact = {name: self.columns.variable(name) for name in self.rule.exact}
        return coarsened(exact, dict.fromkeys(exact, 0), 0)

    # -- sets ------------------------------------------------------------------------------------

    def sets(self) -> NDArray:
        """Return the matched set of each person, (n,)."""
        return {
            "nearest": self._nearest,
            "full": self._full,
            "coarsened": self._coarsened,
            "strata": self._strata,
        }[self.rule.method]()

    def _coarsened(self) -> NDArray:
        """Match people in the same cells."""
        variables = {name: self.columns.variable(name) for name in self.columns.variables}
        bins = self.rule.bins
        default = bins if isinstance(bins, int) else sturges(self.columns.n)
        labels = dict.fromkeys((*self.columns.factors, *self.rule.exact), 0)
        return sets_of_cells(coarsened(variables, self._bins() | labels, default), self.target)

    def _strata(self) -> NDArray:
        """Divide people by quantiles of the scores in the population."""
        if self.rule.strata < 1:
            raise DataError(f"strata must be 1 or more, not {self.rule.strata!r}.")
        assert self.score is not None
        counted = {"att": self.target, "atu": ~self.target}.get(self.estimand)
        counted = np.ones(self.columns.n, dtype=bool) if counted is None else counted
        strata = score_cells(self.score, counted, self.rule.strata)
        both = coarsened({"cell": self.cells, "stratum": strata}, {}, 0)
        return sets_of_cells(both, self.target)

    def _full(self) -> NDArray:
        """Match everybody with the least total distance, within the exact cells."""
        points, width = self._points()
        cells, sets, number = self.cells, np.full(self.columns.n, -1, dtype=np.int64), 0
        order = np.argsort(tie_keys(self.ids, self.rule.random_state), kind="stable")
        for cell in np.unique(cells):
            rows = order[cells[order] == cell]
            own = full_matching(points[rows], self.target[rows], width)
            sets[rows] = np.where(own >= 0, own + number, -1)
            number += int(own.max(initial=-1)) + 1
        return sets

    def _nearest(self) -> NDArray:
        """Match the closest pairs first, in rounds."""
        rule = self.rule
        simple = rule.distance != "mahalanobis" and not rule.column_calipers
        sets = self._nearest_scores() if simple else self._nearest_points()
        if rule.min_ratio > 1:
            known = sets >= 0
            matched = ~self._first & known
            size = np.bincount(sets[matched], minlength=int(sets.max(initial=-1)) + 1)
            sets = np.where(known & (size[sets] >= rule.min_ratio), sets, -1)
            sets[sets >= 0] = np.unique(sets[sets >= 0], return_inverse=True)[1]
        return sets

    @property
    def _first(self) -> NDArray:
        """Whether a person belongs to the group to which others are matched, (n,)."""
        return ~self.target if self.estimand == "atu" else self.target

    def _nearest_scores(self) -> NDArray:
        """Match on the score alone, in its order."""
        rule = self.rule
        assert self.score is not None
        settings = Match(
            caliper=CALIPER if rule.caliper is None else rule.caliper,
            scale="standardized logit" if rule.distance == "logit" else "standardized",
            max_ratio=rule.ratio,
        )
        people = OrderedScores.of(
            self.score, self._first.astype(int), settings, self.ids, self.cells
        )
        return people.matched(rule.random_state)

    def _nearest_points(self) -> NDArray:
        """Match in several dimensions or within callipers of columns."""
        rule, n = self.rule, self.columns.n
        points, width = self._points()
        rank = np.argsort(np.argsort(tie_keys(self.ids, rule.random_state), kind="stable"))
        cells, sets = self.cells, np.full(n, -1, dtype=np.int64)
        for cell in np.unique(cells):
            rows = np.flatnonzero((cells == cell) & self._first)
            others = np.flatnonzero((cells == cell) & ~self._first)
            rounds = 0
            while len(rows) and len(others) and (rule.ratio == 0 or rounds < rule.ratio):
                neighbours = Neighbours(points, others, rank, width, self._allowed())
                pairs = closest_pairs(rows, neighbours)
                if not len(pairs):
                    break
                sets[pairs[:, 0]] = pairs[:, 0]
                sets[pairs[:, 1]] = pairs[:, 0]
                rows, others = np.sort(pairs[:, 0]), np.setdiff1d(others, pairs[:, 1])
                rounds += 1
        known = sets >= 0
        sets[known] = np.unique(sets[known], return_inverse=True)[1]
        return sets

    def with_replacement(self) -> tuple[NDArray, NDArray, NDArray]:
        """Match each person of the population to the nearest people of the other group."""
        rule = self.rule
        points, width = self._points()
        rank = np.argsort(np.argsort(tie_keys(self.ids, rule.random_state), kind="stable"))
        cells, found = self.cells, []
        sides = {"att": (True,), "atu": (False,), "ate": (True, False)}[self.estimand]
        for side in sides:
            for cell in np.unique(cells):
                inside = cells == cell
                rows = np.flatnonzero(inside & (self.target == side))
                others = np.flatnonzero(inside & (self.target != side))
                if len(rows) and len(others):
                    neighbours = Neighbours(points, others, rank, width, self._allowed())
                    found.append(
                        match_with_replacement(rows, neighbours, rule.ratio, rule.tie_tolerance)
                    )
        if not found:
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing, np.empty(0)
        a, b, weight = (np.concatenate([each[i] for each in found]) for i in range(3))
        return a, b, weight

    # -- distances -------------------------------------------------------------------------------

    def _points(self) -> tuple[NDArray, float]:
        """Return points whose distances are those of people, and the largest distance.

        Points that differ only by rounding are made equal.
        """
        rule = self.rule
        if rule.distance == "mahalanobis":
            return np.round(self._whitened(), DIGITS), np.inf
        value = self._scale_of_score()
        caliper = rule.caliper
        if caliper is None:
            caliper = CALIPER if rule.method == "nearest" and not rule.replace else 0.0
        return np.round(value[:, None], DIGITS), (caliper or np.inf) * (1 - 1e-9)

    def _scale_of_score(self) -> NDArray:
        """Return the logits of the scores, or the scores, in standard deviations, (n,)."""
        e = self.score
        assert e is not None
        if self.rule.distance != "score":
            if not ((e > 0) & (e < 1)).all():
                row = int(np.argmin((e > 0) & (e < 1)))
                raise DataError(
                    f"The score of row {row} (counted from 0) is {e[row]:g} and has no logit; "
                    "take distance='score'."
                )
            e = np.log(e / (1 - e))
        spread = float(np.std(e, ddof=1))
        return e / spread if spread > 0 else np.zeros(len(e))

    def _whitened(self) -> NDArray:
        """Return points whose Euclidean distances are Mahalanobis distances, (n, d)."""
        x, groups = self.columns.dense(), (self.target, ~self.target)
        pooled = sum(np.cov(x[g].T).reshape(x.shape[1], -1) * (g.sum() - 1) for g in groups)
        pooled = pooled / (len(x) - 2)
        size = np.sqrt(np.where(np.diag(pooled) > 0, np.diag(pooled), 1.0))
        value, vector = np.linalg.eigh(pooled / size / size[:, None])
        kept = value > 1e-10 * value.max(initial=0.0)
        return np.asarray((x - x.mean(axis=0)) / size @ (vector[:, kept] / np.sqrt(value[kept])))

    def _allowed(self) -> Allowed | None:
        """Return who may be matched by callipers of columns and, with Mahalanobis, of logits."""
        limits = [
            (self.columns.variable(name), float(width))
            for name, width in (self.rule.column_calipers or {}).items()
        ]
        if self.rule.distance == "mahalanobis" and self.rule.caliper:
            limits.append((self._scale_of_score(), self.rule.caliper))
        if not limits:
            return None

        def allowed(row: int, others: NDArray) -> NDArray:
            fine = np.ones(len(others), dtype=bool)
            for values, width in limits:
                fine &= np.abs(values[others] - values[row]) <= width * (1 + 1e-12)
            return fine

        return allowed

    # -- cardinality -----------------------------------------------------------------------------

    def cardinality(self) -> tuple[NDArray, float]:
        """Select the largest groups with nearly equal means."""
        shares = shares_of_groups(None, self.target, self.columns.n)
        whose = SPREAD_OF_ESTIMAND.get(self.estimand, "pooled")
        spread = standard_deviations(self.columns, shares, whose)
        varying = np.flatnonzero(spread > 0)
        return cardinality_matching(
            self.columns.dense()[:, varying], self._first, self.rule.tolerance * spread[varying],
            self.rule.ratio,
        )  # fmt: skip

    def pair_up(self, chosen: NDArray) -> NDArray:
        """Pair the selected people in the order of their scores, which has the least distance."""
        assert self.score is not None
        key = tie_keys(self.ids, self.rule.random_state)
        sets = np.full(self.columns.n, -1, dtype=np.int64)
        for group, times in ((self._first, 1), (~self._first, self.rule.ratio)):
            rows = np.flatnonzero(chosen & group)
            rows = rows[np.lexsort((key[rows], self.score[rows]))]
            sets[rows] = np.arange(len(rows)) // times
        return sets


def weights_of_sets(sets: NDArray, target: NDArray, estimand: Estimand) -> NDArray:
    """Return weights with which both groups are alike in each set, (n,); see `set_weights`."""
    inside = sets >= 0
    weights = np.zeros(len(sets))
    if inside.any():
        weights[inside] = set_weights(sets[inside], target[inside].astype(int), estimand)
    return _with_mean_one(weights, target)


def weights_of_pairs(pairs: tuple[NDArray, NDArray, NDArray], target: NDArray) -> NDArray:
    """Return one for each matched person of the population plus the weights as matches, (n,)."""
    row, other, weight = pairs
    n = len(target)
    weights = (np.bincount(row, weight, minlength=n) > 0) + np.bincount(other, weight, minlength=n)
    return _with_mean_one(weights, target)


def _with_mean_one(weights: NDArray, target: NDArray) -> NDArray:
    """Scale the weights of each group to a mean of one among those who have any."""
    out = np.asarray(weights, dtype=float).copy()
    for group in (target, ~target):
        used = group & (out > 0)
        if used.any():
            out[used] /= out[used].mean()
    return out
