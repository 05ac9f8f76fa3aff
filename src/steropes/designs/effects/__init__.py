"""Effects of one arm against another: outcome models, estimates, risks, counts and curves."""

from steropes.designs.effects.absolute_effects import AbsoluteEffect, absolute_effect
from steropes.designs.effects.effect_estimate import estimate_effect
from steropes.designs.effects.effect_estimate_result import Estimate
from steropes.designs.effects.events_and_curves_by_arm import incidence_rates
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.effects.outcome_summaries import curve_table, detectable_ratio

__all__ = [
    "AbsoluteEffect",
    "Estimate",
    "OutcomeModel",
    "absolute_effect",
    "curve_table",
    "detectable_ratio",
    "estimate_effect",
    "incidence_rates",
]
