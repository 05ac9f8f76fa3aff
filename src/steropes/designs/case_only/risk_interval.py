"""Self-controlled risk intervals: risk periods against control periods of the same person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steropes.data.vector_checks import check_level
from steropes.designs.case_series_from_tables.case_series_columns_and_fit import (
    TimeTerms,
    fit_series,
)
from steropes.designs.case_series_from_tables.case_series_result import CaseSeriesResult, result_of
from steropes.designs.case_series_from_tables.cases_from_tables import read_series
from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import (
    ColumnNames,
)
from steropes.designs.case_series_from_tables.risk_periods import RiskPeriod, risk_periods_of
from steropes.designs.settings.validated_types import Whole
from steropes.errors import DataError

__all__ = ["self_controlled_risk_interval"]


def self_controlled_risk_interval(
    events: Any,
    exposures: Any,
    observation: Any,
    *,
    risk_periods: Any,
    control_periods: Any,
    id: str = "id",
    event_day: str = "day",
    start: str = "start",
    end: str = "end",
    exposure: str | None = None,
    birth: str | None = None,
    age: Any = None,
    season: Any = None,
    calendar: Any = None,
    first_event_only: bool = False,
    gap: int | None = 0,
    level: float = 0.95,
) -> CaseSeriesResult:
    """Compare the rates of events in risk periods with those in control periods of each person.

    It is a case series in which only the days in these periods count, so that it needs little
    observation and is hardly affected by effects of age and season.

    Parameters
    ----------
    events, exposures, observation : data frame, relation or path
        As of `steropes.self_controlled_case_series`.
    risk_periods : pair, RiskPeriod, list or dict of them
        Days after the start of an exposure, both inclusive, such as (1, 28).
    control_periods : pair, RiskPeriod, list or dict of them
        Days that are compared with them, such as (29, 56) or [(-56, -15), (29, 56)].
    id, event_day, start, end : str
        Columns of the tables. Default "id", "day", "start" and "end".
    exposure : str, optional
        Column of ``exposures`` with the name of the exposure, each of which has ratios of its own.
    birth : str, optional
        Column of ``observation`` with dates of birth, for ages, seasons or calendar time.
    age, season, calendar : optional
        Effects of time, as of `steropes.self_controlled_case_series`.
    first_event_only : bool, default False
        Only a person's first event counts.
    gap : int, optional
        Exposures of one kind with at most this many days between them are one. Default 0: if they
        overlap or touch. None: never, unless they start on the same day.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CaseSeriesResult
        Rate ratios with their limits, diagnostics, plots and a page.

    Raises
    ------
    DataError
        A risk and a control period overlap, a column is missing or has values that cannot be used,
        or no one has time in both kinds of periods.

    See Also
    --------
    steropes.self_controlled_case_series : All other days of observation are the reference.
    steropes.designs.RiskPeriod : Periods with all settings.

    Notes
    -----
    With one risk period of L₁ days, control periods of L₀ days and everybody observed in all of
    them, the rate ratio of r events against c is (r / L₁) / (c / L₀), and the standard error of its
    logarithm √(1/r + 1/c). A period ends before the next exposure of the same kind starts. A day
    in the risk period of one exposure and the control period of another counts for the risk.

    References
    ----------
    Glanz and others (2006), Journal of Clinical Epidemiology 59:808–818. Baker, Lieu, Li and others
    (2015), Vaccine 33:3276.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs.case_only import self_controlled_risk_interval
    >>> people = pd.DataFrame({"id": range(40), "start": 1, "end": 200})
    >>> doses = pd.DataFrame({"id": range(40), "start": 100})
    >>> events = pd.DataFrame({"id": range(40), "day": [110] * 30 + [130] * 10})
    >>> found = self_controlled_risk_interval(
    ...     events, doses, people, risk_periods=(1, 14), control_periods=(15, 42)
    ... )
    >>> round(found.estimates["rr"].item(), 6)  # (30 / 14) / (10 / 28)
    6.0
    """
    check_level(level)
    if gap is not None:
        Whole(0).require("gap", gap)
    if not isinstance(first_event_only, bool):
        raise DataError(f"first_event_only must be True or False, not {first_event_only!r}.")
    risk, control = (
        _periods("risk_periods", risk_periods),
        _periods("control_periods", control_periods),
    )
    _refuse_overlap(risk, control)
    names = ColumnNames(id, event_day, exposure, None, start, end, birth, None)
    call = {
        "risk_periods": risk_periods, "control_periods": control_periods, "id": id,
        "event_day": event_day, "start": start, "end": end, "exposure": exposure, "birth": birth,
        "age": age, "season": season, "calendar": calendar, "first_event_only": first_event_only,
        "gap": gap, "level": level,
    }  # fmt: skip
    defaults = self_controlled_risk_interval.__kwdefaults__ or {}
    call = {name: value for name, value in call.items() if value is not defaults.get(name, call)}
    if isinstance(age, str):
        raise DataError("age must be a list of ages in days, a number of groups or a Spline.")
    data = read_series(events, exposures, observation, names, first_event_only)
    terms = TimeTerms(age, season, calendar)
    fitted = fit_series(data, risk, terms, gap, None, 0, level, control)
    function = "designs.case_only.self_controlled_risk_interval"
    return result_of(data, fitted, level, call, function)


def _periods(name: str, given: Any) -> list[RiskPeriod]:
    """Read periods, which have no default."""
    if given is None:
        raise DataError(f"{name} is missing; give days after the start, such as (1, 28).")
    return risk_periods_of(given, name)


def _refuse_overlap(risk: Sequence[RiskPeriod], control: Sequence[RiskPeriod]) -> None:
    """Refuse risk and control periods of one exposure with days in common."""
    for a in risk:
        for b in control:
            same = a.exposure is None or b.exposure is None or a.exposure == b.exposure
            anchors = {a.start_at, a.end_at, b.start_at, b.end_at}
            if same and len(anchors) == 1 and a.start <= b.end and b.start <= a.end:
                raise DataError(
                    f"The risk period {a.text!r} and the control period {b.text!r} overlap; end "
                    "one before the other starts."
                )
