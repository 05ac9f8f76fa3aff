"""Settings of priors, one number or one for each column of X, and the unpenalised columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np

from ..data.column_lookup import ColumnLookup, unknown_column
from ..errors import DataError

# One number, or one for each column: in their order, or by name.
Variance = float | Sequence[float] | np.ndarray | Mapping[str, float]
# Names, positions or a mask of columns.
Columns = str | int | Sequence[str | int] | np.ndarray

__all__ = ["ColumnSettings", "Columns", "Variance", "number_of_entries"]


@dataclass(frozen=True)
class ColumnSettings:
    """The settings of a prior by name, with conversions of those that refer to columns of X.

    The class attributes are described in `Prior`.
    """

    optional_entries: ClassVar[frozenset[str]] = frozenset()
    by_column: ClassVar[frozenset[str]] = frozenset()
    exclude = cast("Columns", ())  # a field of the subclasses, after the variances

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, as in scikit-learn.

        They are the estimator's parameters ``prior__variance`` and so on.

        Parameters
        ----------
        deep : bool
            Ignored, because settings have no settings themselves.

        Returns
        -------
        dict
            The settings.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: object) -> Self:
        """Change settings by name; existing fits keep the previous ones.

        Parameters
        ----------
        **params
            New values of settings.

        Returns
        -------
        self
            The changed prior.

        Raises
        ------
        DataError
            If no setting has that name.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                raise DataError(
                    f"{type(self).__name__} has no setting {name!r}; it has "
                    f"{', '.join(map(repr, known)) or 'none'}."
                )
        for name, value in params.items():
            object.__setattr__(self, name, value)
        return self

    def exclusions(self, p: int) -> list[str | int]:
        """Convert ``exclude`` for p columns to a list of names and positions.

        Parameters
        ----------
        p : int
            Number of columns of X, which a mask must have.

        Returns
        -------
        list of str or int
            The excluded columns.

        Raises
        ------
        DataError
            If ``exclude`` is neither names nor positions nor a mask of p columns.
        """
        exclude: Any = self.exclude  # whatever the user has set
        one = isinstance(exclude, str | Integral)
        if not one and (isinstance(exclude, Mapping) or not isinstance(exclude, Iterable)):
            raise DataError(
                "exclude must be a sequence of names or positions, or a mask of all columns, not "
                f"{exclude!r}; () excludes none."
            )
        items: list[Any] = [exclude] if one else list(exclude)
        if items and all(isinstance(item, bool | np.bool_) for item in items):
            if len(items) != p:
                raise DataError(f"exclude is a mask of {len(items)} columns, but X has {p}.")
            return [int(j) for j in np.flatnonzero(items)]
        for item in items:
            if isinstance(item, bool | np.bool_) or not isinstance(item, str | Integral):
                raise DataError(
                    f"exclude takes names, positions or a mask of all columns, not {item!r}."
                )
        return items

    def excluded(self, names: Sequence[str]) -> np.ndarray:
        """Return the mask of the columns left unpenalised.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        (p,) bool array
            True for columns in ``exclude``.

        Raises
        ------
        DataError
            If a name or position in ``exclude`` does not exist.
        """
        mask = np.zeros(len(names), bool)
        items = self.exclusions(len(names))
        if items:
            places = ColumnLookup(names, "exclude")
            mask[[places.of(item) for item in items]] = True
        return mask

    def _entries(self, setting: str, names: Sequence[str]) -> list | None:
        """Return a setting's entries, one for each column; None if one value holds for all."""
        value: Any = getattr(self, setting)
        length = number_of_entries(value)
        if length is None:
            return None
        if length != len(names):
            raise DataError(
                f"{type(self).__name__}'s {setting} must be one for all or one for each of the "
                f"{len(names)} columns, not {length}."
            )
        return list(value)

    def _by_name(
        self,
        what: str,
        given: Mapping[object, object],
        names: Sequence[str],
        needed: Mapping[int, str],
    ) -> list[object]:
        """Convert a setting given by column name into one entry per column.

        ``needed`` maps the positions that must have an entry to the name of the coefficient that
        needs it. Settings in `optional_entries` have None where no entry is given. All other
        missing entries belong to no coefficient and are infinite, which means no penalty and no
        contribution to the overall variance.
        """
        for name in given:
            if name not in names:
                raise unknown_column(f"{type(self).__name__}'s {what}", name, names)
        if what in self.optional_entries:
            return [given.get(name) for name in names]
        for j, name in enumerate(names):
            if name not in given and j in needed:
                own = needed[j] == name
                word = "the column" if own else f"{needed[j]!r}, whose prior is its"
                raise DataError(
                    f"{type(self).__name__}'s {what} has no entry for column {name!r}; give it "
                    f"one, or exclude {word}."
                )
        return [given.get(name, np.inf) for name in names]

    def _variance_vector(self, what: str, variance: object, names: Sequence[str]) -> np.ndarray:
        """Convert a variance setting into a positive number per column, (p,)."""
        p = len(names)
        if isinstance(variance, Mapping):
            free = self.excluded(names)
            needed = {j: name for j, name in enumerate(names) if not free[j]}
            variance = self._by_name(what, variance, names, needed)
        try:
            value = np.asarray(variance, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"{type(self).__name__}'s {what} must be a number, not {variance!r}."
            ) from None
        if value.ndim > 1 or (value.ndim == 1 and len(value) != p):
            raise DataError(
                f"{type(self).__name__}'s {what} must be a number or one for each of the {p} "
                f"columns, not of shape {value.shape}."
            )
        if not (value > 0).all():  # NaN fails too; infinity is no penalty
            raise DataError(f"{type(self).__name__}'s {what} must be positive.")
        return np.broadcast_to(value, (p,))


def number_of_entries(value: object) -> int | None:
    """Return the number of entries of a setting; None if it is a single value."""
    if isinstance(value, str) or not isinstance(value, Sized):
        return None
    return None if isinstance(value, np.ndarray) and value.ndim == 0 else len(value)
