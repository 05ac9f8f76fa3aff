"""Negative binomial regression: statsmodels, reductions to Poisson, certificates and refusals."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse, stats

from reference import kkt
from simulators import mixed_matrix
from steropes import (
    CrossValidation,
    DataError,
    InformationCriterion,
    Laplace,
    NegativeBinomialRegression,
    Normal,
    PoissonRegression,
    SeparationError,
    ShardedDesign,
    coefficient_path,
    fit_many,
)

N = 300


@pytest.fixture
def drawn(rng):
    X = mixed_matrix(rng, N, 6)
    t = rng.uniform(0.5, 2.0, N)
    mean = np.exp(0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 2]) * t
    y = rng.poisson(rng.gamma(1.5, mean / 1.5))
    return X, y, {"exposure": t}


def derivative(m, X, y, given, alpha):
    """The derivative of each row's loss in η."""
    mean = m.predict(X, **given)
    return (mean - y) / (1 + alpha * mean)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, sparse.csr_matrix, pd.DataFrame])
def test_estimates_and_errors_are_those_of_statsmodels(storage, drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression(tol=1e-10).fit(storage(X), y, **given)
    model = sm.NegativeBinomial(y, sm.add_constant(X), **given)
    theirs = model.fit(method="newton", tol=1e-14, maxiter=100, disp=0)
    np.testing.assert_allclose(m.summary()["coef"], theirs.params[:-1], atol=1e-7)
    assert m.dispersion_ == pytest.approx(theirs.params[-1], rel=1e-6)
    assert m.log_likelihood_ == pytest.approx(theirs.llf, rel=1e-12)
    assert m.aic_ == pytest.approx(theirs.aic, rel=1e-10)
    np.testing.assert_allclose(m.vcov(), theirs.cov_params()[:-1, :-1], rtol=1e-5, atol=1e-8)
    robust = model.fit(method="newton", tol=1e-14, maxiter=100, disp=0, cov_type="HC0")
    np.testing.assert_allclose(
        m.vcov("robust"), robust.cov_params()[:-1, :-1], rtol=1e-5, atol=1e-8
    )


def test_a_given_dispersion_is_a_generalised_linear_model(drawn, rng):
    X, y, given = drawn
    w, offset = rng.integers(1, 4, N).astype(float), 0.2 * rng.normal(size=N)
    m = NegativeBinomialRegression(dispersion=0.4).fit(
        X, y, **given, sample_weight=w, offset=offset
    )
    theirs = sm.GLM(
        y, sm.add_constant(X), sm.families.NegativeBinomial(alpha=0.4), **given,
        offset=offset, freq_weights=w,
    ).fit(method="newton", tol=1e-14)  # fmt: skip
    np.testing.assert_allclose(m.summary()["coef"], theirs.params, atol=1e-8)
    np.testing.assert_allclose(m.vcov(), theirs.cov_params(), rtol=1e-6, atol=1e-9)
    assert m.log_likelihood_ == pytest.approx(theirs.llf, rel=1e-10)
    assert m.dispersion_ == 0.4
    np.testing.assert_allclose(m.checks.residuals("pearson"), theirs.resid_pearson, atol=1e-6)
    np.testing.assert_allclose(m.checks.residuals("deviance"), theirs.resid_deviance, atol=1e-6)
    assert m.aic_ == pytest.approx(2 * 7 - 2 * theirs.llf)


def test_fits_at_the_estimated_dispersion_are_the_fit(drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression(tol=1e-10).fit(X, y, **given)
    again = NegativeBinomialRegression(dispersion=m.dispersion_, tol=1e-10).fit(X, y, **given)
    np.testing.assert_allclose(m.coef_, again.coef_, atol=1e-8)
    assert m.log_likelihood_ == pytest.approx(again.log_likelihood_, rel=1e-12)
    for factor in (0.99, 1.01):
        near = NegativeBinomialRegression(dispersion=factor * m.dispersion_).fit(X, y, **given)
        assert near.log_likelihood_ < m.log_likelihood_


@pytest.mark.parametrize("prior", [None, Laplace(0.1), Normal(0.5)], ids=str)
def test_counts_that_vary_less_than_poissons_have_the_fit_of_poisson(prior, rng):
    X = mixed_matrix(rng, N, 4)
    y = rng.binomial(6, 1 / (1 + np.exp(-0.3 * X[:, 2])))
    a = NegativeBinomialRegression(prior=prior, tol=1e-10).fit(X, y)
    b = PoissonRegression(prior=prior, tol=1e-10).fit(X, y)
    assert a.dispersion_ == 0.0
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, abs=1e-6)
    for kind in ("pearson", "deviance"):
        np.testing.assert_allclose(a.checks.residuals(kind), b.checks.residuals(kind), atol=1e-6)
    assert a.score(X, y) == pytest.approx(b.score(X, y), rel=1e-6)


def test_a_tiny_dispersion_approaches_poisson_and_one_is_geometric(drawn):
    X, y, given = drawn
    a = NegativeBinomialRegression(dispersion=1e-9).fit(X, y, **given)
    b = PoissonRegression().fit(X, y, **given)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    one = NegativeBinomialRegression(dispersion=1.0).fit(X, y, **given)
    p = 1 / (1 + one.predict(X, **given))
    assert one.log_likelihood_ == pytest.approx(stats.geom.logpmf(y + 1, p).sum())


@pytest.mark.parametrize("dispersion", [None, 0.5])
@pytest.mark.parametrize("prior", [Laplace(0.02), Normal(0.1)], ids=str)
def test_the_certificate_holds_on_dense_x(prior, dispersion, drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression(dispersion=dispersion, prior=prior, tol=1e-9)
    m.fit(sparse.csc_array(X), y, **given)
    r = derivative(m, X, y, given, m.dispersion_)
    own = prior.separable([str(j) for j in range(6)])
    assert kkt(X.T @ r, m.coef_, own.l1, own.l2).max() < 1e-6
    assert abs(r.sum()) < 1e-6
    assert m.converged_


def test_weights_are_repeated_rows_and_order_does_not_matter(drawn, rng):
    X, y, given = drawn
    w = rng.integers(0, 3, N)
    rows = rng.permutation(np.repeat(np.arange(N), w))
    for prior in (None, Laplace(0.05)):
        a = NegativeBinomialRegression(prior=prior, tol=1e-10)
        a.fit(X, y, sample_weight=w, **given)
        b = NegativeBinomialRegression(prior=prior, tol=1e-10)
        b.fit(X[rows], y[rows], exposure=given["exposure"][rows])
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
        assert a.dispersion_ == pytest.approx(b.dispersion_)
        assert a.log_likelihood_ == pytest.approx(b.log_likelihood_)
        assert a.score(X, y, w, **given) == pytest.approx(
            b.score(X[rows], y[rows], exposure=given["exposure"][rows])
        )


def test_profiles_and_tests_refit_the_dispersion(drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression().fit(X, y, **given)
    for end in m.confint("x0", method="profile").iloc[0]:
        held = NegativeBinomialRegression().fit(X, y, **given, fixed={0: end})
        assert held.dispersion_ != pytest.approx(m.dispersion_, rel=1e-6)
        drop = 2 * (m.log_likelihood_ - held.log_likelihood_)
        assert drop == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-4)
    row = m.inference.linear_combination("x0 - x2").iloc[0]
    test = m.inference.linear_hypothesis(f"x0 - x2 = {row['upper']}", test="likelihood ratio")
    assert test["chisq"] == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-3)
    smaller = NegativeBinomialRegression().fit(X[:, :4], y, **given)
    got = m.inference.linear_hypothesis(["x4", "x5"], test="likelihood ratio")
    assert got["chisq"] == pytest.approx(2 * (m.log_likelihood_ - smaller.log_likelihood_))


def test_influences_with_an_estimated_dispersion_add_up_to_the_robust_covariance(drawn, rng):
    X, y, given = drawn
    w = rng.integers(1, 3, N).astype(float)
    m = NegativeBinomialRegression().fit(X, y, **given, sample_weight=w)
    change = m.checks.residuals("dfbeta").to_numpy()
    np.testing.assert_allclose(change.T @ change, m.vcov("robust"), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(change.sum(axis=0), 0.0, atol=1e-7)
    less = w.copy()
    less[3] -= 1e-4
    moved = NegativeBinomialRegression(tol=1e-12).fit(X, y, **given, sample_weight=less)
    whole = NegativeBinomialRegression(tol=1e-12).fit(X, y, **given, sample_weight=w)
    np.testing.assert_allclose(
        (whole.coef_ - moved.coef_) / 1e-4, change[3, 1:] / w[3], rtol=1e-3, atol=1e-6
    )


def test_scores_are_at_the_dispersion_of_the_weighted_fit(drawn, rng):
    X, y, given = drawn
    w = rng.integers(0, 4, N).astype(float)
    m = NegativeBinomialRegression(tol=1e-10).fit(X, y, **given, sample_weight=w)
    mean = m.predict(X, **given)
    slope = (y - mean) / (1 + m.dispersion_ * mean)
    score = m.checks.residuals("score").to_numpy()
    np.testing.assert_allclose(score, slope[:, None] * np.c_[np.ones(N), X], atol=1e-7)
    np.testing.assert_allclose(w @ score, 0.0, atol=1e-5)


def test_d2_compares_with_the_best_rate_at_the_same_dispersion(drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression().fit(X, y, **given)
    null = NegativeBinomialRegression(dispersion=m.dispersion_, prior=Laplace(1e-9))
    null.fit(X, y, **given)
    D = [np.sum(x.checks.residuals("deviance") ** 2) for x in (m, null)]
    assert m.score(X, y, **given) == pytest.approx(1 - D[0] / D[1], rel=1e-8)


def test_folds_have_dispersions_of_their_own(drawn):
    X, y, given = drawn
    rows, t = np.arange(N), given["exposure"]
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    cv = CrossValidation(folds, search=[0.05], tol=1e-9)
    m = NegativeBinomialRegression(prior=Laplace(), cv=cv).fit(X, y, **given)
    expected = []
    for rest, out in folds:
        own = NegativeBinomialRegression(prior=Laplace(0.05), tol=1e-10)
        own.fit(X[rest], y[rest], exposure=t[rest])
        mean, size = own.predict(X[out], exposure=t[out]), 1 / own.dispersion_
        expected.append(stats.nbinom.logpmf(y[out], size, size / (size + mean)).sum())
    assert m.cv_results_["mean"].iloc[0] == pytest.approx(np.mean(expected), rel=1e-6)


def test_a_chooser_finds_the_effects_and_draws_keep_them(drawn):
    X, y, given = drawn
    for cv in (CrossValidation(5, random_state=0), InformationCriterion("bic")):
        m = NegativeBinomialRegression(prior=Laplace(), cv=cv).fit(X, y, **given)
        assert m.converged_
        assert m.coef_[0] > 0.2
        assert m.coef_[2] < -0.1
    assert m.inference.bootstrap(20, random_state=1).nonzero["x0"] > 0.9


def test_paths_blocks_of_rows_many_outcomes_and_copies(drawn, rng):
    X, y, given = drawn
    settings = {"prior": Laplace(0.1), "tol": 1e-10}
    m = NegativeBinomialRegression(**settings).fit(X, y, **given)
    path = coefficient_path(NegativeBinomialRegression(prior=Laplace()), X, y, [0.1], **given)
    np.testing.assert_allclose(path.loc[0.1], m.coef_, atol=1e-6)
    for dispersion in (None, 0.5):
        blocks = ShardedDesign.from_blocks([X[:100], X[100:]])
        a, b = (
            NegativeBinomialRegression(dispersion=dispersion, **settings).fit(Z, y, **given)
            for Z in (blocks, X)
        )
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
    other = rng.permutation(y)
    table = fit_many(NegativeBinomialRegression(**settings), X, {"a": y, "b": other}, **given)
    own = NegativeBinomialRegression(**settings).fit(X, other, **given)
    np.testing.assert_allclose(table["coef"].to_numpy()[-6:], own.coef_, atol=1e-7)
    ridge = NegativeBinomialRegression(prior=Normal(1.0)).fit(X, y, **given)
    for again in (pickle.loads(pickle.dumps(ridge)), copy.deepcopy(ridge)):
        np.testing.assert_array_equal(again.predict(X), ridge.predict(X))
        assert again.dispersion_ == ridge.dispersion_


def test_means_have_the_errors_of_the_delta_method(drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression().fit(X, y, **given)
    table, linear = m.effects.predictions(X, "response"), m.effects.predictions(X, "linear")
    np.testing.assert_allclose(table["se"], m.predict(X) * linear["se"], rtol=1e-6)


def test_offsets_far_from_zero_move_the_intercept_only(drawn):
    X, y, given = drawn
    near = NegativeBinomialRegression().fit(X, y, **given)
    far = NegativeBinomialRegression().fit(X, y, **given, offset=np.full(N, 300.0))
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-7)
    assert far.intercept_ == pytest.approx(near.intercept_ - 300.0)
    assert far.dispersion_ == pytest.approx(near.dispersion_, rel=1e-6)


def test_counts_of_millions_and_a_single_event_have_a_dispersion(rng):
    X = rng.normal(size=(N, 2))
    many = NegativeBinomialRegression().fit(X, rng.poisson(rng.gamma(1.0, 1e6, N)))
    assert many.converged_
    assert many.dispersion_ == pytest.approx(1.0, abs=0.3)
    one = np.zeros(N)
    one[0] = 1000.0
    single = NegativeBinomialRegression(prior=Laplace(0.1)).fit(X, one)
    assert single.converged_
    assert single.dispersion_ > 100.0


def test_what_has_no_estimate_is_refused(drawn):
    X, y, _ = drawn
    for wrong in (0.0, -1.0, np.inf, "ml", True):
        with pytest.raises(DataError, match="dispersion must be"):
            NegativeBinomialRegression(dispersion=wrong).fit(X, y)
    with pytest.raises(DataError, match="zero in every row"):
        NegativeBinomialRegression().fit(X, 0 * y)
    with pytest.raises(DataError, match="ccd"):
        NegativeBinomialRegression(solver="ccd").fit(X, y)
    only = (np.arange(N) == 5) | (np.arange(N) == 6)
    for dispersion in (None, 1.0):
        with pytest.raises(SeparationError, match="only"):
            NegativeBinomialRegression(dispersion=dispersion).fit(
                pd.DataFrame({"x": X[:, 2], "only": only.astype(float)}), np.where(only, 0, y)
            )


def test_a_changed_setting_does_not_change_the_fit(drawn):
    X, y, given = drawn
    m = NegativeBinomialRegression().fit(X, y, **given)
    aic = m.aic_
    m.set_params(dispersion=0.5)
    assert m.aic_ == aic


SEPARATED = np.array([[0.0], [1.0], [0.8], [-0.4], [1.3]]), np.array([0.0, 0.0, 0.0, 0.0, 2.0])


def test_separated_counts_are_refused_at_a_dispersion_of_zero():
    """The unit of the certificate falls as fast as the score there, so that it proves nothing."""
    with pytest.raises(SeparationError, match="'intercept', 'x0'"):
        NegativeBinomialRegression().fit(*SEPARATED)


@pytest.mark.slow
def test_a_finite_maximum_exists_where_one_exists_with_poisson_s_distribution():
    """Rows without events may not all lie on one side, whatever the dispersion is."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 9))
        X = np.round(rng.normal(size=(n, int(rng.integers(1, 3)))), 1)
        y = rng.poisson(rng.gamma(0.5, 1.0, size=n) * 0.8) * 1.0
        if not y.any():
            continue
        exists = []
        for model in (NegativeBinomialRegression(), PoissonRegression()):
            try:
                exists.append(model.fit(X, y).converged_)
            except SeparationError:
                exists.append(False)
        assert exists[0] == exists[1]
        found.append(exists[0])
    assert 10 < sum(found) < len(found) - 10


def test_draws_with_separated_counts_have_infinite_coefficients():
    X, y = np.arange(8.0)[:, None] % 4, np.array([0, 1, 0, 3, 0, 0, 1, 2.0])
    model = NegativeBinomialRegression().fit(X, y)
    assert model.dispersion_ == 0
    ours = model.inference.bootstrap(100, random_state=1).coef
    theirs = PoissonRegression().fit(X, y).inference.bootstrap(100, random_state=1).coef
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
    assert 0 < np.isinf(theirs[:, 1]).sum() < 100


def test_counts_that_are_not_whole_are_named():
    y = [1.0, 0.0, 2.5, 3.0, 0.5, 4.0]
    with pytest.warns(UserWarning, match="not a whole number in row 2 and 1 more"):
        NegativeBinomialRegression().fit([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]], y)
