"""The result of a case series from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import norm

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.case_series.event_dependent_exposure import EventDependentExposure
from steropes.designs.case_series.interval_rows import PROBE, Intervals
from steropes.designs.case_series.sccs_model import NO_DAYS, CaseSeriesModel
from steropes.designs.case_series_from_tables.case_series_checks import (
    series_diagnostics,
    weeks_around_exposure,
)
from steropes.designs.case_series_from_tables.case_series_columns_and_fit import FittedSeries
from steropes.designs.case_series_from_tables.case_series_page import series_page
from steropes.designs.case_series_from_tables.cases_from_tables import SeriesData
from steropes.errors import DataError

__all__ = ["CaseSeriesResult", "result_of"]

RISK, BEFORE, END, TIME = "risk period", "pre-exposure", "end of observation", "time"


@dataclass(frozen=True, repr=False, eq=False)
class CaseSeriesResult(TextInHtml):
    """Rate ratios of a case series, from `self_controlled_case_series`.

    Attributes
    ----------
    estimates : DataFrame
        A row for each covariate: ``kind`` ("risk period", "pre-exposure", "end of observation" or
        "time", for age, season and calendar time), ``rr``, ``lower`` and ``upper``; ``log_rr`` with
        its standard error ``se``; ``p``; the ``events`` and ``days`` of the covariate among cases
        with time to compare; ``interval``, "profile" (of the likelihood) or "robust" (the sandwich,
        with event-dependent exposure), and ``note``, the reason for a missing or infinite number.
        It has ``plot()`` and ``paper_table()``.
    diagnostics : DataFrame
        ``diagnostic``, ``value``, ``lower`` and ``upper`` of its interval, ``limit``, ``passed``
        (None if it could not be evaluated) and ``note``.
    attrition : DataFrame
        ``rule``, ``people``, ``events`` and ``periods`` (of observation) that remain.
    timing : DataFrame
        Events by week around the first exposure: ``week``, ``outcomes``, ``exposed`` and
        ``observed``.
    intervals : Intervals
        Rows and columns of the model, as in the case series of a database.
    model : CaseSeriesModel or None
        The fitted model, as in the case series of a database; None with event-dependent exposure.
    exposure_model : EventDependentExposure or None
        The solution with event-dependent exposure.
    level : float
        Level of the intervals.

    See Also
    --------
    self_controlled_case_series : Estimate them.

    Examples
    --------
    >>> import pandas as pd
    >>> import steropes
    >>> people = pd.DataFrame({"id": range(6), "start": 1, "end": 100})
    >>> events = pd.DataFrame({"id": range(6), "day": [12, 15, 60, 18, 90, 5]})
    >>> doses = pd.DataFrame({"id": range(6), "start": 10})
    >>> result = steropes.self_controlled_case_series(events, doses, people, risk_periods=(0, 9))
    >>> result.estimates[["events", "days"]]
                 events  days
    days 0 to 9       3    60
    """

    estimates: ResultTable
    diagnostics: pd.DataFrame
    attrition: pd.DataFrame
    timing: pd.DataFrame
    intervals: Intervals
    model: CaseSeriesModel | None
    exposure_model: EventDependentExposure | None
    level: float
    _call: Mapping[str, Any]
    _function: str = "self_controlled_case_series"

    def __repr__(self) -> str:
        """Return the ratios of risk periods, and the diagnostics that failed."""
        shown = self.summary()[["rr", "lower", "upper", "p", "events"]]
        failed = self.diagnostics[self.diagnostics["passed"].eq(False)]
        lines = [
            f"Rate ratios with {100 * self.level:g} % intervals",
            shown.to_string(float_format=lambda x: f"{x:.4g}"),
        ]
        lines += [f"Failed: {row.diagnostic}. {row.note}" for row in failed.itertuples()]
        return "\n".join(lines)

    def summary(self) -> ResultTable:
        """Return the estimates of risk periods, before and after exposure.

        Returns
        -------
        DataFrame
            Rows of ``estimates``, without those of time.
        """
        kept = self.estimates["kind"].isin([RISK, BEFORE])
        return _presented(pd.DataFrame(self.estimates[kept]), self.level)

    def plot(self, what: Literal["effects", "time", "events"] = "effects", **options: Any) -> Any:
        """Draw rate ratios, or the events around the first exposure.

        Parameters
        ----------
        what : {"effects", "time", "events"}, default "effects"
            Ratios of risk periods; ratios of groups of age, season and calendar time; or numbers of
            events by week around the first exposure.
        **options
            As of `steropes.plots.ratio_forest`, or of pandas' plots for "events", such as ``ax``.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.

        Raises
        ------
        DataError
            There is no such plot, or the model has no groups of time.
        """
        if what == "events":
            return _draw_weeks(self.timing, **options)
        if what not in ("effects", "time"):
            raise DataError(f"what must be 'effects', 'time' or 'events', not {what!r}.")
        if what == "effects":
            return self.summary().plot(**options)
        rows = self.estimates[self.estimates["kind"].eq(TIME) & self.estimates["lower"].notna()]
        if not len(rows):
            raise DataError("The model has no groups of age, season or calendar time with limits.")
        return _presented(pd.DataFrame(rows), self.level).plot(**options)

    def write_report(self, path: str | PathLike[str]) -> None:
        """Write one self-contained page about the case series, as HTML.

        It has the estimates, who remains, the diagnostics, figures (if Matplotlib is installed),
        the sources of error in the intervals and the code that repeats the analysis. It has no data
        of single people, but counts may be small.

        Parameters
        ----------
        path : path
            Where to write, such as "series.html".
        """
        Path(path).write_text(series_page(self, self._function, self._call), encoding="utf-8")


def result_of(
    data: SeriesData,
    fitted: FittedSeries,
    level: float,
    call: Mapping[str, Any],
    function: str = "self_controlled_case_series",
) -> CaseSeriesResult:
    """Put the parts of a case series together."""
    estimates = _estimates(fitted, level)
    rows = [*data.attrition]
    rule, people, events, periods, _ = fitted.intervals.attrition
    rows.append((rule, people, events, periods))
    attrition = pd.DataFrame(rows, columns=["rule", "people", "events", "periods"])
    diagnostics = series_diagnostics(data, fitted, estimates)
    return CaseSeriesResult(
        estimates=_presented(estimates, level),
        diagnostics=diagnostics,
        attrition=attrition,
        timing=weeks_around_exposure(data, fitted.spans),
        intervals=fitted.intervals,
        model=fitted.model,
        exposure_model=fitted.exposure,
        level=level,
        _call=call,
        _function=function,
    )


def _estimates(fitted: FittedSeries, level: float) -> pd.DataFrame:
    """Make the table of estimates."""
    made = fitted.intervals
    kinds = [
        (BEFORE if c.pre_exposure else RISK) if c.window >= 0 else END if name == PROBE else TIME
        for name, c in zip(made.names, made.columns, strict=True)
    ]
    table = pd.DataFrame({"kind": kinds}, index=made.names)
    counts = made.statistics[["events", "days"]].reindex(made.names).astype("Int64")
    if fitted.model is not None:
        found = fitted.model.estimates.loc[made.names]
        for name in ("rr", "lower", "upper", "log_rr"):
            table[name] = found[name]
        table["se"] = _errors(fitted.model).reindex(made.names)
        table["p"] = found["p"]
        return table.join(counts).join(found[["interval", "note"]])
    assert fitted.exposure is not None
    beta, error = fitted.exposure.coef, np.sqrt(np.diag(fitted.exposure.covariance))
    z = norm.ppf(0.5 + level / 2)
    table["rr"], table["lower"], table["upper"] = (np.exp(beta + k * z * error) for k in (0, -1, 1))
    table["log_rr"], table["se"] = beta, error
    table["p"] = 2 * norm.sf(np.abs(beta / error))
    known = np.isfinite(beta)
    return table.join(counts).assign(
        interval=np.where(known, "robust", ""), note=np.where(known, "", NO_DAYS)
    )


def _errors(model: CaseSeriesModel) -> pd.Series:
    """Return standard errors from the information matrix."""
    covariance = None if model.fits is None else model.fits.covariance()
    if covariance is None:
        return pd.Series(dtype=float)
    return pd.Series(np.sqrt(np.diag(covariance)), covariance.index)


def _presented(table: pd.DataFrame, level: float) -> ResultTable:
    """Make a table of estimates a result that is drawn as a forest."""
    return present(
        table, "ratio_forest", columns=("rr", "lower", "upper"), ratio="Rate ratio",
        intervals=(Interval("Rate ratio", "rr", "lower", "upper", level),),
        hidden=("kind", "log_rr", "se", "interval"),
        captions={"events": "Events", "days": "Days", "note": "Note"},
    )  # fmt: skip


def _draw_weeks(timing: pd.DataFrame, **options: Any) -> Any:
    """Draw the numbers of events by week around the first exposure."""
    if not timing["outcomes"].any():
        raise DataError("Nobody has an event within half a year of an exposure.")
    shown = {"x": "week", "y": "outcomes", "drawstyle": "steps-post", "legend": False}
    ax = timing.plot(**{**shown, **options})
    ax.set_xlabel("Weeks since the start of the first exposure")
    ax.set_ylabel("Events")
    ax.axvline(0, color="0.5", linewidth=0.9, linestyle=(0, (4, 3)))
    return ax
