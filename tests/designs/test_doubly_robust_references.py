"""Doubly robust estimates against R's tmle and AIPW, Python's zEpid and DoubleML.

R and zEpid divide variances by n − 1, steropes and DoubleML by n.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import steropes
from steropes.designs import DoublyRobust


def only(found, measure, n=None):
    """Return an estimate with its error, which is R's if n is given."""
    row = found.effects_.query("measure == @measure")
    factor = 1.0 if n is None else np.sqrt(n / (n - 1))
    return row["estimate"].item(), row["se"].item() * factor


def under_both(model, W, a, y, products=()):
    """Fit an outcome model with the treatment, and predict under both treatments."""

    def columns(t):
        out = W.assign(a=t)
        return out.assign(**{f"a × {name}": out["a"] * out[name] for name in products})

    fit = model.fit(columns(a)[~np.isnan(y)], y[~np.isnan(y)])
    both = [columns(t) for t in (1.0, 0.0)]
    if isinstance(fit, steropes.LogisticRegression):
        return np.column_stack([fit.predict_proba(x)[:, 1] for x in both])
    return np.column_stack([fit.predict(x) for x in both])


@pytest.fixture(scope="module")
def weighed(nhefs, nhefs_covariates):
    """The 1,566 people of What If with a known weight gain, and their scores."""
    known = nhefs.wt82_71.notna().to_numpy()
    W = nhefs_covariates[known].reset_index(drop=True)
    d = nhefs[known].reset_index(drop=True)
    e = steropes.LogisticRegression().fit(W, d.qsmk).predict_proba(W)[:, 1]
    return W, d, e


@pytest.fixture(scope="module")
def means_of_gain(weighed):
    W, d, _ = weighed
    model = steropes.LinearRegression()
    return under_both(model, W, d.qsmk, d.wt82_71.to_numpy(), ["smokeintensity"])


@pytest.fixture(scope="module")
def means_of_death(weighed):
    W, d, _ = weighed
    model = steropes.LogisticRegression()
    return under_both(model, W, d.qsmk, d.death.to_numpy(float), ["smokeintensity"])


def test_weight_gain_is_that_of_aipw_and_tmle(weighed, means_of_gain):
    W, d, e = weighed
    given = {"score": e, "means": means_of_gain}
    aipw = DoublyRobust(method="aipw").fit(W, d.qsmk, d.wt82_71, **given)
    assert only(aipw, "mean difference", 1566) == pytest.approx(
        (3.45728429, 0.48880701), rel=1e-8, abs=1e-8
    )
    tmle = DoublyRobust(targeting="weight").fit(W, d.qsmk, d.wt82_71, **given)
    value, se = only(tmle, "mean difference", 1566)
    assert value == pytest.approx(3.457123372, rel=1e-9)
    assert se**2 == pytest.approx(0.238846013, rel=1e-8)
    # R's tmle also changes the score for the effect in the treated: 3.393392197 (0.47502).
    att = DoublyRobust(targeting="weight", estimand="ATT").fit(W, d.qsmk, d.wt82_71, **given)
    assert only(att, "mean difference", 1566) == pytest.approx((3.393392197, 0.47502), rel=3e-3)


def test_deaths_are_those_of_aipw_and_tmle(weighed, means_of_death):
    W, d, e = weighed
    given = {"score": e, "means": means_of_death}
    aipw = DoublyRobust(method="aipw").fit(W, d.qsmk, d.death, **given)
    assert only(aipw, "risk difference", 1566) == pytest.approx(
        (-7.3233723e-5, 0.02091625), rel=1e-6
    )
    tmle = DoublyRobust(targeting="weight").fit(W, d.qsmk, d.death, **given)
    value, se = only(tmle, "risk difference", 1566)
    assert value == pytest.approx(-7.6377077e-5, abs=1e-9)
    assert se**2 == pytest.approx(4.37241959e-4, rel=1e-8)
    assert only(tmle, "risk ratio")[0] == pytest.approx(0.999588953, rel=1e-8)


@pytest.fixture(scope="module")
def scaled(weighed):
    """Covariates over their standard deviations, and the folds of the reference."""
    W = weighed[0]
    return (W - W.mean()) / W.std(ddof=0), np.arange(len(W)) % 5


def irm(scaled, d, y, score_model=None, outcome_model=None):
    """Return both effects with their errors as DoubleML's interactive regression model."""
    X, fold = scaled
    found = []
    for estimand in ("ATE", "ATT"):
        model = DoublyRobust(
            method="aipw", estimand=estimand, bound=0.01, treatment_model=score_model,
            outcome_model=outcome_model,
        )  # fmt: skip
        row = model.fit(X, d.qsmk, y, fold=fold).effects_.iloc[0]
        found += [row["estimate"], row["se"]]
    return found


def test_cross_fitted_maximum_likelihood_is_that_of_double_ml(scaled, weighed):
    d = weighed[1]
    assert irm(scaled, d, d.wt82_71) == pytest.approx(
        [3.35656856, 0.52380604, 3.37145060, 0.49550443], rel=1e-8
    )
    assert irm(scaled, d, d.death) == pytest.approx(
        [-0.00220348, 0.02408703, -0.00567979, 0.02342097], abs=1e-8
    )


def test_cross_fitted_lasso_and_ridge_are_those_of_double_ml(scaled, weighed):
    """Scikit-learn's C = 0.1 is λ = 10 under a Laplace prior, and κ = 10 under a normal one."""
    d = weighed[1]
    lasso = steropes.LogisticRegression(prior=steropes.Laplace(variance=2 / 10**2))
    linear = Lasso(alpha=0.05, tol=1e-10, max_iter=100_000)
    assert irm(scaled, d, d.wt82_71, lasso, linear) == pytest.approx(
        [3.49543051, 0.52620923, 3.29218559, 0.47152137], rel=1e-8
    )
    ridge = steropes.LogisticRegression(prior=steropes.Normal(0.1))
    assert irm(scaled, d, d.death, ridge, ridge) == pytest.approx(
        [0.0010098, 0.02168676, -0.00135571, 0.02243969], abs=1e-8
    )


def splines(x):
    """Return zEpid's restricted quadratic spline with three knots, (n, 2)."""
    knots = np.percentile(x, [5, 50, 95])
    parts = np.column_stack([np.where(x > k, (x - k) ** 2, 0.0) for k in knots])
    return np.where(x.to_numpy()[:, None] > knots[:2], parts[:, :2] - parts[:, 2:], 0.0)


@pytest.fixture(scope="module")
def sample(zepid_sample):
    """zEpid's people with splines of age and CD4 counts."""
    d = zepid_sample.copy()
    for name in ("age0", "cd40"):
        d[[f"{name}'", f"{name}''"]] = splines(d[name])
    return d


def test_treated_deaths_are_those_of_zepid(sample):
    d = sample[sample.dead.notna()].reset_index(drop=True)
    W, y = d.drop(columns=["art", "dead"]), d.dead.to_numpy()
    given = {
        "score": steropes.LogisticRegression().fit(W, d.art).predict_proba(W)[:, 1],
        "means": under_both(steropes.LogisticRegression(), W, d.art, y),
    }
    for settings, effect, ratio in (
        ({}, (-0.08440622, 0.03556337), 0.53442657),
        ({"targeting": "weight"}, (-0.08439114, 0.03564908), None),
        ({"method": "aipw"}, (-0.08485106, 0.03573042), 0.53198122),
    ):
        found = DoublyRobust(bound=0, **settings).fit(W, d.art, y, **given)
        assert only(found, "risk difference", 517) == pytest.approx(effect, abs=1e-8)
        if ratio is not None:
            assert only(found, "risk ratio")[0] == pytest.approx(ratio, abs=1e-8)


def test_missing_deaths_are_weighted_as_in_zepid(sample):
    W, y = sample.drop(columns=["art", "dead"]), sample.dead.to_numpy()
    a, seen = sample.art, ~np.isnan(y)
    given = {
        "score": steropes.LogisticRegression().fit(W, a).predict_proba(W)[:, 1],
        "means": under_both(steropes.LogisticRegression(), W, a, y),
        "observed_probability": under_both(steropes.LogisticRegression(), W, a, seen * 1.0),
    }
    tmle = DoublyRobust(bound=0).fit(W, a, y, **given)
    assert only(tmle, "risk difference")[0] == pytest.approx(-0.08168098, abs=1e-8)
    aipw = DoublyRobust(bound=0, method="aipw").fit(W, a, y, **given)
    assert only(aipw, "risk difference")[0] == pytest.approx(-0.08189651, abs=3e-5)
