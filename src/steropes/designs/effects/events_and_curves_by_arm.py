"""The outcome in two arms: events, rates and survival curves.

Every function takes the people of one analysis (a table with ``treated``, ``time`` in days,
``event``), so that the same code serves the whole cohort and the matched one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from steropes.data.kaplan_meier import product_limit
from steropes.data.survival_curve import KaplanMeier
from steropes.designs.values.arm_names import TREATED_ARMS
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.designs.values.input_checks import require_people

__all__ = ["DAYS_PER_YEAR", "ArmCurve", "arm_curves", "incidence_rates", "poisson_rate"]


@dataclass(frozen=True, repr=False)
class ArmCurve(KaplanMeier):
    """The curve of an arm; its ``repr`` does not list when each person had the event."""

    def __repr__(self) -> str:
        return f"ArmCurve({len(self.times):,} times)"


def incidence_rates(people: pd.DataFrame) -> pd.DataFrame:
    """Tabulate people, person-years, events and rates in each arm.

    Parameters
    ----------
    people : DataFrame
        ``treated``, ``time`` (days) and ``event``.

    Returns
    -------
    DataFrame
        Rows ``target`` and ``comparator``; columns ``people``, ``person_years``, ``events``,
        ``rate`` (events per 1,000 person-years), and its exact Poisson 95 % limits ``rate_lower``
        and ``rate_upper``.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.effects import incidence_rates
    >>> people = pd.DataFrame({"treated": [1, 1, 0, 0], "time": [365.25, 365.25, 365.25, 365.25],
    ...                        "event": [1, 1, 1, 0]})
    >>> incidence_rates(people)["rate"].tolist()
    [1000.0, 500.0]
    """
    require_people(people, "treated", "time", "event")
    lines = []
    for value, _ in TREATED_ARMS:
        arm = people[people["treated"] == value]
        years = float(arm["time"].sum()) / DAYS_PER_YEAR
        events = int(arm["event"].sum())
        lines.append((len(arm), years, events, *poisson_rate(events, years)))
    return pd.DataFrame(
        lines,
        index=pd.Index([name for _, name in TREATED_ARMS], name="arm"),
        columns=["people", "person_years", "events", "rate", "rate_lower", "rate_upper"],
    )


def poisson_rate(events: int, years: float) -> tuple[float, float, float]:
    """Compute events per 1,000 person-years with exact Poisson 95 % limits; NaN without time."""
    from scipy.stats import chi2

    lower = chi2.ppf(0.025, 2 * events) / 2 if events else 0.0
    upper = chi2.ppf(0.975, 2 * events + 2) / 2
    scale = 1000 / years if years > 0 else math.nan
    return events * scale, lower * scale, upper * scale


def arm_curves(people: pd.DataFrame) -> dict[str, ArmCurve]:
    """Compute the Kaplan–Meier curves of the arms that have people, by name."""
    curves = {}
    for value, name in TREATED_ARMS:
        arm = people[people["treated"] == value]
        if len(arm):
            curves[name] = ArmCurve(**vars(product_limit(arm["time"], arm["event"])))
    return curves
