"""Rows of the table of effects: differences and ratios of two groups with limits and labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import ResultTable, present

__all__ = ["EffectRow", "Values", "contrasts", "effects_table", "is_ratio"]

# Differences and logarithms of ratios by measure and scale.
Values: TypeAlias = dict[tuple[str, str], float]

# Names of the difference and of the ratio of a statistic; there is no ratio of means that may be
# negative.
NAMES = {
    "risk": ("risk difference", "risk ratio"),
    "positive mean": ("mean difference", "mean ratio"),
    "mean": ("mean difference", None),
    "rate": ("rate difference", "rate ratio"),
    "restricted mean": ("restricted mean difference", None),
    # Of `compare_means`, in which means of both kinds have one name.
    "group mean": ("difference", "ratio"),
}


@dataclass(frozen=True)
class EffectRow:
    """One effect. ``se`` of a ratio is that of its logarithm."""

    method: str
    measure: str
    scale: str
    target: float
    comparator: float
    estimate: float
    lower: float
    upper: float
    se: float
    p: float
    errors: str

    @classmethod
    def of(
        cls, method: str, measure: str, value: float, se: float, errors: str, level: float,
        *, scale: str = "marginal", groups: tuple[float, float] = (math.nan, math.nan),
    ) -> EffectRow:  # fmt: skip
        """Make a row from a difference, or from the logarithm of a ratio."""
        q = float(norm.ppf(0.5 + level / 2))
        limits = np.array([value, value - q * se, value + q * se])
        estimate, lower, upper = map(float, np.exp(limits) if is_ratio(measure) else limits)
        p = 2 * float(norm.sf(abs(value) / se)) if se > 0 else math.nan
        return cls(
            method, measure, scale, float(groups[0]), float(groups[1]), estimate, lower, upper, se,
            p, errors,
        )  # fmt: skip

    @property
    def value(self) -> float:
        """The difference, or the logarithm of the ratio."""
        return math.log(self.estimate) if is_ratio(self.measure) else self.estimate


def is_ratio(measure: str) -> bool:
    """Return whether a measure is a ratio, whose errors are those of its logarithm."""
    return measure.endswith("ratio")


def contrasts(
    name: str, values: NDArray, V: NDArray, *, odds: bool = False
) -> Iterator[tuple[str, float, float]]:
    """Yield the measures of a statistic: name, difference or log ratio, and standard error.

    Parameters
    ----------
    name : str
        The statistic.
    values : ndarray, shape (2,)
        Of the target and of the comparator.
    V : ndarray, shape (2, 2)
        Their covariance matrix.
    odds : bool, default False
        Whether there is an odds ratio, which risks always have.
    """
    difference, ratio = NAMES[name]
    yield difference, float(values[0] - values[1]), _error(np.array([1.0, -1.0]), V)
    if ratio is None or not (values > 0).all():
        return
    yield ratio, float(np.log(values[0] / values[1])), _error(np.array([1.0, -1.0]) / values, V)
    if (odds or name == "risk") and (values < 1).all():
        of = values / (1 - values)
        slope = np.array([1.0, -1.0]) / (values * (1 - values))
        yield "odds ratio", float(np.log(of[0] / of[1])), _error(slope, V)


def _error(slope: NDArray, V: NDArray) -> float:
    """Compute the error of a function by the delta method."""
    return float(np.sqrt(max(slope @ V @ slope, 0.0)))


def effects_table(
    rows: list[EffectRow],
    estimand: str,
    level: float,
    names: tuple[str, str] = ("Target", "Comparator"),
) -> ResultTable:
    """Make the table of effects, which draws itself as a forest.

    Parameters
    ----------
    rows : list of EffectRow
    estimand : str
        The same in all rows, so that the table of a paper has it in its caption, not in a column.
    level : float
    names : (str, str)
        Of the target and the comparator, as captions of their risks or means in a paper.
    """
    table = pd.DataFrame([asdict(row) for row in rows])
    table.insert(3, "estimand", estimand)
    return present(
        table, "forest",
        intervals=(Interval("Effect", "estimate", "lower", "upper", level),),
        labels=("method", "measure"), hidden=("se", "estimand"),
        captions={"target": names[0], "comparator": names[1], "errors": "Standard errors"},
    )  # fmt: skip
