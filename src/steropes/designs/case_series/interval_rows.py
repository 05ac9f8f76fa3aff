"""Rows and columns of the model from cases and eras, built in chunks of cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

import steropes
from steropes.data.group_checks_and_counts import count_distinct
from steropes.design_matrix.column_storage import SparseBlock
from steropes.designs.case_series.calendar_time_splines import TimeEffects, first_day, month_of
from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series.covariate_days import Spans
from steropes.designs.case_series.event_dependent_observation import CensorModel
from steropes.designs.case_series.exposure_variation_check import contrast_columns, require_contrast
from steropes.designs.case_series.interval_splitting import (
    ModelRows,
    TimeIntervals,
    case_day_key,
    merge_equal_intervals,
    sorted_distinct,
    split_time,
)
from steropes.designs.case_series.model_settings import SeriesModelSettings
from steropes.designs.case_series.row_accumulator import RowAccumulator
from steropes.designs.case_series.series_column_descriptions import (
    CONTROL,
    GROUP,
    Column,
    distinct_names,
    require_windows,
)
from steropes.designs.case_series.spline_columns import SplineColumns

__all__ = ["PROBE", "Intervals", "make_intervals"]

PROBE = "end of observation"
STATISTICS = (
    "subjects", "periods", "eras", "days", "events", "observed_days", "observed_events",
    "days_before",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Intervals:
    """The rows and columns of the model.

    Attributes
    ----------
    X : csc array of bool, (n, p)
        The 0/1 covariates.
    splines : SplineColumns
        Columns of the splines, (n, q); q may be 0.
    events : (n,) int array
    days : (n,) float array
        Length of each row in days, or its weight.
    case : (n,) int array
        The case of each row, ascending; cases are the strata of the model.
    columns : list of Column
        Of X and then of the splines.
    statistics : DataFrame
        For each column of X: ``subjects``, ``periods`` (cases) and ``eras`` (spans) with it, their
        ``days``, ``events`` in them, ``observed_days`` and ``observed_events`` of those cases, and
        ``days_before``, their days of observation before the first that counts. The part that the
        model compares is ``compared_days`` in the column, ``compared_total`` of the same cases and
        their ``compared_events``: in a risk interval design only days in windows and the control
        interval, of cases with both.
    attrition : tuple of (str, int, int, int, int)
        The last line of attrition, as in `Population.attrition`: the cases in the model.
    comparable : tuple of (str, int, int, int, int) or None
        The preceding line, of cases with time to compare, if unexposed cases were left out of the
        fit of splines (``spline_cases``).
    month : (n,) int array or None
        Months since year 0 of the rows, if there are splines.
    birth : (n,) int array or None
        Day of birth of the case of each row, since 1970-01-01, if a spline depends on the age.
    """

    X: sparse.csc_array
    splines: SplineColumns
    events: NDArray
    days: NDArray
    case: NDArray
    columns: list[Column]
    names: list[str]
    statistics: pd.DataFrame
    attrition: tuple[str, int, int, int, int]
    comparable: tuple[str, int, int, int, int] | None = None
    month: NDArray | None = None
    birth: NDArray | None = None

    def __repr__(self) -> str:
        return f"Intervals({len(self.names):,} covariates)"

    def __len__(self) -> int:
        return len(self.days)

    @property
    def time(self) -> NDArray:
        """The columns of the splines as an array, (n, q)."""
        return self.splines.dense()

    def design(self) -> steropes.Design:
        """Return the covariates as a design for an estimator."""
        ones = SparseBlock.indicator(len(self), self.X.indptr, self.X.indices)  # Not a copy.
        if not self.splines.shape[1]:
            return steropes.Design([ones], self.names)
        return steropes.Design([ones, *steropes.as_design(self.time).blocks], self.names)

    def take(self, rows: NDArray) -> Intervals:
        """Select rows by a mask or by ascending numbers."""
        X = sparse.csc_array(self.X.tocsr()[rows])
        return Intervals(
            X, self.splines.take(rows), self.events[rows], self.days[rows], self.case[rows],
            self.columns, self.names, self.statistics, self.attrition, self.comparable,
            None if self.month is None else self.month[rows],
            None if self.birth is None else self.birth[rows],
        )  # fmt: skip


def make_intervals(
    chunks: Iterable[Spans],
    population: Cases,
    settings: SeriesModelSettings,
    columns: list[Column],
    effects: TimeEffects | None = None,
    censoring: CensorModel | None = None,
    strict: bool = True,
) -> Intervals:
    """Split the time of all cases into rows of the model.

    Parameters
    ----------
    chunks : iterable of Spans
        The days of each column, of some cases after others; the result does not depend on their
        number.
    columns : list of Column
        The covariates; the control interval, if there is one, is the last.
    censoring : CensorModel, optional
        With event-dependent observation, lengths are replaced by its weights.
    strict : bool
        Whether to raise for data without information on any window.

    Raises
    ------
    DataError
        No case has a window, or none of the exposures of interest changes within any case.
    """
    scri = bool(columns) and columns[-1].window == CONTROL
    probe = 0 if scri else settings.end_of_observation_days
    every = [*columns, *([Column(PROBE, -1)] if probe else [])]
    tally = _ColumnCounts(len(every), population)
    spread = _spread(settings, population) if effects is not None else None
    rows = RowAccumulator(len(every) - scri)
    contrast = contrast_columns(columns)
    windows = np.array([c.window != GROUP for c in every]) if scri else None
    own = exposed = 0
    for spans in chunks:
        own += len(spans.case)
        exposed += len(sorted_distinct(spans.case[np.isin(spans.column, contrast)]))
        pieces = _chunk(
            spans, population, probe, len(columns), windows, effects, censoring, spread, tally
        )
        rows.add(pieces, spans.a)
    if strict:
        require_windows(np.array([own]), columns)
    kept = every[: len(columns) - scri] + every[len(columns) :]
    if scri:
        tally.drop(len(columns) - 1)
    result = _assemble(rows, kept, effects, tally, population, settings.spline_cases)
    _add_compared(result, scri)
    if strict:
        ones = [result.X.indices[result.X.indptr[j] : result.X.indptr[j + 1]] for j in contrast]
        names = [result.names[j] for j in contrast]
        require_contrast(result.case, ones, names, exposed, population)
    return result


def _chunk(
    spans: Spans,
    population: Cases,
    probe: int,
    n_eras: int,
    windows: NDArray | None,
    effects: TimeEffects | None,
    censoring: CensorModel | None,
    spread: NDArray | None,
    tally: _ColumnCounts,
) -> ModelRows:
    """Build the rows of one chunk of cases.

    ``windows`` marks the columns of windows in a risk interval design, in which only the days in
    one of them count, the last of which is the control interval; otherwise it is None.
    """
    part = slice(spans.a, spans.b)
    start, end, observed = (
        v[part] for v in (population.start, population.end, population.observed)
    )
    case, column, first, last = spans.case - spans.a, spans.column, spans.first, spans.last
    exposed = np.zeros(len(start), bool)
    exposed[case] = True
    if probe:
        k = np.arange(len(start))
        case, column = np.concatenate([case, k]), np.concatenate([column, np.full(len(k), n_eras)])
        first = np.concatenate([first, np.maximum(start, end - probe + 1)])
        last = np.concatenate([last, end])
    a, b = np.searchsorted(population.outcome_case, (spans.a, spans.b))
    outcomes = population.outcome_case[a:b] - spans.a, population.outcome_day[a:b]
    months = None if effects is None else effects.month_starts(observed, start, end)
    intervals = split_time(start, end, (case, column, first, last), outcomes, months)
    keep = np.bincount(intervals.case, minlength=len(start)) > 1
    tally.comparable[part] = keep
    if spread is not None:
        keep &= exposed | spread[part]
    tally.add(spans.a, (case, column, first, last), outcomes, keep, start, end)
    rows = keep[intervals.case]
    if windows is not None:
        inside = np.concatenate([[0], np.cumsum(windows[intervals.columns])])
        rows &= np.diff(inside[intervals.indptr]) > 0
    intervals = intervals.take(np.flatnonzero(rows))
    if windows is not None:
        intervals = _without(intervals, n_eras - 1)
    days = (intervals.last - intervals.first + 1).astype(float)
    tally.days += int(days.sum())
    if censoring is not None:
        of = spans.a + intervals.case
        days = censoring.weights(
            population.age[of], population.start[of], population.end[of],
            population.end_known[of], intervals.first, intervals.last,
        )  # fmt: skip
    if effects is None:
        return merge_equal_intervals(intervals, days)
    of = spans.a + intervals.case
    month = month_of(population.observed[of] + intervals.first)
    age = None
    if effects.of_age:
        # The age on the first day of the month, or of the case.
        begins = np.maximum(first_day(month) - population.observed[of], population.start[of])
        age = population.age[of] + begins
    return ModelRows(
        intervals.case, intervals.events, days, intervals.indptr, intervals.columns, month, age
    )


def _without(intervals: TimeIntervals, column: int) -> TimeIntervals:
    """Remove a column: the control interval is the reference, where no window is."""
    keep = intervals.columns != column
    before = np.concatenate([[0], np.cumsum(keep)])
    return TimeIntervals(
        intervals.case,
        intervals.first,
        intervals.last,
        intervals.events,
        before[intervals.indptr],
        intervals.columns[keep],
    )


def _spread(settings: SeriesModelSettings, population: Cases) -> NDArray:
    """Choose the evenly spaced cases that fit the splines without having an exposure."""
    n, most = len(population), settings.spline_cases
    chosen = np.ones(n, bool)
    if n > most:
        chosen[:] = False
        places = np.floor(np.arange(most) * (n - 1) / (most - 1)) if most > 1 else [(n - 1) // 2]
        chosen[np.asarray(places, np.int64)] = True
    return chosen


class _ColumnCounts:
    """Statistics of each column over chunks, among cases with more than one row."""

    def __init__(self, n_columns: int, population: Cases) -> None:
        self.population = population
        self.table = np.zeros((n_columns, len(STATISTICS)), np.int64)
        self.last_person = np.full(n_columns, -1)
        self.days = 0  # Days of all rows, whatever their weights.
        self.comparable = np.zeros(len(population), bool)  # Cases with more than one row.

    def add(
        self,
        a: int,
        spans: tuple[NDArray, NDArray, NDArray, NDArray],
        outcomes: tuple[NDArray, NDArray],
        keep: NDArray,
        start: NDArray,
        end: NDArray,
    ) -> None:
        """Count the spans of a chunk that begins with case ``a``."""
        used = keep[spans[0]]
        case, column, first, last = (v[used] for v in spans)
        p = len(self.table)

        def total(column: NDArray, of: NDArray | None = None) -> NDArray:
            """Sum by column."""
            return np.bincount(column, of, minlength=p).astype(np.int64)

        key = case_day_key(*outcomes)
        inside = np.searchsorted(key, case_day_key(case, last) + 1) - np.searchsorted(
            key, case_day_key(case, first)
        )
        per_case = np.bincount(outcomes[0], minlength=len(start))
        pair = sorted_distinct(column * len(start) + case)
        c, k = pair // len(start), pair % len(start)
        person = self.population.person[a + k]
        # The cases of a person are consecutive, even across chunks.
        new = np.ones(len(c), bool)
        new[1:] = (c[1:] != c[:-1]) | (person[1:] != person[:-1])
        heads = np.flatnonzero(np.diff(c, prepend=-1) != 0)
        new[heads] = person[heads] != self.last_person[c[heads]]
        tails = np.flatnonzero(np.diff(c, append=-1) != 0)
        self.last_person[c[tails]] = person[tails]
        self.table += np.column_stack(
            [
                total(c[new]), total(c), total(column), total(column, last - first + 1),
                total(column, inside), total(c, (end - start + 1)[k]), total(c, per_case[k]),
                total(c, start[k]),
            ]
        )  # fmt: skip

    def drop(self, column: int) -> None:
        """Remove a column."""
        self.table = np.delete(self.table, column, axis=0)


def _add_compared(made: Intervals, scri: bool) -> None:
    """Add to the statistics the time and outcomes of each column that the model compares."""
    table = made.statistics
    found = table[["days", "observed_days", "observed_events"]].to_numpy(copy=True)
    if scri:  # The other days of those cases are not in the model.
        n = int(made.case[-1]) + 1 if len(made) else 0
        total, events = (np.bincount(made.case, v, n) for v in (made.days, made.events))
        for j in range(len(table)):
            on = made.X.indices[made.X.indptr[j] : made.X.indptr[j + 1]]
            inside = np.bincount(made.case[on], made.days[on], n)
            both = (inside > 0) & (inside < total)
            found[j] = inside[both].sum(), total[both].sum(), events[both].sum()
    table[["compared_days", "compared_total", "compared_events"]] = found


def _assemble(
    rows: RowAccumulator,
    columns: list[Column],
    effects: TimeEffects | None,
    tally: _ColumnCounts,
    population: Cases,
    spline_cases: int,
) -> Intervals:
    """Assemble the rows of all chunks, the columns and the last lines of attrition."""
    p = len(columns)
    X = rows.matrix()
    case, events, days = rows.case.whole(), rows.events.whole(), rows.days.whole()
    cases = case[np.concatenate([[True], case[1:] != case[:-1]])] if len(case) else case
    extra = [] if effects is None else effects.names
    flags = [] if effects is None else [e.penalized for e in effects.effects for _ in e.names]
    columns = columns + [
        Column(n, -2, penalized=f, interval=False) for n, f in zip(extra, flags, strict=True)
    ]
    names = distinct_names(columns)
    statistics = pd.DataFrame(tally.table, columns=list(STATISTICS), index=names[:p])
    comparable = None
    rule = "with time to compare"
    if effects is not None and int(tally.comparable.sum()) > len(cases):
        comparable = _comparable(population, tally.comparable, rule)
        rule = f"with exposure, or among {spline_cases:,} cases that fit the splines (spline_cases)"
    attrition = (
        rule,
        len(sorted_distinct(population.person[cases])),
        int(events.sum()),
        len(cases),
        tally.days,
    )
    month = birth = None
    splines = SplineColumns(len(case))
    if effects is not None:
        month = rows.month.whole()
        splines = effects.columns(month, rows.age.whole())
        if effects.of_age:
            birth = (population.observed - population.age).astype(np.int32)[case]
    return Intervals(
        X, splines, events, days, case, columns, names, statistics, attrition, comparable, month,
        birth,
    )  # fmt: skip


def _comparable(population: Cases, mask: NDArray, rule: str) -> tuple[str, int, int, int, int]:
    """Return the line of attrition of some cases."""
    events = np.bincount(population.outcome_case, minlength=len(population))
    days = population.end - population.start + 1
    return (
        rule,
        count_distinct(population.person[mask]),
        int(events[mask].sum()),
        int(mask.sum()),
        int(days[mask].sum()),
    )
