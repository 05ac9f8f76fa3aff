"""Columns can leave the working set before its Hessian exists."""

import numpy as np
import pytest

from simulators import indicators, outcome
from steropes import CoxRegression, Laplace, LogisticRegression, Surv
from steropes.backends.thread_pool import ThreadPool
from steropes.solve import batch
from steropes.solve.growing import GrowingMatrix
from steropes.solve.shared_hessian import SharedHessian

MODELS = {"logistic": LogisticRegression, "cox": CoxRegression}


@pytest.mark.parametrize("family", MODELS)
def test_all_columns_join_and_idle_ones_leave_at_once(family, rng, monkeypatch):
    """Beside a column without penalty, of which there is a Hessian already."""
    X = indicators(rng, 400, 55)
    y = outcome(family, X @ np.append(rng.normal(size=30), np.zeros(25)), rng)
    y = Surv(*y) if family == "cox" else y
    model = MODELS[family](prior=Laplace(0.1, exclude=[0]), tol=1e-10)
    expected = model.fit(X, y).coef_
    assert 10 < np.count_nonzero(expected) < 45
    left, keep = [], batch.Batch.keep

    def kept(self, at):
        left.append((self.shared.known, len(self.term.W), len(at)))
        keep(self, at)

    monkeypatch.setattr(batch.Batch, "keep", kept)
    monkeypatch.setattr(batch, "MANY", 20)
    np.testing.assert_allclose(model.fit(X, y).coef_, expected, atol=1e-8)
    (known, before, after), *_ = left
    assert not known
    assert after < before


def test_a_hessian_that_has_not_grown_yet_keeps_what_it_has(rng):
    """Columns have joined that it is not of; some of them stay, and some of the old ones go."""
    A = rng.normal(size=(3, 3))
    shared = SharedHessian(ThreadPool(1))
    shared._exact = GrowingMatrix(A @ A.T, shared.pool)
    shared.h = np.diagonal(shared.G).copy()
    shared.keep(np.array([0, 2, 4]))
    np.testing.assert_array_equal(shared.G, (A @ A.T)[np.ix_([0, 2], [0, 2])])
    np.testing.assert_array_equal(shared.h, np.diagonal(A @ A.T)[[0, 2]])


def test_more_columns_matter_than_there_is_a_way_for(rng):
    X = indicators(rng, 1500, 1000, 0.05)
    y = outcome("logistic", X @ np.append(0.5 * rng.normal(size=620), np.zeros(380)), rng)
    model = LogisticRegression(prior=Laplace(0.3)).fit(X, y)
    assert model.converged_
    r = y - model.predict_proba(X)[:, 1]
    slope, lam = X.T @ r, np.sqrt(2 / 0.3)
    assert np.abs(slope).max() < lam * (1 + 1e-7)
    np.testing.assert_allclose(slope[model.coef_ > 0], lam, rtol=1e-6)
