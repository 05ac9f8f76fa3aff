"""Weights for event-dependent observation by the rules of SelfControlledCaseSeries 6.1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from steropes.designs.case_series.event_dependent_observation import CensorModel
from steropes.designs.case_series.interval_rows import Intervals
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.studies.sccs.cases.case_population import Population

__all__ = ["RCensorModel", "counted_by_weights", "r_censor_model"]

DAY = 1 / DAYS_PER_YEAR
STEEP = 1000.0  # R replaces weights that are larger than at the start of the interval by this.
TOLERANCE, NARROWEST = 1.490116e-08, 1e-5
SAMPLES = (0.9501, 0.2311, 0.6068, 0.4860, 0.8913)  # R estimates the size of the integral there.


@dataclass(frozen=True)
class RCensorModel(CensorModel):
    """R's model of the end of observation, with R's weights: those of the age at the first day.

    R integrates by its own recursion up to the last day but for 1e-7 years. If the density is a
    thousand times higher there than at the start, the last days that it holds to be steep have a
    constant weight, and if all are, the case is lost: its weights are missing.
    """

    def weights(
        self, age: NDArray, start: NDArray, end: NDArray, known: NDArray, first: NDArray,
        last: NDArray,
    ) -> NDArray:  # fmt: skip
        """Integrate the density over intervals, as `CensorModel.weights`."""
        with np.errstate(all="ignore"):
            return np.array(
                [
                    _weight(self._density(a * DAY, (a + e + 1) * DAY, bool(k)),
                            (a + f) * DAY, (a + to + 1) * DAY - 1e-07)
                    for a, e, k, f, to in zip(age, end, known, first, last, strict=True)
                ]
            ) * DAYS_PER_YEAR  # fmt: skip

    def _density(self, begin: float, end: float, known: bool) -> Callable[[float], float]:
        """Return the density of an end of observation after an event at an age in years."""
        p = np.asarray(self.parameters)
        family, scale = self.kind.split("-")
        soon = np.exp(-p[0])

        def value(x: float) -> float:
            """Return R's value of the density."""
            anchor = np.log(begin if scale == "age" else x)
            late, shape = np.exp(-(p[1] + p[2] * anchor)), np.exp(p[5] + p[6] * anchor)
            share = np.exp(p[3] + p[4] * x)
            share = share / (1 + share)
            since = end - x
            at, from_ = (end, x) if scale == "age" else (since, 0.0)
            if family == "weibull":
                survival = np.exp(-((at * late) ** shape - (from_ * late) ** shape))
                density = shape * late * (at * late) ** (shape - 1) * survival
            else:
                rate = shape * late
                before = 1.0 if scale == "interval" else gammaincc(shape, from_ * rate) or 1e-9
                logs = shape * np.log(rate) + (shape - 1) * np.log(at) - rate * at
                density = np.exp(logs - gammaln(shape)) / before
                survival = gammaincc(shape, at * rate) / before
            early = np.exp(-soon * since)
            ends = np.log(share * soon * early + (1 - share) * density)
            stays = np.log(share * early + (1 - share) * survival)
            # R computes both, so that a value of zero of the other is no number.
            return float(np.exp((not known) * ends + known * stays))

        return value


def r_censor_model(table: pd.DataFrame) -> CensorModel | None:
    """Return the model of R's table ``sccs_censor_model``; None if the table has none."""
    if not len(table):
        return None
    rows = table.sort_values("parameter_id")
    kind = str(rows["model_type"].iloc[0]).lower()
    return RCensorModel(kind, tuple(rows["parameter_value"].astype(float)), float("nan"))


def counted_by_weights(intervals: Intervals, population: Population) -> Intervals:
    """Leave out cases of which a weight is missing, and count weights as days, as R does."""
    lost = np.unique(intervals.case[~np.isfinite(intervals.days)])
    kept = intervals.take(~np.isin(intervals.case, lost))
    case = np.unique(kept.case)
    subjects = len(np.unique(population.person[case]))
    events = int(np.isin(population.outcome_case, case).sum())
    line = (kept.attrition[0], subjects, events, len(case), float(kept.days.sum()))
    return replace(kept, attrition=line)


def _weight(value: Callable[[float], float], low: float, high: float) -> float:
    """Integrate the density over an interval by R's rules; NaN if R loses the case."""

    def steep(found: float) -> bool:
        """Check whether R does not use a value of the density."""
        return not (np.isfinite(found) and np.isfinite(first)) or found > STEEP * first

    first = value(low)
    if not steep(value(high)):
        return _integral(value, low, high)
    last = high - DAY
    found = value(last)
    while last > low and steep(found):
        last -= DAY
        found = value(last)
    return float("nan") if last <= low else _integral(value, low, last) + (high - last) * found


def _integral(value: Callable[[float], float], low: float, high: float) -> float:
    """Integrate by R's adaptive Simpson rule."""
    ends = value(low), value((low + high) / 2), value(high)
    if not np.isfinite(ends).all():
        return float("nan")
    size = (high - low) / 8 * (sum(ends) + sum(value(low + s * (high - low)) for s in SAMPLES))
    return _refined(value, low, high, ends, (size or high - low) * TOLERANCE, 0)


def _refined(
    value: Callable[[float], float], low: float, high: float, ends: tuple[float, float, float],
    tolerance: float, depth: int,
) -> float:  # fmt: skip
    """Halve an interval until Simpson's rule agrees with that of the halves."""
    middle, quarter = (low + high) / 2, (high - low) / 4
    left, right = value(low + quarter), value(high - quarter)
    if not np.isfinite((left, right)).all():
        return float("nan")
    whole = quarter / 1.5 * (ends[0] + 4 * ends[1] + ends[2])
    halves = quarter / 3 * (ends[0] + 4 * (left + right) + 2 * ends[1] + ends[2])
    better = (16 * halves - whole) / 15
    if abs(better - halves) <= abs(tolerance) or middle - low < NARROWEST:
        return better
    if depth >= 100:
        return 0.0
    return _refined(value, low, middle, (ends[0], left, ends[1]), tolerance, depth + 1) + _refined(
        value, middle, high, (ends[1], right, ends[2]), tolerance, depth + 1
    )
