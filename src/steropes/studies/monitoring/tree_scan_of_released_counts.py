"""Tree scans of the numbers of outcomes in released results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.surveillance import TreeScan, tree_scan
from steropes.designs.surveillance.outcome_hierarchies import read_hierarchy
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import with_kinds
from steropes.studies.archives.names_of_archive_ids import ArchiveNames
from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.viewer.result_sources import read_sources

__all__ = ["ReleasedScan", "scan_release"]

GROUP = ["target_comparator_id", "analysis_id"]
NUMBERS = ["target_outcomes", "comparator_outcomes", "target_days", "comparator_days"]


@dataclass(frozen=True)
class ReleasedScan:
    """The scan of one comparison and analysis.

    Attributes
    ----------
    comparison, analysis : str
        Names.
    scan : TreeScan
        The cuts.
    note : str
        Outcomes that were left out, and why.
    """

    comparison: str
    analysis: str
    scan: TreeScan
    note: str


def scan_release(
    path: str | Path,
    tree: pd.DataFrame,
    *,
    conditional: bool = False,
    unblind: bool = False,
    replicates: int = 9999,
) -> list[ReleasedScan]:
    """Scan the outcomes of a comparative study for nodes of a hierarchy with many cases.

    Each event falls into the target arm with the probability of its share of person-time, if there
    is no effect. Released numbers are all that is used, so that the result discloses no more.

    Parameters
    ----------
    path : path
        Released results of one study on one database.
    tree : DataFrame
        The hierarchy, as of `tree_scan`, whose nodes include ids of outcomes. A column ``name``
        names nodes, besides outcomes.
    conditional : bool, default False
        Compare outcomes with each other instead of with person-time.
    unblind : bool, default False
        Also use outcomes that fail a diagnostic.
    replicates : int, default 9999
        Replicates without an effect.

    Returns
    -------
    list of ReleasedScan
        A scan for each comparison and analysis without weights, in the order of the release.

    Raises
    ------
    DataError
        The path has no comparative results of exactly one database, or nothing can be scanned.
    """
    sources = [s for s in read_sources([path]) if "cm_result" in s.tables]
    if len(sources) != 1 or sources[0].tables["cm_result"]["database_id"].nunique() > 1:
        raise DataError(f"{path} must have the results of one comparative study on one database.")
    tables = sources[0].tables
    names = ArchiveNames([dict(tables)])
    rows = with_kinds(dict(tables))
    numbers = rows[NUMBERS].apply(pd.to_numeric, errors="coerce")
    rows = rows.assign(**{name: numbers[name] for name in NUMBERS})
    # Numbers below a limit are released as negative ones, or as none.
    rows["unknown"] = (numbers.isna() | numbers.lt(0)).any(axis=1)
    inside = rows["outcome_id"].isin(read_hierarchy(tree).nodes)
    below = "node" if "node" in tree else "descendant_concept_id"
    given = tree.dropna(subset=["name"]) if "name" in tree else tree.iloc[:0]
    own_names = {} if given.empty else dict(zip(given[below], given["name"], strict=True))
    found = []
    for key, own in rows[~rows["weighted"].astype(bool)].groupby(GROUP, sort=False):
        named = names.of(int(key[0]), int(own["outcome_id"].iloc[0]), int(key[1]))
        comparison = f"{named['target']} against {named['comparator']}"
        reasons = {
            "not in the tree": ~inside[own.index],
            "fail a diagnostic": own[HIDDEN].astype(bool) & (not unblind),
            "hidden by disclosure control": own["unknown"],
        }
        used, left_out = _chosen(own, reasons)
        if len(used):
            outcomes = {int(i): names.cohort(int(i)) for i in used["outcome_id"]}
            scan = _scan(used, tree, own_names | outcomes, conditional, replicates)
            found.append(ReleasedScan(comparison, named["analysis"], scan, left_out))
    if not found:
        raise DataError(
            f"{path} has no outcome to scan: no unweighted analysis has outcomes with released "
            "numbers that are nodes of the tree and pass the diagnostics."
        )
    return found


def _chosen(own: pd.DataFrame, reasons: dict[str, pd.Series]) -> tuple[pd.DataFrame, str]:
    """Return the outcomes that can be used, and how many cannot for which reason."""
    kept, parts = np.ones(len(own), bool), []
    for reason, mask in reasons.items():
        number = int((kept & mask.to_numpy()).sum())
        kept &= ~mask.to_numpy()
        if number:
            parts.append(f"{number:,} {reason}")
    return own[kept], f"left out: {', '.join(parts)}" if parts else ""


def _scan(
    own: pd.DataFrame, tree: pd.DataFrame, names: dict[Any, str], conditional: bool, replicates: int
) -> TreeScan:
    """Scan the outcomes of one comparison and analysis."""
    target, comparator = own["target_days"], own["comparator_days"]
    counts = pd.DataFrame(
        {
            "node": own["outcome_id"].astype(int),
            "cases": own["target_outcomes"],
            "controls": own["comparator_outcomes"],
        }
    )
    if not conditional:
        counts["probability"] = target / (target + comparator)
    return tree_scan(
        counts, tree, model="bernoulli", conditional=conditional, names=names,
        replicates=replicates,
    )  # fmt: skip
