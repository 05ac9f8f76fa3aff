"""Rows that have labels: a table and a series whose labels are in different orders."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError

from ..errors import DataError

__all__ = ["refuse_other_order"]


def refuse_other_order(first: Any, name: str = "X", **others: Any) -> None:
    """Refuse vectors whose rows have the labels of ``first`` in another order.

    Rows are matched by position, as in scikit-learn, and labels (a pandas index) are not looked
    at where they differ. The very same labels in another order are a mistake: someone sorted or
    shuffled one of the two.
    """
    index = _index(first)
    if index is None:
        return
    for what, x in others.items():
        other = _index(x)
        if other is None or len(other) != len(index) or index.equals(other):
            continue
        if not _same_labels(index, other):
            continue
        i = int(np.argmax([a != b for a, b in zip(index, other, strict=True)]))
        raise DataError(
            f"{name} and {what} have the same row labels in different orders: row {i} is "
            f"{index[i]!r} in {name} and {other[i]!r} in {what}. Rows are matched by position: "
            f"pass {what}.loc[{name}.index], or {what}.to_numpy() if the positions are right."
        )


def _index(x: Any) -> pd.Index | None:
    try:
        native = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    except DuplicateError:  # of names of columns, which are refused elsewhere
        return None
    if not isinstance(native, nw.DataFrame | nw.Series):
        return None
    return nw.maybe_get_index(native)


def _same_labels(a: pd.Index, b: pd.Index) -> bool:
    """Whether both hold each label equally often."""
    codes, _ = pd.factorize(a.append(b), use_na_sentinel=False)
    n = len(a)
    return bool((np.sort(codes[:n]) == np.sort(codes[n:])).all())
