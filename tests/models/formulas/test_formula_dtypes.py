"""Numbers, booleans and labels that formulas compute with, whatever their type."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import steropes
from steropes import (
    CoxRegression,
    DataError,
    LinearRegression,
    LogisticRegression,
)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "kind",
    ["int8", "uint8", "int16", "uint64", "float16", "float32", "Int8", "UInt64", "Float32",
     "int8[pyarrow]", "uint64[pyarrow]", "float[pyarrow]", pd.SparseDtype("int8", 0)],
)  # fmt: skip
def test_small_numbers_are_computed_with_as_large_ones_are(data, kind):
    whole = data.assign(age=data["age"].round(), dose=np.arange(len(data)) % 50 + 40)
    small = whole.astype({"age": kind, "dose": kind})
    formula = (
        "Surv(10 * age, dead) ~ age * dose + I(dose**2) + I(dose - age) + strata(drug)"
        " + offset(dose - age)"
    )
    prior = steropes.Normal(1.0)
    one, other = (CoxRegression.from_formula(formula, x, prior=prior) for x in (whole, small))
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-9)
    np.testing.assert_array_equal(other.design_matrix(small), one.design_matrix(whole))
    np.testing.assert_allclose(one.predict(small), one.predict(whole))
    if isinstance(kind, pd.SparseDtype):
        return  # whose logarithm pandas takes of zero too
    logs = (LinearRegression.from_formula("log(age) ~ log(dose)", x).coef_ for x in (whole, small))
    np.testing.assert_allclose(*logs, rtol=1e-12)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "Int64", "int64[pyarrow]"])
def test_powers_and_products_of_large_integers_do_not_overflow(data, kind):
    steps = np.random.default_rng(3).integers(1_000, 90_000, len(data))
    exact = data.assign(steps=steps.astype(float))
    for term in ("I(steps**4)", "I(steps * steps * steps * steps)", "np.power(steps, 5)"):
        m = LinearRegression.from_formula(
            f"y ~ {term}", data.assign(steps=steps).astype({"steps": kind})
        )
        expected = LinearRegression.from_formula(f"y ~ {term}", exact)
        np.testing.assert_allclose(m.coef_, expected.coef_, rtol=1e-9)
        np.testing.assert_allclose(m.predict(exact), expected.predict(exact), rtol=1e-12)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["bool", "boolean", "bool[pyarrow]", pd.SparseDtype(bool)])
def test_booleans_count_as_zero_and_one(data, kind):
    """As in R, where TRUE + TRUE is 2; NumPy's sum of booleans is "or"."""
    numbers = data.assign(old=1 * (data["age"] > 50), late=1 * (data["time"] > 8))
    table = numbers.astype({"old": kind, "late": kind})
    for term in ("I(old + late)", "I(old - late)", "I(-old) + late:drug", "log(old + late + 1)"):
        formula = f"y ~ {term} + offset(old + late)"
        one, other = (LinearRegression.from_formula(formula, x) for x in (numbers, table))
        np.testing.assert_array_equal(other.design_matrix(table), one.design_matrix(numbers))
        np.testing.assert_array_equal(other.predict(table), one.predict(numbers))
        assert other.formula_ == formula


def test_booleans_that_are_labels_or_outcomes_stay_such(data):
    table = data.assign(old=data["age"] > 50, late=data["time"] > 8)
    m = LogisticRegression.from_formula("old ~ C(late) + C(late + dead)", table)
    labels = ["C(late)[T.True]", "C(late + dead)[T.1]", "C(late + dead)[T.2]"]
    assert list(m.summary().index) == ["intercept", *labels]
    assert m.classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    "formula",
    ["y ~ I((age > 50) + (time > 8))", "y ~ drug + offset((age > 50) + (time > 8))",
     "I((age > 50) - (time > 8)) ~ drug", "y ~ I(-(age > 50))",
     "y ~ C(old) + I(old + (age > 50))"],
)  # fmt: skip
def test_sums_of_conditions_are_refused_with_what_counts_them(data, formula):
    table = data.assign(old=data["age"] > 60)
    with pytest.raises(DataError, match=r"write 1 \* \((old|age > 50)\)"):
        LinearRegression.from_formula(formula, table)
    LinearRegression.from_formula("y ~ I(1 * (age > 50) + 1 * (time > 8))", table)


@pytest.mark.parametrize("kind", ["float16", "float32", "Float32", "float[pyarrow]"])
def test_short_floats_that_are_labels_are_named_as_they_show(data, kind):
    dose = pd.Series([0.1, 0.2, 0.7] * (len(data) // 3)).astype(kind)
    table = data.assign(dose=dose)
    m = LinearRegression.from_formula("y ~ C(dose) + drug", table)
    assert list(m.summary().index)[1:3] == ["C(dose)[T.0.2]", "C(dose)[T.0.7]"]
    np.testing.assert_array_equal(
        m.predict(table), m.predict(table.astype({"dose": "float64"}).round({"dose": 1}))
    )
    cox = CoxRegression.from_formula("Surv(time, dead) ~ age + strata(dose)", table)
    assert set(cox.curves.baseline_hazard(level=None)["stratum"]) == {0.1, 0.2, 0.7}
    assert table["dose"].dtype == dose.dtype


def test_large_integers_that_are_labels_keep_their_names(data):
    zips = np.where(data["drug"] > 0, 90210, 10115)
    m = LogisticRegression.from_formula("dead ~ C(zip) * age", data.assign(zip=zips))
    assert list(m.summary().index) == ["intercept", "C(zip)[T.90210]", "age", "C(zip)[T.90210]:age"]
    cox = CoxRegression.from_formula("Surv(time, dead) ~ age + strata(zip)", data.assign(zip=zips))
    strata = cox.curves.baseline_hazard(level=None)["stratum"]
    assert {str(label) for label in strata} == {"10115", "90210"}


@pytest.mark.parametrize("library", ["pandas", "pandas by arrow", "polars", "pyarrow"])
def test_decimals_are_numbers(data, library):
    exact = [Decimal(f"{age:.2f}") for age in data["age"]]
    table = {
        "pandas": lambda: data.assign(age=exact),
        "pandas by arrow": lambda: data.assign(
            age=pd.array(exact, dtype=pd.ArrowDtype(pa.decimal128(9, 2)))
        ),
        "polars": lambda: pl.DataFrame({"y": data["y"].to_numpy(), "age": exact}),
        "pyarrow": lambda: pa.table({"y": data["y"], "age": pa.array(exact)}),
    }[library]()
    expected = LinearRegression.from_formula("y ~ age", data.round({"age": 2}))
    m = LinearRegression.from_formula("y ~ age", table)
    pd.testing.assert_frame_equal(m.summary(), expected.summary())


def test_polars_tables_need_no_pyarrow(data, monkeypatch):
    table = pl.DataFrame(data).with_columns(
        kind=pl.Series(["z", "b", "z"] * (len(data) // 3), dtype=pl.Categorical),
        text=pl.Series(list("qp" * len(data))[: len(data)]),
    )
    formula = "y ~ age + kind + text"
    expected = LinearRegression.from_formula(formula, table)

    def missing(table):
        raise ModuleNotFoundError("No module named 'pyarrow'")

    monkeypatch.setattr(pl.DataFrame, "to_pandas", missing)
    model = LinearRegression.from_formula(formula, table)
    assert model.coef_names_ == expected.coef_names_
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.predict(table.head(3)), expected.predict(table)[:3])
