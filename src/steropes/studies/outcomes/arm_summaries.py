"""The outcome in two arms: events, rates, survival curves, hazard ratios, and what was detectable.

Every function takes the people of one analysis (a table with ``treated``, ``time`` in days,
``event``), so that the same code serves the whole cohort and the matched one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steropes.data.kaplan_meier import KaplanMeier, product_limit
from steropes.errors import DataError, SeparationError
from steropes.studies.comparative.input_checks import require_people
from steropes.studies.results.ratios import ratio_of

__all__ = [
    "DAYS_PER_YEAR",
    "ArmCurve",
    "arm_curves",
    "hazard_ratio",
    "incidence_rates",
    "minimum_detectable_ratio",
    "why_no_estimate",
]

DAYS_PER_YEAR = 365.25
ARMS = ((1, "target"), (0, "comparator"))


@dataclass(frozen=True, repr=False)
class ArmCurve(KaplanMeier):
    """The curve of an arm; its ``repr`` does not list when each person had the event."""

    def __repr__(self) -> str:
        return f"ArmCurve({len(self.times):,} times)"


def incidence_rates(people: pd.DataFrame) -> pd.DataFrame:
    """People, person-years, events and events per 1,000 person-years in each arm.

    Returns
    -------
    DataFrame
        Rows ``target`` and ``comparator``; columns ``people``, ``person_years``, ``events``,
        ``rate``, and its exact Poisson 95 % limits ``rate_lower`` and ``rate_upper``.
    """
    from scipy.stats import chi2

    require_people(people, "treated", "time", "event")
    lines = []
    for value, _ in ARMS:
        arm = people[people["treated"] == value]
        years = float(arm["time"].sum()) / DAYS_PER_YEAR
        events = int(arm["event"].sum())
        lower = chi2.ppf(0.025, 2 * events) / 2 if events else 0.0
        upper = chi2.ppf(0.975, 2 * events + 2) / 2
        scale = 1000 / years if years > 0 else math.nan
        lines.append((len(arm), years, events, events * scale, lower * scale, upper * scale))
    return pd.DataFrame(
        lines,
        index=pd.Index([name for _, name in ARMS], name="arm"),
        columns=["people", "person_years", "events", "rate", "rate_lower", "rate_upper"],
    )


def arm_curves(people: pd.DataFrame) -> dict[str, ArmCurve]:
    """Kaplan–Meier curves of the ``target`` and the ``comparator`` arm, of each that has people."""
    curves = {}
    for value, name in ARMS:
        arm = people[people["treated"] == value]
        if len(arm):
            curves[name] = ArmCurve(**vars(product_limit(arm["time"], arm["event"])))
    return curves


def hazard_ratio(people: pd.DataFrame, strata: Any = None) -> dict[str, Any]:
    """Hazard ratio of target against comparator by Cox regression on the arm alone.

    Parameters
    ----------
    people : DataFrame
        ``treated``, ``time``, ``event``.
    strata : array_like, optional
        Stratum (matched set) of each person: hazards are compared within strata only.

    Returns
    -------
    dict
        ``people``, ``events``, ``hr``, ``lower``, ``upper`` (95 %), ``p``, ``log_hr``, ``se``,
        ``note``: empty, or why there is no estimate (the numbers are then NaN), and ``converged``:
        whether the fit ended at its optimum, None if there is none.
    """
    from steropes.data import Surv
    from steropes.models import CoxRegression

    require_people(people, "treated", "time", "event")
    result: dict[str, Any] = {
        "people": len(people),
        "events": int(people["event"].sum()),
        **dict.fromkeys(("hr", "lower", "upper", "p", "log_hr", "se"), math.nan),
        "note": "",
        "converged": None,
    }
    result["note"] = why_no_estimate(people)
    if result["note"]:
        return result
    x = pd.DataFrame({"treatment": people["treated"].to_numpy(dtype=float)})
    y = Surv(people["time"].to_numpy(), people["event"].to_numpy())
    try:
        fit = CoxRegression(ties="efron").fit(x, y, strata=strata)
    except (SeparationError, DataError) as error:
        result["note"] = str(error)
        return result
    line = fit.summary(level=0.95).loc["treatment"]
    result |= {
        "hr": float(line["exp(coef)"]),
        "lower": ratio_of(line["lower"]),
        "upper": ratio_of(line["upper"]),
        "p": float(line["p"]),
        "log_hr": float(line["coef"]),
        "se": float(line["se"]),
        "converged": bool(fit.converged_),
    }
    return result


def minimum_detectable_ratio(
    people: pd.DataFrame, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest hazard ratio above 1 that the events would show with the given power.

    exp((z₁₋α/₂ + z_power) / sqrt(E q (1 − q))) with E events in all and a share q of people in the
    target arm (Schoenfeld 1983, Biometrics 39:499). Infinite without events.
    """
    from scipy.special import ndtri

    require_people(people, "treated", "event")
    events = float(people["event"].sum())
    q = float(np.mean(people["treated"])) if len(people) else 0.0
    information = events * q * (1 - q)
    if information <= 0:
        return math.inf
    return math.exp(float(ndtri(1 - alpha / 2) + ndtri(power)) / math.sqrt(information))


def why_no_estimate(people: pd.DataFrame) -> str:
    """Why the people's hazard ratio cannot be estimated; nothing if it can be tried."""
    arms = {name: people[people["treated"] == value] for value, name in ARMS}
    without = [name for name, arm in arms.items() if len(arm) == 0]
    if without:
        return "nobody is left" if len(without) == 2 else f"nobody is left in the {without[0]} arm"
    without = [name for name, arm in arms.items() if not arm["event"].any()]
    if len(without) == 2:
        return "nobody had the outcome during the time at risk"
    if without:
        return (
            f"nobody in the {without[0]} arm had the outcome during the time at risk, "
            "so there is no finite hazard ratio"
        )
    return ""
