"""Samples of the risk sets of cases: rules, sampling, and the sets as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.case_only.controls_from_risk_sets import (
    Cohort,
    SetRows,
    numbers_of,
    read_matching,
    risk_set_rows,
)
from steropes.designs.case_only.index_days import Attrition, People, read_people
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
    read_events,
)
from steropes.designs.values.argument_checks import check_names, check_real, check_whole
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["SamplingRules", "sample_risk_sets", "sampled_sets", "set_table"]


def sample_risk_sets(
    events: Any,
    observation: Any,
    *,
    controls_per_case: int | None = 1,
    match: Sequence[str] = (),
    calipers: Mapping[str, float] | None = None,
    washout: int = 180,
    time: Literal["calendar", "observed"] = "calendar",
    seed: int = 0,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
) -> pd.DataFrame:
    """Sample controls for cases from the people at risk at the same time.

    Further data are then needed for these people only, and `ConditionalLogisticRegression` with
    ``strata=sets["set"]`` compares them. Controls are also index days for `case_time_control`.

    Parameters
    ----------
    events, observation : data frame, relation or path
        As of `nested_case_control`.
    controls_per_case : int or None, default 1
        Number of controls of each case; None takes the whole risk set.
    match : list of str, optional
        Columns of ``observation`` in which controls equal the case.
    calipers : dict, optional
        Largest difference of controls from the case in numbers, or in days for dates.
    washout : int, default 180
        Days of observation before people are at risk.
    time : {"calendar", "observed"}, default "calendar"
        Time scale of risk sets.
    seed : int, default 0
        Seed of the sample.
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".

    Returns
    -------
    DataFrame
        A row for each person of each set: ``set`` (from 0), ``id``, ``case`` (1 or 0) and ``day``,
        the index day.

    Raises
    ------
    DataError
        A column is missing or has values that cannot be used, or no case has a control.

    See Also
    --------
    nested_case_control : Also compares exposures.

    References
    ----------
    Langholz and Goldstein (1996), Statistical Science 11:35–53.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.case_only import sample_risk_sets
    >>> cohort = pd.DataFrame({"id": range(50), "start": 0, "end": 500})
    >>> events = pd.DataFrame({"id": [3, 7], "day": [300, 400]})
    >>> sets = sample_risk_sets(events, cohort, controls_per_case=2)
    >>> sets.groupby(["set", "case"]).size().tolist()
    [2, 1, 2, 1]
    """
    rules = SamplingRules.checked(controls_per_case, match, calipers, washout, time, seed)
    names = ColumnNames(id, event_day, None, None, start, end, None, None)
    people = read_people(None, observation, names)
    rows, _ = sampled_sets(events, observation, people, Attrition(), rules, ())
    return set_table(rows, people)


@dataclass(frozen=True)
class SamplingRules:
    """Checked arguments of `sample_risk_sets`."""

    each: int | None
    match: list[str]
    widths: dict[str, float]
    washout: int
    time: str
    seed: int

    @classmethod
    def checked(
        cls, each: Any, match: Any, calipers: Any, washout: Any, time: Any, seed: Any
    ) -> SamplingRules:
        """Check the arguments."""
        if each is not None:
            check_whole("controls_per_case", each, 1)
        if time not in ("calendar", "observed"):
            raise DataError(f"time must be 'calendar' or 'observed', not {time!r}.")
        return cls(
            each, check_names("match", match), _widths(calipers),
            check_whole("washout", washout, 0), time, check_whole("seed", seed, 0),
        )  # fmt: skip


def sampled_sets(
    events: Any,
    observation: Any,
    people: People,
    attrition: Attrition,
    rules: SamplingRules,
    covariates: Sequence[str],
) -> tuple[SetRows, NDArray | None]:
    """Sample the risk sets of first events; return them with their covariates."""
    wanted = list(dict.fromkeys([*rules.match, *rules.widths, *covariates]))
    table = read_columns(observation, wanted, "observation") if wanted else pd.DataFrame()
    person, day = read_events(events, people.names, people.days, people.observation.ids)
    attrition.add("events", person)
    first = np.flatnonzero(np.diff(person, prepend=-1))
    person, day = person[first], day[first]
    attrition.add("first of events of a person", person)
    cases = people.observed(person, day, attrition, "events", rules.washout)
    order = people.observation.row
    matching = None
    if rules.match or rules.widths:
        matching = read_matching(table, rules.match, rules.widths, order)
    cohort = _cohort(people, person, day, rules.washout, rules.time, matching)
    rows = risk_set_rows(cases, cohort, people, rules.each, rules.seed)
    attrition.add("events with a control at risk", rows.person[rows.case])
    return rows, numbers_of(table, covariates, order)[rows.period] if covariates else None


def set_table(rows: SetRows, people: People) -> pd.DataFrame:
    """Return sets as a table."""
    return pd.DataFrame(
        {
            "set": rows.set,
            "id": people.observation.ids.take(rows.person),
            "case": rows.case.astype(np.int8),
            "day": people.day_values(rows.day),
        }
    )


def _widths(calipers: Any) -> dict[str, float]:
    """Check the largest differences."""
    if calipers is None:
        return {}
    if not isinstance(calipers, Mapping):
        raise DataError(f"calipers must be a dict such as {{'birth': 730}}, not {calipers!r}.")
    wanted = "a number of 0 or more"
    check_names("calipers", list(calipers))
    return {
        name: check_real(f"calipers[{name!r}]", width, lambda x: x >= 0, wanted)
        for name, width in calipers.items()
    }


def _cohort(
    people: People,
    person: NDArray,
    day: NDArray,
    washout: int,
    time: str,
    matching: tuple[NDArray, list[tuple[NDArray, float]]] | None,
) -> Cohort:
    """Return the time at risk, which ends with the first event of a person.

    Parameters
    ----------
    person, day : (m,) int arrays
        First events.
    """
    periods = people.observation
    event = np.full(len(periods.ids), np.iinfo(np.int64).max)
    event[person] = day
    n = len(periods.first)
    group, near = matching or (np.zeros(n, np.int64), [])
    origin = periods.first if time == "observed" else np.zeros(n, np.int64)
    leaves = np.minimum(periods.last, event[periods.person])
    return Cohort(periods.first + washout, leaves, origin, group, near)
