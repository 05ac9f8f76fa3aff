"""The rules for Hessians, working sets and damping, each by itself."""

import numpy as np
import pytest

from steropes.backends import get_backend
from steropes.backends.thread_pool import ThreadPool
from steropes.design_matrix import as_design
from steropes.likelihoods import LogisticLikelihood
from steropes.solve import Batch
from steropes.solve.data_term import LocalTerm
from steropes.solve.elastic_net_penalty import ElasticNetPenalty
from steropes.solve.proximal_newton.descent_state import DescentState
from steropes.solve.proximal_newton.hessian_damping import Damping
from steropes.solve.proximal_newton.hessian_recomputation import Hessians
from steropes.solve.proximal_newton.newton_batch import most_urgent
from steropes.solve.quasi_newton.bfgs_hessian_updates import BfgsPairs
from steropes.solve.quasi_newton.convergence_rate import Rates
from steropes.solve.solver_constants import StepPolicy, WorkingSetPolicy
from steropes.solve.subproblem import DenseReducedHessian, QuadraticModel


def test_a_replicate_is_slow_where_its_last_step_brought_little():
    rates, todo = Rates(3), np.ones(3, bool)
    rates.record(np.array([1.0, 1.0, 1.0]), todo, fresh=False)
    assert rates.slow(np.array([0.2, 0.5, 0.9]), todo).tolist() == [1, 2]
    assert rates.slow(np.array([0.2, 0.5, 0.9]), np.array([True, False, True])).tolist() == [2]


def test_nothing_is_slow_before_there_was_a_step():
    assert len(Rates(2).slow(np.ones(2), np.ones(2, bool))) == 0
    assert not Rates(2).worth_hessian(np.ones(2), 1e-8, 1.0)


@pytest.mark.parametrize(
    ("rate", "cost", "worth"),
    [(0.5, 3.0, True), (0.5, 60.0, False), (0.11, 3.0, False), (0.95, 1e6, True)],
)
def test_a_hessian_is_worth_the_steps_that_it_saves(rate, cost, worth):
    rates, todo = Rates(1), np.ones(1, bool)
    for violation in (1.0, rate):
        rates.record(np.array([violation]), todo, fresh=False)
    assert rates.worth_hessian(np.array([rate**2]), 1e-8, cost) is worth


def test_many_columns_wait_for_two_steps_before_another_hessian():
    rates, todo = Rates(1), np.ones(1, bool)
    rates.record(np.ones(1), todo, fresh=False)
    assert rates.worth_hessian(np.array([0.95]), 1e-8, 1.0)
    assert not rates.worth_hessian(np.array([0.95]), 1e-8, 1.0, patient=True)
    rates.record(np.array([0.95]), todo, fresh=False)
    assert rates.worth_hessian(np.array([0.94]), 1e-8, 1.0, patient=True)


def test_a_fresh_hessian_makes_what_was_before_it_irrelevant():
    rates, todo = Rates(1), np.ones(1, bool)
    rates.record(np.array([1.0]), todo, fresh=False)
    rates.record(np.array([0.9]), todo, fresh=True)
    assert np.isinf(rates.before).all()
    rates.reset()
    assert np.isinf(rates.last).all()


def test_the_most_urgent_join_first_and_no_more_at_once_than_a_share():
    urgency, policy = np.arange(2000.0), WorkingSetPolicy()
    chosen = most_urgent(urgency, 10, policy)
    assert chosen.tolist() == list(range(2000 - policy.min_batch, 2000))
    assert len(most_urgent(urgency, 1500, policy)) == int(1500 * policy.batch_share)
    assert len(most_urgent(np.zeros(5), 3, policy)) == 0


def test_columns_without_penalty_have_more_room_after_steps_that_went_well():
    damping = Damping(4)
    held = np.array([True, True, True, False])
    damping.stepped(held, np.array([1.0, 1.0, 0.0, 1.0]))
    assert damping.room.tolist() == [2.0, 2.0, 1.0, 1.0]
    damping.stepped(held, np.array([1.0, 0.25, 0.5, 0.5]))
    assert damping.room.tolist() == [4.0, 1.0, 1.0, 1.0]


def test_damping_grows_where_steps_fail_and_shrinks_where_they_go_well():
    damping = Damping(2)
    one = np.array([True, False])
    damping.failed(one)
    damping.failed(one)
    assert damping.level.tolist() == [10.0, 0.0]
    damping.moved(one)
    assert damping.level[0] == pytest.approx(1.0)
    for _ in range(10):
        damping.failed(one)
    assert damping.level[0] >= damping.policy.max_damping
    assert damping.hopeless(np.array([True, True])).tolist() == [True, False]


def test_a_column_without_curvature_goes_no_further_than_the_model_can_tell():
    h, g, beta = np.array([[1e-9], [4.0]]), np.array([[-3.0], [-3.0]]), np.zeros((2, 1))
    l1, l2 = np.ones((2, 1)), np.zeros((2, 1))
    mu = Damping(1).added([0], h, g, beta, l1, l2, trust_radius=2.0)
    assert mu is not None
    assert 2.0 / (h[0] + mu[0]) == pytest.approx(2.0)  # violation over curvature: the reach
    assert mu[1] == 0.0
    assert Damping(1).added([0], h, g, beta, l1, l2, trust_radius=np.inf) is None


def test_a_bfgs_pair_along_rounding_error_is_ignored():
    """Duplicated columns: along their difference G has 1e-16, whose inverse is no curvature."""
    x = np.array([1.0, 1.0, 0.3])
    model = QuadraticModel(DenseReducedHessian(np.outer(x, x), np.zeros(3, bool), ThreadPool(1)))
    sigma, pairs = np.ones((3, 2)), BfgsPairs()
    step = np.array([[1.0, 1.0], [-1.0 + 1e-15, 0.5], [0.0, 0.2]])
    pairs.add(0, step, np.ones(2), 0.0 * step, 0.1 * step, [0, 1])
    low = pairs.terms(0, model, sigma)
    assert low.c[1, 0] == 0.0 < -low.c[1, 1]
    s = step[:, :1]  # what it has got is all that the terms say
    along = (s * (model.product(s, sigma[:, :1]) + low.lanes([0]).product(s))).sum()
    np.testing.assert_allclose(along, 0.1 * (s**2).sum(), rtol=1e-12)


def test_models_are_solved_as_accurately_as_the_hessian_is():
    rates, todo = Rates(1), np.ones(1, bool)
    tightest, loosest = StepPolicy().single_near_shares
    assert rates.reach(np.array([3.0]), False) == loosest  # nothing is known yet
    rates.record(np.array([3.0]), todo, False)
    assert rates.reach(np.array([0.3]), False) == pytest.approx(0.01)
    assert rates.reach(np.array([1e-6]), False) == tightest
    assert rates.reach(np.array([2.9]), False) == loosest
    assert rates.reach(np.array([0.3]), True) == loosest  # of a Hessian that is gone


@pytest.mark.parametrize("lasso", [True, False])
def test_replicates_that_lag_have_hessians_of_their_own_where_these_are_worth_their_cost(
    rng, monkeypatch, lasso
):
    backend = get_backend("cpu", 1)
    X = (rng.random((50, 3)) < 0.5).astype(float)
    likelihood = LogisticLikelihood(rng.integers(0, 2, 50).astype(float), backend)
    hessians = Batch(LocalTerm(as_design(X), likelihood, np.ones((50, 3)), None, 3)).hessians
    monkeypatch.setattr(Hessians, "lasso", lasso)
    penalty = ElasticNetPenalty.of(np.ones(3), np.zeros(3), np.ones(3), 1, 3)
    run, todo = DescentState(penalty, 1e-6, complete=False, lanes=3), np.ones(3, bool)
    run.rates.record(np.ones(3), todo, fresh=True)

    def chosen(cost, *violation):
        monkeypatch.setattr(Hessians, "_cost", cost)
        v = np.array(violation)
        return hessians._in_need(run.rates.slow(v, todo), run, v, todo).tolist()

    assert chosen(1.0, 0.1, 0.5, 0.5) == [1, 2]  # some 13 steps are saved
    assert chosen(10.0, 0.1, 0.5, 0.5) == []
    assert chosen(10.0, 0.1, 0.5, 0.1) == [1]
    assert chosen(1.0, 0.1, 0.5, 0.95) == [1, 2]
    assert chosen(10.0, 0.1, 0.5, 0.95) == ([2] if lasso else [1, 2])  # anything is better


def test_columns_are_looked_at_before_a_hessian_of_those_that_there_are(rng, monkeypatch):
    """Where steps go badly half way: who joins needs one again."""
    n, p = 4000, 60
    X = (rng.random((n, p)) < 0.2).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(1 - X @ rng.normal(size=p) * 0.3))).astype(float)
    term = LocalTerm(as_design(X), LogisticLikelihood(y, get_backend("cpu", 1)), np.ones((n, 1)))
    batch = Batch(term)
    penalty = ElasticNetPenalty.of(np.ones(p), np.zeros(p), term.scale, 1, term.lanes)
    batch.hessians.set_penalty(penalty)
    term.join(np.arange(10))
    batch.hessians.follow()
    monkeypatch.setattr(Hessians, "_newton", False)
    run = DescentState(penalty, 1e-8, complete=False, lanes=term.lanes)
    todo = np.ones(term.lanes, bool)
    half, far = np.full(term.lanes, 0.5), np.full(term.lanes, 2.0)
    assert not batch._look_instead(run, half, todo)  # nothing is known of the rate
    run.rates.record(np.full(term.lanes, 0.6), todo, fresh=False)
    assert batch.hessians.wanting(run, half, todo)
    assert batch._look_instead(run, half, todo)
    assert not batch._look_instead(run, far, todo)  # of what far points say columns join in vain
    run.level = 1  # the last one before the end
    assert not batch._look_instead(run, half, todo)
    run.level = 0
    batch.hessians.fresh = True  # it is of this point already
    assert not batch._look_instead(run, half, todo)
    batch.hessians.fresh = False
    batch.shared.forget()
    assert not batch._look_instead(run, half, todo)  # there is none to go on with
