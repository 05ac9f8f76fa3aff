"""OHDSI's results model: tables, columns, types and keys of each module's output.

``results_model.csv`` has the columns of CohortMethod 6.0.2, SelfControlledCaseSeries 6.1.4,
CohortDiagnostics 3.4, CohortGenerator 1.1, Characterization 2.2, PatientLevelPrediction 6.6.0 and
Strategus 1.4, as their result specifications list them. Columns that R requires may be blank if
``may_be_blank`` is "Yes": numbers that disclosure control withholds, strata of everybody, and
values that the database lacks or R leaves out too. The specifications in folders of results do not
require these.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import pandas as pd

from steropes.designs.evidence.profile_interpolation import spline_slopes
from steropes.studies.formatting.text_safety import csv_text
from steropes.studies.strategus_plans.prediction_plan import PREDICTION
from steropes.studies.strategus_plans.validation_plan import VALIDATION

__all__ = ["FILE_PREFIXES", "module_files", "module_tables", "results_model"]

# The prefix of tables that the names of a module's files lack. R's PatientLevelPrediction writes
# and uploads ``performances.csv`` as the table ``plp_performances``.
FILE_PREFIXES = {PREDICTION: "plp_", VALIDATION: "plp_"}
# Modules that have the tables of another one.
SAME_TABLES = {VALIDATION: PREDICTION}
SPECIFICATION = "resultsDataModelSpecification.csv"
WHOLE = ("int", "bigint")
# Tables that R does not have: reasons of missing estimates, irregularities of the data, findings on
# cohorts, people that they share, and predictions for a further database. R uploads the files that
# its specification lists and ignores others.
NOTES = ("note", "data_note", "cohort_finding", "cohort_overlap", "es_prediction")
SLOPES = {"log_rr", "log_likelihood", "gradient"}


@functools.cache
def results_model() -> pd.DataFrame:
    """Return the results model, a row for each column of a table."""
    path = files("steropes.studies.strategus") / "results_model.csv"
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str)


def module_tables(module: str) -> dict[str, pd.DataFrame]:
    """Return the part of the results model of each table of a module."""
    model = results_model()
    module = SAME_TABLES.get(module, module)
    return dict(iter(model[model["module"] == module].groupby("table_name", sort=False)))


def module_files(module: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Write the tables of a module as CSV files in its folder.

    Parameters
    ----------
    module : str
        The module, which is also the name of the folder.
    tables : mapping of str to DataFrame
        Tables for release. Those that the results model lacks are left out, other than `NOTES`, and
        those of the model that are missing have no rows.

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
    for name in NOTES:
        if name in tables:
            found[f"{module}/{name}.csv"] = csv_text(tables[name])
    listed = pd.concat(model.values())
    required = listed["is_required"].mask(listed["may_be_blank"] == "Yes", "No")
    listed = listed.assign(is_required=required).drop(columns=["module", "may_be_blank"])
    found[f"{module}/{SPECIFICATION}"] = csv_text(listed)
    return found


def _of_model(table: pd.DataFrame, columns: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the model in its order and types, without rows that repeat a key."""
    made: dict[str, pd.Series] = {}
    if {*table} >= SLOPES:
        table = _with_slopes(table, columns)
    for name, kind in zip(columns["column_name"], columns["data_type"], strict=True):
        values = table[name] if name in table else pd.Series(np.nan, index=table.index)
        made[name] = _typed(values, kind)
    found = pd.DataFrame(made, index=table.index)
    key = columns.loc[columns["primary_key"] == "Yes", "column_name"].tolist()
    return found.drop_duplicates(key) if key and len(found) else found


def _with_slopes(table: pd.DataFrame, columns: pd.DataFrame) -> pd.DataFrame:
    """Fill slopes that disclosure control removed from profiles by those of the released points.

    R requires slopes. These follow from the released points and reveal nothing more.
    """
    key = columns.loc[columns["primary_key"] == "Yes", "column_name"].drop(
        columns.index[columns["column_name"] == "log_rr"]
    )
    found = table.copy()
    for _, of in table.groupby(key.tolist()):
        if of["gradient"].isna().any() and len(of) > 1:
            found.loc[of.index, "gradient"] = spline_slopes(of["log_rr"], of["log_likelihood"])
    return found


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
