"""Cumulative probability models: ordinal regression of continuous outcomes."""

from ...likelihoods.cumulative import Censored
from .diagnostics import Parallelism, compare_links
from .estimator import CumulativeProbabilityModel
from .predictions import Prediction
from .reductions import (
    DivideAndCombine,
    EqualQuantileBins,
    RoundDecimals,
    RoundSignificant,
    suggest,
)

__all__ = [
    "Censored",
    "CumulativeProbabilityModel",
    "DivideAndCombine",
    "EqualQuantileBins",
    "Parallelism",
    "Prediction",
    "RoundDecimals",
    "RoundSignificant",
    "compare_links",
    "suggest",
]
