"""Steps are safe where the initial curvature is misleading: rare columns, folds without ones."""

import numpy as np
import pytest
from scipy import sparse, special
from sklearn.model_selection import KFold

import steropes
from steropes import SeparationError
from steropes.infer.information_matrix import refuse_collinear
from steropes.solve.elastic_net_penalty import ElasticNetPenalty
from steropes.solve.separation.collinearity import collinear_columns


def rare_columns(rng, n, p, highest):
    """0/1 columns whose prevalences go down to two in n."""
    return (rng.random((n, p)) < np.exp(rng.uniform(np.log(2 / n), np.log(highest), p))) * 1.0


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [0, 1, 7, 9, 10])
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_weak_lasso_on_rare_columns_reaches_its_optimum(family, seed):
    rng = np.random.default_rng(seed)
    n = 2000
    X, offset = rare_columns(rng, n, 20, 0.5), rng.normal(-5, 4, n)
    if family == "logistic":
        kind, y = steropes.LogisticRegression, (rng.random(n) < 0.3).astype(int)
    else:
        kind, y = steropes.PoissonRegression, rng.negative_binomial(0.5, 0.01, n)
        offset = None
    m = kind(prior=steropes.Laplace(1000.0)).fit(X, y, offset=offset)
    assert m.converged_
    eta = m.intercept_ + X @ m.coef_ + (0.0 if offset is None else offset)
    mean = special.expit(eta) if family == "logistic" else np.exp(eta)
    g, lam = X.T @ (mean - y), np.sqrt(2 / 1000)
    assert abs((mean - y).sum()) < 1e-5
    np.testing.assert_allclose(g[m.coef_ != 0], -lam * np.sign(m.coef_[m.coef_ != 0]), atol=1e-5)
    assert np.all(np.abs(g[m.coef_ == 0]) <= lam + 1e-5)


def test_a_fold_without_a_columns_ones_leaves_no_coefficient_behind():
    rng = np.random.default_rng(2)
    n, p = 1000, 150
    X = sparse.csc_array(rare_columns(rng, n, p, 0.3))
    time, event = rng.exponential(1, n), (rng.random(n) < 0.7).astype(int)
    splits = list(KFold(10, shuffle=True, random_state=0).split(np.zeros(n)))
    cv = steropes.CrossValidation(splits, search=[1.0, 10.0], tol=1e-7)
    m = steropes.CoxRegression(prior=steropes.Laplace(), cv=cv).fit(X, steropes.Surv(time, event))
    row = m.cv_results_.set_index("variance").loc[10.0]
    for k in (2, 3, 5):
        train, test = splits[k]
        alone = steropes.CoxRegression(prior=steropes.Laplace(10.0), tol=1e-9)
        alone.fit(X[train], steropes.Surv(time[train], event[train]))
        eta = X[test] @ alone.coef_
        late = np.argsort(-time[test])
        at_risk = np.logaddexp.accumulate(eta[late])
        score = ((eta[late] - at_risk) * event[test][late]).sum()
        assert row[f"fold{k}"] == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_folds_start_where_the_full_data_are_and_not_at_zero(family, rng):
    n = 2000
    X, days = rng.normal(size=(n, 5)), 365 * rng.lognormal(0, 1.5, n)
    if family == "poisson":
        y, extra = rng.poisson(1e-5 * days * np.exp(0.3 * X[:, 0])), {"exposure": days}
        kind = steropes.PoissonRegression
    else:
        y, extra = (rng.random(n) < 0.01).astype(int), {"offset": 0.1 * np.log(days)}
        kind = steropes.LogisticRegression
    cv = steropes.CrossValidation(5, random_state=1, tol=1e-6)
    walked = kind(prior=steropes.Laplace(), cv=cv).fit(X, y, **extra).cv_results_
    given = [walked["variance"].iloc[0]]
    cv = steropes.CrossValidation(5, random_state=1, tol=1e-6, search=given)
    alone = kind(prior=steropes.Laplace(), cv=cv).fit(X, y, **extra).cv_results_
    assert np.isfinite(walked["mean"]).all()
    np.testing.assert_allclose(walked.iloc[0, 4:], alone.iloc[0, 4:], rtol=1e-6)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_a_row_that_is_never_at_risk_may_have_any_predictor(ties, rng):
    time = np.append(0.5, np.repeat(np.arange(1.0, 21), 2))
    event = np.append(0, np.ones(40, int))
    X = rng.normal(size=(41, 1))
    offset = np.append(800.0, np.zeros(40))
    model = steropes.CoxRegression(ties=ties, prior=steropes.Normal(1.0))
    m = model.fit(X, steropes.Surv(time, event), offset=offset)
    assert m.converged_
    coef = m.coef_.copy()
    model.fit(X[1:], steropes.Surv(time[1:], event[1:]))
    np.testing.assert_allclose(coef, model.coef_, atol=1e-8)


@pytest.mark.parametrize(
    ("solver", "size"),
    [("newton", x) for x in (1e-150, 1e-10, 1e9, 1e150)] + [("ccd", 1e-10), ("ccd", 1e9)],
)
def test_the_certificate_of_a_linear_model_knows_no_unit_of_y(solver, size, rng):
    X = rng.normal(size=(1000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=1000)
    exact = np.linalg.lstsq(np.c_[np.ones(1000), X], y, rcond=None)[0][1:]
    m = steropes.LinearRegression(solver=solver, tol=1e-7).fit(X, size * y)
    assert m.converged_
    assert m.n_iter_ < 100
    np.testing.assert_allclose(m.coef_ / size, exact, rtol=1e-6)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_matrix])
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_far_columns_that_nearly_cancel_have_large_coefficients(family, storage):
    """Without an intercept, 5,000 ± 1 and 50,000 ± 1 are nearly collinear with small deviations."""
    rng = np.random.default_rng(0)
    n = 80
    a, b = rng.normal(size=(2, n))
    X = np.column_stack([5e3 + a, 5e4 + b])
    eta = 1.5 * (a - b / 10)
    if family == "logistic":
        kind, y = steropes.LogisticRegression, (rng.random(n) < special.expit(eta)).astype(int)
    else:
        kind, y = steropes.PoissonRegression, rng.poisson(np.exp(eta))
    m = kind(fit_intercept=False).fit(storage(X), y)
    assert m.converged_
    # The same model in columns that are not nearly one: x₁ − x₂ / 10 and x₂ / 50,000.
    turned = kind(fit_intercept=False).fit(np.column_stack([a - b / 10, X[:, 1] / 5e4]), y)
    first, second = turned.coef_
    np.testing.assert_allclose(m.coef_, [first, second / 5e4 - first / 10], rtol=1e-5)


def test_a_penalty_that_overflows_is_infinite_without_a_warning():
    penalty = ElasticNetPenalty.of(np.zeros(1), np.ones(1), np.ones(1), 1, 1)
    assert penalty.value(np.array([[1e200]]), np.array([0])) == np.inf


def test_of_equal_columns_the_last_one_is_redundant_whatever_the_rounding(rng):
    Z = rng.normal(size=(50, 3))
    Z = np.linalg.qr(Z)[0][:, [0, 1, 0, 2, 0]]
    for last in (1.0 - 1e-15, 1.0, 1.0 + 1e-15):
        C = Z.T @ Z
        C[4, 4] *= last
        redundant, partners = collinear_columns(C)
        assert sorted(redundant) == [2, 4]
        assert partners.tolist() == [0]


def test_units_do_not_decide_which_of_equal_columns_is_named(rng):
    Z, names = np.linalg.qr(rng.normal(size=(50, 2)))[0][:, [0, 1, 0]], ["a", "b", "c"]
    for _ in range(20):
        scaled = Z * rng.uniform(1.0, 10.0, 3)
        H = scaled.T @ scaled
        with pytest.raises(SeparationError, match="'c' can be written as a combination of 'a'"):
            refuse_collinear(names, np.arange(3), H, np.diag(H), 50)
