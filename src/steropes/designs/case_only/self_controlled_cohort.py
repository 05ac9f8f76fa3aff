"""Self-controlled cohort: rates after the start of exposure against rates before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta, binom

from steropes.data.vector_checks import check_level
from steropes.designs.case_only.case_only_result import CaseOnlyResult, shown_ratios
from steropes.designs.case_only.exposure_windows import check_days, exposure_names
from steropes.designs.case_only.index_days import Attrition, People, read_people
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
    period_of,
    read_events,
)
from steropes.designs.values.argument_checks import check_flag
from steropes.errors import DataError

__all__ = ["self_controlled_cohort"]


def self_controlled_cohort(
    events: Any,
    exposures: Any,
    observation: Any,
    *,
    risk: tuple[int, int] = (1, 30),
    control: tuple[int, int] = (-30, -1),
    add_exposure_length: bool = True,
    full_windows: bool = False,
    first_event_only: bool = True,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
    exposure: str | None = None,
    level: float = 0.95,
) -> CaseOnlyResult:
    """Compare the rate of events after the start of the first exposure with the rate before it.

    All exposed people count, also those without an event. Nothing that is constant in people
    confounds the ratio, but everything that changes with time does, so that it is a method to
    screen for signals.

    Parameters
    ----------
    events : data frame, relation or path
        One row per event, with the columns ``id`` and ``event_day``. Tables may be of any library
        or files, as of `case_crossover`.
    exposures : data frame, relation or path
        One row per exposure with ``id``, its first day ``start`` and, if there is such a column,
        its last day ``end``. The first of each person (and name) counts.
    observation : data frame, relation or path
        One row per person (or separate period) with ``id``, ``start`` and ``end``.
    risk : (int, int), default (1, 30)
        Days at risk after the first day of exposure; the last is counted from the last day of
        exposure with ``add_exposure_length``.
    control : (int, int), default (-30, -1)
        Days before the first day of exposure; the first is moved back by the length of exposure
        with ``add_exposure_length``.
    add_exposure_length : bool, default True
        Whether both windows are longer by the length of exposure.
    full_windows : bool, default False
        Whether only people count who are observed in both windows for all days.
    first_event_only : bool, default True
        Only a person's first event counts.
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".
    exposure : str, optional
        Column of ``exposures`` with the name of the exposure, each of which has a ratio.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CaseOnlyResult
        Rate ratios with exact limits, and events and days in both windows. ``sets`` and ``model``
        are None.

    Raises
    ------
    DataError
        Windows overlap, a column is missing or has values that cannot be used, or no exposure
        starts while observed.

    See Also
    --------
    self_controlled_risk_interval : Compares cases within themselves, with effects of time.

    Notes
    -----
    Windows are cut to the observation period in which exposure starts, and do not end with an
    event. Given the number of events, those in the risk window are binomial, which gives the limits
    (Clopper and Pearson) and p-values (twice the smaller tail). The default values are those of
    OHDSI's SelfControlledCohort.

    References
    ----------
    Ryan, Schuemie and Madigan (2013), Drug Safety 36 (Suppl 1):95–106.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.case_only import self_controlled_cohort
    >>> people = pd.DataFrame({"id": range(100), "start": 1, "end": 400})
    >>> drugs = pd.DataFrame({"id": range(100), "start": 200})
    >>> events = pd.DataFrame({"id": range(15), "day": [210] * 10 + [180] * 5})
    >>> found = self_controlled_cohort(events, drugs, people)
    >>> found.estimates[["ratio", "lower", "upper", "events_at_risk", "days_at_risk"]].round(2)
             ratio  lower  upper  events_at_risk  days_at_risk
    exposed    2.0   0.62   7.46              10          3000
    """
    check_level(level)
    risk, control = check_days("risk", risk), check_days("control", control)
    if risk[0] <= control[1]:
        raise DataError(
            f"control ends on day {control[1]}, but risk starts on day {risk[0]}; the windows must "
            "not overlap."
        )
    for name, value in (
        ("add_exposure_length", add_exposure_length),
        ("full_windows", full_windows),
        ("first_event_only", first_event_only),
    ):
        check_flag(name, value)
    names = ColumnNames(id, event_day, exposure, None, start, end, None, None)
    people, attrition = read_people(exposures, observation, names), Attrition()
    person, day = read_events(events, names, people.days, people.observation.ids)
    attrition.add("events", person)
    if first_event_only:
        first = np.flatnonzero(np.diff(person, prepend=-1))
        person, day = person[first], day[first]
        attrition.add("first of events of a person", person)
    windows = _windows(people, risk, control, add_exposure_length, full_windows)
    inside = np.isin(person, windows.person)
    attrition.add("events of people with exposure", person[inside])
    assert people.exposures is not None  # `read_people` has read them.
    of = exposure_names(people.exposures)
    estimates = _ratios(_counted(windows, person, day, len(of)), of, level)
    call = {
        "risk": risk, "control": control, "add_exposure_length": add_exposure_length,
        "full_windows": full_windows, "first_event_only": first_event_only, "id": id,
        "event_day": event_day, "start": start, "end": end, "exposure": exposure, "level": level,
    }  # fmt: skip
    return CaseOnlyResult(
        shown_ratios(estimates, "Rate ratio", level), attrition.table(), "Rate ratio", level,
        None, None, "Self-controlled cohort", "self_controlled_cohort",
        ("events", "exposures", "observation"), call,
    )  # fmt: skip


@dataclass(frozen=True)
class _Windows:
    """The windows of first exposures, within observation.

    Attributes
    ----------
    person, exposure : (n,) int arrays
    first, last : (n, 2) int arrays
        Days of the windows at risk and of control; empty if ``last < first``.
    """

    person: NDArray
    exposure: NDArray
    first: NDArray
    last: NDArray


def _windows(
    people: People, risk: tuple[int, int], control: tuple[int, int], longer: bool, full: bool
) -> _Windows:
    """Return the windows of the first exposure of each person and name that starts observed."""
    rows, periods = people.exposures, people.observation
    assert rows is not None  # `read_people` has read them.
    order = np.lexsort((rows.last, rows.first, rows.exposure, rows.person))
    head = np.diff(rows.person[order] * len(rows.names) + rows.exposure[order], prepend=-1) != 0
    at = order[head]
    person, starts = rows.person[at], rows.first[at]
    period = period_of(periods, person, starts)
    length = (rows.last[at] - starts) * int(longer)
    wanted = np.stack([starts + risk[0], starts + control[0] - length], axis=1)
    until = np.stack([starts + length + risk[1], starts + control[1]], axis=1)
    first = np.maximum(wanted, periods.first[period][:, None])
    last = np.minimum(until, periods.last[period][:, None])
    kept = period >= 0
    if full:
        kept &= ((first == wanted) & (last == until)).all(axis=1)
    if not kept.any():
        rule = " and has both windows observed" if full else ""
        raise DataError(f"No first exposure in exposures starts while observed{rule}.")
    return _Windows(person[kept], rows.exposure[at][kept], first[kept], last[kept])


def _counted(windows: _Windows, person: NDArray, day: NDArray, k: int) -> pd.DataFrame:
    """Count people, and the events and days in both windows, of each exposure."""
    lowest = int(min(day.min(), windows.first.min()))
    span = int(max(day.max(), windows.last.max())) - lowest + 2
    key = person * span + (day - lowest)  # Sorted, as events are.
    table = {"people": np.bincount(windows.exposure, minlength=k)}
    for j, name in enumerate(("at_risk", "before")):
        first, last = windows.first[:, j], windows.last[:, j]
        some = last >= first
        base = windows.person * span - lowest
        low = np.searchsorted(key, base + first, side="left")
        high = np.searchsorted(key, base + last, side="right")
        for what, value in (("events", high - low), ("days", last - first + 1)):
            total = np.bincount(windows.exposure[some], value[some], minlength=k)
            table[f"{what}_{name}"] = total.astype(np.int64)
    return pd.DataFrame(table)


def _ratios(rows: pd.DataFrame, names: list[str], level: float) -> pd.DataFrame:
    """Compute rate ratios with exact limits."""
    r, c = (rows[f"events_{name}"].to_numpy(float) for name in ("at_risk", "before"))
    t, u = (rows[f"days_{name}"].to_numpy(float) for name in ("at_risk", "before"))
    tail = (1 - level) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (r / t) / (c / u)
        lower = np.where(r > 0, beta.ppf(tail, r, c + 1), 0.0)
        upper = np.where(c > 0, beta.ppf(1 - tail, r + 1, c), 1.0)
        limits = [x / (1 - x) * (u / t) for x in (lower, upper)]
        log_ratio, error = np.log(ratio), np.sqrt(1 / r + 1 / c)
        share = t / (t + u)
        p = 2 * np.minimum(binom.cdf(r, r + c, share), binom.sf(r - 1, r + c, share))
    known = (r + c > 0) & (t > 0) & (u > 0)
    note = np.where(r + c == 0, "no events in either window", "")
    note = np.where((t == 0) | (u == 0), "a window has no observed days", note)
    table = pd.DataFrame(
        {
            "kind": "after the start of exposure against before",
            "ratio": ratio, "lower": limits[0], "upper": limits[1], "log_ratio": log_ratio,
            "se": np.where((r > 0) & (c > 0), error, np.nan), "p": np.minimum(p, 1.0),
            "errors": "exact",
        },
        names,
    )  # fmt: skip
    table.loc[~known, ["ratio", "lower", "upper", "log_ratio", "se", "p"]] = np.nan
    return table.join(rows.set_index(pd.Index(names))).assign(note=note)
