"""Models over time in blocks: people are whole there, and the fit is that of one matrix."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import steropes
from steropes import CrossValidation, Laplace, Normal, ShardedDesign, Surv
from steropes.fit.shards.sharded_problem import ShardedProblem

CUTS = (0, 150, 160, 400)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.random((400, 5)) < 0.3, rng.normal(3e4, 2e3, (400, 2))])
    time = rng.exponential(np.exp(-X[:, 0] + 3e-4 * (X[:, 5] - 3e4))) + 0.02
    y = Surv(np.ceil(10 * np.minimum(time, 4)) / 10, rng.integers(0, 2, 400))
    given = {"sample_weight": rng.integers(0, 3, 400), "offset": rng.normal(size=400) / 2}
    return X, y, given


def in_blocks(X):
    return ShardedDesign.from_blocks([X[a:b] for a, b in pairwise(CUTS)])


POOLED = [
    {"interval": 0.5},
    {"interval": 0.5, "time_varying": {"x0": 1, "x5": 1}},
    {"interval": 1.0, "baseline": "interval"},
]
COX = [
    {"time_varying": {"x0": [0.5]}},
    {"time_varying": {"x0": [0.3, 0.7], "x5": [0.7]}, "ties": "breslow"},
]
CASES = [
    *((steropes.PooledLogisticRegression, s) for s in POOLED),
    *((steropes.CoxRegression, s) for s in COX),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("estimator", "settings"), CASES)
@pytest.mark.parametrize("prior", [None, Laplace(0.2)])
def test_a_fit_in_blocks_is_the_fit(estimator, settings, prior, data):
    X, y, given = data
    one, blocks = (estimator(prior=prior, **settings).fit(Z, y, **given) for Z in (X, in_blocks(X)))
    assert isinstance(blocks._problem, ShardedProblem)
    assert blocks.converged_
    unit = np.concatenate([np.ones(5), [2e3, 2e3]])
    unit = np.append(unit, np.tile(2e3, len(one.coef_) - 7))
    np.testing.assert_allclose(blocks.coef_ * unit, one.coef_ * unit, rtol=1e-7, atol=2e-7)
    assert blocks.log_likelihood_ == pytest.approx(one.log_likelihood_, rel=1e-11)
    if not isinstance(prior, Laplace):
        np.testing.assert_allclose(blocks.summary(), one.summary(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        blocks.predict_survival(in_blocks(X), [1.0]), one.predict_survival(X, [1.0]), rtol=1e-6
    )


@pytest.mark.parametrize("baseline", [1, 2, 4])
def test_sparse_blocks_have_the_standard_errors_of_the_dense_matrix(baseline, data):
    X, y, given = data
    model = {"interval": 0.5, "baseline": baseline, "prior": Normal(1.0)}
    one, blocks = (
        steropes.PooledLogisticRegression(**model).fit(Z, y, **given)
        for Z in (X[:, :5], in_blocks(sparse.csr_array(X[:, :5])))
    )
    np.testing.assert_allclose(blocks.vcov(), one.vcov(), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("strata", [False, True])
@pytest.mark.parametrize("entry", [False, True])
def test_step_effects_with_entry_and_strata(strata, entry, data):
    X, y, given = data
    rng = np.random.default_rng(2)
    late = y["time"] * rng.random(400) * 0.8 if entry else None
    y = Surv(y["time"], y["event"], entry=late)
    more = {"strata": rng.integers(0, 4, 400)} if strata else {}
    model = {"time_varying": {"x1": [0.7]}, "prior": Normal(1.0)}
    one, blocks = (
        steropes.CoxRegression(**model).fit(Z, y, **given, **more) for Z in (X, in_blocks(X))
    )
    np.testing.assert_allclose(blocks.coef_, one.coef_, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("estimator", "settings"), [CASES[0], CASES[3]])
def test_a_cross_validation_chooses_the_same(estimator, settings, data):
    X, y, given = data
    cv = CrossValidation(4, random_state=2)
    one, blocks = (
        estimator(prior=Laplace(), cv=cv, **settings).fit(Z, y, **given) for Z in (X, in_blocks(X))
    )
    assert blocks.variance_ == one.variance_
    np.testing.assert_allclose(blocks.cv_results_["mean"], one.cv_results_["mean"], rtol=1e-7)


def test_profiles_and_robust_errors_in_blocks_are_those_of_one(data):
    X, y, given = data
    X = X[:, :5]
    for estimator, settings in (CASES[0], CASES[3]):
        one, blocks = (estimator(**settings).fit(Z, y, **given) for Z in (X, in_blocks(X)))
        for ask in (
            lambda m: m.confint(["x1"], method="profile"),
            lambda m: m.vcov("robust"),
            lambda m: m.inference.bootstrap(2, random_state=1).coef,
        ):
            np.testing.assert_allclose(ask(blocks), ask(one), rtol=1e-3, atol=1e-5)


def test_a_profile_of_the_baseline_is_at_the_origin_of_dense_columns(data):
    X, y, given = data
    model = {"interval": 1.0, "baseline": 1}
    one, blocks = (
        steropes.PooledLogisticRegression(**model).fit(Z, y, **given) for Z in (X, in_blocks(X))
    )
    values = one._coefficients()[0] + np.array([-1.0, 0.5])
    a, b = (m.inference.profile(0, points=values) for m in (one, blocks))
    np.testing.assert_allclose(b, a, rtol=1e-7)
