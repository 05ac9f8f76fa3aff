"""The result of a comparison of two groups from any table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import gaussian_kde

from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import ResultTable, drawn_by, present
from steropes.designs.comparative.adjustments import Adjustment, Step
from steropes.designs.comparative.balance_table import CAPTIONS, balance_table
from steropes.designs.comparative.compared_people import ComparisonTable, Outcome
from steropes.designs.comparative.comparison_diagnostics import diagnostics_table
from steropes.designs.comparative.comparison_report import report_page
from steropes.designs.comparative.effect_table_rows import EffectRow, effects_table, is_ratio
from steropes.designs.comparative.matching import Matching
from steropes.designs.comparative.table_one import MAX_LEVELS, table_one
from steropes.designs.effects.e_values import COMMON
from steropes.designs.propensity.fitted_propensity_model import preference_score
from steropes.designs.values.estimands import AnyEstimand, estimand_name
from steropes.errors import DataError, listed

__all__ = ["GroupComparison", "comparison_of"]


@dataclass(frozen=True, repr=False, eq=False)
class GroupComparison(TextInHtml):
    """Effects of a treatment in people made comparable, from `compare_groups`.

    Attributes
    ----------
    effects : DataFrame
        A row per method and measure: ``method`` ("unadjusted" first), ``measure``, ``scale``
        ("marginal", of a population, or "conditional", at given covariates), ``estimand``,
        ``target`` and ``comparator`` (the statistic of each group), ``estimate``, ``lower``,
        ``upper``, ``se`` (of a ratio: of its logarithm), ``p``, and ``errors``, the sources of
        error in them. It has ``plot()`` and ``paper_table()``.
    balance : DataFrame
        `balance_table` of each method, in the column ``method``.
    table_one : DataFrame
        Characteristics of the groups before adjustment; see `table_one`. Of a long table: the
        balance before adjustment.
    weights : DataFrame, shape (n, methods)
        Weights of people by method, in the order of the data.
    sets : DataFrame, shape (n, methods)
        Matched sets by method, −1 for people left out.
    diagnostics : DataFrame
        ``method``, ``diagnostic``, ``value``, ``limit``, ``passed`` and ``note``.
    steps : dict of str to object
        The fitted `Matching`, `PropensityWeights`, `EntropyBalancing` and `DoublyRobust` objects.
    estimand : str
        Code of the estimand, such as "ate".
    names : (str, str)
        Names of the target and of the comparator.
    horizon : float or None
        Time of risks and restricted means.

    See Also
    --------
    compare_groups : Make the comparison.

    Examples
    --------
    >>> import pandas as pd
    >>> import steropes
    >>> people = pd.DataFrame({"old": [1, 0] * 20, "drug": [1, 1, 0, 0] * 10,
    ...                        "score": [float(i % 7) for i in range(40)]})
    >>> found = steropes.compare_groups(
    ...     people, treatment="drug", outcome="score", covariates=["old"]
    ... )
    >>> found.weights.shape
    (40, 2)
    """

    effects: ResultTable
    balance: ResultTable
    table_one: pd.DataFrame
    weights: pd.DataFrame
    sets: pd.DataFrame
    diagnostics: pd.DataFrame
    steps: Mapping[str, Step]
    estimand: AnyEstimand
    names: tuple[str, str]
    horizon: float | None
    _target: NDArray[np.int8]
    _outcome: Outcome
    _call: Mapping[str, Any]

    def __repr__(self) -> str:
        """Return the effects, the population, and the diagnostics that failed."""
        shown = self.effects[["method", "measure", "scale", "estimate", "lower", "upper"]]
        failed = self.diagnostics[~self.diagnostics["passed"]]
        lines = [
            f"{self.names[0]} against {self.names[1]}, in {estimand_name(self.estimand)}",
            shown.to_string(index=False, float_format=lambda x: f"{x:.4g}"),
        ]
        lines += [
            f"Failed: {row.method}, {row.diagnostic} {row.value:.3g} (limit {row.limit:g}). "
            f"{row.note}"
            for row in failed.itertuples()
        ]
        return "\n".join(lines)

    def plot(
        self,
        what: Literal["effects", "balance", "overlap"] = "effects",
        *,
        measure: str | None = None,
        method: str | None = None,
        **options: Any,
    ) -> Any:
        """Draw the effects, the balance or the overlap of the scores.

        Parameters
        ----------
        what : {"effects", "balance", "overlap"}, default "effects"
        measure : str, optional
            For "effects": the measure. Default: the first.
        method : str, optional
            For "balance" and "overlap": the method. Default: all for the balance, and for the
            overlap the first that has it.
        **options
            As of `steropes.plots.forest`, `love_plot` or `score_overlap`, such as ``ax``.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.

        Raises
        ------
        DataError
            There is no such measure or method.
        """
        if what == "effects":
            return self._plot_effects(measure, options)
        if what == "balance":
            known = list(dict.fromkeys(self.balance["method"]))
            shown = known if method is None else [self._method(method, known)]
            rows = self.balance["method"].isin(shown)
            return drawn_by("love_plot", self.balance[rows], **options)
        if what != "overlap":
            raise DataError(f"what must be 'effects', 'balance' or 'overlap', not {what!r}.")
        scored = [name for name, step in self.steps.items() if _score(step) is not None]
        score = _score(self.steps[self._method(method, scored)])
        table = _densities(cast(NDArray, score), self._target)
        return drawn_by("score_overlap", table, **{"names": self.names, **options})

    def write_report(self, path: str | PathLike[str]) -> None:
        """Write two pages about the comparison as one self-contained HTML file.

        The first, for a clinician, has the question, the answer, who remains and how far it can be
        trusted, in words. The second, for a methodologist, has the estimand, all effects, the
        diagnostics with effective sample sizes and certificates, the sensitivity to ties and
        trimming, Table 1, figures of balance and overlap (if Matplotlib is installed), what the
        errors account for, E-values, and the code that repeats the comparison. Neither has data of
        single people.

        Parameters
        ----------
        path : path
            Where to write, such as "comparison.html".
        """
        outcome = self._outcome
        had = (outcome.y if outcome.event is None else outcome.event)[outcome.observed]
        common = outcome.kind == "continuous" or float((had == 1).mean()) >= COMMON
        size = int((self._target == 1).sum())
        groups = size, len(self._target) - size
        Path(path).write_text(report_page(self, self._call, common, groups), encoding="utf-8")

    def _plot_effects(self, measure: str | None, options: dict[str, Any]) -> Any:
        """Draw the effects of one measure."""
        known = list(dict.fromkeys(self.effects["measure"]))
        name = known[0] if measure is None else measure
        if name not in known:
            raise DataError(f"measure must be one of {listed(known)}, not {measure!r}.")
        rows = self.effects[self.effects["measure"] == name]
        if not is_ratio(name):
            return rows.plot(labels=("method",), label=name.capitalize(), **options)
        logs = pd.DataFrame(rows).assign(
            **{column: np.log(rows[column]) for column in ("estimate", "lower", "upper")}
        )
        shown = {
            "columns": ("estimate", "lower", "upper"), "labels": ("method",), "exponentiate": True,
            "label": f"{name.capitalize()} (log scale)",
        }  # fmt: skip
        return drawn_by("forest", logs, **{**shown, **options})

    def _method(self, method: str | None, known: list[str]) -> str:
        """Return a method that has a plot."""
        if not known or (method is not None and method not in known):
            raise DataError(
                f"method must be one of {listed(known)}, not {method!r}."
                if known
                else "No method of this comparison has this plot."
            )
        return known[0] if method is None else method


def comparison_of(
    table: ComparisonTable,
    adjusted: list[Adjustment],
    rows: list[EffectRow],
    estimand: AnyEstimand,
    level: float,
    horizon: float | None,
    call: Mapping[str, Any],
    first_effect: Callable[[Adjustment], float],
) -> GroupComparison:
    """Put the parts of a comparison together."""
    plain, *others = adjusted
    balances = {a.method: a.step.balance_ for a in others if a.step is not None}
    balances["unadjusted"] = _before(balances, table, estimand)
    tables = [
        balances[a.method].assign(method=a.method)[["method", *balances[a.method].columns]]
        for a in others
    ]  # fmt: skip
    if not tables:
        tables = [balances["unadjusted"].assign(method="unadjusted")]
    balance = pd.DataFrame(pd.concat(tables, ignore_index=True))
    sets = {
        a.method: a.step.sets_
        for a in others
        if isinstance(a.step, Matching) and not a.step.replace
    }
    known = {a.method for a in adjusted}
    models = [name for name in dict.fromkeys(row.method for row in rows) if name not in known]
    return GroupComparison(
        effects=effects_table(rows, estimand, level, table.names),
        balance=present(balance, "love_plot", labels=("method", "name"), captions=CAPTIONS),
        table_one=_characteristics(table, balances["unadjusted"]),
        weights=pd.DataFrame({a.method: a.weights for a in adjusted}),
        sets=pd.DataFrame(sets, index=range(table.n)),
        diagnostics=diagnostics_table(table, [plain, *others], balances, first_effect, models),
        steps={a.method: a.step for a in others if a.step is not None},
        estimand=estimand,
        names=table.names,
        horizon=horizon,
        _target=table.target,
        _outcome=table.outcome,
        _call=call,
    )


def _before(
    balances: Mapping[str, ResultTable], table: ComparisonTable, estimand: AnyEstimand
) -> ResultTable:
    """Return the balance before adjustment, which that of each method has."""
    for balance in balances.values():
        left = [name for name in balance.columns if not name.endswith("_after")]
        return balance[left]
    return balance_table(table.columns, table.target, estimand=estimand)


def _characteristics(table: ComparisonTable, before: pd.DataFrame) -> pd.DataFrame:
    """Return Table 1, without columns of as many labels as identifiers have."""
    if table.described is None:
        return before
    labels = sorted(table.names)
    of_arms = np.array([labels.index(table.names[1 - arm]) for arm in (0, 1)])
    group = pd.Categorical.from_codes(of_arms[table.target], labels)
    columns = [
        name
        for name in table.described
        if table.described[name].dtype != object or table.described[name].nunique() <= MAX_LEVELS
    ]
    by = "group"
    while by in columns:
        by += " "
    # A new table of the same columns, which need not be copied.
    shown: dict[str, Any] = {name: table.described[name] for name in columns}
    return table_one(pd.DataFrame(shown | {by: group}, copy=False), by)


def _score(step: Step) -> NDArray | None:
    """Return the propensity scores of a step that has them."""
    return getattr(step, "score_", None)


def _densities(score: NDArray, target: NDArray) -> pd.DataFrame:
    """Compute densities of the preference score in both groups."""
    preference = preference_score(logit(score), target)
    grid = np.linspace(0, 1, 101)
    return pd.DataFrame(
        {
            "preference_score": grid,
            "target_density": gaussian_kde(preference[target == 1])(grid),
            "comparator_density": gaussian_kde(preference[target == 0])(grid),
        }
    )
