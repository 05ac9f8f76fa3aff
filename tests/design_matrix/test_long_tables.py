"""Long tables of rows, covariates and values make designs, and other tables are refused."""

import numpy as np
import pandas as pd
import pytest

from steropes import (
    DataError,
    Design,
    LinearRegression,
    as_design,
)

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def long_table():
    return pd.DataFrame(
        {
            "rowId": [30, 10, 10, 20],
            "covariateId": [1002, 8507, 1002, 1002],
            "covariateValue": [61.0, 1.0, 48.0, 55.0],
        }
    )


@pytest.mark.parametrize("spelling", ["camel", "snake"])
def test_a_long_table_is_not_three_covariates(spelling):
    table = long_table()
    if spelling == "snake":
        table.columns = ["row_id", "covariate_id", "covariate_value"]
    with pytest.raises(DataError, match=r"Design\.from_long"):
        LinearRegression().fit(table, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_design_of_a_long_table_has_a_row_a_person(kind):
    table = long_table()
    if kind != "pandas":
        table = pl.from_pandas(table) if kind == "polars" else pa.Table.from_pandas(table)
    design = Design.from_long(table, rows=[10, 20, 30, 40], names={8507: "male"})
    same = as_design(np.array([[48.0, 1.0], [55.0, 0.0], [61.0, 0.0], [0.0, 0.0]]))
    assert design.names == ["1002", "male"]
    y = [1.0, 2.0, 3.0, 5.0]
    a, b = LinearRegression().fit(design, y), LinearRegression().fit(same, y)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "rows", "match"),
    [
        ({}, [10, 20], "30"),
        ({}, [10, 10, 20, 30], "10 more than once"),
        ({"rowId": [10, 10, 10, 20]}, [10, 20, 30], "second"),
        ({"covariateId": [1, None, 2, 3]}, [10, 20, 30], "covariateId"),
        ({"covariateValue": [1, None, 2, 3]}, [10, 20, 30], "covariateValue"),
        ({"covariateValue": list("abcd")}, [10, 20, 30], "covariateValue"),
    ],
)
def test_a_long_table_that_is_not_one_is_refused(change, rows, match):
    with pytest.raises(DataError, match=match):
        Design.from_long(long_table().assign(**change), rows=rows)
