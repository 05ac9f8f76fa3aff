"""Calibration: of those given a risk of about ten per cent, do ten per cent have the event?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..data import check_classes, check_level, check_weights, refuse_other_order
from ..data.aalen_johansen import aalen_johansen
from ..data.kaplan_meier import product_limit
from ..data.survival_outcome import check_survival
from ..data.vector_checks import check_vector
from ..errors import DataError
from .tied_scores import merge_rounding_ties

__all__ = ["calibration_table"]


def calibration_table(
    predicted: Any,
    y: Any,
    *,
    time: float | None = None,
    cause: int = 1,
    bins: int = 10,
    sample_weight: Any = None,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compare predicted risks with what happened, by groups of like risk.

    Parameters
    ----------
    predicted : (n,) array
        Probabilities of the event, such as ``predict_proba(X)[:, 1]``,
        ``1 - predict_survival(X, [t])[:, 0]`` or ``predict_cumulative_incidence(X, [t])[:, 0]``.
    y : (n,) array
        Two classes, of which the second is the event; or ``Surv(time, event[, entry])``.
    time : float, optional
        With a survival outcome, and only then: when the event must have happened by.
    cause : int
        With competing events: which of them is predicted, default 1.
    bins : int
        Groups of about equal weight, default 10; people of the same risk are together.
    sample_weight : (n,) array, optional
        Number of people that a row stands for.
    level : float
        Of the limits.

    Returns
    -------
    DataFrame
        A row a group, by risk: ``people`` (sum of weights), ``predicted`` (mean risk),
        ``observed``, ``lower``, ``upper``. Observed are shares with Wilson's limits (1927, JASA
        22:209); of survival outcomes one minus the Kaplan–Meier curve, or where there are
        competing events the Aalen–Johansen incidence, with log(−log) limits; where nobody or
        everybody had the event, the limit is Clopper and Pearson's (1934, Biometrika 26:404).

    Raises
    ------
    DataError
        Risks outside of 0 to 1; a group of whom nobody was seen until ``time``.
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
    survival = getattr(np.asarray(y).dtype, "names", None) is not None
    if survival != (time is not None):
        raise DataError("time goes with a survival outcome, and a survival outcome needs one.")
    group = _groups(risk, weight, bins)
    if survival:
        outcome = check_survival(y, n, competing=True)
    else:
        classes, codes = check_classes(y, n)
        if len(classes) != 2:
            raise DataError(f"y must have two classes, not {len(classes)}.")
    lines = []
    for k in range(group.max() + 1):
        at = np.flatnonzero((group == k) & (weight > 0))
        w = weight[at]
        if survival:
            assert time is not None
            found = _by_time(outcome, at, w, float(time), cause, level)
        else:
            found = _share(float(w @ codes[at]), float(w.sum()), level)
        lines.append((w.sum(), w @ risk[at] / w.sum(), *found))
    columns = ["people", "predicted", "observed", "lower", "upper"]
    return pd.DataFrame(lines, pd.RangeIndex(1, len(lines) + 1, name="group"), columns)


def _groups(risk: np.ndarray, weight: np.ndarray, bins: int) -> np.ndarray:
    """Groups 0, 1, … of about equal weight by risk; equal risks are together."""
    place = np.unique(merge_rounding_ties(risk), return_inverse=True)[1]
    mass = np.bincount(place, weights=weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    bin_of = np.minimum((middle * bins).astype(np.int64), bins - 1)
    bin_of = np.where(mass > 0, bin_of, -1)
    _, dense = np.unique(bin_of[mass > 0], return_inverse=True)
    bin_of[mass > 0] = dense
    return bin_of[place]


def _share(events: float, people: float, level: float) -> tuple[float, float, float]:
    z = float(ndtri(0.5 + level / 2))
    p = events / people
    middle = p + z * z / (2 * people)
    half = z * np.sqrt(p * (1 - p) / people + z * z / (4 * people**2))
    below = 1 + z * z / people
    return p, max((middle - half) / below, 0.0), min((middle + half) / below, 1.0)


def _by_time(
    outcome: Any, at: np.ndarray, weight: np.ndarray, t: float, cause: int, level: float
) -> tuple[float, float, float]:
    time, event, entry = outcome
    entry = None if entry is None else entry[at]
    curve = product_limit(time[at], event[at] > 0, entry, weights=weight)
    if t > curve.times[-1] and curve.survival[-1] > 0:
        raise DataError(
            f"Of a group of like risk nobody was seen until {t:g}: choose an earlier time, or "
            "fewer bins."
        )
    i = int(np.searchsorted(curve.times, t, side="right")) - 1
    own, other = (event[at] == cause) & (time[at] <= t), (event[at] > 0) & (event[at] != cause)
    if not own.any():  # Clopper and Pearson's limit, of those who were seen until then
        return 0.0, 0.0, 1.0 - (0.5 - level / 2) ** (1.0 / weight[time[at] >= t].sum())
    if curve.survival[i] == 0 and not other.any():
        return 1.0, float((0.5 - level / 2) ** (1.0 / weight.sum())), 1.0
    if not other.any():
        lower, upper = curve.interval(level)
        return float(1 - curve.survival[i]), float(1 - upper[i]), float(1 - lower[i])
    names = {"time": time[at], "event": event[at]} | ({} if entry is None else {"entry": entry})
    y = np.empty(len(at), [(name, x.dtype) for name, x in names.items()])
    for name, x in names.items():
        y[name] = x
    curves = aalen_johansen(y, sample_weight=weight)
    risk, (low, high) = curves.at(curves.times), curves.interval(level)
    return float(risk.iloc[i][cause]), float(low.iloc[i][cause]), float(high.iloc[i][cause])
