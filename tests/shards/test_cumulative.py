"""Cumulative models of rows in blocks: thresholds that all rows share, and the same fit."""

from itertools import pairwise

import joblib
import numpy as np
import pytest

from steropes import CrossValidation, Laplace, Normal, ShardedDesign, as_design
from steropes.fit.shards.sharded_problem import ShardedProblem, sharded_problem
from steropes.models.cumulative import Censored, CumulativeProbabilityModel, DivideAndCombine
from steropes.models.fitting.row_arguments import FitInputs
from steropes.solve.hessian import profiled_hessian
from tuning import tune

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


@pytest.mark.sampled
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
            lambda m: m.inference.model_tests(),
        ):
            np.testing.assert_allclose(ask(blocks), ask(one), rtol=1e-5, atol=1e-7)


def with_a_rare_level(y):
    """Five levels, one of two rows: some folds and draws are without it."""
    return np.where(np.isin(np.arange(200), (3, 150)), 9, np.digitize(y, [0.5, 1, 4]))


@pytest.mark.parametrize("levels", [5, 200])
def test_choices_draws_profiles_and_predictions_in_blocks(levels, data):
    X, y, given = data
    y = with_a_rare_level(y) if levels == 5 else y
    cv, Z = CrossValidation(3, random_state=1), in_blocks(X)
    one, blocks = (
        CumulativeProbabilityModel(prior=Normal(), cv=cv).fit(D, y, **given) for D in (X, Z)
    )
    assert blocks.variance_ == one.variance_
    for ask in (
        lambda m, D: m.cv_results_["mean"],
        lambda m, D: m.inference.bootstrap(4, random_state=1).coef,
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
    tune(monkeypatch, profiled_hessian, "SIZES", parameter_groups=20)
    one, blocks = (CumulativeProbabilityModel().fit(Z, y) for Z in (X, in_blocks(X)))
    np.testing.assert_allclose(blocks.coef_, one.coef_, atol=2e-8)
    np.testing.assert_allclose(blocks.vcov(), one.vcov(), rtol=1e-6)


def test_draws_of_blocks_stay_where_the_blocks_are(data, monkeypatch):
    X, y, _ = data
    model = CumulativeProbabilityModel().fit(in_blocks(X), y)
    here = model.inference.bootstrap(2, random_state=1).coef
    monkeypatch.setattr(ShardedDesign, "__getstate__", None)  # it may hold a client
    with joblib.parallel_config(backend="loky", n_jobs=2):
        np.testing.assert_array_equal(model.inference.bootstrap(2, random_state=1).coef, here)


def ordinal(link="logit"):
    return CumulativeProbabilityModel(link=link)


def as_problem(model, design, y, given):
    return model._make_problem(design, FitInputs(y, *given.values()))


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
def test_sums_by_threshold_are_those_of_the_rows(link, data):
    """Losses, gradients, curvature, scores, and where a step leads, of replicates that differ."""
    X, y, given = data
    y, rng = with_a_rare_level(y), np.random.default_rng(1)
    # Rows without weight would have the columns in other units: blocks are scaled by all rows.
    given = {**given, "sample_weight": np.maximum(given["sample_weight"], 1.0)}
    blocks = sharded_problem(as_problem(ordinal(link), in_blocks(X), y, given))
    assert blocks.levels is not None
    whole = as_problem(ordinal(link), as_design(X), y, given)
    w = rng.integers(0, 3, (200, 3)).astype(float)
    w[150, 0] = w[3, 0] = 0.0
    p = X.shape[1]
    beta, D = (np.pad(0.3 * rng.normal(size=(p, 3)), ((0, 0), (0, 1))) for _ in range(2))
    live, t = np.array([True, True, False, False]), np.array([0.5, 1.0, 1.0, 0.0])
    found = []
    for problem in (whole, blocks):
        term = problem.term(w, 3, problem.common().active)
        term.join(np.arange(p))
        for at in (np.zeros((p, 4)), beta):
            term.place(at)
            assert np.isfinite(term.loss).all()
        trial = term.along(D, live)
        seen = [trial.loss(t)]
        trial.commit()
        at = term.curvature(1)
        seen += [
            term.loss,
            term.gradient(),
            term.gradients(1e-8),
            term.nuisance_decrement,
            term.nuisance_error,
        ]
        seen += [term.nuisance(0).thresholds.alpha, at.matrix(), at.matrix(2)[2:], at.diagonal()]
        seen += [at.uncentred(), term.relative(at), term.left_out_score(given["sample_weight"], 0)]
        found.append(seen)
    for a, b in zip(*found, strict=True):
        if a is not None:
            lanes = np.s_[..., :3] if np.shape(a)[-1:] == (4,) else np.s_[...]
            np.testing.assert_allclose(b[lanes], a[lanes], rtol=1e-9, atol=1e-9)


def test_a_step_of_few_levels_sends_no_vector_of_rows(data, monkeypatch):
    X, y, _ = data
    X, y = np.tile(X, (30, 1)), np.digitize(np.tile(y, 30), [0.5, 1, 2, 4])
    design = in_blocks(X, (0, 2000, 6000))
    problem = sharded_problem(as_problem(ordinal(), design, y, dict.fromkeys("ab")))
    largest, ask = [], problem.shards.ask

    def asked(request):
        answers = ask(request)
        largest.append(max(x.size for a in answers for x in a.values()))
        return answers

    monkeypatch.setattr(problem.shards, "ask", asked)
    batch = problem.batch()
    assert batch.solve(*problem.penalties(None), tol=1e-8, max_iter=50)[0].optimality <= 1e-8
    assert max(largest) <= 25  # 5 columns, 4 thresholds


def sharded(problem):
    return isinstance(problem, ShardedProblem)


def test_thresholds_of_many_levels_stay_with_the_rows(data):
    X, y, given = data
    assert not sharded(sharded_problem(as_problem(ordinal(), in_blocks(X), y, given)))
    few = np.digitize(y, [0.5, 1, 2, 4])
    assert sharded(sharded_problem(as_problem(ordinal(), in_blocks(X), few, given)))
    cauchit = as_problem(ordinal("cauchit"), in_blocks(X), few, given)
    assert not sharded(sharded_problem(cauchit))
