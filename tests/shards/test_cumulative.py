"""Cumulative models of rows in blocks: thresholds that all rows share, and the same fit."""

from itertools import pairwise

import joblib
import numpy as np
import pytest

from steropes import CrossValidation, Laplace, Normal, ShardedDesign
from steropes.models.cumulative import Censored, CumulativeProbabilityModel, DivideAndCombine
from steropes.solve.hessian import profiled

CUTS = (0, 90, 95, 200)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.random((200, 3)) < 0.3, rng.normal(3, 2, (200, 2))]).astype(float)
    y = np.exp(X[:, :2] @ [1.0, -0.5] + rng.logistic(size=200))
    given = {"sample_weight": rng.integers(0, 3, 200), "offset": rng.normal(size=200)}
    return X, y, given


def in_blocks(X, cuts=CUTS):
    return ShardedDesign.from_blocks([X[a:b] for a, b in pairwise(cuts)])


def of_kind(kind, y):
    if kind == "ordinal":
        return np.digitize(y, [0.5, 1, 2, 4])
    if kind == "censored":  # intervals over several levels: the thresholds' block is no chain
        end = np.where(np.arange(len(y)) % 3 == 0, y * 1.5, y)
        return Censored(np.where(np.arange(len(y)) % 7 == 0, y * 0.6, y), end)
    return y


@pytest.mark.parametrize("kind", ["continuous", "ordinal", "censored"])
@pytest.mark.parametrize("link", ["logit", "cauchit"])
@pytest.mark.parametrize("prior", [None, Laplace(0.05)])
def test_a_cumulative_fit_in_blocks_is_the_fit(kind, link, prior, data):
    X, y, given = data
    one, blocks = (
        CumulativeProbabilityModel(link=link, prior=prior).fit(Z, of_kind(kind, y), **given)
        for Z in (X, in_blocks(X))
    )
    assert blocks.optimality_ <= blocks.tol
    np.testing.assert_allclose(blocks.coef_, one.coef_, atol=2e-8)
    np.testing.assert_allclose(blocks.alpha_, one.alpha_, atol=2e-8)
    if prior is None:
        for ask in (
            lambda m: m.alpha_summary(),
            lambda m: m.vcov("robust"),
            lambda m: m.model_tests(),
        ):
            np.testing.assert_allclose(ask(blocks), ask(one), rtol=1e-5, atol=1e-7)


def test_choices_draws_profiles_and_predictions_in_blocks(data):
    X, y, given = data
    cv, Z = CrossValidation(3, random_state=1), in_blocks(X)
    one, blocks = (
        CumulativeProbabilityModel(prior=Normal(), cv=cv).fit(D, y, **given) for D in (X, Z)
    )
    assert blocks.variance_ == one.variance_
    for ask in (
        lambda m, D: m.cv_results_["mean"],
        lambda m, D: m.bootstrap(2, random_state=1).coef,
        lambda m, D: m.confint(["x0"], method="profile"),
        lambda m, D: m.predict_cdf(D, [0.5, 2.0], offset=given["offset"], level=0.9).lower,
        lambda m, D: m.fit(D, y).coef_,  # once more, with nothing of the first fit
    ):
        np.testing.assert_allclose(ask(blocks, Z), ask(one, X), rtol=1e-6, atol=1e-7)


def test_subsets_of_rows_in_blocks(data):
    X, y, _ = data
    model = CumulativeProbabilityModel(reduce=DivideAndCombine(2), random_state=1)
    one, blocks = (model.fit(Z, y).coef_ for Z in (X, in_blocks(X)))
    np.testing.assert_allclose(blocks, one, atol=2e-8)


def test_many_thresholds_are_pooled_for_steps_and_not_for_errors(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(profiled, "POOL", 20)
    one, blocks = (CumulativeProbabilityModel().fit(Z, y) for Z in (X, in_blocks(X)))
    np.testing.assert_allclose(blocks.coef_, one.coef_, atol=2e-8)
    np.testing.assert_allclose(blocks.vcov(), one.vcov(), rtol=1e-6)


def test_draws_of_blocks_stay_where_the_blocks_are(data, monkeypatch):
    X, y, _ = data
    model = CumulativeProbabilityModel().fit(in_blocks(X), y)
    here = model.bootstrap(2, random_state=1).coef
    monkeypatch.setattr(ShardedDesign, "__getstate__", None)  # it may hold a client
    with joblib.parallel_config(backend="loky", n_jobs=2):
        np.testing.assert_array_equal(model.bootstrap(2, random_state=1).coef, here)
