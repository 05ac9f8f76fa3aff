"""Tables ``plp_*`` of fitted and validated prediction models in PatientLevelPrediction's layout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.complementary_suppression import limit_of_part
from steropes.studies.disclosure.disclosive_digit_rounding import significant
from steropes.studies.prediction.model_validation import ValidationResult, evaluation_of
from steropes.studies.prediction.prediction_models import PredictionResult
from steropes.studies.release.prediction_people import has_rare_outcomes, rules_of_entries
from steropes.studies.release.prediction_release import released_intercept, released_result
from steropes.studies.strategus.results_model import module_tables
from steropes.studies.strategus_plans.prediction_model_files import PredictionModel
from steropes.studies.strategus_plans.prediction_plan import PREDICTION, PredictionDesign
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.validation_plan import ValidationDesign
from steropes.version import __version__

__all__ = ["prediction_tables", "validation_tables"]

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
    made = _Tables(cohorts, database)
    rare = {_question(r) for r in results if has_rare_outcomes(r, rules)}
    for result in results:
        few = _question(result) in rare
        ids = made.design(result.design.number, result.design, dict(result.design.json_texts))
        model = ids["model_design_id"]
        made.rows.setdefault("plp_models", []).append(_model(result, model, rules, few))
        performance = made.performance(ids, DATABASE_NUMBER, development=1)
        made.add(released_for_r(result, rules, few), performance, result.design.outcome)
    return made.tables(results)


def validation_tables(
    results: Sequence[ValidationResult],
    cohorts: SharedCohorts,
    database: Tables,
    rules: DisclosureRules,
) -> Tables:
    """Return the tables of all validations for release, with one performance for each model.

    Parameters
    ----------
    results : sequence of ValidationResult
        Exact results.
    database : dict of str to DataFrame
        The table ``database_meta_data``.
    """
    made = _Tables(cohorts, database)
    rare = {_question(r) for r in results if has_rare_outcomes(r, rules)}
    for result in results:
        design = result.design
        released = released_for_r(result, rules, _question(result) in rare)
        for k, model in enumerate(design.models, 1):
            own = replace(design, target=model.target or design.target,
                          outcome=model.outcome or design.outcome,
                          population=model.population)  # fmt: skip
            ids = made.design(model.name, own, dict(model.json_texts))
            ids |= made.population(design, dict(design.json_texts))
            trained = made.database(model.database)
            performance = made.performance(ids, trained, development=0)
            made.add(_of_model(released, k, model), performance, design.outcome)
    return made.tables(results)


def _of_model(released: Tables, number: int, model: PredictionModel) -> Tables:
    """Return the tables of one model of a validation; its coefficients are those of its file."""
    found = {}
    for name, table in released.items():
        if "evaluation" in table:
            both = table["evaluation"].map(evaluation_of)
            own = both.map(lambda of: of[0] == number).astype(bool)
            table = table[own].assign(evaluation=both[own].map(lambda of: of[1]))
        found[name] = table
    summary = found["plp_covariate_summary"]
    if len(summary):
        known = pd.Series(model.importance, index=pd.Index(model.covariate_ids), dtype=float)
        values = summary["covariate_id"].map(known).fillna(0.0).map(significant)
        found["plp_covariate_summary"] = summary.assign(covariate_value=values)
    return found


class _Tables:
    """Tables of models, in which equal settings and cohorts have one number."""

    def __init__(self, cohorts: SharedCohorts, database: Tables) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self._cohorts = cohorts
        self._described = database["database_meta_data"]
        self._numbers: dict[tuple[str, Any], int] = {}
        self._found: dict[str, list[pd.DataFrame]] = {}
        self.database(str(self._described["database_id"].iloc[0]))

    def _number(self, table: str, key: Any, row: dict[str, Any], name: str) -> int:
        """Return the number of a row, which is added if it is new."""
        if (table, key) not in self._numbers:
            listed = self.rows.setdefault(f"plp_{table}", [])
            self._numbers[table, key] = len(listed) + 1
            listed.append({name: len(listed) + 1, **row})
        return self._numbers[table, key]

    def database(self, name: str) -> int:
        """Return the number of a database; the first is that of the run."""
        row = {"database_meta_data_id": name}
        return self._number("database_details", name, row, "database_id")

    def design(
        self, key: object, design: PredictionDesign | ValidationDesign, texts: Mapping[str, str]
    ) -> dict[str, int]:
        """Number the settings of the design of a model."""
        ids = {}
        for table, (name, source) in SETTINGS.items():
            ids[name] = self._setting(table, name, texts.get(source, "null"))
        ids |= self._time_and_cohorts(design)
        row = tuple(sorted(ids.items()))
        ids["model_design_id"] = self._number(
            "model_designs", (key, row), dict(ids), "model_design_id"
        )
        return ids

    def population(self, design: ValidationDesign, texts: Mapping[str, str]) -> dict[str, int]:
        """Number the settings of a population to which models are applied."""
        used = ("population_settings", "plp_data_settings")
        own = {table: SETTINGS[table] for table in used}
        ids = {
            name: self._setting(table, name, texts.get(source, "null"))
            for table, (name, source) in own.items()
        }
        return ids | self._time_and_cohorts(design)

    def _setting(self, table: str, name: str, text: str) -> int:
        """Return the number of the text of a setting."""
        kind = {"model_type": "lassoLogisticRegression"} if table == "model_settings" else {}
        return self._number(table, text, {**kind, f"{table}_json": text}, name)

    def _time_and_cohorts(self, design: PredictionDesign | ValidationDesign) -> dict[str, int]:
        """Number the time at risk, the target and the outcome."""
        p = design.population
        tar = {
            "tar_start_day": p.risk_window_start,
            "tar_start_anchor": p.start_anchor,
            "tar_end_day": p.risk_window_end,
            "tar_end_anchor": p.end_anchor,
        }
        ids = {"tar_id": self._number("tars", tuple(tar.values()), tar, "tar_id")}
        for role, cohort in (("target_id", design.target), ("outcome_id", design.outcome)):
            title = self._cohorts.names.get(cohort, f"cohort {cohort}")
            row = {"cohort_definition_id": cohort, "cohort_name": title}
            ids[role] = self._number("cohorts", cohort, row, "cohort_id")
        return ids

    def performance(self, ids: Mapping[str, int], trained: int, *, development: int) -> int:
        """Add the row of the evaluation of a model in this database."""
        used = ("target_id", "outcome_id", "tar_id", "plp_data_setting_id", "population_setting_id")
        listed = self.rows.setdefault("plp_performances", [])
        listed.append({
            "performance_id": len(listed) + 1,
            "model_design_id": ids["model_design_id"],
            "development_database_id": trained,
            "validation_database_id": DATABASE_NUMBER,
            **{name: ids[name] for name in used},
            "model_development": development,
            "plp_version": f"steropes {__version__}",
        })  # fmt: skip
        return len(listed)

    def add(self, released: Tables, performance: int, outcome: int) -> None:
        """Add the released tables of an evaluated model."""
        for name, table in released.items():
            table = table.assign(performance_id=performance)
            if name == "plp_attrition":
                table["outcome_id"] = outcome
            self._found.setdefault(name, []).append(table)

    def tables(self, results: Sequence[PredictionResult | ValidationResult]) -> Tables:
        """Return all tables."""
        self.rows["plp_cohort_definition"] = _definitions(results, self._cohorts)
        tables = {name: pd.DataFrame(of) for name, of in self.rows.items()}
        tables |= {n: pd.concat(of, ignore_index=True) for n, of in self._found.items()}
        trained = [d["database_meta_data_id"] for d in self.rows["plp_database_details"][1:]]
        others = pd.DataFrame([
            {"database_id": name, "cdm_source_name": name, "cdm_source_abbreviation": name}
            for name in trained
        ])  # fmt: skip
        both = [self._described, *([others] if trained else [])]
        tables["plp_database_meta_data"] = pd.concat(both, ignore_index=True)
        return tables


def released_for_r(
    result: PredictionResult | ValidationResult, rules: DisclosureRules, rare: bool
) -> Tables:
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


def _question(result: PredictionResult | ValidationResult) -> tuple[int, int]:
    """Return target and outcome, which several designs may share."""
    return result.design.target, result.design.outcome


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


def _definitions(
    results: Sequence[PredictionResult | ValidationResult], cohorts: SharedCohorts
) -> list[dict[str, Any]]:
    """Describe the cohorts in use."""
    texts = {c.id: c.json_text for c in cohorts.defined}
    texts |= {c.id: c.json_text for c in cohorts.subsets}
    used = dict.fromkeys(c for r in results for c in (r.design.target, r.design.outcome))
    return [
        {"cohort_definition_id": c, "cohort_name": cohorts.names[c], "json": texts.get(c, "{}")}
        for c in used
    ]
