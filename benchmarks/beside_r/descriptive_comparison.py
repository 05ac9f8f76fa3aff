"""Draw cohorts, incidence rates and characteristics, and compare them with R's packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.omop import SEASONAL

from steropes.studies import OmopDatabase
from steropes.studies.cohorts import circe_cohorts
from steropes.studies.covariates import extract_features

from .drawn_study import COMPARATOR, OUTCOMES, TARGET, cohort_definitions
from .study_batches import StudyKind
from .table_comparison import CONVENTION, R_ERROR, Reason, StudyComparison, Table, compare_frames

__all__ = ["DESCRIPTIVE", "draw_descriptive"]

FIRST_DAY = pd.Timestamp("1970-01-01")


def draw_descriptive(seed: int, analyses: int = 4) -> dict[str, Any]:
    """Draw definitions of cohorts, a design of incidence rates and settings of characterization."""
    rng = np.random.default_rng([75, seed])

    def one(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    targets, outcomes = [TARGET, COMPARATOR], [*OUTCOMES, SEASONAL]
    definitions = {
        str(1000 + k): json.dumps(_draw_definition(one, one(*targets, *outcomes)))
        for k in range(analyses)
    }
    incidence: dict[str, Any] = {
        "targetDefs": [{"id": i, "name": f"target {i}"} for i in targets],
        "outcomeDefs": [
            {"id": k, "name": f"outcome {k}", "cohortId": o, "cleanWindow": one(0, 30, 9999)}
            for k, o in enumerate(outcomes, 1)
        ],
        "timeAtRiskDefs": [
            {
                "id": k,
                "start": {"dateField": "start", "offset": one(0, 1)},
                "end": {"dateField": one("start", "end"), "offset": one(0, 90, 365)},
            }
            for k in (1, 2)
        ],
        "analysisList": [{"targets": targets, "outcomes": [1, 2, 3], "tars": [1, 2]}],
        "strataSettings": {
            "byAge": one(True, False), "byGender": one(True, False), "byYear": one(True, False),
            "ageBreaks": [40, 65],
        },
    }  # fmt: skip
    if one(True, False, False):
        incidence["studyWindow"] = {"startDate": "2012-01-01", "endDate": "2017-12-31"}
    return {
        "targets": targets,
        "outcomes": outcomes,
        "definitions": definitions,
        "incidence": json.dumps(incidence),
        "aggregate": {
            "prior": one(0, 365), "washout": one(0, 365), "start": one(0, 1), "end": one(90, 365),
            "anchor": one("cohort start", "cohort end"), "before": one(30, 365),
            "after": one(30, 365),
        },
        "stop": one(30, 60),
        "evaluation": one(30, 90),
        "analyses": [{"id": 0, "window": "studyWindow" in incidence}],
    }  # fmt: skip


def _draw_definition(one: Any, concept: int) -> dict[str, Any]:
    """Draw a cohort definition as ATLAS writes it."""
    made = json.loads(cohort_definitions()[concept])
    primary = made["PrimaryCriteria"]
    primary["ObservationWindow"]["PriorDays"] = one(0, 0, 180, 365)
    primary["PrimaryCriteriaLimit"]["Type"] = one("All", "First")
    made["ExpressionLimit"]["Type"] = one("All", "First")
    made["CollapseSettings"]["EraPad"] = one(0, 0, 30, 180)
    [criteria] = primary["CriteriaList"]
    [of_table] = criteria.values()
    if one(True, False, False):
        of_table["Gender"] = [{"CONCEPT_ID": one(8507, 8532), "CONCEPT_NAME": "gender"}]
    if one(True, False, False):
        name = "AgeAtStart" if "DrugEra" in criteria else "Age"
        of_table[name] = {"Value": one(40, 60), "Op": one("gte", "lt")}
    way = one("end", "start", "observation")
    if way == "observation":
        made.pop("EndStrategy", None)
    else:
        field = "EndDate" if way == "end" else "StartDate"
        made["EndStrategy"] = {"DateOffset": {"DateField": field, "Offset": one(0, 30, 365)}}
    return dict(made)


def descriptive_specification(folder: Path, shared: dict[str, Any]) -> dict[str, Any]:
    """Return the modules of a folder's settings, with the resources that they share."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    cases = {"targetIds": settings["targets"], "outcomeIds": settings["outcomes"]}
    dechallenge = {
        "targetCohortDefinitionIds": settings["targets"],
        "outcomeCohortDefinitionIds": settings["outcomes"],
        "dechallengeStopInterval": settings["stop"],
        "dechallengeEvaluationWindow": settings["evaluation"],
    }
    written = json.loads((folder / "characterization.json").read_text(encoding="utf-8"))
    characterization = {
        "analysis": {
            "timeToEventSettings": [cases],
            "dechallengeRechallengeSettings": [dechallenge],
            "aggregateCovariateSettings": written["aggregateCovariateSettings"],
        },
        "minCharacterizationMean": 0,
    }
    incidence = {"irDesign": json.loads(settings["incidence"])}
    modules = {"CohortIncidenceModule": incidence, "CharacterizationModule": characterization}
    return {
        **shared,
        "moduleSpecifications": [
            {"module": name, "settings": given} for name, given in modules.items()
        ],
    }


IDS = ("target_cohort_definition_id", "outcome_cohort_definition_id")
TABLES = {
    "ci_incidence_summary": Table(
        ["target_cohort_definition_id", "tar_id", "outcome_id", "age_group_id", "gender_id",
         "start_year"], 1e-9,
    ),
    "c_time_to_event": Table(
        [*IDS, "outcome_type", "target_outcome_type", "time_scale", "time_to_event"]
    ),
    "c_cohort_counts": Table(
        ["target_cohort_id", "outcome_cohort_id", "cohort_type", "min_prior_observation",
         "outcome_washout_days", "risk_window_start", "risk_window_end"], 1e-6
    ),
    "c_covariates": Table(
        ["target_cohort_id", "outcome_cohort_id", "cohort_type", "covariate_id"], 1e-6
    ),
    "c_covariates_continuous": Table(
        ["target_cohort_id", "outcome_cohort_id", "cohort_type", "covariate_id"], 1e-6
    ),
    "c_dechallenge_rechallenge": Table(
        [*IDS, "dechallenge_stop_interval", "dechallenge_evaluation_window"], 1e-6
    ),
}  # fmt: skip
REASONS = (
    Reason(r"ci_incidence_summary\.", R_ERROR, "a study window leaves nobody on SQLite",
           lambda a, row: a["window"]),
    Reason(r"c_dechallenge_rechallenge\.rows", CONVENTION, "pairs of cohorts without cases",
           lambda a, row: row["_merge"] == "left_only" and row["num_cases"] == 0),
    Reason(r"c_(covariates\w*|cohort_counts)\.rows", CONVENTION,
           "Characterization describes outcomes as targets too",
           lambda a, row: row["_merge"] == "right_only" and row["outcome_cohort_id"] == 0
           and row["target_cohort_id"] not in (TARGET, COMPARATOR)),
    Reason(r"c_cohort_counts\.rows", CONVENTION,
           "counts of all entries in R; of people with the outcome before and of no cases here",
           lambda a, row: row["cohort_type"] in ("Tall", "Exclude")
           or (row["_merge"] == "left_only" and row["row_count"] == 0)),
    Reason(r"c_time_to_event\.", R_ERROR,
           "bins of 30 and 365 days before the start depend on the database's division",
           lambda a, row: row["time_to_event"] <= 0 and row["time_scale"] != "per 1-day"),
)  # fmt: skip


def compare_cohorts_and_covariates(folder: Path, out: StudyComparison) -> None:
    """Compare entries of drawn cohorts with Circe's, and covariates with FeatureExtraction's."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    definitions = {int(i): text for i, text in settings["definitions"].items()}
    with OmopDatabase(folder / "omop.duckdb") as db:
        entries = pd.DataFrame(circe_cohorts(db, definitions).frame())
        people = pd.DataFrame(circe_cohorts(db, cohort_definitions()).frame())
        people = people[people["cohort_definition_id"] == settings["targets"][0]]
        first = people.groupby("subject_id")["cohort_start_date"].min().reset_index()
        first.columns = ["person_id", "start"]
        features = extract_features(db, first)
        ids = features.columns["covariate_id"].tolist()
        values = [features.column(i) for i in ids]
    entries["first"], entries["last"] = (
        (pd.to_datetime(entries[f"cohort_{end}_date"]) - FIRST_DAY).dt.days * 86400
        for end in ("start", "end")
    )
    theirs = pd.read_csv(folder / "r" / "cohort_entry.csv")
    key = Table(["cohort_definition_id", "subject_id", "first", "last"])
    compare_frames(out, "cohort_entry", key, (), {}, entries[list(key.key)], theirs)
    sums = pd.DataFrame({"covariate_id": ids, "total": [v.sum() for v in values]})
    table = Table(["covariate_id"], 1e-9)
    found = pd.read_csv(folder / "r" / "covariate_sum.csv")
    compare_frames(out, "covariate_sum", table, (), {}, sums[sums["total"] != 0], found)


DESCRIPTIVE = StudyKind(
    "CharacterizationModule",
    "descriptive.R",
    draw_descriptive,
    TABLES,
    REASONS,
    compare_cohorts_and_covariates,
    descriptive_specification,
)
