"""The trace of the steps, in every kind of fit."""

import pickle

import numpy as np
import pytest

import steropes
from simulators import indicators, problem
from steropes import CoxRegression, CrossValidation, Laplace, LogisticRegression, Surv


@pytest.mark.parametrize("solver", ["newton", "ccd"])
@pytest.mark.parametrize("prior", [None, Laplace(0.05)])
def test_the_trace_ends_where_the_fit_does(rng, solver, prior):
    X, y = problem("logistic", rng)
    m = LogisticRegression(prior=prior, solver=solver, tol=1e-7, max_iter=500).fit(X, y)
    trace = m.trace_
    assert list(trace.columns) == [
        "objective", "violation", "working_set", "nonzero", "hessians", "penalty",
    ]  # fmt: skip
    assert trace.index.name == "step"
    last = trace.iloc[-1]
    assert last["violation"] == m.optimality_
    assert last["nonzero"] == np.count_nonzero(m.coef_) + 1
    assert last["penalty"] == 1
    assert len(trace) == m.n_iter_ + 1 or solver == "newton"
    same = trace["penalty"] == 1
    assert (np.diff(trace["objective"][same]) <= 1e-9 * abs(last["objective"])).all()
    lam = 0.0 if prior is None else (2 / 0.05) ** 0.5 * np.abs(m.coef_).sum()
    assert last["objective"] == pytest.approx(lam - m.log_likelihood_, rel=1e-9)


def test_a_path_of_penalties_shows_and_a_second_fit_has_its_own(rng):
    X = indicators(rng, 600, 300, 0.05)
    y = Surv(rng.exponential(np.exp(-X[:, [1, 5]].sum(axis=1))), rng.random(600) < 0.8)
    m = CoxRegression(prior=Laplace(0.01)).fit(X, y)
    assert (m.trace_["working_set"].iloc[:-1] <= 300).all()
    first = m.trace_
    m.fit(X[:, :3], y)
    assert m.trace_["working_set"].iloc[-1] == 3
    assert first["working_set"].iloc[-1] == 300
    again = pickle.loads(pickle.dumps(m))
    assert again.trace_.equals(m.trace_)


def test_with_cross_validation_it_is_the_final_fit_s(rng):
    X, y = problem("cox", rng)
    y = steropes.Surv(*y)
    m = CoxRegression(prior=Laplace(1.0), cv=CrossValidation(3, random_state=1)).fit(X, y)
    assert m.trace_["violation"].iloc[-1] == m.optimality_
    assert (m.trace_["penalty"] == 1).all()
