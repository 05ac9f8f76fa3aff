"""The likelihood of cumulative probability models for ordinal and continuous outcomes."""

from .censored_outcome import Censored, Interval, check_interval
from .cumulative_likelihood import CumulativeLikelihood, LevelsWithMass, PointOnLevels
from .cumulative_loss import CumulativeRows, Evaluation, Thresholds, quantile_function
from .interval_log_probabilities import CODES, Link
from .shard_threshold_sums import LaneRows, ShardedLevels, ShardLevels
from .turnbull_intervals import Levels, find_levels, fold_label, place

__all__ = [
    "CODES",
    "Censored",
    "CumulativeLikelihood",
    "CumulativeRows",
    "Evaluation",
    "Interval",
    "LaneRows",
    "Levels",
    "LevelsWithMass",
    "Link",
    "PointOnLevels",
    "ShardLevels",
    "ShardedLevels",
    "Thresholds",
    "check_interval",
    "find_levels",
    "fold_label",
    "place",
    "quantile_function",
]
