"""Supplements to the main analysis: alternative adjustments, E-values and follow-up times.

All adjustments use the study's propensity scores but estimate effects in different populations (the
estimand). Their estimates therefore need not agree, and their spread is part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from steropes.studies.comparative.outcome_analysis import AnalysisResult
from steropes.studies.outcomes.effect_estimate import Estimate
from steropes.studies.results.ratios import ratio_of

__all__ = ["COUNTS", "Beside", "adjustment_table", "e_values", "follow_up_table"]

ARMS = ((1, "target"), (0, "comparator"))
COUNTS = ("people", "events", "informative")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, repr=False, eq=False)
class Beside:
    """Results that supplement the hazard ratio of the main analysis.

    Attributes
    ----------
    adjustments : DataFrame
        ``analysis``, ``estimand`` ("att", "ate", "ato"), ``hr``, ``lower``, ``upper``, ``p``,
        ``note`` and ``converged``: intervals of the profile likelihood or, with weights, robust
        ones. Then the ``people`` and ``events`` of each arm, with the prefixes ``target_`` and
        ``comparator_``, and ``informative``, the events that contribute to the estimate.
    proportional_p : float
        P value that hazards are proportional between the matched arms, within pairs.
    follow_up : DataFrame
        ``analysis`` ("all", "matched"), ``arm``, and ``p10`` to ``p90``, quantiles of the days.
    source : dict
        Name, versions and dates of the database and its vocabulary, as ``cdm_source`` has them.
    """

    adjustments: pd.DataFrame
    proportional_p: float
    follow_up: pd.DataFrame
    source: dict[str, str | None]


def adjustment_table(results: Iterable[AnalysisResult]) -> pd.DataFrame:
    """List the estimates of analyses, one row each, as in ``Beside.adjustments``."""
    lines = []
    for result in results:
        e = result.estimate
        ends = (math.nan,) * 3 if e.note else (e.log_rr, e.lower, e.upper)
        hr, lower, upper = map(ratio_of, ends)
        lines.append(
            {
                "analysis": result.analysis.description,
                "estimand": result.estimand,
                "hr": hr,
                "lower": lower,
                "upper": upper,
                "p": math.nan if e.note else e.p,
                "note": e.note,
                "converged": e.converged,
            }
        )
        for k, (_, arm) in enumerate(ARMS):
            counts = result.counts[f"{arm}_subjects"], result.counts[f"{arm}_outcomes"]
            values = (*counts, result.informative[k])
            lines[-1] |= {f"{arm}_{x}": n for x, n in zip(COUNTS, values, strict=True)}
    columns = ["analysis", "estimand", "hr", "lower", "upper", "p", "note", "converged"]
    columns += [f"{arm}_{x}" for _, arm in ARMS for x in COUNTS]
    return pd.DataFrame(lines, columns=columns)


def e_values(hr: float, lower: float, upper: float, common: bool = False) -> tuple[float, float]:
    """Compute the E-values of a hazard ratio and of its limit that is nearer to no effect.

    ``common``: whether the outcome is common, in 15 % of the people or more.
    """
    if not all(math.isfinite(x) and x > 0 for x in (hr, lower, upper)):
        return math.nan, math.nan
    found = Estimate(
        log_rr=math.log(hr), lower=math.log(lower), upper=math.log(upper), common=common
    )
    return found.e_value, found.e_value_limit


def follow_up_table(people: pd.DataFrame) -> pd.DataFrame:
    """Compute quantiles of the days of each arm, before matching and of the matched."""
    lines = []
    for analysis, of in (("all", people), ("matched", people[people["matched_set"] >= 0])):
        for value, arm in ARMS:
            days = of.loc[of["treated"] == value, "time"].to_numpy(dtype=float)
            found = np.quantile(days, QUANTILES) if len(days) else np.full(len(QUANTILES), np.nan)
            told = {f"p{100 * q:.0f}": float(x) for q, x in zip(QUANTILES, found, strict=True)}
            lines.append({"analysis": analysis, "arm": arm, **told})
    return pd.DataFrame(lines)
