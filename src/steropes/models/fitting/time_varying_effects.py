"""Effects that change with time and their prior.

They are step functions, ``time_varying={"x": [90, 180]}``, or linear in a function of time,
``time_varying={"x": "log"}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.column_lookup import ColumnLookup
from ...design_matrix.piecewise_design import StepEffects
from ...errors import DataError
from ...priors import CopiedColumns, Prior, PriorColumns

__all__ = ["prior_of_copies", "prior_of_step_effects", "read_step_effects"]


@dataclass(frozen=True)
class FunctionOfTime:
    """A function of time by which an effect changes, with its name in names of coefficients."""

    name: str
    evaluate: Callable[[np.ndarray], Any]

    def at(self, times: np.ndarray, column: str) -> np.ndarray:
        """Evaluate at event times; refuse values that are not finite numbers."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.asarray(self.evaluate(times.copy()))
        if found.dtype.kind == "c":
            raise DataError(
                f"time_varying's function {self.name} for {column!r} returns complex numbers."
            )
        values = found.astype(np.float64)
        if values.shape != times.shape:
            raise DataError(
                f"time_varying's function {self.name} for {column!r} must return one number for "
                f"each of {len(times)} times; it returned shape {values.shape}."
            )
        if not np.isfinite(values).all():
            first = times[~np.isfinite(values)][0]
            raise DataError(
                f"time_varying's {self.name} for {column!r} is not finite at the event time "
                f"{first:g}; add a number to the times, such as lambda t: np.log(t + 1)."
            )
        return values


def _function_of_time(setting: object) -> FunctionOfTime | None:
    """Read a function of time; return None if the setting is not one."""
    if isinstance(setting, str):
        if setting != "log":
            raise DataError(
                f"time_varying takes 'log', a function of time or cut points, not {setting!r}."
            )
        return FunctionOfTime("log(t)", np.log)
    if not callable(setting):
        return None
    name = getattr(setting, "__name__", "f")
    return FunctionOfTime(f"{'f' if name == '<lambda>' else name}(t)", setting)


def read_step_effects(
    time_varying: object, names: Sequence[str], event_times: Callable[[], np.ndarray]
) -> tuple[np.ndarray, StepEffects | None]:
    """Convert the setting to the union of cut points and the intervals of each coefficient.

    Effects that are linear in a function of time have an interval for each event time, because the
    partial likelihood uses the effects at event times only.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.

    Returns
    -------
    cuts : (Q − 1,) array
    effects : StepEffects or None
        None if no effect varies.

    Raises
    ------
    DataError
        If a column is unknown or repeated, or its cut points are invalid.
    """
    if time_varying is None or (isinstance(time_varying, Mapping) and not time_varying):
        return np.empty(0), None
    if not isinstance(time_varying, Mapping):
        raise DataError(
            'time_varying must be a mapping such as {"x": [90, 180]}, not '
            f"{type(time_varying).__name__}."
        )
    places = ColumnLookup(names, "time_varying")
    own: dict[int, np.ndarray] = {}
    functions: dict[int, FunctionOfTime] = {}
    for key, points in time_varying.items():
        j = places.of(key)
        if j in own or j in functions:
            raise DataError(f"time_varying has column {names[j]!r} twice.")
        function = _function_of_time(points)
        if function is None:
            own[j] = _points(points, names[j])
        else:
            functions[j] = function
    given = [np.asarray(event_times(), np.float64)] if functions else []
    if functions and not len(given[0]):
        raise DataError("y has no events, at whose times a function of time could be evaluated.")
    cuts = np.unique(np.concatenate([*own.values(), *given]))
    steps = _steps(names, own, cuts)
    whole = [(j, 0, len(cuts), f"{names[j]}:{f.name}") for j, f in functions.items()]
    source, first, last = np.array([row[:3] for row in (*steps, *whole)]).T
    labels = [row[3] for row in (*steps, *whole)]
    if len(set(labels)) < len(labels):
        twice = next(x for x in labels if ("@" in x or ":" in x) and labels.count(x) > 1)
        raise DataError(f"Two coefficients would be called {twice!r}; rename the column of X.")
    if not functions:
        return cuts, StepEffects(source, first, last, labels, len(cuts) + 1)
    # An interval ends with its event time; none is after the last.
    times = np.append(cuts, cuts[-1])
    values = np.ones((len(source), len(times)))
    inside = np.isin(times, given[0])
    for k, (j, function) in enumerate(functions.items(), len(steps)):
        values[k] = 0.0
        values[k, inside] = function.at(times[inside], names[j])
    known = {k: f.evaluate for k, f in enumerate(functions.values(), len(steps))}
    return cuts, StepEffects(source, first, last, labels, len(times), values, known)


def _steps(
    names: Sequence[str], own: dict[int, np.ndarray], cuts: np.ndarray
) -> list[tuple[int, int, int, str]]:
    """List each coefficient's column, first and last interval, and name.

    ``own`` has the cut points of the columns with steps; other columns have one coefficient.
    """
    out = []
    for j, name in enumerate(names):
        if j not in own:
            out.append((j, 0, len(cuts), name))
            continue
        edges = own[j]
        at = np.searchsorted(cuts, edges)  # the interval that ends with each of them
        begin = "0" if edges[0] > 0 else "-inf"
        ends = [begin, *(f"{x:.12g}" for x in edges), "inf"]
        for k in range(len(edges) + 1):
            first = 0 if k == 0 else int(at[k - 1]) + 1
            last = len(cuts) if k == len(edges) else int(at[k])
            bracket = ")" if k == len(edges) else "]"
            out.append((j, first, last, f"{name}@({ends[k]},{ends[k + 1]}{bracket}"))
    return out


def _points(points: object, name: str) -> np.ndarray:
    """Validate the cut points of a column."""
    try:
        edges = np.atleast_1d(np.asarray(points, np.float64))
    except (TypeError, ValueError):
        edges = np.empty(0)
    if edges.ndim != 1 or len(edges) == 0 or not np.isfinite(edges).all():
        raise DataError(f"time_varying needs finite cut points for {name!r}, not {points!r}.")
    if (np.diff(edges) <= 0).any():
        raise DataError(f"time_varying's cut points for {name!r} must ascend: {points!r}.")
    return edges


def prior_of_step_effects(
    prior: Prior | None, names: Sequence[str], effects: StepEffects
) -> tuple[Prior | None, PriorColumns | None]:
    """Give each step the prior of its column; ``exclude`` takes columns or single steps."""
    if not isinstance(prior, Prior):
        return prior, None
    exclude = _excluded(prior.exclusions(len(names)), names, effects)
    return prior_of_copies(prior, effects.source, names, exclude, effects.names)


def prior_of_copies(
    prior: Prior,
    source: np.ndarray,
    names: Sequence[str],
    exclude: Sequence[str],
    copies: Sequence[str],
) -> tuple[Prior, PriorColumns | None]:
    """Return the prior of coefficients of which several can belong to one column.

    Parameters
    ----------
    source, names, exclude, copies
        Arguments of `Prior.of_copies`, with ``exclude`` by name.

    Returns
    -------
    prior : Prior
        The prior of the coefficients, or that of the columns.
    columns : PriorColumns or None
        In the second case, an adapter that asks the prior about the columns.

    Raises
    ------
    DataError
        If ``exclude`` names neither a column nor a coefficient.
    """
    wider = prior.of_copies(source, names, exclude, copies)
    if wider is not None:
        return wider, None
    for name in exclude:
        if name not in copies:
            raise DataError(f"exclude names {name!r}, which is not a column of X.")
    return prior, CopiedColumns(names, source, copies, exclude)


def _excluded(value: Sequence[str | int], names: Sequence[str], effects: StepEffects) -> list[str]:
    """Convert names and positions of excluded columns to names of coefficients."""
    out: list[str] = []
    places = ColumnLookup(names, "exclude")
    for item in value:
        if isinstance(item, str) and (item in effects.names or item not in names):
            out.append(item)  # a single step, or an unknown name that is refused later
            continue
        j = places.of(item)
        out += [effects.names[k] for k in np.flatnonzero(effects.source == j)]
    return out
