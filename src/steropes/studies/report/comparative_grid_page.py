"""The page of a grid of comparative studies, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steropes.data.number_formatting import limit_text
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import TEST_OF_HAZARDS, database_versions
from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.grids.comparative_grid_run import GridResults
from steropes.studies.report.adjustment_section import Adjustment, adjustments
from steropes.studies.report.characteristics_section import characteristics_table
from steropes.studies.report.controls_section import Controls, controls
from steropes.studies.report.grid_page_data import Comparison, View
from steropes.studies.report.outcome_section import OutcomeSection, outcome_section
from steropes.studies.report.page_parts import (
    MOST_OPEN,
    Entry,
    Finding,
    KeyNumber,
    note_findings,
    result_numbers,
)
from steropes.studies.report.subgroups_section import subgroup_table
from steropes.studies.report.template_rendering import render
from steropes.studies.report.unusable_covariate_records import unusable_words

__all__ = ["grid_page", "write_grid_report"]


@dataclass(frozen=True)
class ComparisonSection:
    """Everything on the page about one comparison."""

    id: int
    anchor: str
    title: str
    data_notes: list[Finding]
    outcomes: list[OutcomeSection]
    unusable_values: list[Finding]
    adjustments: list[Adjustment]
    controls: Controls | None


def write_grid_report(results: GridResults, folder: str | Path, *, unblind: bool = False) -> Path:
    """Write ``report.html``, its figures (SVG) and tables (CSV), and return the path of the page.

    The files are in the folder ``release`` of the given folder.

    Parameters
    ----------
    unblind : bool, default False
        Also show estimates that fail a diagnostic.

    Raises
    ------
    DataError
        The folder cannot be written to.
    """
    view = View(results, unblind)
    text = grid_page(view)
    files = {f"figures/{name}.svg": picture.file() for name, picture in view.pictures.items()}
    estimates = results.estimates(unblind)
    files["tables/estimates.csv"] = csv_text(estimates)
    if len(view.results.tables["subgroup"]):
        subgroups = subgroup_table(view)
        files["tables/subgroups.csv"] = csv_text(subgroups)
    for comparison in view.comparisons():
        table = characteristics_table(view, comparison)
        name = f"tables/characteristics-{comparison.id}.csv"
        files[name] = csv_text(table)
    return write_release(folder, {**files, "report.html": text}, results.rules, add=True)[-1]


def grid_page(view: View) -> str:
    """Return the page as self-contained HTML; its pictures are then in ``view.pictures``."""
    thresholds = view.results.spec.thresholds
    least = thresholds.outcomes
    declared = declared_diagnostics(thresholds, "comparative")
    sections = [_comparison(view, comparison) for comparison in view.comparisons()]
    return render(
        "grid.html.jinja",
        title="; ".join(section.title for section in sections),
        lead=_source(view),
        top_numbers=_key_numbers(view, len(sections)),
        unblind=view.unblind,
        data_notes=_data_notes(view, None),
        comparisons=sections,
        entries=_contents(sections),
        most_open=MOST_OPEN,
        open_outcomes=sum(len(section.outcomes) for section in sections) <= MOST_OPEN,
        diagnostic_names=[d.chosen(thresholds).heading for d in declared],
        least_outcomes="" if least is None else limit_text(least),
        stabilized=any(a.stabilizes for a in view.analyses),
        test_of_hazards=TEST_OF_HAZARDS,
        analyses=[(a.id, a.description or "–") for a in view.analyses],
        specification=view.results.spec.to_json(),
        protocol=view.results.protocol.sentences() if view.results.protocol else [],
        disclosure=view.results.rules.sentence(),
    )


def _comparison(view: View, comparison: Comparison) -> ComparisonSection:
    """Describe one comparison."""
    unusable = unusable_words(view.results.tables, comparison.id)
    return ComparisonSection(
        id=comparison.id,
        anchor=comparison.anchor,
        title=comparison.title,
        data_notes=_data_notes(view, comparison.id),
        outcomes=[outcome_section(view, comparison, o) for o in view.outcomes(comparison)],
        unusable_values=[("WARN", f"{words}.") for words in unusable],
        adjustments=adjustments(view, comparison),
        controls=controls(view, comparison),
    )


def _contents(sections: list[ComparisonSection]) -> list[Entry]:
    """Return the entries of the table of contents."""
    found: list[Entry] = []
    for section in sections:
        inner: list[Entry] = [(o.anchor, o.name, []) for o in section.outcomes]
        if section.unusable_values or section.adjustments:
            inner.append((f"{section.anchor}-adjustment", "Adjustment", []))
        if section.controls:
            inner.append((f"{section.anchor}-controls", "Control outcomes", []))
        found.append((section.anchor, section.title, inner))
    return [*found, ("settings", "Settings", [])]


def _source(view: View) -> str:
    """Describe the database with its versions and dates."""
    about = view.results.tables["database"].iloc[0]
    named = [about["name"]] if isinstance(about["name"], str) else []
    source = ", ".join([*named, *database_versions(about)])
    return f"{about['database_id']}{': ' if source else ''}{source}"


def _key_numbers(view: View, comparisons: int) -> list[KeyNumber]:
    """Return the numbers at the top of the page."""
    outcomes = view.results.tables["cm_result"]["outcome_id"].nunique()
    return [
        (f"{comparisons:,}", "comparisons" if comparisons > 1 else "comparison"),
        (f"{len(view.analyses):,}", "analyses"),
        (f"{outcomes:,}", "outcomes, with controls"),
        *result_numbers(view.results),
    ]


def _data_notes(view: View, comparison: int | None) -> list[Finding]:
    """Return notes on the data of a comparison, or (with None) on the cohorts of all."""
    table = view.results.tables["data_note"]
    of = table["target_comparator_id"]
    return note_findings(table[of.isna() if comparison is None else of == comparison])
