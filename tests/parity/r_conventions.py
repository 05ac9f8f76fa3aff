"""Counts by conventions of SelfControlledCaseSeries 6.1 that differ from this package's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.designs.case_series.calendar_time_splines import month_of
from steropes.designs.case_series.detectable_ratio import minimal_detectable_ratio
from steropes.designs.case_series.event_timing import (
    observed_months,
    observed_outcomes,
    rates_table,
)
from steropes.designs.case_series.interval_rows import Intervals
from steropes.designs.case_series.sccs_model import CaseSeriesModel
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.studies.sccs.cases.case_population import Population
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings

__all__ = [
    "higher_than_at_r", "is_limit", "r_age_spans", "r_calendar_spans", "r_detectable",
    "r_monthly_rates", "r_p_values",
]  # fmt: skip

DROP = float(norm.ppf(0.975)) ** 2 / 2  # Of the log-likelihood at the limits of a 95 % interval.


def is_limit(model: CaseSeriesModel, name: str, ratio: float) -> bool:
    """Check whether the profile likelihood of a covariate at a rate ratio is that of a limit."""
    fits = model.fits
    if fits is None or not 0 < ratio < math.inf:
        return False
    ratios = model.estimates["log_rr"].to_numpy()
    infinite = {j: float(ratios[j]) for j in np.flatnonzero(np.isinf(ratios))}
    at = fits.at(model.estimates.index.get_loc(name), math.log(ratio), infinite)[0]
    return abs(model.log_likelihood - model.penalty - at - DROP) < 1e-5


def higher_than_at_r(
    settings: CaseSeriesSettings,
    intervals: Intervals,
    model: CaseSeriesModel,
    theirs: dict[str, float],
) -> float:
    """Return by how much our penalised log-likelihood is higher than that at R's rate ratios.

    Parameters
    ----------
    theirs : dict of str to float
        R's ratio of each covariate; R leaves out those whose coefficient is zero.

    Returns
    -------
    float
        NaN if R gives no number for a covariate with a finite estimate, or if both programs chose
        the prior's variance.
    """
    columns = np.hstack([intervals.X.toarray(), intervals.time]).astype(float)
    ours = model.estimates["log_rr"].to_numpy()
    ratios = np.array([theirs.get(name, math.nan) for name in intervals.names])
    ratios = np.where(np.isnan(ratios) & (ours == 0), 1.0, ratios)
    used = ~np.isnan(ours)
    with np.errstate(divide="ignore"):
        at_r = np.maximum(np.log(ratios), -700.0)
    eta = columns[:, used] @ at_r[used]
    with np.errstate(over="ignore"):
        expected = intervals.days * np.exp(eta)
    of = np.unique(intervals.case, return_inverse=True)[1]
    share = np.log(expected / np.bincount(of, expected)[of])
    counted = intervals.events > 0
    higher = model.log_likelihood - float(intervals.events[counted] @ share[counted])
    penalized = np.array([column.penalized for column in intervals.columns])
    if settings.prior == "none" or not penalized.any():
        return higher
    v = math.nan if settings.variance is None else settings.variance
    here, there = ours[penalized], at_r[penalized]
    if settings.prior == "laplace":
        return higher - math.sqrt(2 / v) * float(np.abs(here).sum() - np.abs(there).sum())
    return higher - float((here**2).sum() - (there**2).sum()) / (2 * v)


def r_monthly_rates(population: Population) -> pd.DataFrame:
    """Compute monthly rates with each case's time one month too long, as R does.

    The first and the last month count for their shares of 31 days and the months between for one,
    but a case's outcomes are divided by the number of months from first to last plus both shares;
    a case within one month counts from its first day to the end of the month.
    """
    if len(population) == 0:
        return rates_table(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(4)))
    from_, to = population.observed + population.start, population.observed + population.end
    first, last = month_of(from_), month_of(to)
    open_, close = (32 - _day(from_)) / 31, _day(to) / 31
    events = np.bincount(population.outcome_case, minlength=len(population))
    rate = events / (last - first + open_ + close)
    counts = last - first + 1
    of = np.repeat(np.arange(len(first)), counts)
    begins = np.concatenate([[0], np.cumsum(counts)])
    month = np.repeat(first - begins[:-1], counts) + np.arange(begins[-1])
    weight = np.ones(len(month))
    weight[begins[1:] - 1] = close
    weight[begins[:-1]] = open_
    months = observed_months(population)
    at, k = month - months[0], len(months)
    expected = np.bincount(at, weight * rate[of], minlength=k)
    cases = np.bincount(at, weight, minlength=k)
    return rates_table(months, observed_outcomes(population), cases, expected, expected)


def r_detectable(line: Any) -> float:
    """Compute the detectable ratio with excluded early time counted as unexposed time.

    R searches up to a log ratio of 10.
    """
    total = line["observed_days"] + line["days_before"]
    share = line["days"] / total if total else 0.0
    found = minimal_detectable_ratio(float(share), int(line["observed_events"]))
    return min(found, math.exp(10)) if share else found


def r_p_values(log_rr: float, se: float) -> tuple[float, float]:
    """Compute two- and one-sided Wald p-values with the standard error of the interval's width."""
    if not math.isfinite(se):
        return math.nan, math.nan
    z = log_rr / se
    return 2 * float(norm.sf(abs(z))), float(norm.sf(z))


def r_calendar_spans(population: Population) -> pd.DataFrame:
    """Count cases that cover a month and its neighbours, less those who leave two months later."""
    first = month_of(population.observed + population.start) + 1
    last = month_of(population.observed + population.end) - 1
    table = _r_cover(first, last)
    return pd.DataFrame(
        {"year": table["month"] // 12, "month": table["month"] % 12 + 1, "cases": table["cases"]}
    )


def r_age_spans(population: Population) -> pd.DataFrame:
    """Count cases by month of age, adding the age in days to months without conversion."""
    month = DAYS_PER_YEAR / 12
    first = np.ceil(population.age + population.start / month).astype(np.int64) + 1
    last = np.floor((population.age + population.end) / month).astype(np.int64) - 1
    return _r_cover(first, last).rename(columns={"month": "age_month"})


def _r_cover(first: NDArray, last: NDArray) -> pd.DataFrame:
    """Count the running sum of starts minus ends, filling gaps with the previous month's count."""
    low = int(min(first.min(), last.min()))
    high = int(max(first.max(), last.max()))
    steps = np.bincount(first - low, minlength=high - low + 1)
    steps = steps - np.bincount(last - low, minlength=high - low + 1)
    changes = np.union1d(first, last) - low
    running = np.cumsum(steps)
    kept = changes[running[changes] > 0]
    if len(kept) == 0:
        return pd.DataFrame({"month": np.zeros(0, np.int64), "cases": np.zeros(0, np.int64)})
    months = np.arange(kept[0], kept[-1] + 1)
    at = np.searchsorted(kept, months, side="right") - 1
    return pd.DataFrame({"month": months + low, "cases": running[kept][at]})


def _day(day: NDArray) -> NDArray:
    """Return the day of the month, counted from one."""
    dates = np.asarray(day, "datetime64[D]")
    return (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1
