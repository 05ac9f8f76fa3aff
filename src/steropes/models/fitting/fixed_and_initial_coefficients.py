"""Fixed coefficients and initial coefficients of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...backends.backend_interface import Backend
from ...data.array_conversion import as_numbers
from ...data.column_lookup import ColumnLookup
from ...data.input_types import CoefficientsByColumn
from ...data.vector_checks import LARGEST_SQUARABLE
from ...design_matrix import Design
from ...errors import DataError
from ...solve import Batch

__all__ = ["FixedCoefficients", "read_fixed", "read_start_at", "start_batch_at"]


@dataclass(frozen=True)
class FixedCoefficients:
    """Columns of X with fixed coefficients, which enter the fit as an offset.

    Attributes
    ----------
    kept : (k,) int array
        Positions of the columns with estimated coefficients.
    values : (p,) array
        The fixed coefficients, zero for the other columns.
    """

    names: list[str]
    kept: np.ndarray
    values: np.ndarray

    @property
    def given(self) -> dict[int, float]:
        """Fixed coefficients by the positions of their columns."""
        held = np.setdiff1d(np.arange(len(self.names)), self.kept)
        return {int(j): float(self.values[j]) for j in held}

    def part(self, design: Design, backend: Backend) -> np.ndarray:
        """Compute the contribution of the fixed coefficients to η, (n,)."""
        return backend.to_host(design.matmul((self.values * design.scale)[:, None], backend))[:, 0]

    def all_names(self, estimated: Sequence[str]) -> list[str]:
        """Return the names of all coefficients.

        ``estimated`` are the names of the intercept or baseline, if any, and of the columns that
        are not fixed.
        """
        return [*estimated[: len(estimated) - len(self.kept)], *self.names]

    def rows_of_table(self, estimated: Sequence[str]) -> np.ndarray:
        """Return the position of each of `all_names` among the estimated ones, −1 if fixed."""
        before = len(estimated) - len(self.kept)
        columns = np.where(self.row >= 0, before + self.row, -1)
        return np.concatenate([np.arange(before), columns])

    @property
    def row(self) -> np.ndarray:
        """Position of each column of X among the estimated ones, (p,), −1 if fixed."""
        row = np.full(len(self.names), -1)
        row[self.kept] = np.arange(len(self.kept))
        return row

    def whole(self, coef: np.ndarray) -> np.ndarray:
        """Combine estimated coefficients, (k,), with the fixed ones, (p,)."""
        out = self.values.copy()
        out[self.kept] = coef
        return out


def read_fixed(
    fixed: CoefficientsByColumn | None, names: Sequence[str]
) -> FixedCoefficients | None:
    """Read the argument ``fixed`` of a fit; return None if nothing is fixed."""
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


def read_start_at(
    start_at: ArrayLike | CoefficientsByColumn | None, names: Sequence[str]
) -> np.ndarray | None:
    """Read the argument ``start_at`` of a fit: coefficients of all columns, (p,), or None."""
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
    """Start a batch from coefficients (p,); refuse if the loss is not finite there."""
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
    what: str, given: CoefficientsByColumn, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Read numbers by name or position; return values (p,), zero if absent, and a mask."""
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
    """Refuse missing, infinite and very large values."""
    bad = ~(np.abs(values) <= LARGEST_SQUARABLE)
    if bad.any():
        j = int(bad.argmax())
        raise DataError(f"{what} has {values[j]} for {names[j]!r}; it must be finite.")
