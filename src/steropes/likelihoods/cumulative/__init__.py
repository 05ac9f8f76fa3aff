"""Cumulative probability models: the likelihood of ordinal and continuous outcomes."""

from .levels import Levels, find_levels, place
from .likelihood import CumulativeLikelihood, Evaluation, Thresholds, quantile_function
from .links import CODES, Link
from .outcome import Censored, Interval, check_interval

__all__ = [
    "CODES",
    "Censored",
    "CumulativeLikelihood",
    "Evaluation",
    "Interval",
    "Levels",
    "Link",
    "Thresholds",
    "check_interval",
    "find_levels",
    "place",
    "quantile_function",
]
