"""Check of row labels: tables and series with the same labels in different orders."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError

from ..errors import DataError

__all__ = ["refuse_other_order"]


def refuse_other_order(first: object, name: str = "X", **others: object) -> None:
    """Refuse vectors that have the row labels of ``first`` in another order.

    Rows are matched by position, as in scikit-learn, and different labels (pandas indices) are
    ignored. The same labels in another order, however, indicate that one of the two objects was
    sorted or shuffled by mistake.

    Parameters
    ----------
    first : table, series or array
    name : str
        Name of ``first``, for messages.
    **others : table, series or array
        Vectors by name.

    Raises
    ------
    DataError
        If the orders differ; the message names the first row that does.
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
        ours, theirs = index[[i]].tolist()[0], other[[i]].tolist()[0]
        raise DataError(
            f"{name} and {what} have the same row labels in different orders: row {i} is "
            f"{ours!r} in {name} and {theirs!r} in {what}. Rows are matched by position: "
            f"pass {what}.loc[{name}.index], or {what}.to_numpy() if the positions are right."
        )


def _index(x: object) -> pd.Index | None:
    """Return the pandas index of a table or series, if it has one."""
    try:
        native = nw.from_native(x, eager_only=True, allow_series=True, pass_through=True)
    except DuplicateError:  # duplicate names of columns are refused elsewhere
        return None
    if not isinstance(native, nw.DataFrame | nw.Series):
        return None
    return nw.maybe_get_index(native)


def _same_labels(a: pd.Index, b: pd.Index) -> bool:
    """Return whether both indices contain each label equally often."""
    codes, _ = pd.factorize(a.append(b), use_na_sentinel=False)
    n = len(a)
    return bool((np.sort(codes[:n]) == np.sort(codes[n:])).all())
