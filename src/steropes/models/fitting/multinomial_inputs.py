"""Offsets, fixed and initial coefficients of multinomial fits, which have an entry per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...data.array_conversion import as_numbers
from ...data.input_types import CoefficientsByColumn
from ...data.vector_checks import check_offset
from ...design_matrix import has_names
from ...design_matrix.design_from_arrays_and_tables import column_names
from ...errors import DataError, listed
from ..formulas.formula_data_types import as_pandas_table
from .fixed_and_initial_coefficients import FixedCoefficients, read_fixed, read_start_at

__all__ = ["read_class_offset", "read_class_start", "read_fixed_of_classes"]


def read_class_offset(offset: object, classes: Sequence[Any], n: int) -> np.ndarray | None:
    """Validate an offset of each class and row, (n, K); None means zero.

    Parameters
    ----------
    offset : (n, K) array or table, or None
        A table's columns are named by the classes, in any order.
    classes : sequence of K labels
    n : int
        Number of rows.

    Raises
    ------
    DataError
        If the shape or the names are others, or an entry is not a number.
    """
    if offset is None:
        return None
    if has_names(offset):
        names, labels = column_names(offset), [str(label) for label in classes]
        if sorted(names) != sorted(labels):
            raise DataError(
                f"The columns of offset are {listed(names)}; name them by the classes, "
                f"{listed(labels)}, or give an array with columns in this order."
            )
        offset = as_pandas_table(offset).to_numpy()[:, [names.index(label) for label in labels]]
    values = as_numbers(offset, "offset")
    if values.shape != (n, len(classes)):
        raise DataError(
            f"The offset of a multinomial model has the shape {(n, len(classes))}, a column for "
            f"each class, and not {values.shape}: a number that is the same for all classes of a "
            "row would cancel."
        )
    columns = [check_offset(values[:, k], n) for k in range(len(classes))]
    return np.array(columns, np.float64).reshape(len(classes), n).T


def read_fixed_of_classes(
    fixed: CoefficientsByColumn | None, effects: Sequence[str], reference: object
) -> FixedCoefficients | None:
    """Read coefficients that are held at given values, by their names ``class:column``.

    Parameters
    ----------
    fixed : mapping or series from names to numbers, or None
    effects : sequence of str
        Names of the coefficients that the model would estimate.
    reference : label
        The class whose coefficients are zero unless they are penalised.
    """
    _refuse_unknown_effects("fixed", fixed, effects, reference)
    return read_fixed(fixed, effects)


def read_class_start(
    start_at: ArrayLike | CoefficientsByColumn | None, effects: Sequence[str],
    source: np.ndarray, channel: np.ndarray, shape: tuple[int, int], reference: int, label: object,
) -> np.ndarray | None:  # fmt: skip
    """Read initial coefficients of all effects, (q,); None means zero.

    Parameters
    ----------
    start_at : (K, p) array, or mapping from names ``class:column`` to numbers, or None
        An array has the form of ``coef_``. Rows may be relative to any class.
    effects : sequence of q str
    source, channel : (q,) int arrays
        Column of X and class of each effect.
    shape : tuple of int
        (K, p).
    reference : int
        Position of the reference class, and ``label`` is its label.
    """
    if start_at is None:
        return None
    if isinstance(start_at, Mapping | pd.Series):
        _refuse_unknown_effects("start_at", start_at, effects, label)
        return read_start_at(start_at, effects)
    values = as_numbers(start_at, "start_at").astype(np.float64)
    if values.shape != shape:
        raise DataError(
            f"start_at must have the shape of coef_, {shape}, with a row for each class, not "
            f"{values.shape}."
        )
    estimated = np.zeros(shape, bool)
    estimated[channel, source] = True
    relative = np.where(estimated[reference], values, values - values[reference])
    return read_start_at(relative[channel, source], effects)


def _refuse_unknown_effects(
    what: str, given: object, effects: Sequence[str], reference: object
) -> None:
    """Refuse keys that are not the name of a coefficient of one class."""
    if not isinstance(given, Mapping | pd.Series):
        return
    known = set(effects)
    for key in list(given.keys()):
        if isinstance(key, str) and key in known:
            continue
        zero = (
            f" The coefficients of the reference class {reference!r} are zero; choose another by "
            "reference=."
            if isinstance(key, str) and key.startswith(f"{reference}:")
            else ""
        )
        raise DataError(
            f"{what} has {key!r}, which is no coefficient: a column has one for each class, with "
            f"the names {listed(list(effects))}.{zero}"
        )
