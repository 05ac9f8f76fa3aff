"""Index days of cases and controls: the first or all events, while observed, after a washout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.case_series_from_tables.day_columns import DayColumns
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
    Exposures,
    Observation,
    period_of,
    read_events,
    read_exposures,
    read_observation,
)
from steropes.errors import DataError

__all__ = ["Attrition", "IndexDays", "People", "read_people"]


@dataclass
class Attrition:
    """Who remains after each rule."""

    rows: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, rule: str, person: NDArray) -> None:
        """Add a rule with the people of the events that remain; refuse a rule that leaves none."""
        self.rows.append((rule, len(np.unique(person)), len(person)))
        if not len(person):
            raise DataError(f"No event remains after the rule {rule!r}.")

    def table(self) -> pd.DataFrame:
        """Return the rules as a table."""
        return pd.DataFrame(self.rows, columns=["rule", "people", "events"])


@dataclass(frozen=True)
class IndexDays:
    """Days of people to which windows are relative, sorted by person and day.

    Attributes
    ----------
    person, day : (n,) int arrays
    period : (n,) int array
        Observation period of the day.
    """

    person: NDArray
    day: NDArray
    period: NDArray

    def __len__(self) -> int:
        return len(self.person)

    def take(self, rows: NDArray) -> IndexDays:
        """Select rows by a mask or by numbers."""
        return IndexDays(self.person[rows], self.day[rows], self.period[rows])


@dataclass(frozen=True)
class People:
    """Observation and exposures of people.

    Attributes
    ----------
    days : DayColumns
        Reader of days of further tables.
    """

    names: ColumnNames
    days: DayColumns
    observation: Observation
    exposures: Exposures | None

    def index_days(
        self, table: Any, attrition: Attrition, what: str, first_only: bool, washout: int
    ) -> IndexDays:
        """Read index days and keep those that are observed after the washout.

        Parameters
        ----------
        table : data frame, relation or path
        what : str
            Name of the table, for messages and rules.
        """
        person, day = read_events(table, self.names, self.days, self.observation.ids, what)
        attrition.add(what, person)
        if first_only:
            at = np.flatnonzero(np.diff(person, prepend=-1))
            person, day = person[at], day[at]
            attrition.add(f"first of {what} of a person", person)
        return self.observed(person, day, attrition, what, washout)

    def observed(
        self, person: NDArray, day: NDArray, attrition: Attrition, what: str, washout: int
    ) -> IndexDays:
        """Keep days that are observed, after days of washout; see `index_days`."""
        found = IndexDays(person, day, period_of(self.observation, person, day))
        found = found.take(found.period >= 0)
        attrition.add(f"{what} while observed", found.person)
        if washout:
            found = found.take(found.day - self.observation.first[found.period] >= washout)
            attrition.add(f"{what} after {washout:,} days of observation", found.person)
        return found

    def day_values(self, day: NDArray) -> NDArray:
        """Return days as in the tables: numbers, or dates."""
        return day.astype("datetime64[D]").astype("datetime64[s]") if self.days.dates else day


def read_people(exposures: Any, observation: Any, names: ColumnNames) -> People:
    """Read observation and, unless it is None, exposures; see `case_crossover`."""
    days = DayColumns()
    periods = read_observation(observation, names, days)
    found = None
    if exposures is not None:
        found = read_exposures(exposures, names, days, periods.ids)
    return People(names, days, periods, found)
