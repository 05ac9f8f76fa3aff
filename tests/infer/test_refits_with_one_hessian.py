"""Draws of people whose steps correct one Hessian (BFGS) equal fits from scratch by the solver."""

import numpy as np
import pandas as pd
import pytest

from steropes import LogisticRegression, PooledLogisticRegression, SeparationError, Surv
from steropes.data.interval_weights import IntervalWeights
from steropes.infer import refits_with_one_hessian
from steropes.infer.bootstrap import fit_draws
from steropes.models.repeated_fits.draws_of_people import RefitsWithIntervalWeights, refit_to_draws

PEOPLE, DRAWS = 300, 12


@pytest.fixture(scope="module")
def rows():
    """Few events, so that the Hessians of draws are far from that of all people."""
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(PEOPLE), 3)
    n = len(person)
    X = pd.DataFrame({"age": rng.normal(size=n), "drug": rng.integers(0, 2, n), "rare": 0})
    X.loc[[3, 301, 602, 800], "rare"] = 1
    chance = 1 / (1 + np.exp(3.2 - 0.8 * X["age"] - 0.5 * X["drug"]))
    y = (rng.random(n) < chance).astype(int)
    y[3], y[301] = 1, 0
    drawn = rng.integers(0, PEOPLE, (DRAWS, PEOPLE))
    return X, y, person, np.array([np.bincount(d, minlength=PEOPLE) for d in drawn])


def draws_refitted(model, times, person, monkeypatch):
    """Refit the draws; also return how many the full solver fitted."""
    left = []

    def counted(problem, beta, l1, l2, draws):
        left.append(len(draws.seeds))
        return fit_draws(problem, beta, l1, l2, draws)

    monkeypatch.setattr(refits_with_one_hessian, "fit_draws", counted)
    return refit_to_draws(model, times, person), sum(left)


def test_logistic_draws_equal_fits_from_scratch(rows, monkeypatch):
    X, y, person, times = rows
    found, left = draws_refitted(LogisticRegression().fit(X, y), times, person, monkeypatch)
    infinite = 0
    for coef, drawn in zip(found, times, strict=True):
        try:
            alone = LogisticRegression(tol=1e-9).fit(X, y, sample_weight=drawn[person])
        except SeparationError:
            infinite += 1
            assert not np.isfinite(coef).all()
            continue
        scratch = [alone.intercept_, *alone.coef_.ravel()]
        np.testing.assert_allclose(coef, scratch, atol=1e-4)
    assert 0 < infinite < DRAWS
    assert left == infinite  # BFGS reached all others.


def test_pooled_draws_equal_fits_from_scratch(rows, monkeypatch):
    X, y, person, times = rows
    X, y = X[["age", "drug"]], Surv(1 + np.arange(len(y)) % 5, y)
    model = PooledLogisticRegression(interval=1).fit(X, y)
    found, left = draws_refitted(model, times, person, monkeypatch)
    for coef, drawn in zip(found, times, strict=True):
        alone = PooledLogisticRegression(interval=1, tol=1e-9)
        alone.fit(X, y, sample_weight=drawn[person])
        np.testing.assert_allclose(coef, [*alone.baseline_coef_, *alone.coef_], atol=1e-4)
    assert left == 0


def test_draws_with_interval_weights_of_their_own_equal_fits_from_scratch(rows):
    X, y, person, times = rows
    X, y = X[["age", "drug"]], Surv(1 + np.arange(len(y)) % 5, y)
    rng, n = np.random.default_rng(1), len(person)
    model = PooledLogisticRegression(interval=1).fit(X, y, interval_weights=np.ones((n, 5)))
    refits = RefitsWithIntervalWeights(model)
    for drawn in times:
        W = rng.gamma(2, 0.5, (n, 5))
        w = drawn[person].astype(float)
        own = IntervalWeights(W.ravel(), np.arange(n) * 5, np.ones(n))
        alone = PooledLogisticRegression(interval=1, tol=1e-9)
        alone.fit(X, y, sample_weight=w, interval_weights=W)
        scratch = [*alone.baseline_coef_, *alone.coef_]
        np.testing.assert_allclose(refits.fit(w, own), scratch, atol=1e-4)
