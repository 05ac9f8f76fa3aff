"""Results of prediction models and incidence in R's layout, written by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from steropes.studies.strategus.results_model import module_tables

MODULE = "PatientLevelPredictionModule"
FEW = -1  # R's package writes it in place of counts below five.
SETTINGS = (
    "population_settings", "covariate_settings", "model_settings", "hyperparameter_settings",
    "split_settings", "plp_data_settings", "feature_engineering_settings",
    "tidy_covariates_settings", "sample_settings",
)  # fmt: skip

# R's details of a fit repeat the table of attrition, with all counts.
DETAILS = json.dumps(
    {"modelName": "lasso", "attrition": [{"targetCount": 1000, "outcomes": 98765}]}
)


def write_predictions(folder: Path, database: str, target: int, outcome: int) -> Path:
    """Write one model as R's PatientLevelPrediction does: no prefix, and a byte order mark.

    Parameters
    ----------
    folder : Path
        Folder of all modules.
    database : str
    target, outcome : int
        Cohorts.
    """
    key = {"performance_id": 1}
    counted = {"person_count_at_risk": 200, "person_count_with_outcome": 37}
    risks = {"average_predicted_probability": 0.171, "st_dev_predicted_probability": 0.05}
    metrics = {
        "populationSize": 1000, "outcomeCount": 171, "AUROC": 0.7123, "95% lower AUROC": 0.66,
        "95% upper AUROC": 0.76, "AUPRC": 0.3217, "brier score": 0.1371,
        "calibrationInLarge mean prediction": 0.1713, "calibrationInLarge observed risk": 0.171,
        "Eavg": 0.0123, "something new": 7,
    }  # fmt: skip
    rows = {
        "performances": [
            {**key, "model_design_id": 1, "development_database_id": 1, "target_id": 1,
             "validation_database_id": 1, "outcome_id": 2, "tar_id": 1, "plp_data_setting_id": 1,
             "population_setting_id": 1, "model_development": 1, "plp_version": "6.6.0"}
        ],
        "model_designs": [
            {"model_design_id": 1, "target_id": 1, "outcome_id": 2, "tar_id": 1}
            | {f"{name.removesuffix('s')}_id": 1 for name in SETTINGS}
        ],
        "models": [
            {"model_id": 1, "model_design_id": 1, "database_id": 1, "intercept": -1.579,
             "train_details": DETAILS}
        ],
        "cohorts": [
            {"cohort_id": 1, "cohort_definition_id": target, "cohort_name": "new users"},
            {"cohort_id": 2, "cohort_definition_id": outcome, "cohort_name": "bleeding"},
        ],
        "database_details": [{"database_id": 1, "database_meta_data_id": database}],
        "database_meta_data": [
            {"database_id": database, "cdm_source_name": "North", "cdm_source_abbreviation": "N"}
        ],
        "tars": [
            {"tar_id": 1, "tar_start_day": 1, "tar_start_anchor": "cohort start",
             "tar_end_day": 365, "tar_end_anchor": "cohort start"}
        ],
        "attrition": [
            {**key, "outcome_id": 2, "description": "Original cohorts", "target_count": 1000,
             "unique_people": 1000, "outcomes": 171}
        ],
        "evaluation_statistics": [
            {**key, "evaluation": "Test", "metric": name, "value": x} for name, x in metrics.items()
        ],
        "threshold_summary": [
            {**key, "evaluation": "Test", "prediction_threshold": x, "preference_threshold": x,
             "positive_count": n, "negative_count": 1000 - n, "true_count": 171,
             "false_count": 829, "true_positive_count": t, "false_positive_count": n - t,
             "true_negative_count": 829 - n + t, "false_negative_count": 171 - t,
             "sensitivity": t / 171, "specificity": 1 - (n - t) / 829}
            for x, n, t in ((0.9, 3, 2), (0.4, 100, 57), (0.1, 800, 160))
        ],
        "calibration_summary": [
            {**key, "evaluation": "Test", "prediction_threshold": 0.0, **counted, **risks,
             "observed_incidence": 0.1853},
            {**key, "evaluation": "Test", "prediction_threshold": 0.2, "person_count_at_risk": FEW,
             "person_count_with_outcome": FEW, **risks, "observed_incidence": 0.1907},
        ],
        "prediction_distribution": [
            {**key, "evaluation": "Test", "class_label": c, "person_count": n, **risks}
            for c, n in ((0, 829), (1, 171))
        ],
        "demographic_summary": [
            {**key, "evaluation": "Test", "age_group": "Age group: 60-64", "gen_group": "Male",
             **counted, **risks}
        ],
        "covariate_summary": [
            {**key, "covariate_id": 1, "covariate_name": "age in years", "covariate_value": 0.713,
             "covariate_count": 500, "covariate_mean": 0.5, "with_outcome_covariate_count": 113,
             "with_no_outcome_covariate_count": 387}
        ],
    }  # fmt: skip
    for name in SETTINGS:
        id_name, text = f"{name.removesuffix('s')}_id", f"{name}_json"
        rows[name] = [{id_name: 1, text: '{"x": 1}'}]
    return _write(folder / MODULE, MODULE, "plp_", rows)


def write_incidence(folder: Path, database: str, target: int, outcome: int) -> Path:
    """Write one incidence rate as R's CohortIncidence does.

    Parameters
    ----------
    folder : Path
        Folder of all modules.
    database : str
    target, outcome : int
        Cohorts.
    """
    rate = {
        "ref_id": 1, "database_id": database, "target_cohort_definition_id": target, "tar_id": 1,
        "subgroup_id": 0, "outcome_id": 1, "persons_at_risk": 900, "persons_at_risk_pe": 910,
        "person_days": 300_000, "person_days_pe": 300_100, "person_outcomes": 123,
        "person_outcomes_pe": 124, "outcomes": 131, "outcomes_pe": 132,
        "incidence_proportion_p100p": 13.67, "incidence_rate_p100py": 15.95,
    }  # fmt: skip
    names = {"target_name": "new users", "target_cohort_definition_id": target, "ref_id": 1}
    defined = {"outcome_cohort_definition_id": outcome, "outcome_name": "bleeding", "outcome_id": 1}
    rows = {
        "ci_incidence_summary": [rate, {**rate, "target_cohort_definition_id": 77}],
        "ci_target_def": [names],
        "ci_outcome_def": [{"ref_id": 1, **defined}],
    }
    return _write(folder / "CohortIncidenceModule", "CohortIncidenceModule", "", rows)


def _write(folder: Path, module: str, prefix: str, rows: dict[str, list[dict]]) -> Path:
    """Write rows as CSV files with all columns of R's results model, and one that it lacks."""
    folder.mkdir(parents=True)
    for name, columns in module_tables(module).items():
        stem = name.removeprefix(prefix)
        own = [*columns["column_name"], "a_column_of_a_later_version"]
        with (folder / f"{stem}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, own, restval="NA")
            writer.writeheader()
            writer.writerows(rows.get(stem, []))
    return folder
