"""The page that says how the analyses of a grid fare on controls; of the result tables alone."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steropes.studies.controls.calibration import fit_systematic_error
from steropes.studies.controls.performance import ControlEstimates
from steropes.studies.grid.controls import analysis_performance, control_estimates
from steropes.studies.page import html
from steropes.studies.page.controls import calibration_plot
from steropes.studies.page.forest import Row, forest

if TYPE_CHECKING:
    from steropes.studies.grid.run import GridResults

__all__ = ["controls_page", "write_controls_report"]

Z = 1.959963984540054
HEAD = (
    "Analysis",
    "Positive above negative",
    "Coverage",
    "Calibrated",
    "Precision",
    "Squared error",
    "Type 1",
    "Type 2",
    "Without estimate",
)


def write_controls_report(results: GridResults, folder: str | Path) -> Path:
    """Write ``controls.html`` into a folder, whole or not at all; returns its path."""
    return html.write_files(folder, {"controls.html": controls_page(results)})[0]


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
        target, comparator = (str(names.get(c[k], c[k])) for k in ("target_id", "comparator_id"))
        body.append(f"<h2>{escape(f'{target} against {comparator}')}</h2>")
        body += _comparison(results, tc, table[table["target_comparator_id"] == tc])
    body.append(_words())
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
    every = table[table["ratio"].isna()]
    parts = [_table(every, labels, "All controls.")]
    found = {a: control_estimates(results, tc, a) for a in labels}
    rows = [_error_row(labels[a], f) for a, f in found.items()]
    picture = forest(f"error-{tc}", rows, "estimated over true ratio")
    if picture:
        parts.append(
            picture.figure(
                "Systematic error of each analysis over all its controls: its middle, and where "
                "95% of it lie, chance apart."
            )
        )
    for ratio in sorted(table["ratio"].dropna().unique()):
        own = table[table["ratio"] == ratio]
        parts.append(html.fold(f"Controls of ratio {ratio:g}", _table(own, labels, "")))
    for a, f in found.items():
        parts.append(html.fold(labels[a], _pictures(f, f"controls-{tc}-{a}")))
    return parts


def _table(table: pd.DataFrame, labels: dict[int, str], caption: str) -> str:
    plain = table[~table["calibrated"]].set_index("analysis_id")
    after = table[table["calibrated"]].set_index("analysis_id")
    lines = [
        (
            labels[a],
            html.number(line["auc"], 2),
            _percent(line["coverage"]),
            _percent(after.loc[a, "coverage"]),
            html.number(line["precision"], 1),
            html.number(line["mse"], 3),
            _percent(line["type_1"]),
            _percent(line["type_2"]),
            _percent(line["without"]),
        )
        for a, line in plain.iterrows()
    ]
    return html.table(HEAD, lines, text=(0,), caption=caption)


def _error_row(label: str, found: ControlEstimates) -> Row:
    """Middle and spread of the systematic error, as a line of a forest plot."""
    good = found.usable
    if not good.any():
        return Row(label)
    e = fit_systematic_error(found.log_rr[good], found.se[good], found.true_log_rr[good])
    low, high = (math.exp(e.mean + side * Z * e.sd) for side in (-1, 1))
    return Row(label, math.exp(e.mean), low, high)


def _pictures(found: ControlEstimates, name: str) -> str:
    """A funnel for each ratio."""
    parts = []
    for ratio in np.unique(found.target):
        own = (found.target == ratio) & found.usable
        if not own.any():
            continue
        y, s, truth = (v[own] for v in (found.log_rr, found.se, found.true_log_rr))
        error = fit_systematic_error(y, s, truth)
        points = pd.DataFrame({"log_rr": y, "se_log_rr": s})
        plot = calibration_plot(f"{name}-{ratio:g}", points, error.mean, error.sd, float(ratio))
        if plot:
            parts.append(
                plot.figure(
                    f"Controls of ratio {ratio:g}. Between the dashed lines an interval holds the "
                    "true ratio; 95% of the estimates are expected between the solid ones."
                )
            )
    return "".join(parts)


def _words() -> str:
    return (
        "<h2>What the columns say</h2><p>Positive above negative: the chance that a positive "
        "control has a larger estimate than a negative one. Coverage: intervals of 95% that hold "
        "the truth, and how many do when each is calibrated by the controls of all other outcomes. "
        "Precision: the geometric mean of 1 / se². Squared error: of the log ratio, on average. "
        "Type 1: negative controls whose interval excludes no effect; type 2: positive ones whose "
        "does not.</p><p>The ratio of a positive control is that of the hazard among people who "
        "are still at risk: of the cause-specific hazard, where there are competing outcomes.</p>"
    )


def _percent(x: float) -> str:
    return "–" if math.isnan(x) else f"{100 * x:.0f}%"
