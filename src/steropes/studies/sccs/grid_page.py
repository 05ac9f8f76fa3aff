"""Report of a grid of case series as an HTML page, from the tables for release.

A result that fails a diagnostic is not shown unless requested.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from steropes.studies.controls.control_figures import performance_definitions, performance_html
from steropes.studies.controls.performance_metrics import ControlEstimates, before_and_after
from steropes.studies.database.data_notes import table_sentences
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.report import html
from steropes.studies.report.digits import Relation, deciding, limit_text
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.formatting import title_case
from steropes.studies.sccs.sccs_presets import EXPOSURE
from steropes.studies.sccs.sccs_thresholds import Thresholds
from steropes.studies.sccs.settings import Spline

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_grid import CaseSeriesGridResults

__all__ = ["case_series_grid_page", "member_name", "series_controls", "write_case_series_grid"]

NO_BREAK = "\N{NO-BREAK SPACE}"
KEY = ["analysis_id", "exposures_outcome_set_id"]
CHECKS = {
    "convergence": ("Converged", ""),
    "time_stability": ("Time stability, p", "time_stability_p"),
    "event_exposure": ("Before exposure", "event_exposure"),
    "event_observation": ("End of observation", "event_observation"),
    "rare_outcome": ("Share with the outcome", "rare_outcome_prevalence"),
    "mdrr": ("Detectable ratio", "mdrr"),
    "ease": ("Systematic error", "ease"),
}


def write_case_series_grid(
    results: CaseSeriesGridResults, folder: str | Path, *, unblind: bool = False
) -> Path:
    """Write ``report.html`` to the folder ``release`` and return its path.

    Parameters
    ----------
    results : CaseSeriesGridResults
    folder : str or Path
    unblind : bool, default False
        Also show estimates that fail a diagnostic.
    """
    page = case_series_grid_page(results, unblind=unblind)
    return write_release(folder, {"report.html": page}, results.rules, add=True)[0]


def case_series_grid_page(results: CaseSeriesGridResults, *, unblind: bool = False) -> str:
    """Return the page as self-contained HTML."""
    shown = results.estimates(unblind)
    names = _names(results)
    body = [
        "<h1>Self-controlled case series</h1>",
        '<p class="lead">Only people with an outcome are studied, and each person serves as their '
        f"own control. Database: {escape(results.grid.database_id)}.</p>",
        _cards(results),
    ]
    labels = {a.id: a.description for a in results.grid.analyses}
    exposures = list(dict.fromkeys(q.exposure for q in results.grid.questions))
    for exposure in exposures:
        body.append(f"<h2>{escape(names.get(exposure, f'exposure {exposure}'))}</h2>")
        of = shown[shown["era_id"] == exposure]
        for outcome in dict.fromkeys(of["outcome_id"]):
            own = of[of["outcome_id"] == outcome]
            title = names.get(-outcome, f"outcome {outcome}")
            body += _outcome(results, own, title, labels, unblind)
        body += _controls(results, exposure, labels)
        body.append(_data_notes(results, exposure))
    if any(q.true_ratio is not None for q in results.grid.questions):
        body.append(
            performance_definitions(
                "The ratio of a positive control is the number of outcomes on exposed days with "
                "the added ones, divided by the number without."
            )
        )
    body.append(_settings(results))
    body.append(f"<p>{escape(results.rules.sentence())}</p>")
    title = "Case series of " + ", ".join(names.get(e, str(e)) for e in exposures)
    return html.document(title, body)


def member_name(line: Any) -> str:
    """Return the drug of a class that a row of ``estimates`` refers to; "" for the class."""
    name = line["covariate_name"]
    return name.partition(f"{EXPOSURE}: ")[2] if isinstance(name, str) else ""


def _names(results: CaseSeriesGridResults) -> dict[int, str]:
    """Return names of exposures by id, and of outcomes by minus their id."""
    table = results.tables["question_name"]
    exposures = table[["era_id", "exposure_name"]].itertuples(index=False)
    outcomes = table[["outcome_id", "outcome_name"]].itertuples(index=False)
    named = {int(e): title_case(str(n)) for e, n in exposures}
    return named | {-int(o): title_case(str(n)) for o, n in outcomes}


def _cards(results: CaseSeriesGridResults) -> str:
    """Return the key numbers as HTML."""
    t = results.tables
    found, checks = t["sccs_result"], t["sccs_diagnostics_summary"]
    shown = [
        (f"{len({q.exposure for q in results.grid.questions}):,}", "exposures"),
        (f"{len(results.grid.analyses):,}", "analyses"),
        (f"{len(t['sccs_exposures_outcome_set']):,}", "questions, with controls"),
        (f"{int(found['log_rr'].notna().sum())} of {len(found)}", "results have an estimate"),
        (f"{int(checks['unblind'].sum())}", "pass all diagnostics"),
    ]
    return html.cards(shown)


def _outcome(
    results: CaseSeriesGridResults,
    of: pd.DataFrame,
    title: str,
    labels: dict[int, str],
    unblind: bool,
) -> list[str]:
    """Return estimates and diagnostics of an exposure and outcome, for all analyses."""
    rows, lines = [], []
    for line in of.to_dict("records"):
        label = _label(line, labels)
        why = "not shown: a diagnostic failed" if not line["unblind"] and not unblind else "none"
        why = line["note"] if isinstance(line["note"], str) and line["note"] else why
        plain, after = _ends(line, ""), _ends(line, "calibrated_")
        rows.append(Row(label, *plain, second=after, note=why))
        ratio, calibrated = (html.effect(*e).replace(" ", NO_BREAK) for e in (plain, after))
        if ratio and isinstance(line["unconverged"], str):
            ratio += " (did not converge)"
        effects = (ratio or why, html.number(line["p"], 3), calibrated)
        counts = (
            html.counted(line[c])
            for c in ("outcome_subjects", "outcome_events", "covariate_subjects")
        )
        blind = not line["unblind"] and not unblind
        inside = "–" if blind else html.counted(line["covariate_outcomes"])
        lines.append((label, *effects, *counts, inside))
    head = ("Analysis", "Rate ratio (95%)", "p", "Calibrated", "People", "Outcomes", "Exposed",
            "Outcomes exposed")  # fmt: skip
    number = int(of["exposures_outcome_set_id"].iloc[0])
    parts = [f"<h3>{escape(title)}</h3>"]
    picture = forest(f"forest-{number}", rows, "rate ratio")
    if picture:
        parts.append(picture.figure("All analyses side by side, with 95% limits."))
    parts.append(html.table(head, lines, text=(0, 1)))
    parts.append(_verdicts(results, of, labels))
    for analysis in dict.fromkeys(of["analysis_id"]):
        summary = f"{labels[analysis]}: attrition"
        body = _attrition(results, analysis, number) + _sampling(results, analysis, number)
        parts.append(html.fold(summary, body))
    return parts


def _label(line: dict[str, Any], labels: dict[int, str]) -> str:
    """Name an analysis, with the drug if each drug of a class is a separate covariate."""
    return ", ".join(s for s in (labels[line["analysis_id"]], member_name(line)) if s)


def _ends(line: dict[str, Any], prefix: str) -> tuple[float, float, float]:
    """Return an estimate with its limits."""
    rr, low, high = (float(line[prefix + e]) for e in ("rr", "ci_95_lb", "ci_95_ub"))
    return rr, low, high


def _verdicts(results: CaseSeriesGridResults, of: pd.DataFrame, labels: dict[int, str]) -> str:
    """Tabulate the diagnostics of all analyses with their thresholds."""
    checks = of[[*KEY, "covariate_id", "covariate_name"]].merge(
        results.tables["sccs_diagnostics_summary"], on=[*KEY, "covariate_id"]
    )
    ended = results.tables["note"][[*KEY, "convergence_diagnostic"]]
    checks = checks.merge(ended, on=KEY, how="left")
    limits = _limits(results.grid.thresholds)
    lines = [("To pass", *(escape(limits[check][0]) for check in CHECKS))]
    lines += [
        (
            _label(line, labels),
            *(_verdict(line, check, value, limits) for check, (_, value) in CHECKS.items()),
        )
        for line in checks.to_dict("records")
    ]
    head = ("Diagnostics", *(name for name, _ in CHECKS.values()))
    return html.table(head, lines, text=(0,), raw=range(1, len(head)))


def _limits(t: Thresholds) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Return the threshold of each diagnostic as text and as numbers."""

    def meets(bounds: tuple[float, float]) -> tuple[str, tuple[float, ...]]:
        """Describe bounds that an interval must overlap."""
        return f"overlaps {limit_text(bounds[0])} to {limit_text(bounds[1])}", bounds

    return {
        "convergence": ("", ()),
        "time_stability": (f"> {limit_text(t.time_alpha)}", (t.time_alpha,)),
        "event_exposure": meets(t.pre_exposure),
        "event_observation": meets(t.end_of_observation),
        "rare_outcome": (f"≤ {limit_text(t.prevalence)} if it counts once", ()),
        "mdrr": (f"< {limit_text(t.detectable)}", (t.detectable,)),
        "ease": (f"< {limit_text(t.ease)}", (t.ease,)),
    }


def _verdict(
    line: dict[str, Any],
    check: str,
    value: str,
    limits: dict[str, tuple[str, tuple[float, ...]]],
) -> str:
    """Return a value or an interval with its verdict as HTML."""
    bounds = limits[check][1]
    verdict = line[f"{check}_diagnostic"]
    verdict = verdict if isinstance(verdict, str) else "NOT EVALUATED"
    if not value:
        return html.verdict(math.nan, verdict)
    if value in line:
        limit = bounds[0] if bounds else None
        relation: Relation = "above" if check == "time_stability" else "below"
        digits = 3 if value.endswith("_p") else 2
        return html.verdict(line[value], verdict, digits, relation, limit)
    ends = (float(line[f"{value}_{end}"]) for end in ("lb", "ub"))
    low, high = (deciding(x, *bounds) if math.isfinite(x) else "–" for x in ends)
    if verdict == "NOT EVALUATED":
        return '<span class="faint">–</span>'
    return f'<span class="{verdict}">{low} to {high} <small>{verdict.lower()}</small></span>'


def _attrition(results: CaseSeriesGridResults, analysis: int, number: int) -> str:
    """Tabulate the attrition of one analysis of a question."""
    table = results.tables["sccs_attrition"]
    own = table[
        (table["analysis_id"] == analysis) & (table["exposures_outcome_set_id"] == number)
    ].sort_values("sequence_number")
    lines = [
        (
            title_case(str(line["description"])),
            *(
                html.counted(line[c])
                for c in (
                    "outcome_subjects",
                    "outcome_events",
                    "outcome_observation_periods",
                    "observed_days",
                )
            ),
        )
        for line in own.to_dict("records")
    ]
    head = ("Rule", "People", "Outcomes", "Periods", "Days")
    return html.table(head, lines, text=(0,)) if lines else ""


def _sampling(results: CaseSeriesGridResults, analysis: int, number: int) -> str:
    """Return the cost of leaving out unexposed cases; "" if all were used."""
    notes = results.tables["note"]
    own = notes[(notes["analysis_id"] == analysis) & (notes["exposures_outcome_set_id"] == number)]
    return "".join(f"<p>{escape(s)}</p>" for s in own["sampling"] if isinstance(s, str))


def series_controls(results: CaseSeriesGridResults, exposure: int) -> dict[int, ControlEstimates]:
    """Return the estimates of an exposure's controls, by analysis; empty if it has none."""
    t = results.tables
    truth = t["sccs_exposure"].dropna(subset=["true_effect_size"])
    truth = truth[truth["era_id"] == exposure].merge(
        t["sccs_exposures_outcome_set"], on="exposures_outcome_set_id"
    )
    made = t["positive_control"][
        ["exposures_outcome_set_id", "negative_control_id", "target_ratio"]
    ]
    truth = truth.merge(made, on="exposures_outcome_set_id", how="left")
    found = t["sccs_result"].merge(
        truth.drop(columns="era_id"), on="exposures_outcome_set_id", suffixes=("", "_truth")
    )
    found = found.sort_values(["analysis_id", "exposures_outcome_set_id"])
    return {int(a): ControlEstimates.of(own) for a, own in found.groupby("analysis_id")}


def _data_notes(results: CaseSeriesGridResults, exposure: int) -> str:
    """Return notes on the data of the questions of an exposure."""
    numbers = [q.number for q in results.grid.questions if q.exposure == exposure]
    table = results.tables["data_note"]
    own = table[table["exposures_outcome_set_id"].isin(numbers)]
    return html.findings(
        ("WARN" if warning else "NOT EVALUATED", note) for note, warning in table_sentences(own)
    )


def _controls(results: CaseSeriesGridResults, exposure: int, labels: dict[int, str]) -> list[str]:
    """Return the performance of the analyses on an exposure's controls."""
    found = series_controls(results, exposure)
    if not found:
        return []
    tables = []
    for analysis, estimates in found.items():
        table = before_and_after(estimates)
        table.insert(0, "analysis_id", analysis)
        tables.append(table)
    parts = performance_html(pd.concat(tables), found, labels, str(exposure))
    return ["<h3>Controls</h3>", *parts]


def _settings(results: CaseSeriesGridResults) -> str:
    """Tabulate the analyses with their settings."""
    lines = [
        (str(a.id), a.description, ", ".join(f"{k} {_shown(v)}" for k, v in a.settings.items()))
        for a in results.grid.analyses
    ]
    return "<h2>Settings</h2>" + html.table(
        ("Number", "Analysis", "Settings"), lines, text=(0, 1, 2)
    )


def _shown(value: Any) -> Any:
    """Format a setting."""
    if isinstance(value, Spline):
        return f"spline, knots {value.knots}" + (", penalized" if value.penalized else "")
    return value
