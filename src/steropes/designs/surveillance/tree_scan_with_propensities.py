"""Tree scans of people with a probability of exposure of their own, each counted once in a cut."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from steropes.data.input_types import TableLike
from steropes.designs.surveillance.group_sequential_bounds import check_count
from steropes.designs.surveillance.outcome_hierarchies import chosen_cuts, read_hierarchy
from steropes.designs.surveillance.tree_scan import TreeScan, scan_result
from steropes.designs.surveillance.tree_scan_counts import check_probability
from steropes.designs.surveillance.tree_scan_null_models import BernoulliScan, largest_statistics
from steropes.designs.values.argument_checks import check_flag
from steropes.designs.values.input_checks import require_numbers
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, listed

__all__ = ["tree_scan_people"]

Unit = Literal["person", "event"]


def tree_scan_people(
    records: TableLike,
    tree: TableLike,
    *,
    probability: float | None = None,
    conditional: bool = False,
    unit: Unit = "person",
    min_cases: int = 2,
    cuts: Sequence[Hashable] | None = None,
    names: Mapping[Any, str] | None = None,
    replicates: int = 9999,
    seed: int = 0,
) -> TreeScan:
    """Scan a hierarchy of outcomes of matched, weighted or self-controlled people.

    Each person counts once in a cut, however many of its outcomes the person has, and by however
    many paths these belong to it. Without an effect the exposure of a person with outcomes is a
    draw with a known probability, so that all outcomes of a person move together.

    Parameters
    ----------
    records : DataFrame
        A row per person and outcome: ``person``, ``node``, ``exposed`` (1 for the target arm or
        the time at risk, 0 for the comparator or control time), perhaps ``probability``, and
        ``time`` if ``unit`` is "event". People without outcomes may be left out.
    tree : DataFrame
        The hierarchy, as of `tree_scan`.
    probability : float, optional
        Probability that a person with outcomes is exposed: 0.5 for pairs matched 1:1, 1 / (1 + m)
        for sets with m comparators, and the share of risk days in all days for self-controlled
        windows. A column of ``records`` gives it by person: with the propensity score in it, the
        scan adjusts as a cohort weighted by this score does.
    conditional : bool, default False
        Fix the number of the exposed among people with outcomes, instead of a probability.
    unit : {"person", "event"}, default "person"
        What is exposed or not: a person of a cohort, or an event of a self-controlled person, of
        which the first one in a cut counts.
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
        The cuts with statistics and p-values; ``cases`` are exposed people, and ``events`` all
        people with an outcome.

    Raises
    ------
    DataError
        A column, value or node is missing, or values of one person contradict each other.

    Notes
    -----
    The probability from a propensity score assumes equal follow-up of both arms, and outcomes that
    are rare or ended by none.

    References
    ----------
    Kulldorff, Fang and Walsh (2003), Biometrics 59:323–331. Wang and others (2018), Epidemiology
    29:895–903.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.surveillance import tree_scan_people
    >>> tree = pd.DataFrame({"node": ["rash", "hives", "fever"], "parent": ["skin", "skin", None]})
    >>> records = pd.DataFrame(
    ...     {"person": [1, 1, 2, 3, 4], "node": ["rash", "hives", "rash", "fever", "rash"],
    ...      "exposed": [1, 1, 1, 0, 0]}
    ... )
    >>> found = tree_scan_people(records, tree, probability=0.5, replicates=99)
    >>> found.table[["node", "cases", "events"]]
        node  cases  events
    0   rash      2       3
    1   skin      2       3
    2  hives      1       1
    """
    check_count("min_cases", min_cases)
    check_flag("conditional", conditional)
    hierarchy = read_hierarchy(tree)
    if unit not in get_args(Unit):
        raise DataError(f"unit must be one of {listed(get_args(Unit))}, not {unit!r}.")
    table = read_columns(records, None, "records")
    rows = _checked(table, unit, probability, conditional)
    at = hierarchy.positions("records", rows["node"])
    chosen = chosen_cuts(hierarchy, cuts)
    patterns = _patterns(rows, sparse.csr_array(hierarchy.below[chosen].T)[at])
    model = _grouped(patterns, rows, conditional, min_cases)
    largest = largest_statistics(model, replicates, seed)
    words = f"{'conditional' if conditional else 'unconditional'} Bernoulli of people"
    return scan_result(model, hierarchy, chosen, names, words, largest)


def _checked(
    records: pd.DataFrame, unit: Unit, probability: float | None, conditional: bool
) -> pd.DataFrame:
    """Return people and units as numbers, nodes, exposure and probability.

    Units of events are in the order of time; what happens to a person at one time is one of them.
    """
    needed = ["person", "node", "exposed", *(["time"] if unit == "event" else [])]
    missing = [name for name in needed if name not in records]
    if missing:
        raise DataError(f"records lacks the columns {listed(missing)}.")
    if not len(records):
        raise DataError("records has no rows.")
    if records["person"].isna().any():
        row = int(np.argmax(records["person"].isna()))
        raise DataError(f"records: row {row} (counted from 0) has no person.")
    exposed = require_numbers("exposed", records["exposed"])
    if not np.isin(exposed, (0, 1)).all():
        row = int(np.argmin(np.isin(exposed, (0, 1))))
        raise DataError(f"exposed: row {row} (counted from 0) must be 0 or 1.")
    rows = pd.DataFrame(
        {"person": pd.factorize(records["person"])[0], "node": records["node"].to_numpy(),
         "exposed": exposed.astype(np.int64),
         "probability": _probability(records, probability, conditional)}
    )  # fmt: skip
    who = ["person"]
    if unit == "event":
        rows["time"] = require_numbers("time", records["time"])
        who = ["time", "person"]
    differ = rows.groupby(who)[["exposed", "probability"]].nunique(dropna=False).gt(1)
    if differ.any(axis=None):
        name, number = str(differ.any().idxmax()), f"{int(differ.any(axis=1).sum()):,}"
        raise DataError(
            f"records: {number} people have different values of {name} at one time; correct them."
            if unit == "event"
            else f"records: {number} people have different values of {name}; a person of a cohort "
            "has one. For self-controlled windows set unit='event'."
        )
    return rows.assign(unit=rows.groupby(who).ngroup())


def _probability(records: pd.DataFrame, probability: float | None, conditional: bool) -> NDArray:
    """Return the probability of exposure of each row, nan if the scan is conditional."""
    given = "probability" in records
    if conditional:
        if given or probability is not None:
            raise DataError(
                "A conditional scan has no probability; leave it out, or set conditional=False."
            )
        return np.full(len(records), np.nan)
    if given == (probability is not None):
        raise DataError(
            "Give the probability of exposure once: as an argument, or as a column of records for "
            "probabilities that differ."
        )
    found = (
        require_numbers("probability", records["probability"])
        if given
        else np.full(len(records), check_probability(cast(float, probability)))
    )
    if not ((found > 0) & (found < 1)).all():
        raise DataError("probability must be between 0 and 1, such as 0.5.")
    return found


def _patterns(rows: pd.DataFrame, above: sparse.csr_array) -> sparse.csr_array:
    """Return the cuts in which each unit counts, (units, cuts).

    A person counts in every cut of any outcome; an event in the cuts in which it is the first.
    """
    links = sparse.coo_array(above)
    cut, unit = links.col, rows["unit"].to_numpy()[links.row]
    person = rows["person"].to_numpy()[links.row]
    order = np.lexsort((unit, cut, person))
    person, cut, unit = person[order], cut[order], unit[order]
    first = np.ones(len(order), bool)
    first[1:] = (person[1:] != person[:-1]) | (cut[1:] != cut[:-1])
    found = sparse.csr_array(
        (np.ones(int(first.sum()), dtype=bool), (unit[first], cut[first])),
        shape=(int(rows["unit"].max()) + 1, above.shape[1]),
    )
    found.sort_indices()
    return found


def _grouped(
    patterns: sparse.csr_array, rows: pd.DataFrame, conditional: bool, least: int
) -> BernoulliScan:
    """Group units with the same cuts and probability, whose cases are binomial."""
    units = rows.drop_duplicates("unit").sort_values("unit")
    ends = patterns.indptr
    keys = [patterns.indices[a:b].tobytes() for a, b in zip(ends[:-1], ends[1:], strict=True)]
    alike = pd.DataFrame({"cuts": np.unique(np.array(keys, dtype=object), return_inverse=True)[1],
                          "probability": units["probability"].to_numpy()})  # fmt: skip
    group = alike.groupby(["cuts", "probability"], dropna=False, sort=True).ngroup().to_numpy()
    one = np.unique(group, return_index=True)[1]
    cases = np.bincount(group, weights=units["exposed"]).astype(np.int64)
    sizes = np.bincount(group)
    if conditional and not (0 < cases.sum() < sizes.sum()):
        raise DataError("A conditional scan needs exposed and unexposed people with outcomes.")
    probability = None if conditional else alike["probability"].to_numpy()[one]
    return BernoulliScan(cases, sparse.csr_array(patterns[one].T), least, sizes, probability)
