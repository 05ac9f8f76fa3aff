"""Agreement to 1e-6 and better with R, statsmodels, scikit-learn, lifelines, scikit-survival."""

import json
from pathlib import Path

import numpy as np
import pytest

import steropes
from simulators import problem
from steropes import (
    CoxRegression,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
)

GOLDEN = Path(__file__).parent / "golden"
MODELS = {
    "gaussian": LinearRegression,
    "binomial": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
}


# -- R's glmnet: the lasso and the elastic net ----------------------------------------------------


OTHER_MODEL = ("gaussian", "_elastic")


@pytest.fixture(scope="module")
def glmnet():
    return json.loads((GOLDEN / "glmnet.json").read_text())


@pytest.mark.parametrize(
    ("family", "kind"),
    # glmnet rescales a gaussian y before it applies the ridge part: another model.
    [(f, k) for f in MODELS for k in ("", "_weighted", "_elastic") if (f, k) != OTHER_MODEL],
)
def test_penalised_fits_equal_glmnet(glmnet, family, kind):
    X = np.array([glmnet[f"x{j}"] for j in range(6)]).T
    variance = glmnet["variance"]
    lam = np.sqrt(2 / variance)
    prior = Laplace(variance)
    if kind == "_elastic":  # λ/2 of each
        prior = ElasticNet(4 * variance, 2 / lam)
    y = Surv(glmnet["time"], glmnet["event"]) if family == "cox" else glmnet[f"y_{family}"]
    w = glmnet["w"] if kind == "_weighted" else None
    m = MODELS[family](prior=prior).fit(X, y, sample_weight=w)
    expected = np.array(glmnet[family + kind])
    if family != "cox":
        assert m.intercept_ == pytest.approx(expected[0], abs=1e-7)
        expected = expected[1:]
    np.testing.assert_allclose(m.coef_, expected, atol=3e-7)
    np.testing.assert_array_equal(m.coef_ == 0, expected == 0)
    assert (m.coef_ != 0).any()


def test_glmnet_lambda_and_back():
    variance = np.array([0.01, 0.5, 20.0])
    np.testing.assert_allclose(
        steropes.variance_from_glmnet(steropes.glmnet_lambda(variance, 321), 321), variance
    )


# -- R's survival ---------------------------------------------------------------------------------

SURVIVAL = json.loads((GOLDEN / "survival.json").read_text())


@pytest.mark.parametrize(
    "fit",
    SURVIVAL["fits"],
    ids=lambda f: "-".join(
        [f["ties"], *(k for k in ("late", "strata", "weighted", "offset") if f[k])]
    ),
)
def test_cox_equals_coxph(fit):
    d = {k: np.array(v) for k, v in SURVIVAL.items() if k != "fits"}
    X = np.stack([d["x0"], d["x1"], d["x2"]], axis=1)
    m = CoxRegression(ties=fit["ties"]).fit(
        X,
        Surv(d["time"], d["event"], d["entry"] if fit["late"] else None),
        strata=d["strata"] if fit["strata"] else None,
        sample_weight=d["w"] if fit["weighted"] else None,
        offset=d["offset"] if fit["offset"] else None,
    )
    np.testing.assert_allclose(m.coef_, fit["coef"], atol=1e-8)
    np.testing.assert_allclose(m.summary(kind="model")["se"], fit["se"], rtol=1e-7)
    assert m.log_likelihood_ == pytest.approx(fit["log_likelihood"], rel=1e-11)


# -- Python ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_equals_statsmodels(rng, offset, weighted):
    import statsmodels.api as sm

    X, y = problem("logistic", rng, 300, 5)
    w = rng.integers(1, 4, 300).astype(float) if weighted else np.ones(300)
    o = rng.normal(size=300) if offset else None
    theirs = sm.GLM(y, sm.add_constant(X), sm.families.Binomial(), freq_weights=w, offset=o).fit(
        tol=1e-14
    )
    ours = LogisticRegression().fit(X, y, sample_weight=w, offset=o)
    table = ours.summary()
    np.testing.assert_allclose(table["coef"], theirs.params, atol=1e-7)
    np.testing.assert_allclose(table["se"], theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(table["p"], theirs.pvalues, rtol=1e-5)
    np.testing.assert_allclose(table[["lower", "upper"]], theirs.conf_int(), atol=1e-6)
    np.testing.assert_allclose(ours.vcov(), theirs.cov_params(), atol=1e-7)
    assert ours.log_likelihood_ == pytest.approx(theirs.llf, rel=1e-10)


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_poisson_equals_statsmodels(rng, exposed, weighted):
    import statsmodels.api as sm

    X, y = problem("poisson", rng, 300, 5)
    w = rng.integers(1, 4, 300).astype(float) if weighted else np.ones(300)
    t = rng.uniform(0.1, 5, 300) if exposed else None
    theirs = sm.GLM(y, sm.add_constant(X), sm.families.Poisson(), freq_weights=w, exposure=t).fit(
        tol=1e-14
    )
    ours = PoissonRegression().fit(X, y, sample_weight=w, exposure=t)
    np.testing.assert_allclose(ours.summary()["coef"], theirs.params, atol=1e-7)
    np.testing.assert_allclose(ours.summary()["se"], theirs.bse, rtol=1e-6)
    assert ours.log_likelihood_ == pytest.approx(theirs.llf, rel=1e-10)
    np.testing.assert_allclose(ours.predict(X, exposure=t), theirs.fittedvalues, rtol=1e-6)


def test_linear_equals_statsmodels(rng):
    import statsmodels.api as sm

    X, y = problem("linear", rng, 200, 6)
    theirs = sm.OLS(y, sm.add_constant(X)).fit()
    ours = LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.summary()["coef"], theirs.params, atol=1e-10)
    np.testing.assert_allclose(ours.summary()["se"], theirs.bse, rtol=1e-9)
    assert ours.log_likelihood_ == pytest.approx(theirs.llf, rel=1e-12)
    assert ours.sigma2_ == pytest.approx(theirs.scale, rel=1e-10)


@pytest.mark.parametrize("variance", [0.01, 1.0, 100.0])
def test_logistic_ridge_and_lasso_equal_scikit_learn(rng, variance):
    from sklearn.linear_model import LogisticRegression as Theirs

    X, y = problem("logistic", rng, 200, 6)
    ridge = LogisticRegression(prior=Normal(variance)).fit(X, y)
    theirs = Theirs(C=variance, tol=1e-12, max_iter=10**4).fit(X, y)
    np.testing.assert_allclose(ridge.coef_, theirs.coef_[0], atol=1e-6)
    np.testing.assert_allclose(ridge.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    lasso = LogisticRegression(prior=Laplace(variance), fit_intercept=False).fit(X, y)
    C = 1 / np.sqrt(2 / variance)
    theirs = Theirs(
        C=C, l1_ratio=1.0, solver="saga", tol=1e-12, max_iter=10**5, fit_intercept=False
    ).fit(X, y)
    np.testing.assert_allclose(lasso.coef_, theirs.coef_[0], atol=1e-6)


@pytest.mark.parametrize("variance", [0.001, 0.1, 10.0])
def test_linear_lasso_and_ridge_equal_scikit_learn(rng, variance):
    from sklearn.linear_model import Lasso, Ridge

    X, y = problem("linear", rng, 150, 8)
    lasso = LinearRegression(prior=Laplace(variance)).fit(X, y)
    theirs = Lasso(steropes.glmnet_lambda(variance, 150), tol=1e-14, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(lasso.coef_, theirs.coef_, atol=1e-8)
    assert lasso.intercept_ == pytest.approx(theirs.intercept_, abs=1e-8)
    ridge = LinearRegression(prior=Normal(variance)).fit(X, y)
    theirs = Ridge(1 / variance).fit(X, y)
    np.testing.assert_allclose(ridge.coef_, theirs.coef_, atol=1e-9)


def test_poisson_ridge_equals_scikit_learn(rng):
    from sklearn.linear_model import PoissonRegressor

    X, y = problem("poisson", rng, 200, 6)
    ours = PoissonRegression(prior=Normal(0.5)).fit(X, y)
    theirs = PoissonRegressor(alpha=1 / 0.5 / 200, tol=1e-12, max_iter=10**4).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_cox_efron_equals_lifelines(rng):
    import pandas as pd
    from lifelines import CoxPHFitter

    X, (time, event) = problem("cox", rng, 250, 4)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(T=time, E=event)
    theirs = CoxPHFitter().fit(frame, "T", "E", fit_options={"precision": 1e-12})
    ours = CoxRegression().fit(frame[list("abcd")], Surv(time, event))
    np.testing.assert_allclose(ours.coef_, theirs.params_, atol=1e-6)
    np.testing.assert_allclose(ours.summary()["se"], theirs.standard_errors_, rtol=1e-6)
    assert ours.log_likelihood_ == pytest.approx(theirs.log_likelihood_, rel=1e-10)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_cox_equals_scikit_survival(rng, ties):
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.util import Surv as TheirSurv

    X, (time, event) = problem("cox", rng, 250, 4)
    y = TheirSurv.from_arrays(event.astype(bool), time)
    theirs = CoxPHSurvivalAnalysis(ties=ties, tol=1e-14).fit(X, y)
    ours = CoxRegression(ties=ties).fit(X, y)  # their structured array as it is
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)
