"""One outcome of a comparison: all analyses side by side, their diagnostics, and their people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from steropes.data.number_formatting import counted, deciding_p, effect, number
from steropes.designs.values.estimands import estimand_name
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.diagnostic import Diagnostic
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.formatting.released_numbers import decimals, percent, title_case
from steropes.studies.report.flow_diagram import attrition_diagram
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.grid_page_data import KEY, Comparison, View
from steropes.studies.report.page_parts import Cell, Rows, verdict_cell
from steropes.studies.report.subgroups_section import Subgroups, subgroups
from steropes.studies.report.survival_figure import survival_figure
from steropes.studies.report.svg_canvas import Picture

__all__ = ["AnalysisDetails", "OutcomeSection", "outcome_section"]

NO_BREAK = "\N{NO-BREAK SPACE}"
# Quantiles of the follow-up; extremes are days of single people.
DAYS = ("p_10", "p_25", "median", "p_75", "p_90")


@dataclass(frozen=True)
class AnalysisDetails:
    """Attrition, follow-up and survival curves of one analysis of an outcome."""

    label: str
    attrition: Picture | None
    follow_up: Rows
    survival: Picture | None


@dataclass(frozen=True)
class OutcomeSection:
    """Pictures and rows of the tables of one outcome of a comparison.

    Links refer to it by its ``anchor``.
    """

    anchor: str
    name: str
    ratio: str
    forest: Picture | None
    estimates: Rows
    diagnostics: Rows
    people: Rows
    absolute_effects: Rows
    subgroups: Subgroups | None
    periods: Rows
    analyses: list[AnalysisDetails]


def outcome_section(view: View, comparison: Comparison, outcome: int) -> OutcomeSection:
    """Describe one outcome by all analyses."""
    shown = view.results.estimates(view.unblind)
    of = shown[(shown["target_comparator_id"] == comparison.id) & (shown["outcome_id"] == outcome)]
    checks = view.rows(
        "cm_diagnostics_summary", target_comparator_id=comparison.id, outcome_id=outcome
    )
    notes = view.rows("note", target_comparator_id=comparison.id, outcome_id=outcome)
    further = view.rows(
        "further_diagnostic", target_comparator_id=comparison.id, outcome_id=outcome
    )
    of = of.merge(notes.drop(columns=["note", "interval", "unconverged", "database_id"]), on=KEY)
    lines = {int(line["analysis_id"]): line for line in of.to_dict("records")}
    units = list(dict.fromkeys(view.unit(a) for a in lines))
    drawn = [
        Row(
            view.label(a),
            line["rr"],
            line["ci_95_lb"],
            line["ci_95_ub"],
            (line["calibrated_rr"], line["calibrated_ci_95_lb"], line["calibrated_ci_95_ub"]),
            _why(line),
        )
        for a, line in lines.items()
    ]
    picture = forest(f"forest-{comparison.id}-{outcome}", drawn, " or ".join(units))
    visible = [a for a, line in lines.items() if _visible(view, line)]
    return OutcomeSection(
        anchor=f"{comparison.anchor}-o{outcome}",
        name=view.name(outcome),
        ratio=title_case(units[0]) if len(units) == 1 else "Estimate",
        forest=view.collect(picture),
        estimates=_estimates(view, lines),
        diagnostics=_diagnostics(view, checks, further, lines),
        people=_people(view, comparison, outcome, lines),
        absolute_effects=_absolute_effects(view, comparison, outcome, lines),
        subgroups=subgroups(view, comparison, outcome, visible),
        periods=_periods(view, comparison, outcome, visible),
        analyses=[_details(view, comparison, outcome, a) for a in lines],
    )


def _periods(view: View, comparison: Comparison, outcome: int, analyses: list[int]) -> Rows:
    """Return the effects of some analyses in periods of the time at risk."""
    rows = []
    key = {"target_comparator_id": comparison.id, "outcome_id": outcome}
    for a in analyses:
        for line in view.rows("effect_by_period", **key, analysis_id=a).to_dict("records"):
            last = line["last_day"]
            until = "on" if last is None or math.isnan(last) else f"to {last:,.0f}"
            rows.append(
                (
                    view.label(a),
                    f"day {line['first_day']:,.0f} {until}",
                    *(counted(line[f"{arm}_outcomes"]) for arm in ("target", "comparator")),
                    effect(*(line[c] for c in ("rr", "ci_95_lb", "ci_95_ub"))) or "none",
                    deciding_p(line["p"]),
                )
            )
    return rows


def _visible(view: View, line: dict[str, object]) -> bool:
    """Check whether an estimate may be shown."""
    return bool(line["unblind"]) or view.unblind


def _why(line: dict[str, object]) -> str:
    """Return the reason of a missing estimate."""
    if line["note"]:
        return str(line["note"])
    return "no estimate" if line["unblind"] else NOT_SHOWN


def _estimates(view: View, lines: dict[int, dict[str, Any]]) -> Rows:
    """Return the estimates of all analyses."""
    several = len({view.unit(a) for a in lines}) > 1
    rows = []
    for a, line in lines.items():
        calibrated = [line[f"calibrated_{c}"] for c in ("rr", "ci_95_lb", "ci_95_ub")]
        shown = effect(line["rr"], line["ci_95_lb"], line["ci_95_ub"]).replace(" ", NO_BREAK)
        if shown and isinstance(line["unconverged"], str):
            shown += f" ({line['unconverged']} did not converge)"
        known = math.isfinite(line["e_value"])
        among = estimand_name(str(line["target_estimator"]), not view.analysis(a).crude)
        if view.analysis(a).outcome_model.interactions:
            among += ", without the subgroups' characteristics"
        rows.append(
            (
                view.label(a),
                among,
                (f"{shown} {view.unit(a)}" if shown and several else shown) or _why(line),
                deciding_p(line["p"]),
                effect(*calibrated) or "–",
                deciding_p(line["calibrated_p"]),
                f"{decimals(line['e_value'])} ({decimals(line['e_value_limit'])})"
                if known
                else "–",
                deciding_p(line["proportional_p"]),
            )
        )
    return rows


def _diagnostics(
    view: View, checks: pd.DataFrame, further: pd.DataFrame, lines: dict[int, dict[str, Any]]
) -> Rows:
    """Return the diagnostics of all analyses, with their limits."""
    thresholds = view.results.spec.thresholds
    declared = declared_diagnostics(thresholds, "comparative")
    shown = [d.chosen(thresholds) for d in declared]
    needed = ("" if d.key == "precision" else d.sign(thresholds) for d in shown)
    rows: list[tuple[str | Cell, ...]] = [("To pass", "", *needed)]
    for line in checks.to_dict("records"):
        analysis = int(line["analysis_id"])
        found = {**lines[analysis], **line}
        own = further[further["analysis_id"] == analysis].set_index("diagnostic")
        for d in shown:
            if d.measure is not None and d.key in own.index:
                found[d.key], found[f"{d.key} verdict"] = own.loc[d.key, ["value", "verdict"]]
        rows.append(
            (
                view.label(analysis),
                "yes" if line["unblind"] else Cell("no", "FAIL"),
                *(_checked(found, d, thresholds) for d in shown),
            )
        )
    return rows


def _checked(found: dict[Any, Any], d: Diagnostic, thresholds: DiagnosticThresholds) -> Cell:
    """Format the value of a diagnostic with its verdict."""
    value = found.get(d.column or d.key)
    verdict = _told(found.get(d.verdict_column or f"{d.key} verdict"))
    x = math.nan if value is None or d.relation is None else float(value)
    if d.key == "precision" or d.relation is None:  # the number shown is not the one judged
        return verdict_cell(x, verdict)
    return verdict_cell(x, verdict, relation=d.relation, limit=d.limit(thresholds))


def _told(said: object) -> str:
    """Return a verdict; a result that was refused has none."""
    return said if isinstance(said, str) else "NOT EVALUATED"


def _people(
    view: View, comparison: Comparison, outcome: int, lines: dict[int, dict[str, Any]]
) -> Rows:
    """Return the people of each arm, the share that stayed and the length of follow-up."""
    rows = []
    for a, line in lines.items():
        key = {"target_comparator_id": comparison.id, "outcome_id": outcome, "analysis_id": a}
        days = view.line("cm_follow_up_dist", **key)
        for arm in ("target", "comparator"):
            lost = line[f"{arm}_lost"]
            spread = [days.get(f"{arm}_{q}_days", math.nan) for q in ("median", "p_10", "p_90")]
            rows.append(
                (
                    view.label(a),
                    comparison.names[arm],
                    counted(line[f"{arm}_subjects"]),
                    "all" if math.isnan(lost) else percent(1 - lost, 0),
                    *(
                        text if _visible(view, line) else "not shown"
                        for text in (
                            *(counted(line[f"{arm}_{of}"]) for of in ("outcomes", "days")),
                            "{} ({} to {})".format(*(counted(v) for v in spread)),
                        )
                    ),
                )
            )
    return rows


def _absolute_effects(
    view: View, comparison: Comparison, outcome: int, lines: dict[int, dict[str, Any]]
) -> Rows:
    """Return differences in risk and in time without the outcome."""
    rows = []
    for a in lines:
        key = {"target_comparator_id": comparison.id, "outcome_id": outcome, "analysis_id": a}
        found = view.line("absolute_effect", **key)
        if not found:
            continue
        risk = [100 * found[f"risk_difference{e}"] for e in ("", "_lb", "_ub")]
        days = [found[f"days_free_difference{e}"] for e in ("", "_lb", "_ub")]
        rows.append(
            (
                view.label(a),
                counted(round(found["horizon_day"])),
                percent(found["target_risk"]),
                percent(found["comparator_risk"]),
                effect(*risk),
                number(found["target_days_free"], 1),
                number(found["comparator_days_free"], 1),
                effect(days[0], days[1], days[2], 1),
            )
        )
    return rows


def _details(view: View, comparison: Comparison, outcome: int, analysis: int) -> AnalysisDetails:
    """Describe attrition, follow-up and survival by one analysis."""
    key = {"target_comparator_id": comparison.id, "outcome_id": outcome, "analysis_id": analysis}
    rules = view.rows("cm_attrition", **key)
    arms = [
        rules[rules["exposure_id"] == e].set_index("sequence_number")
        for e in (comparison.target, comparison.comparator)
    ]
    steps = [
        (str(line["description"]), float(line["subjects"]), float(arms[1].loc[i, "subjects"]))
        for i, line in arms[0].iterrows()
        if i in arms[1].index
    ]
    place = f"{comparison.id}-{outcome}-{analysis}"
    diagram = attrition_diagram(
        f"attrition-{place}", steps, comparison.names, view.results.rules.least
    )
    days = view.line("cm_follow_up_dist", **key)
    follow_up = [
        (comparison.names[arm], *(counted(days[f"{arm}_{q}_days"]) for q in DAYS))
        for arm in ("target", "comparator")
        if days
    ]
    survival = view.rows("cm_kaplan_meier_dist", **key)
    curves = survival_figure(f"survival-{place}", survival, comparison.names)
    return AnalysisDetails(
        view.label(analysis), view.collect(diagram), follow_up, view.collect(curves)
    )
