"""Timing of events: around the start of exposure, by age and by calendar month."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.case_series.calendar_time_splines import TimeEffect, first_day, month_of
from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series.interval_splitting import case_day_key
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR

__all__ = [
    "Exposures",
    "age_spans",
    "calendar_spans",
    "monthly_rates",
    "remaining_time",
    "time_to_event",
]

# Weeks around the first exposure, half a year on each side.
WEEKS = (-26, 26)


@dataclass(frozen=True, repr=False)
class Exposures:
    """Eras of one exposure among the cases: case numbers, first and last days."""

    case: NDArray
    first: NDArray
    last: NDArray


def time_to_event(population: Cases, exposures: Exposures) -> pd.DataFrame:
    """Count outcomes and observed cases by week around the start of the first exposure.

    An era counts as exposure only if it begins on a day that counts other than the last one.

    Returns
    -------
    DataFrame
        Columns ``week`` (−26 … 25; week 0 begins with the exposure), ``outcomes``,
        ``exposed`` (outcomes during any era) and ``observed`` (cases observed in that week).
    """
    case, first, last = exposures.case, exposures.first, exposures.last
    inside = (first >= population.start[case]) & (first < population.end[case])
    case, first, last = case[inside], first[inside], last[inside]
    begin = np.full(len(population), np.iinfo(np.int64).max)
    np.minimum.at(begin, case, first)
    has = np.zeros(len(population), bool)
    has[case] = True
    used = has[population.outcome_case]
    of, day = population.outcome_case[used], population.outcome_day[used]
    week = np.floor_divide(day - begin[of], 7)
    exposed = _during(case, first, last, of, day)
    weeks = np.arange(*WEEKS)
    shown = (week >= WEEKS[0]) & (week < WEEKS[1])
    from_, to = population.start[has] - begin[has], population.end[has] - begin[has]
    observed = [int(((to >= 7 * w) & (from_ < 7 * w + 7)).sum()) for w in weeks]
    return pd.DataFrame(
        {
            "week": weeks,
            "outcomes": np.bincount(week[shown] - WEEKS[0], minlength=len(weeks)),
            "exposed": np.bincount(week[shown & exposed] - WEEKS[0], minlength=len(weeks)),
            "observed": observed,
        }
    )


def _during(case: NDArray, first: NDArray, last: NDArray, of: NDArray, day: NDArray) -> NDArray:
    """Mark each (of, day) that falls in an era of its case."""
    order = np.lexsort((first, case))
    key = case_day_key(case[order], first[order])
    # The latest end of the case's eras so far; ends of earlier cases are below any key of it.
    reach = np.maximum.accumulate(case_day_key(case[order], last[order])) if len(order) else key
    at = np.searchsorted(key, case_day_key(of, day), side="right") - 1
    found = at >= 0
    found[found] = reach[at[found]] >= case_day_key(of, day)[found]
    return found


def age_spans(population: Cases) -> pd.DataFrame:
    """Count the cases whose time covers each month of age and the months before and after.

    Returns
    -------
    DataFrame
        ``age_month`` (completed months) and ``cases``.
    """
    month = DAYS_PER_YEAR / 12
    first = np.floor((population.age + population.start) / month).astype(np.int64) + 1
    last = np.floor((population.age + population.end) / month).astype(np.int64) - 1
    table = _cover(first, last)
    return table.rename(columns={"month": "age_month"})


def calendar_spans(population: Cases) -> pd.DataFrame:
    """Count the cases whose time covers each calendar month and the months before and after.

    Returns
    -------
    DataFrame
        ``year``, ``month`` (1 … 12) and ``cases``.
    """
    first = month_of(population.observed + population.start) + 1
    last = month_of(population.observed + population.end) - 1
    table = _cover(first, last)
    return pd.DataFrame(
        {"year": table["month"] // 12, "month": table["month"] % 12 + 1, "cases": table["cases"]}
    )


def _cover(first: NDArray, last: NDArray) -> pd.DataFrame:
    """Count the spans first … last (inclusive) that cover each month."""
    keep = last >= first
    first, last = first[keep], last[keep]
    if len(first) == 0:
        return pd.DataFrame({"month": np.zeros(0, np.int64), "cases": np.zeros(0, np.int64)})
    low, high = int(first.min()), int(last.max())
    steps = np.bincount(first - low, minlength=high - low + 2)
    steps = steps - np.bincount(last + 1 - low, minlength=high - low + 2)
    months = np.arange(low, high + 1)
    return pd.DataFrame({"month": months, "cases": np.cumsum(steps)[: len(months)]})


def remaining_time(population: Cases) -> pd.DataFrame:
    """Count outcomes by the time until observation ends, in forty bars.

    Returns
    -------
    DataFrame
        ``start`` and ``stop`` of each bar in years, the outcomes before the person's observation
        ``ended``, and those before the end of the data or of the study, ``data_ended``. The bars
        reach to the 95 % quantile, rounded up to whole years, which no single person sets.
    """
    years = (population.end[population.outcome_case] - population.outcome_day) / DAYS_PER_YEAR
    known = population.end_known[population.outcome_case]
    last = max(math.ceil(np.quantile(years, 0.95)), 1) if len(years) else 1
    edges = np.linspace(0, last, 41)
    counts = {
        name: np.histogram(years[chosen], edges)[0]
        for name, chosen in (("ended", ~known), ("data_ended", known))
    }
    return pd.DataFrame({"start": edges[:-1], "stop": edges[1:], **counts})


def monthly_rates(
    population: Cases, effects: Sequence[tuple[TimeEffect, NDArray]] = ()
) -> pd.DataFrame:
    """Compute observed and expected outcomes of each calendar month.

    A case's outcomes are expected to be uniform over its days or, with ``effects``, proportional to
    the model's rate in each of its months.

    Parameters
    ----------
    effects : sequence of (TimeEffect, array)
        The model's splines, including age, with their coefficients.

    Returns
    -------
    DataFrame
        ``year``, ``month``, ``observed`` (outcomes), ``cases`` (observed, in person-months),
        ``expected``, ``adjusted`` (expected with ``effects``), ``ratio`` and ``adjusted_ratio``
        (observed over either; 0 if nothing is expected).
    """
    if len(population) == 0:
        return rates_table(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(4)))
    month, of, share, days = _person_months(population)
    months = observed_months(population)
    at = month - months[0]
    events = np.bincount(population.outcome_case, minlength=len(population))

    def expected(mass: NDArray) -> NDArray:
        """Distribute each case's events in proportion to a mass per month, and sum by month."""
        total = np.bincount(of, mass, minlength=len(population))
        return np.bincount(at, mass * (events / total)[of], minlength=len(months))

    plain = adjusted = expected(days)
    if effects:
        adjusted = expected(days * np.exp(_log_effect(population, effects, months, at, of)))
    cases = np.bincount(at, share, minlength=len(months))
    return rates_table(months, observed_outcomes(population), cases, plain, adjusted)


def _log_effect(
    population: Cases,
    effects: Sequence[tuple[TimeEffect, NDArray]],
    months: NDArray,
    at: NDArray,
    of: NDArray,
) -> NDArray:
    """Compute the log rate in each month of each case, relative to the case's highest month.

    Within a person, age and calendar time increase together, and their effects may be large with
    opposite signs: only their sum within a case is meaningful.
    """
    log_rate = np.zeros(len(at))
    for effect, beta in effects:
        if effect.kind == "age":
            begins = first_day(months)[at] - population.observed[of]
            age = population.age[of] + np.maximum(begins, population.start[of])
            age -= (youngest := age.min())  # Few distinct whole days: a table covers them all.
            day = age.astype(np.int64)
            log_rate += (effect.basis(youngest + np.arange(day.max() + 1)) @ beta)[day]
        else:
            x = months % 12 + 1 if effect.kind == "season" else months
            log_rate += (effect.basis(x.astype(float)) @ beta)[at]
    heads = np.flatnonzero(np.diff(of, prepend=-1))
    return log_rate - np.maximum.reduceat(log_rate, heads)[of]


def rates_table(
    months: NDArray, observed: NDArray, cases: NDArray, plain: NDArray, adjusted: NDArray
) -> pd.DataFrame:
    """Assemble the table of `monthly_rates`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [np.where(e == 0, 0.0, observed / e) for e in (plain, adjusted)]
    return pd.DataFrame(
        {
            "year": months.astype(np.int64) // 12,
            "month": months.astype(np.int64) % 12 + 1,
            "observed": observed,
            "cases": cases,
            "expected": plain,
            "adjusted": adjusted,
            "ratio": ratios[0],
            "adjusted_ratio": ratios[1],
        }
    )


def observed_outcomes(population: Cases) -> NDArray:
    """Count the outcomes in each of the `observed_months`."""
    months = observed_months(population)
    day = population.observed[population.outcome_case] + population.outcome_day
    return np.bincount(month_of(day) - months[0], minlength=len(months))


def observed_months(population: Cases) -> NDArray:
    """Return the months since year 0, from the first observed to the last."""
    first = month_of(population.observed + population.start)
    last = month_of(population.observed + population.end)
    return np.arange(first.min(), last.max() + 1)


def _person_months(population: Cases) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return month, case, observed share of the month, and days, for each month of each case."""
    from_, to = population.observed + population.start, population.observed + population.end
    first, last = month_of(from_), month_of(to)
    counts = last - first + 1
    of = np.repeat(np.arange(len(first)), counts)
    begins = np.concatenate([[0], np.cumsum(counts)])
    month = np.repeat(first - begins[:-1], counts) + np.arange(begins[-1])
    opens, closes = first_day(month), first_day(month + 1)
    days = np.minimum(closes, to[of] + 1) - np.maximum(opens, from_[of])
    return month, of, days / (closes - opens), days.astype(float)
