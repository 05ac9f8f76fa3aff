"""Pictures of the page of one question, drawn from released numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from steropes.data.diagnostic_limits import IMBALANCE
from steropes.designs.controls.empirical_calibration import fit_systematic_error
from steropes.designs.values.normal_quantile import Z
from steropes.studies.disclosure.released_table_rows import signed
from steropes.studies.formatting.released_numbers import analysis_name, title_case
from steropes.studies.one_question.study_result_rows import ARMS
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.control_estimates_figure import calibration_plot
from steropes.studies.report.flow_diagram import attrition_diagram
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.survival_figure import survival_figure
from steropes.studies.report.svg_canvas import PagePicture, Picture, drawn

__all__ = ["PICTURES", "study_pictures"]


def study_pictures(public: Published) -> dict[str, Picture]:
    """Draw the pictures that exist, by their names in ``PICTURES``."""
    return drawn(PICTURES, public)


def _names(public: Published) -> dict[str, str]:
    """Return the names of the arms as titles."""
    return {arm: title_case(public.names[arm]) for arm in ARMS}


def _attrition(public: Published) -> Picture | None:
    """Draw the people whom each rule leaves in both arms."""
    steps = [
        (title_case(line["rule"]), signed(line["target"]), signed(line["comparator"]))
        for line in public.attrition
    ]
    return attrition_diagram("attrition", steps, _names(public), public.rules.least)


def _survival(public: Published) -> Picture | None:
    """Draw the survival curves of the matched people, unless they are hidden."""
    return survival_figure("survival", public.survival, _names(public))


def _survival_caption(public: Published) -> str:
    """Describe the survival curves."""
    said = (
        "Kaplan–Meier curves of the matched people with pointwise 95% bands. The vertical axis "
        "need not start at zero. The curves end by the day on which a tenth of the people are left."
    )
    least = public.rules.least
    if least > 1:
        said += (
            f" Each step stands for {least} events or more, at the end of an interval, and a curve "
            "ends with its last step if fewer follow."
        )
    return said


def _preference(public: Published) -> Picture | None:
    """Draw the preference scores before and after matching."""
    before, after = public.preference
    return score_overlap("preference", before, after, _names(public))


def _balance(public: Published) -> Picture | None:
    """Draw the differences of all covariates, if there are any."""
    found = _differences(public)
    return None if found.empty else balance_scatter("balance", found, IMBALANCE)


def _love(public: Published) -> Picture | None:
    """Draw the differences of the most unequal covariates, if there are any."""
    found = _differences(public)
    return None if found.empty else love_plot("love", found, IMBALANCE)


def _differences(public: Published) -> pd.DataFrame:
    """Return the released standardised differences; empty if there are none."""
    balance = pd.DataFrame(public.balance)
    if balance.empty:
        return balance
    columns = {f"smd_{when}": f"std_diff_{when}" for when in ("before", "after")}
    balance = balance.rename(columns={"covariate": "covariate_name"} | columns)
    return balance.astype(dict.fromkeys(columns.values(), float))


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


# The pictures of the page in their order, each with its section and its caption.
PICTURES: tuple[PagePicture[Published], ...] = (
    PagePicture("attrition", "people", _attrition, "People of both arms after each rule."),
    PagePicture("survival", "result", _survival, _survival_caption),
    PagePicture("adjustments", "adjustments", _adjustments, "Hazard ratios with 95% limits."),
    PagePicture(
        "controls",
        "outcomes",
        _controls,
        "Negative controls: standard errors and estimates. Without systematic error, 95% of the "
        "points lie between the dashed lines; the solid lines include the systematic error.",
    ),
    PagePicture(
        "preference",
        "score",
        _preference,
        "Preference score: the propensity score adjusted for how common each drug is. People in "
        "the grey band could well have been given either drug.",
    ),
    PagePicture(
        "balance",
        "balance",
        _balance,
        "Absolute standardised mean difference of each covariate. Below the dashed horizontal line "
        f"at {IMBALANCE:g}, a covariate counts as balanced.",
    ),
    PagePicture(
        "love", "balance", _love, "The covariates that differ most, after matching and before it."
    ),
)
