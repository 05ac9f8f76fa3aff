"""SQL of the operators that make subsets of cohorts, as CohortGenerator defines them."""

from __future__ import annotations

import datetime as dt

from steropes.errors import DataError
from steropes.studies.database.irregular_rows import distinct_people
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.strategus_plans.shared_cohorts import SubsetCohort
from steropes.studies.strategus_plans.subset_definitions import (
    CohortIntersection,
    Demographics,
    EntryLimit,
    SubsetOperator,
)

__all__ = ["ENTRIES", "make_subset"]

ENTRIES = "shared_entries"  # The temporary table of all cohorts made so far.
SEXES = {"male": 8507, "female": 8532}
COLUMNS = "subject_id, cohort_start_date, cohort_end_date"


def make_subset(db: OmopDatabase, work: Workspace, subset: SubsetCohort) -> None:
    """Add the entries of a subset to the table of entries.

    Parameters
    ----------
    subset : SubsetCohort
        The subset; its target is in the table.

    Raises
    ------
    DataError
        An operator has values without counterpart.
    """
    work.run(
        f"CREATE OR REPLACE TEMP TABLE subset_0 AS SELECT {COLUMNS} FROM {ENTRIES} "
        f"WHERE cohort_definition_id = {subset.target}"
    )
    last = 0
    for last, operator in enumerate(subset.definition.subset_operators, 1):
        sql = _query(db, operator, f"subset_{last - 1}")
        work.run(f"CREATE OR REPLACE TEMP TABLE subset_{last} AS {sql}")
    work.run(f"INSERT INTO {ENTRIES} SELECT {subset.id}::BIGINT, {COLUMNS} FROM subset_{last}")


def _query(db: OmopDatabase, operator: SubsetOperator, target: str) -> str:
    """Return the query of an operator on a table of entries."""
    if isinstance(operator, CohortIntersection):
        return _intersection(operator, target)
    if isinstance(operator, Demographics):
        return _demographics(db, operator, target)
    return _limit(db, operator, target)


def _intersection(operator: CohortIntersection, target: str) -> str:
    """Keep entries of people who are in other cohorts within all windows, or are not.

    Windows hold for the same entry of another cohort. A negated operator removes the entries that
    start on the day of one that passes.
    """
    if not operator.cohort_ids:
        raise DataError("a CohortSubsetOperator needs cohortIds")
    names = {"cohortStart": "cohort_start_date", "cohortEnd": "cohort_end_date"}
    conditions = ""
    for window in operator.all_windows:
        other, own = names[window.subset_anchor], names[window.target_anchor]
        inside = (
            f"s.{other} >= t.{own} + {window.start_day} AND s.{other} <= t.{own} + {window.end_day}"
        )
        conditions += f" AND {'NOT ' if window.negate else ''}({inside})"
    needed = 1 if operator.cohort_combination_operator == "any" else len({*operator.cohort_ids})
    listed = ", ".join(map(str, operator.cohort_ids))
    found = (
        f"SELECT t.subject_id, t.cohort_start_date, t.cohort_end_date FROM {target} t "
        f"JOIN {ENTRIES} s ON s.subject_id = t.subject_id "
        f"WHERE s.cohort_definition_id IN ({listed}){conditions} GROUP BY ALL "
        f"HAVING count(DISTINCT s.cohort_definition_id) >= {needed}"
    )
    if not operator.negate:
        return found
    return (
        f"SELECT b.* FROM {target} b WHERE NOT EXISTS (SELECT 1 FROM ({found}) a WHERE "
        "a.subject_id = b.subject_id AND a.cohort_start_date = b.cohort_start_date)"
    )


def _demographics(db: OmopDatabase, operator: Demographics, target: str) -> str:
    """Keep entries by year of birth, sex, race and ethnicity."""
    conditions = []
    for column, values in (
        ("gender_concept_id", operator.gender),
        ("race_concept_id", operator.race),
        ("ethnicity_concept_id", operator.ethnicity),
    ):
        if values:
            listed = ", ".join(str(_concept(v, column)) for v in values)
            conditions.append(f"p.{column} IN ({listed})")
    people = distinct_people(db, f"SELECT subject_id FROM {target}")
    age = "year(t.cohort_start_date) - p.year_of_birth"
    if operator.age_min is not None:
        conditions.append(f"{age} >= {operator.age_min}")
    if operator.age_max is not None:
        conditions.append(f"{age} <= {operator.age_max}")
    return (
        f"SELECT t.* FROM {target} t JOIN {people} p ON t.subject_id = p.person_id "
        f"WHERE {' AND '.join(conditions) or 'TRUE'}"
    )


def _concept(value: object, column: str) -> int:
    """Convert a concept; sexes may be written as words."""
    if isinstance(value, str) and column == "gender_concept_id" and value.lower() in SEXES:
        return SEXES[value.lower()]
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError(f"{column} of a DemographicSubsetOperator: {str(value)[:40]!r} is no id")
    return value


def _limit(db: OmopDatabase, operator: EntryLimit, target: str) -> str:
    """Keep the first, last or all entries, with observation before and after the start.

    The observation is required before the choice of an entry with "earliestRemaining" and
    "latestRemaining", and after it otherwise.
    """
    kind = operator.limit_to or "all"
    observed = (
        f"EXISTS (SELECT 1 FROM {observation_periods(db)} op WHERE op.person_id = subject_id "
        "AND cohort_start_date BETWEEN op.observation_period_start_date "
        "AND op.observation_period_end_date "
        f"AND cohort_start_date - op.observation_period_start_date >= {operator.prior_time} "
        f"AND op.observation_period_end_date - cohort_start_date >= {operator.follow_up_time})"
    )
    uses = operator.prior_time > 0 or operator.follow_up_time > 0
    before = f"WHERE {observed}" if uses and kind.endswith("Remaining") else ""
    order = "ASC" if kind in ("firstEver", "earliestRemaining") else "DESC"
    conditions = [] if kind == "all" else ["c.ordinal = 1"]
    if uses and not kind.endswith("Remaining"):
        conditions.append(observed)
    for sign, day in ((">=", operator.calendar_start_date), ("<=", operator.calendar_end_date)):
        if isinstance(day, dt.date):
            conditions.append(f"c.cohort_start_date {sign} DATE '{day.isoformat()}'")
    if operator.minimum_cohort_duration > 0:
        length = "abs(c.cohort_end_date - c.cohort_start_date)"
        conditions.append(f"{length} >= {operator.minimum_cohort_duration}")
    return (
        f"SELECT {COLUMNS} FROM (SELECT t.*, row_number() OVER (PARTITION BY subject_id "
        f"ORDER BY cohort_start_date {order}, cohort_end_date) AS ordinal "
        f"FROM {target} t {before}) c WHERE {' AND '.join(conditions) or 'TRUE'}"
    )
