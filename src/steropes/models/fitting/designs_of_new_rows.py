"""Designs of new rows, with checks of their columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.backend_interface import Backend
from ...design_matrix import (
    Design,
    design_of_coded_table,
    design_of_numbers,
    has_names,
    null_design,
)
from ...design_matrix.category_coding import CategoryCoding
from ...design_matrix.design_from_arrays_and_tables import column_names
from ...errors import DataError
from ...fit.shards import ShardedDesign
from .setting_types import MatrixLike

__all__ = ["check_names", "check_number", "dense_matrix", "is_labelled_table", "read_new"]


def is_labelled_table(X: MatrixLike, coding: CategoryCoding | None) -> bool:
    """Return whether X is a table like that of the fit, which had columns of labels."""
    if coding is None or isinstance(X, Design | ShardedDesign) or not has_names(X):
        return False
    return column_names(X) != coding.names


def read_new(X: MatrixLike, coding: CategoryCoding | None, n_features: int, model: str) -> Design:
    """Convert X to a design; a null model accepts tables without columns (``table[[]]``).

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
    coding : CategoryCoding or None
        Levels of the columns of labels of the fit.
    n_features : int
        Number of columns of the fit.
    model : str
        Name of the model's class, for messages.
    """
    shape = getattr(X, "shape", None)
    if n_features == 0 and shape is not None and len(shape) == 2 and not shape[1]:
        return null_design(shape[0])
    if not is_labelled_table(X, coding):
        if isinstance(X, Design) and X.coding is not None and coding is not None:
            coding.refuse_other_reference(X.coding)
        return design_of_numbers(X, copy=False)
    assert coding is not None
    check_names(column_names(X), coding.columns, model)
    table: Any = X
    return design_of_coded_table(table, coding)


def check_names(names: list[str], fitted: list[str], model: str) -> None:
    """Check that columns have the number and the names of those of the fit."""
    check_number(len(names), len(fitted), model)
    if names != fitted:
        j = next(j for j, (a, b) in enumerate(zip(fitted, names, strict=True)) if a != b)
        raise DataError(
            "The feature names should match those that were passed during fit: column "
            f"{j} was {fitted[j]!r} and is {names[j]!r}."
        )


def check_number(number: int, fitted: int, model: str) -> None:
    """Check the number of columns."""
    if number != fitted:
        raise DataError(
            f"X has {number} features, but {model} is expecting {fitted} features as input."
        )


def dense_matrix(design: Design, backend: Backend) -> np.ndarray:
    """Return X as a dense array in the user's units, (n, p)."""
    D = np.zeros((design.p, backend.lanes(design.p)))
    np.fill_diagonal(D, design.scale)
    return backend.to_host(design.matmul(D, backend))[:, : design.p] + design.center
