"""CohortMethod's result tables, and why their cells may differ from ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cohort_method_by_r_rules import compare_by_r_rules, mark_ties
from .drawn_study import draw_settings
from .study_batches import StudyKind
from .table_comparison import CONVENTION, R_ERROR, TOLERANCE, Analysis, Reason, Table

__all__ = ["COHORT_METHOD"]

Row = Mapping[str, Any]

TABLES = {
    "cm_attrition": Table(["analysis_id", "outcome_id", "exposure_id", "sequence_number"]),
    "cm_follow_up_dist": Table(["analysis_id", "outcome_id"], 1e-12),
    "cm_result": Table(["analysis_id", "outcome_id"], 1e-3),
    "cm_interaction_result": Table(["analysis_id", "outcome_id", "interaction_covariate_id"], 1e-3),
    "cm_propensity_model": Table(["analysis_id", "covariate_id"], 1e-4),
    "cm_preference_score_dist": Table(["analysis_id", "preference_score"], 1e-4),
    # R writes balance with three decimals.
    "cm_shared_covariate_balance": Table(["analysis_id", "covariate_id"], 6e-4),
    "cm_covariate_balance": Table(["analysis_id", "outcome_id", "covariate_id"], 6e-4),
    "cm_kaplan_meier_dist": Table(["analysis_id", "outcome_id", "time_day"], 1e-6),
    "cm_diagnostics_summary": Table(["analysis_id", "outcome_id"], 1e-3),
    "cm_covariate": Table(["covariate_id", "analysis_id"]),
}


def _weighted(analysis: Analysis, row: Row) -> bool:
    """Whether the outcome model is weighted without truncation."""
    weighted = bool(analysis.get("outcome", {}).get("inversePtWeighting"))
    return weighted and "truncate" not in analysis


def _next_to(x: float, y: float) -> bool:
    """Whether a difference has the denominator n - 1, after rounding in R, where y has n."""
    return abs(x) <= abs(y) and abs(x - y) <= 0.001 + 0.02 * abs(y)


def _trimmed(analysis: Analysis, row: Row) -> bool:
    """Whether the analysis trims people and does nothing else."""
    return "trim" in analysis


def _without_scores(analysis: Analysis, row: Row) -> bool:
    """Whether nothing is adjusted by scores, though the analysis may have them."""
    parts = ("match", "stratify", "trim")
    return not (any(p in analysis for p in parts) or analysis["outcome"].get("inversePtWeighting"))


def _empty_arm(analysis: Analysis, row: Row) -> bool:
    """Whether an arm has no outcomes, so that the estimate is infinite."""
    return 0 in (row.get("target_outcomes"), row.get("comparator_outcomes"))


def _limits_differ(row: Row) -> bool:
    """Whether a limit of the ratio is another one in R."""
    limits = [(row[name], row[f"{name}_r"]) for name in ("ci_95_lb", "ci_95_ub")]
    return any(abs(here - there) > 1e-3 * max(1.0, abs(there)) for here, there in limits)


# The pages on R list these; the first reason that concerns a cell is counted.
REASONS = (
    Reason(r"cm_follow_up_dist\.\w+_p_75_days", R_ERROR, "the 75 % quantile is that of 85 %"),
    Reason(r"cm_kaplan_meier_dist\.rows", CONVENTION, "last days of Kaplan–Meier curves"),
    Reason(r"cm_kaplan_meier_dist\.", CONVENTION,
           "Kaplan–Meier curves of weighted analyses, sets and strata",
           lambda a, row: any(part in a for part in ("match", "stratify"))
           or a["outcome"].get("inversePtWeighting", False)),
    Reason(r"\w+\.\w*std_diff_var_after", CONVENTION, "variances of weighted differences"),
    Reason(r"\w+\.\w*sdm_family_wise_min_p", R_ERROR, "p-values above one, their variances"),
    Reason(r"cm_diagnostics_summary\.attrition_fraction", CONVENTION, "R leaves it empty"),
    Reason(r"cm_preference_score_dist\.", CONVENTION, "kernel densities without lone people"),
    Reason(r"cm_\w*covariate_balance\.(\w*_before|\w+_std_diff)", CONVENTION,
           "people before the rules of time at risk"),
    Reason(r"cm_diagnostics_summary\.generalizability_max_sdm", CONVENTION,
           "people before the rules of time at risk"),
    Reason(r"cm_\w*covariate_balance\.mean_after", CONVENTION,
           "means of both arms weight strata and sets by their people in R",
           lambda a, row: "stratify" in a or "match" in a),
    Reason(r"cm_\w*covariate_balance\.mean_after", CONVENTION,
           "weights have the arms' shares of the people left for the outcome",
           lambda a, row: a["outcome"].get("inversePtWeighting", False)),
    Reason(r"cm_\w*covariate_balance\.mean_after", R_ERROR, "a mean of zero is empty",
           lambda a, row: row["mean_after"] == 0 and row["mean_after_r"] != row["mean_after_r"]),
    Reason(r"cm_result\.(\w*rr|llr|p|one_sided_p|ci_95_[lu]b)", R_ERROR,
           "no outcomes in an arm: R's number is where its iterations ended", _empty_arm),
    Reason(r"cm_result\.((log_)?rr|llr)", R_ERROR,
           "no outcomes in an arm: R's number is where its iterations ended",
           lambda a, row: row["log_rr"] != row["log_rr"] and abs(row["log_rr_r"]) > 10),
    # `compare_by_r_rules` compares estimates by R's weights, and the outcomes that R counts.
    Reason(r"cm_result\.(se_log_rr|p|one_sided_p|ci_95_[lu]b|(log_)?rr|llr)", CONVENTION,
           "weights have the arms' shares of the people left for the outcome",
           lambda a, row: a["outcome"].get("inversePtWeighting", False)
           and abs(row["log_rr"] - row["log_rr_r"]) < 0.1 * row["se_log_rr"]),
    Reason(r"cm_result\.\w+_outcomes|cm_diagnostics_summary\.mdrr", CONVENTION,
           "people with the outcome, where R counts all their outcomes in Poisson models",
           lambda a, row: a["repeated"]),
    Reason(r"cm_result\.((log_)?rr|llr)", TOLERANCE,
           "R's iterations end at a likelihood that is lower by less than 1e-6",
           lambda a, row: 0.5 * ((row["log_rr"] - row["log_rr_r"]) / row["se_log_rr"]) ** 2 < 1e-6),
    Reason(r"cm_result\.", CONVENTION,
           "no estimate beside an interaction without a finite maximum",
           lambda a, row: "interactionCovariateIds" in a["outcome"]
           and row["log_rr"] != row["log_rr"]),
    Reason(r"cm_interaction_result\.rows", R_ERROR,
           "no outcomes in an arm: R's number is where its iterations ended",
           lambda a, row: row["_merge"] == "right_only"
           and 0 in (row["target_outcomes_r"], row["comparator_outcomes_r"])),
    Reason(r"cm_(interaction_)?result\.", CONVENTION,
           "R's Breslow approximation to logistic strata",
           lambda a, row: a["outcome"]["modelType"] == "logistic" and a["outcome"]["stratified"]),
    Reason(r"cm_result\.llr", CONVENTION, "the likelihood ratio under the prior of covariates",
           lambda a, row: "useCovariates" in a["outcome"]),
    Reason(r"cm_(interaction_)?result\.ci_95_[lu]b", TOLERANCE,
           "R ends its search for a limit early"),
    Reason(r"cm_(interaction_)?result\.(se_log_rr|p|one_sided_p)", TOLERANCE,
           "R ends its search for a limit early, from which the error and p-values follow",
           lambda a, row: _limits_differ(row)),
    Reason(r"cm_result\.llr", TOLERANCE, "R's fit of the null ends before its maximum",
           lambda a, row: 0 < row["llr_r"] - row["llr"] < 0.02),
    Reason(r"cm_\w*covariate_balance\.balanced_", TOLERANCE, "differences next to the limit",
           lambda a, row: abs(abs(row["std_diff_after"]) - 0.1) < 1e-3),
    Reason(r"cm_covariate_balance\.\w+_(after|diff)", R_ERROR,
           "balance of outcomes is not weighted without truncation", _weighted),
    Reason(r"cm_diagnostics_summary\.(max_sdm|balance_diagnostic|unblind\w*)", R_ERROR,
           "balance of outcomes is not weighted without truncation", _weighted),
    Reason(r"cm_attrition\.subjects", CONVENTION,
           "people without a day at risk are left out where windows are censored in R",
           lambda a, row: a["population"]["censorAtNewRiskWindow"]
           and "Censoring" in row["description"] and row["subjects_r"] < row["subjects"]),
    Reason(r"cm_attrition\.", CONVENTION, "a line of people outside of observation periods",
           lambda a, row: a["data"]["washoutPeriod"] == 0),
    Reason(r"cm_(\w*covariate_balance\.|diagnostics_summary\.(\w*max_sdm|\w*balance|unblind))",
           R_ERROR, "balance after trimming alone is weighted", _trimmed),
    Reason(r"cm_covariate_balance\.rows", CONVENTION,
           "no balance of outcomes without estimates here"),
    Reason(r"cm_diagnostics_summary\.(max_sdm|balance_diagnostic|unblind)", CONVENTION,
           "no balance of outcomes without estimates here",
           lambda a, row: row["max_sdm"] != row["max_sdm"]),
    Reason(r"cm_(shared_covariate_balance\.rows|diagnostics_summary\.(shared_max_sdm|"
           r"\w*balance_diagnostic|generalizability\w*|unblind\w*))", CONVENTION,
           "no balance of analyses without adjustment by scores here", _without_scores),
    Reason(r"cm_\w*covariate_balance\.std_diff_after", CONVENTION,
           "weights that are all one are no weights here, and have the denominator n",
           lambda a, row: a["outcome"].get("inversePtWeighting", False)
           and _next_to(row["std_diff_after_r"], row["std_diff_after"])),
    Reason(r"cm_diagnostics_summary\.shared_max_sdm", CONVENTION,
           "weights that are all one are no weights here, and have the denominator n",
           lambda a, row: a["outcome"].get("inversePtWeighting", False)
           and _next_to(row["shared_max_sdm_r"], row["shared_max_sdm"])),
    Reason(r"cm_covariate\.rows", CONVENTION, "no covariates of crude analyses here",
           lambda a, row: "propensity" not in a),
    Reason(r"cm_(attrition|result|\w*covariate_balance|diagnostics_summary|follow_up_dist)\.",
           CONVENTION, "the order of people with equal scores",
           lambda a, row: "match" in a and a["tied"]),
)  # fmt: skip

COHORT_METHOD = StudyKind(
    "CohortMethodModule", "cohort_method.R", draw_settings, TABLES, REASONS, compare_by_r_rules,
    mark=mark_ties,
    stored=(
        "cm_attrition", "cm_follow_up_dist", "cm_result", "cm_propensity_model",
        "cm_diagnostics_summary",
    ),
)  # fmt: skip
