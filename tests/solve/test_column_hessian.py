"""Working sets too wide for a Gram matrix have the same solutions as with one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import steropes as st
from steropes.design_matrix import as_design
from steropes.models.fitting.row_arguments import FitInputs
from steropes.solve.data_term.local_term import LocalCurvature
from steropes.solve.quasi_newton import hessian_representation as hessian_form
from steropes.solve.solver_constants import DEFAULT
from tuning import tune_solver


def _data():
    rng = np.random.default_rng(0)
    X = sparse.random(400, 60, 0.08, format="csc", random_state=1)
    X.data[:] = 1
    X = sparse.hstack([X, rng.normal(size=(400, 2))]).tocsc()
    return X, (rng.random(400) < 0.4).astype(int), rng.exponential(size=400)


PRIORS = [
    st.Normal(0.5), st.Laplace(0.1), st.Laplace(0.1, exclude=[0]),
    st.ElasticNet(0.1, 0.1),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("prior", PRIORS, ids=["ridge", "lasso", "excluded", "elastic net"])
@pytest.mark.parametrize(
    "family", ["logistic", "poisson", "cox", "fine-gray", "sccs", "conditional", "cumulative"]
)
def test_descent_on_columns_finds_the_optimum_of_the_gram_matrix(monkeypatch, family, prior):
    X, y, time = _data()
    strata = np.arange(400) // 5
    model, outcome, given = {
        "logistic": (st.LogisticRegression, y, {}),
        "poisson": (st.PoissonRegression, y, {}),
        "cox": (st.CoxRegression, st.Surv(time, y), {}),
        "fine-gray": (st.FineGrayRegression, st.Surv(time, y * (1 + np.arange(400) % 2)), {}),
        "sccs": (st.ConditionalPoissonRegression, y, {"strata": strata}),
        "conditional": (st.ConditionalLogisticRegression, y, {"strata": strata}),
        "cumulative": (st.CumulativeProbabilityModel, time.round(1), {}),
    }[family]
    narrow = model(prior=prior).fit(X, outcome, **given)
    tune_solver(monkeypatch, "hessian", min_wide_columns=10)
    tune_solver(monkeypatch, "hessian", max_matrix_columns=10)
    wide = model(prior=prior).fit(X, outcome, **given)
    assert wide.converged_
    np.testing.assert_allclose(wide.coef_, narrow.coef_, atol=1e-6)


@pytest.mark.parametrize("family", ["logistic", "cox", "fine-gray"])
@pytest.mark.parametrize("prior", [st.Laplace(0.1), st.Normal(0.5)], ids=["lasso", "ridge"])
def test_wide_models_are_minimised_on_the_device(monkeypatch, family, prior):
    X, y, time = _data()
    model, outcome = {
        "logistic": (st.LogisticRegression, y),
        "cox": (st.CoxRegression, st.Surv(time, y)),
        "fine-gray": (st.FineGrayRegression, st.Surv(time, y * (1 + np.arange(400) % 2))),
    }[family]
    narrow = model(prior=prior, tol=1e-9).fit(X, outcome)
    tune_solver(monkeypatch, "hessian", min_wide_columns=10, max_matrix_columns=10)
    monkeypatch.setattr(LocalCurvature, "_on_host", None)  # the host's operator is not made
    wide = model(prior=prior, tol=1e-9, device="torch-cpu").fit(X, outcome)
    assert wide.converged_
    np.testing.assert_allclose(wide.coef_, narrow.coef_, atol=1e-7)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("family", ["logistic", "cox"])
def test_folds_descend_on_columns_inside_the_thread_pool(monkeypatch, family):
    X, y, time = _data()
    cv = st.CrossValidation(5, random_state=0, search=[0.02, 0.05], tol=1e-6)
    model = st.CoxRegression if family == "cox" else st.LogisticRegression
    outcome = st.Surv(time, y) if family == "cox" else y

    def fit(jobs):
        return model(prior=st.Laplace(), cv=cv, n_jobs=jobs).fit(X, outcome)

    narrow = fit(2)
    tune_solver(monkeypatch, "hessian", min_wide_columns=10)
    tune_solver(monkeypatch, "hessian", max_matrix_columns=10)
    wide, alone = fit(2), fit(1)
    np.testing.assert_allclose(wide.cv_results_["mean"], narrow.cv_results_["mean"], rtol=1e-6)
    np.testing.assert_array_equal(wide.coef_, alone.coef_)
    np.testing.assert_array_equal(wide.cv_results_["mean"], alone.cv_results_["mean"])


@pytest.mark.parametrize("columnar", [True, False])
def test_own_hessians_of_many_columns_are_operators(monkeypatch, columnar):
    """Ten folds' own Hessians as arrays of thousands of columns would take gigabytes."""
    X, y, time = _data()
    model = st.CoxRegression(prior=st.Laplace(0.1))
    problem = model._make_problem(as_design(X), FitInputs(st.Surv(time, y)))
    batch = problem.batch()
    batch.term.join(np.arange(batch.term.p))
    l1 = np.full(batch.term.p, 3.0)
    batch.solve(l1, 0 * l1)
    batch.hessians.policy = replace(batch.hessians.policy, max_own_columns=20)
    monkeypatch.setattr(type(batch.term.curvature(0)), "matrix", None)
    batch.term.columnar = columnar
    own = batch.hessians._own_model(0)
    assert (own is not None) == columnar
    assert own is None or own.shared.dense is None


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
    tune_solver(monkeypatch, "hessian", min_wide_columns=10)
    tune_solver(monkeypatch, "hessian", max_matrix_columns=widest)
    with pytest.raises(st.SeparationError, match="Collinear columns: 'x62'"):
        model.fit(X, y)


def test_without_a_penalty_there_is_a_matrix_of_many_columns_too(monkeypatch):
    """Sites as columns: descent by columns would crawl along what they share with the intercept."""
    rng = np.random.default_rng(0)
    site, x = np.arange(400) % 40, rng.normal(size=400)
    sites = sparse.csc_array((site[:, None] == np.arange(1, 40)).astype(float))
    X = sparse.hstack([sparse.csc_array(x[:, None]), sites]).tocsc()
    y = rng.poisson(np.exp(0.3 * x + 0.05 * site))
    tune_solver(monkeypatch, "hessian", min_wide_columns=10)
    tune_solver(monkeypatch, "hessian", entries_ridge=0.1)
    wide = st.PoissonRegression().fit(X, y)
    assert wide.converged_
    assert wide.n_iter_ < 20
    conditional = st.ConditionalPoissonRegression().fit(x[:, None], y, strata=site)
    assert wide.coef_[0] == pytest.approx(conditional.coef_[0], abs=1e-8)


@pytest.mark.parametrize(
    ("k", "a_column", "lasso", "free", "grouped", "expected"),
    [
        (5000, 1, True, False, False, False),  # never of few columns
        (9000, 1000, True, False, False, True),  # 9 for each entry
        (9000, 1500, True, False, False, False),
        (21_000, 10**6, True, False, False, True),
        (13_000, 10**6, True, False, True, False),
        (9000, 1500, False, False, False, True),
        (9000, 1500, False, False, True, False),
        (9000, 1, False, True, False, False),  # solved with exactly
        (21_000, 1, False, True, False, True),
    ],
)
def test_a_matrix_is_made_where_it_is_smaller_than_reading_the_data(
    k, a_column, lasso, free, grouped, expected
):
    term = SimpleNamespace(W=np.arange(k), columnar=True, entries=k * a_column, B=1)
    assert hessian_form.too_wide(term, lasso, free, grouped, DEFAULT.hessian) == expected
    term.columnar = False
    assert not hessian_form.too_wide(term, lasso, free, grouped, DEFAULT.hessian)


@pytest.mark.parametrize(
    ("k", "grouped", "B", "expected"),
    [
        (7000, False, 1, False),
        (9000, False, 1, True),
        (12_000, False, 11, False),  # eleven read their rows eleven times,
        (19_000, False, 11, True),  # and those with a Hessian by columns take fewer steps
        (9000, True, 11, False),
        (12_000, True, 11, True),  # of risk sets, whose event times an array merges
    ],
)
def test_more_replicates_make_an_array_worth_more(k, grouped, B, expected):
    term = SimpleNamespace(W=np.arange(k), columnar=True, entries=k * 900, B=B)
    assert hessian_form.too_wide(term, True, False, grouped, DEFAULT.hessian) == expected
