"""The page that says how the analyses of a grid fare on controls; of the result tables alone."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from steropes.studies.controls.control_figures import performance_definitions, performance_html
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.report import html
from steropes.studies.report.formatting import title_case
from steropes.studies.results.control_results import analysis_performance, control_estimates

if TYPE_CHECKING:
    from steropes.studies.execution.runner import GridResults

__all__ = ["controls_page", "write_controls_report"]


def write_controls_report(results: GridResults, folder: str | Path) -> Path:
    """Write ``controls.html`` into the folder ``release`` of a folder; returns its path."""
    files = {"controls.html": controls_page(results)}
    return write_release(folder, files, results.rules, add=True)[0]


def controls_page(results: GridResults) -> str:
    """The page as HTML, with everything in it.

    Raises
    ------
    DataError
        The results have no controls.
    """
    t = results.tables
    names = dict(zip(t["cohort"]["cohort_id"], t["cohort"]["name"], strict=True))
    table = analysis_performance(results)
    body = [
        "<h1>Analyses judged on controls</h1>",
        '<p class="lead">Outcomes whose effect is known: none, or a ratio that was made by adding '
        "outcomes to people of the target. An analysis is better the nearer its estimates are to "
        "what is known.</p>",
        _cards(results),
    ]
    for c in t["cm_target_comparator"].to_dict("records"):
        tc = int(c["target_comparator_id"])
        target, comparator = (
            title_case(str(names.get(c[k], c[k]))) for k in ("target_id", "comparator_id")
        )
        body.append(f"<h2>{escape(f'{target} against {comparator}')}</h2>")
        body += _comparison(results, tc, table[table["target_comparator_id"] == tc])
    body.append(
        performance_definitions(
            "The ratio of a positive control is that of the hazard among people who are still at "
            "risk: of the cause-specific hazard, where there are competing outcomes."
        )
    )
    body.append(f"<p>{escape(results.rules.sentence())}</p>")
    return html.document("Analyses judged on controls", body)


def _cards(results: GridResults) -> str:
    t = results.tables
    truth = t["cm_target_comparator_outcome"]["true_effect_size"]
    shown = [
        (f"{int((truth == 1).sum()):,}", "negative controls"),
        (f"{len(t['positive_control']):,}", "positive controls made of them"),
        (f"{len(t['cm_analysis']):,}", "analyses"),
    ]
    return html.cards(shown)


def _comparison(results: GridResults, tc: int, table: pd.DataFrame) -> list[str]:
    """The table and pictures of one pair of cohorts."""
    labels = {
        int(a): str(d) or f"analysis {a}"
        for a, d in results.tables["cm_analysis"][["analysis_id", "description"]].itertuples(
            index=False
        )
    }
    found = {a: control_estimates(results, tc, a) for a in labels}
    return performance_html(table, found, labels, str(tc))
