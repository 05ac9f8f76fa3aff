"""Pictures of the page of one question, drawn from released numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.controls.empirical_calibration import fit_systematic_error
from steropes.designs.values.normal_quantile import Z
from steropes.studies.disclosure.released_table_rows import signed
from steropes.studies.formatting.released_numbers import analysis_name, title_case
from steropes.studies.one_question.question_tables import ARMS
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.control_plots import calibration_plot
from steropes.studies.report.flow_diagram import attrition_diagram
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.survival_figure import survival_curves
from steropes.studies.report.svg_canvas import Picture

__all__ = ["PICTURES", "study_pictures"]

PICTURES = ("attrition", "survival", "adjustments", "controls", "preference", "balance", "love")
THRESHOLD = 0.1  # Standardised differences above it count as imbalance.


def study_pictures(public: Published) -> dict[str, Picture]:
    """Draw the pictures that exist, by their names in ``PICTURES``."""
    names = {arm: title_case(public.names[arm]) for arm in ARMS}
    steps = [
        (title_case(line["rule"]), signed(line["target"]), signed(line["comparator"]))
        for line in public.attrition
    ]
    before, after = public.preference
    balance = pd.DataFrame(public.balance).rename(
        columns={"covariate": "covariate_name"}
        | {f"smd_{when}": f"std_diff_{when}" for when in ("before", "after")}
    )
    drawn: dict[str, Picture | None] = {
        "attrition": attrition_diagram("attrition", steps, names, public.rules.least),
        "survival": survival_curves("survival", public.survival, names),
        "adjustments": _adjustments(public),
        "controls": _controls(public),
        "preference": score_overlap("preference", before, after, names),
    }
    if public.balance:
        differences = ["std_diff_before", "std_diff_after"]
        balance[differences] = balance[differences].astype(float)
        drawn["balance"] = balance_scatter("balance", balance, THRESHOLD)
        drawn["love"] = love_plot("love", balance, THRESHOLD)
    return {name: picture for name, picture in drawn.items() if picture is not None}


def _controls(public: Published) -> Picture | None:
    """Plot the released estimates of at least three negative controls."""
    lines = [line for line in public.outcomes if line["role"] == "negative control"]
    ratios = pd.DataFrame([[line[c] for c in ("hr", "lower", "upper")] for line in lines])
    if len(lines) < 3:
        return None
    logs = np.log(ratios.astype(float).where(lambda x: x > 0))
    of = pd.DataFrame({"log_rr": logs[0], "se_log_rr": (logs[2] - logs[1]) / (2 * Z)})
    of = of[np.isfinite(of).all(axis=1)]
    if len(of) < 3:
        return None
    error = fit_systematic_error(of["log_rr"], of["se_log_rr"])
    return calibration_plot("controls", of, error.mean, error.sd)


def _adjustments(public: Published) -> Picture | None:
    """Draw the hazard ratio by every way to adjust."""
    if public.blinded or not public.adjustments:
        return None
    lines: list[tuple[str, dict[str, Any]]] = [
        (analysis_name(line["analysis"]), line)
        for line in (*public.hazard_ratios, *public.adjustments)
    ]
    rows = [
        Row(title_case(label), of["hr"], of["lower"], of["upper"], note=of["note"])
        for label, of in lines
    ]
    return forest("adjustments", rows, "hazard ratio")
