"""First and last days of each case's risk periods without overlap, and their columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series.interval_splitting import split_time
from steropes.designs.case_series.risk_window_days import Eras, WindowRules, join_eras, window_spans
from steropes.designs.case_series.series_column_descriptions import Column
from steropes.designs.case_series_from_tables.cases_from_tables import SeriesData
from steropes.designs.case_series_from_tables.risk_periods import RiskPeriod
from steropes.errors import DataError, listed

__all__ = ["PeriodSpans", "period_spans"]


@dataclass(frozen=True)
class PeriodSpans:
    """Days of risk periods; days of one exposure belong to one period at most.

    Attributes
    ----------
    columns : list of Column
    case, column, first, last : (m,) int arrays
    era : (m,) int array
        Number of the exposure of the person, from 0, that the period is of.
    eras : Eras
        The joined exposures; their groups are ``case * number of exposures + exposure``.
    """

    columns: list[Column]
    case: NDArray
    column: NDArray
    first: NDArray
    last: NDArray
    era: NDArray
    eras: Eras


def period_spans(data: SeriesData, periods: list[RiskPeriod], gap: int | None) -> PeriodSpans:
    """Find the days of all risk periods within the time of the cases.

    A period ends before the next exposure of the same kind starts. Where periods of one exposure
    overlap, a day belongs to that of the later exposure (as before it), and otherwise to the period
    that is listed last.

    Parameters
    ----------
    gap : int, optional
        Largest number of days between exposures that are joined to one.
    """
    _check(data, periods)
    kinds = len(data.exposures)
    group = data.era_case * kinds + data.era_exposure
    numbered = data.era_dose is not None
    eras = join_eras(group, data.era_first, data.era_last, None if numbered else gap)
    doses = eras.number if data.era_dose is None else _given_doses(data, group, eras)
    of, following, end = eras.group % kinds, eras.following(), data.cases.end
    columns: list[Column] = []
    parts: list[tuple[NDArray, ...]] = []
    for e, name in enumerate(data.exposures):
        for k, period in enumerate(periods):
            if period.exposure not in (None, name):
                continue
            rows = (of == e) & ((doses == 0) | (not period.first_only))
            chosen = np.flatnonzero(rows)
            some = eras.take(chosen)
            limit = following[chosen]
            if period.within_era:
                limit = np.minimum(limit, some.last + 1)
            rules = WindowRules(
                period.start, period.end, period.start_at == "end", period.end_at == "end"
            )
            case = some.group // kinds
            era, first, last = window_spans(some, limit, rules, np.zeros(len(case)), end[case])
            number, own = some.number[era], doses[chosen]
            at = len(columns) + (own[era] if period.by_dose else np.zeros_like(number))
            columns += _columns(name, k, period, _most(own) if period.by_dose else 0)
            parts.append((some.group[era], number * len(periods) + k, at, first, last))
    group, rank, at, first, last = (np.concatenate(x) for x in zip(*parts, strict=True))
    most = int(rank.max(initial=0)) + 1
    own, winner, low, high = _without_overlap(group, rank, first, last, end, kinds)
    # Each group and rank is one span before the overlap is removed.
    order = np.argsort(group * most + rank, kind="stable")
    place = np.searchsorted((group * most + rank)[order], own * most + winner)
    column = at[order[place]]
    return PeriodSpans(columns, own // kinds, column, low, high, winner // len(periods), eras)


def _most(doses: NDArray) -> int:
    """Return the number of doses."""
    return int(doses.max(initial=0)) + 1


def _given_doses(data: SeriesData, group: NDArray, eras: Eras) -> NDArray:
    """Return the given numbers of the doses of eras, which must rise with time."""
    assert data.era_dose is not None
    order = np.lexsort((data.era_dose, data.era_first, group))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(group[order]) != 0) | (np.diff(data.era_first[order]) != 0)
    dose = data.era_dose[order[new]]
    wrong = (eras.group[1:] == eras.group[:-1]) & (dose[1:] <= dose[:-1])
    if wrong.any():
        raise DataError(
            f"The numbers of doses of {int(wrong.sum()):,} exposures are not above those of "
            "earlier exposures of the person; correct them, or leave out dose= to number "
            "exposures in the order of time."
        )
    return dose


def _without_overlap(
    group: NDArray, rank: NDArray, first: NDArray, last: NDArray, end: NDArray, kinds: int
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Give each day of a group to the span with the largest rank."""
    groups, at = np.unique(group, return_inverse=True)
    of = groups // kinds
    none = np.zeros(0, np.int64)
    split = split_time(
        np.zeros(len(groups), np.int64), end[of], (at, rank, first, last), (none, none)
    )
    on = np.flatnonzero(np.diff(split.indptr) > 0)
    winner = split.columns[split.indptr[on + 1] - 1]  # Columns of a row are ascending.
    most = int(rank.max(initial=0)) + 1
    joined = join_eras(split.case[on] * most + winner, split.first[on], split.last[on])
    return groups[joined.group // most], joined.group % most, joined.first, joined.last


def _columns(exposure: str, k: int, period: RiskPeriod, doses: int) -> list[Column]:
    """Return the columns of a period: one, or one for each dose."""
    names = [exposure]
    if doses:
        names = [f"{exposure} dose {d + 1}".strip() for d in range(doses)]
    return [
        Column(
            ": ".join(x for x in (name, period.text) if x), k, of_interest=not period.pre_exposure,
            pre_exposure=bool(period.pre_exposure),
        )
        for name in names
    ]  # fmt: skip


def _check(data: SeriesData, periods: list[RiskPeriod]) -> None:
    """Refuse periods that need a last day that exposures do not have, or an unknown exposure."""
    for period in periods:
        if period.needs_end and not data.has_ends:
            raise DataError(
                f"The risk period {period.text!r} needs the last day of exposures, but exposures "
                "has no such column; name it by end=, or give periods in days after the start, "
                "such as risk_periods=(0, 42)."
            )
        if period.exposure is not None and period.exposure not in data.exposures:
            known = listed(data.exposures) if data.exposures != [""] else "no column exposure="
            raise DataError(
                f"The risk period {period.text!r} is of the exposure {period.exposure!r}; "
                f"exposures has {known}."
            )
    missing = [
        name for name in data.exposures if not any(p.exposure in (None, name) for p in periods)
    ]
    if missing:
        raise DataError(
            f"The exposure {missing[0]!r} has no risk period; add one, or leave it out of "
            "exposures."
        )
