"""Tree scans at several looks at accruing counts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy import sparse

from steropes.data.html_representations import FieldsInHtml
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import drawn_by
from steropes.designs.surveillance.group_sequential_bounds import (
    EQUAL,
    check_alpha,
    check_count,
    check_ratio,
    check_spending,
)
from steropes.designs.surveillance.outcome_hierarchies import Hierarchy, chosen_cuts, read_hierarchy
from steropes.designs.surveillance.tree_scan import with_names
from steropes.designs.surveillance.tree_scan_counts import Model, counts_model
from steropes.designs.surveillance.tree_scan_null_models import (
    BernoulliScan,
    PoissonScan,
    ScanModel,
    cut_counts,
    lanes,
    replicate_seed,
)
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["SequentialTreeScan", "sequential_tree_scan"]


@dataclass(frozen=True, repr=False)
class SequentialTreeScan(FieldsInHtml):
    """The cuts of a tree at each look.

    Attributes
    ----------
    bounds : DataFrame
        A row per look: ``cases`` so far, ``bound`` (a larger statistic of any cut is a signal;
        infinite if the replicates are too few for so small a share of the error), ``alpha``
        (error that is spent up to the look) and ``signals`` (number of cuts with a new signal).
    table : DataFrame
        A row per look and cut with cases: ``look``, ``node``, ``name`` (if names were given),
        ``cases``, ``expected``, ``ratio``, ``statistic``, ``bound`` and ``signal``, true from the
        first signal of the cut on.
    replicates : int
        Number of replicates without an effect.

    See Also
    --------
    sequential_tree_scan : Computes it.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import sequential_tree_scan
    >>> tree = pd.DataFrame({"node": ["rash", "fever"], "parent": ["any", "any"]})
    >>> counts = pd.DataFrame({"look": [1, 1, 2, 2], "node": ["rash", "fever"] * 2,
    ...                        "cases": [6, 4, 12, 3], "expected": [4, 4, 4, 4]})
    >>> found = sequential_tree_scan(counts, tree, looks=3, conditional=False, replicates=999)
    >>> found.first_signals()[["look", "node", "cases"]]
       look  node  cases
    0     2  rash     18
    """

    bounds: pd.DataFrame
    table: pd.DataFrame
    replicates: int

    def __repr__(self) -> str:
        """Describe the looks in one line."""
        signals = int(self.bounds["signals"].sum())
        return f"{type(self).__name__}(looks={len(self.bounds)}, cuts with a signal={signals:,})"

    def first_signals(self) -> pd.DataFrame:
        """Return the row of the first signal of each cut that has one.

        Returns
        -------
        DataFrame
            Rows of the table, the earliest look and the largest statistic first.
        """
        own = self.table[self.table["signal"]].drop_duplicates("node")
        order = own.sort_values(["look", "statistic"], ascending=[True, False], kind="stable")
        return pd.DataFrame(order.reset_index(drop=True))

    def plot(self, *, look: int | None = None, most: int = 20, **options: Any) -> Any:
        """Draw the cuts with the largest statistics at a look, and the bound.

        Parameters
        ----------
        look : int, optional
            The look. Default: the last one.
        most : int, default 20
            Number of cuts.
        **options
            ``ax``, Matplotlib axes to draw on.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.

        Raises
        ------
        DataError
            There is no such look.
        """
        at = len(self.bounds) if look is None else look
        if at not in self.bounds.index:
            raise DataError(f"look must be between 1 and {len(self.bounds)}, not {look!r}.")
        own = self.table[self.table["look"] == at].sort_values("statistic", ascending=False)
        bound = float(self.bounds.loc[at, "bound"])
        given = {"bound": bound if np.isfinite(bound) else None, "most": most, **options}
        return drawn_by("tree_scan", own, **given)


def sequential_tree_scan(
    counts: TableLike,
    tree: TableLike,
    *,
    looks: int,
    model: Model = "poisson",
    conditional: bool = True,
    probability: float | None = None,
    alpha: float = 0.05,
    power: float = 1.0,
    min_cases: int = 2,
    cuts: Sequence[Hashable] | None = None,
    names: Mapping[Any, str] | None = None,
    replicates: int = 9999,
    seed: int = 0,
) -> SequentialTreeScan:
    """Scan a hierarchy of outcomes at each look at accruing counts.

    The replicates accrue as the data do: a bound holds for the first signals of those without one
    before, so that the probability of any signal of any cut at any look is at most ``alpha``.

    Parameters
    ----------
    counts : DataFrame
        A row per look and node: ``look`` (1, 2, …) and the columns of `tree_scan`, with the events
        since the look before.
    tree : DataFrame
        The hierarchy, as of `tree_scan`, the same at all looks.
    looks : int
        Number of planned looks.
    model : {"poisson", "bernoulli"}, default "poisson"
        As of `tree_scan`.
    conditional : bool, default True
        Fix the number of cases of each look.
    probability : float, optional
        As of `tree_scan`.
    alpha : float, default 0.05
        Probability of any signal without an effect.
    power : float, default 1
        The share (k / looks) to this power of ``alpha`` is spent up to look k. Below 1 early
        signals are easier, above 1 harder.
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
    SequentialTreeScan
        Bounds of the looks, and statistics of the cuts.

    Raises
    ------
    DataError
        Looks are missing or not planned, or counts cannot be used by `tree_scan`.

    Notes
    -----
    The bound of a look depends only on looks so far, if ``seed``, ``replicates`` and the tree stay
    the same.

    References
    ----------
    Kulldorff, Fang and Walsh (2003), Biometrics 59:323–331. Lan and DeMets (1983), Biometrika
    70:659–663.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import sequential_tree_scan
    >>> tree = pd.DataFrame({"node": ["rash", "fever"], "parent": ["any", "any"]})
    >>> counts = pd.DataFrame({"look": [1, 1, 2, 2], "node": ["rash", "fever"] * 2,
    ...                        "cases": [6, 4, 12, 3], "expected": [4, 4, 4, 4]})
    >>> found = sequential_tree_scan(counts, tree, looks=3, conditional=False, replicates=999)
    >>> found.bounds["signals"].tolist()
    [0, 1]
    """
    check_alpha(alpha)
    check_count("looks", looks)
    replicate_seed(replicates, seed)
    check_ratio("power", power)
    hierarchy = read_hierarchy(tree)
    parts = _by_look(read_columns(counts, None, "counts"), looks)
    steps = [
        counts_model(own, hierarchy, model, conditional, probability, min_cases, cuts)
        for own in parts
    ]
    where = [np.sort(hierarchy.positions("counts", own["node"])) for own in parts]
    chosen = chosen_cuts(hierarchy, cuts)
    so_far = _accrued(steps, where, hierarchy, chosen)
    share = check_spending((np.arange(1, len(parts) + 1) / looks) ** power, len(parts))
    largest = _largest(steps, where, so_far, replicates, seed)
    bounds = _bounds(largest, alpha * share)
    table = _tables(so_far, hierarchy.nodes[chosen], bounds, names)
    first = table[table["signal"]].drop_duplicates("node")
    summary = pd.DataFrame(
        {"cases": [int(m.cases.sum()) for m in so_far], "bound": bounds, "alpha": alpha * share,
         "signals": [int((first["look"] == k + 1).sum()) for k in range(len(parts))]},
        index=pd.RangeIndex(1, len(parts) + 1, name="look"),
    )  # fmt: skip
    return SequentialTreeScan(summary, table, replicates)


def _by_look(counts: pd.DataFrame, looks: int) -> list[pd.DataFrame]:
    """Return the counts of each look, and refuse looks that are missing or not planned."""
    if "look" not in counts:
        raise DataError("counts lacks the column 'look'; tree_scan takes counts of one look.")
    look = pd.to_numeric(counts["look"], errors="coerce")
    seen = sorted(look.dropna().unique())
    if look.isna().any() or seen != list(range(1, len(seen) + 1)) or not seen:
        raise DataError("look must be whole numbers 1, 2, … without gaps.")
    if len(seen) > looks:
        raise DataError(f"counts has {len(seen)} looks, but {looks} are planned.")
    return [pd.DataFrame(counts[look == k]) for k in seen]


def _accrued(
    steps: list[ScanModel], where: list[NDArray], hierarchy: Hierarchy, chosen: NDArray
) -> list[ScanModel]:
    """Return the models of all counts up to each look, with a group per node."""
    reach = sparse.csr_array(hierarchy.below[chosen])
    size = len(hierarchy.nodes)
    cases, second, third = np.zeros(size, np.int64), np.zeros(size), np.zeros(size)
    found: list[ScanModel] = []
    for step, at in zip(steps, where, strict=True):
        cases = cases.copy()
        cases[at] += step.cases
        if isinstance(step, PoissonScan):
            scale = step.cases.sum() / step.means.sum() if step.conditional else 1.0
            second = second.copy()
            second[at] += step.means * scale
            found.append(replace(step, cases=cases, reach=reach, means=second))
        elif isinstance(step, BernoulliScan):
            second, third = second.copy(), third.copy()
            second[at] += step.sizes
            own = None
            if step.probability is not None:
                third[at] += step.sizes * step.probability
                own = np.divide(third, second, out=np.full(size, 0.5), where=second > 0)
            found.append(
                replace(step, cases=cases, reach=reach, sizes=second.astype(np.int64),
                        probability=own)
            )  # fmt: skip
    return found


def _largest(
    steps: list[ScanModel], where: list[NDArray], so_far: list[ScanModel], replicates: int,
    seed: int,
) -> NDArray:  # fmt: skip
    """Compute the largest statistic of each replicate at each look, (replicates, looks)."""
    streams = [list(lanes(replicates, SeedSequence([seed, look]))) for look in range(len(steps))]
    found = []
    for blocks in zip(*streams, strict=True):
        size = blocks[0][0]
        total = np.zeros((size, len(so_far[0].cases)), np.int64)
        own = np.empty((size, len(steps)))
        for k, (_, rng) in enumerate(blocks):
            total[:, where[k]] += steps[k].draw(rng, size)
            counts = cut_counts(so_far[k].reach, total)
            own[:, k] = so_far[k].statistics(counts).max(axis=1, initial=0.0)
        found.append(own)
    return np.concatenate(found)


def _bounds(largest: NDArray, limits: NDArray) -> NDArray:
    """Return the bounds with which signals up to each look are as rare as planned."""
    found = np.full(len(limits), np.inf)
    quiet = np.ones(len(largest), bool)
    for k, limit in enumerate(limits):
        allowed = int(limit * (len(largest) + 1) + EQUAL) - 1 - int((~quiet).sum())
        if allowed >= 0 and quiet.any():
            own = np.sort(largest[quiet, k])[::-1]
            found[k] = own[min(allowed, len(own) - 1)]
        quiet &= largest[:, k] <= found[k] + EQUAL
    return found


def _tables(
    so_far: list[ScanModel], nodes: pd.Index, bounds: NDArray, names: Mapping[Any, str] | None
) -> pd.DataFrame:
    """Return the cuts at all looks."""
    parts, signal = [], np.zeros(len(nodes), bool)
    for k, (model, bound) in enumerate(zip(so_far, bounds, strict=True)):
        cases = model.observed
        statistic = model.statistics(cases[None])[0]
        signal = signal | (statistic > bound + EQUAL)
        ratio = np.divide(cases, model.expected, out=np.full(len(cases), np.nan),
                          where=model.expected > 0)  # fmt: skip
        own = pd.DataFrame(
            {"look": k + 1, "node": nodes, "cases": cases, "expected": model.expected,
             "ratio": ratio, "statistic": statistic, "bound": bound, "signal": signal}
        )  # fmt: skip
        parts.append(own[cases > 0])
    return with_names(pd.concat(parts, ignore_index=True), names)
