"""Assignment of columns to the groups of a prior, by label or by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..data.column_lookup import unknown_column
from ..errors import DataError

__all__ = ["group_numbers"]


def group_numbers(
    who: str,
    groups: Sequence[Hashable] | np.ndarray | Mapping[str, Hashable],
    names: Sequence[str],
    free: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Number the groups of the columns.

    Parameters
    ----------
    who : str
        Name of the prior, for messages.
    groups : (p,) labels, or mapping of names to labels
        Group of each column; a column is in no group if its label is None or missing, or if the
        mapping has no entry for it.
    free : (p,) bool array
        Columns that are in no group in any case.

    Returns
    -------
    member : (p,) int array
        The number of each column's group, −1 for none.
    size : int array
        The number of columns of each group.
    """
    labels: list[Any]
    if isinstance(groups, Mapping):
        for name in groups:
            if name not in names:
                raise unknown_column(f"{who}'s setting groups", name, names)
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
