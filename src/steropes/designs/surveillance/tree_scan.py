"""Tree scans: signals among many outcomes at any level of a hierarchy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.html_representations import FieldsInHtml
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.surveillance.group_sequential_bounds import EQUAL, check_alpha
from steropes.designs.surveillance.outcome_hierarchies import (
    Hierarchy,
    chosen_cuts,
    cut_links,
    read_hierarchy,
)
from steropes.designs.surveillance.tree_scan_counts import Model, counts_model
from steropes.designs.surveillance.tree_scan_null_models import (
    BernoulliScan,
    ScanModel,
    largest_statistics,
)
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = [
    "TreeScan",
    "finished_table",
    "scan_result",
    "tree_scan",
    "with_names",
]

CAPTIONS = {
    "node": "Node", "name": "Name", "cases": "Cases", "events": "Events", "expected": "Expected",
    "ratio": "Observed / expected", "excess": "Excess cases", "statistic": "Log-likelihood ratio",
    "p": "P value", "first": "First time", "last": "Last time",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class TreeScan(FieldsInHtml):
    """The cuts of a tree with their statistics and p-values.

    A cut is a node with all of its descendants.

    Attributes
    ----------
    table : DataFrame
        A row per cut with cases, the largest statistic first: ``node``, ``name`` (if names were
        given), ``cases``, ``events`` (cases and controls, of Bernoulli models), ``expected``
        (cases without an effect), ``ratio`` (cases divided by expected cases), ``excess`` (cases
        minus expected cases), ``statistic`` (log-likelihood ratio; 0 if there are no more cases
        than expected, or fewer than ``min_cases``) and ``p`` (adjusted for all cuts). Scans over
        time have ``first`` and ``last``, the times of the window. It has ``plot()`` and
        ``paper_table()``.
    model : str
        The model in words.
    cuts : int
        Number of cuts that were tested.
    replicates : int
        Number of replicates without an effect.
    links : DataFrame
        ``node`` and ``parent``: the next larger cuts that contain each cut.

    See Also
    --------
    tree_scan, tree_scan_people, tree_temporal_scan : Compute it.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import tree_scan
    >>> tree = pd.DataFrame({"node": ["rash", "hives", "fever"], "parent": ["skin", "skin", None]})
    >>> counts = pd.DataFrame(
    ...     {"node": ["rash", "hives", "fever"], "cases": [9, 8, 3], "expected": [3, 4, 4]}
    ... )
    >>> found = tree_scan(counts, tree, conditional=False, replicates=999)
    >>> found.signals()[["node", "cases", "expected"]]
       node  cases  expected
    0  skin     17       7.0
    1  rash      9       3.0
    """

    table: ResultTable
    model: str
    cuts: int
    replicates: int
    links: pd.DataFrame = field(repr=False)
    _largest: NDArray = field(repr=False)

    def __repr__(self) -> str:
        """Describe the scan in one line."""
        least = self.table["p"].min() if len(self.table) else 1.0
        return (
            f"{type(self).__name__}({self.model}, cuts={self.cuts:,}, "
            f"replicates={self.replicates:,}, smallest p={least:.4g})"
        )

    def bound(self, alpha: float = 0.05) -> float:
        """Return the statistic above which a cut is a signal.

        Parameters
        ----------
        alpha : float, default 0.05
            Probability that any cut is a signal without an effect.

        Returns
        -------
        float
            A log-likelihood ratio.

        Raises
        ------
        DataError
            The replicates are too few for so small a probability.
        """
        check_alpha(alpha)
        rank = int(alpha * (self.replicates + 1) + EQUAL)
        if rank < 1:
            raise DataError(
                f"{self.replicates:,} replicates do not suffice for alpha={alpha:g}; at least "
                f"{int(np.ceil(1 / alpha)) - 1:,} are needed."
            )
        return float(np.sort(self._largest)[-rank])

    def signals(self, alpha: float = 0.05) -> ResultTable:
        """Return the rows of the table that are signals.

        Parameters
        ----------
        alpha : float, default 0.05
            Probability that any cut is a signal without an effect.

        Returns
        -------
        DataFrame
            Rows with a p-value of at most ``alpha``.

        Notes
        -----
        A strong signal of a node often makes its ancestors signals too.
        """
        check_alpha(alpha)
        return cast(ResultTable, self.table[self.table["p"] <= alpha + EQUAL])

    def plot(self, *, alpha: float = 0.05, most: int = 20, **options: Any) -> Any:
        """Draw the cuts with the largest statistics, and the bound.

        Parameters
        ----------
        alpha : float, default 0.05
            Probability of the bound.
        most : int, default 20
            Number of cuts.
        **options
            ``ax``, Matplotlib axes to draw on.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return self.table.plot(bound=self.bound(alpha), most=most, **options)


def tree_scan(
    counts: TableLike,
    tree: TableLike,
    *,
    model: Model = "poisson",
    conditional: bool = True,
    probability: float | None = None,
    min_cases: int = 2,
    cuts: Sequence[Hashable] | None = None,
    names: Mapping[Any, str] | None = None,
    replicates: int = 9999,
    seed: int = 0,
) -> TreeScan:
    """Scan a hierarchy of outcomes for nodes with more cases than expected.

    Every node is tested together with its descendants. The p-values are adjusted for all tests:
    each statistic is compared with the largest ones of replicates without an effect.

    Parameters
    ----------
    counts : DataFrame
        A row per node with events, at any level: ``node``, ``cases`` and, of Poisson models,
        ``expected`` (events expected without an effect, or a population or person-time if
        ``conditional``); of Bernoulli models, ``controls`` (events that are no cases, such as in
        the comparator arm or in control windows), and perhaps ``probability``.
    tree : DataFrame
        The hierarchy: ``node`` and ``parent``, with a row for each parent and a missing parent for
        roots; or ``descendant_concept_id`` and ``ancestor_concept_id``, rows of OMOP's
        ``concept_ancestor``. A node with several parents counts once in each ancestor.
    model : {"poisson", "bernoulli"}, default "poisson"
        Cases against expected numbers, or cases among events.
    conditional : bool, default True
        Fix the number of all cases, so that only differences between nodes count. Otherwise the
        expected numbers, or the probability, must be right on their scale.
    probability : float, optional
        Probability that an event without an effect is a case, of Bernoulli models that are not
        conditional: 0.5 for pairs matched 1:1, and the share of risk days in all days for
        self-controlled windows. A column of ``counts`` can give it by node.
    min_cases : int, default 2
        Least number of cases of a cut that is tested.
    cuts : sequence, optional
        Nodes that are tested. Default: all.
    names : mapping, optional
        Names of nodes, such as of OMOP concepts.
    replicates : int, default 9999
        Replicates without an effect.
    seed : int, default 0
        Seed of the replicates.

    Returns
    -------
    TreeScan
        The cuts with statistics and p-values.

    Raises
    ------
    DataError
        A column, number or node is missing or contradicts others, the tree has a circle, or an
        option does not belong to the model.

    See Also
    --------
    tree_scan_people : Counts each person once, and takes a probability for each person.
    tree_temporal_scan : Finds windows of time after exposure.
    sequential_tree_scan : Tests at several looks.

    Notes
    -----
    With c cases and e expected in a cut the statistic is c ln(c/e) − c + e (Poisson), and
    c ln(c/e) + (m − c) ln((m − c)/(m − e)) where the number m of cases (conditional Poisson) or
    events of the cut (Bernoulli) is fixed. The conditional Bernoulli statistic compares the shares
    of cases in the cut and outside. They agree with those of TreeScan 2.4.

    References
    ----------
    Kulldorff, Fang and Walsh (2003), Biometrics 59:323–331. Wang and others (2018), Epidemiology
    29:895–903 (matched cohorts).

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import tree_scan
    >>> tree = pd.DataFrame({"node": ["rash", "hives", "fever"], "parent": ["skin", "skin", None]})
    >>> counts = pd.DataFrame(
    ...     {"node": ["rash", "hives", "fever"], "cases": [9, 8, 3], "controls": [2, 3, 4]}
    ... )
    >>> found = tree_scan(
    ...     counts, tree, model="bernoulli", conditional=False, probability=0.5, replicates=999
    ... )
    >>> found.table[["node", "cases", "events", "expected"]]
        node  cases  events  expected
    0   skin     17      22      11.0
    1   rash      9      11       5.5
    2  hives      8      11       5.5
    3  fever      3       7       3.5
    """
    hierarchy = read_hierarchy(tree)
    table = read_columns(counts, None, "counts")
    scanned = counts_model(table, hierarchy, model, conditional, probability, min_cases, cuts)
    largest = largest_statistics(scanned, replicates, seed)
    chosen = chosen_cuts(hierarchy, cuts)
    return scan_result(scanned, hierarchy, chosen, names, _in_words(model, conditional), largest)


def scan_result(
    model: ScanModel,
    hierarchy: Hierarchy,
    chosen: NDArray,
    names: Mapping[Any, str] | None,
    words: str,
    largest: NDArray,
) -> TreeScan:
    """Make the table of the chosen cuts of a model."""
    observed = model.observed
    table = pd.DataFrame({"node": hierarchy.nodes[chosen], "cases": observed})
    if isinstance(model, BernoulliScan):
        table["events"] = model.cut_sizes
    table["expected"] = model.expected
    with np.errstate(divide="ignore", invalid="ignore"):
        table["ratio"] = np.where(model.expected > 0, observed / model.expected, np.nan)
    table["excess"] = observed - model.expected
    table["statistic"] = model.statistics(observed[None, :])[0]
    return TreeScan(
        finished_table(table, names, largest), words, len(chosen), len(largest),
        cut_links(hierarchy, chosen), largest,
    )  # fmt: skip


def finished_table(
    table: pd.DataFrame, names: Mapping[Any, str] | None, largest: NDArray
) -> ResultTable:
    """Add names and p-values to the cuts with cases, and sort them."""
    table = with_names(pd.DataFrame(table[table["cases"] > 0]), names)
    order = np.sort(largest)
    beyond = len(order) - np.searchsorted(order, table["statistic"] - EQUAL)
    table = table.assign(p=(beyond + 1) / (len(order) + 1))
    table = table.sort_values("statistic", ascending=False, kind="stable", ignore_index=True)
    labels = ("node",) if names is None else ("node", "name")
    return present(table, "tree_scan", labels=labels, captions=CAPTIONS)


def with_names(table: pd.DataFrame, names: Mapping[Any, str] | None) -> pd.DataFrame:
    """Add a column of names after the nodes, if there are any."""
    if names is None:
        return table
    if not isinstance(names, Mapping | pd.Series):
        raise DataError(f"names must be a mapping of nodes to names, not {type(names).__name__}.")
    known = pd.Series({node: str(name) for node, name in names.items()}, dtype=object)
    own = table["node"].map(known).fillna(table["node"].astype(str))
    before = [*table.columns[: table.columns.get_loc("node") + 1]]
    after = [c for c in table.columns if c not in before]
    return table.assign(name=own)[[*before, "name", *after]]


def _in_words(model: Model, conditional: bool) -> str:
    """Describe a model."""
    return f"{'conditional' if conditional else 'unconditional'} {model.capitalize()}"
