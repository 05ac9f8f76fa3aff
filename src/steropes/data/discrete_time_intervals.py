"""Division of time into intervals, with the first and last in which each person is at risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .survival_outcome import SurvivalOutcome

__all__ = ["IntervalsAtRisk", "TimeIntervals"]

# A time within this relative distance of the end of an interval counts as lying on it.
SNAP = 1e-9
# More intervals than this are refused.
MAX_INTERVALS = 100_000


@dataclass(frozen=True)
class IntervalsAtRisk:
    """The intervals at whose start each person is at risk.

    Person i contributes the intervals ``first[i]``, …, ``last[i] − 1``, counted from 0.
    ``event`` is 1 if the person's event falls into the last of them.
    """

    first: np.ndarray
    last: np.ndarray
    event: np.ndarray


class TimeIntervals:
    """Intervals of time.

    Parameters
    ----------
    breaks : (K + 1,) array
        t_0 < t_1 < … < t_K.
    width : float, optional
        The width of all intervals, if they have one: t_k = k · width from t_0 = 0.
    """

    def __init__(self, breaks: np.ndarray, width: float | None = None) -> None:
        self.breaks = breaks
        self.width = width

    @property
    def K(self) -> int:
        """Number of intervals."""
        return len(self.breaks) - 1

    def name(self, k: int) -> str:
        """Describe the k-th interval, counted from 0, for messages."""
        return f"interval {k + 1}, ({self.breaks[k]:g}, {self.breaks[k + 1]:g}]"

    @classmethod
    def of_width(cls, width: float, outcome: SurvivalOutcome) -> TimeIntervals:
        """Create as many intervals of a width from 0 as are needed to contain every time."""
        width = float(width)
        if not (width > 0 and np.isfinite(width)):
            raise DataError(f"interval must be a positive number, not {width!r}.")
        if outcome.entry is not None and (outcome.entry[np.isfinite(outcome.entry)] < 0).any():
            raise DataError("interval counts time from 0, but entry is negative; give breaks.")
        longest = outcome.time.max()
        if longest / width > MAX_INTERVALS:
            raise DataError(
                f"interval={width:g} cuts the longest time, {longest:g}, into more than "
                f"{MAX_INTERVALS} intervals; choose a longer one."
            )
        K = max(1, int(_snap(np.array([longest / width]), np.ceil)[0]))
        return cls(width * np.arange(K + 1), width)

    @classmethod
    def at(cls, breaks: Sequence[float] | np.ndarray, outcome: SurvivalOutcome) -> TimeIntervals:
        """Create intervals between given breaks.

        If the first break is positive and someone is at risk from 0 or before, 0 is prepended.
        """
        t = np.asarray(breaks, np.float64)
        if t.ndim != 1 or len(t) == 0 or not np.isfinite(t).all():
            raise DataError("breaks must be a sequence of finite numbers.")
        if (np.diff(t) <= 0).any():
            j = int((np.diff(t) <= 0).argmax())
            raise DataError(
                f"breaks must increase; position {j} is {t[j]:g} and the next is {t[j + 1]:g}."
            )
        from_zero = outcome.entry is None or (outcome.entry <= 0).any()
        if t[0] > 0 and from_zero:
            t = np.append(0.0, t)
        if len(t) < 2:
            raise DataError("breaks must enclose at least one interval.")
        return cls(t)

    def cut(self, outcome: SurvivalOutcome, counted: np.ndarray | None = None) -> IntervalsAtRisk:
        """Find the intervals at whose start each person is at risk.

        A person is at risk at the start of interval k if entry ≤ t_{k−1} < time, and is censored
        at the last break.

        Parameters
        ----------
        counted : (n,) bool array, optional
            The people with events that are validated; default all.

        Raises
        ------
        DataError
            If an event lies at or before the first break, where no interval contains it.
        """
        self._refuse_events_at_start(outcome, counted)
        last = self._before(outcome.time)
        within = last <= self.K
        last = np.minimum(last, self.K)
        first = self._before(np.zeros(1) if outcome.entry is None else outcome.entry)
        first = np.minimum(first, last)
        event = ((outcome.event == 1) & within & (last > first)).astype(np.int8)
        return IntervalsAtRisk(first.astype(np.int32), last.astype(np.int32), event)

    def _refuse_events_at_start(self, outcome: SurvivalOutcome, counted: np.ndarray | None) -> None:
        """Refuse events at or before the first break, which no interval contains."""
        if self.breaks[0] > 0:
            return  # a later start excludes earlier events deliberately
        lost = (outcome.event == 1) & (outcome.time <= self.breaks[0])
        lost &= True if counted is None else counted
        if lost.any():
            i = int(lost.argmax())
            raise DataError(
                f"Row {i} has its event at time {outcome.time[i]:g}, which no interval holds: "
                f"they begin after {self.breaks[0]:g}. Give it the smallest time at which events "
                "can be told apart (half a day, say), or drop the row."
            )

    def ended(self, times: np.ndarray) -> np.ndarray:
        """Count the intervals that have ended by each time."""
        if self.width is not None:
            return np.maximum(_snap(times / self.width, np.floor), 0)
        return np.maximum(np.searchsorted(self.breaks, times, side="right") - 1, 0)

    def _before(self, t: np.ndarray) -> np.ndarray:
        """Count the breaks t_0, …, t_K that lie before each t.

        For t in (t_{k−1}, t_k] this is k: the number of the interval that contains t and,
        counted from 0, the number of the next interval to start.
        """
        if self.width is not None:
            t = np.clip(t, 0.0, self.width * (self.K + 2))
            return np.minimum(_snap(t / self.width, np.ceil), self.K + 1)
        return np.searchsorted(self.breaks, t, side="left")


def _snap(x: np.ndarray, rounding: np.ufunc) -> np.ndarray:
    """Round up or down, or to the nearest whole number if x equals it up to rounding."""
    near = np.round(x)
    on = np.abs(x - near) <= SNAP * np.maximum(1.0, np.abs(x))
    return np.where(on, near, rounding(x)).astype(np.int64)
