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
