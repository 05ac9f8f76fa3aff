"""Performance of analyses on controls, as tables and figures of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steropes.data.diagnostic_limits import LEAST_CONTROLS
from steropes.data.number_formatting import deciding_p, number
from steropes.designs.controls.empirical_calibration import (
    fit_systematic_error,
)
from steropes.designs.controls.performance_metrics import ControlEstimates
from steropes.designs.controls.systematic_error_comparison import compare_errors
from steropes.designs.values.normal_quantile import Z
from steropes.studies.report.control_estimates_figure import calibration_plot
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.page_parts import Rows
from steropes.studies.report.svg_canvas import Picture

__all__ = ["Performance", "performance"]


@dataclass(frozen=True)
class Performance:
    """Tables and figures of the performance of analyses on controls.

    Attributes
    ----------
    errors : rows
        The expected absolute systematic error of each analysis, and differences from the smallest,
        from negative controls.
    by_ratio : dict of str to rows
        The metrics of the controls of each ratio.
    calibration : list of (str, dict of str to Picture)
        The plots of each analysis, by the ratio of the controls.
    """

    all_controls: Rows
    errors: Rows
    systematic_error: Picture | None
    by_ratio: dict[str, Rows]
    calibration: list[tuple[str, dict[str, Picture]]]


def performance(
    table: pd.DataFrame, found: Mapping[int, ControlEstimates], labels: Mapping[int, str], name: str
) -> Performance:
    """Describe the performance of the analyses of one comparison or exposure.

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
    rows = [_error_row(labels[a], f) for a, f in found.items()]
    ratios = sorted(table["ratio"].dropna().unique())
    return Performance(
        _metrics(table[table["ratio"].isna()], labels),
        _errors(found, labels),
        forest(f"error-{name}", rows, "estimated over true ratio"),
        {f"{r:g}": _metrics(table[table["ratio"] == r], labels) for r in ratios},
        [(labels[a], _plots(f, f"controls-{name}-{a}")) for a, f in found.items()],
    )


def _metrics(table: pd.DataFrame, labels: Mapping[int, str]) -> Rows:
    """Return the metrics of each analysis."""
    plain = table[~table["calibrated"]].set_index("analysis_id")
    after = table[table["calibrated"]].set_index("analysis_id")
    return [
        (
            labels[a],
            number(line["auc"], 2),
            _percent(line["coverage"]),
            _percent(after.loc[a, "coverage"]),
            number(line["precision"], 1),
            number(line["mse"], 3),
            _percent(line["type_1"]),
            _percent(line["type_2"]),
            _percent(line["without"]),
        )
        for a, line in plain.iterrows()
    ]


def _errors(found: Mapping[int, ControlEstimates], labels: Mapping[int, str]) -> Rows:
    """Compare the systematic errors of analyses with enough negative controls."""
    parts = []
    for a, f in found.items():
        own = f.usable & (f.target == 1)
        if own.sum() >= LEAST_CONTROLS:
            rows = {"control": f.group[own], "log_rr": f.log_rr[own], "se": f.se[own]}
            parts.append(pd.DataFrame(rows).assign(analysis=a))
    if not parts:
        return []
    table = compare_errors(pd.concat(parts, ignore_index=True))
    return [
        (
            labels[int(a)],
            f"{line['controls']:.0f}",
            _within(line["ease"], line["lower"], line["upper"]),
            _within(line["difference"], line["difference_lower"], line["difference_upper"]),
            deciding_p(line["p"]),
        )
        for a, line in table.iterrows()
    ]


def _within(value: float, lower: float, upper: float) -> str:
    """Format a number with its interval; a dash if there is none."""
    if math.isnan(value):
        return "–"
    return f"{number(value, 2)} ({number(lower, 2)} to {number(upper, 2)})"


def _error_row(label: str, found: ControlEstimates) -> Row:
    """Return the mean and spread of the systematic error as a row of a forest plot."""
    good = found.usable
    if not good.any():
        return Row(label)
    e = fit_systematic_error(found.log_rr[good], found.se[good], found.true_log_rr[good])
    low, high = (math.exp(e.mean + side * Z * e.sd) for side in (-1, 1))
    return Row(label, math.exp(e.mean), low, high)


def _plots(found: ControlEstimates, name: str) -> dict[str, Picture]:
    """Draw a funnel plot for each target ratio."""
    plots = {}
    for ratio in np.unique(found.target):
        own = (found.target == ratio) & found.usable
        if not own.any():
            continue
        y, s, truth = (v[own] for v in (found.log_rr, found.se, found.true_log_rr))
        error = fit_systematic_error(y, s, truth)
        points = pd.DataFrame({"log_rr": y, "se_log_rr": s})
        plot = calibration_plot(f"{name}-{ratio:g}", points, error.mean, error.sd, float(ratio))
        if plot:
            plots[f"{ratio:g}"] = plot
    return plots


def _percent(x: float) -> str:
    """Format a share as a percentage, or a dash if it is missing."""
    return "–" if math.isnan(x) else f"{100 * x:.0f}%"
