"""Performance of analyses on controls, as tables and figures of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from steropes.studies.controls.empirical_calibration import fit_systematic_error
from steropes.studies.controls.performance_metrics import ControlEstimates
from steropes.studies.normal_quantile import Z
from steropes.studies.report import html
from steropes.studies.report.control_plots import calibration_plot
from steropes.studies.report.forest_plot import Row, forest

__all__ = ["performance_definitions", "performance_html"]

HEAD = (
    "Analysis",
    "AUC",
    "Coverage",
    "Calibrated coverage",
    "Precision",
    "Mean squared error",
    "Type 1 error",
    "Type 2 error",
    "No estimate",
)


def performance_html(
    table: pd.DataFrame,
    found: Mapping[int, ControlEstimates],
    labels: Mapping[int, str],
    name: str,
) -> list[str]:
    """Return tables and figures of the analyses of one comparison or exposure, as HTML.

    Parameters
    ----------
    table : DataFrame
        ``analysis_id`` and the columns of ``before_and_after``.
    found : mapping of int to ControlEstimates
        Estimates by analysis id.
    labels : mapping of int to str
        Names of the analyses.
    name : str
        Part of the figures' file names.
    """
    parts = [_table(table[table["ratio"].isna()], labels, "All controls.")]
    rows = [_error_row(labels[a], f) for a, f in found.items()]
    picture = forest(f"error-{name}", rows, "estimated over true ratio")
    if picture:
        parts.append(
            picture.figure(
                "Systematic error of each analysis over all its controls: the mean and the range "
                "of 95% of the errors, without sampling error."
            )
        )
    for ratio in sorted(table["ratio"].dropna().unique()):
        own = table[table["ratio"] == ratio]
        parts.append(html.fold(f"Controls of ratio {ratio:g}", _table(own, labels, "")))
    for a, f in found.items():
        parts.append(html.fold(labels[a], _pictures(f, f"controls-{name}-{a}")))
    return parts


def _table(table: pd.DataFrame, labels: Mapping[int, str], caption: str) -> str:
    """Return a table of metrics, one row per analysis."""
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
    """Return the mean and spread of the systematic error as a row of a forest plot."""
    good = found.usable
    if not good.any():
        return Row(label)
    e = fit_systematic_error(found.log_rr[good], found.se[good], found.true_log_rr[good])
    low, high = (math.exp(e.mean + side * Z * e.sd) for side in (-1, 1))
    return Row(label, math.exp(e.mean), low, high)


def _pictures(found: ControlEstimates, name: str) -> str:
    """Draw a funnel plot for each target ratio."""
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
                    f"Controls of ratio {ratio:g}. Between the dashed lines an interval includes "
                    "the true ratio; 95% of the estimates are expected between the solid lines."
                )
            )
    return "".join(parts)


def performance_definitions(ratio: str) -> str:
    """Explain the columns of the tables, with a sentence on the ratio of positive controls."""
    return (
        "<h2>Definitions</h2><p>AUC: the probability that a positive control has a larger estimate "
        "than a negative one. Coverage: the share of 95% intervals that include the true ratio, "
        "and the same after each control is calibrated by the controls of all other outcomes. "
        "Precision: the geometric mean of 1 / se². Mean squared error: of the log ratio. "
        "Type 1 error: the share of negative controls whose interval excludes 1; type 2 error: the "
        f"share of positive controls whose interval includes 1.</p><p>{ratio}</p>"
    )


def _percent(x: float) -> str:
    """Format a share as a percentage, or a dash if it is missing."""
    return "–" if math.isnan(x) else f"{100 * x:.0f}%"
