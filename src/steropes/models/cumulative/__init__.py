"""Cumulative probability models, ordinal regression for continuous outcomes."""

from ...likelihoods.cumulative import Censored
from .cumulative_model_checks import Parallelism
from .cumulative_probability_model import CumulativeProbabilityModel
from .large_data_approximations import (
    DivideAndCombine,
    EqualQuantileBins,
    RoundDecimals,
    RoundSignificant,
    suggest,
)
from .link_comparison import compare_links
from .predictions import Prediction

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
