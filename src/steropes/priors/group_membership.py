"""Which columns a user puts into groups, by label or by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DataError

__all__ = ["members"]


def members(
    who: str,
    groups: Sequence[Hashable] | np.ndarray | Mapping[str, Hashable],
    names: Sequence[str],
    free: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Number of each column's group, -1 for none, and how many columns each group has.

    Parameters
    ----------
    who : str
        The prior, for messages.
    groups : (p,) labels, or mapping of names to labels
        None, a missing label, or no entry: in no group.
    names : sequence of str
    free : (p,) bool array
        Columns that no group may have.
    """
    labels: list[Any]
    if isinstance(groups, Mapping):
        for name in groups:
            if name not in names:
                raise DataError(f"{who}'s groups name {name!r}, which is not a column of X.")
        labels = [groups.get(name) for name in names]
    else:
        if isinstance(groups, str) or len(groups) != len(names):
            raise DataError(
                f"{who}'s groups must be a label for each of the {len(names)} columns, "
                "or a mapping of names to labels."
            )
        labels = list(groups)
    number = dict[Any, int]()
    member = np.full(len(names), -1)
    for j, label in enumerate(labels):
        if label is not None and label == label and not free[j]:  # NaN is a missing label
            member[j] = number.setdefault(label, len(number))
    return member, np.bincount(member[member >= 0], minlength=len(number))
