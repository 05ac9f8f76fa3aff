"""Robust intervals of predictions: the sandwich for α and β together, against a dense one."""

from dataclasses import replace

import numpy as np
import pytest
from dense_hessian import dense_negative_hessian
from scipy import sparse, stats

from steropes import DataError, Normal
from steropes.infer import cumulative_probability_robust_variances as module
from steropes.infer.inference_constants import BLOCKS
from steropes.likelihoods.cumulative import CODES, Thresholds
from steropes.models.cumulative import Censored, CumulativeProbabilityModel, DivideAndCombine

Model = CumulativeProbabilityModel
DENSITY = {
    "logit": stats.logistic.pdf,
    "probit": stats.norm.pdf,
    "loglog": stats.gumbel_r.pdf,
    "cloglog": stats.gumbel_l.pdf,
    "cauchit": stats.cauchy.pdf,
}

QUANTILE = {
    "logit": stats.logistic.ppf,
    "probit": stats.norm.ppf,
    "loglog": stats.gumbel_r.ppf,
    "cloglog": stats.gumbel_l.ppf,
    "cauchit": stats.cauchy.ppf,
}


def outcome(y, kind):
    low, high = y.copy(), y.copy()
    if kind == "limits":
        low[y <= 2], high[y <= 2] = -np.inf, 2
        low[y >= 30], high[y >= 30] = 30, np.inf
    elif kind == "intervals":
        low[:50] = y[:50] - 1 - np.arange(50) % 4
    return y if kind is None else Censored(low, high)


def influences(m, X):
    """Of every row on (α, β), in the rows' order: minus its score times the dense inverse."""
    part, K = m._parts[0], len(m.alpha_)
    order, levels = part.likelihood.levels.order, part.likelihood.levels
    at = Thresholds(m.alpha_, np.diff(m.alpha_, prepend=0.0))
    ev = part.likelihood.evaluate(at, X[order] @ m.coef_)
    scores = np.zeros((len(X), K + X.shape[1]))
    for i, (low, up) in enumerate(zip(levels.low, levels.up, strict=True)):
        if up < K:
            scores[order[i], up] -= ev.la[i]
        if low >= 0:
            scores[order[i], low] -= ev.lb[i]
        scores[order[i], K:] += ev.s[i] * X[order[i]]
    H = dense_negative_hessian(part.likelihood, m.alpha_, m.coef_, X[order])
    if m.prior_ is not None:
        H[K:, K:] += np.diag(m.prior_.penalty(m._names).l2)
    return scores @ np.linalg.inv(H)


def summed(rows, label):
    out = np.zeros((label.max() + 1, rows.shape[1]))
    np.add.at(out, label, rows)
    return out


def check_predictions(m, X, sandwich, **kind):
    """All predictions' standard errors at three rows against a dense covariance."""
    K, x = len(m.alpha_), X[[0, 7, 20]]
    at = np.array([1, K // 2, K - 1])
    G = np.zeros((K + X.shape[1], 3))
    G[at, range(3)] = 1.0
    cdf = m.predict_cdf(x, m.thresholds_[at], level=0.9, **kind)
    above = m.predict_exceedance(x, m.thresholds_[at], level=0.9, **kind)
    np.testing.assert_array_equal(cdf.se, above.se)
    q = m.predict_quantile(x, [0.3, 0.8], level=0.9, **kind)
    mean = m.predict_mean(x, level=0.9, **kind)
    values = np.where(np.isinf(m.levels_), 30.0, m.levels_)
    for i in range(3):
        G[K:] = -x[i][:, None]
        se = np.sqrt(np.einsum("ij,ik,kj->j", G, sandwich, G))
        f = DENSITY[m.link](m.alpha_[at] - x[i] @ m.coef_)
        np.testing.assert_allclose(cdf.se[i], f * se, rtol=2e-5)
        for j in range(2):
            g = np.zeros(K + X.shape[1])
            g[min(np.searchsorted(m.levels_, q.estimate[i, j]), K - 1)] = 1.0
            g[K:] = -x[i]
            own, eta = np.sqrt(g @ sandwich @ g), x[i] @ m.coef_
            goal = eta + QUANTILE[m.link](0.3 if j == 0 else 0.8)
            ends = m.levels_[np.searchsorted(m.alpha_, goal + np.array([-own, own]))]
            expected = np.inf if np.isinf(ends[1]) else (ends[1] - ends[0]) / 2
            assert q.se[i, j] == pytest.approx(expected, rel=2e-5)
        c = -np.diff(values) * DENSITY[m.link](m.alpha_ - x[i] @ m.coef_)
        g = np.concatenate([c, -c.sum() * x[i]])
        assert mean.se[i] == pytest.approx(np.sqrt(g @ sandwich @ g), rel=2e-5)
    assert (cdf.lower <= cdf.estimate).all()
    assert (cdf.estimate <= cdf.upper).all()


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [None, "limits", "intervals"])
@pytest.mark.parametrize("link", CODES)
def test_predictions_have_the_errors_of_the_dense_sandwich(link, kind, data):
    X, y = data
    X, y = X[:90], np.minimum(y[:90], 40)
    w = 1.0 + np.arange(90) % 3
    m = Model(link=link).fit(X, outcome(y, kind), sample_weight=w)
    rows = influences(m, X)
    check_predictions(m, X, rows.T @ rows, kind="robust")
    label = np.arange(90) // 3
    groups = summed(rows, label)
    check_predictions(m, X, groups.T @ groups, cluster=[f"g{c}" for c in label])


def test_with_a_normal_prior(data):
    X, y = data
    m = Model(prior=Normal(0.05)).fit(X, y)
    rows = influences(m, X)
    check_predictions(m, X, rows.T @ rows, kind="robust")


def test_beta_alone_has_the_errors_of_vcov(data):
    """With no threshold in it a contrast of two rows has the variance that vcov says."""
    X, y = data
    m = Model().fit(X, y)
    joint = m._joint_covariances("robust", np.arange(len(y)) % 11)
    np.testing.assert_allclose(
        joint.beta_covariance(), m.vcov(cluster=np.arange(len(y)) % 11), rtol=1e-9
    )


def test_rows_that_are_there_twice_count_once_when_clustered(data):
    X, y = data
    once = Model().fit(X, y)
    twice = Model().fit(np.vstack([X, X]), np.concatenate([y, y]))
    person = np.tile(np.arange(len(y)), 2)

    def quantiles(m, **k):
        return m.predict_quantile(X[:4], [0.2, 0.7], level=0.9, **k)

    for f in (
        lambda m, **k: m.predict_cdf(X[:4], [2.0, 9.0], level=0.9, **k),
        quantiles,
        lambda m, **k: m.predict_mean(X[:4], level=0.9, **k),
    ):
        a, b = f(once, kind="robust"), f(twice, cluster=person)
        np.testing.assert_allclose(a.se, b.se, rtol=1e-7)
        np.testing.assert_allclose(a.upper, b.upper, rtol=1e-7)
        if f is not quantiles:  # whose steps are those of the outcomes
            np.testing.assert_allclose(f(twice).se, f(once).se / np.sqrt(2), rtol=1e-6)


def test_sparse_x_and_small_batches_change_nothing(data, monkeypatch):
    X, y = data
    X = np.where(np.abs(X) > 0.8, X, 0.0)[:, :2]
    label = np.arange(len(y)) % 40
    points, q = [1.0, 5.0, 60.0], [0.1, 0.5, 0.9]

    def all_of(m, X):
        return [
            m.predict_cdf(X, points, level=0.9, cluster=label).se,
            m.predict_quantile(X, q, level=0.9, cluster=label).se,
            m.predict_mean(X, level=0.9, cluster=label).se,
        ]

    before = all_of(Model().fit(X, y), X)
    small = replace(BLOCKS, threshold_functions=500, threshold_rows=500, row_functions=500)
    monkeypatch.setattr(module, "BLOCKS", small)
    S = sparse.csc_array(X)
    for a, b in zip(before, all_of(Model().fit(S, y), S), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)


def test_combined_subsets_add_up_by_cluster(data):
    """The influence of a row on a mean over subsets is its own subset's, by their number."""
    X, y = data
    m = Model(reduce=DivideAndCombine(2), random_state=0).fit(X, y)
    label, p, M = np.arange(len(y)) // 2, X.shape[1], len(m.levels_)
    rows = np.zeros((len(y), M - 1 + p))
    defined = [np.searchsorted(np.unique(y[m._subset_of_row == k]), m.thresholds_, side="right")
               for k in range(2)]  # fmt: skip
    parts = [Model().fit(X[m._subset_of_row == k], y[m._subset_of_row == k]) for k in range(2)]
    ok = [(d > 0) & (d <= len(a.alpha_)) for d, a in zip(defined, parts, strict=True)]
    count = ok[0].astype(int) + ok[1]
    for k, part in enumerate(parts):
        inside = m._subset_of_row == k
        own = influences(part, X[inside])
        K = len(part.alpha_)
        at = np.clip(defined[k] - 1, 0, K - 1)
        rows[inside, : M - 1] = np.where(ok[k], own[:, at] / count, 0.0)
        rows[inside, M - 1 :] = own[:, K:] / 2
    for sums, kind in ((rows, {"kind": "robust"}), (summed(rows, label), {"cluster": label})):
        check_predictions(m, X, sums.T @ sums, **kind)
        V = m.vcov("robust", kind.get("cluster")).to_numpy()
        np.testing.assert_allclose(V, (sums.T @ sums)[M - 1 :, M - 1 :], rtol=1e-4, atol=1e-7)
    z = m.predict_cdf(np.zeros((1, p)), m.thresholds_, level=0.9)
    se = DENSITY[m.link](m.alpha_) * m.alpha_summary()["se"]
    np.testing.assert_allclose(z.se[0], se, rtol=1e-9)


def test_what_robust_intervals_need(data):
    X, y = data
    m = Model().fit(X, y)
    for call in (m.predict_mean, lambda X, **k: m.predict_cdf(X, 1.0, **k), m.predict_quantile):
        with pytest.raises(DataError, match="give a level"):
            call(X, kind="robust")
        with pytest.raises(DataError, match="'model' or 'robust'"):
            call(X, level=0.9, kind="hc3")
        with pytest.raises(DataError, match="cluster has 2 entries"):
            call(X, level=0.9, cluster=[1, 2])
        with pytest.raises(DataError, match="one label only"):
            call(X, level=0.9, cluster=np.zeros(len(y)))
