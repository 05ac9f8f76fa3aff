"""A family of one's own: predictions, D² and residuals follow from three functions."""

import numpy as np
import pytest
from scipy.special import xlogy

from steropes import (
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
)
from steropes.data import check_response
from steropes.infer.response_distributions import (
    BinaryResponse,
    NormalResponse,
    PoissonResponse,
    ResponseDistribution,
)
from steropes.likelihoods import IndependentRowsLikelihood
from steropes.likelihoods.hessian_structures import GroupedCurvature
from steropes.models.estimators.generalized_linear_base_class import GeneralizedLinearModel


class GammaLikelihood(IndependentRowsLikelihood):
    """Σ w [η + y exp(−η)]: shape one and a logarithmic link."""

    def evaluate(self, eta, weights):
        rest = weights * self.y * self.backend.xp.exp(-eta)
        return (weights * eta + rest).sum(axis=0), weights - rest

    def curvature(self, eta, weights, exact=False):
        return GroupedCurvature((weights * self.y * self.backend.xp.exp(-eta))[:, 0])


class GammaResponse(ResponseDistribution):
    def mean(self, eta):
        return np.exp(eta)

    def variance(self, mean):
        return mean**2

    def unit_deviance(self, y, mean):
        return 2 * (y / mean - 1 - np.log(y / mean))


class GammaRegression(GeneralizedLinearModel):
    _distribution = GammaResponse()

    def _likelihood(self, inputs, design, backend):
        return GammaLikelihood(check_response(inputs.y, design.n, minimum=0.0), backend), {}


@pytest.fixture
def gamma(rng):
    X = rng.normal(size=(300, 3))
    y = rng.gamma(1.0, np.exp(0.5 + X[:, 0] - 0.5 * X[:, 1]))
    w = rng.integers(1, 4, 300).astype(float)
    return X, y, w, GammaRegression().fit(X, y, sample_weight=w)


def test_the_mean_is_the_inverse_link_of_the_linear_predictor(gamma):
    X, y, _, model = gamma
    mean = np.exp(model.intercept_ + X @ model.coef_)
    np.testing.assert_allclose(model.predict(X), mean)
    np.testing.assert_allclose(model.predict(X, offset=np.ones(300)), np.e * mean)
    np.testing.assert_allclose(model.checks.residuals("response"), y - mean)
    np.testing.assert_allclose(model.checks.residuals("pearson"), y / mean - 1)
    unit = 2 * (y / mean - 1 - np.log(y / mean))
    np.testing.assert_allclose(
        model.checks.residuals("deviance"), np.sign(y - mean) * np.sqrt(unit)
    )


def test_score_residuals_are_those_of_the_link_and_add_up_to_zero(gamma):
    X, y, w, model = gamma
    slope = y / model.predict(X) - 1  # (y − μ) μ' / V(μ), which y − μ is not
    Z = np.column_stack([np.ones(300), X])
    score = model.checks.residuals("score").to_numpy()
    np.testing.assert_allclose(score, Z * slope[:, None])
    np.testing.assert_allclose(w @ score, 0.0, atol=1e-5)
    own = (w * slope)[:, None] * Z @ model.vcov().to_numpy()
    np.testing.assert_allclose(model.checks.residuals("dfbeta"), own)


def test_d2_compares_deviances_and_is_the_same_for_repeated_rows(gamma):
    X, y, w, model = gamma

    def deviance(mean):
        return w @ (2 * (y / mean - 1 - np.log(y / mean)))

    null = np.full(300, np.average(y, weights=w))
    expected = 1 - deviance(model.predict(X)) / deviance(null)
    assert model.score(X, y, w) == pytest.approx(expected)
    times = w.astype(int)
    assert model.score(X.repeat(times, 0), y.repeat(times)) == pytest.approx(expected)
    assert model.score(X, np.ones(300)) == 0.0
    with pytest.raises(DataError, match="kind must be"):
        model.checks.residuals("martingale")


def test_a_null_model_explains_nothing(gamma):
    X, y, w, _ = gamma
    null = GammaRegression(prior=Laplace(1e-9)).fit(X, y, sample_weight=w)
    assert not null.coef_.any()
    assert null.score(X, y, w) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("distribution", "family"),
    [
        (NormalResponse(), LinearRegression),
        (BinaryResponse(), LogisticRegression),
        (PoissonResponse(), PoissonRegression),
    ],
)
def test_residuals_from_the_linear_predictor_equal_those_from_the_mean(distribution, family, rng):
    eta = rng.normal(size=50)
    y = (rng.random(50) < 0.5).astype(float)
    mean = distribution.mean(eta)
    base = ResponseDistribution
    for kind in ("response", "pearson", "deviance"):
        expected = getattr(base, kind)(distribution, y, eta)
        np.testing.assert_allclose(getattr(distribution, kind)(y, eta), expected, rtol=1e-9)
    assert family._distribution.canonical_link
    if family is PoissonRegression:
        unit = 2 * (xlogy(y, y) - xlogy(y, mean) - y + mean)
        np.testing.assert_allclose(distribution.unit_deviance(y, mean), unit)


def test_common_and_rare_events_are_estimated_alike():
    """Of 10¹¹ people 4 differ: p − 1 of the others would have four digits."""
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    weight = np.array([1.0, 1e10, 3.0, 1e10])
    for y in ([0, 1, 0, 1], [1, 0, 1, 0]):
        m = LogisticRegression().fit(X, y, sample_weight=weight)
        side = 1 if y[1] else -1
        assert m.converged_
        np.testing.assert_allclose(side * m.intercept_, np.log(1e10), rtol=1e-11)
        np.testing.assert_allclose(side * m.coef_[0], -np.log(3), rtol=1e-10)
