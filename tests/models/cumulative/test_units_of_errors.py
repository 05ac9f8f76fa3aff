"""Standard errors of predictions have the units of what is predicted."""

import numpy as np
import pytest
from scipy import stats

from steropes import CumulativeProbabilityModel, DivideAndCombine
from steropes.likelihoods.cumulative import CODES

LEVEL = 0.95


@pytest.fixture
def data(rng):
    X = rng.normal(size=(200, 2))
    return X, np.round(np.exp(X[:, 0] + rng.logistic(size=200)), 1)


def test_they_are_how_much_the_predictions_vary_from_sample_to_sample(rng):
    """Standard deviations over samples of 80 people, whatever is predicted."""
    x, drawn, told = np.array([[0.5, -0.5]]), [], []
    for _ in range(40):
        X = rng.normal(size=(80, 2))
        y = X[:, 0] + rng.logistic(size=80)
        m = CumulativeProbabilityModel().fit(X, y)
        found = [
            m.predict_cdf(x, [0.0, 3.0], level=LEVEL),
            m.predict_exceedance(x, [0.0, 3.0], level=LEVEL),
            m.predict_quantile(x, [0.25, 0.5], level=LEVEL),
            m.predict_mean(x, level=LEVEL),
        ]
        drawn.append(np.concatenate([p.estimate.ravel() for p in found]))
        told.append(np.concatenate([p.se.ravel() for p in found]))
    np.testing.assert_allclose(np.mean(told, axis=0), np.std(drawn, axis=0), rtol=0.3)


@pytest.mark.parametrize("reduce", [None, DivideAndCombine(2)])
@pytest.mark.parametrize("kind", ["model", "robust"])
def test_they_follow_the_unit_of_the_outcome(kind, reduce, data):
    X, y = data
    a, b = (
        CumulativeProbabilityModel(reduce=reduce, random_state=0).fit(X, unit * y)
        for unit in (1.0, 1000.0)
    )
    at = np.array([0.5, 1.0, 3.0])
    for name, unit in (("predict_cdf", 1.0), ("predict_exceedance", 1.0)):
        one = getattr(a, name)(X[:5], at, level=LEVEL, kind=kind)
        two = getattr(b, name)(X[:5], 1000.0 * at, level=LEVEL, kind=kind)
        np.testing.assert_allclose(two.se, unit * one.se, rtol=1e-6)
    for name in ("predict_quantile", "predict_mean"):
        one = getattr(a, name)(X[:5], level=LEVEL, kind=kind)
        two = getattr(b, name)(X[:5], level=LEVEL, kind=kind)
        np.testing.assert_allclose(two.se, 1000.0 * one.se, rtol=1e-6)
        np.testing.assert_allclose(two.upper, 1000.0 * one.upper, rtol=1e-6)


@pytest.mark.parametrize("link", CODES)
def test_probabilities_and_their_limits_lie_between_zero_and_one(link, data):
    X, y = data
    m = CumulativeProbabilityModel(link=link).fit(X, y)
    everywhere = np.concatenate([[-1.0], m.levels_, [1e9]])
    for predict in (m.predict_cdf, m.predict_exceedance):
        found = predict(3 * X[:20], everywhere, level=LEVEL)
        assert (found.lower >= 0).all()
        assert (found.lower <= found.estimate).all()
        assert (found.estimate <= found.upper).all()
        assert (found.upper <= 1).all()
        certain = (found.estimate == 0) | (found.estimate == 1)
        assert (found.se[:, [0, -1]] == 0).all()
        assert (found.se[~certain] > 0).all()
        # Limits next to the estimate are those of the delta method.
        near = predict(3 * X[:20], everywhere, level=1e-3)
        width = (near.upper - near.lower) / (2 * stats.norm.ppf(0.5005))
        np.testing.assert_allclose(width, found.se, rtol=1e-3, atol=1e-9)


def test_errors_of_quantiles_do_not_depend_on_the_level_of_the_interval(data):
    X, y = data
    m = CumulativeProbabilityModel().fit(X, y)
    a, b = (m.predict_quantile(X[:9], [0.3, 0.6], level=level) for level in (0.5, 0.99))
    np.testing.assert_array_equal(a.se, b.se)
    at_one = m.predict_quantile(X[:9], [0.3, 0.6], level=2 * stats.norm.cdf(1) - 1)
    np.testing.assert_allclose(a.se, (at_one.upper - at_one.lower) / 2, rtol=1e-9)


def test_robust_errors_of_thresholds_are_in_their_table(data):
    X, y = data
    m = CumulativeProbabilityModel().fit(X, y)
    person = np.arange(len(y)) // 2
    for kind in ({"kind": "robust"}, {"kind": "robust", "cluster": person}, {}):
        table = m.alpha_summary(**kind)
        F = m.predict_cdf(np.zeros((1, 2)), m.thresholds_, level=LEVEL, **kind)
        density = F.estimate[0] * (1 - F.estimate[0])
        np.testing.assert_allclose(F.se[0], density * table["se"], rtol=1e-9)
