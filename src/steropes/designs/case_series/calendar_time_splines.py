"""Effects of age, season and calendar time as quadratic B-splines, constant within a month.

Time is split at the first of every month; age is that on the first day of the month (or of the
case, if later). Beyond the outer knots an effect is constant.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series.model_settings import SeriesModelSettings, Spline
from steropes.designs.case_series.spline_columns import SplineColumns
from steropes.errors import DataError

__all__ = ["TimeEffect", "TimeEffects", "bspline", "cyclic_spline", "time_effects"]

Kind = Literal["age", "season", "calendar"]
Periods = tuple[tuple[dt.date | None, dt.date | None], ...]
# Splines are quadratic.
DEGREE = 2
WORDS = {"age": "age", "season": "season", "calendar": "calendar time"}


@dataclass(frozen=True)
class TimeEffect:
    """One spline.

    Attributes
    ----------
    kind : {"age", "season", "calendar"}
    knots : (k,) array
        Ages in days, months 0.5 … 12.5 of the year, or months since year 0.
    segments : tuple of arrays
        Knots of each study period; a single segment for age and season.
    """

    kind: Kind
    knots: NDArray
    segments: tuple[NDArray, ...]
    penalized: bool

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        p = self.basis(self.knots[:1]).shape[1]
        return [f"{WORDS[self.kind]} spline {j + 1}" for j in range(p)]

    def basis(self, x: NDArray) -> NDArray:
        """Evaluate the columns at x, shape (len(x), p)."""
        if self.kind == "season":
            return cyclic_spline(x, self.knots)[:, :-1]  # All columns would add up to one.
        return segmented(np.asarray(x, float), self.segments)


@dataclass(frozen=True)
class TimeEffects:
    """All splines of a study, and the days on which they change."""

    effects: tuple[TimeEffect, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name for e in self.effects for name in e.names]

    @property
    def of_age(self) -> bool:
        """Whether a column depends on the age."""
        return any(e.kind == "age" for e in self.effects)

    def month_starts(
        self, observed: NDArray, start: NDArray, end: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Return (case, day) of the first day of each month after each case's first day."""
        first = month_of(observed + start) + 1
        last = month_of(observed + end)
        counts = np.maximum(last - first + 1, 0)
        case = np.repeat(np.arange(len(start)), counts)
        begins = np.concatenate([[0], np.cumsum(counts)])
        month = np.repeat(first - begins[:-1], counts) + np.arange(begins[-1])
        return case, first_day(month) - observed[case]

    def columns(self, month: NDArray, age: NDArray) -> SplineColumns:
        """Evaluate the columns for rows of the model.

        Parameters
        ----------
        month : (n,) int array
            Month of each row, since year 0.
        age : (n,) float array
            Age in days on the first day of the month or of the case; only used by a spline of age.
        """
        tables, index = [], []
        first, last = (int(month.min()), int(month.max())) if len(month) else (0, 0)
        for e in self.effects:
            if e.kind == "age":
                x, at = np.unique(age, return_inverse=True)
            elif e.kind == "season":
                x, at = np.arange(1, 13), month % 12
            else:
                x, at = np.arange(first, last + 1), month - first
            tables.append(e.basis(x))
            index.append(at.astype(np.int32))
        return SplineColumns(len(month), tuple(tables), tuple(index))


def time_effects(
    settings: SeriesModelSettings, population: Cases, study_periods: Periods = ()
) -> TimeEffects | None:
    """Create the splines of the settings with their knots; None if there are none.

    Calendar time has knots within each of the study periods, if there are any.

    Raises
    ------
    DataError
        There are more knots than outcomes, ages are unknown, or knots coincide.
    """
    effects = []
    if settings.age is not None:
        population.require_age("the effect of age needs")
        knots = _age_knots(settings.age, population)
        effects.append(_effect("age", settings.age, (knots,), population))
    if settings.season is not None:
        knots = _season_knots(settings.season)
        effects.append(TimeEffect("season", knots, (knots,), settings.season.penalized))
    if settings.calendar is not None:
        segments = _calendar_knots(study_periods, settings.calendar, population)
        effects.append(_effect("calendar", settings.calendar, segments, population))
    return TimeEffects(tuple(effects)) if effects else None


def _effect(
    kind: Kind, spline: Spline, segments: tuple[NDArray, ...], population: Cases
) -> TimeEffect:
    """Create a spline of age or calendar time; raise if its knots are too many or coincide."""
    knots = np.concatenate(segments)
    if len(knots) > len(population.outcome_day):
        outcomes = population.count_text(len(population.outcome_day))
        raise DataError(
            f"{kind}: {len(knots)} knots for {outcomes} outcomes; use fewer knots, or leave the "
            "spline out"
        )
    if any(len(s) < 2 for s in segments):
        raise DataError(
            f"{kind}: the quantiles at which knots are placed coincide; give the knots themselves, "
            "or leave the spline out"
        )
    return TimeEffect(kind, knots, segments, spline.penalized)


def _age_knots(spline: Spline, population: Cases) -> NDArray:
    """Place knots at quantiles of the age at the outcome, .01 to .99."""
    if not isinstance(spline.knots, int):
        return np.asarray(spline.knots)
    ages = population.age[population.outcome_case] + population.outcome_day
    return np.unique(np.quantile(ages, np.linspace(0.01, 0.99, spline.knots)))


def _season_knots(spline: Spline) -> NDArray:
    """Place knots evenly through the year."""
    knots = (
        0.5 + np.linspace(0, 12, spline.knots)
        if isinstance(spline.knots, int)
        else np.asarray(spline.knots)
    )
    if knots[0] > 1 or knots[-1] < 12:
        raise DataError("season: the knots must span the months 1 to 12; begin at 0.5, end at 12.5")
    if len(knots) < DEGREE + 2:
        raise DataError(f"season: a cyclic spline needs {DEGREE + 2} knots or more")
    return knots


def _calendar_knots(
    study_periods: Periods, spline: Spline, population: Cases
) -> tuple[NDArray, ...]:
    """Place knots at quantiles of observed person-months, .005 to .995, in each study period."""
    if not isinstance(spline.knots, int):
        return (np.asarray(spline.knots),)
    first = month_of(population.observed + population.start)
    last = month_of(population.observed + population.end)
    months = np.arange(first.min(), last.max() + 1)
    steps = np.bincount(first - months[0], minlength=len(months) + 1)
    steps = steps - np.bincount(last + 1 - months[0], minlength=len(months) + 1)
    counts = np.cumsum(steps)[: len(months)]
    periods = [
        (
            -np.inf if a is None else a.year * 12 + a.month - 1,
            np.inf if b is None else b.year * 12 + b.month - 1,
        )
        for a, b in study_periods
    ] or [(-np.inf, np.inf)]
    segments = []
    for low, high in periods:
        inside = (months >= low) & (months <= high)
        reached = np.cumsum(counts[inside])
        if len(reached) == 0 or reached[-1] == 0:
            continue
        share = reached[-1] / counts.sum()
        knots = 2 + int(np.round((spline.knots - 2) * share))  # Inner knots follow the time.
        at = np.searchsorted(reached, reached[-1] * np.linspace(0.005, 0.995, knots))
        segments.append(np.unique(months[inside][at]).astype(float))
    return tuple(segments)


# -- bases ---------------------------------------------------------------------------------------


def bspline(x: NDArray, knots: NDArray) -> NDArray:
    """Evaluate a B-spline basis without its first column; constant beyond the outer knots.

    Shape (len(x), p): quadratic with p = len(knots), or between two knots linear with p = 1 (as
    R's ``splines::bs``).
    """
    degree = DEGREE if len(knots) > 2 else 1
    full = np.concatenate([[knots[0]] * degree, knots, [knots[-1]] * degree])
    inside = np.clip(x, knots[0], knots[-1])
    return BSpline.design_matrix(inside, full, degree).toarray()[:, 1:]


def segmented(x: NDArray, segments: tuple[NDArray, ...]) -> NDArray:
    """Concatenate a basis for each segment; x between two segments belongs to the nearer one."""
    blocks = [bspline(x, s) for s in segments]
    if len(segments) == 1:
        return blocks[0]
    middles = [(a[-1] + b[0]) / 2 for a, b in zip(segments[:-1], segments[1:], strict=True)]
    own = np.searchsorted(middles, x, side="left")
    return np.hstack([np.where((own == s)[:, None], block, 0.0) for s, block in enumerate(blocks)])


def cyclic_spline(x: NDArray, knots: NDArray) -> NDArray:
    """Evaluate a periodic quadratic B-spline basis, (len(x), len(knots) − 1), that sums to one."""
    knots = np.asarray(knots, float)
    period = knots[-1] - knots[0]
    p = len(knots) - 1
    full = np.concatenate([knots[-1 - DEGREE : -1] - period, knots, knots[1 : 1 + DEGREE] + period])
    x = knots[0] + np.mod(np.asarray(x, float) - knots[0], period)
    basis = BSpline.design_matrix(x, full, DEGREE).toarray()
    out = basis[:, :p].copy()
    out[:, :DEGREE] += basis[:, p:]
    return out


# -- months --------------------------------------------------------------------------------------


def month_of(day: NDArray) -> NDArray:
    """Convert days since 1970-01-01 to months since year 0 (12 × year + month − 1)."""
    dates = np.asarray(day, "datetime64[D]")
    return dates.astype("datetime64[M]").astype(np.int64) + 1970 * 12


def first_day(month: NDArray) -> NDArray:
    """Return the first day of a month, in days since 1970-01-01."""
    months = (np.asarray(month, np.int64) - 1970 * 12).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64)
