"""Withholding of further shares where groups that make up an arm reveal a hidden one."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.small_cell_suppression import share_unit

__all__ = ["further_hidden", "withheld_complements"]


def withheld_complements(
    groups: pd.DataFrame, counts: NDArray, hidden: NDArray, people: NDArray, least: int
) -> NDArray:
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
    least : int
        Smaller counts are hidden.
    """
    found = np.zeros(len(counts), bool)
    numbers = groups.groupby(list(groups.columns), dropna=False, sort=False).ngroup().to_numpy()
    for number in np.unique(numbers[hidden]):
        own = np.flatnonzero(numbers == number)
        further = further_hidden(counts[own], hidden[own], int(people[own[0]]), least)
        if further is not None:
            found[own[further]] = True
    return found


def further_hidden(counts: NDArray, hidden: NDArray, people: int, least: int) -> int | None:
    """Choose a group to withhold too; None if the shares of the others reveal nothing.

    If every person belongs to one group, the people of hidden groups are all people less those of
    the others. Each of the others lies within half a unit of its released share, so that together
    they can exclude some of the counts from 1 to ``least`` − 1 that a hidden group may have.
    """
    few = hidden & (counts > 0)
    if counts.sum() != people or not few.any() or (counts[few] >= least).any():
        return None
    shown = np.flatnonzero(~hidden & (counts > 0))
    unit = share_unit(people, least)
    shares = np.clip(np.rint(counts[shown] / people / unit), 1, max(round(1 / unit) - 1, 1))
    lowest = np.maximum(np.floor((shares - 0.5) * unit * people) + 1, least)
    highest = np.minimum(np.ceil((shares + 0.5) * unit * people) - 1, people - least)
    others = int(few.sum()) - 1
    fewest = people - highest.sum() - others * (least - 1)
    most = people - lowest.sum() - others
    if (fewest <= 1 and most >= least - 1) or not len(shown):
        return None
    # The smallest group with a number that is unknown enough, or else the largest group.
    order = shown[np.argsort(counts[shown], kind="stable")]
    large = order[counts[order] >= 2 * least]
    return int(large[0] if len(large) else order[-1])
