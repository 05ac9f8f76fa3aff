"""Tables ``plp_*`` of prediction models in PatientLevelPrediction's layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.complementary_suppression import limit_of_part
from steropes.studies.disclosure.disclosive_digit_rounding import significant
from steropes.studies.prediction.prediction_models import PredictionResult
from steropes.studies.release.prediction_people import has_rare_outcomes, rules_of_entries
from steropes.studies.release.prediction_release import released_intercept, released_result
from steropes.studies.strategus.results_model import module_tables
from steropes.studies.strategus_plans.prediction_plan import PREDICTION, PredictionDesign
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.version import __version__

__all__ = ["prediction_tables"]

# Tables of settings: the id of a design's settings, the field of the design, and the text's column.
SETTINGS = {
    "population_settings": ("population_setting_id", "populationSettings"),
    "covariate_settings": ("covariate_setting_id", "covariateSettings"),
    "model_settings": ("model_setting_id", "modelSettings"),
    "hyperparameter_settings": ("hyperparameter_setting_id", "hyperparameterSettings"),
    "split_settings": ("split_setting_id", "splitSettings"),
    "plp_data_settings": ("plp_data_setting_id", "restrictPlpDataSettings"),
    "feature_engineering_settings": (
        "feature_engineering_setting_id",
        "featureEngineeringSettings",
    ),
    "tidy_covariates_settings": ("tidy_covariates_setting_id", "preprocessSettings"),
    "sample_settings": ("sample_setting_id", "sampleSettings"),
}
DATABASE_NUMBER = 1  # The number of the database in the tables, which have one.
Tables = dict[str, pd.DataFrame]


def prediction_tables(
    results: Sequence[PredictionResult],
    cohorts: SharedCohorts,
    database: Tables,
    rules: DisclosureRules,
) -> Tables:
    """Return the tables of all models for release.

    Parameters
    ----------
    results : sequence of PredictionResult
        Exact results.
    database : dict of str to DataFrame
        The table ``database_meta_data``.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    numbers: dict[tuple[str, Any], int] = {}

    def number(table: str, key: Any, row: dict[str, Any], name: str) -> int:
        """Return the number of a row, which is added if it is new."""
        if (table, key) not in numbers:
            listed = rows.setdefault(f"plp_{table}", [])
            numbers[table, key] = len(listed) + 1
            listed.append({name: len(listed) + 1, **row})
        return numbers[table, key]

    found: dict[str, list[pd.DataFrame]] = {}
    rare = {_question(r) for r in results if has_rare_outcomes(r, rules)}
    for result in results:
        design, few = result.design, _question(result) in rare
        ids = _settings(design, number)
        for role, cohort in (("target_id", design.target), ("outcome_id", design.outcome)):
            title = cohorts.names[cohort]
            ids[role] = number(
                "cohorts",
                cohort,
                {"cohort_definition_id": cohort, "cohort_name": title},
                "cohort_id",
            )
        key = tuple(sorted(ids.items()))
        model = number("model_designs", (design.number, key), ids, "model_design_id")
        rows.setdefault("plp_models", []).append(_model(result, model, rules, few))
        rows.setdefault("plp_performances", []).append(_performance(model, ids))
        for name, table in _for_r(result, rules, few).items():
            table = table.assign(performance_id=model)
            if name == "plp_attrition":
                table["outcome_id"] = design.outcome
            found.setdefault(name, []).append(table)
    rows["plp_cohort_definition"] = _definitions(results, cohorts)
    tables = {name: pd.DataFrame(of) for name, of in rows.items()}
    tables |= {name: pd.concat(of, ignore_index=True) for name, of in found.items()}
    described = database["database_meta_data"]
    tables["plp_database_meta_data"] = described
    details = {"database_id": DATABASE_NUMBER, "database_meta_data_id": described["database_id"]}
    return {**tables, "plp_database_details": pd.DataFrame(details)}


def _for_r(result: PredictionResult, rules: DisclosureRules, rare: bool) -> Tables:
    """Release the tables of a model, with minus a limit for withheld counts that R requires.

    One limit stands for all of them. It follows from the released number of entries of the target.
    """
    tables = released_result(result, rules, rare)
    if rules.open:
        return tables
    most = tables["plp_attrition"]["target_count"].max()
    limit = int(limit_of_part(most, rules_of_entries(result, rules)))
    for name, columns in module_tables(PREDICTION).items():
        counts = columns["data_type"].eq("int") & columns["may_be_blank"].eq("No")
        own = columns["column_name"][counts]
        if name in tables:
            tables[name] = tables[name].fillna(dict.fromkeys(own, limit))
    return tables


def _question(result: PredictionResult) -> tuple[int, int]:
    """Return target and outcome, which several designs may share."""
    return result.design.target, result.design.outcome


def _settings(design: PredictionDesign, number: Any) -> dict[str, int]:
    """Number the settings of a design; equal settings have one number."""
    texts, ids = dict(design.json_texts), {}
    for table, (name, source) in SETTINGS.items():
        text = texts.get(source, "null")
        kind = {"model_type": "lassoLogisticRegression"} if table == "model_settings" else {}
        ids[name] = number(table, text, {**kind, f"{table}_json": text}, name)
    p = design.population
    tar = {
        "tar_start_day": p.risk_window_start,
        "tar_start_anchor": p.start_anchor,
        "tar_end_day": p.risk_window_end,
        "tar_end_anchor": p.end_anchor,
    }
    ids["tar_id"] = number("tars", tuple(tar.values()), tar, "tar_id")
    return ids


def _model(
    result: PredictionResult, design: int, rules: DisclosureRules, rare: bool
) -> dict[str, Any]:
    """Return the row of a model. Its coefficients are in the summary of covariates."""
    details = {
        "variance": significant(result.variance),
        "converged": result.converged,
        "folds": result.design.split.nfold,
    }
    tidied = result.design.tidy
    return {
        "model_id": design,
        "analysis_id": f"Analysis_{result.design.number}",
        "model_design_id": design,
        "database_id": DATABASE_NUMBER,
        "model_type": "lassoLogisticRegression",
        "train_details": json.dumps(details),
        "preprocessing": json.dumps(
            {
                "minFraction": tidied.min_share,
                "normalize": tidied.normalize,
                "removeRedundancy": tidied.drop_redundant,
            }
        ),
        "intercept": released_intercept(result, rules, rare),
    }


def _performance(design: int, ids: dict[str, int]) -> dict[str, Any]:
    """Return the row of the evaluation of a model in the database of its training data."""
    used = ("target_id", "outcome_id", "tar_id", "plp_data_setting_id", "population_setting_id")
    return {
        "performance_id": design,
        "model_design_id": design,
        "development_database_id": DATABASE_NUMBER,
        "validation_database_id": DATABASE_NUMBER,
        **{name: ids[name] for name in used},
        "model_development": 1,
        "plp_version": f"steropes {__version__}",
    }


def _definitions(
    results: Sequence[PredictionResult], cohorts: SharedCohorts
) -> list[dict[str, Any]]:
    """Describe the cohorts in use."""
    texts = {c.id: c.json_text for c in cohorts.defined}
    texts |= {c.id: c.json_text for c in cohorts.subsets}
    used = dict.fromkeys(c for r in results for c in (r.design.target, r.design.outcome))
    return [
        {"cohort_definition_id": c, "cohort_name": cohorts.names[c], "json": texts.get(c, "{}")}
        for c in used
    ]
