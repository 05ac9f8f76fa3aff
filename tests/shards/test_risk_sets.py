"""Risk sets with rows of several blocks: exact from sums by event time."""

from itertools import pairwise

import numpy as np
import pytest

import steropes
from steropes import CrossValidation, Laplace, Normal, ShardedDesign, Surv
from steropes.solve.data_term import RiskTerm

CUTS = (0, 150, 160, 400)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.random((400, 5)) < 0.3, rng.normal(3, 2, (400, 2))])
    time = rng.exponential(np.exp(-X[:, 0] + 0.3 * X[:, 5])) + 0.02
    return X, time, rng


def in_blocks(X):
    return ShardedDesign.from_blocks([X[a:b] for a, b in pairwise(CUTS)])


def both(model, X, y, **given):
    one, blocks = (model().fit(Z, y, **given) for Z in (X, in_blocks(X)))
    assert isinstance(blocks._problem.term(), RiskTerm)
    assert blocks.converged_
    np.testing.assert_allclose(blocks.coef_, one.coef_, rtol=2e-8, atol=2e-8)
    assert blocks.log_likelihood_ == pytest.approx(one.log_likelihood_, rel=1e-11)
    return one, blocks


@pytest.mark.sampled
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("strata", [False, True])
def test_cox_across_blocks_is_cox(ties, tied, entry, strata, data):
    X, time, _ = data
    rng = np.random.default_rng(1)
    time = np.ceil(4 * time) / 4 if tied else time
    y = Surv(time, rng.integers(0, 2, 400), entry=time * rng.random(400) * 0.7 if entry else None)
    given = {"strata": rng.integers(0, 5, 400)} if strata else {}
    both(
        lambda: steropes.CoxRegression(ties=ties), X, y,
        sample_weight=rng.integers(0, 3, 400), offset=rng.normal(size=400), **given,
    )  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("strata", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_fine_gray_across_blocks_is_fine_gray(strata, tied, late, data):
    X, time, _ = data
    rng = np.random.default_rng(2)
    time = np.ceil(4 * time) / 4 if tied else time
    entry = np.where(np.arange(400) % 3, 0.9 * time * rng.random(400), 0.0) if late else None
    y = Surv(time, rng.integers(0, 3, 400), entry)
    given = {"strata": rng.integers(0, 4, 400)} if strata else {}
    both(steropes.FineGrayRegression, X, y, sample_weight=rng.random(400), **given)


def test_matched_sets_may_be_cut(data):
    X, _, rng = data
    y, strata = (rng.random(400) < 0.4).astype(int), rng.integers(0, 60, 400)
    both(lambda: steropes.ConditionalLogisticRegression(method="efron"), X, y, strata=strata)


def test_predictors_that_exp_cannot_hold_are_shifted_in_all_blocks_alike(data):
    X, time, _ = data
    rng = np.random.default_rng(3)
    offset = np.where(np.arange(400) % 2, 2000.0, -1500.0) + rng.normal(size=400)
    y, strata = Surv(time, rng.integers(0, 2, 400)), np.arange(400) % 2
    both(steropes.CoxRegression, X, y, offset=offset, strata=strata)


def test_many_event_times_are_merged_for_steps_only(data):
    rng = np.random.default_rng(4)
    n = 1800
    X = (rng.random((n, 8)) < 0.2).astype(float)
    y = Surv(rng.exponential(np.exp(-X[:, 0])), rng.random(n) < 0.6)
    design = ShardedDesign.from_blocks([X[:700], X[700:]])
    for estimator, prior in (
        (steropes.CoxRegression, None), (steropes.CoxRegression, Laplace(0.01)),
        (steropes.FineGrayRegression, Normal(0.1)),
    ):  # fmt: skip
        one, blocks = (estimator(prior=prior).fit(Z, y) for Z in (X, design))
        np.testing.assert_allclose(blocks.coef_, one.coef_, atol=1e-8)
        assert blocks.optimality_ <= blocks.tol


@pytest.mark.sampled
@pytest.mark.parametrize("scoring", ["difference", "held_out"])
@pytest.mark.parametrize("name", ["CoxRegression", "FineGrayRegression"])
def test_cross_validation_across_blocks_chooses_the_same(scoring, name, data):
    X, time, _ = data
    rng = np.random.default_rng(5)
    fine_gray = name == "FineGrayRegression"
    y = Surv(
        time, rng.integers(0, 3 if fine_gray else 2, 400),
        time * rng.random(400) / 2 if fine_gray else None,
    )  # fmt: skip
    cv = CrossValidation(4, random_state=2, scoring=scoring)
    one, blocks = (
        getattr(steropes, name)(prior=Laplace(), cv=cv).fit(Z, y, offset=rng.normal(size=400) * 0)
        for Z in (X, in_blocks(X))
    )
    assert blocks.variance_ == one.variance_
    np.testing.assert_allclose(blocks.cv_results_["mean"], one.cv_results_["mean"], rtol=1e-7)


def test_steps_send_event_times_and_no_rows(data, monkeypatch):
    X, time, _ = data
    rng = np.random.default_rng(6)
    y = Surv(np.ceil(4 * time) / 4, rng.integers(0, 2, 400))
    model = steropes.CoxRegression(prior=Laplace(0.1)).fit(in_blocks(X), y)
    term = model._problem.term()
    largest = 0

    def count(request):
        nonlocal largest
        answers = ask(request)
        for answer in answers:
            largest = max(largest, *(len(np.atleast_1d(v)) for v in answer.values()))
        return answers

    ask = term.shards.ask
    monkeypatch.setattr(term.shards, "ask", count)
    term.join(np.arange(4))
    term.place(np.zeros((term.p, 1)))
    trial = term.along(np.full((4, 1), 0.1), np.ones(1, bool))
    trial.loss(np.ones(1))
    trial.commit()
    term.gradients(1e-6)
    term.curvature(0).matrix()
    assert largest == model._problem.likelihood.risk.m < 60
