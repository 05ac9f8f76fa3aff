"""Control outcomes of a comparison, and the systematic error that they show."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from steropes.studies.controls.empirical_calibration import fit_systematic_error, leave_one_out
from steropes.studies.report.control_plots import calibration_plot
from steropes.studies.report.digits import counted, deciding, effect, number
from steropes.studies.report.formatting import p_value
from steropes.studies.report.page_parts import Figure, Table, table
from steropes.studies.report.report_view import KEY, Comparison, View

__all__ = ["AnalysisControls", "Controls", "controls"]


@dataclass(frozen=True)
class AnalysisControls:
    """The negative controls of an analysis: their number and, from three on, their plot."""

    label: str
    controls: int
    calibration: Figure | None = None


@dataclass(frozen=True)
class Controls:
    """The negative controls of each analysis, and a table of all controls."""

    analyses: list[AnalysisControls]
    estimates: Table | None


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
    cover = leave_one_out(of["log_rr"], of["se_log_rr"])[["covers", "calibrated_covers"]].mean()
    caption = (
        f"{label}: expected absolute systematic error {deciding(error.expected_absolute, limit)}. "
        f"Of {len(of)} negative controls {100 * cover.iloc[0]:.0f}% have intervals that hold no "
        f"effect, {100 * cover.iloc[1]:.0f}% when calibrated by the others. Dashed: where an "
        "estimate is significant; solid: where it is after calibration."
    )
    picture = calibration_plot(f"controls-{comparison.id}-{analysis}", of, error.mean, error.sd)
    return AnalysisControls(label, len(of), view.figure(picture, caption))


def _estimates(view: View, found: pd.DataFrame) -> Table | None:
    """Tabulate the estimates of all controls."""
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
                p_value(line["p"]),
                effect(*calibrated) or "–",
            )
        )
    head = ("Control", "Analysis", "True ratio", "Outcomes, target", "Outcomes, comparator",
            "Estimate (95%)", "p", "Calibrated (95%)")  # fmt: skip
    return table(head, rows, words=(0, 1))
