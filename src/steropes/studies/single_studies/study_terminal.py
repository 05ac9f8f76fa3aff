"""Terminal output of a study: progress while it runs (stderr), then a summary (stdout)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steropes.data.number_formatting import deciding_p, effect
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.formatting.released_numbers import (
    analysis_name,
    count,
    decimals,
    percent,
    ratio_text,
    shown_value,
    title_case,
)
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.missing_estimates import missing_of_study, missing_sentences
from steropes.studies.report.study_checks import checks
from steropes.studies.report.terminal_tables import print_files, simple_table

if TYPE_CHECKING:
    from rich.table import Table

    from steropes.studies.single_studies.comparative_study import ComparativeStudy

__all__ = ["print_study"]

MARKS = {"PASS": "[green]✓[/]", "WARN": "[yellow]![/]", "NOT EVALUATED": "[dim]·[/]"}


def print_study(study: ComparativeStudy, paths: list[Path]) -> None:
    """Print the tables a reader wants first, and where the files are."""
    from rich.console import Console
    from rich.markup import escape

    console, public = Console(highlight=False), study.release
    target, comparator, outcome = (escape(title_case(name)) for name in public.names.values())
    console.print(f"\n[bold]{target} compared with {comparator}: {outcome}[/]")
    if study.source:
        console.print(f"[dim]{escape(study.source)}[/]")
    console.print()
    console.print(_attrition(public, target, comparator))
    for note in public.data_notes:
        if not note["warning"]:  # warnings are among the checks below
            console.print(f"[dim]·[/] {escape(note['note'])}")
    console.print(_rates(public, target, comparator))
    console.print(_hazards(public))
    if public.risks:
        console.print(_risks(public, target, comparator))
    if public.outcomes:
        console.print(_outcomes(public))
    model, covariates = public.model, public.covariates
    if model is not None and covariates is not None:
        console.print(
            f"Propensity model: AUC {decimals(model['auc'], 3)}, {model['nonzero']} of "
            f"{covariates['columns']} covariates (prior variance {model['variance']:.3g})"
        )
    if public.largest["after"] is not None:
        limit = public.settings.thresholds.balance
        largest = [shown_value(public.largest[when], limit) for when in ("before", "after")]
        console.print(
            f"Largest standardised difference: {largest[0]} before matching, {largest[1]} after"
        )
    of_study = {analysis_name(line["analysis"]) for line in public.hazard_ratios}
    others = [m for m in missing_of_study(public) if m[0] not in of_study]  # Checks name these.
    for sentence in missing_sentences(others):
        console.print(f"{MARKS['WARN']} {escape(sentence)}", soft_wrap=True)
    for check in checks(public):
        mark = MARKS[check.mark]
        console.print(f"{mark} {escape(check.finding)}")
    print_files(console, public.rules, paths, public.protocol)


def _attrition(public: Published, target: str, comparator: str) -> Table:
    """Create the table of people who remain after each rule."""
    table = simple_table("People left by each rule", ("Rule", target, comparator))
    for line in public.attrition:
        table.add_row(title_case(line["rule"]), count(line["target"]), count(line["comparator"]))
    return table


def _rates(public: Published, target: str, comparator: str) -> Table:
    """Create the table of people, events and rates by arm."""
    table = simple_table("Outcome", ("Arm", "People", "Person-years", "Events", "Per 1,000 years"))
    arms = {"target": target, "comparator": comparator}
    for line in public.rates:
        table.add_row(
            f"{arms[line['arm']]}, {line['analysis']}",
            count(line["people"]),
            count(line["person_years"]),
            count(line["events"]),
            decimals(line["rate"]),
        )
    return table


def _hazards(public: Published) -> Table:
    """Create the table of hazard ratios."""
    table = simple_table("Hazard ratio", ("Among", "Events", "Hazard ratio", "95% interval", "p"))
    for line in public.hazard_ratios:
        missing = bool(line["note"])
        table.add_row(
            title_case(analysis_name(line["analysis"])),
            count(line["events"]),
            _missing(line["note"]) if missing else ratio_text(line),
            "–" if missing else f"{decimals(line['lower'])} to {decimals(line['upper'])}",
            deciding_p(line["p"]),
            style="bold" if line["analysis"] == "matched, stratified" else "",
        )
    return table


def _risks(public: Published, target: str, comparator: str) -> Table:
    """Create the table of risks by day."""
    heads = ("By day", target, comparator, "Difference in % (95%)", "Risk ratio (95%)")
    table = simple_table("Risk if everybody had started the drug", heads)
    for line in public.risks:
        difference = [100 * line[f"risk_difference{e}"] for e in ("", "_lb", "_ub")]
        risks = (percent(line[f"{arm}_risk"]) for arm in ("target", "comparator"))
        ratio = effect(line["risk_ratio"], line["lower"], line["upper"])
        shown = effect(*difference) or _missing(str(line["note"]))
        table.add_row(f"{line['day']:,}", *risks, shown, ratio or "–")
    return table


def _outcomes(public: Published) -> Table:
    """Create the table of all outcomes and negative controls."""
    from rich.markup import escape

    heads = ("Outcome", "Events", "Hazard ratio (95%)", "Calibrated (95%)")
    table = simple_table("All outcomes", heads)
    for line in public.outcomes:
        events = " + ".join(count(line[f"{arm}_outcomes"]) for arm in ("target", "comparator"))
        ends = (line[f"calibrated_{name}"] for name in ("hr", "lower", "upper"))
        ratio = _missing(line["note"])
        if not line["note"]:
            ratio = effect(line["hr"], line["lower"], line["upper"]) or "none"
        control = " (control)" if line["role"] == "negative control" else ""
        name = title_case(str(line["outcome"])) + control
        table.add_row(escape(name), events, ratio, effect(*ends) or "–")
    return table


def _missing(note: str) -> str:
    """Return why an estimate is missing, in two words."""
    known = {NOT_SHOWN: "not shown", WITHHELD: "not released"}
    return known.get(note, "no estimate")
