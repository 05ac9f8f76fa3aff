"""Hypotheses in words equal those of the matrix that they describe."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from pandas.testing import assert_series_equal

from steropes import CoxRegression, DataError, LinearRegression, LogisticRegression, Surv

RNG = np.random.default_rng(5)
N = 150
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "bb"])
Y = (RNG.random(N) < 1 / (1 + np.exp(-X["a"] - 0.5 * X["b"]))) * 1


@pytest.fixture(scope="module")
def logistic():
    return LogisticRegression().fit(X, Y)


@pytest.mark.parametrize(
    ("words", "R", "q"),
    [
        ("a = b", [[0, 1, -1, 0]], [0]),
        ("a + 2*b = 1", [[0, 1, 2, 0]], [1]),
        ("2 * (a - bb) / 4 = b - .5e0", [[0, 0.5, -1, -0.5]], [-0.5]),
        ("a = b = bb", [[0, 1, -1, 0], [0, 0, 1, -1]], [0, 0]),
        ("a = 1, b - intercept = -2", [[0, 1, 0, 0], [-1, 0, 1, 0]], [1, -2]),
        (["-a = 0", "bb=+1"], [[0, -1, 0, 0], [0, 0, 0, 1]], [0, 1]),
    ],
)
def test_words_are_the_matrix_that_they_describe(logistic, words, R, q):
    for test in ("wald", "likelihood ratio", "score"):
        ours = logistic.inference.linear_hypothesis(words, test=test)
        assert_series_equal(
            ours, logistic.inference.linear_hypothesis(np.array(R, float), q, test=test)
        )


def test_agrees_with_statsmodels_wald_test(logistic):
    theirs = sm.Logit(Y, sm.add_constant(X)).fit(disp=False)
    for words in ("a = b, bb = 0.2", "a + 2*b = 0"):
        expected = theirs.wald_test(words, scalar=True)
        ours = logistic.inference.linear_hypothesis(words)
        np.testing.assert_allclose([ours.chisq, ours.p], [expected.statistic, expected.pvalue])


def test_names_of_formulas_are_read_whole():
    data = X.assign(
        g=np.where(np.arange(N) % 3 == 0, "a", np.where(np.arange(N) % 3 == 1, "b", "c"))
    )
    model = LinearRegression.from_formula("bb ~ C(g) + bs(a, df=4) + np.log(b**2 + 1)", data)
    first, second = "C(g)[T.b]", "C(g)[T.c]"
    words = model.inference.linear_hypothesis(f"{first} = {second}")
    R = np.zeros(len(model.summary()))
    R[[1, 2]] = 1, -1
    assert_series_equal(words, model.inference.linear_hypothesis(R))
    name = "bs(a, df=4)[1]"
    assert_series_equal(
        model.inference.linear_hypothesis(f"{name} = 0"), model.inference.linear_hypothesis(name)
    )
    # The name of a coefficient that contains "=" is that coefficient.
    assert model.inference.linear_hypothesis(name).df == 1


def test_steps_of_effects_and_weights_strata_offset_fixed():
    y = Surv(RNG.exponential(np.exp(-X["a"])), RNG.random(N) < 0.8)
    given = {"sample_weight": RNG.uniform(0.5, 2, N), "strata": np.arange(N) % 2,
             "offset": 0.1 * RNG.normal(size=N)}  # fmt: skip
    model = CoxRegression(time_varying={"a": [0.5]}).fit(X, y, **given)
    words = model.inference.linear_hypothesis("a@(0,0.5] = a@(0.5,inf)")
    assert_series_equal(words, model.inference.linear_hypothesis([[1.0, -1.0, 0.0, 0.0]]))
    fixed = CoxRegression().fit(X, y, fixed={"b": 0.4}, **given)
    # With b = 0.4 the equation is one about a alone.
    ours = fixed.inference.linear_hypothesis("a = b")
    assert_series_equal(ours, fixed.inference.linear_hypothesis("a", 0.4))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a = c", "no coefficient 'c'"),
        ("a * b = 0", "product of coefficients"),
        ("a / 0 = 1", "divides by"),
        ("(a = 0", "not closed"),
        ("a = a", "no coefficient is left"),
        ("a b = 0", "operator is missing"),
        ("a = ", "is missing"),
        (["a = 0", "b"], "needs '='"),
        (["a = 0", 3], "is text"),
        ("a = b, b = a", "depend on each other"),
    ],
)
def test_what_cannot_be_read_is_refused(logistic, words, message):
    with pytest.raises(DataError, match=message):
        logistic.inference.linear_hypothesis(words)


def test_a_value_besides_the_text_is_refused(logistic):
    with pytest.raises(DataError, match="right sides in the text"):
        logistic.inference.linear_hypothesis("a = b", 1.0)


def test_numbers_that_are_names_are_refused(rng):
    """Columns without names are called 0, 1, …: "1 = 0" could equate two coefficients."""
    X = pd.DataFrame(rng.standard_normal((30, 2)))
    model = LinearRegression().fit(X, rng.standard_normal(30))
    with pytest.raises(DataError, match="'1' is a number and the name of a coefficient"):
        model.inference.linear_hypothesis("1 = 0")
    with pytest.raises(DataError, match="'0' is a number"):
        model.inference.linear_combination("intercept - 0")
    by_name = model.inference.linear_hypothesis(["1"])
    assert by_name["chisq"] == pytest.approx(float(model.summary().loc["1", "t"]) ** 2)
