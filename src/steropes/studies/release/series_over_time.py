"""Released outcomes of case series by calendar time, and by the time until observation ends.

Months and bars divide the same outcomes as weeks and windows do. Periods are therefore so wide that
none has few outcomes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.disclosive_digit_rounding import in_ratios, log_units
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.release.joint_series_counts import SET

__all__ = [
    "binned",
    "month_periods",
    "released_trend",
    "released_years",
    "time_until_end",
    "without_ends",
]

MONTHS = (1, 2, 3, 4, 6, 12)  # Possible widths of periods, which divide a year.
EXPECTED = {"ratio": "expected", "adjusted_ratio": "adjusted"}


def binned(table: pd.DataFrame, names: tuple[str, ...], rules: DisclosureRules) -> pd.DataFrame:
    """Round the counts of long series to multiples of ``least``; small ones become −``least``."""
    found = {}
    for name in names:
        counts, of = np.unique(table[name].to_numpy(), return_inverse=True)
        found[name] = np.array([rules.coarse(int(n)) for n in counts], np.int64)[of]
    return table.assign(**found)


def without_ends(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Omit the first and last months of each series, in which few people or no one is observed.

    The first month in which anybody is observed, at any age, is that of a single person.
    """
    enough = table[name] > 0
    of = [table[k] for k in SET]
    kept = enough.groupby(of).cummax() & enough[::-1].groupby(of).cummax()[::-1]
    return table[kept].reset_index(drop=True)


def released_trend(
    table: pd.DataFrame, hidden: Container[tuple[int, int]], rules: DisclosureRules
) -> pd.DataFrame:
    """Release observed over expected outcomes of months, each with the ratio of its period.

    Parameters
    ----------
    table : DataFrame
        The exact table ``sccs_time_trend``.
    hidden : container of (int, int)
        Series without ratios; see `series_counts.few_in_months`.
    """
    found = binned(table, ("observed_subjects",), rules)
    found[[*EXPECTED]] = np.nan
    for of, part in table.groupby(SET, sort=False):
        month = (12 * part["calendar_year"] + part["calendar_month"] - 1).to_numpy(np.int64)
        events = part["observed_outcomes"].to_numpy(float)
        period = None if of in hidden else month_periods(month, events, rules)
        if period is None:
            continue
        for name, column in EXPECTED.items():
            ratios = _ratios(events, part[column].to_numpy(float), period, rules)
            found.loc[part.index, name] = ratios[period]
    few = table["observed_subjects"].map(lambda n: rules.small(int(n))).astype(bool)
    found.loc[few, [*EXPECTED]] = np.nan
    return without_ends(found, "observed_subjects")


def released_years(monthly: pd.DataFrame, hide: bool, rules: DisclosureRules) -> pd.DataFrame:
    """Release observed over expected outcomes by year, without the first and last years of few.

    Parameters
    ----------
    monthly : DataFrame
        ``year``, ``observed``, ``expected`` and ``adjusted`` outcomes of each month.
    hide : bool
        Whether the outcomes by month are hidden, and with them those by year.
    """
    sums = monthly.groupby("year")[["observed", "expected", "adjusted"]].sum()
    events = sums["observed"].to_numpy(float)
    period = np.arange(len(sums)) if rules.open else _periods(sums.index.to_numpy(), events, rules)
    if hide or period is None:
        return sums.iloc[:0][["expected", "adjusted"]]
    alone = np.bincount(period)[period] == 1
    ratios = pd.DataFrame(index=sums.index)
    for column in ("expected", "adjusted"):
        ratios[column] = _ratios(events, sums[column].to_numpy(float), period, rules)[period]
    if np.allclose(sums["expected"], sums["adjusted"]):
        ratios["adjusted"] = np.nan
    return ratios[alone]


def time_until_end(
    table: pd.DataFrame, totals: Mapping[str, int], rules: DisclosureRules
) -> pd.DataFrame:
    """Release outcomes by the time until observation ends, in bars so wide that none is small.

    Few outcomes after the last bar belong to it, because they follow from all outcomes and the
    bars. Without any width that suffices, there is no bar.

    Parameters
    ----------
    table : DataFrame
        Exact bars; see `remaining_time`.
    totals : mapping of str to int
        All outcomes by the reason of the end, ``ended`` and ``data_ended``.
    """
    reasons, n = [*totals], len(table)
    bars = table.copy()
    for reason, total in totals.items():
        beyond = total - int(bars[reason].sum())
        if rules.small(beyond):
            bars.loc[bars.index[-1], reason] += beyond
    for width in (w for w in range(1, n + 1) if n % w == 0):
        of = bars.groupby(np.arange(n) // width)
        wide = of.agg({"start": "min", "stop": "max", **dict.fromkeys(reasons, "sum")})
        if not wide[reasons].map(lambda k: rules.small(int(k))).any(axis=None):
            return binned(wide, (*reasons,), rules)
    return table.iloc[:0]


def month_periods(month: NDArray, events: NDArray, rules: DisclosureRules) -> NDArray | None:
    """Number the periods of months, the shortest of which none has few outcomes; None without any.

    Parameters
    ----------
    month : ndarray of int, shape (n,)
        Months since a January.
    events : ndarray, shape (n,)
        Outcomes of each month.
    """
    found = (_periods(month // width, events, rules) for width in MONTHS)
    return next((period for period in found if period is not None), None)


def _periods(period: NDArray, events: NDArray, rules: DisclosureRules) -> NDArray | None:
    """Number the periods of months, or return None if one has few outcomes.

    The first and last ones, in which few people are observed, are joined with the next.
    """
    _, number = np.unique(period, return_inverse=True)
    sums = np.bincount(number, events)
    if sums.sum() < rules.least:
        return None
    first = int(np.argmax(sums.cumsum() >= rules.least))
    last = len(sums) - 1 - int(np.argmax(sums[::-1].cumsum() >= rules.least))
    joined = np.clip(number, first, max(first, last)) - first
    few = any(rules.small(int(n)) for n in np.bincount(joined, events))
    return None if few else joined


def _ratios(events: NDArray, expected: NDArray, period: NDArray, rules: DisclosureRules) -> NDArray:
    """Divide observed by expected outcomes of periods, and round by the number of the observed."""
    observed = np.bincount(period, events)
    of = np.bincount(period, expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(of > 0, observed / of, 0.0)
    if rules.open:
        return ratio
    steps = log_units(np.maximum(observed, rules.least).astype(np.int64), rules.least)
    return in_ratios(ratio, steps, 2)
