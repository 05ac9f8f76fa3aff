"""Coefficients that a fit leaves where the user puts them, and those that it starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ..backends.protocols import Backend
from ..data.array_conversion import as_numbers
from ..data.column_lookup import ColumnLookup
from ..data.vector_checks import LARGEST_SQUARABLE
from ..design import Design
from ..errors import DataError
from ..solve import Batch

__all__ = ["FixedCoefficients", "read_fixed", "read_start_at", "start_batch_at"]


@dataclass(frozen=True)
class FixedCoefficients:
    """Columns of X whose coefficients are given: an offset, to the fit.

    Attributes
    ----------
    names : list of str
        Of all columns of X.
    kept : (k,) int array
        Places of the columns whose coefficients are estimated.
    values : (p,) array
        The coefficients given, zero for the others.
    """

    names: list[str]
    kept: np.ndarray
    values: np.ndarray

    @property
    def given(self) -> dict[int, float]:
        """The coefficients by the places of their columns."""
        held = np.setdiff1d(np.arange(len(self.names)), self.kept)
        return {int(j): float(self.values[j]) for j in held}

    def part(self, design: Design, backend: Backend) -> np.ndarray:
        """What the columns with given coefficients add to η, (n,)."""
        return backend.to_host(design.matmul((self.values * design.scale)[:, None], backend))[:, 0]

    def all_names(self, estimated: Sequence[str]) -> list[str]:
        """Names of all coefficients, from those of the estimated ones in their order.

        ``estimated`` are an intercept or baseline, if any, and then the columns that are not held.
        """
        return [*estimated[: len(estimated) - len(self.kept)], *self.names]

    def rows_of_table(self, estimated: Sequence[str]) -> np.ndarray:
        """Place among the estimated coefficients of each of `all_names`, −1 where it is given."""
        before = len(estimated) - len(self.kept)
        columns = np.where(self.row >= 0, before + self.row, -1)
        return np.concatenate([np.arange(before), columns])

    @property
    def row(self) -> np.ndarray:
        """Place of each column of X among those that are estimated, −1 where it is given, (p,)."""
        row = np.full(len(self.names), -1)
        row[self.kept] = np.arange(len(self.kept))
        return row

    def whole(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients of all columns, (p,), from those estimated, (k,)."""
        out = self.values.copy()
        out[self.kept] = coef
        return out


def read_fixed(fixed: Any, names: Sequence[str]) -> FixedCoefficients | None:
    """Read ``fixed`` of a fit; None where nothing is."""
    if fixed is None:
        return None
    if not isinstance(fixed, Mapping | pd.Series):
        raise DataError(
            "fixed must map names or positions of columns to their coefficients, such as "
            f"{{'age': 0.02}}, not {fixed!r}."
        )
    if not len(fixed):
        return None
    values, held = _by_column("fixed", fixed, names)
    if held.all():
        raise DataError("fixed has all columns; there is no coefficient left to estimate.")
    return FixedCoefficients(list(names), np.flatnonzero(~held), values)


def read_start_at(start_at: Any, names: Sequence[str]) -> np.ndarray | None:
    """Read ``start_at`` of a fit: coefficients of all columns, (p,), or None."""
    if start_at is None:
        return None
    if isinstance(start_at, Mapping | pd.Series):  # a series says which column is which
        return _by_column("start_at", start_at, names)[0]
    values = as_numbers(start_at, "start_at").astype(np.float64)
    if values.shape != (len(names),):
        raise DataError(
            f"start_at must be a coefficient for each of the {len(names)} columns of X, not of "
            f"shape {values.shape}."
        )
    _refuse_infinite("start_at", values, names)
    return values


def start_batch_at(batch: Batch, start: np.ndarray) -> None:
    """Start from coefficients (p,), or refuse where the loss is not finite."""
    try:
        batch.start_at(start[:, None])
        near = bool(np.isfinite(batch.term.loss[0]))
    except FloatingPointError:  # of nuisance parameters
        near = False
    if not near:
        raise DataError(
            "start_at is too far off: it moves linear predictors further than exp can hold. Check "
            "the units, or leave it out."
        )


def _by_column(
    what: str, given: Mapping[Any, Any] | pd.Series, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Values (p,) by name or position, zero where there is none, and where there is one."""
    places = ColumnLookup(names, what)
    values, there = np.zeros(len(names)), np.zeros(len(names), bool)
    for key, value in given.items():
        j = places.of(key)
        if there[j]:
            raise DataError(f"{what} has column {names[j]!r} twice.")
        if isinstance(value, bool) or not isinstance(value, Real):
            raise DataError(f"{what} has {value!r} for {names[j]!r}, which is no number.")
        values[j], there[j] = float(value), True
    _refuse_infinite(what, values, names)
    return values, there


def _refuse_infinite(what: str, values: np.ndarray, names: Sequence[str]) -> None:
    bad = ~(np.abs(values) <= LARGEST_SQUARABLE)
    if bad.any():
        j = int(bad.argmax())
        raise DataError(f"{what} has {values[j]} for {names[j]!r}; it must be finite.")
