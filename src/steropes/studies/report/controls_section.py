"""Control outcomes, and what they say of systematic error."""

from __future__ import annotations

from html import escape

from steropes.studies.controls.empirical_calibration import fit_systematic_error, leave_one_out
from steropes.studies.report.control_plots import calibration_plot
from steropes.studies.report.digits import deciding
from steropes.studies.report.formatting import p_value
from steropes.studies.report.html import counted, effect, fold, number, table
from steropes.studies.report.report_view import KEY, Comparison, View

__all__ = ["controls_section"]


def controls_section(view: View, comparison: Comparison) -> list[str]:
    """Negative controls of each analysis, and the list of all controls."""
    t = view.results.tables
    truth = view.rows("cm_target_comparator_outcome", target_comparator_id=comparison.id)
    truth = truth[truth["true_effect_size"].notna()]
    if truth.empty:
        return []
    found = t["cm_result"].merge(truth[[*KEY[:2], "true_effect_size"]], on=KEY[:2])
    negative = found[found["true_effect_size"] == 1]
    parts = ["<h3>Control outcomes</h3>"]
    limit = view.results.spec.thresholds.systematic_error
    for a in view.analyses:
        of = negative[(negative["analysis_id"] == a.id) & negative["se_log_rr"].gt(0)]
        label = view.label(a.id)
        if len(of) < 3:
            parts.append(f"<p>{escape(label)}: {len(of)} negative controls have an estimate.</p>")
            continue
        error = fit_systematic_error(of["log_rr"], of["se_log_rr"])
        cover = leave_one_out(of["log_rr"], of["se_log_rr"])[["covers", "calibrated_covers"]].mean()
        said = (
            f"{label}: expected absolute systematic error "
            f"{deciding(error.expected_absolute, limit)}. Of "
            f"{len(of)} negative controls {100 * cover.iloc[0]:.0f}% have intervals that hold no "
            f"effect, {100 * cover.iloc[1]:.0f}% when calibrated by the others. Dashed: where an "
            "estimate is significant; solid: where it is after calibration."
        )
        picture = calibration_plot(f"controls-{comparison.id}-{a.id}", of, error.mean, error.sd)
        parts.append(view.figure(picture, said))
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
    parts.append(fold("All controls", table(head, rows, text=(0, 1))))
    return parts
