"""Suppression of shares of groups of people from which a suppressed share would follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.disclosure_rules import OPENSAFELY_ROUNDING, DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import share_unit

__all__ = ["further_hidden", "withheld_complements"]


def withheld_complements(
    groups: pd.DataFrame, counts: NDArray, hidden: NDArray, people: NDArray, rules: DisclosureRules
) -> tuple[NDArray, NDArray]:
    """Mark shares that are withheld because a hidden share would follow from them.

    Parameters
    ----------
    groups : DataFrame
        Columns that identify covariates that exclude each other, such as ages.
    counts : ndarray of int, shape (p,)
        The people of an arm who have each covariate.
    hidden : ndarray of bool, shape (p,)
        Whether the share of each covariate is hidden.
    people : ndarray of int, shape (p,)
        The people of the arm.

    Returns
    -------
    withheld : ndarray of bool, shape (p,)
        The shares that are withheld too.
    narrowing : ndarray of bool, shape (p,)
        The covariates of a set that everybody belongs to and that has a hidden share. Other numbers
        about them would narrow their shares, and hence the hidden one.
    """
    withheld, narrowing = np.zeros(len(counts), bool), np.zeros(len(counts), bool)
    numbers = groups.groupby(list(groups.columns), dropna=False, sort=False).ngroup().to_numpy()
    for number in np.unique(numbers[hidden]):
        own = np.flatnonzero(numbers == number)
        size = int(people[own[0]])
        if counts[own].sum() != size:
            continue
        narrowing[own] = True
        further = further_hidden(counts[own], hidden[own], size, rules)
        if further is not None:
            withheld[own[further]] = True
    return withheld, narrowing


def further_hidden(
    counts: NDArray, hidden: NDArray, people: int, rules: DisclosureRules
) -> int | None:
    """Choose a group to withhold too; None if the shares of the others reveal nothing.

    If every person belongs to one group, the people of hidden groups are all people less those of
    the others. Each of the others lies in the interval of counts that its released share allows, so
    that together they can exclude some of the counts from 1 to ``least`` − 1 that a hidden group
    may have.
    """
    few, least = hidden & (counts > 0), rules.least
    if counts.sum() != people or not few.any() or (counts[few] >= least).any():
        return None
    shown = np.flatnonzero(~hidden & (counts > 0))
    lowest, highest = _interval(counts[shown], people, rules)
    others = int(few.sum()) - 1
    fewest = people - highest.sum() - others * (least - 1)
    most = people - lowest.sum() - others
    if (fewest <= 1 and most >= least - 1) or not len(shown):
        return None
    # The smallest group with a number that is unknown enough, or else the largest group.
    order = shown[np.argsort(counts[shown], kind="stable")]
    large = order[counts[order] >= 2 * least]
    return int(large[0] if len(large) else order[-1])


def _interval(counts: NDArray, people: int, rules: DisclosureRules) -> tuple[NDArray, NDArray]:
    """Return the lowest and highest counts with the same released share as each count."""
    least = rules.least
    if rules.rounds:
        below = OPENSAFELY_ROUNDING // 2 - 1
        middle = np.array([rules.rounded(n) for n in counts], dtype=int)
        lowest, highest = middle - below, middle - below + OPENSAFELY_ROUNDING - 1
    else:
        unit = share_unit(people, least)
        shares = np.clip(np.rint(counts / people / unit), 1, max(round(1 / unit) - 1, 1))
        lowest = np.floor((shares - 0.5) * unit * people) + 1
        highest = np.ceil((shares + 0.5) * unit * people) - 1
    return np.maximum(lowest, least), np.minimum(highest, people - least)
