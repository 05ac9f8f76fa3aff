"""Columns that join before the first step."""

import numpy as np
import pytest

from simulators import indicators, outcome
from steropes import CoxRegression, Laplace, LogisticRegression, Surv
from steropes.solve.proximal_newton import newton_batch as batch
from tuning import tune_solver

MODELS = {"logistic": LogisticRegression, "cox": CoxRegression}


@pytest.mark.parametrize("most", [0.0, 1.0])
@pytest.mark.parametrize("family", MODELS)
def test_of_few_columns_those_near_to_mattering_or_all_join_at_once(family, most, rng, monkeypatch):
    """Beside a column without penalty."""
    X = indicators(rng, 400, 55)
    y = outcome(family, X @ np.append(rng.normal(size=30), np.zeros(25)), rng)
    y = Surv(*y) if family == "cox" else y
    model = MODELS[family](prior=Laplace(0.1, exclude=[0]), tol=1e-10)
    expected = model.fit(X, y).coef_
    assert 10 < np.count_nonzero(expected) < 45
    joined, descend = [], batch.Batch._descend

    def noted(self, *given):
        joined.append(len(self.term.W))
        return descend(self, *given)

    monkeypatch.setattr(batch.Batch, "_descend", noted)
    tune_solver(monkeypatch, "working_set", min_violators=20)
    tune_solver(monkeypatch, "working_set", most=most)
    np.testing.assert_allclose(model.fit(X, y).coef_, expected, atol=1e-8)
    assert max(joined) >= 55 if most == 0.0 else 20 < joined[0] < 55


def test_without_a_continuation_all_columns_may_be_needed(rng):
    X = indicators(rng, 1500, 1000, 0.05)
    y = outcome("logistic", X @ np.append(0.5 * rng.normal(size=620), np.zeros(380)), rng)
    model = LogisticRegression(prior=Laplace(0.3)).fit(X, y)
    assert model.converged_
    r = y - model.predict_proba(X)[:, 1]
    slope, lam = X.T @ r, np.sqrt(2 / 0.3)
    assert np.abs(slope).max() < lam * (1 + 1e-7)
    np.testing.assert_allclose(slope[model.coef_ > 0], lam, rtol=1e-6)
