"""Whether adjustment made the arms comparable: scores, balance, families, and Table 1."""

from __future__ import annotations

from html import escape

import pandas as pd

from steropes.studies.comparative.settings import StudyAnalysis
from steropes.studies.covariates.analysis_catalogue import ANALYSES
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.characteristics_section import characteristics_html
from steropes.studies.report.digits import deciding, deciding_p, limit_text
from steropes.studies.report.html import findings, fold, number, table
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.report_view import Comparison, View
from steropes.studies.report.unusable_values import unusable_words

__all__ = ["adjustment_section"]


def adjustment_section(view: View, comparison: Comparison) -> list[str]:
    """Describe each way of adjusting once, and the values that no covariate uses."""
    groups: dict[object, list[StudyAnalysis]] = {}
    for a in view.analyses:
        weighted = a.outcome_model.weighted
        key = (a.cohorts, a.at_risk, a.features, a.propensity, a.estimand, a.trim, a.truncate,
               a.match, a.stratify, weighted)  # fmt: skip
        groups.setdefault(key, []).append(a)
    parts: list[str] = []
    for same in groups.values():
        if same[0].propensity is not None:
            parts += _group(view, comparison, same)
    said = [f"{words}." for words in unusable_words(view.results.tables, comparison.id)]
    parts = [findings(("WARN", words) for words in said), *parts] if said else parts
    return ["<h3>Adjustment</h3>", *parts] if parts else []


def _group(view: View, comparison: Comparison, same: list[StudyAnalysis]) -> list[str]:
    first = same[0].id
    key = {"target_comparator_id": comparison.id, "analysis_id": first}
    place = f"{comparison.id}-{first}"
    title = "; ".join(view.label(a.id) for a in same)
    before = view.rows("cm_preference_score_dist", **key)
    after = view.rows("preference_score_after", **key)
    names = view.results.tables["cm_covariate"].drop_duplicates("covariate_id")
    balance = view.rows("cm_shared_covariate_balance", **key).merge(
        names[["covariate_id", "covariate_name"]], on="covariate_id", how="left"
    )
    limits = view.results.spec.thresholds
    limit = 0.1 if limits.balance is None else limits.balance
    overlap = score_overlap(f"scores-{place}", before, after, comparison.names)
    parts = [
        f"<h4>{escape(title)}</h4>",
        view.figure(overlap, "Preference scores; 0.3 to 0.7, shaded, is equipoise."),
    ]
    if balance.empty:
        return [*parts, "<p>No balance: nobody was adjusted, or an arm has nobody left.</p>"]
    scatter = balance_scatter(f"balance-{place}", balance, limit)
    love = love_plot(f"love-{place}", balance, limit)
    stopped = view.rows("note", **key)["unconverged"]
    if stopped.map(lambda x: isinstance(x, str) and "propensity" in x).any():
        parts.append(findings([("FAIL", "The propensity model did not converge.")]))
    parts += [
        findings([_rule(view, comparison, first, limit)]),
        view.figure(scatter, _caption(balance)),
        view.figure(love, "The covariates that differ most after adjustment, and before it."),
        fold("Families of covariates", _families(view, key)),
        fold("Table 1: characteristics", characteristics_html(view, comparison, first)),
    ]
    return parts


def _caption(balance: pd.DataFrame) -> str:
    told = balance[["std_diff_before", "std_diff_after"]].notna().all(axis=1)
    which = "All covariates"
    if not told.all():
        which = f"The {told.sum():,} of {len(told):,} covariates of which no arm has few people"
    return f"{which}; dashed: the threshold, and no change."


def _rule(view: View, comparison: Comparison, analysis: int, limit: float) -> tuple[str, str]:
    """The verdict on balance and the rule that it comes from, in a sentence.

    It is of all covariates: also of those whose own difference is not told.
    """
    key = {"target_comparator_id": comparison.id, "analysis_id": analysis}
    checks = view.rows("cm_diagnostics_summary", **key)
    families = view.rows("covariate_family", **key)
    size = families["largest_after"]
    verdicts = checks["shared_balance_diagnostic"].unique()
    said = (
        f"{families['over_after'].sum():,} of {families['covariates'].sum():,} covariates differ "
        f"by more than {limit_text(limit)} after adjustment; the largest difference is "
        f"{deciding(float(size.max()), limit)}"
    )
    if size.notna().any():
        name = families.loc[size.idxmax(), "worst"]
        said += f" ({name})" if isinstance(name, str) and name else ""
    smallest = view.results.spec.thresholds.balance_p
    p = checks["shared_sdm_family_wise_min_p"].max()
    if smallest is not None:
        said += (
            f". By the significance rule (p at least {limit_text(smallest)} over all covariates) "
            f"what counts is p = {deciding_p(float(p), smallest)}, that a difference is beyond "
            f"{limit_text(limit)} by chance"
        )
    return (str(verdicts[0]) if len(verdicts) else "NOT EVALUATED"), said + "."


def _families(view: View, key: dict[str, int]) -> str:
    rows = []
    for line in view.rows("covariate_family", **key).to_dict("records"):
        known = ANALYSES.get(line["covariate_analysis_id"])
        rows.append(
            (
                known.name if known else "Cohorts",
                f"{line['covariates']:,}",
                f"{line['over_before']:,}",
                number(line["largest_before"], 2),
                f"{line['over_after']:,}",
                number(line["largest_after"], 2),
                number(line["p_after"], 3),
                str(line["worst"] or ""),
            )
        )
    head = ("Family", "Covariates", "Beyond before", "Largest before", "Beyond after",
            "Largest after", "p after", "Most unequal after")  # fmt: skip
    caption = "p: that the largest difference of the family is within the threshold, corrected."
    return table(head, rows, text=(0, 7), caption=caption) if rows else ""
