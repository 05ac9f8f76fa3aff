"""Plots of survival, incidence and other curves with confidence bands and numbers at risk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..data.aalen_johansen import AalenJohansen
from ..data.survival_curve import KaplanMeier
from ..errors import DataError
from .plot_style import FAINT, MUTED, curve_colour, get_axes, remove_clutter, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["incidence_curves", "interval_curves", "survival_curves"]

# The numbers at risk begin at this distance, in points, below and to the left of the axes.
LOWER, LEFT = 46, 26

# A curve: its label, times, values, and lower and upper limits.
Line = tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def survival_curves(
    curves: KaplanMeier | dict[Any, KaplanMeier] | pd.DataFrame,
    *,
    level: float = 0.95,
    at_risk: bool = True,
    until: float | None = None,
    time_label: str = "Time",
    ax: Axes | None = None,
) -> Axes:
    """Draw survival curves with confidence bands and the numbers at risk.

    Parameters
    ----------
    curves : KaplanMeier, dict of them by label, or DataFrame
        The result of `steropes.kaplan_meier`, or a long table of ``time``, ``survival``,
        ``lower`` and ``upper``, such as ``model.curves.survival(X)`` and
        ``model.curves.standardized_survival(...).survival``. A table has a curve for each value
        of its first column (if that is not ``time``) and no numbers at risk.
    level : float
        Confidence level of the bands of Kaplan–Meier curves.
    at_risk : bool
        Whether to show numbers at risk (sums of weights) below the axes.
    until : float, optional
        The end of the time axis.
    time_label : str
        The label of the time axis.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If ``curves`` is none of these or lacks columns.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 0, 1, 1, 0, 1])
    >>> curves = steropes.kaplan_meier(y, groups=["a", "a", "a", "b", "b", "b"])
    >>> ax = steropes.plots.survival_curves(curves, time_label="Years")
    >>> ax.get_ylabel()
    'Survival'
    """
    if isinstance(curves, pd.DataFrame):
        lines, counts = _of_table(curves, "survival"), {}
    else:
        of_group = {"": curves} if isinstance(curves, KaplanMeier) else dict(curves)
        _check(of_group, KaplanMeier, "survival_curves", "kaplan_meier")
        lines = [(str(k), c.times, c.survival, *c.interval(level)) for k, c in of_group.items()]
        counts = {str(k): (c.times, c.at_risk) for k, c in of_group.items()}
    ax = get_axes(ax, (7.0, 4.2 + 0.25 * len(counts) * at_risk))
    _draw(ax, lines, 1.0, until)
    ax.set(ylabel="Survival", xlabel=time_label)
    _floor(ax, min(float(np.nanmin(low, initial=1.0)) for *_, low, _ in lines))
    return _finish(ax, lines, counts if at_risk else {}, _emptier(ax, lines))


def incidence_curves(
    curves: AalenJohansen | dict[Any, AalenJohansen] | pd.DataFrame,
    *,
    cause: int | None = None,
    level: float = 0.95,
    at_risk: bool = True,
    until: float | None = None,
    time_label: str = "Time",
    ax: Axes | None = None,
) -> Axes:
    """Draw cumulative incidence curves with confidence bands and the numbers at risk.

    Parameters
    ----------
    curves : AalenJohansen, dict of them by label, or DataFrame
        The result of `steropes.aalen_johansen`, or a long table of ``time``, ``incidence``,
        ``lower`` and ``upper``, such as ``model.curves.incidence(X)`` of Fine–Gray models. A
        table has a curve for each value of its first column (if that is not ``time``) and no
        numbers at risk.
    cause : int, optional
        The event to draw. By default all events are drawn without groups, and the first event
        with groups.
    level : float
        Confidence level of the bands.
    at_risk : bool
        Whether to show numbers at risk (sums of weights) below the axes.
    until : float, optional
        The end of the time axis.
    time_label : str
        The label of the time axis.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If ``curves`` is none of these or lacks columns, or there is no such cause.

    Examples
    --------
    >>> import steropes
    >>> curves = steropes.aalen_johansen(steropes.Surv([1, 2, 3, 4], [1, 2, 0, 1]))
    >>> ax = steropes.plots.incidence_curves(curves, at_risk=False)
    >>> ax.get_xlabel()
    'Time'
    """
    if isinstance(curves, pd.DataFrame):
        if cause is not None:
            raise DataError("A table of incidence is of one cause; leave cause out.")
        table = _of_table(curves, "incidence")
        return _incidence(get_axes(ax, (7.0, 4.2)), table, "", until, time_label, {})
    alone = isinstance(curves, AalenJohansen)
    of_group = {"": curves} if isinstance(curves, AalenJohansen) else dict(curves)
    _check(of_group, AalenJohansen, "incidence_curves", "aalen_johansen")
    causes = [int(k) for k in next(iter(of_group.values())).causes]
    if cause is not None and cause not in causes:
        raise DataError(f"There is no cause {cause}; there are {causes}.")
    shown = causes if alone and cause is None else [causes[0] if cause is None else cause]
    lines: list[Line] = []
    for label, found in of_group.items():
        limits = [x.to_numpy() for x in found.interval(level)]
        for k in shown:
            j = causes.index(k)
            name = str(label) if not alone else f"cause {k}"
            low, high = (x[:, j] for x in limits)
            lines.append((name, found.times, found.incidence[:, j], low, high))
    counts = {str(k): (c.times, c.at_risk) for k, c in of_group.items()}
    ax = get_axes(ax, (7.0, 4.2 + 0.25 * len(counts) * at_risk))
    of = "" if len(shown) > 1 else f" of cause {shown[0]}"
    return _incidence(ax, lines, of, until, time_label, counts if at_risk else {})


def interval_curves(
    table: pd.DataFrame,
    column: str,
    *,
    x: str = "time",
    labels: Sequence[str] = (),
    step: bool = False,
    ratio: bool = False,
    reference: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates against time or another number, with their limits as bands.

    Parameters
    ----------
    table : DataFrame
        The estimates, and ``lower`` and ``upper`` if there are limits, such as
        ``model.validation.time_dependent_auc(X, y, times)``.
    column : str
        The column of the estimates.
    x : str
        The column, or name of the index, of the horizontal axis. Default "time".
    labels : sequence of str
        Columns whose values name the curves. Those that are not in the table are left out.
    step : bool
        Whether estimates are constant up to the next value of x.
    ratio : bool
        Whether to use a log scale for the estimates.
    reference : float, optional
        A value to mark, such as that without an effect.
    label : str, optional
        The label of the vertical axis. Default ``column``.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 1, 1, 0, 1, 1])
    >>> table = steropes.time_dependent_auc([6.0, 5.0, 3.0, 4.0, 2.0, 1.0], y, times=[2, 3])
    >>> steropes.plots.interval_curves(table, "auc").get_xlabel()
    'Time'
    """
    if x in table.index.names and x not in table:
        table = table.reset_index()
    require_columns(table, (x, column), "interval_curves")
    keys = [name for name in labels if name in table]
    groups = [("", table)]
    if keys:
        groups = [(" ".join(map(str, k)), part) for k, part in table.groupby(keys, sort=False)]
    ax = get_axes(ax, (7.0, 4.2))
    for i, (name, part) in enumerate(groups):
        if ordered := pd.api.types.is_numeric_dtype(part[x]):
            part = part.sort_values(x)
        at, values = part[x].to_numpy(), part[column].to_numpy(float)
        if {"lower", "upper"} <= set(part.columns):
            low, high = part["lower"].to_numpy(float), part["upper"].to_numpy(float)
            ax.fill_between(
                at,
                low,
                high,
                step="post" if step else None,
                color=curve_colour(i),
                alpha=0.15,
                lw=0,
            )
        ax.plot(
            at, values, color=curve_colour(i), lw=1.7 if ordered else 0, label=name,
            drawstyle="steps-post" if step else "default", marker="o" if len(at) < 20 else "", ms=4,
        )  # fmt: skip
    if reference is not None:
        ax.axhline(reference, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    if ratio:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        low, high = ax.get_ylim()
        ax.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if high < 10 * low else "")
    if keys and len(groups) > 1:
        ax.legend(frameon=False, handlelength=1.4)
    ax.set(xlabel=x if len(x) == 1 else x.capitalize(), ylabel=column if label is None else label)
    return remove_clutter(ax)


def _incidence(
    ax: Axes,
    lines: list[Line],
    of: str,
    until: float | None,
    time_label: str,
    counts: dict[str, tuple[np.ndarray, np.ndarray]],
) -> Axes:
    """Draw incidence curves on axes, with a legend and the numbers at risk."""
    _draw(ax, lines, 0.0, until)
    ax.set(ylabel=f"Cumulative incidence{of}", xlabel=time_label)
    ax.set_ylim(0, 1.04 * max(float(np.nanmax(high, initial=1e-6)) for *_, high in lines))
    return _finish(ax, lines, counts, "upper left")


def _emptier(ax: Axes, lines: list[Line]) -> Literal["lower left", "upper right"]:
    """Choose the corner of the legend: the right one if a curve falls low before the middle."""
    low, high = ax.get_ylim()
    early = ax.get_xlim()[0] + 0.4 * np.diff(ax.get_xlim())[0]
    lowest = min((float(x[t <= early].min(initial=high)) for _, t, x, *_ in lines), default=high)
    return "upper right" if lowest < low + 0.4 * (high - low) else "lower left"


def _check(of_group: dict[object, object], kind: type, what: str, made_by: str) -> None:
    """Refuse anything but curves of one kind."""
    if not of_group or not all(isinstance(c, kind) for c in of_group.values()):
        raise DataError(f"{what} draws what steropes.{made_by} gives, or a dict of such by label.")


def _of_table(table: pd.DataFrame, value: Literal["survival", "incidence"]) -> list[Line]:
    """Split a long table into curves, one for each value of its first column."""
    columns = ("time", value, "lower", "upper")
    if table.index.name == "time" and "time" not in table:
        table = table.assign(time=table.index).reset_index(drop=True)
    require_columns(table, columns, f"{value}_curves")
    key = table.columns[0]
    alone = key in columns or key in ("at_risk", "events")
    groups = [("", table)] if alone else list(table.groupby(key, sort=False))
    lines: list[Line] = []
    for label, part in groups:
        part = part.dropna(subset=[value]).sort_values("time")
        name = "" if alone else f"{key} {label}"
        lines.append((name, *(part[k].to_numpy(float) for k in columns)))
    return lines


def _draw(ax: Axes, lines: list[Line], start: float, until: float | None) -> None:
    """Draw step functions with bands; ``start`` is their value before the first time."""
    last = max((float(t[-1]) for _, t, *_ in lines if len(t)), default=1.0)
    end = last if until is None else float(until)
    for i, (label, t, value, low, high) in enumerate(lines):
        here = t <= end
        x = np.concatenate([[min(0.0, float(t[0]) if len(t) else 0.0)], t[here]])
        more = t[~here]
        x = np.append(x, end if len(more) else x[-1])

        def steps(v: np.ndarray, here: np.ndarray = here) -> np.ndarray:
            seen = v[here]
            return np.concatenate([[start], seen, [seen[-1] if len(seen) else start]])

        ax.fill_between(
            x, steps(low), steps(high), step="post", color=curve_colour(i), alpha=0.15, lw=0
        )
        ax.step(x, steps(value), where="post", color=curve_colour(i), lw=1.7, label=label)
    ax.set_xlim(min(0.0, min((float(t[0]) for _, t, *_ in lines if len(t)), default=0.0)), end)
    ax.grid(axis="y", color=FAINT, lw=0.6)
    ax.set_axisbelow(True)


def _floor(ax: Axes, lowest: float) -> None:
    """Set a round lower limit of the y axis so that the curves use most of the height."""
    for room in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        if lowest >= 1 - 0.95 * room:
            ax.set_ylim(1 - room, 1 + 0.01 * room)
            return
    ax.set_ylim(0, 1.01)


def _finish(
    ax: Axes,
    lines: list[Line],
    counts: dict[str, tuple[np.ndarray, np.ndarray]],
    corner: Literal["lower left", "upper left", "upper right"],
) -> Axes:
    """Add a legend and the numbers at risk."""
    if any(label for label, *_ in lines):
        ax.legend(loc=corner, frameon=False, handlelength=1.4)
    remove_clutter(ax)
    if counts:
        _numbers(ax, counts)
    return ax


def _numbers(ax: Axes, counts: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Write the numbers at risk at the ticks, in lines below the label of the axis."""
    from matplotlib.transforms import offset_copy

    low, high = ax.get_xlim()
    ticks = [t for t in ax.get_xticks() if low - 1e-9 <= t <= high * (1 + 1e-9)]
    ax.set_xticks(ticks)
    ax.set_xlim(low, high)
    across, figure = ax.get_xaxis_transform(), ax.get_figure(root=True)
    first = offset_copy(across, figure, 0, -LOWER, "points")
    ax.text(
        0, 0, "At risk", transform=offset_copy(ax.transAxes, figure, -LEFT, -LOWER, "points"),
        ha="right", va="center", fontsize=9, color=MUTED,
    )  # fmt: skip
    grouped = len(counts) > 1 or any(counts)
    for i, (label, (times, at_risk)) in enumerate(counts.items()):
        down = -LOWER - 14 * (i + grouped)
        row = offset_copy(across, figure, 0, down, "points") if grouped else first
        colour = curve_colour(i) if grouped else MUTED
        if grouped:
            name = label if len(label) <= 16 else label[:15] + "…"
            ax.text(
                0, 0, name, transform=offset_copy(ax.transAxes, figure, -LEFT, down, "points"),
                ha="right", va="center", fontsize=9, color=colour,
            )  # fmt: skip
        for t in ticks:
            k = int(np.searchsorted(times, t, side="left"))
            number = at_risk[k] if k < len(at_risk) else 0.0
            text = f"{number:.0f}" if abs(number - round(number)) < 1e-6 else f"{number:.1f}"
            ax.text(t, 0, text, transform=row, ha="center", va="center", fontsize=9)
