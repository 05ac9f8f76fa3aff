"""Plots of the choice of a prior's variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from .plot_style import (
    FAINT,
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

__all__ = ["coefficient_paths", "cross_validation_curve"]

# Tangents extend from a score's variance to the variance divided and multiplied by this factor.
TANGENT = 1.5


def coefficient_paths(
    path: pd.DataFrame, *, chosen: float | None = None, label: int = 7, ax: Axes | None = None
) -> Axes:
    """Draw coefficients against the prior's variance.

    Parameters
    ----------
    path : DataFrame
        The result of `steropes.coefficient_path`, a row for each variance and a column for each
        coefficient. A single variance is drawn as points.
    chosen : float, optional
        A variance to mark, such as ``variance_``.
    label : int
        Number of coefficients to colour and name, the largest at the right end; default 7.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table is none of variances and coefficients, or has no row.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 0, 1]
    >>> model = steropes.LogisticRegression(prior=steropes.Laplace())
    >>> path = steropes.coefficient_path(model, X, y, [0.01, 0.1, 1.0])
    >>> ax = steropes.plots.coefficient_paths(path, chosen=0.1)
    """
    if not isinstance(path, pd.DataFrame) or path.empty:
        raise DataError("path must be a table of variances and coefficients: coefficient_path(…).")
    ax = get_axes(ax, (7.0, 4.2))
    path = path.sort_index()
    x = path.index.to_numpy(float)
    marker = "o" if len(x) == 1 else ""
    end = path.iloc[-1].abs()
    named = list(end[end > 0].sort_values(ascending=False).index[:label])
    for name in path.columns:
        if name not in named:
            ax.plot(x, path[name], color=MUTED, lw=0.7, alpha=0.5, marker=marker)
    for i, name in enumerate(named):
        ax.plot(x, path[name], color=curve_colour(i), lw=1.6, marker=marker)
    ax.axhline(0, color=FAINT, lw=1, zorder=0)
    ax.set_xscale("log")
    if len(x) > 1:
        ax.set_xlim(x[0], x[-1])
    ax.set(xlabel="Prior variance (log scale)", ylabel="Coefficient")
    if chosen is not None:
        ax.axvline(chosen, color=INK, lw=1, ls=(0, (4, 3)))
        ax.annotate(
            f"chosen: {chosen:.3g}", (chosen, 1), xycoords=("data", "axes fraction"),
            xytext=(0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=9,
        )  # fmt: skip
    values = [float(path[name].iloc[-1]) for name in named]
    low, high = ax.get_ylim()
    for i, (name, y) in enumerate(zip(named, _apart(values, 0.055 * (high - low)), strict=True)):
        ax.annotate(
            shorten_label(name, 36), (1, y), xycoords=("axes fraction", "data"), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=9, color=curve_colour(i),
            annotation_clip=False,
        )  # fmt: skip
    return remove_clutter(ax)


def _apart(values: list[float], least: float) -> np.ndarray:
    """Move the heights of labels until they are at least ``least`` apart."""
    order = np.argsort(values)
    y = np.array(values, float)[order]
    for _ in range(200):
        gap = np.diff(y)
        close = gap < least * (1 - 1e-6)
        if not close.any():
            break
        push = np.where(close, (least - gap) / 2, 0.0)
        y[:-1] -= push
        y[1:] += push
    out = np.empty(len(y))
    out[order] = y
    return out


def cross_validation_curve(
    model: Any,
    *,
    chosen: float | None = None,
    score: str = "Score",
    rule: str = "the search's own choice",
    ax: Axes | None = None,
) -> Axes:
    """Draw the held-out score or the criterion against the prior's variance.

    The dashed line marks the chosen variance.

    Parameters
    ----------
    model : fitted estimator with ``cv``, or DataFrame
        Its ``cv_results_`` are drawn: the mean over folds with one standard error on either
        side, or the information criterion. Slopes that the search computed are short lines. The
        axis at the top shows the number of nonzero coefficients.
    chosen : float, optional
        The variance to mark. Default that of the fit.
    score : str
        Name of the score; default that of the fit.
    rule : str
        The rule by which a variance other than the one of the best mean was chosen; default that
        of the fit.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the model was fitted without ``cv``, or a table lacks columns.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = X[:, 0] + rng.standard_normal(100)
    >>> model = steropes.LinearRegression(prior=steropes.Laplace(), cv=5).fit(X, y)
    >>> ax = steropes.plots.cross_validation_curve(model)
    >>> ax.get_ylabel()
    'Held-out log-likelihood'
    """
    if not isinstance(model, pd.DataFrame):
        check_is_fitted(model)
        if getattr(model, "cv_results_", None) is None:
            raise DataError("The model was fitted without cross-validation; there is no curve.")
        axes: Axes = model.cv_results_.plot(ax=ax)
        return axes
    if "criterion" in model:
        table = model.sort_values("variance")
        return _criterion_curve(table, chosen, score, get_axes(ax, (7.0, 4.2)))
    require_columns(model, ("variance", "mean", "se"), "cross_validation_curve")
    table = model.sort_values("variance")
    ax = get_axes(ax, (7.0, 4.2))
    x, mean, se = (table[name].to_numpy(float) for name in ("variance", "mean", "se"))
    ax.set_xscale("log")
    ax.vlines(x, mean - se, mean + se, color=FAINT, lw=2.5)
    ax.plot(x, mean, "o-", color=curve_colour(0), ms=4, lw=1.2)
    at = int(np.nanargmax(mean))
    if chosen is not None:
        at = int(np.argmin(np.abs(np.log(x / chosen))))
        best = bool(mean[at] >= np.nanmax(mean) - 1e-9 * abs(np.nanmax(mean)))
        label = f"chosen: {chosen:.3g}, {'the best mean' if best else rule}"
        ax.axvline(chosen, color=INK, lw=1, ls=(0, (4, 3)), label=label)
        ax.plot([x[at]], [mean[at]], "o", ms=8, mfc="none", mec=INK)
    ax.set(xlabel="Prior variance (log scale)", ylabel=score)
    if "slope" in table:  # shows the direction of a curve that ends at its top
        slope = table["slope"].to_numpy(float)
        ax.plot(
            [x / TANGENT, x * TANGENT],
            [mean - slope * np.log(TANGENT), mean + slope * np.log(TANGENT)],
            color=INK, lw=1,
        )  # fmt: skip
    finite = np.isfinite(mean)
    half = np.nan_to_num(se)  # one fold has none
    low, high = float((mean - half)[finite].min()), float((mean + half)[finite].max())
    best_se = float(se[at]) if np.isfinite(se[at]) else high - low
    # Very poor scores of distant variances are cut off, so that those near the best are legible.
    low = max(low, float(mean[at]) - 12 * max(best_se, 1e-12))
    ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    _legend(ax, "lower center")
    if "nonzero" in table:
        _counts_above(ax, x, table["nonzero"].to_numpy())
    return remove_clutter(ax)


def _criterion_curve(table: pd.DataFrame, chosen: float | None, score: str, ax: Axes) -> Axes:
    """Draw an information criterion against the prior's variance."""
    x, value = (table[name].to_numpy(float) for name in ("variance", "criterion"))
    ax.set_xscale("log")
    ax.plot(x, value, "o-", color=curve_colour(0), ms=4, lw=1.2)
    if chosen is not None:
        label = f"chosen: {chosen:.3g}, the smallest {score}"
        ax.axvline(chosen, color=INK, lw=1, ls=(0, (4, 3)), label=label)
        ax.plot([chosen], [value.min()], "o", ms=8, mfc="none", mec=INK)
    ax.set(xlabel="Prior variance (log scale)", ylabel=score)
    _legend(ax, "upper center")
    _counts_above(ax, x, table["nonzero"].to_numpy())
    return remove_clutter(ax)


def _legend(ax: Axes, where: Literal["lower center", "upper center"]) -> None:
    """Add a legend with an opaque background, which hides the line of the chosen variance."""
    ax.legend(loc=where, fontsize=9, framealpha=1.0, edgecolor="none", fancybox=False)


def _counts_above(ax: Axes, x: np.ndarray, nonzero: np.ndarray) -> None:
    """Write the numbers of nonzero coefficients on an axis at the top."""
    top = ax.twiny()
    top.set_xscale("log")
    top.set_xlim(ax.get_xlim())
    some = _spread(np.log(x), 8)
    top.set_xticks(x[some], [str(int(k)) for k in nonzero[some]])
    top.set_xticks([], minor=True)
    top.set_xlabel("Coefficients that are not zero", fontsize=9, color=MUTED)
    top.tick_params(length=0, labelsize=8, labelcolor=MUTED)
    top.spines[:].set_visible(False)


def _spread(x: np.ndarray, count: int) -> np.ndarray:
    """Choose positions of ascending points that are at least 1/count of the range apart."""
    least = (x[-1] - x[0]) / count if len(x) > 1 else 0.0
    kept = [0]
    for i in range(1, len(x)):
        if x[i] - x[kept[-1]] >= least:
            kept.append(i)
    return np.array(kept)
