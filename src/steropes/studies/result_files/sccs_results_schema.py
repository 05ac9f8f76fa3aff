"""Columns, types and keys of the result tables of case series, exact and for release."""

from __future__ import annotations

from steropes.studies.result_files.table_layouts import typed

__all__ = ["EXACT", "EXACT_KEYS", "KEYS", "TABLES"]

_AS = "analysis_id:i exposures_outcome_set_id:i "
_DB = " database_id:t"
_CALIBRATED = (
    "calibrated_rr:f calibrated_ci_95_lb:f calibrated_ci_95_ub:f calibrated_p:f "
    "calibrated_one_sided_p:f calibrated_log_rr:f calibrated_se_log_rr:f"
)
_COLUMNS = {
    "sccs_analysis": "analysis_id:i description:t definition:t",
    "sccs_covariate_analysis": "analysis_id:i covariate_analysis_id:i covariate_analysis_name:t "
    "variable_of_interest:i pre_exposure:i end_of_observation_period:i",
    "sccs_exposures_outcome_set": "exposures_outcome_set_id:i outcome_id:i nesting_cohort_id:i",
    "sccs_exposure": "exposures_outcome_set_id:i era_id:i true_effect_size:f",
    "sccs_era": _AS + "era_type:t era_id:i era_name:t" + _DB,
    "sccs_covariate": _AS
    + "covariate_analysis_id:i covariate_id:i covariate_name:t era_id:i"
    + _DB,
    "sccs_attrition": _AS
    + "outcome_subjects:i outcome_events:i outcome_observation_periods:i observed_days:i "
    "description:t sequence_number:i covariate_id:i" + _DB,
    "sccs_result": _AS
    + "covariate_id:i rr:f ci_95_lb:f ci_95_ub:f p:f one_sided_p:f outcome_subjects:i "
    "outcome_events:i outcome_observation_periods:i covariate_subjects:i covariate_days:i "
    "covariate_eras:i covariate_outcomes:i observed_days:i log_rr:f se_log_rr:f llr:f "
    + _CALIBRATED
    + _DB,
    "sccs_covariate_result": _AS + "covariate_id:i rr:f ci_95_lb:f ci_95_ub:f" + _DB,
    "sccs_likelihood_profile": _AS + "log_rr:f log_likelihood:f gradient:f covariate_id:i" + _DB,
    "sccs_spline": _AS + "spline_type:t knot_month:f rr:f" + _DB,
    "sccs_censor_model": _AS + "parameter_id:i parameter_value:f model_type:t" + _DB,
    "sccs_time_trend": _AS
    + "calendar_year:i calendar_month:i observed_subjects:i ratio:f adjusted_ratio:f"
    + _DB,
    "sccs_time_to_event": _AS + "era_id:i week:i observed_subjects:i outcomes:i" + _DB,
    "sccs_age_spanning": _AS + "age_month:i cover_before_after_subjects:i" + _DB,
    "sccs_calendar_time_spanning": _AS
    + "calendar_year:i calendar_month:i cover_before_after_subjects:i"
    + _DB,
    "sccs_time_period": _AS + "min_date:t max_date:t",
    "sccs_diagnostics_summary": _AS
    + "covariate_id:i time_stability_p:f time_stability_diagnostic:t event_exposure_lb:f "
    "event_exposure_ub:f event_exposure_diagnostic:t event_observation_lb:f "
    "event_observation_ub:f event_observation_diagnostic:t rare_outcome_prevalence:f "
    "rare_outcome_diagnostic:t mdrr:f mdrr_diagnostic:t ease:f ease_diagnostic:t unblind:i "
    "unblind_for_evidence_synthesis:i time_trend_p:f pre_exposure_p:f time_trend_diagnostic:t "
    "pre_exposure_diagnostic:t" + _DB,
    # Tables that R does not have: names, origins of positive controls, reasons for missing numbers,
    # and the diagnostics that a specification adds.
    "question_name": "exposures_outcome_set_id:i era_id:i exposure_name:t outcome_id:i "
    "outcome_name:t",
    "positive_control": "exposures_outcome_set_id:i negative_control_id:i name:t target_ratio:f "
    "true_effect_size:f outcomes_before:i outcomes_added:i" + _DB,
    "sccs_further_diagnostic": _AS + "covariate_id:i diagnostic:t value:f verdict:t" + _DB,
    "note": _AS + "note:t convergence_diagnostic:t unconverged:t sampling:t" + _DB,
    "data_note": _AS + "topic:t note:t counted:t count:i warning:i" + _DB,
}
TABLES: dict[str, dict[str, str]] = {t: typed(columns) for t, columns in _COLUMNS.items()}
_FIRST = ("exposures_outcome_set_id", "analysis_id", "covariate_id", "covariate_analysis_id")
_LAST = (
    "era_type", "era_id", "sequence_number", "log_rr", "spline_type", "knot_month", "parameter_id",
    "calendar_year", "calendar_month", "week", "age_month", "topic", "diagnostic",
)  # fmt: skip
# The columns that sort the rows of a table and together are its key.
KEYS: dict[str, tuple[str, ...]] = {
    table: tuple(c for c in (*_FIRST, *_LAST) if c in columns) for table, columns in TABLES.items()
}
KEYS["data_note"] += ("note",)  # A topic may have several notes.

# Columns and a table that disclosure control needs and that are not released.
_MORE = {
    "sccs_time_trend": "observed_outcomes:i expected:f adjusted:f",
    "sccs_covariate": "first_day:f last_day:f",
}
_COUNTS = (
    _AS + "covariate_id:i subjects:i periods:i eras:i days:i events:i observed_events:i "
    "compared_days:i compared_total:i compared_events:i" + _DB
)
EXACT: dict[str, dict[str, str]] = {
    **{table: columns | typed(_MORE.get(table, "")) for table, columns in TABLES.items()},
    "covariate_count": typed(_COUNTS),
}
EXACT_KEYS: dict[str, tuple[str, ...]] = {
    **KEYS,
    "covariate_count": ("exposures_outcome_set_id", "analysis_id", "covariate_id"),
}
