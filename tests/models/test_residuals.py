"""Residuals of linear, logistic and Poisson models: statsmodels, sums, derivatives by weights."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

from steropes import (
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
)

MODELS = {
    "linear": (LinearRegression, sm.families.Gaussian()),
    "logistic": (LogisticRegression, sm.families.Binomial()),
    "poisson": (PoissonRegression, sm.families.Poisson()),
}


def drawn(family, rng, n=80):
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.4, 30 + rng.normal(size=n)])
    eta = 0.5 * X[:, 0] - X[:, 1] + 0.3
    y = {
        "linear": eta + rng.normal(size=n),
        "logistic": (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1,
        "poisson": rng.poisson(np.exp(eta)),
    }[family]
    given = {"sample_weight": rng.integers(0, 4, n) * 1.0, "offset": rng.normal(size=n) * 0.3}
    return X, y, given


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
@pytest.mark.parametrize("family", MODELS)
def test_residuals_are_those_of_statsmodels(family, storage, rng):
    model, kind = MODELS[family]
    X, y, given = drawn(family, rng)
    m = model().fit(storage(X), y, **given)
    glm = sm.GLM(
        y, sm.add_constant(X), kind, offset=given["offset"], freq_weights=given["sample_weight"]
    ).fit(tol=1e-12)
    np.testing.assert_allclose(m.checks.residuals("response"), glm.resid_response, atol=1e-7)
    np.testing.assert_allclose(m.checks.residuals("pearson"), glm.resid_pearson, atol=1e-7)
    if family != "linear":  # statsmodels divides by the scale there
        np.testing.assert_allclose(m.checks.residuals("deviance"), glm.resid_deviance, atol=1e-6)
    design = sm.add_constant(X)
    score = design * glm.resid_response[:, None]
    ours = m.checks.residuals("score")
    assert ours.columns[0] == "intercept"
    np.testing.assert_allclose(ours, score, atol=1e-5)
    np.testing.assert_allclose(given["sample_weight"] @ ours.to_numpy(), 0, atol=1e-5)
    V = glm.cov_params() / glm.scale
    expected = given["sample_weight"][:, None] * score @ V
    np.testing.assert_allclose(m.checks.residuals("dfbeta"), expected, atol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("family", MODELS)
def test_dfbeta_is_the_derivative_of_the_estimate_by_the_weight(family, intercept, rng):
    model, _ = MODELS[family]
    X, y, given = drawn(family, rng)
    X[:, 2] -= 30
    w = given["sample_weight"] + 0.5
    settings = {"prior": Normal(2.0), "fit_intercept": intercept, "tol": 1e-12}
    m = model(**settings).fit(X, y, sample_weight=w, offset=given["offset"])
    d = m.checks.residuals("dfbeta").to_numpy()
    for i in (3, 40):
        ends = []
        for step in (-1e-4, 1e-4):
            v = w.copy()
            v[i] *= 1 + step
            n = model(**settings).fit(X, y, sample_weight=v, offset=given["offset"])
            ends.append(n._coefficients())
        np.testing.assert_allclose((ends[1] - ends[0]) / 2e-4, d[i], rtol=1e-4, atol=1e-7)


def test_probabilities_next_to_one_keep_their_digits():
    X = np.array([[-400.0], [-1.0], [1.0], [400.0]])
    m = LogisticRegression(prior=Normal(1.0), fit_intercept=False).fit(X, [1, 0, 1, 0])
    m.coef_[:] = 1.0
    m._beta[:] = 1.0
    np.testing.assert_allclose(m.checks.residuals()[[0, 3]], [800**0.5, -(800**0.5)], rtol=1e-12)
    assert np.isfinite(m.checks.residuals("pearson")).all()


def test_residuals_of_the_deviance_add_up_to_it(rng):
    X, y, _ = drawn("poisson", rng)
    t = rng.uniform(0.5, 2, len(y))
    m = PoissonRegression().fit(X, y, exposure=t)
    mu = m.predict(X, exposure=t)
    full = np.where(y > 0, y * np.log(np.where(y > 0, y / mu, 1.0)), 0.0) - (y - mu)
    assert (m.checks.residuals() ** 2).sum() == pytest.approx(2 * full.sum(), rel=1e-9)


def test_refusals(rng):
    X, y, _ = drawn("logistic", rng)
    m = LogisticRegression(prior=Laplace(0.01)).fit(X, y)
    assert m.checks.residuals("score", params=["x1"]).shape == (80, 1)
    with pytest.raises(DataError, match="Laplace prior"):
        m.checks.residuals("dfbeta")
    with pytest.raises(DataError, match="kind must be one of"):
        m.checks.residuals("martingale")
    with pytest.raises(DataError, match="leave params out"):
        m.checks.residuals("pearson", params=0)


def test_scores_have_the_index_of_x_or_of_y():
    index = ["p", "q", "r", "s", "t", "u"]
    x, y = np.array([1.0, 2.0, 4.0, 3.0, 0.0, 1.5]), pd.Series([0, 1, 1, 0, 0, 1], index)
    frame = pd.DataFrame({"x": x}, index)
    for X in (frame, x[:, None]):
        m = LogisticRegression(prior=Normal(1.0)).fit(X, y)
        assert list(m.checks.residuals("score").index) == index
        assert list(m.checks.residuals("dfbeta").index) == index
    assert "_row_labels" not in m.__getstate__()
    m.fit(x[:, None], y.to_numpy())
    assert list(m.checks.residuals("score").index) == list(range(6))


@pytest.mark.parametrize("family", MODELS)
def test_dfbetas_are_dfbeta_by_the_standard_error(family, rng):
    X, y, given = drawn(family, rng)
    m = MODELS[family][0]().fit(X, y, **given)
    expected = m.checks.residuals("dfbeta") / m.summary()["se"]
    pd.testing.assert_frame_equal(m.checks.residuals("dfbetas"), expected)
    pd.testing.assert_frame_equal(m.checks.residuals("dfbetas", "x1"), expected[["x1"]])
