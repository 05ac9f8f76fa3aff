"""Detection limits and intervals: Turnbull's levels, certified maxima, plain meanings."""

import numpy as np
import pytest
from scipy import optimize

from steropes import DataError
from steropes.data.kaplan_meier import product_limit
from steropes.likelihoods.cumulative import (
    CumulativeRows,
    Thresholds,
    check_interval,
    find_levels,
)
from steropes.models.cumulative import Censored, CumulativeProbabilityModel

INF = np.inf


def levels(lower, upper):
    y = Censored(lower, upper)
    return find_levels(check_interval(y, len(y)), np.ones(len(y), bool))


def test_levels_are_turnbulls_innermost_intervals():
    """(0, 2], (1, 3], [2], (2, 5], (4, 6]: mass at 2, in (2, 3] and (4, 5]."""
    L = levels([0, 1, 2, 2, 4], [2, 3, 2, 5, 6])
    np.testing.assert_array_equal(L.values, [2, 3, 5])
    back = np.argsort(L.order)
    np.testing.assert_array_equal(L.low[back], [-1, -1, -1, 0, 1])
    np.testing.assert_array_equal(L.up[back], [0, 1, 0, 2, 2])


def test_exact_value_at_a_bound_belongs_to_the_interval_that_ends_there():
    """(1, 2] covers an outcome of 2 but none of 1, and Y > 2 does not cover 2."""
    L = levels([1, 2, 1, 2, -INF, 3], [1, 2, 2, INF, 1, 3])
    np.testing.assert_array_equal(L.values, [1, 2, 3])
    back = np.argsort(L.order)
    np.testing.assert_array_equal(L.low[back], [-1, 0, 0, 1, -1, 1])
    np.testing.assert_array_equal(L.up[back], [0, 1, 1, 2, 0, 2])


def test_lower_limit_alone_is_its_own_lowest_outcome(data):
    """Outcomes below an assay's limit are one tied class below all others."""
    X, y = data
    low, high = y.copy(), y.copy()
    low[y <= 3], high[y <= 3] = -INF, 3
    a = CumulativeProbabilityModel().fit(X, Censored(low, high))
    b = CumulativeProbabilityModel().fit(X, np.maximum(y, 3))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    np.testing.assert_allclose(a.alpha_, b.alpha_, rtol=1e-9)
    np.testing.assert_array_equal(a.thresholds_, b.thresholds_)


def test_upper_limit_alone_is_one_highest_class(data):
    X, y = data
    low, high = y.copy(), y.copy()
    low[y > 20], high[y > 20] = 20, INF
    a = CumulativeProbabilityModel().fit(X, Censored(low, high))
    b = CumulativeProbabilityModel().fit(X, np.minimum(y, 21))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    np.testing.assert_allclose(a.alpha_, b.alpha_, rtol=1e-9)
    assert a.levels_[-1] == INF
    assert (a.predict_cdf(X[:3], 1e9) < 1).all()
    assert (a.predict_quantile(X, 0.999) == INF).any()
    b.levels_[-1] = 20
    np.testing.assert_allclose(a.predict_mean(X), b.predict_mean(X), rtol=1e-9)


def test_right_censoring_at_random_without_effect_is_kaplan_meier():
    """With a covariate that is balanced in every pattern, β = 0 and F(α) is Kaplan–Meier's."""
    rng = np.random.default_rng(0)
    t, event = rng.integers(1, 30, 80).astype(float), rng.random(80) < 0.6
    t = np.concatenate([t, t])
    event = np.concatenate([event, event])
    x = np.repeat([-1.0, 1.0], 80)[:, None]
    m = CumulativeProbabilityModel().fit(x, Censored(t, np.where(event, t, INF)))
    assert abs(m.coef_[0]) < 1e-9
    km = product_limit(t, event)
    at = m.thresholds_
    np.testing.assert_allclose(m.predict_exceedance([[0.0]], at)[0], km.at(at), rtol=1e-8)


@pytest.mark.sampled
@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("seed", range(2))
def test_interval_censoring_reaches_the_constrained_maximum(link, seed):
    """Some innermost intervals end without mass; the maximum over α ≤ α' ≤ … is reached."""
    rng = np.random.default_rng(seed)
    n = 50
    X = rng.normal(size=(n, 2))
    z = X @ [1.0, -0.5] + rng.logistic(size=n)
    low = np.floor(z - rng.uniform(0, 4, n))
    high = low + rng.integers(1, 5, n) + rng.integers(0, 2, n) * 0.25
    kind = rng.integers(0, 4, n)
    low, high = np.where(kind == 0, -INF, low), np.where(kind == 1, INF, high)
    y = Censored(low, high)
    m = CumulativeProbabilityModel(link=link).fit(X, y)
    assert m.converged_
    L = find_levels(check_interval(y, n), np.ones(n, bool))
    whole = CumulativeRows(L, link, np.ones(n), m._problem.likelihood.backend)
    K = whole.K

    def loss(theta):
        alpha = theta[0] + np.r_[0, np.cumsum(theta[1:K] ** 2)]
        return whole.loss(Thresholds(alpha, np.diff(alpha, prepend=0.0)), X[L.order] @ theta[K:])

    best = min(
        optimize.minimize(
            loss,
            np.concatenate([[-2.0], np.full(K - 1, s), np.zeros(2)]),
            method="L-BFGS-B",
            options={"maxiter": 3000, "maxfun": 10**6, "ftol": 1e-14},
        ).fun
        for s in (0.5, 0.7)
    )
    assert -m.log_likelihood_ == pytest.approx(best, abs=1e-6)
    assert -m.log_likelihood_ <= best + 1e-9


def test_censored_slices_like_an_array_and_refuses_nonsense():
    y = Censored([1.0, -INF, 2.0], [1.0, 4.0, INF])
    assert y[1:]["upper"].tolist() == [4.0, INF]
    for lower, upper, what in (
        ([1.0], [np.nan], "row 0 is NaN"),
        ([0.0, 2.0], [1.0, 1.0], "row 1 has lower > upper"),
        ([-INF], [INF], "row 0 has no bound"),
        ([INF], [INF], "row 0 is infinite"),
        ([0.0, 1.0], [1.0], "alike"),
    ):
        with pytest.raises(DataError, match=what):
            Censored(lower, upper)
