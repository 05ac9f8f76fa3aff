"""The population of a prediction model: entries, time at risk, outcomes, and random division."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.irregular_rows import distinct_people
from steropes.studies.database.observation_periods import WITH_PERSON, observation_periods
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.strategus_plans.prediction_settings import (
    DataRestriction,
    PopulationSettings,
    SplitSettings,
)

__all__ = [
    "FEWEST_OUTCOMES", "TEST", "UNUSED", "Population", "PopulationDesign", "divided",
    "outside_training", "population",
]  # fmt: skip

ENTRIES = "prediction_entries"
TEST, UNUSED = -1, 0  # Divisions of people who are in no fold.
# R's package fits no model with fewer outcomes: in the population, and in each fold.
FEWEST_OUTCOMES, FEWEST_IN_FOLD = 10, 5


class PopulationDesign(Protocol):
    """The settings that select a population."""

    @property
    def target(self) -> int:
        """The cohort whose outcomes are predicted."""

    @property
    def outcome(self) -> int:
        """The cohort of outcomes."""

    @property
    def restriction(self) -> DataRestriction:
        """Entries of the target that are read."""

    @property
    def population(self) -> PopulationSettings:
        """Entries that belong to the population, and their time at risk."""


@dataclass(frozen=True, repr=False, eq=False)
class Population:
    """The entries of a target that a prediction model describes.

    Attributes
    ----------
    entries : DataFrame
        ``person_id``, ``start``, ``age`` (the year of the start less the year of birth) and
        ``gender_id``, one row per entry.
    outcome : ndarray of int, shape (n,)
        1 if the outcome occurs in the time at risk.
    attrition : DataFrame
        ``description``, ``target_count``, ``unique_people``, ``outcomes`` and ``outcome_people``,
        the number of people who have them, after each step.
    """

    entries: pd.DataFrame
    outcome: NDArray
    attrition: pd.DataFrame


def population(db: OmopDatabase, design: PopulationDesign, cohorts: CohortTable) -> Population:
    """Select the entries of a design by the rules of PatientLevelPrediction, in its order."""
    settings = design.population
    with db.workspace() as work:
        cohorts.only({design.target, design.outcome}).place(work, ENTRIES)
        rows = work.frame(_entries_sql(db, design))
        # People without a row in person take no place in the sample, but are counted before it.
        unknown = rows[~rows["known"]]
        rows = _sampled(rows[rows["known"]], design.restriction.sample_size)
        if len(unknown):
            rows = pd.concat([rows, unknown]).sort_values("row_id", ignore_index=True)
        work.connection.register("prediction_given", rows[["row_id", "person_id", "start"]])
        events = work.frame(f"""
            SELECT DISTINCT row_id, (o.cohort_start_date - g.start::DATE)::BIGINT AS day
            FROM prediction_given g JOIN {ENTRIES} o ON o.subject_id = g.person_id
            WHERE o.cohort_definition_id = {design.outcome} ORDER BY ALL""")
        work.connection.unregister("prediction_given")
    rows = _with_time_at_risk(rows, settings)
    events = events.merge(rows, on="row_id")
    events = events[events["day"].between(-events["before"], events["observed"])]
    at_risk = events["day"].between(events["first"], events["last"])
    rows["outcome"] = rows["row_id"].isin(events.loc[at_risk, "row_id"]).astype(int)
    earlier = events[
        (events["day"] < events["first"]) & (events["day"] > -settings.prior_outcome_lookback)
    ]
    rows["earlier"] = rows["row_id"].isin(earlier["row_id"])
    original = {
        **_counted("Original cohorts", rows),
        "outcomes": len(events),
        "outcome_people": int(events["person_id"].nunique()),
    }
    return _selected(rows, settings, original)


def divided(outcome: NDArray, split: SplitSettings) -> NDArray:
    """Divide people at random, separately for those with and without the outcome.

    Parameters
    ----------
    outcome : ndarray of int, shape (n,)
        1 for people with the outcome.
    split : SplitSettings
        Shares, number of folds and seed.

    Returns
    -------
    ndarray of int, shape (n,)
        The fold, from 1; `TEST` or `UNUSED` for people who are not in the training data.

    Raises
    ------
    DataError
        R's package fits no model with so few outcomes.
    """
    cases = int(outcome.sum())
    if cases < FEWEST_OUTCOMES or cases == len(outcome):
        raise DataError(
            f"fewer than {FEWEST_OUTCOMES} people have the outcome, or everybody has it"
        )
    if cases * split.train / split.nfold < FEWEST_IN_FOLD:
        raise DataError(
            f"a fold would have fewer than {FEWEST_IN_FOLD} people with the outcome; fewer folds "
            "are needed"
        )
    random = np.random.default_rng(1 if split.seed is None else abs(split.seed))
    found = np.full(len(outcome), UNUSED)
    for value in (0, 1):
        people = random.permutation(np.flatnonzero(outcome == value))
        n = len(people)
        tested, left_out = outside_training(n, split)
        found[people[:tested]] = TEST
        training = people[tested + left_out :]
        found[training] = np.arange(len(training)) % split.nfold + 1
    return found


def outside_training(n: int, split: SplitSettings) -> tuple[int, int]:
    """Return how many of n people with equal outcomes are in the test, and how many are unused."""
    return int(n * split.test), round(n * (1 - split.train - split.test))


def _entries_sql(db: OmopDatabase, design: PopulationDesign) -> str:
    """Return SQL for the entries of the target, with days relative to their start."""
    limits: DataRestriction = design.restriction
    source = (
        f"SELECT subject_id, cohort_start_date AS first, cohort_end_date AS last FROM {ENTRIES} "
        f"WHERE cohort_definition_id = {design.target}"
    )
    if limits.first_exposure_only:
        source = (
            f"SELECT subject_id, min(first) AS first, min(last) AS last FROM ({source}) GROUP BY 1"
        )
    conditions, until, observed = ["TRUE"], "last", "op.observation_period_end_date::DATE"
    if limits.study_start_date is not None:
        conditions.append(f"first >= DATE '{limits.study_start_date.isoformat()}'")
    if limits.study_end_date is not None:
        end = f"DATE '{limits.study_end_date.isoformat()}'"
        conditions.append(f"first < {end}")
        until, observed = f"least({until}, {end})", f"least({observed}, {end})"
    if limits.washout_period:
        conditions.append(
            f"first - op.observation_period_start_date::DATE >= {limits.washout_period}"
        )
    people = distinct_people(db, f"SELECT subject_id FROM {ENTRIES}")
    return f"""
    SELECT row_number() OVER (ORDER BY subject_id, first, last) AS row_id, subject_id AS person_id,
        first AS start, (first - op.observation_period_start_date::DATE)::BIGINT AS before,
        ({until} - first)::BIGINT AS cohort_days, ({observed} - first)::BIGINT AS observed,
        (year(first) - p.year_of_birth)::DOUBLE AS age, p.gender_concept_id::DOUBLE AS gender_id,
        p.person_id IS NOT NULL AS known
    FROM ({source}) e LEFT JOIN {people} p ON p.person_id = e.subject_id
    JOIN {observation_periods(db)} op ON op.person_id = e.subject_id
        AND first BETWEEN op.observation_period_start_date AND op.observation_period_end_date
    WHERE {" AND ".join(conditions)} ORDER BY row_id"""


def _sampled(rows: pd.DataFrame, size: int | None) -> pd.DataFrame:
    """Return the entries of R's sample, which is ordered by products of dates and ids."""
    if size is None or len(rows) <= size:
        return rows
    person, start = rows["person_id"].to_numpy(), pd.to_datetime(rows["start"]).dt
    month, year, day = (part.to_numpy(np.int64) for part in (start.month, start.year, start.day))
    key = np.fmod(person * month, 123) * np.fmod(year * day, 123)
    order = np.lexsort((person, key))[:size]
    return rows.iloc[np.sort(order)].reset_index(drop=True)


def _with_time_at_risk(rows: pd.DataFrame, settings: PopulationSettings) -> pd.DataFrame:
    """Add the first and the last day at risk, relative to the start of the entry."""
    days = {"cohort start": 0, "cohort end": rows["cohort_days"]}
    first = settings.risk_window_start + days[settings.start_anchor]
    last = settings.risk_window_end + days[settings.end_anchor]
    rows = rows.assign(first=first, last=last)
    rows["last"] = rows[["last", "observed"]].min(axis=1)
    if settings.restrict_tar_to_cohort_end and (rows["cohort_days"] > 0).any():
        rows["last"] = rows[["last", "cohort_days"]].min(axis=1)
    return rows


def _selected(
    rows: pd.DataFrame, settings: PopulationSettings, original: dict[str, object]
) -> Population:
    """Apply the rules of the population one after the other, and count who remain."""
    steps = [original, _counted("Initial plpData cohort or population", rows)]

    def keep(description: str, kept: pd.Series) -> pd.DataFrame:
        """Return the entries that are kept, and record their number."""
        left = rows[kept]
        steps.append(_counted(description, left))
        return left

    if not rows["known"].all():
        rows = keep(WITH_PERSON, rows["known"])
    if settings.first_exposure_only:
        rows = keep("First Exposure", ~rows["person_id"].duplicated())
    if settings.washout_period:
        days = settings.washout_period
        rows = keep(f"At least {days} days of observation prior", rows["before"] >= days)
    if settings.remove_subjects_with_prior_outcome:
        rows = keep("No prior outcome", ~rows["earlier"])
    least = settings.min_time_at_risk if settings.require_time_at_risk else 0
    long = rows["last"] >= rows["first"] + least
    if not settings.require_time_at_risk:
        rows = keep("Removing subjects with no time at risk (if any)", long)
    elif settings.include_all_outcomes:
        text = "Removing non-outcome subjects with insufficient time at risk (if any)"
        rows = keep(text, long | (rows["outcome"] == 1))
    else:
        rows = keep("Removing subjects with insufficient time at risk (if any)", long)
    entries = rows[["person_id", "start", "age", "gender_id"]].reset_index(drop=True)
    return Population(entries, rows["outcome"].to_numpy(), pd.DataFrame(steps))


def _counted(description: str, rows: pd.DataFrame) -> dict[str, object]:
    """Count entries, people and outcomes."""
    return {
        "description": description,
        "target_count": len(rows),
        "unique_people": int(rows["person_id"].nunique()),
        "outcomes": int(rows["outcome"].sum()),
        "outcome_people": int(rows.loc[rows["outcome"] == 1, "person_id"].nunique()),
    }
