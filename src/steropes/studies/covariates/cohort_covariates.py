"""Covariates of entries in cohorts around a start, as PatientLevelPrediction defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
from numpy.typing import NDArray

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.covariate_names import covariate_table
from steropes.studies.database.irregular_rows import distinct_people
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["CohortCovariate", "collect_cohort_covariates", "named_covariates"]

ENTRIES = "covariate_cohorts"
# R's values: one, the number of starts, and the age at the start or its logarithm, in which the age
# is the year of the start less the year of birth.
VALUES = {
    "present": "1",
    "starts": "count(DISTINCT c.cohort_start_date)",
    "age": "max(year(p.start) - q.year_of_birth)",
    "log age": "ln(max(year(p.start) - q.year_of_birth))",
}


@dataclass(frozen=True)
class CohortCovariate:
    """A covariate of people with an entry of a cohort that overlaps a window.

    Attributes
    ----------
    covariate_id : int
        The covariate.
    name : str
        Its name for display.
    cohort : int
        The cohort.
    start_day, end_day : int
        The window, relative to the start of a person.
    value : {"present", "starts", "age", "log age"}
        The value of people with an entry: 1, the number of starts, or their age.
    """

    covariate_id: int
    name: str
    cohort: int
    start_day: int
    end_day: int
    value: Literal["present", "starts", "age", "log age"] = "present"


def collect_cohort_covariates(
    db: OmopDatabase, work: Workspace, covariates: Sequence[CohortCovariate], cohorts: CohortTable
) -> None:
    """Add the covariates of the table ``people`` to the table ``features`` of a workspace."""
    cohorts.only({c.cohort for c in covariates}).place(work, ENTRIES)
    people = distinct_people(db, "SELECT person_id FROM people")
    for c in covariates:
        ages = f"JOIN {people} q ON q.person_id = p.person_id" if "age" in c.value else ""
        work.run(f"""
        INSERT INTO features
        SELECT {c.covariate_id}, p.row_id, {VALUES[c.value]}
        FROM people p JOIN {ENTRIES} c ON c.subject_id = p.person_id {ages}
        WHERE c.cohort_definition_id = {c.cohort}
          AND c.cohort_start_date <= p.start + ({c.end_day})
          AND c.cohort_end_date >= p.start + ({c.start_day})
        GROUP BY p.row_id
        """)


def named_covariates(
    db: OmopDatabase,
    ids: NDArray,
    covariates: Sequence[CohortCovariate],
    cohorts: CohortTable | None,
    units: Mapping[int, int],
) -> pd.DataFrame:
    """Describe covariates as `covariate_table` does, also those of cohorts in windows."""
    own = {c.covariate_id: c for c in covariates}
    listed = pd.Index(ids)
    found = covariate_table(db, listed[~listed.isin([*own])].to_numpy(), cohorts, units)
    rows = [
        {
            "covariate_id": i,
            "name": own[i].name,
            "analysis_id": i % 1000,
            "concept_id": 0,
        }
        for i in map(int, ids)
        if i in own
    ]
    if not rows:
        return found
    both = [t for t in (found, pd.DataFrame(rows)) if len(t)]
    return pd.concat(both).sort_values("covariate_id", ignore_index=True)
