"""The pictures of the one-question page, drawn from what a study publishes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.curves import time_unit
from steropes.studies.disclosure.study import Published, published_at_risk
from steropes.studies.report.balance_figures import balance_scatter, love_plot
from steropes.studies.report.canvas import Picture, ticks
from steropes.studies.report.flow_diagram import attrition_diagram
from steropes.studies.report.forest_plot import Row, forest
from steropes.studies.report.formatting import analysis_name, title_case
from steropes.studies.report.overlap_figure import score_overlap
from steropes.studies.report.page_parts import Figure
from steropes.studies.report.score_density import still_at_risk
from steropes.studies.report.survival_figure import survival_curves

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["FIGURES", "study_figures"]

FIGURES = ("attrition", "survival", "adjustments", "preference", "balance", "love")
ARMS = ("target", "comparator")
THRESHOLD = 0.1  # of a standardised difference


def study_figures(study: ComparativeStudy, public: Published) -> dict[str, Figure]:
    """Draw the figures that exist, by their names in ``FIGURES``."""
    found = {
        "attrition": (_attrition(study, public), "What each rule leaves of both arms."),
        "survival": (_survival(study, public), _survival_caption(study, public)),
        "adjustments": (_adjustments(public), "Hazard ratios with 95% limits."),
        "preference": (
            None if study.propensity is None else _preference(study, public),
            "Preference score: the propensity score adjusted for how common each drug is. People "
            "in the grey band could well have been given either drug.",
        ),
        "balance": (
            _balance(study, public, balance_scatter),
            "Absolute standardised mean difference of each covariate. Below the dashed horizontal "
            "line at 0.1, a covariate counts as balanced.",
        ),
        "love": (
            _balance(study, public, love_plot),
            "The covariates that differ most, after matching and before it.",
        ),
    }
    return {name: Figure(p, caption) for name, (p, caption) in found.items() if p is not None}


def _survival_caption(study: ComparativeStudy, public: Published) -> str:
    caption = (
        "Kaplan–Meier curves of the matched people with pointwise 95% bands. The vertical axis "
        "need not start at zero; the picture ends soon after the last event."
    )
    least = public.rules.least
    if least > 1:
        caption += f" Each step stands for {least} events or more, at the end of an interval."
    for arm in ARMS:
        if not _has_curve(public, arm):
            name = title_case(study.names[arm])
            caption += f" That of {name} is not drawn, because its events are not told."
    return caption


def _attrition(study: ComparativeStudy, public: Published) -> Picture | None:
    """What each rule leaves of both arms."""
    steps = [
        (title_case(line["rule"]), _signed(line["target"]), _signed(line["comparator"]))
        for line in public.attrition
    ]
    return attrition_diagram("attrition", steps, _names(study), public.rules.least)


def _survival(study: ComparativeStudy, public: Published) -> Picture | None:
    """Kaplan–Meier curves of the matched arms, as far as the last event."""
    rules = public.rules
    if public.blinded or study.pairs < max(rules.least, 1):
        return None
    watched = study.curves()
    end = max((float(c.times[-1]) for c in public.curves.values() if len(c.times)), default=0.0)
    if not watched or end <= 0 or not any(_has_curve(public, arm) for arm in ARMS):
        return None
    marks = np.array([t for t in ticks(0.0, end, 7) if t >= 0])
    known = [c.times[c.times <= end] for c in public.curves.values()]
    ends = {a: _arm_end(public.curves.get(a), watched[a], end, rules.least) for a in ARMS}
    days = np.unique(np.concatenate([[0.0, end, *ends.values()], marks, *known]))
    table = pd.DataFrame({"time_day": days})
    for arm in ARMS:
        steps = _steps(public.curves.get(arm), days)
        beyond = (days > ends[arm]) & (steps[0] > 0)
        if not _has_curve(public, arm):
            beyond[:] = True
        for name, values in zip(("", "_lb", "_ub"), steps, strict=True):
            table[f"{arm}_survival{name}"] = np.where(beyond, np.nan, values)
        at_risk = [still_at_risk(watched[arm], t) for t in marks]
        told = published_at_risk(study.pairs, at_risk, rules)
        at = dict(zip(marks.tolist(), (_signed(n) for n in told), strict=True))
        table[f"{arm}_at_risk"] = [at.get(float(t), math.nan) for t in days]
    return survival_curves("survival", table, _names(study))


def _preference(study: ComparativeStudy, public: Published) -> Picture | None:
    """Preference scores of both arms before and after matching."""
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
    """All covariates at once, or the most unequal by name."""
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
    """The hazard ratio by every way to adjust."""
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
    return {arm: title_case(study.names[arm]) for arm in ARMS}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _numbers(values: Any, found: dict[str, Any]) -> Any:
    """Heights of a density; missing where an arm has too few people."""
    return np.full(len(found["score"]), np.nan) if values is None else values


def _signed(n: int | Bound) -> float:
    """A count, or minus a limit that it is below."""
    return -float(n.limit) if isinstance(n, Bound) else float(n)


def _has_curve(public: Published, arm: str) -> bool:
    """Whether an arm's curve may be drawn: its events are told, or that there are none."""
    return arm in public.curves or public.count("matched", arm, "events") == 0


def _steps(curve: KaplanMeier | None, days: NDArray) -> list[NDArray]:
    """Survival and its limits on some days; one where there is no event."""
    if curve is None:
        return [np.ones(len(days))] * 3
    at = np.searchsorted(curve.times, days, side="right")
    return [np.append(1.0, v)[at] for v in (curve.survival, *curve.interval())]


def _arm_end(told: KaplanMeier | None, watched: KaplanMeier, end: float, least: int) -> float:
    """Where an arm's curve ends: with the picture, if enough people are there by then.

    Otherwise at its last step, or at the last month in which enough people were there.
    """
    if still_at_risk(watched, end) >= max(least, 1):
        return end
    unit = 1.0 if least <= 1 else time_unit(float(watched.times[-1]))
    enough = float(watched.times[watched.at_risk >= max(least, 1)].max(initial=0.0))
    last = 0.0 if told is None else float(told.times.max(initial=0.0))
    return min(end, max(unit * math.floor(enough / unit), last))
