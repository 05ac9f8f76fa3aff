"""Tree scans of a table of counts, with the settings of the command."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

import pandas as pd

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Count, Listed, Positive, Share, YesNo
from steropes.designs.surveillance import sequential_tree_scan, tree_scan, tree_temporal_scan
from steropes.designs.surveillance.group_sequential_bounds import check_alpha
from steropes.errors import DataError
from steropes.studies.disclosure import DisclosureRules

__all__ = ["TableScan", "scan_table"]

NUMBERS = ("cases", "controls")
# Settings of scans of time, of several looks, and of neither.
TIMES, LOOKS = ("times", "window", "fixed", "least_share"), ("looks", "power")
PLAIN = ("conditional", "probability", "min_cases", "replicates", "seed")


class TableScan(Settings):
    """Settings of a tree scan of a table of counts.

    Parameters
    ----------
    conditional : bool, default False
        Compare outcomes with each other instead of with their expected numbers.
    probability : float, optional
        Of a table with controls: probability that an event without an effect is a case.
    times : (int, int), optional
        First and last time of follow-up: scan windows of the column "time".
    window : (int, int), optional
        Shortest and longest window of time. Default: 2, and half of follow-up.
    fixed : {"node", "node and time"}, default "node"
        What replicates of a scan of time keep.
    least_share : float, default 0
        Least length of a window as a share of the time to its end.
    looks : int, optional
        Number of planned looks: test at each look of the column "look".
    power : float, default 1
        Spend the share (look / planned looks) to this power of alpha.
    min_cases : int, default 2
        Least number of cases of a part of the tree that is tested.
    alpha : float, default 0.05
        Probability of any signal without an effect.
    replicates : int, default 9999
        Number of replicates without an effect.
    seed : int, default 0
        Seed of the replicates.
    tree : str, default ""
        SHA-256 of the file of the hierarchy.

    See Also
    --------
    scan_table : Runs it.

    Examples
    --------
    >>> from steropes.studies.monitoring.tree_scan_of_a_table import TableScan
    >>> TableScan(times=(1, 28)).times
    (1, 28)
    """

    conditional: YesNo = False
    probability: Share | None = None
    times: Listed[int] | None = None
    window: Listed[int] | None = None
    fixed: Literal["node", "node and time"] = "node"
    least_share: Share = 0.0
    looks: Count | None = None
    power: Positive = 1.0
    min_cases: Count = 2
    alpha: Share = 0.05
    replicates: Count = 9999
    seed: Count = 0
    tree: str = ""

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    def changed(self) -> set[str]:
        """Return the names of settings that differ from their defaults."""
        return {f.name for f in fields(self) if getattr(self, f.name) != f.default}


def scan_table(
    counts: pd.DataFrame, tree: pd.DataFrame, question: TableScan, rules: DisclosureRules
) -> pd.DataFrame:
    """Scan a hierarchy by a table of counts.

    The results have exact numbers, which are sums of those of the table.

    Parameters
    ----------
    counts : DataFrame
        ``node``, ``cases``, and ``expected`` or ``controls``; or ``time``; perhaps ``look``.
    tree : DataFrame
        ``node`` and ``parent``, perhaps with ``name``; or links of OMOP.
    question : TableScan
        The settings.
    rules : DisclosureRules
        Rules of the data's owner.

    Returns
    -------
    DataFrame
        The cuts, of each look if there are several, with ``signal``.

    Raises
    ------
    DataError
        The table has small counts that the rules hide, or an option does not belong to the scan.
    """
    _refuse_small(counts, rules)
    below = "node" if "node" in tree else "descendant_concept_id"
    given = tree.dropna(subset=["name"]) if "name" in tree else tree.iloc[:0]
    names = None if given.empty else dict(zip(given[below], given["name"], strict=True))
    temporal, several = question.times is not None, question.looks is not None
    _refuse_unused(question, temporal, several)
    chosen = [*PLAIN, *(TIMES if temporal else ()), *(LOOKS if several else ())]
    options: dict[str, Any] = {name: getattr(question, name) for name in chosen} | {"names": names}
    if temporal:
        for name in ("conditional", "probability"):
            del options[name]
        scan = tree_temporal_scan(counts, tree, **options)
        return scan.table.assign(signal=scan.table["p"] <= question.alpha)
    options["model"] = "bernoulli" if "controls" in counts else "poisson"
    if several:
        return sequential_tree_scan(counts, tree, alpha=question.alpha, **options).table
    scan = tree_scan(counts, tree, **options)
    return scan.table.assign(signal=scan.table["p"] <= question.alpha)


def _refuse_unused(question: TableScan, temporal: bool, several: bool) -> None:
    """Refuse settings that the scan has no use for."""
    changed = question.changed()
    if temporal and several:
        raise DataError("times and looks cannot be combined; scan windows of time at one look.")
    unused = [
        *(() if temporal else [(n, "a scan of time; give times") for n in TIMES if n in changed]),
        *(() if several else [(n, "several looks; give looks") for n in LOOKS if n in changed]),
    ]
    if temporal:
        unused += [
            (n, "a scan without times") for n in ("conditional", "probability") if n in changed
        ]
    if unused:
        raise DataError("{} belongs to {}.".format(*unused[0]))


def _refuse_small(counts: pd.DataFrame, rules: DisclosureRules) -> None:
    """Refuse numbers that the rules hide, because the results are sums of them."""
    if rules.rounds:
        raise DataError(
            "The disclosure rules round counts, but the results are exact sums of them. Give "
            "--disclosure none if these are no numbers of people, or if the results stay where the "
            "data are."
        )
    for name in NUMBERS:
        if name not in counts or rules.open:
            continue
        values = pd.to_numeric(counts[name], errors="coerce")
        small = int(((values > 0) & (values < rules.least)).sum())
        if small:
            raise DataError(
                f"{small:,} rows have {name} between 1 and {rules.least - 1}, which the disclosure "
                "rules hide. Give --disclosure none if these are no numbers of people, or if the "
                "results stay where the data are; or use a table without small counts."
            )
