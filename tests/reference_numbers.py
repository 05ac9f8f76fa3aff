"""R's numbers (`data/*.R` make them) and the data sets they are of."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent / "models" / "survival" / "data"


@cache
def _numbers() -> dict[str, pd.DataFrame]:
    files = ("reference.csv", "diagnostics.csv", "late_entry.csv")
    tables = [pd.read_csv(HERE / f, dtype={"row": str, "column": str}) for f in files]
    return {check: table for t in tables for check, table in t.groupby("check")}


def reference(check: str) -> pd.DataFrame:
    """One check's table as R had it; rows and columns in R's order."""
    long = _numbers()[check]
    rows, columns = long["row"].unique(), long["column"].unique()
    values = long["value"].to_numpy().reshape(len(columns), len(rows)).T
    return pd.DataFrame(values, rows, columns)


def numbers(check: str) -> np.ndarray:
    """The values alone, with axes of length one dropped."""
    return np.squeeze(reference(check).to_numpy())


@cache
def data(name: str) -> pd.DataFrame:
    """One of R's data sets."""
    return pd.read_csv(HERE / f"{name}.csv")
