"""Complementary suppression: further counts withheld where totals would reveal a small one.

A rounded count stands for a range of exact ones. Where strata add up to a total, these ranges can
leave a suppressed count few values: two strata of "fewer than 5" of a total of 10 have 4 people
each, because the total is at least 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.studies.disclosure.disclosure_rules import OPENSAFELY_ROUNDING, DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import Bound

__all__ = [
    "MANY_STRATA",
    "Split",
    "beside",
    "count_ranges",
    "equal_splits",
    "exhaustive_splits",
    "limit_of_part",
    "merged_splits",
    "nested_splits",
    "part_split",
    "sum_splits",
    "unnarrowed_counts",
    "withheld_counts",
]

# Positions of strata in a table, and for each of them the position of its total.
Split = tuple[NDArray, NDArray]
# With MANY_STRATA strata or more, MANY_VALUES possible values of a suppressed count suffice.
MANY_STRATA, MANY_VALUES = 5, 3
ROUNDS = 50  # More rounds narrow ranges of nested strata no further.


def nested_splits(table: pd.DataFrame, keys: Sequence[str], strata: Sequence[str]) -> list[Split]:
    """Find all strata of a table with their totals.

    Parameters
    ----------
    table : DataFrame
        Rows for combinations of strata; a missing stratum stands for all of its values.
    keys : sequence of str
        Columns that identify independent parts of the table.
    strata : sequence of str
        Columns of the strata.

    Returns
    -------
    list of (ndarray, ndarray)
        Positions of the rows that differ in one stratum, and of their totals.
    """
    known = table[[*strata]].notna().to_numpy()
    found = []
    for n in range(1, len(strata) + 1):
        for used in itertools.combinations(range(len(strata)), n):
            for split in used:
                rest = [i for i in used if i != split]
                parts, whole = (
                    np.flatnonzero((known == np.isin(range(len(strata)), of)).all(axis=1))
                    for of in (used, rest)
                )
                by = [*keys, *(strata[i] for i in rest)]
                totals = table.iloc[whole][by].assign(whole=whole)
                at = table.iloc[parts][by].merge(totals, on=by, how="left")["whole"]
                there = at.notna().to_numpy()
                found.append((parts[there], at[there].to_numpy(np.int64)))
    return [split for split in found if len(split[0])]


def exhaustive_splits(kinds: NDArray, exact: NDArray, of: NDArray, whole: NDArray) -> list[Split]:
    """Find the groups of which everybody has exactly one, such as ages, with their totals.

    These are the groups of one kind that add up to all people.

    Parameters
    ----------
    kinds : ndarray of int, shape (n,)
        The kind of each group; negative for one that belongs to none.
    exact : ndarray, shape (n,)
        Exact counts.
    of : ndarray of int, shape (n,)
        The position of the total of each group.
    whole : ndarray, shape (n,)
        The exact total of each group.

    Returns
    -------
    list of (ndarray, ndarray)
        One split for each kind.
    """
    found = []
    for kind in np.unique(kinds[kinds >= 0]):
        own = np.flatnonzero(kinds == kind)
        _, number = np.unique(of[own], return_inverse=True)
        own = own[np.bincount(number, exact[own].astype(float))[number] == whole[own]]
        if len(own):
            found.append((own, of[own]))
    return found


def part_split(rows: int, parts: int) -> Split:
    """Return the split of tables with a total in each row, followed by its parts."""
    positions = np.arange(rows * (parts + 1)).reshape(rows, parts + 1)
    return positions[:, 1:].ravel(), positions[:, :1].repeat(parts, axis=1).ravel()


def sum_splits(sizes: ArrayLike, counts: ArrayLike) -> list[Split]:
    """Find the counts that are the sum of up to three others, or equal to another one.

    Groups of which a larger one consists are recognised by their sizes, such as the days of windows
    after exposure: sizes and counts both add up.

    Parameters
    ----------
    sizes, counts : array-like of int, shape (n,)
        Size of each group, such as its days, and its exact count.

    Returns
    -------
    list of (ndarray, ndarray)
        Positions of the parts, and of their totals.
    """
    size, count = (np.asarray(x, dtype=np.int64) for x in (sizes, counts))
    codes = size * (4 * int(count.max(initial=0)) + 1) + count  # They add up if both do.
    distinct, first = np.unique(codes, return_index=True)
    found = equal_splits(codes.tolist())
    own = np.flatnonzero(size[first] > 0)
    parts, pairs = distinct[own], [*itertools.combinations_with_replacement(range(len(own)), 2)]
    triples = itertools.combinations_with_replacement(range(len(own)), 3)
    for of in [*pairs, *triples]:
        total = int(parts[[*of]].sum())
        at = int(np.searchsorted(distinct, total))
        if at < len(distinct) and distinct[at] == total and len({*of}) == len(of):
            chosen = first[own[[*of]]]
            found.append((chosen, np.full(len(of), first[at])))
    return merged_splits(found)


def equal_splits(marks: Sequence[Hashable]) -> list[Split]:
    """Return the splits of counts that are equal, those with the same mark."""
    first: dict[Hashable, int] = {}
    pairs = [(i, first.setdefault(mark, i)) for i, mark in enumerate(marks)]
    return merged_splits([(np.array([i]), np.array([j])) for i, j in pairs if i != j])


def merged_splits(splits: Sequence[Split]) -> list[Split]:
    """Join splits without a total in common, so that few are left."""
    rows: list[list[Split]] = []
    used: dict[int, int] = {}
    for parts, totals in splits:
        distinct = np.unique(totals).tolist()
        number = max(used.get(total, 0) for total in distinct)
        used |= dict.fromkeys(distinct, number + 1)
        if number == len(rows):
            rows.append([])
        rows[number].append((parts, totals))
    return [(np.concatenate([p for p, _ in of]), np.concatenate([t for _, t in of])) for of in rows]


def unnarrowed_counts(
    counts: Sequence[int],
    told: Sequence[int | Bound | None],
    splits: Sequence[Split],
    rules: DisclosureRules,
) -> list[int | Bound | None]:
    """Replace counts that narrow a suppressed one by bounds; the first have precedence.

    A rounded count leaves a suppressed one fewer values only if they are next to the limits of
    their ranges, so that `MANY_VALUES` possible values suffice beside rounded counts.

    Parameters
    ----------
    counts : sequence of int
        Exact counts.
    told : sequence of int, Bound or None
        The counts as each of them would be released alone; None for one that is not released, and
        that may become known.
    splits : sequence of (ndarray, ndarray)
        Positions of parts and of the total of each, as `sum_splits` finds them.

    Returns
    -------
    list of int, Bound or None
        The bound of a count is the largest value that the others allow.
    """
    found = [*told]
    hidden = np.array([isinstance(n, Bound) for n in found], dtype=bool)
    if rules.open or not splits or not hidden.any():
        return found
    needed = MANY_VALUES if rules.rounds else rules.least - 1
    low, high = np.zeros(len(found)), np.full(len(found), np.inf)
    for i, told_alone in enumerate(found):
        if isinstance(told_alone, Bound):
            low[i], high[i] = _range_of(counts[i], told_alone, rules)
    low, high = _propagated(low, high, splits)
    values = high - low + 1
    related = np.unique(np.concatenate([x for split in splits for x in split]))
    for i in related.tolist():
        if not isinstance(own := found[i], int):
            continue
        exact = low.copy(), high.copy()
        exact[0][i], exact[1][i] = _range_of(counts[i], own, rules)
        exact = _propagated(*exact, splits)
        further = exact[1] - exact[0] + 1
        if (further < np.minimum(values, needed))[hidden].any():
            limit = int(high[i]) + 1 if np.isfinite(high[i]) else own + rules.least
            bound = found[i] = Bound(max(limit, rules.least))
            hidden[i], ends = True, _range_of(counts[i], bound, rules)
            low[i], high[i] = max(low[i], ends[0]), min(high[i], ends[1])
            low, high = _propagated(low, high, splits)
            values = np.minimum(values, high - low + 1)
        else:
            low, high = exact
    return found


def _range_of(n: int, told: int | Bound, rules: DisclosureRules) -> tuple[float, float]:
    """Return the range of a released count; a bound is as near as most bounds are."""
    if not isinstance(told, Bound):
        low, high = count_ranges(np.array([told]), rules) if rules.rounds else ([n], [n])
        return float(low[0]), float(high[0])
    near = told.limit - rules.least
    return (max(near, min(n, 1)) if n >= near else 0.0), told.limit - 1


def limit_of_part(total: ArrayLike, rules: DisclosureRules) -> NDArray:
    """Return what stands for a withheld part in a column without blanks: minus a limit.

    Every part is below the limit, which follows from the released total.
    """
    return -(np.maximum(np.asarray(total, dtype=float), rules.least) + rules.least)


def beside(marked: NDArray, splits: Sequence[Split]) -> NDArray:
    """Mark the strata of totals that have a marked stratum."""
    found = np.zeros(len(marked), bool)
    for parts, totals in splits:
        found[parts] |= np.isin(totals, totals[marked[parts]])
    return found


def withheld_counts(
    shown: NDArray,
    splits: Sequence[Split],
    rules: DisclosureRules,
    *,
    entries: bool = False,
    fewest: ArrayLike = 0,
    absent: NDArray | None = None,
    several: bool = False,
) -> NDArray:
    """Mark the counts that are withheld, so that released ones narrow no suppressed count.

    All strata of a total are withheld together, so that the small ones cannot be identified.
    That they are withheld must not reveal that suppressed counts have their largest values, as two
    strata of a total of 10 have. Therefore strata are also withheld if one of them is suppressed
    and all of them could be small.

    Parameters
    ----------
    shown : ndarray, shape (n,)
        Counts as `DisclosureRules.coarse` releases them.
    splits : sequence of (ndarray, ndarray)
        Positions of strata, and of the total of each; see `nested_splits`.
    entries : bool, default False
        Whether these are numbers of events or entries. A suppressed one may be large, but it is no
        smaller than the number of people.
    fewest : array-like of int, default 0
        The lowest possible count of each row or of all, such as 1 if rows without people are
        absent.
    absent : ndarray of bool, shape (n,), optional
        Rows that are not released, not even their existence. Those with a suppressed count are
        known to be of few people or of no one.
    several : bool, default False
        Whether so many totals overlap that it does not follow which of them is narrow if strata
        are withheld, although each has few strata.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    absent = np.zeros(len(shown), bool) if absent is None else absent
    withheld = absent.copy()
    lowest_of_rows = np.where(absent, 0.0, np.asarray(fewest, dtype=float))
    if rules.open or not splits:
        return withheld
    hidden, most = shown == -rules.least, np.zeros(len(shown))
    for parts, totals in splits:
        strata = np.bincount(totals, minlength=len(shown))
        most = np.maximum(most, strata)
        np.maximum.at(most, parts, strata[totals])
        few = shown[totals] <= strata[totals] + 2 * rules.least - 1
        withheld[parts] |= few & np.isin(totals, totals[hidden[parts] & few])
    # Few vectors of counts are narrow with few strata, so that withholding discloses which.
    needed = np.where((most < MANY_STRATA) & (not several), rules.least - 1, MANY_VALUES)
    while True:
        low, high = count_ranges(shown, rules, entries=entries)
        low = np.where(withheld, lowest_of_rows, low)
        high = np.where(withheld & ~(absent & hidden), np.inf, high)
        low, high = _propagated(low, high, splits)
        lowest = np.ones(len(low)) if entries else np.maximum(low, 1)
        values = np.where(withheld, high, np.minimum(high, rules.least - 1)) - lowest + 1
        narrow = hidden & (values < needed)
        around = narrow.copy()
        for parts, totals in splits:
            around[parts] |= narrow[totals]  # The strata of a suppressed total narrow it.
            around[totals[narrow[parts] & withheld[parts]]] = True
        further = beside(around, splits)
        for parts, totals in splits:
            further[parts] |= narrow[totals]
        if not (further & ~withheld).any():
            further = _interactions(narrow, splits)
        if not (further & ~withheld).any():
            return withheld
        withheld |= further


def _interactions(narrow: NDArray, splits: Sequence[Split]) -> NDArray:
    """Mark all strata of strata of those totals that a marked count belongs to."""
    part, own = np.zeros(len(narrow), bool), narrow.copy()
    for parts, _ in splits:
        part[parts] = True
    while True:
        before = own.sum()
        for parts, totals in splits:
            own[totals] |= np.isin(totals, totals[own[parts]])
            own[parts] |= own[totals]
        if own.sum() == before:
            break
    found = np.zeros(len(narrow), bool)
    for parts, totals in splits:
        found[parts] |= own[parts] & part[totals]
    return found


def count_ranges(
    shown: NDArray, rules: DisclosureRules, *, entries: bool = False
) -> tuple[NDArray, NDArray]:
    """Return the lowest and highest counts for which each count of `coarse` can stand.

    Parameters
    ----------
    shown : ndarray, shape (n,)
        Counts as `DisclosureRules.coarse` releases them.
    entries : bool, default False
        Whether a suppressed count may be large; see `withheld_counts`.
    """
    n, least = shown.astype(float), rules.least
    above = OPENSAFELY_ROUNDING // 2 if rules.rounds else least // 2
    below = above - 1 if rules.rounds else above
    low = np.where(n > 0, np.maximum(n - below, least), 0.0)
    high = np.where(n > 0, n + above, 0.0)
    few = n == -least
    low = np.where(few, 1.0, low)
    return low, np.where(few, np.inf if entries else least - 1.0, high)


def _propagated(low: NDArray, high: NDArray, splits: Sequence[Split]) -> tuple[NDArray, NDArray]:
    """Narrow ranges by all totals.

    People with several entries can belong to several years or ages. Where strata cannot add up to
    their total they disclose nothing about it.
    """
    n = len(low)
    for _ in range(ROUNDS):
        before = low, high
        for parts, totals in splits:
            endless = np.isinf(high[parts])
            finite = np.where(endless, 0.0, high[parts])
            least, most, open_ = (np.bincount(totals, x, n) for x in (low[parts], finite, endless))
            highest = np.where(open_ > 0, np.inf, most)
            sums = (least <= high) & (highest >= low)
            whole = np.zeros(n, bool)
            whole[totals] = True
            whole &= sums
            own = sums[totals]
            others = open_[totals] > endless
            below = np.where(others, -np.inf, low[totals] - (most[totals] - finite))
            above = high[totals] - (least[totals] - low[parts])
            low = np.where(whole, np.maximum(low, least), low)
            high = np.where(whole, np.minimum(high, highest), high)
            low[parts] = np.where(own, np.maximum(low[parts], below), low[parts])
            high[parts] = np.where(own, np.minimum(high[parts], above), high[parts])
        if np.array_equal(low, before[0]) and np.array_equal(high, before[1]):
            break
    return low, high
