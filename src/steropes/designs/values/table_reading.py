"""Columns of a table of any library, or of a file, as pandas."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd

from steropes.data.csv_reading import read_csv_file
from steropes.errors import DataError, listed
from steropes.models.formulas.formula_data_types import as_pandas_table

__all__ = ["in_memory", "read_columns", "unknown_name"]


def in_memory(data: Any) -> Any:
    """Read a relation of DuckDB or a lazy frame; return anything else as it is."""
    try:
        frame: Any = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        return data  # readers of tables name the repeated columns
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def read_columns(
    data: Any, names: Sequence[str] | None, what: str, optional: Sequence[str] = ()
) -> pd.DataFrame:
    """Read columns of a table of any library, or of a Parquet or CSV file, as pandas.

    Parameters
    ----------
    data : data frame, relation or path
        pandas, polars, Arrow, anything that narwhals reads, such as a DuckDB relation, or a path.
    names : sequence of str, optional
        Columns, default all.
    what : str
        Name of the table, for messages.
    optional : sequence of str
        Further columns, which are read if the table has them.
    """
    if isinstance(data, str | os.PathLike):
        return _read_file(Path(data), names, optional)
    try:
        frame: Any = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise DataError(
            f"{what} has columns with the same name; rename or drop those that repeat."
        ) from None
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise DataError(
            f"{what} must be a table of pandas, polars, pyarrow or DuckDB, or the path of a "
            f"Parquet file, not {type(data).__name__}."
        )
    known = [str(name) for name in frame.collect_schema().names()]
    wanted = _wanted(names, optional, known, what)
    plain = frame.to_native()
    if wanted is not None and isinstance(plain, pd.DataFrame) and set(wanted) <= set(plain):
        # pandas copies the columns that are selected, which may be most of the memory.
        table = pd.DataFrame({name: plain[name] for name in wanted}, copy=False)
        frame = nw.from_native(table)
    elif wanted is not None:
        frame = frame.select(wanted)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    table = as_pandas_table(frame.to_native()).copy(deep=False)
    table.index = pd.RangeIndex(len(table))
    return table


def _wanted(
    names: Sequence[str] | None, optional: Sequence[str], known: Sequence[str], what: str
) -> list[str] | None:
    """Return the columns to read; None for all."""
    for name in names or ():
        if name not in known:
            raise unknown_name(what, name, known)
    return None if names is None else [*names, *(name for name in optional if name in known)]


def _read_file(path: Path, names: Sequence[str] | None, optional: Sequence[str]) -> pd.DataFrame:
    """Read a Parquet or CSV file."""
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}.")
    kind = path.suffix.lower()
    if kind == ".csv":
        return read_columns(read_csv_file(path), names, path.name, optional)
    if kind not in (".parquet", ".pq"):
        raise DataError(f"{path.name} must be a Parquet or CSV file, named *.parquet or *.csv.")
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from error
    wanted = _wanted(names, optional, list(parquet.read_schema(path).names), path.name)
    return as_pandas_table(parquet.read_table(path, columns=wanted))


def unknown_name(what: str, name: str, known: Sequence[str]) -> DataError:
    """Describe a column that a table lacks."""
    return DataError(f"{what} has no column {name!r}; it has {listed(list(known))}.")
