"""Control outcomes of a comparison, and the systematic error that they show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from steropes.data.number_formatting import counted, deciding, deciding_p, effect, number
from steropes.designs.controls.empirical_calibration import fit_systematic_error, leave_one_out
from steropes.designs.controls.systematic_error_posterior import error_posterior
from steropes.studies.report.control_estimates_figure import calibration_plot
from steropes.studies.report.grid_page_data import KEY, Comparison, View
from steropes.studies.report.page_parts import Rows
from steropes.studies.report.svg_canvas import Picture

__all__ = ["AnalysisControls", "Controls", "controls"]


@dataclass(frozen=True)
class AnalysisControls:
    """The negative controls of an analysis and, from three on, their systematic error."""

    label: str
    controls: int
    systematic_error: str = ""
    coverage: tuple[float, float] = (math.nan, math.nan)  # Without and with calibration.
    picture: Picture | None = None


@dataclass(frozen=True)
class Controls:
    """The negative controls of each analysis, and a table of all controls."""

    analyses: list[AnalysisControls]
    estimates: Rows


def controls(view: View, comparison: Comparison) -> Controls | None:
    """Describe the controls of a comparison; None if it has none."""
    t = view.results.tables
    truth = view.rows("cm_target_comparator_outcome", target_comparator_id=comparison.id)
    truth = truth[truth["true_effect_size"].notna()]
    if truth.empty:
        return None
    found = t["cm_result"].merge(truth[[*KEY[:2], "true_effect_size"]], on=KEY[:2])
    negative = found[(found["true_effect_size"] == 1) & found["se_log_rr"].gt(0)]
    analyses = [
        _negative_controls(view, comparison, a.id, negative[negative["analysis_id"] == a.id])
        for a in view.analyses
    ]
    return Controls(analyses, _estimates(view, found))


def _negative_controls(
    view: View, comparison: Comparison, analysis: int, of: pd.DataFrame
) -> AnalysisControls:
    """Plot the negative controls of an analysis, if there are at least three."""
    label = view.label(analysis)
    if len(of) < 3:
        return AnalysisControls(label, len(of))
    limit = view.results.spec.thresholds.systematic_error
    error = fit_systematic_error(of["log_rr"], of["se_log_rr"])
    posterior = error_posterior(of["log_rr"], of["se_log_rr"])
    within = f"{number(posterior.ease_lower, 2)} to {number(posterior.ease_upper, 2)}"
    cover = leave_one_out(of["log_rr"], of["se_log_rr"])[["covers", "calibrated_covers"]].mean()
    picture = calibration_plot(f"controls-{comparison.id}-{analysis}", of, error.mean, error.sd)
    return AnalysisControls(
        label,
        len(of),
        f"{deciding(error.expected_absolute, limit)} (95% interval {within})",
        (float(cover.iloc[0]), float(cover.iloc[1])),
        view.collect(picture),
    )


def _estimates(view: View, found: pd.DataFrame) -> Rows:
    """Return the estimates of all controls."""
    rows = []
    for line in found.sort_values(["true_effect_size", "outcome_id", "analysis_id"]).to_dict(
        "records"
    ):
        ends = [line[c] for c in ("rr", "ci_95_lb", "ci_95_ub")]
        calibrated = [line[f"calibrated_{c}"] for c in ("rr", "ci_95_lb", "ci_95_ub")]
        rows.append(
            (
                view.name(line["outcome_id"]),
                view.label(line["analysis_id"]),
                number(line["true_effect_size"], 2),
                counted(line["target_outcomes"]),
                counted(line["comparator_outcomes"]),
                effect(*ends) or "none",
                deciding_p(line["p"]),
                effect(*calibrated) or "–",
            )
        )
    return rows
