"""Cases with their events and exposures, from three tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series_from_tables.day_columns import DayColumns
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
    period_of,
    read_events,
    read_exposures,
    read_observation,
)
from steropes.errors import DataError

__all__ = ["SeriesData", "read_series"]

Attrition = list[tuple[str, int, int, int]]


@dataclass(frozen=True, repr=False)
class SeriesData:
    """The cases of a case series with their exposures.

    Attributes
    ----------
    cases : Cases
        Ages are NaN without a date of birth, if days are dates.
    exposures : list of str
        Names of the exposures.
    era_case, era_exposure, era_first, era_last : (m,) int arrays
        Exposures of each case, in days since the first day of its observation.
    era_dose : (m,) int array or None
        Numbers of doses from 0, if the exposures have a column of them.
    has_ends : bool
        Whether the exposures have a column of last days.
    dated : bool
        Whether days of cases have calendar dates.
    attrition : list of (str, int, int, int)
        Rule, people, events and observation periods.
    """

    cases: Cases
    exposures: list[str]
    era_case: NDArray
    era_exposure: NDArray
    era_first: NDArray
    era_last: NDArray
    era_dose: NDArray | None
    has_ends: bool
    dated: bool
    attrition: Attrition


def read_series(
    events: Any, exposures: Any, observation: Any, names: ColumnNames, first_event_only: bool
) -> SeriesData:
    """Read and check the three tables; see `self_controlled_case_series`.

    Raises
    ------
    DataError
        A column is missing or has values that cannot be used, or no one has an event while
        observed.
    """
    days = DayColumns()
    periods = read_observation(observation, names, days)
    person, day = read_events(events, names, days, periods.ids)
    attrition = [("observed", len(periods.ids), len(person), len(periods.person))]
    if first_event_only:
        at = np.flatnonzero(np.diff(person, prepend=-1))
        person, day = person[at], day[at]
        attrition.append(
            ("first event of a person", len(periods.ids), len(day), len(periods.person))
        )
    of = period_of(periods, person, day)
    inside = of >= 0
    person, day, of = person[inside], day[inside], of[inside]
    if not len(of):
        raise DataError(
            "No event is within the observation of its person; check that the days of events and "
            "observation are on one scale."
        )
    kept = np.unique(of)
    attrition.append(("with an event while observed", len(np.unique(person)), len(day), len(kept)))
    case = np.searchsorted(kept, of)
    first = periods.first[kept]
    cases = Cases(
        person=periods.person[kept],
        observed=first + periods.shift[kept],
        start=np.zeros(len(kept), np.int64),
        end=periods.last[kept] - first,
        age=periods.age[kept],
        end_known=periods.known[kept],
        outcome_case=case,
        outcome_day=day - first[case],
    )
    found = read_exposures(exposures, names, days, periods.ids)
    era, owner = _eras_of_cases(found.person, cases.person)
    dated = bool(days.dates) or names.birth is not None
    return SeriesData(
        cases, found.names, owner, found.exposure[era], found.first[era] - first[owner],
        found.last[era] - first[owner], None if found.dose is None else found.dose[era],
        found.has_ends, dated, attrition,
    )  # fmt: skip


def _eras_of_cases(person: NDArray, of_case: NDArray) -> tuple[NDArray, NDArray]:
    """Pair each exposure with the cases of its person; return rows of exposures, and cases."""
    low = np.searchsorted(of_case, person, side="left")
    counts = np.searchsorted(of_case, person, side="right") - low
    era = np.repeat(np.arange(len(person)), counts)
    begins = np.concatenate([[0], np.cumsum(counts)])[:-1]
    return era, np.arange(len(era)) - np.repeat(begins - low, counts)
