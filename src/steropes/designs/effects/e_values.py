"""E-values: the strength of unmeasured confounding that could explain an effect.

A confounder explains a risk ratio R ≥ 1 only if its risk ratios with the arm and with the outcome
both reach R + √(R (R − 1)) (VanderWeele and Ding 2017). Hazard and odds ratios approximate the risk
ratio of a rare outcome. For a common outcome, which at least 15 % of the people had during
follow-up, they are first converted to an approximate risk ratio (their table 2).

References
----------
VanderWeele and Ding (2017), Ann Intern Med 167:268. VanderWeele (2017), Epidemiology 28:e58, for
common outcomes.
"""

from __future__ import annotations

import math

import pandas as pd

from steropes.designs.effects.outcome_families import Kind, outcome_family

__all__ = ["COMMON", "E_VALUE_FORMS", "e_value", "e_value_of_limit", "is_common", "risk_ratio"]

E_VALUE_FORMS = {False: "rare outcome", True: "common outcome"}
COMMON = 0.15  # The smallest share of people with the outcome that the paper calls common.


def is_common(people: pd.DataFrame) -> bool:
    """Check whether the outcome is common: at least 15 % of the people had it.

    Parameters
    ----------
    people : DataFrame
        With ``event``, which is 1 for people with the outcome.
    """
    return len(people) > 0 and float((people["event"] == 1).mean()) >= COMMON


def risk_ratio(log_ratio: float, kind: Kind = "cox", common: bool = False) -> float:
    """Approximate the risk ratio that corresponds to a ratio of hazards, odds or rates.

    Parameters
    ----------
    log_ratio : float
        Logarithm of the ratio.
    kind : str, default "cox"
        The outcome model: ratios of hazards ("cox", "fine-gray"), odds ("logistic") or rates
        ("poisson").
    common : bool, default False
        Whether the outcome is common. A hazard ratio h is then converted to
        (1 − 0.5^√h) / (1 − 0.5^√(1/h)) and an odds ratio to its square root; a rate ratio is
        unchanged.
    """
    if not math.isfinite(log_ratio):
        return math.nan
    half = math.exp(log_ratio / 2)
    return outcome_family(kind).common_risk_ratio(half) if common else half * half


def e_value(log_ratio: float, kind: Kind = "cox", common: bool = False) -> float:
    """Compute the E-value of an estimate; parameters as in :func:`risk_ratio`."""
    ratio = risk_ratio(abs(log_ratio), kind, common)
    return ratio * (1 + math.sqrt(max(1 - 1 / ratio, 0.0)))  # A square could overflow.


def e_value_of_limit(lower: float, upper: float, kind: Kind = "cox", common: bool = False) -> float:
    """Compute the E-value of the limit nearer to 1; 1 if the interval includes no effect.

    Parameters
    ----------
    lower, upper : float
        Limits of the log ratio.
    kind, common
        As in :func:`risk_ratio`.
    """
    if math.isnan(lower + upper):
        return math.nan
    return e_value(max(lower, -upper, 0.0), kind, common)
