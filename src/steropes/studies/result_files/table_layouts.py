"""Columns, types and keys of the result tables, released and exact."""

from __future__ import annotations

__all__ = ["EXACT", "EXACT_KEYS", "KEYS", "TABLES", "typed"]

_TYPES = {"i": "BIGINT", "f": "DOUBLE", "t": "VARCHAR", "d": "DATE"}


def typed(columns: str) -> dict[str, str]:
    """Parse columns in the form "name:type", with a letter for the type."""
    return {name: _TYPES[kind] for name, _, kind in (c.partition(":") for c in columns.split())}


_EFFECT = "rr:f ci_95_lb:f ci_95_ub:f p:f "
_COUNTS = (
    "target_subjects:i comparator_subjects:i target_days:i comparator_days:i target_outcomes:i "
    "comparator_outcomes:i log_rr:f se_log_rr:f "
)
_BALANCE = " ".join(
    f"target_mean_{w}:f comparator_mean_{w}:f mean_{w}:f std_diff_{w}:f std_diff_var_{w}:f "
    f"balanced_{w}:i"
    for w in ("before", "after")
)
_BALANCE += " target_std_diff:f comparator_std_diff:f target_comparator_std_diff:f"
_DAYS = " ".join(
    f"{arm}_{q}_days:f"
    for arm in ("target", "comparator")
    for q in ("min", "p_10", "p_25", "median", "p_75", "p_90", "max")
)
_DIAGNOSTICS = (
    "max_sdm:f sdm_family_wise_min_p:f balance_diagnostic:t shared_max_sdm:f "
    "shared_sdm_family_wise_min_p:f shared_balance_diagnostic:t equipoise:f "
    "equipoise_diagnostic:t generalizability_max_sdm:f generalizability_diagnostic:t mdrr:f "
    "mdrr_diagnostic:t attrition_fraction:f attrition_diagnostic:t ease:f ease_diagnostic:t "
    "unblind_for_evidence_synthesis:i unblind:i"
)
_TC, _O, _A, _DB = "target_comparator_id:i ", "outcome_id:i ", "analysis_id:i ", " database_id:t"
_CALIBRATED = (
    "calibrated_rr:f calibrated_ci_95_lb:f calibrated_ci_95_ub:f calibrated_p:f {}"
    "calibrated_log_rr:f calibrated_se_log_rr:f target_estimator:t"
)
_COLUMNS = {
    "cm_target_comparator": _TC + "target_id:i comparator_id:i nesting_cohort_id:i",
    "cm_target_comparator_outcome": _TC + _O + "outcome_of_interest:i true_effect_size:f",
    "cm_analysis": _A + "description:t definition:t",
    "cm_covariate_analysis": _A + "covariate_analysis_id:i covariate_analysis_name:t",
    "cm_covariate": _A + "covariate_id:i covariate_name:t covariate_analysis_id:i" + _DB,
    "cm_propensity_model": _TC + _A + "covariate_id:i coefficient:f" + _DB,
    "cm_preference_score_dist": _TC
    + _A
    + "preference_score:f target_density:f comparator_density:f"
    + _DB,
    "cm_shared_covariate_balance": _TC + _A + "covariate_id:i " + _BALANCE + _DB,
    "cm_covariate_balance": _TC + _O + _A + "covariate_id:i " + _BALANCE + _DB,
    "cm_attrition": _TC
    + _O
    + _A
    + "exposure_id:i sequence_number:i description:t subjects:i"
    + _DB,
    "cm_follow_up_dist": _TC
    + _O
    + _A
    + _DAYS
    + " target_min_date:d target_max_date:d comparator_min_date:d comparator_max_date:d"
    + _DB,
    "cm_result": _TC
    + _O
    + _A
    + _EFFECT
    + "one_sided_p:f "
    + _COUNTS
    + "llr:f "
    + _CALIBRATED.format("calibrated_one_sided_p:f ")
    + _DB,
    "cm_interaction_result": _TC
    + _O
    + _A
    + "interaction_covariate_id:i "
    + _EFFECT
    + _COUNTS
    + _CALIBRATED.format("")
    + _DB,
    "cm_diagnostics_summary": _TC + _O + _A + _DIAGNOSTICS + _DB,
    "cm_kaplan_meier_dist": _TC
    + _O
    + _A
    + "time_day:i target_survival:f target_survival_lb:f target_survival_ub:f target_at_risk:i "
    + "comparator_survival:f comparator_survival_lb:f comparator_survival_ub:f "
    + "comparator_at_risk:i"
    + _DB,
    "cm_likelihood_profile": _TC + _O + _A + "log_rr:f log_likelihood:f gradient:f" + _DB,
    # Not in the results model: reasons of missing estimates and further numbers.
    "note": _TC
    + _O
    + _A
    + "note:t interval:t proportional_p:f proportional_transform:t e_value:f e_value_limit:f "
    + "e_value_form:t limit_ratio:f "
    + "convergence_diagnostic:t unconverged:t adjustment_diagnostic:t precision_diagnostic:t "
    + "tied:f tied_diagnostic:t target_lost:f comparator_lost:f "
    + "worst_covariate:t"
    + _DB,
    # Not in the results model: further diagnostics.
    "further_diagnostic": _TC + _O + _A + "diagnostic:t value:f verdict:t" + _DB,
    "absolute_effect": _TC
    + _O
    + _A
    + "horizon_day:f target_risk:f comparator_risk:f risk_difference:f risk_difference_lb:f "
    + "risk_difference_ub:f target_days_free:f comparator_days_free:f days_free_difference:f "
    + "days_free_difference_lb:f days_free_difference_ub:f"
    + _DB,
    "preference_score_after": _TC
    + _A
    + "preference_score:f target_density:f comparator_density:f"
    + _DB,
    "covariate_family": _TC
    + _A
    + "covariate_analysis_id:i covariates:i over_before:i largest_before:f over_after:i "
    + "largest_after:f p_after:f worst:t"
    + _DB,
    # Not in the results model: records that no covariate uses, without a finite value.
    "unusable_value": _TC + _A + "covariate_analysis_id:i records:i" + _DB,
    # Not in the results model: notes on the data. Notes on all cohorts have no comparison.
    "data_note": _TC + _A + "topic:t note:t counted:t count:i warning:i" + _DB,
    # Not in the results model: effects without (level 0) and with (level 1) a characteristic.
    "subgroup": _TC
    + _O
    + _A
    + "interaction_covariate_id:i level:i "
    + _EFFECT
    + _COUNTS
    + "target_estimator:t"
    + _DB,
    # Not in the results model: effects in periods of the time at risk, if they may change.
    "effect_by_period": _TC
    + _O
    + _A
    + "first_day:i last_day:i "
    + _EFFECT
    + "target_outcomes:i comparator_outcomes:i target_estimator:t"
    + _DB,
    # Not in the results model: the negative control from which each positive control was made.
    "positive_control": _TC
    + _O
    + "negative_control_id:i target_ratio:f true_effect_size:f outcomes_before:i outcomes_added:i"
    + _DB,
    "cohort": "cohort_id:i name:t",
    "database": "database_id:t name:t cdm:t vocabulary:t release:t source_release:t",
}
TABLES: dict[str, dict[str, str]] = {t: typed(columns) for t, columns in _COLUMNS.items()}
_LAST = {
    "cm_covariate_analysis": "covariate_analysis_id",
    "cm_covariate": "covariate_id",
    "cm_propensity_model": "covariate_id",
    "cm_preference_score_dist": "preference_score",
    "cm_shared_covariate_balance": "covariate_id",
    "cm_covariate_balance": "covariate_id",
    "covariate_family": "covariate_analysis_id",
    "unusable_value": "covariate_analysis_id",
    "data_note": "topic, note",
    "preference_score_after": "preference_score",
    "cm_attrition": "exposure_id, sequence_number",
    "cm_interaction_result": "interaction_covariate_id",
    "further_diagnostic": "diagnostic",
    "subgroup": "interaction_covariate_id, level",
    "effect_by_period": "first_day",
    "cm_kaplan_meier_dist": "time_day",
    "cm_likelihood_profile": "log_rr",
    "cohort": "cohort_id",
    "database": "database_id",
}
# The key of each table, by which its rows are sorted.
KEYS: dict[str, tuple[str, ...]] = {
    table: tuple(c for c in ("target_comparator_id", "outcome_id", "analysis_id") if c in columns)
    + tuple(_LAST[table].split(", ") if table in _LAST else ())
    for table, columns in TABLES.items()
}

# Columns that only disclosure control needs; they are not released.
_MORE = {
    **dict.fromkeys(
        ("cm_result", "effect_by_period"), "target_informative:i comparator_informative:i"
    ),
    "absolute_effect": "target_events:i comparator_events:i",
    "cm_kaplan_meier_dist": "target_events:i comparator_events:i target_here:i comparator_here:i",
    **dict.fromkeys(
        ("cm_shared_covariate_balance", "cm_covariate_balance"),
        "target_people_before:i comparator_people_before:i target_people_after:i "
        "comparator_people_after:i",
    ),
}
# Tables that disclosure control derives from the histogram.
_MADE = ("cm_preference_score_dist", "preference_score_after")
_HISTOGRAM = _TC + _A + "adjusted:i arm:t bar:i people:i mass:f squares:f" + _DB


# The tables of results.duckdb, with exact numbers.
EXACT: dict[str, dict[str, str]] = {
    **{
        table: columns | typed(_MORE.get(table, ""))
        for table, columns in TABLES.items()
        if table not in _MADE
    },
    "preference_histogram": typed(_HISTOGRAM),
}
EXACT_KEYS: dict[str, tuple[str, ...]] = {
    **{table: key for table, key in KEYS.items() if table in EXACT},
    "preference_histogram": ("target_comparator_id", "analysis_id", "adjusted", "arm", "bar"),
}
