"""Weights of conditional models: a weight of 2 is a row twice, in the log-likelihood too."""

import numpy as np
import pytest

from steropes import (
    ConditionalLogisticRegression,
    ConditionalPoissonRegression,
    CoxRegression,
    Normal,
    PoissonRegression,
    SelfControlledCaseSeries,
    Surv,
)


def data(rng, n=90):
    strata = np.r_[np.repeat(np.arange((n - 12) // 3), 3), 1000 + np.arange(12)]  # singles too
    by = rng.permutation(n)
    X = rng.normal(size=(n, 2))
    y = (rng.random(n) < 0.5).astype(float)
    y[-4:] = 1.0
    return X[by], y[by], strata[by]


def repeated(w, *arrays):
    return (np.repeat(a, w.astype(int), axis=0) for a in arrays)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_a_conditional_model_is_coxs_by_strata_with_its_log_likelihood(rng, ties):
    X, y, strata = data(rng)
    w = rng.integers(0, 4, len(y)).astype(float)
    m = ConditionalLogisticRegression(method=ties).fit(X, y, strata=strata, sample_weight=w)
    cox = CoxRegression(ties=ties).fit(X, Surv(np.ones(len(y)), y), strata=strata, sample_weight=w)
    np.testing.assert_allclose(m.coef_, cox.coef_, atol=1e-7)
    assert m.log_likelihood_ == pytest.approx(cox.log_likelihood_, abs=1e-9)


def test_weight_two_is_the_row_twice_by_breslows_method(rng):
    X, y, strata = data(rng)
    w = rng.integers(0, 4, len(y)).astype(float)
    m = ConditionalLogisticRegression(method="breslow")
    one = m.fit(X, y, strata=strata, sample_weight=w).log_likelihood_
    X2, y2, s2 = repeated(w, X, y, strata)
    assert m.fit(X2, y2, strata=s2).log_likelihood_ == pytest.approx(one, abs=1e-9)


def test_weight_two_is_the_set_twice_by_the_exact_method(rng):
    X, y, strata = data(rng)
    w = np.random.default_rng(1).integers(0, 3, 2000)[strata].astype(float)
    m = ConditionalLogisticRegression()
    one = m.fit(X, y, strata=strata, sample_weight=w).log_likelihood_
    copies = [strata + 5000 * k for k in range(2)]
    rows = [np.flatnonzero(w > k) for k in range(2)]
    at = np.concatenate(rows)
    labels = np.concatenate([c[r] for c, r in zip(copies, rows, strict=True)])
    two = m.fit(X[at], y[at], strata=labels).log_likelihood_
    assert two == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize("model", [ConditionalPoissonRegression, SelfControlledCaseSeries])
def test_weight_two_is_the_row_twice_among_counts(rng, model):
    X, y, strata = data(rng)
    y = y * rng.integers(1, 4, len(y))
    t = rng.uniform(0.5, 2.0, len(y))
    w = rng.integers(0, 4, len(y)).astype(float)
    m = model().fit(X, y, strata=strata, exposure=t, sample_weight=w)
    X2, y2, s2, t2 = repeated(w, X, y, strata, t)
    two = model().fit(X2, y2, strata=s2, exposure=t2)
    np.testing.assert_allclose(m.coef_, two.coef_, atol=1e-7)
    assert m.log_likelihood_ == pytest.approx(two.log_likelihood_, abs=1e-9)


def test_the_others_constants_are_as_they_were(rng):
    X, y = rng.normal(size=(50, 2)), rng.poisson(2.0, 50).astype(float)
    w = rng.integers(0, 3, 50).astype(float)
    one = PoissonRegression(prior=Normal()).fit(X, y, sample_weight=w).log_likelihood_
    X2, y2 = repeated(w, X, y)
    two = PoissonRegression(prior=Normal()).fit(X2, y2).log_likelihood_
    assert one == pytest.approx(two, abs=1e-9)
