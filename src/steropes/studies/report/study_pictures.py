"""Pictures of the page of one question, drawn from released numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.curves import time_unit
from steropes.studies.disclosure.one_question_release import Published, published_at_risk
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.canvas import Picture, ticks
from steropes.studies.report.flow_diagram import attrition_diagram
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.formatting import analysis_name, title_case
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.score_density import still_at_risk
from steropes.studies.report.survival_figure import survival_curves

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["PICTURES", "has_curve", "study_pictures"]

PICTURES = ("attrition", "survival", "adjustments", "preference", "balance", "love")
ARMS = ("target", "comparator")
THRESHOLD = 0.1  # Standardised differences above it count as imbalance.


def study_pictures(study: ComparativeStudy, public: Published) -> dict[str, Picture]:
    """Draw the pictures that exist, by their names in ``PICTURES``."""
    scored = study.propensity is not None
    drawn = {
        "attrition": _attrition(study, public),
        "survival": _survival(study, public),
        "adjustments": _adjustments(public),
        "preference": _preference(study, public) if scored else None,
        "balance": _balance(study, public, balance_scatter),
        "love": _balance(study, public, love_plot),
    }
    return {name: picture for name, picture in drawn.items() if picture is not None}


def _attrition(study: ComparativeStudy, public: Published) -> Picture | None:
    """Draw the people that each rule leaves in both arms."""
    steps = [
        (title_case(line["rule"]), _signed(line["target"]), _signed(line["comparator"]))
        for line in public.attrition
    ]
    return attrition_diagram("attrition", steps, _names(study), public.rules.least)


def _survival(study: ComparativeStudy, public: Published) -> Picture | None:
    """Draw the Kaplan–Meier curves of the matched arms up to the last event."""
    rules = public.rules
    if public.blinded or study.pairs < max(rules.least, 1):
        return None
    watched = study.curves()
    end = max((float(c.times[-1]) for c in public.curves.values() if len(c.times)), default=0.0)
    if not watched or end <= 0 or not any(has_curve(public, arm) for arm in ARMS):
        return None
    marks = np.array([t for t in ticks(0.0, end, 7) if t >= 0])
    known = [c.times[c.times <= end] for c in public.curves.values()]
    ends = {a: _arm_end(public.curves.get(a), watched[a], end, rules.least) for a in ARMS}
    days = np.unique(np.concatenate([[0.0, end, *ends.values()], marks, *known]))
    table = pd.DataFrame({"time_day": days})
    for arm in ARMS:
        steps = _steps(public.curves.get(arm), days)
        beyond = (days > ends[arm]) & (steps[0] > 0)
        if not has_curve(public, arm):
            beyond[:] = True
        for name, values in zip(("", "_lb", "_ub"), steps, strict=True):
            table[f"{arm}_survival{name}"] = np.where(beyond, np.nan, values)
        at_risk = [still_at_risk(watched[arm], t) for t in marks]
        told = published_at_risk(study.pairs, at_risk, rules)
        at = dict(zip(marks.tolist(), (_signed(n) for n in told), strict=True))
        table[f"{arm}_at_risk"] = [at.get(float(t), math.nan) for t in days]
    return survival_curves("survival", table, _names(study))


def _preference(study: ComparativeStudy, public: Published) -> Picture | None:
    """Draw the preference scores of both arms before and after matching."""
    found = public.scores["preference"]
    before, after = (
        pd.DataFrame(
            {
                "preference_score": found["score"],
                **{f"{arm}_density": _numbers(found[f"{arm}_{when}"], found) for arm in ARMS},
            }
        )
        for when in ("before", "after")
    )
    return score_overlap("preference", before, after, _names(study))


def _balance(
    study: ComparativeStudy,
    public: Published,
    draw: Callable[[str, pd.DataFrame, float], Picture | None],
) -> Picture | None:
    """Draw all covariates at once, or the most unequal by name."""
    if not public.balance or not study.pairs:
        return None
    table = pd.DataFrame(
        {
            "covariate_name": [str(line["covariate"]) for line in public.balance],
            **{
                f"std_diff_{when}": [
                    math.nan if line[f"smd_{when}"] is None else float(line[f"smd_{when}"])
                    for line in public.balance
                ]
                for when in ("before", "after")
            },
        }
    )
    return draw("balance" if draw is balance_scatter else "love", table, THRESHOLD)


def _adjustments(public: Published) -> Picture | None:
    """Draw the hazard ratio by every way to adjust."""
    if public.blinded or not public.adjustments:
        return None
    rows = [
        Row(
            label,
            _number(line["hr"]),
            _number(line["lower"]),
            _number(line["upper"]),
            note=line["note"] or "",
        )
        for label, line in (
            *((title_case(analysis_name(h["analysis"])), h) for h in public.hazard_ratios),
            *((title_case(str(line["analysis"])), line) for line in public.adjustments),
        )
    ]
    return forest("adjustments", rows, "hazard ratio")


def _names(study: ComparativeStudy) -> dict[str, str]:
    """Return the names of the arms."""
    return {arm: title_case(study.names[arm]) for arm in ARMS}


def _number(value: Any) -> float:
    """Return a number, NaN if it is missing."""
    return math.nan if value is None else float(value)


def _numbers(values: Any, found: dict[str, Any]) -> Any:
    """Return the heights of a density, missing if an arm has too few people."""
    return np.full(len(found["score"]), np.nan) if values is None else values


def _signed(n: int | Bound) -> float:
    """Return a count, or -n for fewer than n."""
    return -float(n.limit) if isinstance(n, Bound) else float(n)


def has_curve(public: Published, arm: str) -> bool:
    """Check whether an arm's curve may be drawn: its events are released, or it has none."""
    return arm in public.curves or public.count("matched", arm, "events") == 0


def _steps(curve: KaplanMeier | None, days: NDArray) -> list[NDArray]:
    """Return survival and its limits on some days; 1 without events."""
    if curve is None:
        return [np.ones(len(days))] * 3
    at = np.searchsorted(curve.times, days, side="right")
    return [np.append(1.0, v)[at] for v in (curve.survival, *curve.interval())]


def _arm_end(told: KaplanMeier | None, watched: KaplanMeier, end: float, least: int) -> float:
    """Return the end of an arm's curve: that of the picture if enough people are still at risk.

    Otherwise its last step, or the last month in which enough people were at risk.
    """
    if still_at_risk(watched, end) >= max(least, 1):
        return end
    unit = 1.0 if least <= 1 else time_unit(float(watched.times[-1]))
    enough = float(watched.times[watched.at_risk >= max(least, 1)].max(initial=0.0))
    last = 0.0 if told is None else float(told.times.max(initial=0.0))
    return min(end, max(unit * math.floor(enough / unit), last))
