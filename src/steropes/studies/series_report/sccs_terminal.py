"""Terminal output of a case series, and of a grid of several questions and analyses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.data.number_formatting import deciding_p
from steropes.studies.database.data_quality_notes import table_sentences
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN, is_not_shown
from steropes.studies.execution.common_run_of_designs import ARCHIVE
from steropes.studies.formatting.released_numbers import count, title_case
from steropes.studies.release.series_result_blinding import blinding_text, public_estimates
from steropes.studies.report.missing_estimates import missing_sentences
from steropes.studies.report.terminal_tables import (
    analysis_names,
    print_files,
    print_grid_files,
    simple_table,
    table_of,
    wide_console,
)
from steropes.studies.sccs.results.sccs_diagnostics import findings_of
from steropes.studies.series_report.estimate_text import (
    interval_text,
    missing_estimates,
    ratio_and_interval,
    shown_estimates,
    unconverged_mark,
)
from steropes.studies.series_report.sccs_grid_page import member_name, question_names

if TYPE_CHECKING:
    import pandas as pd

    from steropes.studies.grids.sccs_grid import CaseSeriesGridResults
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["print_grid", "print_series"]


def print_series(study: ReleasedSeries, paths: list[Path]) -> None:
    """Print attrition, rate ratios and diagnostics, and the paths of the files."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(f"\n[bold]Case series of {escape(study.outcome)}[/]")
    if study.source:
        console.print(f"[dim]{escape(study.source)}[/]")
    console.print()
    table = simple_table("Cases after each rule", ("Rule", "People", "Outcomes", "Days"))
    for _, line in study.release.attrition.iterrows():
        cells = (count(line["subjects"]), count(line["events"]))
        days = "–" if line["days"] is None else count(line["days"])
        table.add_row(title_case(line["rule"]), *cells, days)
    console.print(table)
    interval = f"{100 * study.settings.level:g}% interval"
    table = simple_table("Rate ratios", ("Window", "Rate ratio", interval, "p"))
    public = public_estimates(study)
    for name in shown_estimates(study):
        line = public.loc[name]
        rr, interval = ratio_and_interval(line)
        rr += unconverged_mark(study) if math.isfinite(line["rr"]) else ""
        table.add_row(escape(title_case(name)), rr, interval, deciding_p(line["p"]))
    console.print(table)
    shown = [n for n in shown_estimates(study) if not is_not_shown(public.loc[n, "note"])]
    for sentence in missing_sentences(missing_estimates(study, shown)):
        console.print(f"[yellow]![/] {escape(sentence)}", soft_wrap=True)
    if words := interval_text(study):
        console.print(escape(words))
    for note in study.data_notes:
        mark = "[yellow]![/]" if note.warning else "[dim]·[/]"
        console.print(f"{mark} {escape(note.sentence(study.rules))}")
    if study.sampling is not None:
        console.print(escape(study.sampling.sentence()))
    if study.model.variance is not None:
        console.print(f"Prior variance {study.model.variance:.3g}")
    for verdict, finding in findings_of(study.release.diagnostics):
        mark = {"PASS": "[green]✓[/]", "FAIL": "[yellow]![/]"}.get(verdict, "[dim]·[/]")
        console.print(f"{mark} {escape(finding)}")
    if len(study.diagnostics) > 1:
        passed = sum(d.unblind for d in study.release.diagnostics)
        console.print(f"{passed} of {len(study.diagnostics)} exposures pass all diagnostics")
    if words := blinding_text(study):
        console.print(f"[yellow]![/] {escape(words)}")
    print_files(console, study.rules, paths, study.protocol)


def print_grid(results: CaseSeriesGridResults, unblind: bool, page: Path) -> None:
    """Print the estimates of the questions of interest, and the paths of the files."""
    from rich.markup import escape

    console = wide_console()
    console.print(escape(repr(results)))
    heads = ("Exposure", "Outcome", "Analysis", "Rate ratio", "95% interval")
    analyses = analysis_names(results.tables["sccs_analysis"])
    names = question_names(results)
    rows = [_grid_row(line, analyses, names) for _, line in results.estimates(unblind).iterrows()]
    console.print(table_of("Rate ratios", heads, rows, texts=3))
    for sentence, _ in table_sentences(results.tables["data_note"]):
        console.print(escape(sentence), soft_wrap=True)
    print_grid_files(console, results, (page, page.parent / ARCHIVE))


def _grid_row(
    line: pd.Series, analyses: dict[int, str], names: dict[int, str]
) -> tuple[object, ...]:
    """Return the row of an estimate of a grid."""
    rr, interval = ratio_and_interval(line.rename({"ci_95_lb": "lower", "ci_95_ub": "upper"}))
    if math.isnan(line["rr"]):
        rr = line["note"] or ("none" if line["unblind"] else NOT_SHOWN)
    if math.isfinite(line["rr"]) and isinstance(line["unconverged"], str):
        rr += " (did not converge)"
    drug = member_name(line)
    exposure = names.get(line["era_id"], line["era_id"])
    outcome = names.get(-line["outcome_id"], line["outcome_id"])
    return (
        f"{exposure} ({drug})" if drug else exposure,
        outcome,
        analyses[line["analysis_id"]],
        rr,
        interval,
    )
