"""Effects of age, season and calendar time as quadratic B-splines, constant within a month.

Time is cut at the first of every month; age is that on the first day of a month (or of the case,
if that is later). Beyond the outer knots an effect stays what it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from steropes.errors import DataError
from steropes.studies.disclosure import LEAST, shown
from steropes.studies.sccs.case_population import Population
from steropes.studies.sccs.settings import CaseSeriesSettings, Spline

__all__ = ["TimeEffect", "TimeEffects", "bspline", "cyclic_spline", "time_effects"]

Kind = Literal["age", "season", "calendar"]
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
        Knots of each study period; one of all for age and season.
    penalized : bool
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
        """Values of the columns at x, (len(x), p)."""
        if self.kind == "season":
            return cyclic_spline(x, self.knots)[:, :-1]  # the columns add up to one
        return segmented(np.asarray(x, float), self.segments)


@dataclass(frozen=True)
class TimeEffects:
    """All the splines of a study, and the days on which they change."""

    effects: tuple[TimeEffect, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name for e in self.effects for name in e.names]

    def month_starts(
        self, observed: NDArray, start: NDArray, end: NDArray
    ) -> tuple[NDArray, NDArray]:
        """(case, day) of each first of a month after the first day of each case."""
        first = month_of(observed + start) + 1
        last = month_of(observed + end)
        counts = np.maximum(last - first + 1, 0)
        case = np.repeat(np.arange(len(start)), counts)
        begins = np.concatenate([[0], np.cumsum(counts)])
        month = np.repeat(first - begins[:-1], counts) + np.arange(begins[-1])
        return case, first_day(month) - observed[case]

    def values(self, observed: NDArray, age: NDArray, start: NDArray, first: NDArray) -> NDArray:
        """Columns at rows that begin on day ``first``, (n, p).

        Parameters
        ----------
        observed, age, start : (n,) arrays
            Of each row's case, as in `Population`.
        first : (n,) int array
            First day of each row.
        """
        month = month_of(observed + first)
        begins = np.maximum(first_day(month) - observed, start)
        parts = []
        for e in self.effects:
            x = {"age": age + begins, "calendar": month, "season": month % 12 + 1}[e.kind]
            # few distinct values: months of a year, months, days of age
            distinct, at = np.unique(x, return_inverse=True)
            parts.append(e.basis(distinct)[at])
        return np.hstack(parts)


def time_effects(settings: CaseSeriesSettings, population: Population) -> TimeEffects | None:
    """The splines that the settings ask for, with their knots; None if there are none.

    Raises
    ------
    DataError
        More knots than outcomes, ages that are not known, knots that fall on each other.
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
        segments = _calendar_knots(settings, settings.calendar, population)
        effects.append(_effect("calendar", settings.calendar, segments, population))
    return TimeEffects(tuple(effects)) if effects else None


def _effect(
    kind: Kind, spline: Spline, segments: tuple[NDArray, ...], population: Population
) -> TimeEffect:
    knots = np.concatenate(segments)
    if len(knots) > len(population.outcome_day):
        raise DataError(
            f"{kind}: {len(knots)} knots for {shown(len(population.outcome_day), LEAST)} outcomes; "
            "take fewer knots, or leave the spline out"
        )
    if any(len(s) < 2 for s in segments):
        raise DataError(
            f"{kind}: the quantiles that the knots are put at fall on one value; give the knots "
            "themselves, or leave the spline out"
        )
    return TimeEffect(kind, knots, segments, spline.penalized)


def _age_knots(spline: Spline, population: Population) -> NDArray:
    if not isinstance(spline.knots, int):
        return np.asarray(spline.knots)
    ages = population.age[population.outcome_case] + population.outcome_day
    return np.unique(np.quantile(ages, np.linspace(0.01, 0.99, spline.knots)))


def _season_knots(spline: Spline) -> NDArray:
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
    settings: CaseSeriesSettings, spline: Spline, population: Population
) -> tuple[NDArray, ...]:
    """Quantiles of observed person-months, .005 to .995, within each study period."""
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
        for a, b in settings.cases.study_periods
    ] or [(-np.inf, np.inf)]
    segments = []
    for low, high in periods:
        inside = (months >= low) & (months <= high)
        reached = np.cumsum(counts[inside])
        if len(reached) == 0 or reached[-1] == 0:
            continue
        share = reached[-1] / counts.sum()
        knots = 2 + int(np.round((spline.knots - 2) * share))  # free knots go where the time is
        at = np.searchsorted(reached, reached[-1] * np.linspace(0.005, 0.995, knots))
        segments.append(np.unique(months[inside][at]).astype(float))
    return tuple(segments)


# -- bases ---------------------------------------------------------------------------------------


def bspline(x: NDArray, knots: NDArray) -> NDArray:
    """B-spline basis without its first column, (len(x), p); constant beyond the outer knots.

    Quadratic, p = len(knots); linear, p = 1, between two knots (as ``splines::bs`` of R has it).
    """
    degree = DEGREE if len(knots) > 2 else 1
    full = np.concatenate([[knots[0]] * degree, knots, [knots[-1]] * degree])
    inside = np.clip(x, knots[0], knots[-1])
    return BSpline.design_matrix(inside, full, degree).toarray()[:, 1:]


def segmented(x: NDArray, segments: tuple[NDArray, ...]) -> NDArray:
    """Side by side a basis for each segment; x between two belongs to the nearer."""
    blocks = [bspline(x, s) for s in segments]
    if len(segments) == 1:
        return blocks[0]
    middles = [(a[-1] + b[0]) / 2 for a, b in zip(segments[:-1], segments[1:], strict=True)]
    own = np.searchsorted(middles, x, side="left")
    return np.hstack([np.where((own == s)[:, None], block, 0.0) for s, block in enumerate(blocks)])


def cyclic_spline(x: NDArray, knots: NDArray) -> NDArray:
    """Periodic quadratic B-spline basis, (len(x), len(knots) − 1); its columns add up to one."""
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
    """Months since year 0 (12 × year + month − 1) of days since 1970-01-01."""
    dates = np.asarray(day, "datetime64[D]")
    return dates.astype("datetime64[M]").astype(np.int64) + 1970 * 12


def first_day(month: NDArray) -> NDArray:
    """Day (since 1970-01-01) of the first of a month."""
    months = (np.asarray(month, np.int64) - 1970 * 12).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64)
