"""Fits to very many rows end in as many steps as fits to few, and their certificates hold.

From about a million rows on, the roundings of plain sums were more than the last steps gain.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import steropes

STEPS = 12  # Newton's method takes three to eight


def two_groups(n, seed=0):
    """A 0/1 column, whole days, a third with the event; weights, strata and causes beside."""
    rng = np.random.default_rng(seed)
    x = (rng.random((n, 1)) < 0.5).astype(float)
    event_time = rng.exponential(3000 / np.exp(0.2 * x[:, 0]))
    end = rng.uniform(0, 1500, n)
    time, event = np.floor(np.minimum(event_time, end)) + 1, event_time <= end
    return rng, x, time, event


def assert_ends(model):
    assert model.converged_
    assert model.optimality_ <= model.tol
    assert model.n_iter_ <= STEPS


def test_a_column_that_says_nothing_is_no_violation_however_many_rows():
    """Its score is rounding alone, which grows with the number of events."""
    rng, x, time, event = two_groups(300_000)
    strata = rng.integers(0, 50, len(x))
    X = sparse.csc_array(np.hstack([x, (strata % 2)[:, None], np.ones_like(x)]))
    for ties in ("efron", "breslow"):
        m = steropes.CoxRegression(prior=steropes.Normal(1.0), ties=ties)
        assert_ends(m.fit(X, steropes.Surv(time, event), strata=strata))
        np.testing.assert_allclose(m.coef_[1:], 0.0, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("days", [True, False])
def test_cox_ends_with_three_million_rows(days, ties, seed):
    n = 3_000_000
    rng, x, time, event = two_groups(n, seed)
    y = steropes.Surv(time if days else time - rng.random(n), event)
    assert_ends(steropes.CoxRegression(ties=ties).fit(x, y))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["weights", "strata", "late entry", "fine gray", "logistic",
                                    "poisson", "linear", "pooled", "conditional", "exact",
                                    "cumulative"])  # fmt: skip
def test_every_family_ends_with_three_million_rows(family):
    n = 3_000_000
    rng, x, time, event = two_groups(n)
    X, surv = sparse.csc_array(x), steropes.Surv(time, event)
    eta = 0.2 * x[:, 0] - 1
    if family == "weights":
        m = steropes.CoxRegression().fit(X, surv, sample_weight=rng.uniform(0.5, 2.0, n))
    elif family == "strata":
        m = steropes.CoxRegression().fit(X, surv, strata=rng.integers(0, 50, n))
    elif family == "late entry":
        entered = np.floor(0.5 * time * rng.random(n))
        m = steropes.CoxRegression().fit(X, steropes.Surv(time, event, entered))
    elif family == "fine gray":
        cause = np.where(event, 1 + (rng.random(n) < 0.3), 0)
        m = steropes.FineGrayRegression().fit(X, steropes.Surv(time, cause))
    elif family == "pooled":
        m = steropes.PooledLogisticRegression(interval=300, baseline=1).fit(X, surv)
    elif family == "poisson":
        m = steropes.PoissonRegression().fit(X, np.sort(rng.poisson(np.exp(eta))))
    elif family == "linear":
        m = steropes.LinearRegression().fit(X, np.sort(eta + rng.normal(size=n)))
    elif family == "cumulative":
        y = np.clip(np.round(eta + rng.logistic(size=n)), -4, 4)
        m = steropes.CumulativeProbabilityModel().fit(X, y)
    else:
        y = (eta + rng.logistic(size=n) > 0).astype(int)
        if family == "logistic":
            m = steropes.LogisticRegression().fit(X, np.sort(y))  # a row's order is the user's
        else:
            sets = np.arange(n) // 5 if family == "exact" else rng.integers(0, 50, n)
            method = "exact" if family == "exact" else "breslow"
            m = steropes.ConditionalLogisticRegression(method=method).fit(X, y, strata=sets)
    assert_ends(m)
