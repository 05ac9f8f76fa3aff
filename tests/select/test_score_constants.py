"""Scores are log-likelihoods with all of their constants, which are in their standard error."""

from __future__ import annotations

import numpy as np
from scipy.stats import multinomial, poisson

from steropes import ConditionalPoissonRegression, CrossValidation, Laplace, PoissonRegression


def _thirds(n, rows_of_unit=1):
    fold = np.arange(n) // rows_of_unit % 3
    return fold, [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]


def test_a_poisson_score_is_the_log_probability_of_the_counts(rng):
    X = rng.normal(size=(90, 3))
    y, t = rng.poisson(np.exp(3 + 0.2 * X[:, 0])), rng.uniform(0.5, 2, 90)
    fold, splits = _thirds(90)
    cv = CrossValidation(splits, search=[0.001, 0.1], tol=1e-8)
    table = PoissonRegression(prior=Laplace(), cv=cv).fit(X, y, exposure=t).cv_results_
    for variance, row in zip([0.001, 0.1], table.filter(like="fold").to_numpy(), strict=True):
        for f in range(3):
            own, out = fold != f, fold == f
            m = PoissonRegression(prior=Laplace(variance)).fit(X[own], y[own], exposure=t[own])
            expected = poisson.logpmf(y[out], m.predict(X[out], exposure=t[out])).sum()
            np.testing.assert_allclose(row[f], expected, atol=1e-5)


def test_a_conditional_poisson_score_is_that_of_multinomial_counts(rng):
    X, strata = rng.normal(size=(90, 3)), np.arange(90) // 5
    y = rng.poisson(np.exp(3 + 0.2 * X[:, 0]))
    fold, splits = _thirds(90, 5)
    cv = CrossValidation(splits, search=[0.01], tol=1e-8)
    model = ConditionalPoissonRegression(prior=Laplace(0.01), cv=cv)
    row = model.fit(X, y, strata=strata).cv_results_.filter(like="fold").to_numpy()[0]
    for f in range(3):
        own, expected = fold != f, 0.0
        m = ConditionalPoissonRegression(prior=Laplace(0.01))
        m.fit(X[own], y[own], strata=strata[own])
        for s in np.unique(strata[fold == f]):
            share = np.exp(X[strata == s] @ m.coef_)
            counts = y[strata == s]
            expected += multinomial.logpmf(counts, counts.sum(), share / share.sum())
        np.testing.assert_allclose(row[f], expected, atol=1e-5)


def test_frequent_counts_do_not_hide_what_is_there_from_the_one_standard_error_rule(rng):
    """Folds differ in their counts by far more than in how well these are predicted."""
    X = rng.normal(size=(400, 20))
    y = rng.poisson(np.exp(4 + 0.2 * X[:, 0] + 0.1 * X[:, 1]))
    cv = CrossValidation(10, rule="one_standard_error", random_state=1)
    model = PoissonRegression(prior=Laplace(), cv=cv).fit(X, y)
    assert {0, 1} <= set(np.flatnonzero(model.coef_))
    assert (model.coef_ != 0).sum() < 8
    strata = np.arange(400) // 4
    model = ConditionalPoissonRegression(prior=Laplace(), cv=cv).fit(X, y, strata=strata)
    assert {0, 1} <= set(np.flatnonzero(model.coef_))
    assert (model.coef_ != 0).sum() < 8
