"""The outcome in two arms: models of the effect, and what is told besides."""

from .absolute import AbsoluteEffect, absolute_effect
from .estimate import Estimate, estimate_effect
from .settings import OutcomeModel
from .summaries import arm_counts, curve_table, detectable_ratio, follow_up

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
