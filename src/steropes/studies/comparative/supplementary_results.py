"""Results that supplement the main hazard ratio: alternative adjustments, follow-up and versions.

All adjustments use the study's propensity scores but estimate effects in different populations (the
estimand). Their estimates therefore need not agree, and their spread is part of the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from steropes.designs.effects.effect_estimate_result import Estimate

__all__ = ["SupplementaryResults", "e_values"]


@dataclass(frozen=True, repr=False, eq=False)
class SupplementaryResults:
    """Results that supplement the hazard ratio of the main analysis.

    Attributes
    ----------
    adjustments : DataFrame
        ``analysis``, ``estimand`` ("att", "ate", "ato"), ``hr``, ``lower``, ``upper``, ``p``,
        ``note`` and ``converged``: intervals of the profile likelihood or, with weights, robust
        ones.
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
