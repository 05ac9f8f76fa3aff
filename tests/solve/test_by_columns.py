"""A working set too wide for its Gram matrix ends where the Gram matrix would."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import steropes as st
from steropes.solve import worth


def _data():
    rng = np.random.default_rng(0)
    X = sparse.random(400, 60, 0.08, format="csc", random_state=1)
    X.data[:] = 1
    X = sparse.hstack([X, rng.normal(size=(400, 2))]).tocsc()
    return X, (rng.random(400) < 0.4).astype(int), rng.exponential(size=400)


@pytest.mark.parametrize("prior", [st.Normal(0.5), st.Laplace(0.1), st.Laplace(0.1, exclude=[0])])
@pytest.mark.parametrize("family", ["logistic", "poisson", "cox"])
def test_descent_on_columns_finds_the_optimum_of_the_gram_matrix(monkeypatch, family, prior):
    X, y, time = _data()
    outcome = st.Surv(time, y) if family == "cox" else y
    model = {
        "logistic": st.LogisticRegression,
        "poisson": st.PoissonRegression,
        "cox": st.CoxRegression,
    }[family]
    narrow = model(prior=prior).fit(X, outcome)
    monkeypatch.setattr(worth, "WIDE", 10)
    monkeypatch.setattr(worth, "WIDEST", 10)
    wide = model(prior=prior).fit(X, outcome)
    assert wide.converged_
    np.testing.assert_allclose(wide.coef_, narrow.coef_, atol=1e-6)


@pytest.mark.usefixtures("eager_threads")
def test_folds_descend_on_columns_inside_the_thread_pool(monkeypatch):
    X, y, _ = _data()
    cv = st.CrossValidation(5, random_state=0, search=[0.02, 0.05], tol=1e-6)
    narrow = st.LogisticRegression(prior=st.Laplace(), cv=cv, n_jobs=2).fit(X, y)
    monkeypatch.setattr(worth, "WIDE", 10)
    monkeypatch.setattr(worth, "WIDEST", 10)
    wide = st.LogisticRegression(prior=st.Laplace(), cv=cv, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(wide.cv_results_["mean"], narrow.cv_results_["mean"], rtol=1e-6)


@pytest.mark.parametrize("widest", [10, 20_000])
@pytest.mark.parametrize("family", ["logistic", "poisson", "cumulative"])
def test_collinear_columns_without_penalty_are_named_however_many_there_are(
    monkeypatch, family, widest
):
    X, y, _ = _data()
    X = sparse.hstack([X, X[:, :1] + X[:, 1:2]]).tocsc()
    model = {
        "logistic": st.LogisticRegression,
        "poisson": st.PoissonRegression,
        "cumulative": st.CumulativeProbabilityModel,
    }[family]()
    monkeypatch.setattr(worth, "WIDE", 10)
    monkeypatch.setattr(worth, "WIDEST", widest)
    with pytest.raises(st.SeparationError, match="Collinear columns: 'x62'"):
        model.fit(X, y)


def test_without_a_penalty_there_is_a_matrix_of_many_columns_too(monkeypatch):
    """Sites as columns: descent by columns would crawl along what they share with the intercept."""
    rng = np.random.default_rng(0)
    site, x = np.arange(400) % 40, rng.normal(size=400)
    sites = sparse.csc_array((site[:, None] == np.arange(1, 40)).astype(float))
    X = sparse.hstack([sparse.csc_array(x[:, None]), sites]).tocsc()
    y = rng.poisson(np.exp(0.3 * x + 0.05 * site))
    monkeypatch.setattr(worth, "WIDE", 10)
    monkeypatch.setattr(worth, "DENSER", 0.1)
    wide = st.PoissonRegression().fit(X, y)
    assert wide.converged_
    assert wide.n_iter_ < 20
    conditional = st.ConditionalPoissonRegression().fit(x[:, None], y, strata=site)
    assert wide.coef_[0] == pytest.approx(conditional.coef_[0], abs=1e-8)
