"""Coefficients along variances are those of separate fits, and leave the model as it is."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import lasso_path

from every_family import EVERY, case
from steropes import (
    BrokenAdaptiveRidge,
    CoxRegression,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    Surv,
    coefficient_path,
    variance_from_glmnet,
)


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_a_path_is_separate_fits_in_every_family(name, rng):
    c = case(name, rng)
    weight = rng.integers(0, 3, len(c.X)).astype(float)
    if name == "conditional exact":
        weight = np.minimum(weight, 1.0)
    variances = np.array([0.3, 0.02])
    model = c.make(prior=Laplace(1.0)).fit(c.X, c.y, sample_weight=weight, **c.extras)
    before = dict(model.__dict__)
    X = sparse.csr_matrix(c.X)
    path = coefficient_path(model, X, c.y, variances, sample_weight=weight, **c.extras)
    assert model.__dict__ == before
    assert path.index.tolist() == [0.02, 0.3]
    names = list(model.summary().index)
    assert list(path.columns) == names[len(names) - len(path.columns) :]
    for variance in variances:
        alone = c.make(prior=Laplace(variance)).fit(c.X, c.y, sample_weight=weight, **c.extras)
        np.testing.assert_allclose(path.loc[variance], np.ravel(alone.coef_), atol=1e-7)


@pytest.fixture
def linear(rng):
    X = rng.normal(size=(80, 6))
    return X, X @ [2.0, -1.0, 0.5, 0, 0, 0] + rng.normal(size=80)


def test_an_automatic_path_begins_where_the_first_coefficient_leaves_zero(linear):
    X, y = linear
    path = coefficient_path(LinearRegression(prior=Laplace()), X, y, n_variances=20)
    largest = np.abs((X - X.mean(0)).T @ (y - y.mean())).max()  # the λ that glmnet starts from
    lam = np.sqrt(2 / path.index)
    assert lam[-1] / lam[0] == pytest.approx(0.01)
    assert lam[0] == pytest.approx(largest)
    assert np.abs(path.iloc[0]).max() < 1e-6
    assert (path.iloc[1] != 0).sum() == 1
    assert (path.iloc[-1, :3] != 0).all()


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_the_first_variance_is_the_threshold_in_every_family(name, rng):
    """A little below it all penalised coefficients are zero, and a little above one is not."""
    c = case(name, rng)
    first = coefficient_path(c.make(prior=Laplace(1.0)), c.X, c.y, n_variances=2, **c.extras).index[
        0
    ]
    below, above = coefficient_path(
        c.make(prior=Laplace(1.0)), c.X, c.y, [first * 0.98, first * 1.02], **c.extras
    ).to_numpy()
    assert not below.any()
    assert above.any()


def test_a_path_is_that_of_scikit_learn(linear):
    X, y = linear
    X, y = X - X.mean(0), y - y.mean()
    alphas, theirs, _ = lasso_path(X, y, alphas=np.geomspace(1.5, 0.01, 8), tol=1e-12)
    variances = [variance_from_glmnet(alpha, len(y)) for alpha in alphas]
    path = coefficient_path(LinearRegression(prior=Laplace(), fit_intercept=False), X, y, variances)
    np.testing.assert_allclose(path, theirs.T, atol=1e-7)


@pytest.mark.parametrize("prior", [Normal(), ElasticNet(0.1, 0.1)])
def test_other_priors_have_an_automatic_path(linear, prior):
    path = coefficient_path(LinearRegression(prior=prior), *linear, n_variances=4)
    size = np.abs(path).sum(axis=1).to_numpy()
    assert (np.diff(size) > 0).all()
    assert size[0] < 0.2 * size[-1]


def test_relaxed_coefficients_are_those_of_a_fit_of_the_selected_columns(rng):
    X = rng.normal(size=(120, 5))
    time = rng.exponential(np.exp(-X[:, 0] + 0.5 * X[:, 1]))
    y, weight = Surv(time, time < 2), rng.uniform(0.5, 2, 120)
    model = CoxRegression(prior=Laplace(exclude=["x4"]))
    given = {"sample_weight": weight, "fixed": {"x3": 0.2}}
    variances = [1e-4, 0.005, 0.05]
    path = coefficient_path(model, sparse.csc_array(X), y, variances, **given)
    relaxed = coefficient_path(model, X, y, variances, relax=True, **given)
    assert list(path.columns) == list(relaxed.columns) == ["x0", "x1", "x2", "x4"]
    np.testing.assert_array_equal(path == 0, relaxed == 0)
    assert (path.iloc[0, :3] == 0).all()
    for variance in variances:
        kept = [int(name[1]) for name in path.columns[path.loc[variance] != 0]]
        alone = CoxRegression().fit(X[:, kept], y, sample_weight=weight, offset=0.2 * X[:, 3])
        np.testing.assert_allclose(
            relaxed.loc[variance][path.loc[variance] != 0], alone.coef_, rtol=1e-6
        )


def test_relaxed_coefficients_of_an_empty_selection_are_zero(linear):
    path = coefficient_path(LinearRegression(prior=Laplace()), *linear, [1e-9], relax=True)
    assert (path == 0).all(axis=None)


@pytest.mark.parametrize(
    ("prior", "more", "words"),
    [
        (None, {}, "no prior"),
        (Laplace(), {"n_variances": 1}, "2 or more"),
        (BrokenAdaptiveRidge(), {}, "no automatic path"),
        (Laplace(), {"variances": [0.0]}, "positive"),
    ],
)
def test_refusals(linear, prior, more, words):
    X, y = linear
    with pytest.raises(DataError, match=words):
        coefficient_path(LogisticRegression(prior=prior), X, y > 0, **more)
