"""Clones of people under strategies of when to start a treatment, as weights that change with time.

A clone is followed until its person deviates from the strategy. With the time U of its follow-up
and W its covariates, it has the weight 1 / P(U ≥ t | W) at time t, of a Cox model of deviation
(Cain and others 2010). No clone is stored: deaths and numbers at risk under a strategy are weighted
sums over people, computed for each value of the cumulative hazard of deviation at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from steropes.data import Surv
from steropes.errors import DataError, SeparationError, separation_of
from steropes.models.estimators.cox_regression import CoxRegression

__all__ = [
    "Clones",
    "WeightedCounts",
    "clones_of",
    "log_hazard_ratio",
    "refuse_unfollowed",
    "weight_rows",
]


@dataclass(frozen=True, repr=False)
class Clones:
    """The follow-up of each person under one strategy.

    Attributes
    ----------
    time : ndarray, shape (n,)
        End of follow-up: the event, the loss, or the deviation.
    event, deviated : ndarray of bool, shape (n,)
    """

    time: NDArray[np.float64]
    event: NDArray[np.bool_]
    deviated: NDArray[np.bool_]

    def counts(
        self, X: pd.DataFrame, times: NDArray, people: NDArray, cap: float = np.inf
    ) -> WeightedCounts:
        """Compute weighted events and numbers at risk at each of the event times.

        Parameters
        ----------
        X : DataFrame, shape (n, p)
            Covariates of deviation.
        times : ndarray, shape (m,)
            Event times in ascending order.
        people : ndarray, shape (n,)
            How often each person counts.
        cap : float
            Largest weight.
        """
        steps, hazard, risk = self._deviations(X, people)
        m = len(times)
        out = {name: np.zeros(m) for name in ("events", "at_risk", "square", "largest", "rows")}
        tied = np.zeros(m)
        # The weight at t depends on the hazard of deviation before t.
        segment = np.searchsorted(steps, times, side="left")
        for s in np.unique(segment):
            own = np.flatnonzero(segment == s)
            last = np.searchsorted(times[own], self.time, side="right")
            there = (last > 0) & (people > 0)
            w = np.ones(len(people))  # Weights of people who have left may be infinite.
            w[there] = np.minimum(np.exp(hazard[s] * risk[there]), cap)
            for name, value in (("at_risk", w), ("square", w * w), ("rows", np.ones(len(w)))):
                total = np.bincount(last[there], (people * value)[there], len(own) + 1)
                out[name][own] = total[::-1].cumsum()[::-1][1:]
            most = np.zeros(len(own) + 1)
            np.maximum.at(most, last[there], w[there])
            out["largest"][own] = np.maximum.accumulate(most[::-1])[::-1][1:]
            at = np.searchsorted(times[own], self.time)
            hit = self.event & (people > 0) & (at < len(own))
            hit &= times[own][np.minimum(at, len(own) - 1)] == self.time
            out["events"][own] = np.bincount(at[hit], (people * w)[hit], len(own))
            tied[own] = np.bincount(at[hit], people[hit], len(own))
        return WeightedCounts(times, tied=tied, **out)

    def _deviations(self, X: pd.DataFrame, people: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return times of deviations, the cumulative hazard before and after each, and e^xβ."""
        used = people > 0
        steps = np.unique(self.time[self.deviated & used])
        risk = np.ones(len(self.time))
        if not len(steps):
            return steps, np.zeros(1), risk
        columns = X.columns[(X[used].to_numpy() != X[used].to_numpy()[:1]).any(axis=0)]
        if len(columns):
            y = Surv(self.time[used], self.deviated[used])
            try:
                model = CoxRegression().fit(X.loc[used, columns], y, sample_weight=people[used])
            except SeparationError as error:
                raise SeparationError(
                    "The model of deviation has no finite maximum: "
                    f"{separation_of('deviation', error)} Some people are certain to deviate, or "
                    "not to; leave out or merge the columns.",
                    error.columns,
                ) from None
            # Centred, so that the exponential does not overflow.
            x = X[columns].to_numpy()
            risk = np.exp((x - x.mean(axis=0)) @ model.coef_)
        weighted = np.where(used, people * risk, 0.0)
        order = np.argsort(self.time)
        total = np.append(np.cumsum(weighted[order][::-1])[::-1], 0.0)
        at_risk = total[np.searchsorted(self.time[order], steps)]
        gone = self.deviated & used
        place = np.searchsorted(steps, self.time[gone])
        ties = np.bincount(place, minlength=len(steps))
        leaving = np.bincount(place, weighted[gone], len(steps))
        mean = np.bincount(place, people[gone], len(steps)) / ties
        which, share = _shares(ties)
        terms = mean[which] / (at_risk[which] - share * leaving[which])
        return steps, np.append(0.0, np.cumsum(np.bincount(which, terms, len(steps)))), risk


@dataclass(frozen=True, repr=False)
class WeightedCounts:
    """Weighted events and numbers at risk of one strategy at each event time, (m,) each.

    Attributes
    ----------
    times, events, at_risk : ndarray
        Times, and sums of weights.
    tied : ndarray
        Numbers of events.
    square, largest, rows : ndarray
        Sums of squared weights, largest weights, and numbers of people at risk.
    """

    times: NDArray
    events: NDArray
    at_risk: NDArray
    tied: NDArray
    square: NDArray
    largest: NDArray
    rows: NDArray

    def risk(self) -> NDArray[np.float64]:
        """Compute one minus the weighted Kaplan–Meier curve."""
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.where(self.at_risk > 0, self.events / self.at_risk, 0.0)
        return 1 - np.cumprod(1 - np.minimum(step, 1.0))


def clones_of(time: NDArray, event: NDArray, start: NDArray, window: tuple[float, float]) -> Clones:
    """Follow each person under the strategy of starting within a window.

    Parameters
    ----------
    time, event : ndarray, shape (n,)
        End of observation, and whether the event occurred then.
    start : ndarray, shape (n,)
        Time of the start of treatment, infinite if there is none.
    window : (float, float)
        A start at or before the first time (unless it is zero), and none by the second, is a
        deviation.
    """
    earliest, latest = window
    early = (start <= earliest) & (earliest > 0)
    late = (start > latest) & (time > latest)
    end = np.where(early, start, np.where(late, latest, np.inf))
    deviated = (end < np.inf) & ((end < time) | (early & (end <= time)))
    return Clones(np.minimum(time, end), (event == 1) & ~deviated, deviated)


def log_hazard_ratio(one: WeightedCounts, other: WeightedCounts) -> float:
    """Maximise the partial likelihood of two strategies with Efron's ties.

    The weighted counts of both are all that it depends on. NaN if one strategy has no events.
    """
    used = one.tied + other.tied > 0
    d1, d0, r1, r0 = (x[used] for x in (one.events, other.events, one.at_risk, other.at_risk))
    ties = np.round(one.tied[used] + other.tied[used]).astype(np.int64)
    if not d1.any() or not d0.any():
        return float("nan")
    which, share = _shares(ties)
    mean = ((d1 + d0) / ties)[which]
    a, b = (r1[which] - share * d1[which]), (r0[which] - share * d0[which])

    def score(beta: float) -> float:
        e = np.exp(beta)
        return float(d1.sum() - (mean * a * e / (a * e + b)).sum())

    if score(-30.0) <= 0 or score(30.0) >= 0:
        return float("nan")
    return float(brentq(score, -30.0, 30.0, xtol=1e-12))


def _shares(ties: NDArray) -> tuple[NDArray, NDArray]:
    """Return the number of the time and the share l / d of each of d tied events."""
    which = np.repeat(np.arange(len(ties)), ties)
    number = np.arange(len(which)) - np.repeat(np.cumsum(ties) - ties, ties)
    return which, number / ties[which]


def refuse_unfollowed(clones: Clones, name: str, window: tuple[float, float]) -> None:
    """Refuse a strategy that no one follows to the end of its window."""
    end = window[1] if np.isfinite(window[1]) else window[0]
    if not (~clones.deviated & (clones.time > end)).any():
        raise DataError(
            f"Nobody follows the strategy {name!r} until {end:g}; change its window, or compare "
            "other strategies."
        )
    if not clones.event.any():
        raise SeparationError(
            f"Nobody who follows the strategy {name!r} has the event, so that its effect has no "
            "finite estimate; follow people for longer.",
            [name],
        )


def weight_rows(counts: dict[str, WeightedCounts]) -> Iterator[pd.DataFrame]:
    """Yield the table of weights by time of each strategy."""
    for name, c in counts.items():
        own = c.rows > 0
        yield pd.DataFrame(
            {"strategy": name, "time": c.times[own], "at_risk": c.rows[own], "events": c.tied[own],
             "mean": c.at_risk[own] / c.rows[own], "largest": c.largest[own],
             "effective_size": c.at_risk[own] ** 2 / c.square[own]}
        )  # fmt: skip
