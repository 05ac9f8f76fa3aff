"""Step functions, conditional survival and tests of terms of pooled logistic models."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, PooledLogisticRegression, Surv

RNG = np.random.default_rng(23)
N = 200
X = pd.DataFrame({"a": RNG.normal(size=N), "site": RNG.choice(["u", "v", "w"], N)})
X["b"] = RNG.normal(size=N)
Y = Surv(RNG.exponential(np.exp(-X["a"])) + 0.01, RNG.random(N) < 0.8)
DATA = X.assign(time=Y["time"], event=Y["event"])


@pytest.fixture(scope="module")
def model():
    return PooledLogisticRegression.from_formula(
        "Surv(time, event) ~ a + site + b", DATA, breaks=np.arange(0, 8, 0.5), baseline=2
    )


def test_a_survival_function_has_the_values_of_the_predictions(model):
    functions = model.predict_survival_function(DATA[:3])
    times = model.unique_times_
    expected = model.predict_survival(DATA[:3])
    assert expected.shape == (3, len(times))
    for function, row in zip(functions, expected, strict=True):
        np.testing.assert_array_equal(function(times), row)
        assert function(0.0) == function(0.49) == 1.0
    with pytest.raises(DataError, match="is known from 0"):
        functions[0](100.0)


def test_survival_after_a_time_is_a_ratio(model):
    after = RNG.uniform(0, 3, N)
    times = [0.5, 1.5, 3.5]
    found = model.predict_survival(DATA, times, after=after)
    whole = model.predict_survival(DATA, times)
    for i in range(0, N, 17):
        before = model.predict_survival(DATA[i : i + 1], [after[i]])[0, 0]
        expected = np.where(np.array(times) <= after[i], 1.0, whole[i] / before)
        np.testing.assert_allclose(found[i], expected)
    np.testing.assert_array_equal(model.predict_survival(DATA, times, after=0.0), whole)
    with pytest.raises(DataError, match="after must be"):
        model.predict_survival(DATA, times, after=[0.1, 0.2])


def test_terms_with_constant_effects_are_tested_and_predicted(model):
    tests = model.inference.term_tests()
    names = tests.index.get_level_values("term")
    assert list(names)[:3] == ["a", "site", "b"]
    z = model.summary().loc["a", "z"]
    np.testing.assert_allclose(tests.loc[("a", "all"), "chisq"], z**2)
    joint = model.inference.linear_hypothesis(["site[T.v]", "site[T.w]"])
    np.testing.assert_allclose(tests.loc[("site", "all"), "chisq"], joint["chisq"])
    parts, errors = model.effects.terms(DATA, return_se=True)
    coef = model.summary()["coef"]
    np.testing.assert_allclose(parts["a"], DATA["a"] * coef["a"])
    np.testing.assert_allclose(errors["a"], np.abs(DATA["a"]) * model.summary().loc["a", "se"])
    varying = PooledLogisticRegression(interval=0.5, time_varying={"a": 1}).fit(X[["a", "b"]], Y)
    with pytest.raises(DataError, match="Effects that change with time"):
        varying.inference.term_tests()
    with pytest.raises(DataError, match="for each interval"):
        model.effects.predictions(DATA)
