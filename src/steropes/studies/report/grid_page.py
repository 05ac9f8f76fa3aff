"""The order of the page, and its files."""

from __future__ import annotations

from html import escape
from pathlib import Path

from steropes.studies.database.data_notes import table_sentences
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.execution.runner import GridResults
from steropes.studies.report.adjustment_section import adjustment_section
from steropes.studies.report.characteristics_section import characteristics_table
from steropes.studies.report.controls_section import controls_section
from steropes.studies.report.html import cards, document, findings, fold
from steropes.studies.report.outcome_section import outcome_section
from steropes.studies.report.plain_text import csv_text
from steropes.studies.report.report_view import Comparison, View
from steropes.studies.report.subgroups_section import subgroup_table

__all__ = ["grid_page", "write_grid_report"]


def write_grid_report(results: GridResults, folder: str | Path, *, unblind: bool = False) -> Path:
    """Write ``report.html``, its figures (SVG) and its tables (CSV); returns the page's path.

    They go into the folder ``release`` of a folder.

    Parameters
    ----------
    results : GridResults
    folder : str or Path
    unblind : bool, default False
        Show estimates that fail a diagnostic too.

    Raises
    ------
    DataError
        The folder cannot be written to.
    """
    view = View(results, unblind)
    text = _page(view)
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


def grid_page(results: GridResults, *, unblind: bool = False) -> str:
    """The page as HTML, with everything in it."""
    return _page(View(results, unblind))


def _page(view: View) -> str:
    comparisons = view.comparisons()
    body = [_head(view, comparisons)]
    for comparison in comparisons:
        body.append(f'<h2 id="c{comparison.id}">{escape(comparison.title)}</h2>')
        body.append(_data_notes(view, comparison.id))
        for outcome in view.outcomes(comparison):
            body += outcome_section(view, comparison, outcome)
        body += adjustment_section(view, comparison)
        body += controls_section(view, comparison)
    body.append(_settings(view))
    return document("; ".join(c.title for c in comparisons), body)


def _head(view: View, comparisons: list[Comparison]) -> str:
    t = view.results.tables
    about = t["database"].iloc[0]
    parts = {"name": "", "cdm": "CDM ", "vocabulary": "vocabulary ", "release": "released "}
    parts["source_release"] = "source data of "
    source = ", ".join(
        f"{before}{about[c]}" for c, before in parts.items() if isinstance(about[c], str)
    )
    found, checks = t["cm_result"], t["cm_diagnostics_summary"]
    shown = cards(
        (
            (f"{len(comparisons):,}", "comparisons" if len(comparisons) > 1 else "comparison"),
            (f"{len(view.analyses):,}", "analyses"),
            (f"{found['outcome_id'].nunique():,}", "outcomes, with controls"),
            (f"{found['log_rr'].notna().sum():,} of {len(found):,}", "results have an estimate"),
            (f"{int(checks['unblind'].sum()):,}", "pass all diagnostics"),
        )
    )
    links = "".join(f'<li><a href="#c{c.id}">{escape(c.title)}</a></li>' for c in comparisons)
    nav = f"<nav><ul>{links}</ul></nav>" if len(comparisons) > 1 else ""
    open_ = (
        "<p>Estimates that fail a diagnostic are shown too, because that was asked for.</p>"
        if view.unblind
        else "<p>An estimate that fails a diagnostic is not shown, nor are the outcomes of its "
        "arms; <code>--unblind</code> (in Python, <code>unblind=True</code>) shows them.</p>"
    )
    lead = f"{about['database_id']}{': ' if source else ''}{source}"
    return (
        f'<h1>Comparative cohort studies</h1><p class="lead">{escape(lead)}</p>{shown}{nav}{open_}'
        f"{_data_notes(view, None)}"
    )


def _data_notes(view: View, comparison: int | None) -> str:
    """Notes on the data of a comparison, or (with None) of the cohorts of all."""
    table = view.results.tables["data_note"]
    of = table["target_comparator_id"]
    own = table[of.isna() if comparison is None else of == comparison]
    return findings(
        ("WARN" if warning else "NOT EVALUATED", note) for note, warning in table_sentences(own)
    )


def _settings(view: View) -> str:
    listed = "".join(
        f"<dt>{a.id}</dt><dd>{escape(a.description or '–')}</dd>" for a in view.analyses
    )
    text = escape(view.results.spec.to_json())
    return (
        f"<h2>Settings</h2><dl>{listed}</dl>"
        + fold("The whole specification", f"<pre>{text}</pre>")
        + f"<p>{escape(view.results.rules.sentence())}</p>"
        + "<p>All tables, in the layout of CohortMethod 6, are in results.zip beside this page; "
        "its pictures are in the folder figures.</p>"
    )
