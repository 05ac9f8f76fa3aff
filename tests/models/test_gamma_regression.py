"""Gamma regression: statsmodels, certificates from X, storage, weights and refusals."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize, sparse, stats

from reference import kkt
from simulators import mixed_matrix
from steropes import (
    CrossValidation,
    DataError,
    ElasticNet,
    GammaRegression,
    InformationCriterion,
    Laplace,
    LinearRegression,
    Normal,
    SeparationError,
    ShardedDesign,
    coefficient_path,
    fit_many,
)

N = 300


@pytest.fixture
def drawn(rng):
    X = mixed_matrix(rng, N, 6)
    offset = 0.3 * rng.normal(size=N)
    mean = np.exp(0.5 + 0.6 * X[:, 0] - 0.4 * X[:, 2] + offset)
    y = rng.gamma(2.0, mean / 2.0)
    w = rng.integers(0, 3, N).astype(float)
    return X, y, {"offset": offset, "sample_weight": w}


def glm(X, y, given, **settings):
    return sm.GLM(
        y, sm.add_constant(X), sm.families.Gamma(sm.families.links.Log()),
        offset=given["offset"], freq_weights=given["sample_weight"],
    ).fit(method="newton", tol=1e-14, **settings)  # fmt: skip


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, sparse.csr_matrix, pd.DataFrame])
def test_estimates_errors_and_dispersion_are_those_of_statsmodels(storage, drawn):
    X, y, given = drawn
    given["sample_weight"] += 1.0
    m = GammaRegression().fit(storage(X), y, **given)
    theirs = glm(X, y, given)
    np.testing.assert_allclose(m.summary()["coef"], theirs.params, atol=1e-7)
    assert m.dispersion_ == pytest.approx(theirs.scale, rel=1e-7)
    assert m.df_resid_ == given["sample_weight"].sum() - 7
    np.testing.assert_allclose(m.vcov(), theirs.cov_params(), rtol=1e-5, atol=1e-9)
    table = m.summary()
    np.testing.assert_allclose(table["p"], 2 * stats.t.sf(abs(table["t"]), m.df_resid_))
    np.testing.assert_allclose(m.checks.residuals("pearson"), theirs.resid_pearson, atol=1e-6)
    np.testing.assert_allclose(m.checks.residuals("deviance"), theirs.resid_deviance, atol=1e-6)
    np.testing.assert_allclose(m.predict(X, offset=given["offset"]), theirs.fittedvalues, rtol=1e-6)


def test_log_likelihood_is_the_largest_over_dispersions(drawn):
    X, y, given = drawn
    m, w = GammaRegression().fit(X, y, **given), given["sample_weight"]
    mean = m.predict(X, offset=given["offset"])

    def minus(log_shape):
        k = np.exp(log_shape)
        return -np.sum(w * stats.gamma.logpdf(y, k, scale=mean / k))

    best = optimize.minimize_scalar(minus, (-2, 2), tol=1e-12)
    assert m.log_likelihood_ == pytest.approx(-best.fun, rel=1e-10)
    assert m.aic_ == pytest.approx(2 * best.fun + 2 * 8)  # seven coefficients and the dispersion


@pytest.mark.parametrize("prior", [Laplace(0.02), Normal(0.1), ElasticNet(0.05, 0.5)], ids=str)
def test_the_certificate_holds_on_dense_x(prior, drawn):
    X, y, given = drawn
    m = GammaRegression(prior=prior, tol=1e-9).fit(sparse.csc_array(X), y, **given)
    eta = m.intercept_ + X @ m.coef_ + given["offset"]
    r = given["sample_weight"] * (1 - y * np.exp(-eta))
    own = prior.separable([str(j) for j in range(6)])
    assert kkt(X.T @ r, m.coef_, own.l1, own.l2).max() < 1e-6
    assert abs(r.sum()) < 1e-6
    assert m.converged_


def test_weights_are_repeated_rows_and_order_does_not_matter(drawn, rng):
    X, y, given = drawn
    times = given["sample_weight"].astype(int)
    rows = rng.permutation(np.repeat(np.arange(N), times))
    for prior in (None, Laplace(0.05)):
        a = GammaRegression(prior=prior, tol=1e-10).fit(X, y, **given)
        b = GammaRegression(prior=prior, tol=1e-10).fit(
            X[rows], y[rows], offset=given["offset"][rows]
        )
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
        assert a.dispersion_ == pytest.approx(b.dispersion_)
        assert a.log_likelihood_ == pytest.approx(b.log_likelihood_)
        assert a.score(X, y, times, offset=given["offset"]) == pytest.approx(
            b.score(X[rows], y[rows], offset=given["offset"][rows])
        )


def test_ratios_do_not_depend_on_the_unit_of_the_outcome(drawn):
    X, y, given = drawn
    a = GammaRegression(tol=1e-10).fit(X, y, **given)
    b = GammaRegression(tol=1e-10).fit(X, 1e6 * y, **given)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
    assert b.intercept_ - a.intercept_ == pytest.approx(np.log(1e6))
    assert a.dispersion_ == pytest.approx(b.dispersion_)
    np.testing.assert_allclose(a.summary()["se"], b.summary()["se"], rtol=1e-7)


@pytest.mark.parametrize("unit", [1e-100, 1e10, 1e20, 1e40, 1e120])
def test_any_unit_of_the_outcome_gives_the_same_ratios(unit, drawn):
    """Half-deviances of 1e20 once rounded the shape to zero, and the start to an optimum."""
    X, y, _ = drawn
    a, b = GammaRegression().fit(X, y), GammaRegression().fit(X, unit * y)
    assert b.converged_
    np.testing.assert_allclose(b.coef_, a.coef_, atol=1e-7)
    assert b.intercept_ - np.log(unit) == pytest.approx(a.intercept_, abs=1e-7)
    assert b.dispersion_ == pytest.approx(a.dispersion_)
    assert b.log_likelihood_ + len(y) * np.log(unit) == pytest.approx(a.log_likelihood_)
    many = fit_many(GammaRegression(prior=Laplace(0.1)), X, {"a": y, "b": unit * y})
    first, second = (g["coef"].to_numpy()[1:] for _, g in many.groupby("outcome"))
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("unit", [1e-100, 1e-20, 1e10, 1e40, 1e120])
def test_without_an_intercept_any_unit_has_its_optimum(unit, rng):
    """Zero coefficients were once within rounding of the optimum for y of 1e30."""
    X = rng.normal(size=(200, 3))
    y = unit * np.exp(X @ [0.3, -0.2, 0.1]) * rng.gamma(2, 0.5, 200)
    m = GammaRegression(fit_intercept=False).fit(X, y)
    assert m.converged_
    with np.errstate(over="ignore"):
        ratio = np.exp(np.log(y) - X @ m.coef_)
    score = X.T @ (1 - ratio)
    assert (np.abs(score) < 1e-6 * np.abs(X).T @ (1 + ratio)).all()
    if unit >= 1e40:  # ones are then negligible beside the ratios
        more = GammaRegression(fit_intercept=False).fit(X, 1e20 * y)
        np.testing.assert_allclose(more.coef_, m.coef_, atol=1e-7)
    cv = CrossValidation(4, random_state=0)
    chosen = GammaRegression(fit_intercept=False, prior=Laplace(), cv=cv).fit(X, y)
    assert chosen.converged_


def test_small_variation_approaches_a_linear_model_of_the_logarithm(rng):
    X = rng.normal(size=(N, 3))
    eta = 1.0 + X @ [0.5, 0.0, -0.5]
    y = rng.gamma(1e6, np.exp(eta) / 1e6)
    a, b = GammaRegression().fit(X, y), LinearRegression().fit(X, np.log(y))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)
    assert a.dispersion_ == pytest.approx(b.sigma2_, rel=1e-2)
    np.testing.assert_allclose(a.summary()["se"], b.summary()["se"], rtol=1e-2)


def test_tests_of_hypotheses_compare_log_likelihoods(drawn):
    X, y, given = drawn
    m = GammaRegression().fit(X, y, **given)
    smaller = GammaRegression().fit(X[:, :4], y, **given)
    got = m.inference.linear_hypothesis(["x4", "x5"], test="likelihood ratio")
    assert got["chisq"] == pytest.approx(2 * (m.log_likelihood_ - smaller.log_likelihood_))
    tests = m.inference.model_tests()["chisq"]
    null = GammaRegression(prior=Laplace(1e-9)).fit(X, y, **given)
    assert m.null_log_likelihood_ == pytest.approx(null.log_likelihood_)
    assert tests["likelihood ratio"] == pytest.approx(
        2 * (m.log_likelihood_ - null.log_likelihood_)
    )
    assert tests["score"] == pytest.approx(tests["likelihood ratio"], rel=0.5)


def test_the_ends_of_a_profile_interval_have_the_quantile_of_the_likelihood_ratio(drawn):
    X, y, given = drawn
    m = GammaRegression().fit(X, y, **given)
    row = m.inference.linear_combination("x0 - x2").iloc[0]
    assert row["lower"] < row["coef"] < row["upper"]
    test = m.inference.linear_hypothesis(f"x0 - x2 = {row['lower']}", test="likelihood ratio")
    assert test["chisq"] == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-3)
    for end in m.confint("x0", method="profile").iloc[0]:
        held = GammaRegression().fit(X, y, **given, fixed={0: end})
        drop = 2 * (m.log_likelihood_ - held.log_likelihood_)
        assert drop == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-4)


def test_robust_errors_are_those_of_statsmodels(drawn):
    X, y, given = drawn
    given = {**given, "sample_weight": np.ones(N)}
    m = GammaRegression().fit(X, y, **given)
    theirs = glm(X, y, given, cov_type="HC0")
    np.testing.assert_allclose(m.vcov("robust"), theirs.cov_params(), rtol=1e-5, atol=1e-9)
    group = np.arange(N) // 4
    change = m.checks.residuals("dfbeta").groupby(group).sum().to_numpy()
    np.testing.assert_allclose(m.vcov("robust", cluster=group), change.T @ change, rtol=1e-6)


def test_a_chooser_finds_the_effects_and_leaves_the_noise(drawn):
    X, y, given = drawn
    for cv in (CrossValidation(5, random_state=0), InformationCriterion("bic")):
        m = GammaRegression(prior=Laplace(), cv=cv).fit(X, y, **given)
        assert m.converged_
        assert m.coef_[0] > 0.3
        assert m.coef_[2] < -0.2
        assert m.variance_ in m.cv_results_["variance"].to_numpy()
    draws = m.inference.bootstrap(20, random_state=1)
    assert draws.nonzero["x0"] == 1.0


def test_paths_many_outcomes_and_copies(drawn, rng):
    X, y, given = drawn
    path = coefficient_path(GammaRegression(prior=Laplace()), X, y, [0.01, 0.1], **given)
    alone = GammaRegression(prior=Laplace(0.1)).fit(X, y, **given)
    np.testing.assert_allclose(path.loc[0.1], alone.coef_, atol=1e-6)
    blocks = ShardedDesign.from_blocks([X[:100], X[100:]])
    apart = GammaRegression(prior=Laplace(0.1)).fit(blocks, y, **given)
    np.testing.assert_allclose(apart.coef_, alone.coef_, atol=1e-6)
    other = rng.permutation(y)
    table = fit_many(GammaRegression(prior=Laplace(0.05)), X, {"a": y, "b": other}, **given)
    for name, outcome in (("a", y), ("b", other)):
        own = GammaRegression(prior=Laplace(0.05)).fit(X, outcome, **given)
        got = table[table["outcome"] == name]["coef"].to_numpy()
        np.testing.assert_allclose(got[1:], own.coef_, atol=1e-7)
    m = GammaRegression(prior=Normal(1.0)).fit(X, y, **given)
    for again in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m)):
        np.testing.assert_array_equal(again.predict(X), m.predict(X))
        assert again.dispersion_ == m.dispersion_


def test_average_effects_and_means_have_the_derivatives_of_the_mean(drawn):
    X, y, given = drawn
    m = GammaRegression().fit(X, y, **given)
    table = m.effects.predictions(X, "response")
    np.testing.assert_allclose(table["estimate"], m.predict(X))
    linear = m.effects.predictions(X, "linear")
    np.testing.assert_allclose(table["se"], m.predict(X) * linear["se"], rtol=1e-6)
    assert f"Dispersion      {m.dispersion_:.6g}" in str(m)
    effect = m.effects.average(X, "x2")
    assert effect["effect"].iloc[0] == pytest.approx(m.coef_[2] * m.predict(X).mean(), rel=1e-5)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_outcomes_without_variation_or_error_are_fitted(unit, rng):
    X = rng.normal(size=(N, 3))
    constant = GammaRegression().fit(X, np.full(N, 3.0 * unit))
    assert constant.converged_
    assert constant.intercept_ == pytest.approx(np.log(3.0 * unit))
    np.testing.assert_allclose(constant.coef_, 0.0, atol=1e-12)
    exact = GammaRegression().fit(X, unit * np.exp(X[:, 0]))
    assert exact.converged_
    np.testing.assert_allclose(exact.coef_, [1.0, 0.0, 0.0], atol=1e-9)
    far = GammaRegression().fit(X, unit * np.exp(X[:, 0] + 300.0), offset=np.full(N, 300.0))
    np.testing.assert_allclose(far.coef_, exact.coef_, atol=1e-9)


def test_an_outcome_that_is_not_positive_is_refused_with_its_row(drawn):
    X, y, _ = drawn
    y = y.copy()
    y[7] = 0.0
    with pytest.raises(DataError, match=r"y must be positive; row 7 is 0"):
        GammaRegression().fit(X, y)
    with pytest.raises(DataError, match=r"y must be positive; row 7 is 0"):
        GammaRegression().fit(X, y + 1).score(X, y)
    with pytest.raises(DataError, match="exposure"):
        GammaRegression().fit(X, y + 1, exposure=np.ones(N))
    with pytest.raises(DataError, match="ccd"):
        GammaRegression(solver="ccd").fit(X, y + 1)
    with pytest.raises(SeparationError, match="Collinear"):
        GammaRegression().fit(np.column_stack([X, X[:, 0]]), y + 1)


@pytest.mark.parametrize("offset", [None, "spread"])
def test_outcomes_that_are_too_far_apart_are_named_instead_of_columns(offset):
    """Fits took such columns for collinear, or ended at zero coefficients."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    log_y = 50 * X[:, 0]
    given = None
    if offset is not None:
        log_y, given = 0.0 * X[:, 0], -50 * X[:, 0]
    with pytest.raises(DataError, match=f"too far apart: .* in row {X[:, 0].argmax()}"):
        GammaRegression().fit(X, np.exp(log_y), offset=given)


def test_outcomes_far_below_the_others_are_no_reason_to_refuse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.exp(0.5 * X[:, 0]) * rng.gamma(2.0, size=400)
    usual = GammaRegression().fit(X, y)
    y[:3] = 1e-130
    assert np.abs(GammaRegression().fit(X, y).coef_ - usual.coef_).max() < 0.1


@pytest.mark.parametrize("unit", [1e20, 1e30, 1e-30])
def test_outcomes_far_from_one_are_fitted_without_an_intercept(unit, drawn):
    """A fit that starts far from the outcomes is not taken for converged there."""
    X, y, _ = drawn
    ones = np.column_stack([np.ones(len(X)), X])
    known, model = GammaRegression().fit(X, y), GammaRegression(fit_intercept=False)
    found = model.fit(ones, y * unit)
    expected = np.append(known.intercept_ + np.log(unit), known.coef_)
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-6, atol=1e-8)


def test_the_explained_deviance_with_an_offset_is_that_of_statsmodels(rng):
    X, offset = rng.normal(size=(200, 2)), rng.normal(size=200)
    y, w = rng.gamma(2.0, np.exp(0.3 * X[:, 0] + offset)), rng.integers(1, 4, 200).astype(float)
    family = sm.families.Gamma(sm.families.links.Log())
    Z = sm.add_constant(X)
    theirs = sm.GLM(y, Z, family=family, offset=offset, freq_weights=w).fit()
    m = GammaRegression().fit(X, y, offset=offset, sample_weight=w)
    expected = 1.0 - theirs.deviance / theirs.null_deviance
    assert m.score(X, y, w, offset=offset) == pytest.approx(expected, rel=1e-6)
    assert m.score(X, np.exp(offset), offset=offset) == 0.0


def test_the_explained_deviance_is_that_of_shifted_offsets(rng):
    X, offset = rng.normal(size=(50, 2)), rng.normal(size=50)
    y = rng.gamma(2.0, np.exp(0.5 * X[:, 0] + offset))
    m = GammaRegression().fit(X, y, offset=offset)
    expected = m.score(X, y, offset=offset)
    for far in (300.0, -300.0, -1200.0):
        own = GammaRegression().fit(X, y, offset=offset + far)
        assert own.score(X, y, offset=offset + far) == pytest.approx(expected, rel=1e-6)
        again = own.validation.validate(2, random_state=0).loc["r2", "apparent"]
        assert again == pytest.approx(expected, rel=1e-6)
    apart = np.append(1000.0, offset[1:])  # no mean of y is finite without logarithms
    assert np.isfinite(m.score(X, y, offset=apart))
    # Outcomes in proportion to the offset, up to rounding.
    assert m.score(X, 1.3 * np.exp(offset), offset=offset) == 0.0
