"""Outcome models, effect estimates and summaries of outcomes in two arms."""

from steropes.studies.two_arms.absolute_effects import AbsoluteEffect, absolute_effect
from steropes.studies.outcomes.effect_estimate import Estimate, estimate_effect
from steropes.studies.two_arms.outcome_summaries import (
    arm_counts,
    curve_table,
    detectable_ratio,
    follow_up,
)
from steropes.studies.outcomes.settings import OutcomeModel

__all__ = [
    "AbsoluteEffect",
    "Estimate",
    "OutcomeModel",
    "absolute_effect",
    "arm_counts",
    "curve_table",
    "detectable_ratio",
    "estimate_effect",
    "follow_up",
]
