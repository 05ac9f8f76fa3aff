"""Table 1 and love plots of any table."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from steropes import DataError, plots
from steropes.designs import balance_table, covariate_balance, table_one

PBC = pd.read_csv(Path(__file__).parent / "published" / "pbc.csv")


def first(table, name):
    return table[table.characteristic == name].iloc[0]


# R's tableone 0.13.2.
def test_differences_are_those_of_tableone():
    table = table_one(PBC, "trt", categorical=["stage"], median=["bili"])
    assert first(table, "age").smd == pytest.approx(0.2702619258, abs=5e-11)
    assert first(table, "sex").smd == pytest.approx(0.1114116116, abs=5e-11)
    assert first(table, "stage").smd == pytest.approx(0.2460083410, abs=5e-11)
    assert first(table, "age")["1.0"] == "51.4 (11.0)"
    assert first(table, "sex")["overall"] == "276 (88.5%)"
    assert first(table, "bili")["overall"] == "1.4 [0.8, 3.4]"
    assert table.level[table.characteristic == "stage"].tolist() == ["1", "2", "3", "4"]
    other = table_one(pl.from_pandas(PBC), "trt", categorical=["stage"], median=["bili"])
    pd.testing.assert_frame_equal(other, table)


def test_groups_may_be_an_array_and_the_table_a_relation_or_a_query():
    table = table_one(PBC, "trt")
    rest = PBC.drop(columns="trt")
    for people in (rest, duckdb.from_df(rest), pl.from_pandas(rest).lazy()):
        pd.testing.assert_frame_equal(table_one(people, PBC["trt"].to_numpy()), table)
        sizes = balance_table(people, PBC["trt"] == 1)["smd_before"]
        np.testing.assert_allclose(sizes, balance_table(rest, PBC["trt"] == 1)["smd_before"])
    with pytest.raises(DataError, match="for each of 312 people"):
        table_one(rest, [1, 2])
    with pytest.raises(DataError, match="named columns"):
        table_one(rest[["age"]].to_numpy(), PBC["trt"])


def test_binary_columns_have_one_row_and_missing_values_are_counted():
    people = pd.DataFrame({
        "arm": ["a", "b", "a", "b", "a"], "male": [1, 0, None, 1, 1],
        "site": ["x", None, "y", "x", "x"],
    })  # fmt: skip
    table = table_one(people, "arm")
    assert first(table, "male")[["level", "missing", "a", "b"]].tolist() == [
        "", 1, "2 (100.0%)", "1 (50.0%)",
    ]  # fmt: skip
    assert first(table, "site")[["level", "missing", "a", "b"]].tolist() == [
        "x", 1, "2 (66.7%)", "1 (100.0%)",
    ]  # fmt: skip
    assert first(table, "n")[["overall", "a", "b"]].tolist() == ["5", "3", "2"]


def test_weights_change_numbers_and_not_denominators(lalonde):
    w = 1.0 + np.arange(len(lalonde)) % 3
    table = table_one(lalonde, "treat", columns=["age", "married"], weights=w)
    balance = balance_table(lalonde[["age", "married"]], lalonde.treat, w)
    found = [first(table, name).smd for name in ("age", "married")]
    np.testing.assert_allclose(found, balance.smd_after.abs(), rtol=1e-9)
    assert first(table, "n")["overall"] == f"{w.sum():,.0f}"


def test_several_groups_have_the_mean_over_pairs(lalonde):
    table = table_one(lalonde, "race", columns=["age"])
    pairs = [
        table_one(lalonde[lalonde.race != left_out], "race", columns=["age"])
        for left_out in ("black", "hispan", "white")
    ]
    expected = np.mean([first(pair, "age").smd for pair in pairs])
    assert first(table, "age").smd == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "arm"}, "no column 'arm'"),
        ({"by": "treat", "columns": ["agee"]}, "'agee'"),
        ({"by": "one"}, "one value"),
        ({"by": "treat", "columns": ["name"]}, "identifiers"),
        ({"by": "treat", "columns": ["day"]}, "dates"),
        ({"by": "treat", "columns": "age"}, "columns must be a list of names"),
        ({"by": "treat", "columns": ["age", "age"]}, "'age' more than once"),
        ({"by": "treat", "columns": ["treat"]}, "'treat', which is the column of the groups"),
        ({"by": "treat", "median": "age"}, "median must be a list of names"),
        ({"by": "treat", "columns": ["race"], "median": ["race"]}, "'race', which has labels"),
        ({"by": "treat", "columns": ["race"], "median": ["age"]}, "'age', which columns leaves"),
        ({"by": "treat", "median": ["educ"], "categorical": ["educ"]}, "both name 'educ'"),
        ({"by": "treat", "columns": ["age"], "digits": 1.5}, "digits must be a whole number"),
    ],
)
def test_columns_that_describe_nobody_are_refused(lalonde, arguments, message):
    names = [f"p{i}" for i in range(len(lalonde))]
    data = lalonde.assign(one=1, name=names, day=pd.Timestamp("2020-01-01"))
    with pytest.raises(DataError, match=message):
        table_one(data, **arguments)


def test_nullable_numbers_have_missing_values():
    people = pd.DataFrame(
        {"t": [0, 0, 1, 1], "n": pd.array([1, None, 2, 3], "Int64"),
         "b": pd.array([True, False, None, True], "boolean")}
    )  # fmt: skip
    floats = people.astype({"n": "float64"}).assign(b=[1.0, 0.0, np.nan, 1.0])
    pd.testing.assert_frame_equal(table_one(people, "t"), table_one(floats, "t"))
    assert table_one(people, "t")["missing"].tolist() == [0, 1, 1]


def test_large_values_of_categories_keep_their_digits():
    codes = pd.DataFrame({"t": [0, 1, 0, 1], "code": [1503297, 1503298, 1503298, 0]})
    table = table_one(codes, "t", categorical=["code"])
    assert table["level"].tolist()[1:] == ["0", "1503297", "1503298"]


def test_groups_without_common_values_are_far_apart():
    """The spread of both groups together replaces a spread of zero, as in `balance_table`."""
    t = np.repeat([0, 1], 10)
    people = pd.DataFrame(
        {"number": 2.0 * t, "binary": t, "label": np.where(t == 1, "a", "b"),
         "parts": np.where(t == 1, ["a", "b"] * 10, ["c", "d"] * 10)}
    )  # fmt: skip
    table = table_one(people.assign(t=t), "t").set_index("characteristic").smd.dropna()
    assert table[["binary", "label"]].to_numpy() == pytest.approx([2.0, 2.0])
    numbers = balance_table(people[["number"]], t)
    assert table["number"] == pytest.approx(abs(numbers.smd_before.item()))
    factors = balance_table(people[["label", "parts"]], t).query("kind == 'factor'")
    assert factors.smd_before.to_numpy() == pytest.approx(table[["label", "parts"]].to_numpy())
    assert table["parts"] == pytest.approx(2.0)


def test_columns_without_values_in_a_group_have_no_difference():
    people = pd.DataFrame({"t": [0, 0, 1, 1], "x": [1.0, 2.0, np.nan, np.nan], "none": np.nan})
    assert table_one(people, "t").smd.isna().all()
    with pytest.raises(DataError, match="'x' is infinite in row 1"):
        table_one(people.assign(x=[0, np.inf, 1, 2]), "t")


def test_every_column_has_a_row_as_asked():
    people = pd.DataFrame(
        {"t": [0, 0, 1, 1], "binary": [0, 1, 1, 1], "label": pd.Series([None] * 4, dtype=object)}
    )
    table = table_one(people, "t", median=["binary"]).set_index("characteristic")
    assert table.loc["binary", "0"] == "0.5 [0.2, 0.8]"
    assert table.loc["label", "missing"] == 4


def test_people_without_a_group_are_named_by_the_column():
    with pytest.raises(DataError, match="Column 't' is missing in row 1"):
        table_one(pd.DataFrame({"t": ["a", None, "b"], "x": [1.0, 2.0, 3.0]}), "t")


def test_groups_with_names_of_columns_of_the_table_are_refused():
    with pytest.raises(DataError, match="group 'overall'"):
        table_one(pd.DataFrame({"t": ["overall", "b"], "x": [1, 2]}), "t")


def test_love_plots_take_the_tables_that_the_library_returns(lalonde, lalonde_covariates):
    pytest.importorskip("matplotlib")
    import matplotlib as mpl

    mpl.use("agg")
    w = np.where(lalonde.treat == 1, 1.0, 0.5)
    numbers = lalonde_covariates.drop(columns="race")
    for table in (
        balance_table(lalonde_covariates, lalonde.treat, w),
        covariate_balance(numbers, lalonde.treat, w).table,
    ):
        labels = [text.get_text() for text in plots.love_plot(table).get_yticklabels()]
        assert "married" in labels
        plots.covariate_balance(table)
        mpl.pyplot.close("all")
    axes = table_one(lalonde[["treat", *lalonde_covariates]], "treat").plot()
    assert {"race", "married"} <= {text.get_text() for text in axes.get_yticklabels()}
    assert axes.get_legend() is None
    mpl.pyplot.close("all")
