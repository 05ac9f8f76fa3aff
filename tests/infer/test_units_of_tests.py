"""Tests of several equations are the same whatever the units and zeros of the columns."""

import numpy as np
import pandas as pd
import pytest

from steropes import (
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    Surv,
    logrank_test,
)

UNITS = {
    "small and large": np.array([1e-8, 1.0, 1e8, 1e3]),
    "large and small": np.array([1e6, 1e-6, 1.0, 1e-3]),
}
SHIFT = np.array([0.0, 2000.0, -1e4, 0.0])
MODELS = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(400, 4))
    X[:, 3] = X[:, 0] + rng.normal(size=400) > 0
    return X


def outcome(family, X, rng):
    n = len(X)
    if family == "cox":
        time = np.ceil(10 * rng.exponential(np.exp(-X @ [0.3, 0.5, -0.2, 0.1])))
        return Surv(time, rng.random(n) < 0.7)
    if family == "poisson":
        return rng.poisson(np.exp(0.3 * X[:, 1]))
    y = X @ [0.5, -0.5, 0.3, 0.0] + rng.logistic(size=n) * (1 + 0.5 * (X[:, 1] > 0))
    return (y > 0).astype(int) if family == "logistic" else np.round(y, 1)


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("units", UNITS)
def test_parallelism_does_not_depend_on_units(units, shift, data, rng):
    y = outcome("linear", data, rng)
    near = CumulativeProbabilityModel().fit(data, y).checks.parallelism(data, y).test
    Z = (data + shift * SHIFT) * UNITS[units]
    far = CumulativeProbabilityModel().fit(Z, y).checks.parallelism(Z, y).test
    pd.testing.assert_frame_equal(far, near, rtol=1e-5)
    assert near.loc["GLOBAL", "df"] == 8


def test_parallelism_is_refused_where_too_few_rows_tell_its_equations_apart(rng):
    """Twenty rows for 28 differences: least squares gave them a number all the same."""
    X, y = rng.normal(size=(20, 2)) / 10, rng.normal(size=20)
    m = CumulativeProbabilityModel().fit(X, y)
    with pytest.raises(DataError, match=r"too few rows .* Give fewer quantiles"):
        m.checks.parallelism(X, y, quantiles=np.arange(3, 18) / 20)


@pytest.mark.sampled
@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("transform", ["km", "identity", "log", "rank"])
def test_proportionality_does_not_depend_on_units(transform, units, shift, data, rng):
    y = outcome("cox", data, rng)
    near = CoxRegression().fit(data, y).checks.proportionality(transform)
    later = Surv(y["time"] * 1e5, y["event"])
    far = CoxRegression().fit((data + shift * SHIFT) * UNITS[units], later)
    pd.testing.assert_frame_equal(far.checks.proportionality(transform), near, rtol=1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("family", MODELS)
def test_equations_and_model_tests_do_not_depend_on_units(family, units, data, rng):
    y, u = outcome(family, data, rng), UNITS[units]
    near, far = MODELS[family]().fit(data, y), MODELS[family]().fit((data + SHIFT) * u, y)
    pd.testing.assert_frame_equal(
        far.inference.model_tests(), near.inference.model_tests(), rtol=1e-5
    )
    R = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 1.0]])
    rows = {"differences": (R, R * u)}
    if family != "cox":  # predictions of two people, on the scale of the linear predictor
        people = np.array([[0.1, 0.2, 0.3, 1.0], [0.5, 0.2, 0.1, 0.0]])
        ones = np.ones((2, 1))
        rows["predictions"] = tuple(
            np.column_stack([ones, x]) for x in (people, (people + SHIFT) * u)
        )
        rows["differences"] = tuple(np.column_stack([0 * ones, x]) for x in rows["differences"])
    for ours, theirs in rows.values():
        for test in ("wald", "score", "likelihood ratio"):
            a = near.inference.linear_hypothesis(ours, 0.2, test=test)
            b = far.inference.linear_hypothesis(theirs, 0.2, test=test)
            pd.testing.assert_series_equal(b, a, rtol=1e-5)
        a = near.inference.linear_hypothesis(ours, kind="robust")
        pd.testing.assert_series_equal(
            far.inference.linear_hypothesis(theirs, kind="robust"), a, rtol=1e-5
        )


def test_equations_that_depend_on_each_other_are_known_in_any_units(data, rng):
    y = outcome("logistic", data, rng)
    for u in (np.ones(4), *UNITS.values()):
        m = LogisticRegression().fit(data * u, y)
        R = np.array([[0.0, 1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0, 0.0]]) * np.append(1.0, u)
        assert m.inference.linear_hypothesis(R).df == 2
        with pytest.raises(DataError, match="depend on each other"):
            m.inference.linear_hypothesis(np.vstack([R, R[0] + R[1]]))


def test_a_log_rank_test_does_not_depend_on_the_order_of_groups_of_all_sizes(rng):
    """Three of a hundred thousand in the group that comes last."""
    n = 100_000
    group = np.repeat(["a", "b", "c"], [n // 2, n // 2 - 3, 3])
    y = Surv(np.round(rng.exponential(size=n), 2) + 0.01, rng.random(n) < 0.5)
    expected = logrank_test(y, group)
    for names in ("bca", "cab", "acb"):
        other = np.array(list(names))[np.searchsorted(["a", "b", "c"], group)]
        pd.testing.assert_series_equal(logrank_test(y, other), expected, rtol=1e-9)


def test_groups_that_are_never_at_risk_together_have_a_degree_of_freedom_for_each_set(rng):
    n = 200
    group, strata = np.arange(n) % 4, np.arange(n) % 4 // 2
    y = Surv(rng.exponential(np.where(group == 1, 0.5, 1.0)), np.ones(n, int))
    both = logrank_test(y, group, strata)
    parts = [logrank_test(y[strata == s], group[strata == s]) for s in (0, 1)]
    assert both["df"] == 2
    np.testing.assert_allclose(both["chisq"], parts[0]["chisq"] + parts[1]["chisq"], rtol=1e-9)
