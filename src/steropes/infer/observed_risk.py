"""Observed risks of groups of people, by classes or by a time, with confidence limits."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ..data import check_classes
from ..data.aalen_johansen import aalen_johansen
from ..data.kaplan_meier import product_limit
from ..data.survival_outcome import SurvivalOutcome, check_survival
from ..errors import DataError

__all__ = ["ObservedRisk"]


class ObservedRisk:
    """Estimates the share of a group of rows that had the event.

    Parameters
    ----------
    y : (n,) array
        Two classes, of which the second is the event; or a survival outcome.
    n : int
        Number of rows.
    time : float or None
        Time by which the event must have occurred, for survival outcomes only.
    cause : int
        The event of interest, if there are competing events.
    weight : (n,) array
        Number of people that each row represents.

    Raises
    ------
    DataError
        If ``time`` and the outcome do not go together, or there are not two classes.
    """

    def __init__(
        self, y: object, n: int, time: float | None, cause: int, weight: np.ndarray
    ) -> None:
        self.time, self.cause, self.weight = time, cause, weight
        self._outcome: SurvivalOutcome | None = None
        survival = getattr(np.asarray(y).dtype, "names", None) is not None
        if survival != (time is not None):
            raise DataError("time is required for survival outcomes and only allowed for them.")
        if survival:
            self._outcome = check_survival(y, n, competing=True)
            return
        classes, self._codes = check_classes(y, n)
        if len(classes) != 2:
            raise DataError(f"y must have two classes, not {len(classes)}.")

    def share(self, at: np.ndarray) -> float:
        """Estimate the risk of rows ``at``, all of which have weight."""
        return self.with_limits(at, 0.95)[0]

    def with_limits(self, at: np.ndarray, level: float) -> tuple[float, float, float]:
        """Estimate the risk of rows ``at`` with its confidence limits."""
        w = self.weight[at]
        if self._outcome is None:
            return _proportion(float(w @ self._codes[at]), float(w.sum()), level)
        assert self.time is not None
        return _by_time(self._outcome, at, w, float(self.time), self.cause, level)


def _proportion(events: float, people: float, level: float) -> tuple[float, float, float]:
    """Compute a proportion and Wilson's limits."""
    z = float(ndtri(0.5 + level / 2))
    p = events / people
    middle = p + z * z / (2 * people)
    half = z * np.sqrt(p * (1 - p) / people + z * z / (4 * people**2))
    below = 1 + z * z / people
    return p, max((middle - half) / below, 0.0), min((middle + half) / below, 1.0)


def _by_time(
    outcome: SurvivalOutcome, at: np.ndarray, weight: np.ndarray, t: float, cause: int, level: float
) -> tuple[float, float, float]:
    """Estimate the risk of rows ``at`` by time t, with limits, allowing for censoring."""
    time, event, entry = outcome
    entry = None if entry is None else entry[at]
    curve = product_limit(time[at], event[at] > 0, entry, weights=weight)
    if t > curve.times[-1] and curve.survival[-1] > 0:
        raise DataError(
            f"Nobody in a group of similar risk was observed until {t:g}: choose an earlier time "
            "or larger groups."
        )
    i = int(np.searchsorted(curve.times, t, side="right")) - 1
    own, other = (event[at] == cause) & (time[at] <= t), (event[at] > 0) & (event[at] != cause)
    if not own.any():  # Clopper and Pearson's limit among those known not to have the event by t
        known = weight[(time[at] >= t) | other].sum()
        return 0.0, 0.0, 1.0 - (0.5 - level / 2) ** (1.0 / known)
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
