"""Calibration tables: predicted risks against observed event rates in groups of similar risk."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..data import check_level, check_weights, refuse_other_order
from ..data.formatted_tables_for_papers import Interval
from ..data.input_types import VectorLike
from ..data.plottable_result_tables import ResultTable, present
from ..data.vector_checks import check_vector
from ..errors import DataError
from .observed_risk import ObservedRisk
from .rounding_ties import merge_rounding_ties

__all__ = ["calibration_table"]


def calibration_table(
    predicted: VectorLike,
    y: VectorLike,
    *,
    time: float | None = None,
    cause: int = 1,
    bins: int = 10,
    sample_weight: VectorLike | None = None,
    level: float = 0.95,
) -> ResultTable:
    """Compare predicted risks with observed event rates in groups of similar risk.

    Parameters
    ----------
    predicted : (n,) array
        Probabilities of the event, such as ``predict_proba(X)[:, 1]``,
        ``1 - predict_survival(X, [t])[:, 0]`` or ``predict_cumulative_incidence(X, [t])[:, 0]``.
    y : (n,) array
        Two classes, of which the second is the event; or ``Surv(time, event[, entry])``.
    time : float, optional
        Time by which the event must have occurred; required for survival outcomes and only
        allowed for them.
    cause : int, default=1
        The event that is predicted, if there are competing events.
    bins : int, default=10
        Number of groups of about equal weight; people with the same risk share a group.
    sample_weight : (n,) array, optional
        Number of people that each row represents.
    level : float, default=0.95
        Confidence level of the limits.

    Returns
    -------
    DataFrame
        One row per group in order of risk: ``people`` (sum of weights), ``predicted`` (mean risk),
        ``observed``, ``lower`` and ``upper``. For classes ``observed`` is the share of events with
        Wilson's limits (1927, JASA 22:209). For survival outcomes it is one minus the Kaplan–Meier
        curve, or the Aalen–Johansen incidence if events compete, with log(−log) limits. If no one
        or everybody had the event, the limit is that of Clopper and Pearson (1934, Biometrika
        26:404).

    Raises
    ------
    DataError
        A risk is not between 0 and 1, or no one in a group was observed until ``time``.

    Examples
    --------
    >>> import steropes
    >>> table = steropes.calibration_table([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], bins=2)
    >>> table[["people", "predicted", "observed"]].round(2).values.tolist()
    [[2.0, 0.15, 0.0], [2.0, 0.85, 1.0]]
    """
    refuse_other_order(predicted, "predicted", y=y, sample_weight=sample_weight)
    risk = check_vector(predicted, None, "predicted")
    n = len(risk)
    if ((risk < 0) | (risk > 1)).any():
        i = int(((risk < 0) | (risk > 1)).argmax())
        raise DataError(f"predicted must be probabilities; row {i} is {risk[i]:g}.")
    if not (isinstance(bins, int | np.integer) and bins >= 1):
        raise DataError(f"bins must be a whole number from 1, not {bins!r}.")
    check_level(level)
    weight = check_weights(sample_weight, n)
    observed = ObservedRisk(y, n, time, cause, weight)
    group = _groups(risk, weight, bins)
    lines = []
    for k in range(group.max() + 1):
        at = np.flatnonzero((group == k) & (weight > 0))
        w = weight[at]
        found = observed.with_limits(at, level)
        lines.append((w.sum(), w @ risk[at] / w.sum(), *found))
    columns = ["people", "predicted", "observed", "lower", "upper"]
    table = pd.DataFrame(lines, pd.RangeIndex(1, len(lines) + 1, name="group"), columns)
    shown = Interval("Observed risk", "observed", level=level)
    return present(
        table, "calibration", intervals=[shown], captions={"predicted": "Predicted risk"}
    )


def _groups(risk: np.ndarray, weight: np.ndarray, bins: int) -> np.ndarray:
    """Assign each row to one of the groups 0, 1, … of about equal weight, keeping ties together."""
    place = np.unique(merge_rounding_ties(risk), return_inverse=True)[1]
    mass = np.bincount(place, weights=weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bin_of = np.minimum((middle * bins).astype(np.int64), bins - 1)
    bin_of = np.where(mass > 0, bin_of, -1)
    _, dense = np.unique(bin_of[mass > 0], return_inverse=True)
    bin_of[mass > 0] = dense
    return bin_of[place]
