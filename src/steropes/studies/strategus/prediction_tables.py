"""Tables ``plp_*`` of prediction models in PatientLevelPrediction's layout, for release."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.rounding import significant, to_unit
from steropes.studies.strategus.prediction_models import PredictionResult, standardized
from steropes.studies.strategus.prediction_plan import PredictionDesign
from steropes.studies.strategus.shared_cohorts import SharedCohorts
from steropes.version import __version__

__all__ = ["prediction_tables", "released_result"]

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
# Statistics that reveal a number of people with the outcome if they are given to all digits.
SHARES = (
    "brier score", "calibrationInLarge mean prediction", "calibrationInLarge observed risk",
)  # fmt: skip
QUANTILES = {"p_05": 0.05, "p_25": 0.25, "median": 0.5, "p_75": 0.75, "p_95": 0.95}
GROUPS = ("", "with_no_outcome_", "with_outcome_")
# Columns of covariates that are used for the release and are not part of it.
EXACT = ["binary", *(f"{name}people" for name in GROUPS)]
FINEST = 1e-4  # Released statistics are rounded to it, so that zero is not a rounding error.
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
    cohorts : SharedCohorts
        The cohorts of the specification.
    database : dict of str to DataFrame
        The table ``database_meta_data``.
    rules : DisclosureRules
        Disclosure rules.
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
    for result in results:
        design = result.design
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
        rows.setdefault("plp_models", []).append(_model(result, model, rules))
        rows.setdefault("plp_performances", []).append(_performance(model, ids))
        for name, table in released_result(result, rules).items():
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


def released_result(result: PredictionResult, rules: DisclosureRules) -> Tables:
    """Return the tables of a model's results for release.

    The people of all tables overlap. Counts are therefore rounded as `DisclosureRules.coarse` does,
    and shares follow from them. Statistics have three significant digits, and those that would
    reveal a number of people have steps that hide the smallest count. Smallest and largest risks
    belong to single people and are withheld, and so are percentiles with few people beyond them,
    and coefficients of covariates that few people have.
    """
    tables = {
        "plp_attrition": result.attrition,
        "plp_evaluation_statistics": result.statistics,
        "plp_calibration_summary": result.calibration,
        "plp_prediction_distribution": result.distribution,
        "plp_covariate_summary": result.covariates,
    }
    if rules.open:
        return {name: table.drop(columns=EXACT, errors="ignore") for name, table in tables.items()}
    return {
        "plp_attrition": _coarse(
            result.attrition, ("target_count", "unique_people", "outcomes"), rules
        ),
        "plp_evaluation_statistics": _statistics(result.statistics, rules),
        "plp_calibration_summary": _calibration(result.calibration, rules),
        "plp_prediction_distribution": _risks(result.distribution, "person_count", rules),
        "plp_covariate_summary": _covariates(result.covariates, rules),
    }


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


def _model(result: PredictionResult, design: int, rules: DisclosureRules) -> dict[str, Any]:
    """Return the row of a model. Its coefficients are in the summary of covariates."""
    intercept = result.intercept if rules.open else significant(result.intercept)
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
        "intercept": intercept,
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
        {
            "cohort_definition_id": c,
            "cohort_name": cohorts.names[c],
            "json": texts.get(c, "{}"),
        }
        for c in used
    ]


def _coarse(table: pd.DataFrame, names: Sequence[str], rules: DisclosureRules) -> pd.DataFrame:
    """Round the counts of a table."""
    return table.assign(**{name: table[name].map(rules.coarse) for name in names})


def _statistics(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release statistics; with few people with or without the outcome only their counts."""
    found = []
    for _, part in table.groupby("evaluation", sort=False):
        value = part.set_index("metric")["value"]
        people, cases = int(value["populationSize"]), int(value["outcomeCount"])
        few = rules.small(cases) or rules.small(people - cases)
        shown = {}
        for metric, x in value.items():
            if metric in ("populationSize", "outcomeCount"):
                shown[metric] = float(rules.coarse(int(x)))
            elif few:
                shown[metric] = math.nan
            else:
                fine = to_unit(significant(x), FINEST)
                shown[metric] = rules.stepped(x, people) if metric in SHARES else fine
        # This one follows from two others, of which it would reveal digits.
        if not few and "brier score scaled" in shown:
            mean = shown["calibrationInLarge mean prediction"]
            most = mean * (1 - mean)
            ratio = 1 - shown["brier score"] / most if most > 0 else math.nan
            shown["brier score scaled"] = significant(ratio)
        found.append(part.assign(value=part["metric"].map(shown)))
    return pd.concat(found)


def _risks(table: pd.DataFrame, count: str, rules: DisclosureRules) -> pd.DataFrame:
    """Release summaries of predicted risks of groups of people."""
    n = table[count]
    few = n.map(rules.small)
    found = _coarse(table, [count], rules)
    for name in ("average", "st_dev", *QUANTILES):
        column = f"{name}_predicted_probability"
        share = QUANTILES.get(name, 0.5)
        beyond = np.minimum(share, 1 - share) * n
        found[column] = table[column].map(significant).mask(few | (beyond < rules.least))
    found[["min_predicted_probability", "max_predicted_probability"]] = math.nan
    return found


def _calibration(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release observed risks, which follow from rounded counts, and predicted ones."""
    found = _risks(table, "person_count_at_risk", rules)
    found = _coarse(found, ["person_count_with_outcome"], rules)
    people, cases = found["person_count_at_risk"], found["person_count_with_outcome"]
    share = (cases / people).where((people > 0) & (cases >= 0))
    thresholds = table["prediction_threshold"].map(significant)
    return found.assign(observed_incidence=share.clip(upper=1.0), prediction_threshold=thresholds)


def _covariates(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release covariates: means of 0/1 ones follow from rounded counts."""
    if table.empty:
        return table
    found, binary = table.copy(), table["binary"].astype(bool)
    for name in GROUPS:
        count, people = table[f"{name}covariate_count"], table[f"{name}people"]
        hidden = count.map(rules.small) | people.map(rules.small)
        shown, of = count.map(rules.coarse), people.map(rules.coarse)
        share = (shown / of).where(of > 0).clip(upper=1.0)
        mean = table[f"{name}covariate_mean"].map(significant)
        spread = table[f"{name}covariate_st_dev"].map(significant)
        found[f"{name}covariate_count"] = shown
        found[f"{name}covariate_mean"] = mean.mask(binary, share).mask(hidden)
        of_share = (share * (1 - share)) ** 0.5
        found[f"{name}covariate_st_dev"] = spread.mask(binary, of_share).mask(hidden)
    few = table["covariate_count"].map(rules.small)
    found["covariate_value"] = table["covariate_value"].map(significant).mask(few)
    found["standardized_mean_diff"] = standardized(found).map(significant)
    return found.drop(columns=EXACT)
