"""Adjustment of the arms of a comparison: scores, balance, families of covariates and Table 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steropes.data.number_formatting import (
    deciding,
    deciding_p,
    limit_text,
    number,
)
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.formatting.released_numbers import family_name
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.characteristics_section import characteristics_of_arms
from steropes.studies.report.grid_page_data import Comparison, View
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.page_parts import Finding, Rows
from steropes.studies.report.svg_canvas import Picture

__all__ = ["Adjustment", "adjustments"]


@dataclass(frozen=True)
class Adjustment:
    """One way to adjust; without ``balance`` no one was adjusted."""

    title: str
    overlap: Picture | None
    balance: list[Finding] = field(default_factory=list)
    convergence: list[Finding] = field(default_factory=list)
    covariates: tuple[int, int] = (0, 0)  # All of them, and those in the pictures.
    scatter: Picture | None = None
    love: Picture | None = None
    families: Rows = ()
    characteristics: Mapping[str, Rows] = field(default_factory=dict)


def adjustments(view: View, comparison: Comparison) -> list[Adjustment]:
    """Describe each way to adjust once, for all analyses that share it."""
    groups: dict[object, list[StudyAnalysis]] = {}
    for a in view.analyses:
        model = a.outcome_model
        crossed = model if model.family.doubly_robust else None  # It has scores of its own.
        key = (a.cohorts, a.at_risk, a.features, a.propensity, a.estimand, a.trim, a.truncate,
               a.match, a.stratify, model.weighted, crossed)  # fmt: skip
        groups.setdefault(key, []).append(a)
    return [
        _adjustment(view, comparison, same)
        for same in groups.values()
        if same[0].propensity is not None
    ]


def _adjustment(view: View, comparison: Comparison, same: list[StudyAnalysis]) -> Adjustment:
    """Describe the adjustment of analyses that share it."""
    first = same[0].id
    key = {"target_comparator_id": comparison.id, "analysis_id": first}
    place = f"{comparison.id}-{first}"
    before = view.rows("cm_preference_score_dist", **key)
    after = view.rows("preference_score_after", **key)
    names = view.results.tables["cm_covariate"].drop_duplicates("covariate_id")
    balance = view.rows("cm_shared_covariate_balance", **key).merge(
        names[["covariate_id", "covariate_name"]], on="covariate_id", how="left"
    )
    limits = view.results.spec.thresholds
    limit = limits.shown_balance
    title = "; ".join(view.label(a.id) for a in same)
    overlap = view.collect(score_overlap(f"scores-{place}", before, after, comparison.names))
    if balance.empty:
        return Adjustment(title, overlap)
    stopped = view.rows("note", **key)["unconverged"]
    unconverged = stopped.map(lambda x: isinstance(x, str) and "propensity" in x).any()
    drawn = balance[["std_diff_before", "std_diff_after"]].notna().all(axis=1)
    return Adjustment(
        title,
        overlap,
        balance=[_rule(view, comparison, first, limit)],
        convergence=[("FAIL", "The propensity model did not converge.")] if unconverged else [],
        covariates=(len(drawn), int(drawn.sum())),
        scatter=view.collect(balance_scatter(f"balance-{place}", balance, limit)),
        love=view.collect(love_plot(f"love-{place}", balance, limit)),
        families=_families(view, key),
        characteristics=characteristics_of_arms(view, comparison, first),
    )


def _rule(view: View, comparison: Comparison, analysis: int, limit: float) -> Finding:
    """Return the verdict on balance with a sentence on its rule.

    The verdict and the largest difference are of all covariates, the number that exceed the limit
    of those of which no difference is suppressed.
    """
    key = {"target_comparator_id": comparison.id, "analysis_id": analysis}
    checks = view.rows("cm_diagnostics_summary", **key)
    families = view.rows("covariate_family", **key)
    size = families["largest_after"]
    verdicts = checks["shared_balance_diagnostic"].unique()
    known = int(view.rows("cm_shared_covariate_balance", **key)["balanced_after"].notna().sum())
    few = int(families["covariates"].sum()) - known
    said = (
        f"{families['over_after'].sum():,} of {known:,} covariates differ "
        f"by more than {limit_text(limit)} after adjustment"
        + (
            f" ({few:,} more have few people in an arm and count for the verdict alone)"
            if few
            else ""
        )
        + f"; the largest difference is {deciding(float(size.max()), limit)}"
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


def _families(view: View, key: dict[str, int]) -> Rows:
    """Return the balance of each family of covariates."""
    rows = []
    for line in view.rows("covariate_family", **key).to_dict("records"):
        known = ANALYSES.get(line["covariate_analysis_id"])
        rows.append(
            (
                family_name(known.name) if known else "Cohorts",
                f"{line['covariates']:,}",
                f"{line['over_before']:,}",
                number(line["largest_before"], 2),
                f"{line['over_after']:,}",
                number(line["largest_after"], 2),
                number(line["p_after"], 3),
                str(line["worst"] or ""),
            )
        )
    return rows
