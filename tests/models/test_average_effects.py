"""Average marginal effects agree with statsmodels, and with differences of predicted means."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

from steropes import (
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    PoissonRegression,
)

RNG = np.random.default_rng(3)
N = 300
DATA = pd.DataFrame({
    "a": RNG.normal(size=N), "b": (RNG.random(N) < 0.4) * 1.0, "age": RNG.uniform(20, 80, N),
    "site": RNG.choice(["north", "south", "west"], N), "w": RNG.uniform(0.5, 2, N),
})  # fmt: skip
X = DATA[["a", "b", "age"]]
ETA = 0.8 * DATA["a"] - DATA["b"] + 0.01 * DATA["age"]
SICK = RNG.binomial(1, 1 / (1 + np.exp(-ETA)))
COUNT = RNG.poisson(np.exp(ETA))


@pytest.mark.parametrize("storage", [pd.DataFrame, np.asarray, sparse.csc_array])
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_effects_agree_with_statsmodels(family, storage):
    ours, theirs, y = {
        "logistic": (LogisticRegression, sm.Logit, SICK),
        "poisson": (PoissonRegression, sm.Poisson, COUNT),
    }[family]
    margins = theirs(y, sm.add_constant(X)).fit(disp=0).get_margeff(dummy=True)
    found = ours().fit(storage(X), y).effects.average(storage(X), level=0.9)
    np.testing.assert_allclose(found["effect"], margins.margeff, rtol=1e-6)
    np.testing.assert_allclose(found["se"], margins.margeff_se, rtol=1e-5)
    np.testing.assert_allclose(found[["lower", "upper"]], margins.conf_int(0.1), rtol=1e-4)
    np.testing.assert_allclose(found["p"], margins.pvalues, rtol=1e-3)


def test_a_sparse_matrix_is_not_made_dense(monkeypatch):
    wide = sparse.random_array((400, 300), density=0.02, rng=RNG, format="csr")
    y = RNG.binomial(1, 1 / (1 + np.exp(-3 * wide[:, [0]].toarray()[:, 0])))
    m = LogisticRegression(prior=Normal(0.5)).fit(wide, y)
    names = ["x0", "x7"]
    expected = m.effects.average(wide.toarray(), names)
    frame = pd.DataFrame.sparse.from_spmatrix(wide, columns=[f"x{j}" for j in range(300)])
    largest = []
    whole = sparse.csc_array.toarray

    def noted(self, *args, **kwargs):
        out = whole(self, *args, **kwargs)
        largest.append(out.size)
        return out

    monkeypatch.setattr(sparse.csc_array, "toarray", noted)
    monkeypatch.setattr(sparse.csr_array, "toarray", noted)
    for X in (wide, frame):
        pd.testing.assert_frame_equal(m.effects.average(X, names), expected, rtol=1e-8)
    assert max(largest) == 400  # a column at a time


def test_effects_of_a_linear_model_are_its_coefficients():
    m = LinearRegression().fit(X, ETA + RNG.normal(size=N), fixed={"age": 0.02})
    found = m.effects.average(X)
    np.testing.assert_allclose(found["effect"], m.coef_, rtol=1e-8)
    np.testing.assert_allclose(found["se"][:2], m.summary()["se"].iloc[1:], rtol=1e-7)
    assert found["se"]["age"] == 0


@pytest.mark.parametrize("storage", [pd.DataFrame, np.asarray, sparse.csc_array])
def test_one_row_has_its_own_slope(storage):
    m = LogisticRegression().fit(storage(X), SICK)
    row = X.iloc[[7]]
    p = m.predict_proba(storage(row))[0, 1]
    found = m.effects.average(storage(row))["effect"].to_numpy()
    np.testing.assert_allclose(found[[0, 2]], m.coef_[[0, 2]] * p * (1 - p), rtol=1e-6)


def test_the_distance_of_a_variable_from_zero_does_not_matter():
    far = X.to_numpy() + np.array([1e9, 0.0, 0.0])
    m = LinearRegression().fit(far, COUNT)
    np.testing.assert_allclose(m.effects.average(far)["effect"], m.coef_, rtol=1e-6)


def test_a_formula_moves_all_columns_of_a_variable():
    table = DATA.assign(y=SICK, years=1.5)
    formula = "y ~ rcs(age, 4) * b + site + offset(0.1 * years)"
    m = LogisticRegression.from_formula(formula, table, sample_weight="w")
    weight = DATA["w"].to_numpy()
    found = m.effects.average(table, sample_weight=weight)
    assert list(found.index) == ["b", "age", "site[south]", "site[west]"]

    def mean(**changed):
        return np.average(m.predict_proba(table.assign(**changed))[:, 1], weights=weight)

    h = 0.01
    assert found["effect"]["b"] == pytest.approx(mean(b=1.0) - mean(b=0.0))
    difference = (mean(age=table["age"] + h) - mean(age=table["age"] - h)) / (2 * h)
    assert found["effect"]["age"] == pytest.approx(difference, rel=1e-4)
    west = mean(site="west") - mean(site="north")
    assert found["effect"]["site[west]"] == pytest.approx(west)
    assert m.effects.average(table, "age")["se"]["age"] > 0


def test_robust_errors_are_those_of_the_robust_covariance():
    m = LogisticRegression().fit(X, SICK)
    gap = m.effects.average(X, kind="robust")["se"] / m.effects.average(X)["se"] - 1
    assert (gap != 0).all()
    assert (np.abs(gap) < 0.5).all()


def test_refusals():
    m = LogisticRegression().fit(X, SICK)
    with pytest.raises(DataError, match="no variable 'c'; there are 'a', 'b', 'age'"):
        m.effects.average(X, "c")
    with pytest.raises(DataError, match="Laplace prior"):
        LogisticRegression(prior=Laplace(0.1)).fit(X, SICK).effects.average(X)
    with pytest.raises(DataError, match="feature names"):
        m.effects.average(X[["b", "a", "age"]])


def test_labels_of_any_type_are_compared_with_the_first():
    rng = np.random.default_rng(3)
    y = rng.standard_normal(40)
    codes = np.arange(40) % 3
    flags = np.arange(40) % 5 == 0
    labels = {
        "text": np.array(["u", "v", "w"])[codes],
        "dates": pd.Categorical(pd.date_range("2020-01-01", periods=3)[codes]),
        "intervals": pd.cut(codes, [-1, 0, 1, 2]),
    }
    for x in labels.values():
        X = pd.DataFrame({"x": x, "flag": pd.Series(flags, dtype="bool[pyarrow]")})
        model = LinearRegression().fit(X, y)
        effects = model.effects.average(X)
        np.testing.assert_allclose(effects["effect"], model.coef_, rtol=1e-12)
        assert effects.index[-1] == "flag"


def test_splines_that_end_with_the_data_have_effects_within_their_range(rng):
    data = pd.DataFrame({"v": rng.normal(size=150)})
    data["y"] = (rng.random(150) < 1 / (1 + np.exp(-data["v"]))) * 1
    model = LogisticRegression.from_formula("y ~ bs(v, df=4)", data)
    table = model.effects.average(data)
    ends = data["v"].min(), data["v"].max()
    high, low = ((data["v"] + step).clip(*ends) for step in (1e-6, -1e-6))
    risks = (model.predict_proba(pd.DataFrame({"v": v}))[:, 1] for v in (high, low))
    slopes = np.subtract(*risks) / (high - low)
    assert table.loc["v", "effect"] == pytest.approx(slopes.mean(), rel=1e-5)
    several = MultinomialLogisticRegression.from_formula("y ~ bs(v, df=4)", data)
    own = several.effects.average(data).loc[("v", 1)]
    np.testing.assert_allclose(own, table.loc["v"], rtol=1e-5)
    with pytest.raises(DataError, match="beyond the range of the fit"):
        model.effects.average(data.assign(v=3.0 * data["v"]))


@pytest.mark.parametrize("kind", ["boolean", "Int64", "string"])
def test_a_missing_value_is_named_by_its_column_and_row(kind):
    values = {"boolean": [True, False], "Int64": [3, 5], "string": ["u", "v"]}[kind]
    data = pd.DataFrame({"x": pd.array(values * 20, dtype=kind), "y": np.arange(40) % 3 % 2})
    model = LogisticRegression.from_formula("y ~ x", data)
    assert np.isfinite(model.effects.average(data)["effect"]).all()
    data.loc[7, "x"] = pd.NA
    with pytest.raises(DataError, match="x is missing in row 7"):
        model.effects.average(data)


MODELS = [LogisticRegression, MultinomialLogisticRegression]


def three_arms(rng, n=200):
    """Data with labels, an indicator and a count, and an outcome of the classes 0 and 1."""
    data = pd.DataFrame({
        "arm": np.array(["p", "q", "r"])[rng.integers(0, 3, n)],
        "treated": rng.integers(0, 2, n),
        "visits": rng.integers(0, 5, n),
    })  # fmt: skip
    eta = 0.8 * (data["arm"] == "r") + 0.3 * data["visits"] - 1.0
    return data.assign(y=(rng.random(n) < 1 / (1 + np.exp(-eta))) * 1)


@pytest.mark.sampled
@pytest.mark.parametrize("by_formula", [False, True])
@pytest.mark.parametrize("categories", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_effects_on_some_rows_have_the_labels_and_kinds_of_the_fit(
    model, categories, by_formula, rng
):
    """arm[r] was r against q in rows without p, and a count of 0 and 1 became a difference."""
    data = three_arms(rng)
    if categories:
        data["arm"] = pd.Categorical(data["arm"], ["q", "r", "p"])
    X = data.drop(columns="y")
    if by_formula:
        m = model.from_formula("y ~ arm + treated + visits", data)
    else:
        m = model().fit(X, data["y"])
    whole = m.effects.average(X)
    first = "arm[q]" if not categories else "arm[r]"
    assert first in whole.index.get_level_values(0)
    for rows in (data["arm"] != ("q" if categories else "p"), data["arm"] == "r",
                 (data["treated"] == 1) & (data["visits"] < 2)):  # fmt: skip
        some = X[rows]
        if categories:
            some = some.assign(arm=some["arm"].cat.remove_unused_categories())
        found = m.effects.average(some)
        assert list(found.index) == list(whole.index)
        # An average over all rows is one over these rows and one over the others.
        share = rows.mean()
        rest = m.effects.average(X[~rows])
        expected = share * found["effect"] + (1 - share) * rest["effect"]
        np.testing.assert_allclose(whole["effect"], expected, rtol=1e-4, atol=1e-7)
    with pytest.raises(DataError, match="not seen"):
        m.effects.average(X.assign(arm=pd.Series(["z", *data["arm"][1:]])), "arm")


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
@pytest.mark.parametrize("model", MODELS)
def test_a_column_is_an_indicator_if_it_was_one_in_the_fit(model, storage, rng):
    data = three_arms(rng)
    X = data[["treated", "visits"]].to_numpy(float)
    m = model().fit(storage(X), data["y"])
    m = pickle.loads(pickle.dumps((m.vcov(), m)[1]))  # without the data
    rows = (X[:, 1] < 2) & (X[:, 0] == 1)
    whole, some, rest = (m.effects.average(storage(X[at])) for at in (X[:, 0] < 9, rows, ~rows))
    expected = rows.mean() * some["effect"] + (~rows).mean() * rest["effect"]
    np.testing.assert_allclose(whole["effect"], expected, rtol=1e-4, atol=1e-7)
