"""Propensity score matching, one to one or one to many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.designs.propensity.pair_matching import match_sorted
from steropes.designs.propensity.tied_scores import tie_keys
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, CovariateIds, Positive, YesNo
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError

__all__ = ["DIGITS", "Match", "OrderedScores", "match_scores", "matched_weights"]

Scale = Literal["standardized logit", "standardized", "propensity score"]
DIGITS = 10  # Distances are rounded to this many decimals of the calliper, or of the spread.


class Match(Settings):
    """Rules of matching on the propensity score.

    Parameters
    ----------
    caliper : float, default 0.2
        Distances within a pair are below it; 0 means no calliper.
    scale : str, default "standardized logit"
        Unit of the calliper: standard deviations of the score's logit, standard deviations of the
        score, or the score itself. Distances are those of logits or of scores accordingly.
    max_ratio : int, default 1
        Largest number of comparator people per target person; 0 means no limit. Every target
        person gets a first match before any gets a second.
    reverse : bool, default False
        Match target people to comparator people if the target arm is the larger one; the effect is
        then that in the comparator.
    exact : tuple of int
        Covariate ids on which matched people must agree. Ids that no one in the comparison has are
        ignored, with a note.
    seed : int, default 1
        Determines, with the person id, who is matched among people with equal scores.

    References
    ----------
    Austin (2011), Pharmaceutical Statistics 10:150–161.

    Examples
    --------
    >>> from steropes.designs import Match
    >>> Match(caliper=0.1, max_ratio=3).scale
    'standardized logit'
    """

    caliper: Positive = 0.2
    scale: Scale = "standardized logit"
    max_ratio: Count = 1
    reverse: YesNo = False
    exact: CovariateIds = ()
    seed: Count = 1


def match_scores(
    score: ArrayLike,
    treated: ArrayLike,
    rule: Match | None = None,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> NDArray:
    """Assign people to matched sets by greedy matching, the nearest pair first.

    In round k every target person with k − 1 matches may get a k-th. Ties between equal scores are
    broken by random keys of id and seed, so that the order of rows does not matter.

    Parameters
    ----------
    score : array_like, shape (n,)
        Propensity scores.
    treated : array_like, shape (n,)
        1 for the target arm.
    rule : Match, optional
        Rules of matching. Default: those of ``Match()``.
    ids : array_like, shape (n,), optional
        Unique ids of the people. Default: row numbers.
    labels : array_like of int, shape (n,), optional
        Only people with the same label are matched.

    Returns
    -------
    ndarray of int, shape (n,)
        Number of the matched set, from 0; −1 if unmatched.

    Raises
    ------
    DataError
        A score is missing, or 0 or 1 on the logit scale, an arm is not 0 or 1, ids are not unique,
        or lengths differ.

    Examples
    --------
    >>> from steropes.designs import Match
    >>> from steropes.designs.propensity import match_scores
    >>> rule = Match(caliper=0.1, scale="propensity score")
    >>> match_scores([0.3, 0.6, 0.32, 0.9], [1, 1, 0, 0], rule).tolist()
    [0, -1, 0, -1]
    """
    rule = rule or Match()
    return OrderedScores.of(score, treated, rule, ids, labels).matched(rule.seed)


@dataclass(frozen=True, repr=False, eq=False)
class OrderedScores:
    """People sorted by their scores, to be matched under any order of equal scores.

    Attributes
    ----------
    value : ndarray, shape (n,)
        Scores in units far below the calliper.
    treated : ndarray of int, shape (n,)
        1 for the arm that is matched to the other.
    ids : ndarray, shape (n,)
    parts : list of ndarray of int
        Rows of the people of each label, sorted by value, then by arm.
    width : float
        Largest distance within a pair.
    max_ratio : int
        Largest number of people of the other arm in a set; 0 means no limit.
    """

    value: NDArray
    treated: NDArray
    ids: NDArray
    parts: list[NDArray]
    width: float
    max_ratio: int

    @classmethod
    def of(
        cls,
        score: ArrayLike,
        treated: ArrayLike,
        rule: Match,
        ids: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> OrderedScores:
        """Check and sort people; for the parameters see `match_scores`."""
        e, t = np.asarray(score, dtype=float), require_arms(treated)
        ids = np.arange(len(e)) if ids is None else np.asarray(ids)
        if not len(e) == len(t) == len(ids):
            raise DataError(f"matching: {len(e)} scores, {len(t)} people and {len(ids)} ids")
        if labels is not None and np.shape(labels) != e.shape:
            raise DataError(f"matching: {np.size(labels)} labels and {len(e)} people")
        if not pd.Index(ids).is_unique:
            raise DataError("matching: two rows have the same id; ids must be unique")
        if rule.reverse and 2 * int(t.sum()) > len(t):
            t = 1 - t
        value, width = _scaled(e, rule)
        order = np.lexsort((t, value))
        parts = [order]
        if labels is not None:
            label = np.asarray(labels)[order]
            parts = [order[label == one] for one in np.unique(label)]
        return cls(value, t, ids, parts, width, rule.max_ratio)

    def matched(self, seed: int) -> NDArray:
        """Match under the order of a seed; return the matched sets as `match_scores` does."""
        rank = tie_keys(self.ids, seed)
        if self.ids.dtype.kind not in "iu":  # Keys of other ids may coincide.
            order = np.lexsort((self.ids, rank))
            rank = np.empty(len(order), dtype=np.uint64)
            rank[order] = np.arange(len(order), dtype=np.uint64)
        sets = np.full(len(self.value), -1, dtype=np.int64)
        for rows in self.parts:
            self._match_part(rows, rank, sets)
        return _renumbered(sets)

    def _match_part(self, rows: NDArray, rank: NDArray, sets: NDArray) -> None:
        """Match the people of a label in rounds; a set has the number of its target person."""
        rounds = 0
        while self.max_ratio == 0 or rounds < self.max_ratio:
            pairs = match_sorted(self.value, self.treated, rank, rows, self.width)
            if not len(pairs):
                break
            targets, others = pairs.T
            sets[targets] = targets
            sets[others] = targets
            again = np.zeros(len(sets), dtype=bool)  # Targets that may be matched once more.
            again[targets] = True
            rows = rows[np.where(self.treated[rows] == 1, again[rows], sets[rows] < 0)]
            rounds += 1


def matched_weights(sets: ArrayLike, treated: ArrayLike) -> NDArray:
    """Weight the arms of each matched set equally; unmatched people have weight 0.

    In a set with m people of an arm, each of them has weight 1 / m.

    Parameters
    ----------
    sets : array_like of int, shape (n,)
        Matched set of each person; negative if unmatched.
    treated : array_like, shape (n,)
        1 for the target arm.

    Returns
    -------
    ndarray, shape (n,)
        Weights, 0 for unmatched people.

    Examples
    --------
    >>> from steropes.designs.propensity import matched_weights
    >>> matched_weights([0, 0, 0, -1], [1, 0, 0, 1]).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    s, t = np.asarray(sets), np.asarray(treated).astype(np.int64)
    key = s * 2 + t
    known = s >= 0
    counts = np.bincount(key[known], minlength=int(key.max(initial=0)) + 1)
    weight = np.zeros(len(s))
    weight[known] = 1 / counts[key[known]]
    return weight


def _scaled(e: NDArray, rule: Match) -> tuple[NDArray, float]:
    """Scale scores to units far below the calliper, and return the calliper's width in them."""
    value = e
    if rule.scale == "standardized logit":
        if not ((e > 0) & (e < 1)).all():
            row = int(np.argmin((e > 0) & (e < 1)))
            raise DataError(
                f"matching: the score of row {row} is {e[row]:g} and has no logit; trim first, or "
                'match on the scale "propensity score"'
            )
        value = np.log(e / (1 - e))
    spread = float(np.std(value, ddof=1)) if len(value) > 1 else 0.0
    if spread == 0:
        return np.zeros(len(value)), np.inf
    width = np.inf
    if rule.caliper > 0:
        width = rule.caliper * (1.0 if rule.scale == "propensity score" else spread)
    # Values that differ only by rounding must be equal, and distances too. Whole units achieve this
    # because their differences are exact. A distance of exactly the width is too far.
    unit = max((width if rule.caliper > 0 else spread) * 10.0**-DIGITS, 1e-18)
    return np.round(value / unit), width / unit * (1 - 1e-9)


def _renumbered(sets: NDArray) -> NDArray:
    """Number the sets, which are numbers of rows, from 0 in the order of their first rows."""
    known = np.flatnonzero(sets >= 0)
    first = np.empty(len(sets), dtype=np.int64)
    first[sets[known[::-1]]] = known[::-1]  # The last assignment, of the smallest row, remains.
    of_person = first[sets[known]]
    begins = np.zeros(len(sets), dtype=np.int64)
    begins[of_person] = 1
    again = np.full(len(sets), -1, dtype=np.int64)
    again[known] = (np.cumsum(begins) - 1)[of_person]
    return again
