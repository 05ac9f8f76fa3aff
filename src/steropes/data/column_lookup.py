"""Lookup of columns of X by name or position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import numpy as np

from ..errors import DataError, listed

__all__ = ["ColumnLookup", "unknown_column"]


def unknown_column(argument: str, item: object, names: Iterable[str]) -> DataError:
    """Describe an argument that names no column of X.

    A table's column of labels has several coefficients, with names of their own.
    """
    coded = [name for name in names if name.startswith(f"{item}[T.")]
    if coded:
        return DataError(
            f"{argument} names {item!r}, a column of labels, whose coefficients are "
            f"{listed(coded)}; name these."
        )
    return DataError(f"{argument} names {item!r}, which is not a column of X.")


class ColumnLookup:
    """Find the columns of X that the entries of an argument refer to.

    Parameters
    ----------
    names : sequence of str
        All columns of X, in the user's order.
    argument : str
        The argument's name, for messages.
    """

    def __init__(self, names: Sequence[str], argument: str) -> None:
        self.p, self.argument = len(names), argument
        self._place = {name: j for j, name in enumerate(names)}

    def of(self, item: object) -> int:
        """Return the place of one column, 0 … p − 1.

        Parameters
        ----------
        item : str or int
            A name, or a position counted from the first column (0) or the last (−1).

        Raises
        ------
        DataError
            If no such column exists, or ``item`` is neither a name nor a position.
        """
        if isinstance(item, str):
            if item not in self._place:
                raise unknown_column(self.argument, item, self._place)
            return self._place[item]
        if isinstance(item, bool | np.bool_) or not isinstance(item, Integral):
            raise DataError(f"{self.argument} takes names or positions of columns, not {item!r}.")
        if not -self.p <= int(item) < self.p:
            raise DataError(f"{self.argument} has position {item}, but X has {self.p} columns.")
        return int(item) % self.p
