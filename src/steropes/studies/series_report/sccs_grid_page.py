"""Report of a grid of case series as an HTML page, from the tables for release.

A result that fails a diagnostic is not shown unless requested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from steropes.data.number_formatting import counted, deciding, deciding_p, effect
from steropes.designs.controls.performance_metrics import ControlEstimates, before_and_after
from steropes.studies.diagnostics.diagnostic import Diagnostic
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.report.control_performance_figures import Performance, performance
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.page_parts import (
    MOST_OPEN,
    Cell,
    Entry,
    Finding,
    KeyNumber,
    Rows,
    note_findings,
    result_numbers,
    verdict_cell,
)
from steropes.studies.report.svg_canvas import Picture
from steropes.studies.report.template_rendering import render
from steropes.studies.sccs.specification.case_series_settings import Spline
from steropes.studies.sccs.specification.sccs_presets import EXPOSURE

if TYPE_CHECKING:
    from steropes.studies.grids.sccs_grid import CaseSeriesGridResults

__all__ = [
    "case_series_grid_page",
    "member_name",
    "question_names",
    "series_controls",
    "write_case_series_grid",
]

NO_BREAK = "\N{NO-BREAK SPACE}"
KEY = ["analysis_id", "exposures_outcome_set_id"]


def write_case_series_grid(
    results: CaseSeriesGridResults, folder: str | Path, *, unblind: bool = False
) -> Path:
    """Write ``report.html`` to the folder ``release`` and return its path.

    Parameters
    ----------
    unblind : bool, default False
        Also show estimates that fail a diagnostic.
    """
    page = case_series_grid_page(results, unblind=unblind)
    return write_release(folder, {"report.html": page}, results.rules, add=True)[0]


@dataclass(frozen=True)
class SeriesDetails:
    """Attrition of one analysis of an outcome, and the cost of sampling its cases."""

    label: str
    attrition: Rows
    sampling: list[str]


@dataclass(frozen=True)
class OutcomeSection:
    """The picture and rows of the tables of one outcome of an exposure."""

    anchor: str
    name: str
    forest: Picture | None
    estimates: Rows
    diagnostics: Rows
    analyses: list[SeriesDetails]


@dataclass(frozen=True)
class ExposureSection:
    """Everything on the page about one exposure."""

    anchor: str
    name: str
    outcomes: list[OutcomeSection]
    controls: Performance | None
    data_notes: list[Finding]


def case_series_grid_page(results: CaseSeriesGridResults, *, unblind: bool = False) -> str:
    """Return the page as self-contained HTML."""
    names = question_names(results)
    exposures = list(dict.fromkeys(q.exposure for q in results.grid.questions))
    sections = [_exposure(results, e, names, unblind) for e in exposures]
    entries: list[Entry] = [
        (e.anchor, e.name, [(o.anchor, o.name, []) for o in e.outcomes]) for e in sections
    ]
    return render(
        "case_series_grid.html.jinja",
        title="Case series of " + ", ".join(names.get(e, str(e)) for e in exposures),
        database=results.grid.database_id,
        top_numbers=_key_numbers(results),
        unblind=unblind,
        diagnostic_names=[
            d.heading for d in declared_diagnostics(results.grid.thresholds, "case series")
        ],
        exposures=sections,
        entries=[*entries, ("settings", "Settings", [])],
        most_open=MOST_OPEN,
        open_outcomes=sum(len(e.outcomes) for e in sections) <= MOST_OPEN,
        has_controls=any(q.true_ratio is not None for q in results.grid.questions),
        settings=_settings(results),
        protocol=results.protocol.sentences() if results.protocol else [],
        disclosure=results.rules.sentence(),
    )


def _exposure(
    results: CaseSeriesGridResults, exposure: int, names: dict[int, str], unblind: bool
) -> ExposureSection:
    """Describe one exposure with its outcomes and controls."""
    shown = results.estimates(unblind)
    of = shown[shown["era_id"] == exposure]
    labels = {a.id: a.description for a in results.grid.analyses}
    outcomes = [
        _outcome(
            results,
            of[of["outcome_id"] == outcome],
            names.get(-outcome, f"outcome {outcome}"),
            labels,
            unblind,
        )
        for outcome in dict.fromkeys(of["outcome_id"])
    ]
    return ExposureSection(
        f"e{exposure}",
        names.get(exposure, f"exposure {exposure}"),
        outcomes,
        _controls(results, exposure, labels),
        _data_notes(results, exposure),
    )


def member_name(line: pd.Series) -> str:
    """Return the drug of a class that a row of ``estimates`` refers to; "" for the class."""
    name = line["covariate_name"]
    return name.partition(f"{EXPOSURE}: ")[2] if isinstance(name, str) else ""


def question_names(results: CaseSeriesGridResults) -> dict[int, str]:
    """Return names of exposures by id, and of outcomes by minus their id."""
    table = results.tables["question_name"]
    exposures = table[["era_id", "exposure_name"]].itertuples(index=False)
    outcomes = table[["outcome_id", "outcome_name"]].itertuples(index=False)
    named = {int(e): title_case(str(n)) for e, n in exposures}
    return named | {-int(o): title_case(str(n)) for o, n in outcomes}


def _key_numbers(results: CaseSeriesGridResults) -> list[KeyNumber]:
    """Return the numbers at the top of the page."""
    questions = results.tables["sccs_exposures_outcome_set"]
    exposures = len({q.exposure for q in results.grid.questions})
    return [
        (f"{exposures:,}", "exposure" if exposures == 1 else "exposures"),
        (f"{len(results.grid.analyses):,}", "analyses"),
        (f"{len(questions):,}", "questions, with controls"),
        *result_numbers(results),
    ]


def _outcome(
    results: CaseSeriesGridResults,
    of: pd.DataFrame,
    title: str,
    labels: dict[int, str],
    unblind: bool,
) -> OutcomeSection:
    """Describe an outcome of an exposure by all analyses."""
    rows, lines = [], []
    for line in of.to_dict("records"):
        label = _label(line, labels)
        why = NOT_SHOWN if not line["unblind"] and not unblind else "none"
        why = line["note"] if isinstance(line["note"], str) and line["note"] else why
        plain, after = _ends(line, ""), _ends(line, "calibrated_")
        rows.append(Row(label, *plain, second=after, note=why))
        ratio, calibrated = (effect(*e).replace(" ", NO_BREAK) for e in (plain, after))
        if ratio and isinstance(line["unconverged"], str):
            ratio += " (did not converge)"
        effects = (ratio or why, deciding_p(line["p"]), calibrated)
        counts = (
            counted(line[c]) for c in ("outcome_subjects", "outcome_events", "covariate_subjects")
        )
        blind = not line["unblind"] and not unblind
        inside = "–" if blind else counted(line["covariate_outcomes"])
        lines.append((label, *effects, *counts, inside))
    question = int(of["exposures_outcome_set_id"].iloc[0])
    return OutcomeSection(
        f"q{question}",
        title,
        forest(f"forest-{question}", rows, "rate ratio"),
        lines,
        _diagnostics(results, of, labels),
        [
            SeriesDetails(
                labels[a], _attrition(results, a, question), _sampling(results, a, question)
            )
            for a in dict.fromkeys(of["analysis_id"])
        ],
    )


def _label(line: dict[str, Any], labels: dict[int, str]) -> str:
    """Name an analysis, with the drug if each drug of a class is a separate covariate."""
    return ", ".join(s for s in (labels[line["analysis_id"]], member_name(line)) if s)


def _ends(line: dict[str, Any], prefix: str) -> tuple[float, float, float]:
    """Return an estimate with its limits."""
    rr, low, high = (float(line[prefix + e]) for e in ("rr", "ci_95_lb", "ci_95_ub"))
    return rr, low, high


def _diagnostics(results: CaseSeriesGridResults, of: pd.DataFrame, labels: dict[int, str]) -> Rows:
    """Return the diagnostics of all analyses with their thresholds."""
    checks = of[[*KEY, "covariate_id", "covariate_name"]].merge(
        results.tables["sccs_diagnostics_summary"], on=[*KEY, "covariate_id"]
    )
    ended = results.tables["note"][[*KEY, "convergence_diagnostic"]]
    checks = checks.merge(ended, on=KEY, how="left")
    thresholds = results.grid.thresholds
    further = results.tables["sccs_further_diagnostic"]
    own = {
        tuple(line[c] for c in (*KEY, "covariate_id", "diagnostic")): line
        for line in further.to_dict("records")
    }
    every = declared_diagnostics(thresholds, "case series")
    lines: list[tuple[str | Cell, ...]] = [("To pass", *(d.sign(thresholds) for d in every))]
    lines += [
        (_label(line, labels), *(_verdict(line, d, d.limits(thresholds), own) for d in every))
        for line in checks.to_dict("records")
    ]
    return lines


def _verdict(
    line: dict[str, Any],
    diagnostic: Diagnostic,
    limits: tuple[float, ...],
    further: dict[tuple[Any, ...], dict[str, Any]],
) -> Cell:
    """Format a value or an interval with its verdict."""
    if diagnostic.measure is not None:
        key = (*(line[c] for c in (*KEY, "covariate_id")), diagnostic.key)
        found = further.get(key, {"value": math.nan, "verdict": "NOT EVALUATED"})
        assert diagnostic.relation is not None
        return verdict_cell(
            float(found["value"]), found["verdict"], 2, diagnostic.relation, limits[0]
        )
    verdict = line[diagnostic.verdict_column]
    verdict = verdict if isinstance(verdict, str) else "NOT EVALUATED"
    if diagnostic.ends is None:
        value = float(line[diagnostic.column]) if diagnostic.column else math.nan
        # The prevalence of an outcome that may recur passes, however large it is.
        limit = limits[0] if limits and not diagnostic.condition else None
        digits = 3 if diagnostic.value == "p" else 2
        return verdict_cell(value, verdict, digits, diagnostic.relation or "below", limit)
    if verdict == "NOT EVALUATED":
        return Cell("–", "faint")
    ends = (float(line[name]) for name in diagnostic.ends)
    low, high = (deciding(x, *limits) if math.isfinite(x) else "–" for x in ends)
    return Cell(f"{low} to {high}", verdict, verdict.lower())


def _attrition(results: CaseSeriesGridResults, analysis: int, question: int) -> Rows:
    """Return the attrition of one analysis of a question."""
    rules = results.tables["sccs_attrition"]
    own = rules[
        (rules["analysis_id"] == analysis) & (rules["exposures_outcome_set_id"] == question)
    ].sort_values("sequence_number")
    return [
        (
            title_case(str(line["description"])),
            *(
                counted(line[c])
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


def _sampling(results: CaseSeriesGridResults, analysis: int, question: int) -> list[str]:
    """Return the cost of leaving out unexposed cases; empty if all were used."""
    notes = results.tables["note"]
    of = notes["exposures_outcome_set_id"] == question
    own = notes[of & (notes["analysis_id"] == analysis)]
    return [s for s in own["sampling"] if isinstance(s, str)]


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


def _data_notes(results: CaseSeriesGridResults, exposure: int) -> list[Finding]:
    """Return notes on the data of the questions of an exposure."""
    numbers = [q.number for q in results.grid.questions if q.exposure == exposure]
    notes = results.tables["data_note"]
    return note_findings(notes[notes["exposures_outcome_set_id"].isin(numbers)])


def _controls(
    results: CaseSeriesGridResults, exposure: int, labels: dict[int, str]
) -> Performance | None:
    """Return the performance of the analyses on an exposure's controls; None without controls."""
    found = series_controls(results, exposure)
    if not found:
        return None
    metrics = [before_and_after(of).assign(analysis_id=a) for a, of in found.items()]
    return performance(pd.concat(metrics), found, labels, str(exposure))


def _settings(results: CaseSeriesGridResults) -> Rows:
    """Return the analyses with their settings."""
    return [
        (str(a.id), a.description, ", ".join(f"{k} {_shown(v)}" for k, v in a.settings.items()))
        for a in results.grid.analyses
    ]


def _shown(value: object) -> object:
    """Format a setting."""
    if isinstance(value, Spline):
        return f"spline, knots {value.knots}" + (", penalized" if value.penalized else "")
    return value
