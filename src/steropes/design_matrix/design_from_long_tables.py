"""Conversion of long tables, with a row per covariate of a person, to blocks of columns."""

from __future__ import annotations

from collections.abc import Mapping

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from scipy import sparse

from ..data.array_conversion import refuse_lazy_query
from ..data.input_types import LabelsLike, TableLike
from ..data.vector_checks import as_labels, check_vector, native_byte_order
from ..errors import DataError
from .column_checks import refuse_extreme
from .column_storage import Block
from .design_from_sparse_matrices import blocks_of_sparse

__all__ = ["blocks_of_long"]


def blocks_of_long(
    table: TableLike,
    rows: LabelsLike,
    *,
    row: str = "rowId",
    covariate: str = "covariateId",
    value: str | None = "covariateValue",
    names: Mapping[str, str] | Mapping[int, str] | None = None,
) -> tuple[list[Block], list[str]]:
    """Convert a long table to blocks and column names; see `Design.from_long`."""
    refuse_lazy_query(table, "The long table")
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise DataError("A long table must be a pandas, polars or pyarrow table.")
    for name in (row, covariate, value):
        if name is not None and name not in frame.columns:
            raise DataError(
                f"The table has no column {name!r}, only {', '.join(map(str, frame.columns))}. Say "
                "with row=…, covariate=… and value=… (None where all values are one) what is what."
            )
    people = pd.Index(_of(rows, "rows"))
    if not people.is_unique:
        twice = people[people.duplicated()][0]
        raise DataError(f"rows has {twice!r} more than once; each row of X needs its own id.")
    ids = _of(frame[row], row)
    i = people.get_indexer(ids)
    if (i < 0).any():
        at = int((i < 0).argmax())
        raise DataError(
            f"Row {at} of the table is of {ids[at]!r}, which is not among rows. Drop the entries "
            "of people who are not in the analysis."
        )
    labels = _of(frame[covariate], covariate)
    codes, distinct = pd.factorize(labels, sort=True)
    if (codes < 0).any():
        raise DataError(f"{covariate} is missing in row {int((codes < 0).argmax())} of the table.")
    x = np.ones(len(i)) if value is None else check_vector(frame[value], len(i), value)
    twice = pd.DataFrame({"i": i, "j": codes}).duplicated().to_numpy()
    if twice.any():
        at = int(twice.argmax())
        raise DataError(
            f"Row {at} of the table is the second with {row} {ids[at]!r} and {covariate} "
            f"{labels[at]!r}. Add the two up, or keep one."
        )
    if len(distinct) == 0:
        raise DataError("The table has no rows, so there is no covariate.")
    X = sparse.coo_array((x, (i, codes)), shape=(len(people), len(distinct)))
    called = [str((names or {}).get(label, label)) for label in distinct]
    blocks = blocks_of_sparse(X, called)
    refuse_extreme(np.concatenate([block.scale for block in blocks]), called)
    return blocks, called


def _of(x: LabelsLike | nw.Series, what: str) -> np.ndarray:
    """Convert a column of labels to an array; raise if one is missing."""
    series = nw.from_native(x, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        missing = series.is_null().to_numpy().astype(bool)
        if missing.any():
            raise DataError(f"{what} is missing in row {int(missing.argmax())}.")
        return native_byte_order(np.asarray(series.to_numpy()))
    return as_labels(x, what)
