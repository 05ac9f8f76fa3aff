"""Smooth priors that users write: about the mean of coefficients, and about earlier estimates."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from every_family import case
from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    Normal,
    Surv,
)
from steropes.priors import Penalty, Prior


def fitted(make, X, y, **given):
    m = make.fit(X, y, **given)
    assert m.converged_
    return m


def survival(rng, n=200):
    X = rng.normal(size=(n, 3))
    time = np.ceil(4 * rng.exponential(np.exp(-0.4 * X[:, 0] + 0.3 * X[:, 1])))
    return X, Surv(time, rng.random(n) < 0.8)


def pieces(X, y, cut):
    """Rows cut at a time, with the first column in two."""
    late = y["time"] > cut
    Z = np.column_stack([X[:, :1], np.zeros((len(X), 1)), X[:, 1:]])
    more = np.column_stack([np.zeros((late.sum(), 1)), X[late]])
    event = y["event"] * ~late
    time = np.minimum(y["time"], cut)
    cut_at = np.full(late.sum(), float(cut))
    outcome = Surv(
        np.concatenate([time, y["time"][late]]),
        np.concatenate([event, y["event"][late]]),
        np.concatenate([np.zeros(len(X)), cut_at]),
    )
    return np.vstack([Z, more]), outcome


@dataclass(frozen=True)
class TowardsMean(Prior):
    """Deviations of the coefficients from their mean, without the excluded ones."""

    variance: float = 1.0
    exclude: tuple = ()

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return Deviations(1 / self.variance, ~self.excluded(names))


@dataclass(frozen=True)
class Deviations:
    """½ strength Σ (β_j − mean)² over the used columns."""

    strength: float
    used: np.ndarray

    def value(self, beta):
        return 0.5 * self.strength * (self._from_mean(beta) ** 2).sum(axis=0)

    def gradient(self, beta):
        return self.strength * self._from_mean(beta)

    def hessian(self, beta, columns):
        u = self.used[columns].astype(float)
        return self.strength * (np.diag(u) - np.outer(u, u) / self.used.sum())

    def _from_mean(self, beta):
        used = self.used.reshape(-1, *[1] * (beta.ndim - 1))
        return np.where(used, beta - beta[self.used].mean(axis=0), 0.0)


@pytest.mark.parametrize("exclude", [(), ("x1",), ("x0@(0,3]",), ("x0",)])
def test_effects_by_step_are_drawn_to_the_mean_of_the_coefficients_in_the_prior(exclude, rng):
    X, y = survival(rng)
    prior = TowardsMean(0.02, exclude)
    found = fitted(CoxRegression(prior=prior, time_varying={0: [3.0]}), X, y)
    copies = ["x0@(0,3]", "x0@(3,inf)", "x1", "x2"]
    gone = {c for c in copies if c in exclude or c.partition("@")[0] in exclude}
    Z, outcome = pieces(X, y, 3.0)
    names = [name for name in ("x0", "x1", "x2", "x3") if copies[int(name[1])] in gone]
    expected = fitted(CoxRegression(prior=TowardsMean(0.02, tuple(names))), Z, outcome)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)


@dataclass(frozen=True)
class TowardsEstimates(Prior):
    """A normal prior about earlier estimates, written as a smooth term only."""

    mean: tuple = ()
    variance: float = 1.0

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return Distance(np.asarray(self.mean), 1 / self.variance)


@dataclass(frozen=True)
class Distance:
    """½ strength Σ (β_j − m_j)²."""

    mean: np.ndarray
    strength: float

    def value(self, beta):
        return 0.5 * self.strength * ((beta - self.mean[:, None]) ** 2).sum(axis=0)

    def gradient(self, beta):
        return self.strength * (beta - self.mean[:, None])

    def hessian(self, beta, columns):
        return self.strength * np.eye(len(columns))


def test_a_smooth_prior_about_zero_is_cross_validated_like_the_normal_prior(rng):
    c = case("logistic", rng)
    cv = CrossValidation(4, random_state=0)
    a = c.make(prior=TowardsEstimates((0.0,) * 5), cv=cv).fit(c.X, c.y)
    b = c.make(prior=Normal(), cv=cv).fit(c.X, c.y)
    assert np.log(a.variance_) == pytest.approx(np.log(b.variance_), abs=0.2)
    ranges = [m.cv_results_["variance"].iloc[[0, -1]] for m in (a, b)]
    assert ranges[0].iloc[0] == pytest.approx(ranges[1].iloc[0])  # both paths begin far below
    inside = ranges[0].iloc[0] < a.variance_ < ranges[0].iloc[1]
    assert inside


def test_a_prior_about_earlier_estimates_shifts_the_normal_prior(rng):
    c = case("logistic", rng)
    mean = np.array([0.5, -0.5, 0.0, 0.2, 0.0])
    a = fitted(c.make(prior=TowardsEstimates(tuple(mean), 0.02)), c.X, c.y)
    b = fitted(c.make(prior=Normal(0.02)), c.X, c.y, offset=c.X @ mean)
    np.testing.assert_allclose(a.coef_, mean + b.coef_, atol=1e-6)
    a = fitted(c.make(prior=TowardsEstimates(tuple(mean), 0.02)), c.X, c.y, fixed={1: 0.7})
    offset = c.X @ mean + c.X[:, 1] * (0.7 - mean[1])
    b = fitted(c.make(prior=Normal(0.02)), c.X, c.y, offset=offset, fixed={1: 0.0})
    np.testing.assert_allclose(np.delete(a.coef_, 1), np.delete(mean + b.coef_, 1), atol=1e-6)
    X, y = survival(rng)
    prior = TowardsEstimates((0.5, 0.0, 0.0), 0.02)
    with pytest.raises(DataError, match="of_copies must define"):
        CoxRegression(prior=prior, time_varying={0: [3.0]}).fit(X, y)
