"""Outcome models, effect estimates and summaries of outcomes in two arms."""

from steropes.designs.effects.absolute_effects import AbsoluteEffect, absolute_effect
from steropes.designs.effects.outcome_summaries import (
    arm_counts,
    curve_table,
    detectable_ratio,
    follow_up,
)
from steropes.studies.outcomes.effect_estimate import Estimate, estimate_effect
from steropes.studies.outcomes.settings import OutcomeModel
from steropes.studies.outcomes.signal_injection import (
    InjectedOutcomes,
    Synthesis,
    add_outcomes,
    outcome_rates,
)

__all__ = [
    "AbsoluteEffect",
    "Estimate",
    "InjectedOutcomes",
    "OutcomeModel",
    "Synthesis",
    "absolute_effect",
    "add_outcomes",
    "arm_counts",
    "curve_table",
    "detectable_ratio",
    "estimate_effect",
    "follow_up",
    "outcome_rates",
]
