"""Against rms::orm, statsmodels' OrderedModel and Logit, and scipy's minimiser."""

import json
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, stats
from statsmodels.miscmodels.ordinal_model import OrderedModel

from steropes.likelihoods.cumulative import CODES
from steropes.models.cumulative import CumulativeProbabilityModel

REFERENCE = json.loads((Path(__file__).parent / "data" / "rms_orm.json").read_text())
FAMILY = {  # orm's names are for P(Y >= y)
    "logit": "logistic",
    "probit": "probit",
    "cloglog": "loglog",
    "loglog": "cloglog",
    "cauchit": "cauchit",
}
DIST = {
    "logit": stats.logistic,
    "probit": stats.norm,
    "loglog": stats.gumbel_r,
    "cloglog": stats.gumbel_l,
    "cauchit": stats.cauchy,
}


@pytest.fixture
def orm():
    return np.column_stack([REFERENCE["x1"], REFERENCE["x2"]]), np.array(REFERENCE["y"])


@pytest.mark.parametrize("link", CODES)
def test_estimates_and_all_variances_equal_rms_orm(link, orm):
    X, y = orm
    fit = REFERENCE["fits"][FAMILY[link]]
    m = CumulativeProbabilityModel(link=link).fit(X, y)
    assert m.converged_
    assert m.log_likelihood_ == pytest.approx(fit["loglik"][0], abs=1e-9)
    np.testing.assert_allclose(m.coef_, fit["beta"], rtol=1e-8)
    np.testing.assert_allclose(m.alpha_, -np.array(fit["alpha"]), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(m.vcov(), fit["var"], rtol=1e-7)
    np.testing.assert_allclose(m.alpha_summary()["se"] ** 2, fit["alpha_var"], rtol=1e-7)


def test_robust_and_cluster_robust_equal_rms_robcov(orm):
    X, y = orm
    fit = REFERENCE["fits"]["logistic"]
    m = CumulativeProbabilityModel().fit(X, y)
    np.testing.assert_allclose(m.vcov("robust"), fit["robust"], rtol=1e-8)
    np.testing.assert_allclose(m.vcov(cluster=REFERENCE["cluster"]), fit["cluster"], rtol=1e-8)


def test_robust_errors_of_every_threshold_equal_rms_robcov(orm):
    X, y = orm
    m = CumulativeProbabilityModel().fit(X, y)
    for name, kind in (
        ("rows", {"kind": "robust"}),
        ("cluster", {"cluster": REFERENCE["cluster"]}),
    ):
        se = m.alpha_summary(**kind)["se"]
        np.testing.assert_allclose(se**2, REFERENCE["alpha_robust"][name], rtol=1e-8)
        out = m.predict_cdf(np.zeros((1, 2)), m.thresholds_, level=0.95, **kind)
        slope = out.estimate[0] * (1 - out.estimate[0])
        np.testing.assert_allclose(out.se[0], slope * se, rtol=1e-8)


def test_mean_equals_rms_mean(orm):
    X, y = orm
    m = CumulativeProbabilityModel().fit(X, y)
    rows = [[-1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    np.testing.assert_allclose(m.predict_mean(rows), REFERENCE["mean"], rtol=1e-8)


@pytest.mark.parametrize("link", CODES)
def test_estimates_equal_statsmodels_ordered_model(link, data):
    X, y = data
    X = X[:, :2]
    y = np.minimum(y, np.quantile(y, 0.6)) // 3
    m = CumulativeProbabilityModel(link=link).fit(X, y)
    distr = {"logit": "logit", "probit": "probit"}.get(link, DIST[link])
    other = OrderedModel(y, X, distr=distr).fit(method="bfgs", disp=False, gtol=1e-8, maxiter=500)
    p = X.shape[1]
    np.testing.assert_allclose(m.coef_, other.params[:p], rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(np.sqrt(np.diag(m.vcov())), other.bse[:p], rtol=5e-3)
    assert m.log_likelihood_ >= other.llf - 1e-9
    thresholds = other.model.transform_threshold_params(other.params[p:])[1:-1]
    np.testing.assert_allclose(m.alpha_, thresholds, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("link", CODES)
def test_maximum_is_scipys(link, data):
    X, y = data
    X, y = X[:50], np.minimum(y[:50], 12)
    values, code = np.unique(y, return_inverse=True)
    K, F = len(values) - 1, DIST[link].cdf

    def loss(theta):
        a = np.concatenate(
            [[-np.inf], theta[0] + np.r_[0, np.cumsum(np.exp(theta[1:K]))], [np.inf]]
        )
        eta = (X - X.mean(0)) @ theta[K:]
        return -np.log(F(a[code + 1] - eta) - F(a[code] - eta)).sum()

    m = CumulativeProbabilityModel(link=link).fit(X, y)
    start = np.concatenate([m.alpha_[:1], np.log(np.diff(m.alpha_)), m.coef_])
    start[0] -= X.mean(0) @ m.coef_
    assert loss(start) == pytest.approx(-m.log_likelihood_, rel=1e-11)
    best = optimize.minimize(loss, start + 0.05, method="BFGS", options={"gtol": 1e-6})
    assert -m.log_likelihood_ <= best.fun + 1e-8
    np.testing.assert_allclose(best.x, start, atol=5e-4)


def test_two_outcomes_are_logistic_regression(data):
    X, y = data
    w = np.arange(len(y)) % 3 + 1.0
    m = CumulativeProbabilityModel().fit(X, y > 5, sample_weight=w)
    rows = np.repeat(np.arange(len(y)), w.astype(int))
    other = sm.Logit(y[rows] > 5, sm.add_constant(X[rows])).fit(disp=False, tol=1e-12)
    np.testing.assert_allclose(m.coef_, other.params[1:], rtol=1e-7)
    np.testing.assert_allclose(m.alpha_, -other.params[:1], rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.diag(m.vcov())), other.bse[1:], rtol=1e-6)
    np.testing.assert_allclose(m.alpha_summary()["se"], other.bse[:1], rtol=1e-6)
    assert m.log_likelihood_ == pytest.approx(other.llf, abs=1e-9)
    np.testing.assert_allclose(
        m.predict_exceedance(X, 0.0), other.predict(sm.add_constant(X)), rtol=1e-8
    )
