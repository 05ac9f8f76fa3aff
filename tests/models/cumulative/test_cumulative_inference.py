"""Structured standard errors against the dense inverse of the whole Hessian."""

import numpy as np
import pytest
from dense_hessian import dense_negative_hessian
from scipy import stats

from steropes.likelihoods.cumulative import CODES
from steropes.models.cumulative import Censored, CumulativeProbabilityModel


def censor(y, kind):
    low, high = y.copy(), y.copy()
    if kind == "limits":
        left, right = y <= 2, y >= 30
        low[left], high[left] = -np.inf, 2
        low[right], high[right] = 30, np.inf
    elif kind == "intervals":
        low[:50] = y[:50] - 1 - np.arange(50) % 4
    return y if kind is None else Censored(low, high)


@pytest.fixture(params=[None, "limits", "intervals"])
def kind(request):
    return request.param


@pytest.fixture(params=CODES)
def fitted(request, kind, data):
    X, y = data
    X, y = X[:90], np.minimum(y[:90], 40)
    w = 1.0 + np.arange(90) % 3
    m = CumulativeProbabilityModel(link=request.param)
    m.fit(X, censor(y, kind), sample_weight=w)
    part = m._parts[0]
    order = part.likelihood.levels.order
    H = dense_negative_hessian(part.likelihood, m.alpha_, m.coef_, X[order])
    return m, np.linalg.inv(H), X, order


def test_gradient_is_zero_and_all_standard_errors_are_the_dense_inverse(fitted):
    m, inverse, _, _ = fitted
    K = len(m.alpha_)
    assert m.converged_
    size = np.sqrt(np.diag(inverse))
    np.testing.assert_allclose(
        m.vcov() / np.outer(size[K:], size[K:]),
        inverse[K:, K:] / np.outer(size[K:], size[K:]),
        atol=2e-6,
    )
    np.testing.assert_allclose(m.alpha_summary()["se"], size[:K], rtol=2e-6)


def test_delta_method_uses_the_covariances_of_alpha_and_beta(fitted):
    m, inverse, X, _ = fitted
    K, z = len(m.alpha_), stats.norm.ppf(0.95)
    x, points = X[:3], np.array([-1e9, *m.thresholds_[[0, K // 2, K - 1]], 1e9])
    G = np.zeros((K + X.shape[1], 3))
    G[[0, K // 2, K - 1], range(3)] = 1.0
    out = m.predict_cdf(x, points, level=0.9)
    for i in range(3):
        G[K:] = -x[i][:, None]
        se = np.sqrt(np.einsum("ij,ik,kj->j", G, inverse, G))
        F = stats_cdf(m.link)
        u = m.alpha_[[0, K // 2, K - 1]] - x[i] @ m.coef_
        np.testing.assert_allclose(out.se[i, 1:4], stats_pdf(m.link)(u) * se, rtol=1e-5)
        np.testing.assert_allclose(out.estimate[i, 1:4], F(u), rtol=1e-9)
        np.testing.assert_allclose(out.lower[i, 1:4], F(u - z * se), rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(out.upper[i, 1:4], F(u + z * se), rtol=1e-4)
    assert (out.lower[:, 0] == 0).all()
    assert (out.upper[:, 0] == 0).all()
    assert (out.se[:, 0] == 0).all()


def test_mean_and_its_variance_are_those_of_the_dense_inverse(fitted):
    m, inverse, X, _ = fitted
    values = np.where(np.isinf(m.levels_), 30.0, m.levels_)
    F, f = stats_cdf(m.link), stats_pdf(m.link)
    out = m.predict_mean(X[:4], level=0.95)
    for i in range(4):
        u = m.alpha_ - X[i] @ m.coef_
        p = np.diff(np.concatenate([[0.0], F(u), [1.0]]))
        assert out.estimate[i] == pytest.approx(p @ values, rel=1e-9)
        c = -np.diff(values) * f(u)
        g = np.concatenate([c, -c.sum() * X[i]])
        assert out.se[i] == pytest.approx(np.sqrt(g @ inverse @ g), rel=1e-5)


def test_robust_is_the_sandwich_of_the_dense_inverse(fitted):
    m, inverse, X, order = fitted
    part, K = m._parts[0], len(m.alpha_)
    from steropes.likelihoods.cumulative import Thresholds

    ev = part.likelihood.evaluate(
        Thresholds(m.alpha_, np.diff(m.alpha_, prepend=0.0)), X[order] @ m.coef_
    )
    scores = np.zeros((len(order), K + X.shape[1]))
    for i, (low, up) in enumerate(
        zip(part.likelihood.levels.low, part.likelihood.levels.up, strict=True)
    ):
        if up < K:
            scores[i, up] -= ev.la[i]
        if low >= 0:
            scores[i, low] -= ev.lb[i]
        scores[i, K:] += ev.s[i] * X[order[i]]
    sandwich = (inverse @ scores.T @ scores @ inverse)[K:, K:]
    size = np.sqrt(np.diag(sandwich))
    np.testing.assert_allclose(
        m.vcov("robust") / np.outer(size, size), sandwich / np.outer(size, size), atol=1e-5
    )
    label = np.arange(len(X)) // 3
    sums = np.zeros((label.max() + 1, scores.shape[1]))
    np.add.at(sums, label[order], scores)
    cluster = (inverse @ sums.T @ sums @ inverse)[K:, K:]
    size = np.sqrt(np.diag(cluster))
    got = m.vcov(cluster=[f"g{c}" for c in label])
    np.testing.assert_allclose(
        got / np.outer(size, size), cluster / np.outer(size, size), atol=1e-5
    )


def test_normal_prior_adds_its_curvature(data):
    from steropes import Normal

    X, y = data
    m = CumulativeProbabilityModel(prior=Normal(0.05)).fit(X, y)
    order = m._parts[0].likelihood.levels.order
    H = dense_negative_hessian(m._parts[0].likelihood, m.alpha_, m.coef_, X[order])
    K = len(m.alpha_)
    H[K:, K:] += np.eye(X.shape[1]) / 0.05
    np.testing.assert_allclose(np.diag(m.vcov()), np.diag(np.linalg.inv(H))[K:], rtol=1e-5)


def stats_cdf(link):
    return _dist(link).cdf


def stats_pdf(link):
    return _dist(link).pdf


def _dist(link):
    return {
        "logit": stats.logistic,
        "probit": stats.norm,
        "loglog": stats.gumbel_r,
        "cloglog": stats.gumbel_l,
        "cauchit": stats.cauchy,
    }[link]


def test_profile_has_its_top_at_the_estimate_and_the_right_slope(data):
    X, y = data
    m = CumulativeProbabilityModel(link="probit").fit(X, y)
    points = m.coef_[0] + np.array([-0.2, -1e-4, 0.0, 1e-4, 0.3])
    table = m.inference.profile("x0", points)
    ll = table["log_likelihood"].to_numpy()
    assert ll[2] == pytest.approx(m.log_likelihood_, abs=1e-9)
    assert ll.max() == ll[2]
    assert table["gradient"][2] == pytest.approx(0, abs=1e-5)
    for k in (0, 4):
        near = m.inference.profile(0, points[k] + np.array([-1e-4, 1e-4]))["log_likelihood"]
        assert table["gradient"][k] == pytest.approx((near[1] - near[0]) / 2e-4, rel=1e-4)


def test_profile_interval_ends_where_twice_the_likelihood_fell_by_the_quantile(data):
    X, y = data
    m = CumulativeProbabilityModel().fit(X, y)
    ends = m.confint(["x1"], level=0.9, method="profile")
    at = m.inference.profile("x1", ends.to_numpy()[0])["log_likelihood"]
    drop = 2 * (m.log_likelihood_ - at)
    np.testing.assert_allclose(drop, stats.chi2.ppf(0.9, 1), rtol=1e-5)
    wald = m.confint("x1", level=0.9)
    np.testing.assert_allclose(ends, wald, rtol=0.1)
    assert (ends.to_numpy() != wald.to_numpy()).all()


def test_bootstrap_spreads_like_the_robust_errors_and_leaves_the_fit_alone(data):
    X, y = data
    m = CumulativeProbabilityModel().fit(X, y)
    before = m.coef_.copy()
    draws = m.inference.bootstrap(n=150, random_state=0)
    assert draws.coef.shape == (150, 3)
    assert (draws.nonzero == 1).all()
    se = np.sqrt(np.diag(m.vcov("robust")))
    np.testing.assert_allclose(draws.coef.std(axis=0), se, rtol=0.25)
    ends = draws.confint(0.9)
    assert ((ends["lower"] < m.coef_) & (m.coef_ < ends["upper"])).all()
    np.testing.assert_array_equal(m.coef_, before)
    again = m.inference.bootstrap(n=3, random_state=0).coef
    assert (np.abs(again - draws.coef[:3]) < 1e-3 * se).all()
