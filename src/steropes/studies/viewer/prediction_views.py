"""Views of prediction models: discrimination, thresholds, calibration, coefficients and risks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.crude_risk_redaction import HIDDEN_RISK
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.redacted_tables_with_names import NamedTables, stacked
from steropes.studies.viewer.view_columns import STATUS
from steropes.studies.viewer.view_definition import Column, View, column, ids, important, texts

__all__ = ["prediction_views"]

GROUP = "Prediction"
SUMMARY = "predicted_probability"
IDS = ids("performance_id", "model_design_id")
MODEL = texts(
    database="Database", target="Target", outcome="Outcome", period="Time at risk", design="Design"
)
EVALUATED = (*MODEL, *texts(evaluation="Evaluation"))
# Columns of a model's row that its results repeat.
OF_MODEL = [
    "performance_id", "model_design_id", "database_id", "target_id", "outcome_id", "period",
    "development", "design",
]  # fmt: skip
# Statistics by R's names: the name of the column, its title and its kind.
STATISTICS = {
    "populationSize": Column("people", "People", "count"),
    "outcomeCount": Column("outcomes", "With outcome", "count"),
    "AUROC": column("auroc", "AUROC"),
    "95% lower AUROC": column("auroc_lower", "Lower"),
    "95% upper AUROC": column("auroc_upper", "Upper"),
    "AUPRC": column("auprc", "AUPRC"),
    "Average Precision": column("average_precision", "Average precision"),
    "brier score": column("brier", "Brier score"),
    "brier score scaled": column("brier_scaled", "Brier score, scaled"),
    "calibrationInLarge mean prediction": column("mean_risk", "Mean predicted risk"),
    "calibrationInLarge observed risk": column("observed_risk", "Observed risk"),
    "calibrationInLarge intercept": column("shift", "Calibration in the large"),
    "weak calibration intercept": column("intercept_weak", "Weak calibration, intercept"),
    "weak calibration gradient": column("gradient_weak", "Weak calibration, gradient"),
    "Eavg": column("e_avg", "Eavg"),
    "E90": column("e_90", "E90"),
    "Emax": column("e_max", "Emax"),
    "Hosmer-Lemeshow calibration intercept": column("line_intercept", "Line, intercept"),
    "Hosmer-Lemeshow calibration gradient": column("line_gradient", "Line, gradient"),
}
More = Callable[[NamedTables, pd.DataFrame], pd.DataFrame]


def prediction_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of prediction models that have rows."""
    views = [
        _performance(sources),
        _thresholds(sources),
        _calibration(sources),
        _coefficients(sources),
        _distribution(sources),
        _demographics(sources),
        _attrition(sources),
    ]
    return [view for view in views if len(view.table)]


def _joined(sources: Sequence[NamedTables], table: str, more: More | None = None) -> pd.DataFrame:
    """Stack a table of all sources, with database, target, outcome, period and design."""
    parts = []
    for source in sources:
        if table not in source or "prediction" not in source:
            continue
        own = source.tables[table].drop(columns="outcome_id", errors="ignore")
        models = source.tables["prediction"].reindex(columns=[*OF_MODEL, HIDDEN])
        found = source.named(own.merge(models, on="performance_id"))
        parts.append(found if more is None else more(source, found))
    return stacked(parts)


def _performance(sources: Sequence[NamedTables]) -> View:
    """Return the statistics of all evaluations, with the settings of their models."""

    def wide(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Return a row for each evaluation, with its statistics as columns."""
        known = found[found["metric"].isin(STATISTICS)]
        if known.empty:
            return known
        key = ["performance_id", "evaluation"]
        values = known.assign(value=pd.to_numeric(known["value"], errors="coerce")).pivot_table(
            "value", key, "metric", dropna=False, aggfunc="first"
        )
        values = values.rename(columns={name: c.name for name, c in STATISTICS.items()})
        first = found.drop(columns=["metric", "value"]).drop_duplicates(key)
        table = first.merge(values.reset_index(), on=key)
        unknown = pd.Series(math.nan, index=table.index)
        people, outcomes = (table.get(name, unknown) for name in ("people", "outcomes"))
        # With all digits, even areas under curves are fractions of the numbers of pairs.
        shares = [c.name for c in STATISTICS.values() if c.kind != "count" and c.name in table]
        for name, count, shown in (
            ("people", people, -source.least),
            ("outcomes", outcomes, -source.least),
            # Few people without the outcome would follow from those with it.
            ("outcomes", (people - outcomes).where(people.ge(0) & outcomes.ge(0)), math.nan),
        ):
            few = count.between(1, source.least - 1)
            if few.any():
                table.loc[few, name] = shown
                table.loc[few, shares] = math.nan
        models = source.tables["prediction"]
        columns = ["population", "covariates", "split", "learner", "train_details", "plp_version"]
        settings = models.reindex(columns=["performance_id", *columns])
        table = table.merge(settings.drop_duplicates("performance_id"), on="performance_id")
        status = np.where(table[HIDDEN].eq(True), HIDDEN_RISK, "shown")
        return table.assign(status=status)

    shown = list(STATISTICS.values())
    return View(
        "prediction",
        "Performance",
        GROUP,
        "Discrimination and calibration in the training data (Train), in its held-out folds (CV), "
        "in other people (Test), and of models of other databases (Validation, and recalibrated "
        "to this one). Where the comparison of a cohort fails a diagnostic, the "
        "numbers that depend on its outcomes are not shown.",
        (
            *IDS,
            *EVALUATED,
            *important(shown[2:5]),
            *STATUS,
            shown[5],
            *shown[:2],
            *shown[6:],
            *texts("long", development="Database of the training data", learner="Learner"),
            *texts("long", train_details="Fit", population="Population", covariates="Covariates"),
            *texts("long", split="Division", plp_version="Software"),
        ),
        _joined(sources, "plp_evaluation_statistics", wide),
        "discrimination",
    )


def _thresholds(sources: Sequence[NamedTables]) -> View:
    """Return classifications by thresholds."""
    return View(
        "prediction-thresholds",
        "Thresholds",
        GROUP,
        "People with a predicted risk at or above a threshold, classified as having the outcome.",
        (
            *IDS,
            *EVALUATED,
            column("prediction_threshold", "Risk"),
            column("preference_threshold", "Preference score"),
            column("positive_count", "People above", "count"),
            column("sensitivity", "Sensitivity"),
            column("specificity", "Specificity"),
            column("positive_predictive_value", "Predictive value, positive"),
            column("negative_predictive_value", "Predictive value, negative"),
            column("true_positive_count", "True positive", "count"),
            column("false_positive_count", "False positive", "count"),
            column("false_negative_count", "False negative", "count"),
            column("true_negative_count", "True negative", "count"),
            column("f_1_score", "F1"),
            column("accuracy", "Accuracy"),
            column("positive_likelihood_ratio", "Likelihood ratio, positive"),
            column("negative_likelihood_ratio", "Likelihood ratio, negative"),
            column("diagnostic_odds_ratio", "Odds ratio"),
        ),
        _joined(sources, "plp_threshold_summary"),
        "roc",
    )


def _calibration(sources: Sequence[NamedTables]) -> View:
    """Return observed and predicted risks of strata."""
    return View(
        "prediction-calibration",
        "Calibration",
        GROUP,
        "Observed and predicted risks in strata of the predicted risk.",
        (
            *IDS,
            *EVALUATED,
            column("prediction_threshold", "Risk from"),
            *important(
                (
                    column("observed_incidence", "Observed risk"),
                    column(f"average_{SUMMARY}", "Predicted risk, mean"),
                )
            ),
            *_counted(),
            *_spread("median"),
        ),
        _joined(sources, "plp_calibration_summary"),
        "calibration",
    )


def _coefficients(sources: Sequence[NamedTables]) -> View:
    """Return the covariates with their coefficients."""

    def more(_: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Put the strongest coefficients first."""
        found["covariate"] = found["covariate_name"].fillna("").map(title_case)
        size = found["covariate_value"].abs()
        return found.loc[size.sort_values(ascending=False, kind="stable").index]

    return View(
        "prediction-model",
        "Coefficients",
        GROUP,
        "Coefficients of the models, the strongest first, and how common the covariates are. A "
        "coefficient is for the covariate divided by its largest value.",
        (
            *IDS,
            *ids("covariate_id"),
            *MODEL,
            *important(texts("text", covariate="Covariate")),
            *important((column("covariate_value", "Coefficient"),)),
            column("covariate_count", "People", "count"),
            column("with_outcome_covariate_count", "With outcome", "count"),
            column("covariate_mean", "Mean"),
            column("with_outcome_covariate_mean", "Mean, with outcome"),
            column("with_no_outcome_covariate_mean", "Mean, without"),
            column("standardized_mean_diff", "Difference", "difference"),
        ),
        _joined(sources, "plp_covariate_summary", more),
        "coefficients",
    )


def _distribution(sources: Sequence[NamedTables]) -> View:
    """Return the distribution of predicted risks of people with and without the outcome."""

    def more(_: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the classes."""
        return found.assign(group=np.where(found["class_label"].eq(1), "with", "without"))

    return View(
        "prediction-risks",
        "Predicted risks",
        GROUP,
        "The distribution of predicted risks of people with and without the outcome.",
        (
            *IDS,
            *EVALUATED,
            *texts(group="Outcome occurs"),
            column("person_count", "People", "count"),
            column(f"average_{SUMMARY}", "Mean"),
            column(f"st_dev_{SUMMARY}", "Standard deviation"),
            column(f"p_05_{SUMMARY}", "5%"),
            *_spread("median"),
            column(f"p_95_{SUMMARY}", "95%"),
        ),
        _joined(sources, "plp_prediction_distribution", more),
    )


def _demographics(sources: Sequence[NamedTables]) -> View:
    """Return observed and predicted risks by age and gender."""

    def more(_: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Compute observed risks, and shorten the names of age groups."""
        people, cases = found["person_count_at_risk"], found["person_count_with_outcome"]
        share = (cases / people).where(people.gt(0) & cases.ge(0)).clip(upper=1.0)
        age = found["age_group"].str.removeprefix("Age group:").str.strip()
        return found.assign(observed=share, age=age)

    return View(
        "prediction-demographics",
        "Age and gender",
        GROUP,
        "Observed and predicted risks by age and gender.",
        (
            *IDS,
            *EVALUATED,
            *texts("text", age="Age"),
            *texts(gen_group="Gender"),
            *_counted(),
            column("observed", "Observed risk"),
            column(f"average_{SUMMARY}", "Predicted risk, mean"),
            *_spread("p_50"),
        ),
        _joined(sources, "plp_demographic_summary", more),
        "demographics",
    )


def _attrition(sources: Sequence[NamedTables]) -> View:
    """Return the entries that each rule of the populations leaves."""

    def more(_: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Number the rules."""
        step = found.groupby("performance_id").cumcount() + 1
        return found.assign(step=step, rule=found["description"].fillna("").map(title_case))

    return View(
        "prediction-attrition",
        "Attrition",
        GROUP,
        "The entries of the target that remain after each rule.",
        (
            *IDS,
            *MODEL,
            column("step", "Step", "whole"),
            *texts("text", rule="Rule"),
            column("target_count", "Entries", "count"),
            column("unique_people", "People", "count"),
            column("outcomes", "With outcome", "count"),
        ),
        _joined(sources, "plp_attrition", more),
    )


def _counted() -> tuple[Column, ...]:
    """Return the columns of the people and outcomes of a group."""
    return (
        column("person_count_at_risk", "People", "count"),
        column("person_count_with_outcome", "With outcome", "count"),
    )


def _spread(middle: str) -> tuple[Column, ...]:
    """Return the columns of the quartiles of predicted risks."""
    titles = {"p_25": "25%", middle: "Median", "p_75": "75%"}
    return tuple(column(f"{name}_{SUMMARY}", title) for name, title in titles.items())
