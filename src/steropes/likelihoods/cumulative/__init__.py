"""Cumulative probability models: the likelihood of ordinal and continuous outcomes."""

from .level_part import LaneRows, LevelPart, LevelsInBlocks
from .levels import GROUPS, Levels, find_levels, fold_label, place
from .likelihood import CumulativeLikelihood, LevelsWithMass, PointOnLevels
from .links import CODES, Link
from .outcome import Censored, Interval, check_interval
from .rows import CumulativeRows, Evaluation, Thresholds, quantile_function

__all__ = [
    "CODES",
    "GROUPS",
    "Censored",
    "CumulativeLikelihood",
    "CumulativeRows",
    "Evaluation",
    "Interval",
    "LaneRows",
    "LevelPart",
    "Levels",
    "LevelsInBlocks",
    "LevelsWithMass",
    "Link",
    "PointOnLevels",
    "Thresholds",
    "check_interval",
    "find_levels",
    "fold_label",
    "place",
    "quantile_function",
]
