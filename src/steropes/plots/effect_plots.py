"""Plots of the effects of a model's variables: partial effects and nomograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..errors import DataError
from ..models import CoxRegression, LogisticRegression
from ..models.effects.partial_effects import typical_variables
from ..models.estimators.penalized_model import PenalizedModel
from .plot_style import (
    INK,
    MUTED,
    curve_colour,
    get_axes,
    remove_clutter,
    require_columns,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["nomogram", "partial_effect", "terms", "transformation"]

LABELS = {"linear": "Linear predictor", "response": "Predicted mean", "ratio": "Ratio"}
# A level's label is moved up if its points are closer to the last one than this.
NEAR = 7.0
# A nomogram marks the first of these sets of risks that has enough within its scale.
ENOUGH_RISKS = 4
RISKS: list[list[float]] = [
    [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9],
    [f * 10.0**-k for k in range(6, 0, -1) for f in (1, 2, 5)],
    *([step * m for m in range(1, round(1 / step))] for step in (0.05, 0.02, 0.01, 0.005, 0.001)),
]


def partial_effect(
    model: Any,
    variable: str | None = None,
    values: ArrayLike | None = None,
    *,
    scale: str = "linear",
    level: float = 0.95,
    at: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the effect of a variable along its range, the others held at typical values.

    Multinomial models have a curve for each class.

    Parameters
    ----------
    model : fitted estimator, or DataFrame
        A model that was fitted from a formula, or to a data frame; or the result of its
        ``effects.partial``, which determines ``variable``, ``values``, ``level`` and ``at``.
    variable : str
        A column of the data that the formula uses, or of the data frame.
    values : (m,) array, optional
        Values of the variable; see `PenalizedModel.effects.partial`.
    scale : {"linear", "response", "ratio"}
        Scale of the effect. Ratios are drawn on a log scale.
    level : float
        Confidence level of the band.
    at : mapping, optional
        Values of other variables, by name.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        As `PenalizedModel.effects.partial`, or if a table lacks columns.

    Examples
    --------
    >>> import numpy as np, pandas as pd, steropes
    >>> x = np.linspace(0, 1, 50)
    >>> data = pd.DataFrame({"y": np.sin(9 * x), "x": x})
    >>> model = steropes.LinearRegression.from_formula("y ~ bs(x, df=4)", data)
    >>> steropes.plots.partial_effect(model, "x").get_xlabel()
    'x'
    """
    if isinstance(model, pd.DataFrame):
        table = model
        require_columns(table, ("estimate", "lower", "upper"), "partial_effect")
        variable = str(table.columns[0])
    else:
        if variable is None:
            raise DataError("Name the variable whose effect is drawn.")
        table = model.effects.partial(variable, values, scale, level, at)
    ax = get_axes(ax, (6.0, 4.2))
    classes = [(None, table)]
    if "class" in table.index.names:
        classes = list(table.groupby(level="class", sort=False))
    for k, (label, part) in enumerate(classes):
        _draw_effect(ax, part, variable, k, len(classes), label)
    if len(classes) > 1:
        ax.legend(frameon=False)
    if scale != "response":
        ax.axhline(1.0 if scale == "ratio" else 0.0, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    if scale == "ratio":
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
    ax.set(xlabel=shorten_label(variable), ylabel=LABELS[scale])
    return remove_clutter(ax)


def _draw_effect(
    ax: Axes, table: pd.DataFrame, variable: str, k: int, count: int, label: object
) -> None:
    """Draw the k-th of some effects: a curve with a band, or points with limits next to others."""
    x, colour = table[variable], curve_colour(k)
    name = None if label is None else str(label)
    if pd.api.types.is_numeric_dtype(x) and len(table) > 2:
        ax.fill_between(x, table["lower"], table["upper"], color=colour, alpha=0.15, lw=0)
        ax.plot(x, table["estimate"], color=colour, lw=1.8, label=name)
        return
    ticks = np.arange(len(table))
    place = ticks + 0.15 * (k - (count - 1) / 2)
    ax.vlines(place, table["lower"], table["upper"], color=colour, lw=1.3)
    ax.plot(place, table["estimate"], "o", ms=5, color=colour, mew=0, label=name)
    ax.set_xticks(ticks, [shorten_label(level) for level in x])
    ax.set_xlim(-0.5, len(table) - 0.5)


def terms(table: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the contributions of terms to linear predictors, as box plots over rows.

    Parameters
    ----------
    table : DataFrame
        A column for each term, such as ``model.effects.terms(X)``. Terms with the widest
        contributions come first.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table has no rows or columns.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.1, 0.8, 2.3, 2.9]
    >>> model = steropes.LinearRegression().fit(X, y)
    >>> steropes.plots.terms(model.effects.terms(X)).get_xlabel()
    'Contribution to the linear predictor'
    """
    if not isinstance(table, pd.DataFrame) or table.empty:
        raise DataError("terms draws a table with a column for each term and at least one row.")
    order = np.argsort(-np.ptp(table.to_numpy(float), axis=0), kind="stable")
    names = [table.columns[j] for j in order]
    ax = get_axes(ax, (6.6, 1.1 + 0.32 * len(names)))
    ax.boxplot(
        [table.iloc[:, j].to_numpy(float) for j in order], orientation="horizontal", sym="",
        whis=(0, 100), medianprops={"color": curve_colour(0)}, boxprops={"color": INK},
        whiskerprops={"color": MUTED}, capprops={"color": MUTED},
    )  # fmt: skip
    ax.axvline(0, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    ax.set_yticks(np.arange(1, len(names) + 1), [shorten_label(name) for name in names])
    ax.invert_yaxis()
    ax.set_xlabel("Contribution to the linear predictor")
    return remove_clutter(ax)


def transformation(
    table: pd.DataFrame,
    *,
    scale: Literal["linear", "log", "symlog"] = "linear",
    names: Sequence[str] | None = None,
    label: str = "α(y)",
    ax: Axes | None = None,
) -> Axes:
    """Draw the estimated transformation of an outcome against its values, with limits.

    On linear and log scales a dashed straight line is drawn for comparison, by least squares
    between the 5th and 95th percentile of the values.

    Parameters
    ----------
    table : DataFrame
        ``y`` in ascending order, ``alpha`` and, if there are limits, ``lower`` and ``upper``, such
        as ``alpha_summary().reset_index()``.
    scale : {"linear", "log", "symlog"}
        Scale of the axis of y.
    names : sequence of str, optional
        Names of the values, for ordered categories.
    label : str
        The label of the vertical axis.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or has no rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> table = pd.DataFrame({"y": [1.0, 2.0, 4.0], "alpha": [-1.0, 0.2, 1.5]})
    >>> plots.transformation(table, scale="log").get_ylabel()
    'α(y)'
    """
    require_columns(table, ("y", "alpha"), "transformation")
    if table.empty:
        raise DataError("The table has no values to draw.")
    ax = get_axes(ax, (6.0, 4.2))
    y, alpha = table["y"].to_numpy(float), table["alpha"].to_numpy(float)
    if "lower" in table:
        limits = table["lower"].to_numpy(float), table["upper"].to_numpy(float)
        ax.fill_between(y, *limits, step="post", color=curve_colour(0), alpha=0.15, lw=0)
    ax.step(y, alpha, where="post", color=curve_colour(0), lw=1.8)
    if scale in ("linear", "log") and len(y) > 2:
        v = np.log(y) if scale == "log" else y
        a, b = np.quantile(np.arange(len(y)), [0.05, 0.95]).astype(int)
        slope, start = np.polyfit(v[a : b + 1], alpha[a : b + 1], 1) if b > a + 1 else (0, 0)
        line = start + slope * v
        # If the transformation is far from linear, the whole line would compress it.
        inside = (line >= alpha[0]) & (line <= alpha[-1])
        ax.plot(y[inside], line[inside], ls=(0, (4, 3)), lw=0.9, color=MUTED)
    ax.set_xscale(scale)
    if names is not None:
        ax.set_xticks(y, list(names))
    ax.set(xlabel="y", ylabel=label)
    return remove_clutter(ax)


def nomogram(
    model: Any,
    *,
    time: float | None = None,
    risks: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw scales from which a person's risk can be read without a computer.

    The effect with the widest range has 100 points. The points of all variables are added up,
    and the last scale turns the total into a risk.

    Parameters
    ----------
    model : fitted estimator
        A logistic or Cox model that was fitted to a data frame, or from a formula without
        interactions.
    time : float, optional
        Time by which a Cox model predicts the event; required for these.
    risks : sequence of float, optional
        Risks that are marked on the last scale, between 0 and 1. Default: round numbers, at least
        four if the scale has room for them.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the model has interactions, strata, an offset or no risks, or was fitted neither from
        a formula nor to a data frame.

    References
    ----------
    Harrell (2015), Regression Modeling Strategies, 2nd ed., §5.1.4. Kattan and Marasco (2010),
    Urologic Oncology 28:541.

    Examples
    --------
    >>> import numpy as np, pandas as pd, steropes
    >>> rng = np.random.default_rng(0)
    >>> data = pd.DataFrame({"age": rng.normal(60, 10, 200), "sex": rng.choice(["f", "m"], 200)})
    >>> data["y"] = (rng.random(200) < 1 / (1 + np.exp(6 - 0.1 * data["age"]))) * 1
    >>> model = steropes.LogisticRegression.from_formula("y ~ age + sex", data)
    >>> len(steropes.plots.nomogram(model).texts) > 10
    True
    """
    choices = RISKS if risks is None else [[float(r) for r in risks]]
    if not choices[0] or not all(0 < r < 1 for r in choices[0]):
        raise DataError("risks must be between 0 and 1.")
    variables = _variables(model)
    effects = {}
    for name, variable in variables.items():
        values = _round_values(variable) if variable.numeric else list(variable.values)
        effects[name] = model.effects.partial(name, values)
    effects = {name: t for name, t in effects.items() if np.ptp(t["estimate"]) > 0}
    if not effects:
        raise DataError("No variable of the model has an effect.")
    unit = max(float(np.ptp(t["estimate"])) for t in effects.values()) / 100.0
    ax = get_axes(ax, (8.0, 1.0 + 0.6 * (len(effects) + 3)))
    tens = list(range(0, 101, 10))
    rows: list[tuple[str, list[Any], list[Any], float]] = [("Points", tens, tens, 100.0)]
    lowest, total = 0.0, 0.0
    for name, t in effects.items():
        low = float(t["estimate"].min())
        lowest += low
        points = (t["estimate"] - low) / unit
        total += float(points.max())
        labels = [f"{v:g}" if isinstance(v, int | float | np.number) else v for v in t[name]]
        rows.append((name, list(points), labels, 100.0))
    marks = np.arange(0.0, total + 1e-9, _step(total))
    rows.append(("Total points", list(marks), [f"{m:g}" for m in marks], total))
    inside: list[tuple[float, str]] = []
    for choice in choices:
        at = [(eta - lowest) / unit for eta in _predictor_of_risk(model, time, choice)]
        found = [(a, f"{r:g}") for a, r in zip(at, choice, strict=True) if 0 <= a <= total]
        inside = max(inside, found, key=len)
        if len(inside) >= ENOUGH_RISKS:
            break
    name = "Risk" if time is None else f"Risk by {time:g}"
    rows.append((name, [a for a, _ in inside], [r for _, r in inside], total))
    for i, (label, points, texts, length) in enumerate(rows):
        _draw_scale(ax, -i, label, [100.0 * p / length for p in points], texts)
    ax.set(xlim=(-32, 104), ylim=(-len(rows) + 0.4, 0.8))
    ax.set_axis_off()
    return ax


def _variables(model: Any) -> Mapping[str, Any]:
    """Return the variables of a model, and refuse those that have no scale."""
    formula = getattr(model, "_formula", None)
    if not isinstance(model, PenalizedModel):
        raise DataError(f"{type(model).__name__} has no effects that a nomogram could show.")
    variables: Mapping[str, Any] = typical_variables(model)
    problem = getattr(model, "_problem", None)
    if problem is not None and problem.offset is not None and model._fixed is None:
        # Fixed coefficients are part of the offset, too.
        raise DataError("A nomogram has no scale for the offset of the fit.")
    if formula is None:
        return variables
    if formula.offsets:
        raise DataError("A nomogram has no scale for the offset of the formula.")
    crossed = [name for name in model.effects.terms(_center(model)).columns if ":" in name]
    if crossed:
        raise DataError(f"A nomogram has no scale for an interaction, such as {crossed[0]!r}.")
    return variables


def _center(model: Any) -> pd.DataFrame:
    """Return a row with all variables at their typical values."""
    from ..models.fitting.variable_summaries import typical_rows

    return typical_rows(typical_variables(model), {})


def _round_values(variable: Any) -> list[float]:
    """Return a few round values within the range of a numeric variable."""
    values = np.asarray(variable.values, float)
    if len(values) <= 10:
        return list(values)
    step = _step(float(values[-1] - values[0]))
    return list(np.arange(np.ceil(values[0] / step), np.floor(values[-1] / step) + 1) * step)


def _step(length: float) -> float:
    """Return a round step that divides a range into at most ten parts."""
    power = 10.0 ** np.floor(np.log10(length / 10.0))
    return float(next(f * power for f in (1, 2, 5, 10) if length / (f * power) <= 10))


def _predictor_of_risk(model: object, time: float | None, risks: Sequence[float]) -> list[float]:
    """Compute the linear predictor at which each risk is reached, relative to typical values."""
    center = _center(model)
    if isinstance(model, LogisticRegression):
        if time is not None:
            raise DataError("time belongs to survival models; leave it out.")
        base = float(model.linear_predictor(center)[0])
        return [float(np.log(r / (1 - r))) - base for r in risks]
    if not isinstance(model, CoxRegression):
        raise DataError(f"{type(model).__name__} has no risk that a nomogram could show.")
    if time is None:
        raise DataError("A nomogram of a survival model needs the time of the risk: time=….")
    survival = float(model.predict_survival(center, [time])[0, 0])
    if not 0 < survival < 1:
        raise DataError(f"The baseline survival at time {time:g} is not between 0 and 1.")
    return [float(np.log(np.log(1 - r) / np.log(survival))) for r in risks]


def _draw_scale(
    ax: Axes, y: float, label: str, points: Sequence[float], texts: Sequence[object]
) -> None:
    """Draw one line with ticks and labels."""
    ax.text(-4, y, shorten_label(label, 24), ha="right", va="center", color=INK, fontsize=9)
    if not points:
        return
    ax.plot([min(points), max(points)], [y, y], color=INK, lw=1)
    last, above = -np.inf, False
    for x, text in sorted(zip(points, map(str, texts), strict=True), key=lambda pair: pair[0]):
        above = not above and x - last < NEAR
        side = 1 if above else -1
        ax.plot([x, x], [y, y + 0.1 * side], color=INK, lw=1)
        ax.text(
            x, y + 0.15 * side, shorten_label(text, 12), ha="center",
            va="bottom" if above else "top", fontsize=8, color=MUTED,
        )  # fmt: skip
        last = x
