"""Eras of treatments in pathways, and combinations where they overlap (TreatmentPatterns).

Eras are columns of equal length: the pathway that each belongs to (``group``), its event (a number
in an `EventCodes`) and its first and last day. An era that overlaps the next one for long enough
becomes a combination for these days (Markus et al. 2022, "TreatmentPatterns: an R package to
facilitate the standardized development and analysis of treatment patterns across disease
domains", Computer Methods and Programs in Biomedicine 225).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.strategus_plans.pathway_plan import PathwayPlan

__all__ = ["EventCodes", "changed_eras", "collapsed_eras", "combined_eras"]

ORDER = ["group", "start", "end", "event"]


@dataclass
class EventCodes:
    """Numbers of events and of their combinations.

    Attributes
    ----------
    names : list of str
        Names of the single events.
    members : list of frozenset of int
        The single events of each number; a single event is its own.
    """

    names: list[str]
    members: list[frozenset[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Number the single events."""
        self.members = [frozenset((i,)) for i in range(len(self.names))]
        self._codes = {of: i for i, of in enumerate(self.members)}

    def together(self, one: NDArray, other: NDArray) -> NDArray:
        """Return the numbers of the combinations of pairs of events.

        Parameters
        ----------
        one, other : ndarray of int, shape (n,)
        """
        pairs, of = np.unique(np.column_stack([one, other]), axis=0, return_inverse=True)
        found = [self._code(self.members[a] | self.members[b]) for a, b in pairs.tolist()]
        return np.asarray(found, np.int64)[of.reshape(-1)]

    def _code(self, of: frozenset[int]) -> int:
        """Return the number of a combination."""
        if of not in self._codes:
            self._codes[of] = len(self.members)
            self.members.append(of)
        return self._codes[of]

    def labels(self) -> list[str]:
        """Return the names of all numbers, with "+" between the sorted names of combinations."""
        return ["+".join(sorted(self.names[i] for i in of)) for of in self.members]


def collapsed_eras(entries: pd.DataFrame, longest_gap: int) -> pd.DataFrame:
    """Join entries of an event that follow each other within some days.

    Parameters
    ----------
    entries : DataFrame
        Entries with the columns ``group``, ``event``, ``start`` and ``end``.
    longest_gap : int
        Largest number of days between the end of one entry and the start of the next.
    """
    found = entries.sort_values(["group", "event", "start", "end"], kind="stable")
    keys = [found["group"], found["event"]]
    latest = found.groupby(["group", "event"], sort=False)["end"].cummax()
    before = latest.groupby(keys, sort=False).shift()
    number = (before.isna() | (found["start"] - before > longest_gap)).cumsum()
    eras = found.groupby(number, sort=False).agg(
        group=("group", "first"), event=("event", "first"), start=("start", "min"),
        end=("end", "max"),
    )  # fmt: skip
    return eras.reset_index(drop=True)


def combined_eras(eras: pd.DataFrame, codes: EventCodes, plan: PathwayPlan) -> pd.DataFrame:
    """Resolve overlaps of eras: combinations, and ends that are cut off.

    In each round the first overlap of each pathway is resolved. If the eras of no one overlap, all
    are returned as they are; otherwise eras shorter than ``plan.shortest_era`` are left out, also
    of people without overlaps, as R does.

    Parameters
    ----------
    eras : DataFrame
        Eras of all pathways.
    codes : EventCodes
        Gets the numbers of combinations.
    plan : PathwayPlan
        Gives the smallest overlap of a combination, the shortest era, and whether the end of an era
        is cut off at a shorter overlap.
    """
    left = eras.sort_values(ORDER, kind="stable").reset_index(drop=True)
    settled: list[pd.DataFrame] = []
    while len(left):
        later = _first_overlaps(left, plan)
        if not len(later):
            break
        active = left["group"].isin(left["group"].to_numpy()[later]).to_numpy()
        settled.append(_long_enough(left[~active], plan))
        made = _resolved(left, later, codes, plan)
        made = _long_enough(made[made["group"].isin(left["group"].to_numpy()[later])], plan)
        left = made.sort_values(ORDER, kind="stable").reset_index(drop=True)
    found = pd.concat([*settled, left], ignore_index=True)
    return found.sort_values(ORDER, kind="stable").reset_index(drop=True)


def _long_enough(eras: pd.DataFrame, plan: PathwayPlan) -> pd.DataFrame:
    """Leave out short eras."""
    return eras[eras["end"] - eras["start"] >= plan.shortest_era]


def _first_overlaps(eras: pd.DataFrame, plan: PathwayPlan) -> NDArray:
    """Return the rows that are the first of their pathway to start before the previous era ends."""
    group, start, end = (eras[name].to_numpy() for name in ("group", "start", "end"))
    overlap = end[:-1] - start[1:]
    least = 1 if plan.truncate else max(plan.combination, 1)
    rows = np.flatnonzero((group[1:] == group[:-1]) & (overlap >= least)) + 1
    return rows[np.unique(group[rows], return_index=True)[1]]


def _resolved(
    eras: pd.DataFrame, later: NDArray, codes: EventCodes, plan: PathwayPlan
) -> pd.DataFrame:
    """Resolve the overlap of each of some rows with the row before it."""
    columns = {name: eras[name].to_numpy().copy() for name in ORDER}
    group, start, end, event = columns.values()
    earlier = later - 1
    first, stop = start[later].copy(), end[earlier].copy()
    overlap = stop - first
    own, other = end[later] - start[later], stop - start[earlier]
    cut = (overlap < plan.combination) & (overlap != own) & (overlap != other)
    outlasts = stop >= end[later]  # The earlier era goes on after the later one.
    both = codes.together(event[earlier], event[later])
    follows, within = ~cut & ~outlasts, ~cut & outlasts
    more = {
        "group": [group[later][follows], group[earlier][within]],
        "start": [first[follows], end[later][within]],
        "end": [stop[follows], stop[within]],
        "event": [both[follows], event[earlier][within]],
    }
    start[later[follows]] = stop[follows]
    event[later[within]] = both[within]
    end[earlier] = first
    return pd.DataFrame({n: np.concatenate([columns[n], *of]) for n, of in more.items()})


def changed_eras(eras: pd.DataFrame, kept: str) -> pd.DataFrame:
    """Keep the first era of each event, or join eras of one event that follow each other.

    Parameters
    ----------
    eras : DataFrame
        Eras of all pathways, in order.
    kept : {"First", "Changes", "All"}
        Which eras are kept. The column ``days`` of joined eras is the sum of theirs.
    """
    eras = eras.assign(days=eras["end"] - eras["start"])
    if kept == "First":
        return eras.drop_duplicates(["group", "event"]).reset_index(drop=True)
    if kept == "All":
        return eras
    same = (eras["group"] == eras["group"].shift()) & (eras["event"] == eras["event"].shift())
    joined = eras.groupby((~same).cumsum(), sort=False).agg(
        group=("group", "first"), start=("start", "min"), end=("end", "max"),
        event=("event", "first"), days=("days", "sum"),
    )  # fmt: skip
    return joined.reset_index(drop=True)
