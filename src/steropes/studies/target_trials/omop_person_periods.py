"""Periods of people in an OMOP database: treatment, outcome, eligibility and covariates of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.cohorts.two_cohort_entry_rules import (
    NEVER,
    PersonData,
    Rows,
    days,
    within_ages,
)
from steropes.studies.covariates.feature_extraction import extract_features
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["covariate_names", "person_time"]


def person_time(db: OmopDatabase, trial: OmopTrial, cohorts: CohortTable | None = None) -> People:
    """Make the table of people and periods that `sequential_trials` reads.

    Treatment is that of the first day of a period, covariates are of records before it, and the
    outcome is from that day to the last of the period. People are followed from their first trial
    to the outcome, the end of their observation or the end of the study.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    trial : OmopTrial
        The specification.
    cohorts : CohortTable, optional
        Cohorts to use instead of those of the specification.

    Returns
    -------
    DataFrame
        One row per person and period: ``person_id``, ``period`` (counted from 0), ``start`` (its
        first day), ``treated``, ``outcome``, ``censored`` (observation ends in the period),
        ``eligible``, and the covariates by name.

    Raises
    ------
    DataError
        A cohort cannot be made, no one is eligible, or no one has a covariate that is asked for.

    Examples
    --------
    >>> from datetime import date
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.target_trials import OmopTrial, person_time
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> trial = OmopTrial(sources, 1, 3, date(2008, 1, 1), date(2008, 12, 31), period_days=60)
    >>> person_time(synthetic_database(200), trial)["period"].max()
    np.int64(5)
    """
    if cohorts is None:
        cohorts = trial.cohorts.make(db, trial.roles).require_all()
    nested = None if trial.nesting is None else _first_days(cohorts, trial.nesting)
    persons = PersonData(db, _everybody(db) if nested is None else nested.index.to_numpy())
    rows = _periods(persons, trial)
    treated = CohortDays.of(cohorts, trial.treatment)
    first = _first_days(cohorts, trial.outcome).reindex(rows["person_id"]).to_numpy(float)
    first = np.where(np.isnan(first), NEVER, first)
    rows = rows.assign(first=first)[rows["start"].to_numpy() <= first]
    rows = rows.assign(eligible=_eligible(rows, trial, treated, persons, nested))
    entered = rows["eligible"].groupby(rows["spell"]).cummax().to_numpy()
    # Who is observed again after a gap is followed in the first spell with a trial.
    earliest = rows["spell"].where(entered).groupby(rows["person_id"]).transform("min")
    rows = rows[entered & (rows["spell"] == earliest).to_numpy()]
    if rows.empty:
        raise DataError("nobody is eligible for a trial; check dates, washout and the other rules")
    start, last = rows["start"].to_numpy(), rows["observed_to"].to_numpy()
    end = start + trial.period_days - 1
    had = rows["first"].to_numpy() <= np.minimum(end, last)
    # Observation that ends with the study is complete.
    lost = (last < end) | ((last == end) & (rows["period"].to_numpy() < trial.periods - 1))
    table = pd.DataFrame(
        {
            "person_id": rows["person_id"].to_numpy(),
            "period": rows["period"].to_numpy(),
            "start": start.astype("datetime64[D]").astype("datetime64[s]"),
            "treated": treated.any_day(rows["person_id"].to_numpy(), start, start).astype(int),
            "outcome": had.astype(int),
            "censored": (~had & lost).astype(int),
            "eligible": rows["eligible"].to_numpy().astype(int),
        }
    )
    return People(pd.concat([table, _covariates(db, trial, table)], axis=1))


def covariate_names(table: pd.DataFrame) -> list[str]:
    """Return the names of the covariates of a table of person-time."""
    return [str(name) for name in table.columns[table.columns.get_loc("eligible") + 1 :]]


@dataclass(frozen=True, repr=False, eq=False)
class CohortDays:
    """The days of people in a cohort, as spells without overlap.

    Attributes
    ----------
    person, first, last : ndarray of int, shape (m,)
        Ordered by person and day.
    """

    person: NDArray
    first: NDArray
    last: NDArray

    @classmethod
    def of(cls, cohorts: CohortTable, cohort: int) -> CohortDays:
        """Join the entries of a cohort that overlap."""
        own = cohorts.only(cohort)
        table = pd.DataFrame(
            {"person": own.subject, "first": days(own.start), "last": days(own.end)}
        ).sort_values(["person", "first"])
        before = table.groupby("person")["last"].cummax().groupby(table["person"]).shift()
        new = (before.isna() | (table["first"] > before + 1)).cumsum()
        spells = table.groupby(new).agg({"person": "first", "first": "min", "last": "max"})
        return cls(*(spells[c].to_numpy(np.int64) for c in ("person", "first", "last")))

    def any_day(self, person: NDArray, a: NDArray, b: NDArray) -> NDArray:
        """Return whether each person is in the cohort on any day from a to b, (n,) bool."""
        if not len(self.person):
            return np.zeros(len(person), dtype=bool)
        everybody = np.unique(np.concatenate([self.person, person]))
        width = np.int64(4 * NEVER)
        keys = np.searchsorted(everybody, self.person) * width + self.first
        own = np.searchsorted(everybody, person)
        at = np.searchsorted(keys, own * width + b, side="right") - 1
        safe = np.maximum(at, 0)
        same = (at >= 0) & (self.person[safe] == person)
        return np.asarray(same & (self.last[safe] >= a) & (a <= b))


def _everybody(db: OmopDatabase) -> NDArray:
    """Return the ids of all people of the database, ascending."""
    with db.workspace() as work:
        found = work.frame(f"SELECT DISTINCT person_id::BIGINT AS id FROM {db.table('person')}")
    return np.sort(found["id"].to_numpy())


def _first_days(cohorts: CohortTable, cohort: int) -> pd.Series:
    """Return the first day of each person in a cohort, by person."""
    own = cohorts.only(cohort)
    return pd.Series(days(own.start)).groupby(own.subject).min()


def _periods(persons: PersonData, trial: OmopTrial) -> pd.DataFrame:
    """List the periods of everybody while observed, from the first that could be a trial."""
    origin = int(np.datetime64(trial.study_start, "D").astype(np.int64))
    spells = persons.periods[persons.periods["person"].isin(persons.born["person_id"])]
    spells = spells.sort_values(["person", "observed_from"]).reset_index(drop=True)
    since, until = (days(spells[c].to_numpy()) for c in ("observed_from", "observed_to"))
    width = trial.period_days
    k0 = np.maximum(-((origin - since - trial.washout_days) // width), 0)
    k1 = np.minimum((until - origin) // width, trial.periods - 1)
    count = np.maximum(k1 - k0 + 1, 0)
    spell = np.repeat(np.arange(len(spells)), count)
    period = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + k0[spell]
    return pd.DataFrame(
        {
            "person_id": spells["person"].to_numpy()[spell],
            "spell": spell,
            "period": period,
            "start": origin + period * width,
            "observed_to": until[spell],
        }
    )


def _eligible(
    rows: pd.DataFrame,
    trial: OmopTrial,
    treated: CohortDays,
    persons: PersonData,
    nested: pd.Series | None,
) -> NDArray:
    """Mark the periods in which a person enters a trial."""
    person, start = rows["person_id"].to_numpy(), rows["start"].to_numpy()
    now = treated.any_day(person, start, start)
    # A starter may have begun in the period before; no one else is treated in the washout.
    untreated_until = np.where(now, start - trial.period_days, start - 1)
    keep = ~treated.any_day(person, start - trial.washout_days, untreated_until)
    if nested is not None:
        keep &= nested.reindex(person).to_numpy(float) <= start
    if trial.sexes:
        keep &= np.isin(persons.birth(person)[1], trial.sexes)
    if trial.min_age is not None or trial.max_age is not None:
        of_years = within_ages(trial.min_age, trial.max_age, persons, trial.age_rule)
        nobody = np.zeros(len(person), dtype=np.int64)
        keep &= of_years(Rows.of(person, nobody, start, start))
    return np.asarray(keep)


def _covariates(db: OmopDatabase, trial: OmopTrial, table: pd.DataFrame) -> pd.DataFrame:
    """Measure the covariates of each period from records before it."""
    if not trial.covariates:
        return pd.DataFrame(index=table.index)
    found = extract_features(db, table[["person_id", "start"]], trial.features)
    known = found.columns.set_index("covariate_id")["name"]
    gone = [c for c in trial.covariates if c not in known.index]
    if gone:
        raise DataError(
            f"nobody has covariate {gone[0]} in any period; check its id and the features' analyses"
        )
    return pd.DataFrame(
        {str(known[c]): np.asarray(found.column(c), dtype=float) for c in trial.covariates},
        index=table.index,
    )
