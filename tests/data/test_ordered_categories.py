"""Ordered categories are taken in the order of the categories, whatever their labels."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from steropes import (
    CumulativeProbabilityModel,
    DataError,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
    calibration_table,
    fit_many,
    validate_by_group,
)

N = 120


@pytest.fixture
def data(rng):
    X = rng.normal(size=(N, 2))
    y = np.clip(np.round(1.5 + X[:, 0] + rng.logistic(size=N) / 2), 0, 3).astype(int)
    return X, y


def dictionary(y, categories):
    codes = pa.array([None if v is None else categories.index(v) for v in y])
    return pa.DictionaryArray.from_arrays(codes, pa.array(categories), ordered=True)


def pandas_arrow(y, categories):
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([dictionary(y, categories)])))


def enum(y, categories):
    labels = [None if v is None else str(v) for v in y]
    return pl.Series("y", labels, dtype=pl.Enum([str(c) for c in categories]))


def pandas_of(y, categories):
    return pd.Categorical(y, categories, ordered=True)


FORMS = {
    "categorical": pandas_of,
    "series": lambda y, c: pd.Series(pandas_of(y, c)),
    "index": lambda y, c: pd.CategoricalIndex(pandas_of(y, c)),
    "frame": lambda y, c: pd.DataFrame({"y": pandas_of(y, c)}),
    "enum": enum,
    "frame of enum": lambda y, c: pl.DataFrame({"y": enum(y, c)}),
    "dictionary": dictionary,
    "chunked": lambda y, c: pa.chunked_array([dictionary(y, c)]),
    "pandas of arrow": pandas_arrow,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_a_cumulative_model_takes_categories_in_their_order(form, link, data):
    X, y = data
    expected = CumulativeProbabilityModel(link=link).fit(X, 3 - y)
    found = CumulativeProbabilityModel(link=link).fit(X, FORMS[form](y.tolist(), [3, 2, 1, 0]))
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.levels_, [0, 1, 2, 3])
    assert [int(label) for label in found.categories_] == [3, 2, 1, 0]


def test_numbers_that_ascend_are_the_outcome(data):
    X, y = data
    values = np.array([0.0, 1.0, 10.0, 100.0])[y]
    expected = CumulativeProbabilityModel().fit(X, values)
    found = CumulativeProbabilityModel().fit(X, pandas_of(values, [0.0, 1.0, 5.0, 10.0, 100.0]))
    np.testing.assert_array_equal(found.levels_, expected.levels_)
    np.testing.assert_array_equal(found.predict_mean(X), expected.predict_mean(X))
    assert found.categories_ is None
    unordered = CumulativeProbabilityModel().fit(X, pd.Categorical(values, [100.0, 10.0, 1.0, 0.0]))
    np.testing.assert_array_equal(unordered.coef_, expected.coef_)


def test_words_have_the_order_of_their_categories(data):
    X, y = data
    words = ["none", "mild", "fair", "severe"]
    expected = CumulativeProbabilityModel().fit(X, y)
    found = CumulativeProbabilityModel().fit(X, enum([words[k] for k in y], words))
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.categories_ == words
    with pytest.raises(DataError, match="Give ordered categories as numbers"):
        CumulativeProbabilityModel().fit(X, pl.Series([words[k] for k in y], dtype=pl.Categorical))


@pytest.mark.parametrize("form", FORMS)
def test_categories_that_no_row_has_change_nothing(form, data):
    X, y = data
    expected = CumulativeProbabilityModel().fit(X, 3 - y)
    more = CumulativeProbabilityModel().fit(X, FORMS[form](y.tolist(), [7, 3, 2, 5, 1, 0]))
    np.testing.assert_array_equal(more.coef_, expected.coef_)
    np.testing.assert_array_equal(more.levels_, [1, 2, 4, 5])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", [CumulativeProbabilityModel(), LogisticRegression()])
def test_a_missing_category_is_refused_by_its_row(form, model, data):
    X, y = data
    y = [None if i == 7 else int(v > 1) for i, v in enumerate(y)]
    with pytest.raises(DataError, match="y is missing in row 7"):
        model.fit(X, FORMS[form](y, [1, 0]))


@pytest.mark.parametrize("form", FORMS)
def test_the_second_class_of_a_logistic_model_is_the_higher_category(form, data):
    X, y = data
    y = (y > 1).astype(int)
    expected = LogisticRegression().fit(X, 1 - y)
    found = LogisticRegression().fit(X, FORMS[form](y.tolist(), [4, 1, 0]))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-12)
    assert [int(c) for c in found.classes_] == [1, 0]
    assert [int(c) for c in found.predict(X)] == (1 - expected.predict(X)).tolist()
    if form == "categorical":
        assert found.score(X, FORMS[form](y.tolist(), [1, 0])) == expected.score(X, 1 - y)
    with pytest.raises(DataError, match="3 classes"):
        LogisticRegression().fit(X, FORMS[form]([2, *y[1:].tolist()], [2, 1, 0]))


UNORDERED = {
    "categorical": pd.Categorical,
    "series": lambda y, c: pd.Series(pd.Categorical(y, c)),
    "index": pd.CategoricalIndex,
    "frame": lambda y, c: pd.DataFrame({"y": pd.Categorical(y, c)}),
}


@pytest.mark.parametrize("form", UNORDERED)
def test_the_order_of_unordered_categories_counts_for_classes_as_it_does_for_covariates(form, data):
    X, y = data
    case = (y > 1).astype(int)
    text = np.where(case, "case", "control").tolist()
    arms = UNORDERED[form](text, ["control", "unused", "case"])
    expected = LogisticRegression().fit(X, case)
    found = LogisticRegression().fit(X, arms)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.classes_.tolist() == ["control", "case"]
    assert found.score(X, arms) == found.score(X, text) == expected.score(X, case)
    assert LogisticRegression().fit(X, text).classes_.tolist() == ["case", "control"]
    labels = np.array(["none", "mild", "fatal"])[np.minimum(y, 2)].tolist()
    several = UNORDERED[form](labels, ["none", "mild", "fatal"])
    model = MultinomialLogisticRegression().fit(X, several)
    assert model.classes_.tolist() == ["none", "mild", "fatal"]
    np.testing.assert_array_equal(
        model.coef_, MultinomialLogisticRegression().fit(X, np.minimum(y, 2)).coef_
    )
    p = expected.predict_proba(X)[:, 1]
    pd.testing.assert_frame_equal(calibration_table(p, arms), calibration_table(p, case))


def test_refits_keep_the_order_of_unordered_categories(data):
    X, y = data
    case = (y > 1).astype(int)
    text = np.where(case, "case", "control")
    arms = pd.Series(pd.Categorical(text, ["control", "case"]))
    groups = np.arange(N) % 3
    expected = validate_by_group(LogisticRegression(), X, case, groups)
    pd.testing.assert_frame_equal(
        validate_by_group(LogisticRegression(), X, arms, groups), expected
    )
    table = pd.DataFrame(X, columns=["a", "b"]).assign(arm=arms)
    of_formula = LogisticRegression(formula="arm ~ a + b")
    pd.testing.assert_frame_equal(validate_by_group(of_formula, table, None, groups), expected)
    assert of_formula.fit(table).classes_.tolist() == ["control", "case"]
    some = arms.where(np.arange(N) != 5)
    gaps = np.where(some.isna(), np.nan, case)
    found = fit_many(LogisticRegression(), X, {"arm": arms, "some": some})["coef"]
    numbers = fit_many(LogisticRegression(), X, {"arm": case, "some": gaps})["coef"]
    np.testing.assert_allclose(found, numbers, rtol=1e-12)


def test_labels_of_categories_are_checked_as_others_are(data):
    X, y = data
    two = y > 1
    with pytest.raises(DataError, match="y is blank in row"):
        LogisticRegression().fit(X, pd.Categorical(np.where(two, " ", "a"), ["a", " "]))
    with pytest.raises(DataError, match="mixes labels of different types"):
        LogisticRegression().fit(X, pd.Categorical.from_codes(two.astype(int), [1, "a"]))


def test_a_cumulative_model_reads_other_rows_as_it_read_its_own(data):
    X, y = data
    order = [3, 2, 1, 0]
    found = CumulativeProbabilityModel().fit(X, pandas_of(y, order))
    expected = CumulativeProbabilityModel().fit(X, 3 - y)
    some = np.flatnonzero(y < 3)[:40]
    part = pandas_of(y[some], [2, 1, 0])  # whose places are other ones
    np.testing.assert_array_equal(
        found.checks.residuals(X[some], part), expected.checks.residuals(X[some], 3 - y[some])
    )
    assert found.score(X[some], part) == expected.score(X[some], 3 - y[some])
    a = found.checks.parallelism(X, pandas_of(y, order)).test
    pd.testing.assert_frame_equal(a, expected.checks.parallelism(X, 3 - y).test)
    with pytest.raises(DataError, match="fitted to ordered categories, from 3 to 0"):
        found.checks.residuals(X, y)
    with pytest.raises(DataError, match="categories 9, which the fit does not have"):
        found.checks.residuals(X[:2], pandas_of([9, 1], [9, 1]))
    with pytest.raises(DataError, match="fitted to numbers"):
        expected.checks.residuals(X, pandas_of(y, order))


@pytest.mark.parametrize("table", ["pandas", "polars", "arrow"])
def test_formulas_keep_the_order(table, data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=pandas_of(y.astype(str), list("3210")))
    if table == "polars":
        frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": enum(y, [3, 2, 1, 0])})
    if table == "arrow":
        frame = pa.Table.from_pandas(frame)
    found = CumulativeProbabilityModel.from_formula("y ~ a + b", frame)
    expected = CumulativeProbabilityModel().fit(X, 3 - y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    two = frame
    if table == "pandas":
        two = frame.assign(y=pandas_of((y > 1).astype(int), [1, 0]))
        m = LogisticRegression.from_formula("y ~ a + b", two)
        assert m.classes_.tolist() == [1, 0]


@pytest.mark.parametrize("estimator", [LogisticRegression(), LogisticRegression(prior=Normal())])
def test_many_outcomes_keep_the_order(estimator, data):
    X, y = data
    two = (y > 1).astype(int)
    missing = [None if i == 3 else v for i, v in enumerate(two.tolist())]
    outcomes = pd.DataFrame({"up": two, "down": pandas_of(two, [1, 0])})
    table = fit_many(estimator, X, outcomes).set_index(["outcome", "coefficient"])["coef"]
    np.testing.assert_allclose(table["down"], -table["up"], rtol=1e-6)
    some = fit_many(estimator, X, {"down": pandas_of(missing, [1, 0])})
    weight = (np.arange(N) != 3).astype(float)
    expected = type(estimator)(prior=estimator.prior).fit(X, 1 - two, sample_weight=weight)
    np.testing.assert_allclose(some["coef"][1:], expected.coef_, rtol=1e-6)


@pytest.mark.parametrize("form", [form for form in FORMS if "enum" not in form])
def test_numbers_in_another_order_are_refused_where_numbers_are_read(form, data):
    X, y = data
    wrong = FORMS[form](y.tolist(), [3, 2, 1, 0])
    for model in (LinearRegression(), PoissonRegression()):
        with pytest.raises(DataError, match=r"y holds ordered categories, \[3, 2, 1, 0\]"):
            model.fit(X, wrong)
    with pytest.raises(DataError, match="event holds ordered categories"):
        Surv(np.arange(1.0, N + 1), wrong)
    right = FORMS[form](y.tolist(), [0, 1, 2, 3])
    if form != "frame":
        np.testing.assert_array_equal(
            PoissonRegression().fit(X, right).coef_, PoissonRegression().fit(X, y).coef_
        )


def test_calibration_is_of_the_higher_category(data):
    X, y = data
    two = (y > 1).astype(int)
    p = LogisticRegression().fit(X, two).predict_proba(X)
    expected = calibration_table(p[:, 0], 1 - two, bins=4)
    found = calibration_table(p[:, 0], pandas_of(two, [1, 0]), bins=4)
    pd.testing.assert_frame_equal(found, expected)
