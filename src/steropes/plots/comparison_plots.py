"""Plots of comparative studies: score overlap, covariate balance and attrition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..data.diagnostic_limits import IMBALANCE
from ..errors import DataError
from .plot_style import (
    FAINT,
    INK,
    MUTED,
    curve_colour,
    get_axes,
    line_names,
    remove_clutter,
    require_columns,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["attrition", "confounder_ranks", "covariate_balance", "love_plot", "score_overlap"]

ARMS = ("target", "comparator")
# Columns of differences before adjustment, in the order in which a table is searched for them; that
# of a Table 1 is the only one there.
DIFFERENCES = ("std_diff_before", "smd_before", "smd")
# Preference scores of people who could well have been given either drug (Walker and others 2013).
EQUIPOISE = (0.3, 0.7)


def score_overlap(
    table: pd.DataFrame, *, names: Sequence[str] = ("Target", "Comparator"), ax: Axes | None = None
) -> Axes:
    """Draw the densities of the preference score in both arms.

    Scores from 0.3 to 0.7, shaded, are those of people in equipoise.

    Parameters
    ----------
    table : DataFrame
        ``preference_score``, ``target_density`` and ``comparator_density``, such as the rows of
        one analysis in the result table ``cm_preference_score_dist``.
    names : (str, str)
        Names of the target and of the comparator.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or has no densities.

    References
    ----------
    Walker and others (2013), Comparative Effectiveness Research 3:11–20.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes import plots
    >>> score = np.linspace(0, 1, 101)
    >>> densities = pd.DataFrame({
    ...     "preference_score": score,
    ...     "target_density": 6 * score * (1 - score),
    ...     "comparator_density": 12 * score * (1 - score) ** 2,
    ... })
    >>> ax = plots.score_overlap(densities, names=("Celecoxib", "Diclofenac"))
    >>> ax.get_xlabel()
    'Preference score'
    """
    columns = ("preference_score", *(f"{arm}_density" for arm in ARMS))
    require_columns(table, columns, "score_overlap")
    x, *densities = (table[name].to_numpy(float) for name in columns)
    if not len(x) or not all(np.isfinite(d).all() for d in densities):
        raise DataError("There are no densities: an arm has too few people.")
    ax = get_axes(ax, (7.0, 3.6))
    ax.axvspan(*EQUIPOISE, color=FAINT, alpha=0.5, lw=0)
    for i, (name, density) in enumerate(zip(names, densities, strict=True)):
        ax.fill_between(x, density, color=curve_colour(i), alpha=0.15, lw=0)
        ax.plot(x, density, color=curve_colour(i), lw=1.8, label=shorten_label(name))
    ax.set(xlim=(0, 1), xlabel="Preference score", ylabel="Density", yticks=[])
    ax.set_ylim(0, 1.05 * max(float(d.max()) for d in densities))
    ax.legend(frameon=False)
    return remove_clutter(ax)


def covariate_balance(
    table: pd.DataFrame, *, threshold: float = IMBALANCE, ax: Axes | None = None
) -> Axes:
    """Draw absolute standardised differences after adjustment against those before.

    Covariates below the diagonal became more alike; those above the dashed horizontal line count as
    unbalanced.

    Parameters
    ----------
    table : DataFrame
        Differences before and after adjustment, as of `love_plot`. Rows with missing differences
        are left out.
    threshold : float
        Largest absolute difference that counts as balanced, default 0.1.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or has no differences.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> differences = pd.DataFrame({
    ...     "std_diff_before": [0.31, -0.22, 0.05], "std_diff_after": [0.04, -0.11, 0.01],
    ... })
    >>> plots.covariate_balance(differences).get_ylabel()
    'Standardised difference after'
    """
    found = _differences(table)
    if found["after"].isna().all():
        raise DataError("The table has no differences after adjustment.")
    before, after = (found[when].abs().to_numpy() for when in ("before", "after"))
    ax = get_axes(ax, (5.2, 5.2))
    end = 1.05 * max(float(before.max()), float(after.max()), threshold)
    ax.plot([0, end], [0, end], color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    for draw in (ax.axhline, ax.axvline):
        draw(threshold, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    ax.plot(before, after, "o", ms=4, color=curve_colour(0), alpha=0.6, mew=0)
    ax.set(xlim=(0, end), ylim=(0, end), xlabel="Standardised difference before")
    ax.set_ylabel("Standardised difference after")
    ax.set_aspect("equal")
    return remove_clutter(ax)


def love_plot(
    table: pd.DataFrame, *, threshold: float = IMBALANCE, most: int = 20, ax: Axes | None = None
) -> Axes:
    """Draw the most unequal covariates with their differences before and after adjustment.

    Half of the covariates are those with the largest differences after adjustment, the other half
    those with the largest differences before.

    Parameters
    ----------
    table : DataFrame
        Differences, with signs, in the columns ``std_diff_before`` and ``std_diff_after`` (result
        tables) or ``smd_before`` and ``smd_after`` (`steropes.designs.balance_table` and
        ``ComparativeStudy.balance``); those after adjustment may be absent. Or the column ``smd``
        of a `steropes.designs.table_one`. Names are in ``covariate_name``, ``name`` or
        ``characteristic``, otherwise in the index. With several values of ``method``, as in
        ``GroupComparison.balance``, each method has a colour of its own.
    threshold : float
        Largest absolute difference that counts as balanced, default 0.1.
    most : int
        Largest number of covariates to draw, default 20.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or has no differences, or methods have other covariates.

    References
    ----------
    Love (2004), Graphical display of covariate balance.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> differences = pd.DataFrame({
    ...     "covariate_name": ["age", "sex"],
    ...     "std_diff_before": [0.31, -0.22], "std_diff_after": [0.04, -0.11],
    ... })
    >>> [label.get_text() for label in plots.love_plot(differences).get_yticklabels()]
    ['age', 'sex']
    """
    methods = _by_method(table)
    labels = _covariate_names(next(iter(methods.values())))
    found, after = _differences_of_methods(methods, labels)
    adjusted = bool(after.notna().any(axis=None))
    chosen = most_unequal(found, most)["before"]
    after, y = after.loc[chosen.index], np.arange(len(chosen))
    ax = get_axes(ax, (7.0, 1.1 + 0.26 * len(chosen)))
    if adjusted:
        both = after.assign(before=chosen)
        ax.hlines(y, both.min(axis=1), both.max(axis=1), color=FAINT, lw=2, zorder=1)
    ax.plot(chosen, y, "o", ms=5, mfc="white", mec=MUTED, mew=1.4, label="before")
    if adjusted:
        for k, name in enumerate(after):
            ax.plot(after[name], y, "o", ms=5, color=curve_colour(k), label=shorten_label(name))
    ax.axvline(0, color=MUTED, lw=0.9, zorder=0)
    for limit in (-threshold, threshold):
        ax.axvline(limit, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    most_of_all = np.nanmax(np.abs(np.column_stack([chosen, after])))
    reach = 1.08 * max(threshold, float(most_of_all))
    ax.set(xlim=(-reach, reach), ylim=(len(chosen) - 0.4, -0.6))
    ax.set_yticks(y, [shorten_label(labels[i]) for i in chosen.index])
    ax.set_xlabel("Standardised difference")
    if "smd" not in table:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderpad=0)
    remove_clutter(ax).tick_params(axis="y", length=0, pad=7)
    ax.spines["left"].set_visible(False)
    return ax


def _by_method(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the differences of each method, or the table if it is that of one."""
    columns = getattr(table, "columns", ())
    names = list(dict.fromkeys(table["method"])) if "method" in columns else []
    if len(names) < 2:
        return {"after": table}
    return {str(name): table[table["method"] == name] for name in names}


def _differences_of_methods(
    methods: dict[str, pd.DataFrame], labels: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return differences before and the largest after, and those after by method.

    The index has positions of covariates.
    """
    if any(_covariate_names(own) != labels for own in methods.values()):
        raise DataError("A love plot of several methods needs the same covariates of each.")
    parts = {name: _differences(own) for name, own in methods.items()}
    before = next(iter(parts.values()))["before"]
    after = pd.DataFrame({name: own["after"] for name, own in parts.items()}).loc[before.index]
    largest = after.abs().max(axis=1).fillna(0.0)
    return pd.DataFrame({"before": before, "after": largest}), after


def most_unequal(differences: pd.DataFrame, most: int) -> pd.DataFrame:
    """Choose the covariates that differ most after adjustment, then before it.

    Parameters
    ----------
    differences : DataFrame
        ``before`` and ``after``, without missing values.
    most : int
        Largest number of covariates.

    Returns
    -------
    DataFrame
        The chosen rows, in decreasing order of the absolute difference before adjustment.
    """
    size = differences.abs()
    worst = size["after"].nlargest(most // 2).index
    first = size["before"].drop(worst).nlargest(most - len(worst)).index
    order = size.loc[[*worst, *first], "before"].sort_values(ascending=False).index
    return differences.loc[order]


def _differences(table: pd.DataFrame) -> pd.DataFrame:
    """Return the differences ``before`` and ``after`` of the covariates that have both.

    The index has positions in the table. Without a column of differences after adjustment, those
    are missing.
    """
    first = next((name for name in DIFFERENCES if name in getattr(table, "columns", ())), "")
    if not first:
        require_columns(table, DIFFERENCES[:1], "A plot of balance")
    second = first.replace("before", "after")
    found = pd.DataFrame({"before": table[first].to_numpy(float), "after": np.nan})
    if second != first and second in table:
        found["after"] = table[second].to_numpy(float)
        found = found[np.isfinite(found).all(axis=1)]
    found = found[np.isfinite(found["before"])]
    if found.empty:
        raise DataError("No covariate has a difference both before and after adjustment.")
    return found


def _covariate_names(table: pd.DataFrame) -> list[str]:
    """Return the names of the covariates of a table of differences."""
    for column in ("covariate_name", "name", "characteristic"):
        if column in table:
            return table[column].astype(str).tolist()
    if pd.api.types.is_numeric_dtype(table.index):  # positions are no names
        require_columns(table, ("covariate_name",), "love_plot")
    return line_names(table)


def attrition(
    table: pd.DataFrame, *, names: Sequence[str] = ("Target", "Comparator"), ax: Axes | None = None
) -> Axes:
    """Draw the people that each rule leaves in both arms as a flow diagram.

    Parameters
    ----------
    table : DataFrame
        A row for each rule, in the order in which they were applied: ``rule``, ``target`` and
        ``comparator``, such as the attrition of a study. Minus n stands for fewer than n people.
    names : (str, str)
        Names of the target and of the comparator.
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
    >>> rules = pd.DataFrame({
    ...     "rule": ["new users", "no prior outcome"], "target": [1844, 1800],
    ...     "comparator": [850, 830],
    ... })
    >>> ax = plots.attrition(rules)
    >>> print(*(text.get_text() for text in ax.texts if text.get_text()), sep=", ")
    Target, Comparator, new users, 1,844, 850, no prior outcome, −44, 1,800, −20, 830
    """
    require_columns(table, ("rule", *ARMS), "attrition")
    if table.empty:
        raise DataError("The attrition has no rules.")
    ax = get_axes(ax, (7.0, 0.7 + 0.75 * len(table)))
    ax.set(xlim=(0, 1), ylim=(len(table) - 0.5, -0.9))
    ax.axis("off")
    for k, (x, name) in enumerate(zip((0.1, 0.9), names, strict=True)):
        ax.text(x, -0.6, shorten_label(name, 24), ha="center", va="center", color=curve_colour(k))
    people = [table[arm].to_numpy(float) for arm in ARMS]
    for i, rule in enumerate(table["rule"]):
        ax.text(0.5, i, shorten_label(rule, 60), ha="center", va="center", fontsize=9, wrap=True)
        for k, x in enumerate((0.1, 0.9)):
            if i:
                ax.annotate(
                    "", (x, i - 0.27), (x, i - 0.73), arrowprops={"arrowstyle": "->", "ec": MUTED}
                )
                gone = people[k][i - 1] - people[k][i]
                if gone > 0 and min(people[k][i - 1], people[k][i]) >= 0:
                    ax.text(
                        x + 0.015, i - 0.5, f"−{gone:,.0f}", va="center", color=MUTED, fontsize=9
                    )
            box = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": curve_colour(k)}
            ax.text(x, i, _count(people[k][i]), ha="center", va="center", bbox=box, color=INK)
    return ax


def _count(n: float) -> str:
    """Format a count, where -n stands for fewer than n; a dash if it is missing."""
    if math.isnan(n):
        return "–"
    return f"{n:,.0f}" if n >= 0 else f"<{-n:,.0f}"


def confounder_ranks(table: pd.DataFrame, *, top: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the bias that leaving out each of the foremost covariates could cause.

    Bars to the right are of covariates without which the treatment would look more harmful. Those
    of covariates that are not selected are pale.

    Parameters
    ----------
    table : DataFrame
        ``name``, ``log_bias`` and ``selected``, the foremost covariate first, such as the ranks of
        `steropes.designs.HighDimensionalPropensityScore`.
    top : int, default 20
        Number of covariates.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> ranks = pd.DataFrame({"name": ["I10_once"], "log_bias": [0.09], "selected": [True]})
    >>> plots.confounder_ranks(ranks).get_xlabel()
    'Possible bias of the risk ratio (log scale)'
    """
    require_columns(table, ("name", "log_bias", "selected"), "confounder_ranks")
    shown = table.head(top).iloc[::-1]
    if not len(shown):
        raise DataError("There are no covariates to draw.")
    ax = get_axes(ax, (7.0, 0.8 + 0.26 * len(shown)))
    alpha = np.where(shown["selected"].to_numpy(dtype=bool), 0.9, 0.3)
    bars = ax.barh(range(len(shown)), shown["log_bias"].to_numpy(float), color=curve_colour(0))
    for bar, strength in zip(bars, alpha, strict=True):
        bar.set_alpha(float(strength))
    ax.axvline(0, color=INK, lw=0.8)
    ax.set_yticks(range(len(shown)), [shorten_label(name) for name in shown["name"]])
    ax.set_xlabel("Possible bias of the risk ratio (log scale)")
    return remove_clutter(ax)
