"""Views of comparative cohort studies: estimates, diagnostics, attrition, balance and curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.diagnostic_catalogue import DIAGNOSTICS, SHY
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.report.formatting import title_case
from steropes.studies.viewer.named_tables import NamedTables, gathered
from steropes.studies.viewer.result_names import ratio_kind
from steropes.studies.viewer.views import VERDICT, Column, View, checks, column, ids, texts

__all__ = ["comparative_views", "role_of", "shown_of"]

GROUP = "Cohort studies"
KEY = ["target_comparator_id", "outcome_id", "analysis_id", "database_id"]
COMPARISON = texts(
    database="Database", target="Target", comparator="Comparator", analysis="Analysis"
)
QUESTION = (*COMPARISON[:3], *texts(outcome="Outcome"), COMPARISON[3])
RESULT_IDS = ids("target_comparator_id", "outcome_id", "analysis_id")
SHARED_IDS = ids("target_comparator_id", "analysis_id")
EFFECT = (
    column("rr", "Ratio", "ratio"),
    column("ci_95_lb", "Lower", "ratio"),
    column("ci_95_ub", "Upper", "ratio"),
    column("p", "p", "p"),
)
CALIBRATED = (
    column("calibrated_rr", "Calibrated", "ratio"),
    column("calibrated_ci_95_lb", "Lower, calibrated", "ratio"),
    column("calibrated_ci_95_ub", "Upper, calibrated", "ratio"),
    column("calibrated_p", "p, calibrated", "p"),
)
COUNTS = (
    column("target_subjects", "Target people", "count"),
    column("comparator_subjects", "Comparator people", "count"),
    column("target_outcomes", "Target outcomes", "count"),
    column("comparator_outcomes", "Comparator outcomes", "count"),
)
MEANS = tuple(
    Column(f"{arm}_mean_{when}", f"{title_case(arm)} {when}", "bounded")
    for when in ("before", "after")
    for arm in ("target", "comparator")
)
BALANCE = (
    *texts("text", covariate="Covariate", family="Family"),
    *MEANS[:2],
    column("std_diff_before", "Difference before", "difference"),
    *MEANS[2:],
    column("std_diff_after", "Difference after", "difference"),
)


def comparative_views(sources: Sequence[NamedTables]) -> list[View]:
    """Return the views of comparative studies that have rows.

    Parameters
    ----------
    sources : sequence of NamedTables
    """
    views = [
        _estimates(sources),
        _diagnostics(sources),
        _attrition(sources),
        *_balance(sources),
        _model(sources),
        _scores(sources),
        _curves(sources),
        _profiles(sources),
        _follow_up(sources),
        _absolute(sources),
        _subgroups(sources),
    ]
    return [view for view in views if len(view.table)]


def role_of(true_ratio: pd.Series) -> pd.Series:
    """Name the role of an outcome: of interest or, with a known ratio, a control."""
    known = true_ratio.astype(float)
    control = np.where(known == 1, "negative control", "positive control")
    return pd.Series(np.where(known.isna(), "of interest", control), index=true_ratio.index)


def shown_of(results: pd.DataFrame) -> pd.Series:
    """State whether each estimate is shown; the note of a missing one is kept."""
    note = results["note"].fillna("") if "note" in results else pd.Series("", results.index)
    reason = note.where(note.ne(""), NOT_SHOWN)
    return reason.where(results[HIDDEN].astype(bool), note.where(results["rr"].isna(), "shown"))


def _estimates(sources: Sequence[NamedTables]) -> View:
    """Return all estimates, with controls."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Add roles, notes, and the kind of ratio."""
        truth = source.tables.get("cm_target_comparator_outcome")
        if truth is not None:
            place = ["target_comparator_id", "outcome_id"]
            known = truth[[*place, "true_effect_size"]].drop_duplicates(place)
            found = found.merge(known, on=place, how="left")
        else:
            found["true_effect_size"] = np.nan
        if "note" in source:
            columns = [*KEY, "note", "e_value", "e_value_limit", "proportional_p", "unconverged"]
            notes = source.tables["note"].reindex(columns=columns).drop_duplicates(KEY)
            found = found.merge(notes, on=KEY, how="left")
        definitions = source.tables.get("cm_analysis")
        kinds = {}
        if definitions is not None and "definition" in definitions:
            kinds = dict(
                zip(
                    definitions["analysis_id"], map(ratio_kind, definitions["definition"]),
                    strict=True,
                )
            )  # fmt: skip
        found["kind"] = found["analysis_id"].map(kinds).fillna("ratio")
        return found.assign(role=role_of(found["true_effect_size"]), status=shown_of(found))

    table = gathered(sources, "cm_result", more)
    return View(
        "estimates",
        "Estimates",
        GROUP,
        "Ratios of target to comparator with 95% limits. An estimate that fails a diagnostic is "
        "not shown, nor are the outcomes of its arms.",
        (
            *RESULT_IDS,
            *QUESTION,
            *texts(role="Role"),
            *EFFECT,
            *texts("text", status="Status"),
            *CALIBRATED,
            *COUNTS,
            *texts("long", kind="Kind of ratio", target_estimator="Estimand"),
            *texts("long", unconverged="Fits that did not converge"),
            column("target_days", "Target days", "whole"),
            column("comparator_days", "Comparator days", "whole"),
            column("log_rr", "Log ratio"),
            column("se_log_rr", "Standard error"),
            column("true_effect_size", "True ratio", "ratio"),
            column("e_value", "E-value"),
            column("proportional_p", "Proportional hazards, p", "p"),
        ),
        table,
        "forest controls",
    )


def _diagnostics(sources: Sequence[NamedTables]) -> View:
    """Return the diagnostics with their verdicts."""
    table = gathered(sources, "cm_diagnostics_summary", _with_own_diagnostics)
    declared = []
    for d in DIAGNOSTICS:
        name = d.column or d.key.replace(" ", "_")
        if d.verdict_column not in table or not table[d.verdict_column].notna().any():
            continue
        values = table.get(d.column, np.nan)
        table = table.assign(**{name: values, f"{name}{VERDICT}": table[d.verdict_column]})
        declared.append((name, d.heading.replace(SHY, "")))
    if len(table):
        table["may_be_read"] = np.where(table["unblind"].eq(1), "yes", "no")
        table["in_synthesis"] = np.where(table["unblind_for_evidence_synthesis"].eq(1), "yes", "no")
    return View(
        "diagnostics",
        "Diagnostics",
        GROUP,
        "The value of each diagnostic and whether it passes.",
        (
            *RESULT_IDS,
            *QUESTION,
            *texts(may_be_read="May be read", in_synthesis="In synthesis"),
            *checks(declared),
        ),
        table,
    )


def _with_own_diagnostics(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Add the diagnostics that R's results model lacks."""
    if "note" not in source:
        return found
    notes = source.tables["note"]
    own = [
        c
        for d in DIAGNOSTICS
        for c in (d.column, d.verdict_column)
        if c and c in notes and c not in found
    ]
    return found.merge(notes[[*KEY, *own]].drop_duplicates(KEY), on=KEY, how="left")


def _attrition(sources: Sequence[NamedTables]) -> View:
    """Return the people whom each rule leaves."""

    def more(_: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the arms and the rules."""
        arm = np.where(found["exposure_id"].eq(found["target_id"]), "target", "comparator")
        return found.assign(arm=arm, rule=found["description"].fillna("").map(title_case))

    return View(
        "attrition",
        "Attrition",
        GROUP,
        "The people of each arm who remain after each rule.",
        (
            *ids("target_comparator_id", "outcome_id", "analysis_id"),
            *QUESTION,
            *texts(arm="Arm"),
            column("sequence_number", "Step", "whole"),
            *texts("text", rule="Rule"),
            column("subjects", "People", "count"),
        ),
        gathered(sources, "cm_attrition", more),
        "attrition",
    )


def _with_covariates(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
    """Add the names of covariates and of their families."""
    names = source.tables.get("cm_covariate")
    if names is None:
        return found.assign(covariate=found["covariate_id"].map(lambda i: f"covariate {i}"))
    own = names.drop_duplicates("covariate_id").set_index("covariate_id")
    covariate = found["covariate_id"].map(own["covariate_name"])
    found = found.assign(covariate=covariate.fillna("").map(title_case))
    families = source.tables.get("cm_covariate_analysis")
    if families is not None and "covariate_analysis_id" in own:
        named = families.drop_duplicates("covariate_analysis_id").set_index("covariate_analysis_id")
        numbers = found["covariate_id"].map(own["covariate_analysis_id"])
        found["family"] = numbers.map(named["covariate_analysis_name"])
    return found


def _balance(sources: Sequence[NamedTables]) -> list[View]:
    """Return the balance among all who could be at risk, and among the people of each outcome."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the covariates, and put the most unequal ones first."""
        size = found["std_diff_after"].abs()
        order = size.sort_values(ascending=False, kind="stable", na_position="last").index
        return _with_covariates(source, found.loc[order])

    shared = View(
        "balance",
        "Balance",
        GROUP,
        "Means and standardised differences of all covariates before and after adjustment.",
        (*SHARED_IDS, *ids("covariate_id"), *COMPARISON, *BALANCE),
        gathered(sources, "cm_shared_covariate_balance", more),
        "balance",
    )
    own = View(
        "outcome-balance",
        "Balance by outcome",
        GROUP,
        "Balance among the people of each outcome.",
        (*RESULT_IDS, *ids("covariate_id"), *QUESTION, *BALANCE),
        gathered(sources, "cm_covariate_balance", more),
        "balance",
    )
    return [shared, own]


def _model(sources: Sequence[NamedTables]) -> View:
    """Return the coefficients of the propensity models."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the covariates, and put the strongest first."""
        found = _with_covariates(source, found)
        found["covariate"] = found["covariate"].mask(found["covariate_id"].eq(0), "Intercept")
        size = found["coefficient"].abs()
        return found.loc[size.sort_values(ascending=False, kind="stable").index]

    return View(
        "propensity-model",
        "Propensity model",
        GROUP,
        "Coefficients of the propensity models, the strongest first.",
        (
            *SHARED_IDS,
            *ids("covariate_id"),
            *COMPARISON,
            *texts("text", covariate="Covariate", family="Family"),
            column("coefficient", "Coefficient"),
        ),
        gathered(sources, "cm_propensity_model", more),
    )


def _scores(sources: Sequence[NamedTables]) -> View:
    """Return the densities of the preference score before and after adjustment."""
    parts = [
        gathered(sources, table).assign(when=when)
        for table, when in (
            ("cm_preference_score_dist", "before"),
            ("preference_score_after", "after"),
        )
    ]
    parts = [part for part in parts if len(part)]
    return View(
        "scores",
        "Preference scores",
        GROUP,
        "Densities of the preference score before and after adjustment; 0.3 to 0.7 is equipoise.",
        (
            *SHARED_IDS,
            *COMPARISON,
            *texts(when="Adjustment"),
            column("preference_score", "Preference score"),
            column("target_density", "Target density"),
            column("comparator_density", "Comparator density"),
        ),
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(),
        "scores",
    )


def _curves(sources: Sequence[NamedTables]) -> View:
    """Return the survival curves."""
    survival = tuple(
        column(f"{arm}_survival{end}", f"{title_case(arm)}{title}")
        for arm in ("target", "comparator")
        for end, title in (("", ""), ("_lb", ", lower"), ("_ub", ", upper"))
    )
    return View(
        "curves",
        "Survival curves",
        GROUP,
        "The share of people without the outcome, with 95% limits.",
        (
            *RESULT_IDS,
            *QUESTION,
            column("time_day", "Day", "whole"),
            *survival,
            column("target_at_risk", "Target at risk", "count"),
            column("comparator_at_risk", "Comparator at risk", "count"),
        ),
        gathered(sources, "cm_kaplan_meier_dist"),
        "curves",
    )


def _profiles(sources: Sequence[NamedTables]) -> View:
    """Return the likelihood profiles."""
    return View(
        "likelihood",
        "Likelihood",
        GROUP,
        "Log-likelihood profiles of the log ratio.",
        (
            *RESULT_IDS,
            *QUESTION,
            column("log_rr", "Log ratio"),
            column("log_likelihood", "Log-likelihood"),
        ),
        gathered(sources, "cm_likelihood_profile"),
        "likelihood",
    )


def _follow_up(sources: Sequence[NamedTables]) -> View:
    """Return the distribution of the days of follow-up."""
    quantiles = {"p_10": "10%", "p_25": "25%", "median": "median", "p_75": "75%", "p_90": "90%"}
    return View(
        "follow-up",
        "Follow-up",
        GROUP,
        "Quantiles of the days that people are followed.",
        (
            *RESULT_IDS,
            *QUESTION,
            *(
                Column(f"{arm}_{q}_days", f"{title_case(arm)}, {title}", "whole")
                for arm in ("target", "comparator")
                for q, title in quantiles.items()
            ),
        ),
        gathered(sources, "cm_follow_up_dist"),
    )


def _absolute(sources: Sequence[NamedTables]) -> View:
    """Return risks and restricted means."""
    return View(
        "absolute-effects",
        "Absolute effects",
        GROUP,
        "Risks of the outcome by a day, and mean days without it, with 95% limits of differences.",
        (
            *RESULT_IDS,
            *QUESTION,
            column("horizon_day", "By day", "whole"),
            column("target_risk", "Target risk", "share"),
            column("comparator_risk", "Comparator risk", "share"),
            column("risk_difference", "Risk difference", "share"),
            column("risk_difference_lb", "Lower", "share"),
            column("risk_difference_ub", "Upper", "share"),
            column("days_free_difference", "Difference of days"),
            column("days_free_difference_lb", "Days, lower"),
            column("days_free_difference_ub", "Days, upper"),
        ),
        gathered(sources, "absolute_effect"),
    )


def _subgroups(sources: Sequence[NamedTables]) -> View:
    """Return the effects within subgroups."""

    def more(source: NamedTables, found: pd.DataFrame) -> pd.DataFrame:
        """Name the characteristics."""
        found = _with_covariates(
            source, found.rename(columns={"interaction_covariate_id": "covariate_id"})
        )
        return found.assign(level=np.where(found["level"].eq(1), "with", "without"))

    return View(
        "subgroups",
        "Subgroups",
        GROUP,
        "Effects in people without and with a characteristic, at the average of the others.",
        (
            *RESULT_IDS,
            *ids("covariate_id"),
            *QUESTION,
            *texts("text", covariate="Characteristic"),
            *texts(level="Level"),
            *EFFECT,
            *COUNTS,
        ),
        gathered(sources, "subgroup", more),
        "forest",
    )
