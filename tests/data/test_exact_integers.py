"""Whole numbers that a float cannot tell from their neighbours are refused, and never tied."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import Surv
from steropes.data.kaplan_meier import product_limit
from steropes.models.cumulative import Censored

BIG = 2**53
VALUES = [3, BIG + 1, BIG + 2, 5]  # as floats the second is the third
REFUSED = r"9007199254740993.* in row 1, beyond 2\*\*53.*(origin|unit)"


def optional(module, make):
    def made():
        return make(pytest.importorskip(module))

    return made


FORMS = {
    "int64": lambda: np.array(VALUES),
    "uint64": lambda: np.array(VALUES, np.uint64),
    "list": lambda: list(VALUES),
    "tuple": lambda: tuple(VALUES),
    "list with a float": lambda: [3.5, *VALUES[1:]],
    "list of NumPy's": lambda: [np.int64(v) for v in VALUES],
    "list of rows": lambda: [[v] for v in [3.5, *VALUES[1:]]],
    "column": lambda: np.array(VALUES)[:, None],
    "objects": lambda: np.array(VALUES, object),
    "decimals": lambda: [Decimal(v) for v in VALUES],
    "fractions": lambda: [Fraction(v) for v in VALUES],
    "masked": lambda: np.ma.masked_array(VALUES, mask=[False] * 4),
    "big-endian": lambda: np.array(VALUES, ">i8"),
    "series": lambda: pd.Series(VALUES),
    "nullable": lambda: pd.Series(VALUES, dtype="Int64"),
    "nullable unsigned": lambda: pd.Series(VALUES, dtype="UInt64"),
    "series of objects": lambda: pd.Series(VALUES, dtype=object),
    "arrow": optional("pyarrow", lambda pa: pa.array(VALUES)),
    "arrow in pandas": optional("pyarrow", lambda pa: pd.Series(VALUES, dtype="int64[pyarrow]")),
    "arrow decimals": optional("pyarrow", lambda pa: pa.array(VALUES, pa.decimal128(38, 0))),
    "polars": optional("polars", lambda pl: pl.Series(VALUES)),
    "polars 128 bits": optional("polars", lambda pl: pl.Series(VALUES, dtype=pl.Int128)),
    "polars decimals": optional("polars", lambda pl: pl.Series(VALUES, dtype=pl.Decimal(38, 0))),
}

ignore_columns = pytest.mark.filterwarnings("ignore:A column-vector")


@ignore_columns
@pytest.mark.parametrize("form", FORMS)
def test_times_beyond_what_a_float_holds_are_refused(form):
    with pytest.raises(steropes.DataError, match=f"^time is {REFUSED}"):
        Surv(FORMS[form](), [1, 0, 1, 0])
    with pytest.raises(steropes.DataError, match=f"^entry is {REFUSED}"):
        Surv([4.0, 1e16, 1e16, 6.0], [1, 0, 1, 0], FORMS[form]())


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long doubles are doubles here")
def test_long_doubles_that_would_be_rounded_to_the_same_time_are_refused():
    times = np.array(VALUES, np.longdouble)
    with pytest.raises(steropes.DataError, match="row 1, beyond 2"):
        Surv(times, [1, 0, 1, 0])
    times[1] += 1  # a double holds it
    assert Surv(times, [1, 0, 1, 0])["time"][1] == BIG + 2


def test_arrays_of_scikit_survival_are_no_way_around():
    y = np.array([(True, v) for v in VALUES], [("status", bool), ("days", np.int64)])
    with pytest.raises(steropes.DataError, match=f"^time is {REFUSED}"):
        steropes.CoxRegression().fit(np.eye(4), y)


def test_negative_ones_are_refused_too():
    with pytest.raises(steropes.DataError, match="entry is -9007199254740993 in row 0"):
        Surv([1, 2], [1, 0], np.array([-BIG - 1, 0]))


@pytest.mark.parametrize("form", ["int64", "uint64", "list", "nullable"])
def test_numbers_up_to_two_to_the_53_are_taken_as_they_are(form):
    values = [3, BIG - 1, BIG, 5]
    x = {"list": list, "int64": np.array, "uint64": lambda v: np.array(v, np.uint64),
         "nullable": lambda v: pd.Series(v, dtype="Int64")}[form](values)  # fmt: skip
    assert Surv(x, [1, 0, 1, 0])["time"].tolist() == values


def test_floats_of_any_size_are_what_they_are():
    assert Surv([3.0, 1e18, 2e18], [1, 0, 1])["time"].tolist() == [3.0, 1e18, 2e18]


X = np.arange(4.0)[:, None]
Y = Surv([1, 2, 3, 4], [1, 0, 1, 0])
DOORS = {
    "sample_weight": lambda v: steropes.LinearRegression().fit(X, X[:, 0], sample_weight=v),
    "offset": lambda v: steropes.LinearRegression().fit(X, X[:, 0], offset=v),
    "exposure": lambda v: steropes.PoissonRegression().fit(X, [0, 1, 2, 1], exposure=v),
    "y": lambda v: steropes.LinearRegression().fit(X, v),
    "counts": lambda v: steropes.PoissonRegression().fit(X, v),
    "ordered outcomes": lambda v: steropes.CumulativeProbabilityModel().fit(X, v),
    "lower": lambda v: Censored(v, [1e17] * 4),
    "upper": lambda v: Censored([0.0] * 4, v),
    "case series": lambda v: steropes.SelfControlledCaseSeries().fit(
        X, [0, 1, 1, 0], strata=[0, 0, 1, 1], exposure=v
    ),
    "curve": lambda v: product_limit(v, [1, 0, 1, 0]),
    "curve's entry": lambda v: product_limit([1e17] * 4, [1, 0, 1, 0], entry=v),
    "curve's weights": lambda v: steropes.kaplan_meier(Y, sample_weight=v),
    "curve's times": lambda v: steropes.kaplan_meier(Y).at(v),
    "incidence's times": lambda v: steropes.aalen_johansen(Y).at(v),
}


@pytest.mark.parametrize("form", ["int64", "list with a float", "nullable", "objects"])
@pytest.mark.parametrize("door", DOORS)
def test_every_vector_of_a_model_is_checked(door, form):
    with pytest.raises(steropes.DataError, match=REFUSED):
        DOORS[door](FORMS[form]())


def test_many_outcomes_with_gaps_are_checked():
    y = pd.DataFrame({"a": pd.array([None, BIG + 1, 2, 5], "Int64"), "b": [1.0, 2.0, 3.0, 5.0]})
    table = steropes.fit_many(steropes.LinearRegression(), X, y)
    assert "9007199254740993 in row 1" in table.loc[table["outcome"] == "a", "note"].iloc[0]
    assert table.loc[table["outcome"] == "a", "coef"].isna().all()
    assert table.loc[table["outcome"] == "b", "converged"].all()


def test_formulas_are_no_way_around():
    data = pd.DataFrame({"y": [1.0, 2.0, 2.5, 4.0], "x": X[:, 0], "big": VALUES})
    with pytest.raises(steropes.DataError, match="9007199254740993"):
        steropes.LinearRegression.from_formula("y ~ x + offset(big)", data)
    with pytest.raises(steropes.DataError, match="9007199254740993"):
        steropes.CoxRegression.from_formula("Surv(big, event) ~ x", data.assign(event=[1, 0, 1, 0]))


def test_covariates_of_that_size_are_numbers_like_others():
    model = steropes.LinearRegression().fit(
        np.array([[0], [1], [2], [3]]) * BIG, [0.0, 1.0, 2.5, 3.0]
    )
    assert model.converged_


def test_labels_of_that_size_are_told_apart():
    y = np.array([BIG + 1, BIG + 2] * 3)
    model = steropes.LogisticRegression(prior=steropes.Normal(1.0)).fit(np.arange(6.0)[:, None], y)
    assert model.classes_.tolist() == [BIG + 1, BIG + 2]
