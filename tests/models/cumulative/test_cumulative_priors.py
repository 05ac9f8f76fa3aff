"""Priors on β with α profiled out: optimality, all columns checked, cross-validation."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold

from steropes import (
    BrokenAdaptiveRidge,
    CrossValidation,
    DataError,
    ElasticNet,
    GroupLaplace,
    Hierarchical,
    Laplace,
    Normal,
    ShardedDesign,
)
from steropes.likelihoods.cumulative import CODES, Thresholds
from steropes.models.cumulative import Censored, CumulativeProbabilityModel

Model = CumulativeProbabilityModel


@pytest.fixture
def wide():
    rng = np.random.default_rng(8)
    X = sparse.random(300, 60, density=0.2, random_state=1, format="csc")
    X.data[:] = 1 + (np.arange(len(X.data)) % 3 == 0)
    y = np.round(X[:, :3] @ [1.5, -1.0, 0.7] + rng.logistic(size=300), 1)
    return X, y


def gradient(m, X, y):
    lik = m._parts[0].likelihood
    order = lik.levels.order
    X = X.toarray()[order]
    ev = lik.evaluate(Thresholds(m.alpha_, np.diff(m.alpha_, prepend=0.0)), X @ m.coef_)
    return -lik.to_thresholds(ev.la, ev.lb), X.T @ ev.s


@pytest.mark.sampled
@pytest.mark.parametrize("link", CODES)
@pytest.mark.parametrize("prior", [Laplace(0.02), ElasticNet(0.05, 0.5), Normal(0.3)])
def test_kkt_conditions_hold_for_every_column(link, prior, wide):
    X, y = wide
    m = Model(link=link, prior=prior).fit(X, y)
    assert m.converged_
    g_alpha, g = gradient(m, X, y)
    assert np.abs(g_alpha).max() < 1e-4
    penalty = prior.penalty(m._names)
    on = m.coef_ != 0
    slope = g + penalty.l2 * m.coef_
    np.testing.assert_allclose(slope[on], -penalty.l1[on] * np.sign(m.coef_[on]), atol=1e-5)
    assert (np.abs(slope[~on]) <= penalty.l1[~on] * (1 + 1e-7) + 1e-6).all()
    if isinstance(prior, Laplace):
        assert 0 < on.sum() < 40


def test_excluded_column_is_unpenalised_and_laplace_has_no_errors(wide):
    X, y = wide
    m = Model(prior=Laplace(1e-8, exclude=["x0"])).fit(X, y)
    alone = Model().fit(X[:, :1], y)
    assert np.count_nonzero(m.coef_) == 1
    assert m.coef_[0] == pytest.approx(alone.coef_[0], rel=1e-7)
    assert m.summary()["se"].isna().all()
    assert np.isnan(m.predict_cdf(X, 0.0, level=0.9).lower).all()
    assert np.isnan(m.predict_mean(X, level=0.9).lower).all()
    assert np.isnan(m.predict_quantile(X, 0.5, level=0.9).lower).all()


def test_dense_and_sparse_agree(wide):
    X, y = wide
    a, b = Model(prior=Laplace(0.02)).fit(X, y), Model(prior=Laplace(0.02)).fit(X.toarray(), y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-7)
    np.testing.assert_allclose(a.alpha_, b.alpha_, atol=1e-6)


def test_separated_data_have_an_optimum_under_a_prior():
    x = np.linspace(-1, 1, 40)[:, None]
    m = Model(prior=Normal(4.0)).fit(x, np.arange(40))
    assert m.converged_
    assert np.isfinite(m.summary()["se"]).all()


def test_cross_validation_chooses_a_variance_it_evaluated(wide):
    X, y = wide
    m = Model(prior=Laplace(), cv=CrossValidation(4, random_state=0)).fit(X, y)
    table = m.cv_results_
    assert m.variance_ in table["variance"].to_numpy()
    assert m.variance_ == table["variance"][table["mean"].idxmax()]
    assert np.isfinite(table.to_numpy()).all()
    assert m.prior_.variance == m.variance_
    again = Model(prior=Laplace(m.variance_)).fit(X, y)
    np.testing.assert_allclose(m.coef_, again.coef_, atol=1e-7)


def test_held_out_score_is_the_probability_of_the_bin_an_outcome_falls_into(wide):
    X, y = wide
    m = Model(prior=Laplace(), cv=CrossValidation(3, search=[0.05], random_state=5)).fit(X, y)
    from steropes.likelihoods.likelihood_constants import LEVELS
    from steropes.select.folds import make_folds

    order = m._problem.likelihood.order
    label = np.zeros(len(y), np.int64)
    label[order] = np.arange(len(y)) * LEVELS.fold_groups // len(y)
    fold = make_folds(3, 1, label, None, len(y), 5)[:, 0]
    for f in range(3):
        train = fold != f
        part = Model(prior=Laplace(0.05), tol=1e-6).fit(X[train], y[train])
        values = part.levels_
        j = np.minimum(np.searchsorted(values, y[~train]), len(values) - 1)
        F = np.column_stack([np.zeros((~train).sum()), part.predict_cdf(X[~train], values)])
        rows = np.arange(len(j))
        expected = np.log(F[rows, j + 1] - F[rows, j]).sum()
        assert m.cv_results_[f"fold{f}"][0] == pytest.approx(expected, rel=1e-3)


def test_given_splits_are_the_folds(wide):
    """The same folds as pairs of row numbers, bare or within CrossValidation."""
    X, y = wide
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    m = Model(prior=Laplace(), cv=CrossValidation(splits, search=[0.02, 0.2])).fit(X, y)
    for f, (train, test) in enumerate(splits):
        part = Model(prior=Laplace(0.02), tol=1e-6).fit(X[train], y[train])
        values = part.levels_
        F = np.column_stack([np.zeros(len(test)), part.predict_cdf(X[test], values)])
        j = np.minimum(np.searchsorted(values, y[test]), len(values) - 1)
        rows = np.arange(len(test))
        expected = np.log(F[rows, j + 1] - F[rows, j]).sum()
        assert m.cv_results_[f"fold{f}"][0] == pytest.approx(expected, rel=1e-3)
    again = Model(prior=Laplace(), cv=splits, random_state=0).fit(X, y)
    assert again.converged_
    with pytest.raises(DataError, match="Split 0 leaves row"):
        Model(prior=Laplace(), cv=[(splits[0][0][1:], splits[0][1])]).fit(X, y)


def test_cross_validation_with_detection_limits(wide):
    X, y = wide
    low, high = y.copy(), y.copy()
    low[y < -1], high[y < -1] = -np.inf, -1
    m = Model(prior=Normal(), cv=CrossValidation(3, search=[0.1, 1.0], random_state=0))
    m.fit(X, Censored(low, high))
    assert np.isfinite(m.cv_results_.to_numpy()).all()


def test_cv_needs_a_prior(wide):
    with pytest.raises(DataError, match="prior"):
        Model(cv=3).fit(*wide)


def test_priors_that_join_coefficients_have_errors_or_a_refusal_that_says_what_to_use(wide):
    X, y = wide
    X = X[:, :6]
    joint = Model(prior=Hierarchical(range(6), 0.2, 0.3)).fit(X, y)
    alone = Model(prior=Normal(0.5)).fit(X, y)  # a group of one has both variances
    np.testing.assert_allclose(joint.vcov(), alone.vcov(), rtol=1e-6)
    np.testing.assert_allclose(joint.vcov("robust"), alone.vcov("robust"), rtol=1e-6)
    np.testing.assert_allclose(joint.alpha_summary()["se"], alone.alpha_summary()["se"], rtol=1e-6)
    for prior in (
        Laplace(0.05, exclude=[0]),
        BrokenAdaptiveRidge(0.5),
        GroupLaplace([0, 0, 1, 1, 2, 2], 0.02),
    ):
        m = Model(prior=prior).fit(X, y)
        for ask in (m.vcov, lambda m=m: m.vcov("robust"), m.confint):
            with pytest.raises(DataError, match=r"bootstrap\(\)"):
                ask()
        assert "bootstrap()" in m.summary().attrs["note"]
    m = Model(prior=Laplace(0.05, exclude=[0])).fit(X, y)
    with pytest.raises(DataError, match="no standard errors"):
        m.inference.linear_hypothesis(["x0"])


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [32, 78, 141])
@pytest.mark.parametrize("blocks", [False, True])
def test_a_step_does_not_end_where_no_curvature_is_left(seed, blocks):
    """Of light rows' thresholds, far out in the tail: the loss fell there, and nothing went on."""
    rng = np.random.default_rng(seed)
    n, p = 20, 30
    X = (rng.random((n, p)) < 0.3).astype(float)
    y = rng.normal(size=n) + X[:, :3] @ [3, -3, 3]
    w = 10 ** rng.uniform(-3, 2.5, n)
    model = Model(prior=Laplace(10 ** rng.uniform(0, 2)))
    Z = ShardedDesign.from_blocks([X[:9], X[9:]]) if blocks else X
    assert model.fit(Z, y, sample_weight=w).converged_
