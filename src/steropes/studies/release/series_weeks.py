"""Outcomes of case series by week around the start of exposure, without small counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.complementary_suppression import (
    Split,
    count_ranges,
    merged_splits,
    withheld_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.release.joint_series_counts import SET, Key, Tables, key_of
from steropes.studies.release.series_covariate_counts import CovariateCounts

__all__ = ["released_weeks"]


def released_weeks(
    exact: Tables, counts: dict[Key, CovariateCounts], rules: DisclosureRules
) -> pd.DataFrame:
    """Round outcomes by week to multiples of ``least``, or leave out the weeks of an exposure.

    Weeks divide the windows around an exposure. They are left out where the outcomes of one of its
    windows are hidden in any analysis, because they narrow that number, and where few outcomes of a
    week follow from those of a window and of its other weeks.

    Parameters
    ----------
    exact : mapping of str to DataFrame
        Exact tables.
    counts : dict
        The released counts of all covariates.

    Returns
    -------
    DataFrame
        The weeks of the remaining exposures; small numbers are -``least``.
    """
    table = exact["sccs_time_to_event"]
    if rules.open or table.empty:
        return table
    found = table.assign(
        **{n: [rules.coarse(int(x)) for x in table[n]] for n in ("observed_subjects", "outcomes")}
    )
    sets = exact["sccs_exposures_outcome_set"]
    outcomes = dict(sets[[SET[1], "outcome_id"]].itertuples(index=False))
    windows = exact["sccs_covariate"].dropna(subset="covariate_analysis_id")
    # Windows of several eras have the number 0; they belong to the exposure of their question.
    of_key = {
        key_of(line): int(line["era_id"] or -line[SET[1]]) for line in windows.to_dict("records")
    }
    hidden: set[tuple[int, int]] = set()
    for key, era in of_key.items():
        c = counts.get(key)
        if c is not None and (c.secrecy.closed or isinstance(c.events, Bound)):
            hidden.add((int(outcomes[key[1]]), era))
    totals = _totals(exact, of_key, outcomes, _begins(windows))
    alone = {(*key[:2], era) for key, era in of_key.items()}
    kept = np.ones(len(table), bool)
    alike: dict[tuple[int, int], list[NDArray]] = {}
    for (analysis, of_set, era), part in found.groupby([*SET, "era_id"], sort=False):
        own_era = int(era) if (analysis, of_set, era) in alone else -int(of_set)
        place = (int(outcomes[of_set]), own_era)
        rows = table.index.get_indexer(part.index)
        weeks, own = part["week"].to_numpy(), table["outcomes"].to_numpy()[rows]
        shown = part["outcomes"].to_numpy()
        # Weeks after the start of exposure and, from the last one, those before it.
        away = {1: weeks, -1: -1 - weeks}
        orders = {1: np.flatnonzero(weeks >= 0), -1: np.flatnonzero(weeks < 0)[::-1]}
        kept[rows] = place not in hidden and not any(
            _narrows(own[order], shown[order], total, away[side][order] - day / 7, rules)
            for total, side, day in totals.get(place, ())
            for order in (orders[side],)
        )
        if kept[rows].all():
            alike.setdefault(place, []).append(rows)
    for analyses in alike.values():
        for rows in _narrow_parts(table, analyses, rules):
            kept[rows] = False
    return found[kept].reset_index(drop=True)


def _narrow_parts(
    table: pd.DataFrame, analyses: Sequence[NDArray], rules: DisclosureRules
) -> Iterator[NDArray]:
    """Yield the analyses, by their rows, that others contain and of which few outcomes follow."""
    week, outcomes = table["week"].to_numpy(), table["outcomes"].to_numpy()
    weeks = np.unique(week[np.concatenate(analyses)])
    own = np.zeros((len(analyses), len(weeks)), dtype=np.int64)
    for place, rows in enumerate(analyses):
        own[place, np.searchsorted(weeks, week[rows])] = outcomes[rows]
    distinct, number = np.unique(own, axis=0, return_inverse=True)
    splits = _weekly_sums(distinct)
    shown = np.array([rules.coarse(int(n)) for n in distinct.ravel()])
    withheld = np.flatnonzero(withheld_counts(shown, splits, rules)) // len(weeks)
    for rows, at in zip(analyses, number.ravel(), strict=True):
        if at in withheld:
            yield rows


def _weekly_sums(outcomes: NDArray) -> list[Split]:
    """Find rows that are the sums of two or three others in all columns; split each column."""
    count, width = outcomes.shape
    positions = np.arange(count * width).reshape(count, width)
    filled = np.flatnonzero(outcomes.any(axis=1))
    # Codes of rows add up if rows do, and other codes add up to one of them by rare chance.
    codes = outcomes @ np.random.default_rng(0).integers(1, 2**60, width)
    place = {int(code): at for at, code in enumerate(codes)}
    pairs = filled[np.column_stack(np.triu_indices(len(filled), 1))]
    chosen = [pairs]
    for last in filled:
        before = pairs[pairs[:, 1] < last]
        chosen.append(np.column_stack([before, np.full(len(before), last)]))
    found = []
    for rows in chosen:
        sums = codes[rows].sum(axis=1)
        for of in np.flatnonzero(np.isin(sums, codes)):
            total, parts = place[int(sums[of])], rows[of]
            if (outcomes[parts].sum(axis=0) == outcomes[total]).all():
                found.append((positions[parts].ravel(), np.tile(positions[total], len(parts))))
    return merged_splits(found)


def _begins(windows: pd.DataFrame) -> dict[Key, list[tuple[int, int]]]:
    """Return where each window begins: after (1) or before (-1) the start, and how many days away.

    A window before the start begins at its last day. One whose days are unknown, or that contains
    the start, may be on both sides.
    """
    found = {}
    for line in windows.to_dict("records"):
        first, last = line["first_day"], line["last_day"]
        both = [(1, 0), (-1, 0)]
        after = [(1, int(first))] if pd.notna(first) and first >= 0 else both
        found[key_of(line)] = [(-1, -1 - int(last))] if pd.notna(last) and last < 0 else after
    return found


def _totals(
    exact: Tables,
    of_key: dict[Key, int],
    outcomes: dict[int, int],
    begins: dict[Key, list[tuple[int, int]]],
) -> dict[tuple[int, int], set[tuple[int, int, int]]]:
    """Return the outcomes of all windows of each exposure, and where the windows begin."""
    found: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
    for line in exact["covariate_count"].to_dict("records"):
        key = key_of(line)
        if era := of_key.get(key, 0):
            place, n = (int(outcomes[key[1]]), era), int(line["events"])
            found.setdefault(place, set()).update((n, *begin) for begin in begins[key])
    return found


def _narrows(
    own: NDArray, shown: NDArray, total: int, begin: NDArray, rules: DisclosureRules
) -> bool:
    """Check whether the outcomes of a window leave a week with few outcomes one or two numbers.

    The window begins in the week before which ``begin``, in weeks, is negative, and ends within the
    weeks in which as many outcomes as its own are reached. A week that is divided by its beginning
    is examined both as a part of it and as none.
    """
    return any(
        _narrow_from(own[part], shown[part], total, rules) for part in (begin > -1, begin >= 0)
    )


def _narrow_from(own: NDArray, shown: NDArray, total: int, rules: DisclosureRules) -> bool:
    """Check this for a window that begins with the first of some weeks."""
    sums, few = own.cumsum(), shown == -rules.least
    low, high = count_ranges(shown, rules)
    whole = [total, total]
    if rules.rounds:
        whole = [int(end[0]) for end in count_ranges(np.array([rules.coarse(total)]), rules)]
    inside = slice(int((sums <= total).sum()))
    around = slice(int((sums < total).sum()) + 1)
    most = np.minimum(high[inside], whole[1] - (low[inside].sum() - low[inside]))
    if len(sums) and sums[-1] >= total:
        low[around] = np.maximum(low[around], whole[0] - (high[around].sum() - high[around]))
    high[inside] = most
    return bool((few & (high - low < 2)).any())
