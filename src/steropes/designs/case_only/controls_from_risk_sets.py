"""Controls sampled from the risk sets of the cases of a cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.case_only.index_days import IndexDays, People
from steropes.designs.case_only.matched_set_sampling import eligible_members, sample_members
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import column_of
from steropes.designs.values.dates_and_ages import as_days
from steropes.designs.values.input_checks import refuse_missing, rows_of
from steropes.errors import DataError

__all__ = ["Cohort", "SetRows", "numbers_of", "read_matching", "risk_set_rows"]


@dataclass(frozen=True)
class SetRows:
    """People of risk sets: the cases, then the controls of each set.

    Attributes
    ----------
    set, person, period, day : (n,) int arrays
        ``period`` is the observation period, and ``day`` the index day.
    case : (n,) bool array
    """

    set: NDArray
    person: NDArray
    period: NDArray
    day: NDArray
    case: NDArray


@dataclass(frozen=True)
class Cohort:
    """Time at risk of people by observation period, and what cases and controls share.

    Attributes
    ----------
    entry, exit : (n,) int arrays
        First and last day at risk of each observation period; none if ``exit < entry``.
    origin : (n,) int array
        Day from which the time scale counts.
    group : (n,) int array
        Number of the matched values.
    near : list of ((n,) float array, float)
        Values, and their largest difference.
    """

    entry: NDArray
    exit: NDArray
    origin: NDArray
    group: NDArray
    near: list[tuple[NDArray, float]]


def read_matching(
    table: pd.DataFrame, match: Sequence[str], calipers: Mapping[str, float], order: NDArray
) -> tuple[NDArray, list[tuple[NDArray, float]]]:
    """Number the matched values of observation periods; read the values with a largest difference.

    Parameters
    ----------
    order : (n,) int array
        Rows of the table in the order of periods.
    """
    group = np.zeros(len(table), np.int64)
    for name in match:
        refuse_missing(table[name], column_of("observation", name))
        code, _ = pd.factorize(table[name])
        group = np.unique(group * (int(code.max(initial=0)) + 1) + code, return_inverse=True)[1]
    near = []
    for name, width in calipers.items():
        what = column_of("observation", name)
        refuse_missing(table[name], what)
        if pd.api.types.is_numeric_dtype(table[name]):
            values = table[name].to_numpy(float)
        else:
            values = as_days(table[name], what).astype(float)
        if not np.isfinite(values).all():
            raise DataError(f"{what} is infinite in {rows_of(~np.isfinite(values))}.")
        near.append((values[order], float(width)))
    return group[order], near


def risk_set_rows(
    cases: IndexDays, cohort: Cohort, people: People, each: int | None, seed: int
) -> SetRows:
    """Sample controls from the risk set of each case; leave out cases without any.

    Cases of one time with equal matched values share a set, unless values have a largest
    difference.

    Parameters
    ----------
    each : int, optional
        Controls for each case. None takes the whole risk set.
    """
    person = people.observation.person
    time = cases.day - cohort.origin[cases.period]
    group = cohort.group[cases.period]
    of = np.arange(len(cases))
    if not cohort.near:
        of = np.unique(np.column_stack([group, time]), axis=0, return_inverse=True)[1].ravel()
    first = np.unique(of, return_index=True)[1]  # A case of each set.
    at_risk = np.flatnonzero(cohort.exit >= cohort.entry)
    exits = (cohort.exit - cohort.origin)[at_risk]
    pool = at_risk[np.lexsort((exits, cohort.group[at_risk]))]
    last, begin = (x[pool] - cohort.origin[pool] for x in (cohort.exit, cohort.entry))
    event = np.zeros(len(person), bool)
    event[cases.period] = True
    t, own = time[first], cases.period[first]

    def eligible(s: NDArray, m: NDArray) -> NDArray:
        """Return whether members are at risk at the time of a set, without an event then."""
        good = (begin[m] <= t[s]) & (person[pool[m]] != person[own[s]])
        good &= ~(event[pool[m]] & (last[m] == t[s]))
        for values, width in cohort.near:
            good &= np.abs(values[pool[m]] - values[own[s]]) <= width
        return np.asarray(good)

    low, high = _ranges(cohort.group[pool], last, group[first], t)
    if each is None:
        found, member = eligible_members(low, high, eligible)
    else:
        wanted = each * np.bincount(of)
        found, member = sample_members(low, high, wanted, eligible, np.random.default_rng(seed))
    kept = np.isin(of, found)
    rows = (
        np.concatenate([of[kept], found]),
        np.concatenate([cases.period[kept], pool[member]]),
        np.repeat([True, False], [int(kept.sum()), len(found)]),
    )
    order = np.lexsort((~rows[2], rows[0]))
    sets, period, case = (x[order] for x in rows)
    day = t[sets] + cohort.origin[period]
    return SetRows(np.unique(sets, return_inverse=True)[1], person[period], period, day, case)


def _ranges(
    group: NDArray, last: NDArray, wanted: NDArray, time: NDArray
) -> tuple[NDArray, NDArray]:
    """Return the members of a group, sorted by group and exit, whose exit is not before a time."""
    lowest = int(min(last.min(initial=0), time.min(initial=0)))
    span = int(max(last.max(initial=0), time.max(initial=0))) - lowest + 2
    key = group * span + (last - lowest)
    low = np.searchsorted(key, wanted * span + (time - lowest), side="left")
    return low, np.searchsorted(group, wanted, side="right")


def numbers_of(table: pd.DataFrame, names: Sequence[str], order: NDArray) -> Any:
    """Return covariates of observation periods as numbers, (n, p)."""
    found = np.zeros((len(table), len(names)))
    for j, name in enumerate(names):
        what = column_of("observation", name)
        if not pd.api.types.is_numeric_dtype(table[name]) and not pd.api.types.is_bool_dtype(
            table[name]
        ):
            raise DataError(
                f"{what} must be numbers; make 0/1 columns of its values, as by pandas.get_dummies."
            )
        refuse_missing(table[name], what)
        found[:, j] = table[name].to_numpy(float)
    return found[order]
