"""The page on the performance of the analyses of a grid on controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.grids.control_performance import (
    analysis_performance,
    control_estimates,
    released_estimates_words,
)
from steropes.studies.report.control_performance_figures import performance
from steropes.studies.report.page_parts import KeyNumber
from steropes.studies.report.template_rendering import render

if TYPE_CHECKING:
    from steropes.studies.grids.comparative_grid_run import GridResults

__all__ = ["controls_page", "write_controls_report"]


def write_controls_report(results: GridResults, folder: str | Path) -> Path:
    """Write ``controls.html`` to the folder ``release`` and return its path."""
    files = {"controls.html": controls_page(results)}
    return write_release(folder, files, results.rules, add=True)[0]


def controls_page(results: GridResults) -> str:
    """Return the page as self-contained HTML.

    Raises
    ------
    DataError
        The results have no controls.
    """
    t = results.tables
    names = dict(zip(t["cohort"]["cohort_id"], t["cohort"]["name"], strict=True))
    analyses = t["cm_analysis"][["analysis_id", "description"]].itertuples(index=False)
    labels = {int(a): str(d) or f"analysis {a}" for a, d in analyses}
    table = analysis_performance(results)
    comparisons = []
    for c in t["cm_target_comparator"].to_dict("records"):
        tc = int(c["target_comparator_id"])
        target, comparator = (
            title_case(str(names.get(c[k], c[k]))) for k in ("target_id", "comparator_id")
        )
        found = {a: control_estimates(results, tc, a) for a in labels}
        own = table[table["target_comparator_id"] == tc]
        comparisons.append(
            (f"{target} against {comparator}", performance(own, found, labels, str(tc)))
        )
    return render(
        "controls.html.jinja",
        title="Analyses judged on controls",
        top_numbers=_key_numbers(results),
        comparisons=comparisons,
        released=released_estimates_words(results),
        disclosure=results.rules.sentence(),
    )


def _key_numbers(results: GridResults) -> list[KeyNumber]:
    """Return the numbers of controls and analyses."""
    t = results.tables
    truth = t["cm_target_comparator_outcome"]["true_effect_size"]
    return [
        (f"{int((truth == 1).sum()):,}", "negative controls"),
        (f"{len(t['positive_control']):,}", "positive controls made of them"),
        (f"{len(t['cm_analysis']):,}", "analyses"),
    ]
