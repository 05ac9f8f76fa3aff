"""Simulated data are recovered by their models, repeatable, and as large as asked."""

import numpy as np
import pytest

from steropes import (
    CoxRegression,
    DataError,
    FineGrayRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    SelfControlledCaseSeries,
)
from steropes.datasets import (
    simulate_case_series,
    simulate_confounded_cohort,
    simulate_regression,
)

MODELS = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
    "fine_gray": FineGrayRegression,
}
# The 0.9999 quantiles of chi-square with 6 and 30 degrees of freedom.
FAR, FAR_OF_30 = 27.9, 68.8


def distance(model, truth):
    """The squared distance of the estimates from the truth, in units of their covariance."""
    V = model.vcov().loc[truth.index, truth.index]
    gap = model.summary()["coef"][truth.index] - truth
    return float(gap @ np.linalg.solve(V, gap))


@pytest.mark.parametrize("family", MODELS)
def test_regressions_recover_the_truth(family):
    data = simulate_regression(family, n=20_000, p=6, seed=5)
    model = MODELS[family]().fit(data.X, data.y, **data.fit_params)
    assert distance(model, data.truth) < FAR
    assert distance(model, -data.truth) > 10 * FAR


def test_case_series_recover_the_truth():
    data = simulate_case_series(people=8_000, p=6, seed=5)
    model = SelfControlledCaseSeries().fit(data.X, data.y, **data.fit_params)
    assert distance(model, data.truth) < FAR
    assert distance(model, -data.truth) > 10 * FAR


def test_a_confounded_cohort_has_the_effect_given_its_covariates():
    data = simulate_confounded_cohort(20_000, p=30, n_confounders=10, effect=0.5, seed=2)
    X = np.column_stack([data.treated, data.X.toarray()])
    adjusted = CoxRegression().fit(X, data.y)
    lower, upper = adjusted.confint("x0", level=0.9999).loc["x0"]
    assert lower < 0.5 < upper
    score = LogisticRegression().fit(data.X, data.treated)
    assert distance(score, data.truth) < FAR_OF_30


def test_a_cohort_without_an_effect_is_confounded():
    data = simulate_confounded_cohort(20_000, p=30, n_confounders=10, seed=2)
    crude = CoxRegression().fit(data.treated[:, None], data.y)
    assert crude.confint(level=0.9999).loc["x0", "lower"] > 0
    adjusted = CoxRegression().fit(np.column_stack([data.treated, data.X.toarray()]), data.y)
    lower, upper = adjusted.confint("x0", level=0.9999).loc["x0"]
    assert lower < 0 < upper


@pytest.mark.parametrize("simulate", [
    lambda **k: simulate_regression("cox", **k), simulate_confounded_cohort,
    lambda **k: simulate_case_series(people=500, periods=4, **k),
])  # fmt: skip
def test_the_same_seed_gives_the_same_data(simulate):
    one, same, other = (simulate(p=25, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.y, same.y)
    assert (one.X != same.X).nnz == 0
    assert not np.array_equal(one.truth, other.truth)
    assert set(np.unique(one.X.data)) == {1.0}


def test_effects_of_few_columns():
    data = simulate_regression("logistic", n=2000, p=300, n_effects=3, effect_sd=2.0, seed=4)
    assert (data.truth != 0).sum() == 3
    model = LogisticRegression(prior=Laplace(), cv=5).fit(data.X, data.y)
    assert set(np.flatnonzero(data.truth)) & set(np.argsort(-np.abs(model.coef_))[:3])


@pytest.mark.parametrize(
    ("simulate", "words"),
    [
        (lambda: simulate_regression("gamma"), "family must be one of"),
        (lambda: simulate_regression("cox", n=0), "n must be a whole number"),
        (lambda: simulate_regression("cox", density=0.0), "density must be"),
        (lambda: simulate_regression("cox", p=5, n_effects=6), "n_effects must be from 0 to 5"),
        (lambda: simulate_confounded_cohort(p=5), "n_confounders must be from 0 to 5"),
        (lambda: simulate_case_series(rate=0.0), "rate must be positive"),
        (lambda: simulate_case_series(people=1, rate=1e-9), "Nobody has an event"),
    ],
)
def test_refusals(simulate, words):
    with pytest.raises(DataError, match=words):
        simulate()
