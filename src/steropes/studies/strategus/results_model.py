"""OHDSI's results model: tables, columns, types and keys of each module's output.

``results_model.csv`` has the columns of CohortMethod 6.0.2, SelfControlledCaseSeries 6.1.4,
CohortGenerator 1.1, Characterization 2.2, PatientLevelPrediction 6.6.0 and Strategus 1.4, as their
result specifications list them. Of these, numbers outside of keys are not required here, because
disclosure control may withhold them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import pandas as pd

from steropes.studies.report.plain_text import csv_text

__all__ = ["FILE_PREFIXES", "module_files", "module_tables", "results_model"]

# The prefix of tables that the names of a module's files lack. R's PatientLevelPrediction writes
# and uploads ``performances.csv`` as the table ``plp_performances``.
FILE_PREFIXES = {"PatientLevelPredictionModule": "plp_"}
SPECIFICATION = "resultsDataModelSpecification.csv"
WHOLE = ("int", "bigint")


@functools.cache
def results_model() -> pd.DataFrame:
    """Return the results model, a row for each column of a table."""
    path = files("steropes.studies.strategus") / "results_model.csv"
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str)


def module_tables(module: str) -> dict[str, pd.DataFrame]:
    """Return the part of the results model of each table of a module."""
    model = results_model()
    return dict(iter(model[model["module"] == module].groupby("table_name", sort=False)))


def module_files(module: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Write the tables of a module as CSV files in its folder.

    Parameters
    ----------
    module : str
        The module, which is also the name of the folder.
    tables : mapping of str to DataFrame
        Tables for release. Those that the results model lacks are left out, and those that are
        missing have no rows.

    Returns
    -------
    dict of str to str
        Contents by path, with the specification of the tables.
    """
    found: dict[str, str] = {}
    model, prefix = module_tables(module), FILE_PREFIXES.get(module, "")
    for name, columns in model.items():
        table = tables.get(name, pd.DataFrame())
        found[f"{module}/{name.removeprefix(prefix)}.csv"] = csv_text(_of_model(table, columns))
    listed = pd.concat(model.values()).drop(columns="module")
    found[f"{module}/{SPECIFICATION}"] = csv_text(listed)
    return found


def _of_model(table: pd.DataFrame, columns: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the model in its order and types, without rows that repeat a key."""
    made: dict[str, pd.Series] = {}
    for name, kind in zip(columns["column_name"], columns["data_type"], strict=True):
        values = table[name] if name in table else pd.Series(np.nan, index=table.index)
        made[name] = _typed(values, kind)
    found = pd.DataFrame(made, index=table.index)
    key = columns.loc[columns["primary_key"] == "Yes", "column_name"].tolist()
    return found.drop_duplicates(key) if key and len(found) else found


def _typed(values: pd.Series, kind: str) -> pd.Series:
    """Convert whole numbers and dates, so that CSV files have no decimals or times of day."""
    if kind in WHOLE:
        return values.astype("Float64").round().astype("Int64")
    if kind == "float":
        infinite = np.isinf(values.astype(float))
        words = np.where(values.astype(float) > 0, "Inf", "-Inf")
        return values.astype(object).mask(infinite, words) if infinite.any() else values
    if kind == "date" and pd.api.types.is_datetime64_any_dtype(values):
        return values.dt.strftime("%Y-%m-%d")
    return values
