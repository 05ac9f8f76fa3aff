"""Predictions with standard errors: statsmodels, lifelines, curves, and sums of terms."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

from steropes import (
    CoxRegression,
    DataError,
    FineGrayRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
)

RNG = np.random.default_rng(11)
N = 200
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.random(N) < 0.4, "c": 50 + RNG.normal(size=N)})
X["b"] = X["b"].astype(float)
ETA = 0.5 * X["a"] - X["b"] + 0.2 * (X["c"] - 50)
OFFSET = 0.2 * RNG.normal(size=N)
WEIGHT = RNG.uniform(0.5, 2, N)
TIME, EVENT = np.ceil(RNG.exponential(np.exp(-ETA)) * 20), (RNG.random(N) < 0.8) * 1
FAMILIES = {
    "linear": (LinearRegression, sm.families.Gaussian(), ETA + RNG.normal(size=N)),
    "logistic": (
        LogisticRegression, sm.families.Binomial(), RNG.binomial(1, 1 / (1 + np.exp(-ETA)))
    ),
    "poisson": (PoissonRegression, sm.families.Poisson(), RNG.poisson(np.exp(ETA))),
}  # fmt: skip


@pytest.mark.parametrize("storage", [pd.DataFrame, sparse.csc_array])
@pytest.mark.parametrize("family", FAMILIES)
def test_means_agree_with_statsmodels(family, storage):
    model, kind, y = FAMILIES[family]
    m = model().fit(storage(X), y, offset=OFFSET)
    theirs = sm.GLM(y, sm.add_constant(X), family=kind, offset=OFFSET).fit()
    new = X.iloc[:7]
    got = theirs.get_prediction(sm.add_constant(new, has_constant="add"), offset=OFFSET[:7])
    ours = m.effects.predictions(storage(new), "response", offset=OFFSET[:7])
    np.testing.assert_allclose(ours["estimate"], got.predicted_mean, rtol=1e-7)
    np.testing.assert_allclose(ours["se"], got.se_mean, rtol=1e-6)
    if family != "linear":  # statsmodels takes the normal distribution
        np.testing.assert_allclose(ours[["lower", "upper"]], got.conf_int(), rtol=1e-6)


def test_prediction_intervals_agree_with_statsmodels():
    y = FAMILIES["linear"][2]
    new = X.iloc[:7]
    theirs = sm.OLS(y, sm.add_constant(X)).fit()
    got = theirs.get_prediction(sm.add_constant(new, has_constant="add"))
    frame = got.summary_frame(alpha=0.1)
    ours = LinearRegression().fit(X, y).effects.predictions(new, "observation", level=0.9)
    np.testing.assert_allclose(ours["estimate"], frame["mean"], rtol=1e-7)
    np.testing.assert_allclose(
        ours[["lower", "upper"]], frame[["obs_ci_lower", "obs_ci_upper"]], rtol=1e-6
    )
    np.testing.assert_allclose(ours["se"], got.se_obs, rtol=1e-6)
    with pytest.raises(DataError, match="linear models"):
        LogisticRegression().fit(X, FAMILIES["logistic"][2]).effects.predictions(X, "observation")


@pytest.mark.parametrize("family", [*FAMILIES, "cox"])
def test_linear_predictors_have_the_variance_of_a_quadratic_form(family):
    y = Surv(TIME, EVENT) if family == "cox" else FAMILIES[family][2]
    m = (CoxRegression if family == "cox" else FAMILIES[family][0])()
    m.fit(X, y, sample_weight=WEIGHT)
    Z = X.iloc[:9].to_numpy() if family == "cox" else sm.add_constant(X.iloc[:9]).to_numpy()
    cluster = np.arange(N) // 4
    for kind, given in (("model", {}), ("robust", {"cluster": cluster})):
        V = m.vcov(kind, **given).to_numpy()
        ours = m.effects.predictions(X.iloc[:9], kind=kind, **given)
        np.testing.assert_allclose(ours["se"] ** 2, np.diag(Z @ V @ Z.T), rtol=1e-6)
        gap = Z - Z[[0]]
        ours = m.effects.predictions(X.iloc[:9], reference=X.iloc[[0]], kind=kind, **given)
        np.testing.assert_allclose(ours["se"] ** 2, np.diag(gap @ V @ gap.T), atol=1e-10)
        np.testing.assert_allclose(ours["estimate"], gap @ m.summary()["coef"], atol=1e-9)


def test_ratio_of_a_step_of_one_is_the_line_of_the_summary():
    m = CoxRegression().fit(X, Surv(TIME, EVENT), strata=np.arange(N) % 2)
    line = m.summary().loc["c"]
    low = X.iloc[[0]]
    ours = m.effects.predictions(low.assign(c=low["c"] + 1), "ratio", reference=low).iloc[0]
    expected = line[["exp(coef)", "exp(lower)", "exp(upper)"]]
    np.testing.assert_allclose(ours[["estimate", "lower", "upper"]], expected, rtol=1e-7)
    np.testing.assert_allclose(ours["se"], line["exp(coef)"] * line["se"], rtol=1e-7)


def test_terms_add_up_to_the_linear_predictor():
    data = X.assign(y=FAMILIES["poisson"][2], g=np.array(list("uvw"))[np.arange(N) % 3])
    m = PoissonRegression.from_formula("y ~ bs(a, df=4) + C(g) * c", data)
    terms, errors = m.effects.terms(data, return_se=True)
    assert list(terms.columns) == ["bs(a, df=4)", "C(g)", "c", "C(g):c"]
    total = terms.sum(axis=1) + m.intercept_
    np.testing.assert_allclose(total, m.linear_predictor(data), rtol=1e-9)
    V = m.vcov().to_numpy()
    B = m.design_matrix(data).to_numpy()[:, :4]
    expected = np.sqrt(np.diag(B @ V[1:5, 1:5] @ B.T))
    np.testing.assert_allclose(errors["bs(a, df=4)"], expected, rtol=1e-9)
    robust = m.effects.terms(data, return_se=True, kind="robust")[1]
    W = m.vcov("robust").to_numpy()
    np.testing.assert_allclose(
        robust["bs(a, df=4)"], np.sqrt(np.diag(B @ W[1:5, 1:5] @ B.T)), rtol=1e-9
    )
    assert robust.attrs["errors"] == "robust"
    with pytest.raises(DataError, match="set return_se=True"):
        m.effects.terms(data, cluster=data["g"])
    zero = m.effects.terms(data.iloc[[3]], reference=data.iloc[[3]])
    assert (zero == 0).all(axis=None)
    gap = m.effects.terms(data, reference=data.iloc[[3]]).sum(axis=1)
    table = m.effects.predictions(data, reference=data.iloc[[3]])
    np.testing.assert_allclose(gap, table["estimate"], atol=1e-9)


def test_fixed_coefficients_have_no_error_and_no_term():
    y = FAMILIES["logistic"][2]
    m = LogisticRegression().fit(X, y, fixed={"b": -1.0})
    Z = np.column_stack([np.ones(N), X["a"], X["c"]])
    expected = np.sqrt(np.diag(Z @ m.vcov().to_numpy() @ Z.T))
    table = m.effects.predictions(X)
    np.testing.assert_allclose(table["se"], expected, rtol=1e-6)
    np.testing.assert_allclose(table["estimate"], m.linear_predictor(X))
    assert list(m.effects.terms(X).columns) == ["a", "c"]


def test_normal_priors_have_the_posterior_s_errors():
    m = LinearRegression(prior=Normal(0.5)).fit(X, FAMILIES["linear"][2])
    Z = sm.add_constant(X).to_numpy()
    expected = np.sqrt(np.diag(Z @ m.vcov().to_numpy() @ Z.T))
    np.testing.assert_allclose(m.effects.predictions(X)["se"], expected, rtol=1e-6)


def test_what_there_is_no_error_of_is_refused():
    y, time = FAMILIES["logistic"][2], Surv(TIME, EVENT)
    m = LogisticRegression().fit(X, y)
    with pytest.raises(DataError, match="scale must be one of"):
        m.effects.predictions(X, "probability")
    with pytest.raises(DataError, match="goes with scale='linear'"):
        m.effects.predictions(X, "response", reference=X.iloc[[0]])
    with pytest.raises(DataError, match="leave offset out"):
        m.effects.predictions(X, reference=X.iloc[[0]], offset=OFFSET)
    for method in (m.effects.predictions, m.effects.terms):
        with pytest.raises(DataError, match="one row, not 2"):
            method(X, reference=X.iloc[:2])
    with pytest.raises(DataError, match="no ratio"):
        LinearRegression().fit(X, FAMILIES["linear"][2]).effects.predictions(X, "ratio")
    with pytest.raises(DataError, match="Laplace prior"):
        LogisticRegression(prior=Laplace(0.1)).fit(X, y).effects.predictions(X)
    with pytest.raises(DataError, match=r"curves\.survival"):
        FineGrayRegression().fit(X, time).effects.predictions(X, "response")
    varying = CoxRegression(time_varying={"a": [5]}).fit(X, time)
    with pytest.raises(DataError, match="time-varying"):
        varying.effects.predictions(X)
    with pytest.raises(DataError, match="change with time"):
        varying.effects.terms(X)
    pooled = PooledLogisticRegression(interval=10.0, baseline=1).fit(X, time)
    with pytest.raises(DataError):
        pooled.effects.predictions(X)
