"""A sequence of trials as row numbers of person-time: starts, ends, events and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.interval_weights import IntervalWeights
from steropes.designs.target_trials.person_time import PersonTime
from steropes.errors import DataError, SeparationError

__all__ = ["Effect", "TrialSequence", "quantile_of_weights", "start_trials", "weights_by_interval"]

Effect = Literal["intention-to-treat", "per-protocol", "as-treated"]
# Person-intervals whose weights are in memory at a time.
AT_ONCE = 2_000_000


@dataclass(frozen=True, repr=False)
class TrialSequence:
    """Person-trials: each person in each trial that starts while the person is eligible.

    Attributes
    ----------
    rows : PersonTime
    start, end : ndarray of int, shape (m,)
        First row of each person-trial in the person-time, and the row after its last.
    event : ndarray of int8, shape (m,)
        Whether the last row has the outcome.
    deviated : ndarray of bool, shape (m,)
        Whether follow-up was cut at a change of treatment.
    """

    rows: PersonTime
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    event: NDArray[np.int8]
    deviated: NDArray[np.bool_]

    @property
    def length(self) -> NDArray[np.int64]:
        """Number of periods of follow-up of each person-trial."""
        return self.end - self.start

    @property
    def assigned(self) -> NDArray[np.int8]:
        """Treatment in the first period of each person-trial."""
        return self.rows.treatment[self.start]

    @property
    def person(self) -> NDArray[np.int64]:
        """Number of the person of each person-trial."""
        return self.rows.person[self.start]

    @property
    def trial(self) -> NDArray[np.int64]:
        """Period in which each person-trial starts."""
        return self.rows.period[self.start]


def start_trials(
    rows: PersonTime,
    effect: Effect,
    follow_up: int | None,
    trials: tuple[int, int] | None,
) -> TrialSequence:
    """Start a trial at each eligible row.

    Parameters
    ----------
    effect : {"intention-to-treat", "per-protocol", "as-treated"}
        Per protocol follow-up ends before the first change of treatment.
    follow_up : int, optional
        Largest number of periods of a trial.
    trials : (int, int), optional
        First and last period in which trials start.
    """
    used = rows.eligible == 1
    if trials is not None:
        used &= (rows.period >= trials[0]) & (rows.period <= trials[1])
    start = np.flatnonzero(used)
    if not len(start):
        raise DataError("Nobody is eligible in the periods of trials=, so that no trial starts.")
    end = rows.ends[start]
    natural = end
    if effect == "per-protocol":
        end = np.minimum(end, _next_changes(rows)[start])
    if follow_up is not None:
        end = np.minimum(end, start + follow_up)
    found = TrialSequence(
        rows, start, end, rows.outcome[end - 1], (end < natural) & (_changed(rows, end) == 1)
    )
    _refuse_one_arm(found)
    return found


def _next_changes(rows: PersonTime) -> NDArray[np.int64]:
    """Return the next row after each row with another treatment, or the person's end."""
    other = np.append(rows.treatment[1:] != rows.treatment[:-1], True)
    other |= np.append(rows.person[1:] != rows.person[:-1], True)
    at = np.flatnonzero(other) + 1
    return at[np.searchsorted(at, np.arange(rows.n) + 1)]


def _changed(rows: PersonTime, end: NDArray) -> NDArray[np.int8]:
    """Return whether the row after each end has another treatment than the row before."""
    inside = np.minimum(end, rows.n - 1)
    changed = rows.treatment[inside] != rows.treatment[end - 1]
    return (changed & (rows.person[inside] == rows.person[end - 1])).astype(np.int8)


def _refuse_one_arm(trials: TrialSequence) -> None:
    """Refuse sequences in which no one follows one of the strategies."""
    for arm, name in ((1, "treatment"), (0, "no treatment")):
        own = trials.assigned == arm
        if not own.any():
            raise DataError(
                f"Nobody follows the strategy {name!r} (treatment = {arm}) in an eligible period; "
                "a comparison needs both strategies."
            )
        if not trials.event[own].any():
            raise SeparationError(
                f"Nobody who follows the strategy {name!r} (treatment = {arm}) has the outcome, so "
                "that its effect has no finite estimate; follow people for longer, or choose "
                "another outcome.",
                ["treatment"],
            )


def person_trial_rows(trials: TrialSequence) -> Iterator[tuple[NDArray, NDArray]]:
    """Yield person-trials and interval numbers of person-intervals, some at a time."""
    length = trials.length
    total = np.append(0, np.cumsum(length))
    a = 0
    while a < len(length):
        b = max(a + 1, int(np.searchsorted(total, total[a] + AT_ONCE, side="right")) - 1)
        which = np.repeat(np.arange(a, b), length[a:b])
        yield which, np.arange(total[a], total[b]) - total[which]
        a = b


def _values(trials: TrialSequence, weights: IntervalWeights) -> Iterator[tuple[NDArray, ...]]:
    """Yield person-trials, interval numbers and weights, some at a time."""
    for which, k in person_trial_rows(trials):
        w = weights.scale[which] * weights.values[weights.start[which] + k]
        yield which, k, np.clip(w, weights.lower, weights.upper)


def quantile_of_weights(
    trials: TrialSequence, weights: IntervalWeights, q: float, times: NDArray | None = None
) -> float:
    """Compute a quantile over all person-intervals, between neighbours as in R's type 7.

    With more than `AT_ONCE` weights, two passes need no more memory than these and a histogram: the
    first finds the bin of the two neighbouring values, the second collects the weights in it.

    Parameters
    ----------
    times : ndarray of int, shape (m,), optional
        How often each person-trial counts.
    """
    n = int((trials.length if times is None else trials.length * times).sum())

    def values() -> Iterator[NDArray]:
        for which, _, w in _values(trials, weights):
            yield w if times is None else np.repeat(w, times[which])

    place = q * (n - 1)
    ranks = np.array([int(np.floor(place)), min(int(np.floor(place)) + 1, n - 1)])
    if n <= AT_ONCE:
        first, second = np.partition(np.concatenate(list(values())), ranks)[ranks]
        return float(first + (place - ranks[0]) * (second - first))
    low, high = np.inf, -np.inf
    for w in values():
        low, high = w.min(initial=low), w.max(initial=high)
    if low == high:
        return float(low)
    edges = np.linspace(low, high, 100_001)
    counts = np.zeros(len(edges) - 1, np.int64)
    for w in values():
        counts += np.histogram(w, edges)[0]
    upto = np.cumsum(counts)
    bins = np.searchsorted(upto, ranks, side="right")
    parts = []
    for w in values():
        inside = (w >= edges[bins[0]]) & (w <= edges[bins[1] + 1])
        parts.append(w[inside])
    near = np.sort(np.concatenate(parts))
    below = int(upto[bins[0]] - counts[bins[0]])
    first, second = near[ranks - below]
    return float(first + (place - ranks[0]) * (second - first))


def weights_by_interval(trials: TrialSequence, weights: IntervalWeights | None) -> pd.DataFrame:
    """Describe the weights in each interval of follow-up.

    Returns
    -------
    DataFrame
        ``time`` (the end of the interval), ``at_risk``, ``events``, ``mean``, ``largest`` and
        ``effective_size`` (Kish's).
    """
    K = int(trials.length.max())
    at_risk = np.bincount(trials.length, minlength=K + 1)[::-1].cumsum()[::-1][1:]
    events = np.bincount(trials.length[trials.event == 1], minlength=K + 1)[1:]
    total, square, largest = np.zeros(K), np.zeros(K), np.zeros(K)
    if weights is None:
        total, square, largest = at_risk * 1.0, at_risk * 1.0, np.ones(K)
    else:
        for _, k, w in _values(trials, weights):
            total += np.bincount(k, w, K)
            square += np.bincount(k, w * w, K)
            np.maximum.at(largest, k, w)
    return pd.DataFrame(
        {
            "time": np.arange(1, K + 1),
            "at_risk": at_risk,
            "events": events,
            "mean": total / at_risk,
            "largest": largest,
            "effective_size": total**2 / square,
        }
    )
