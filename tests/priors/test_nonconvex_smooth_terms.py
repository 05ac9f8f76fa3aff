"""A smooth prior that is not convex: the logarithm of a t density."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from steropes import CoxRegression, LogisticRegression, Surv
from steropes.priors import Penalty, Prior


@dataclass(frozen=True)
class StudentT(Prior):
    """Heavy tails, whose penalty is concave beyond √(3 variance)."""

    variance: float = 1.0

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return LogDensity(3 * self.variance)


@dataclass(frozen=True)
class LogDensity:
    spread: float

    def value(self, beta):
        return 2.0 * np.log1p(beta**2 / self.spread).sum(axis=0)

    def gradient(self, beta):
        return 4.0 * beta / (self.spread + beta**2)

    def hessian(self, beta, columns):
        square = beta[columns] ** 2
        return np.diag(4.0 * (self.spread - square) / (self.spread + square) ** 2)


@pytest.mark.parametrize("variance", [0.1, 0.001, 0.0005, 0.0001])
def test_a_logistic_fit_ends_at_a_local_optimum(variance):
    """Steps along negative curvature stalled far from it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 8))
    y = (rng.random(800) < 1 / (1 + np.exp(-X[:, 0] - 0.5 * X[:, 1]))).astype(int)
    model = LogisticRegression(prior=StudentT(variance)).fit(X, y)
    assert model.converged_
    penalty = LogDensity(3 * variance)

    def objective(theta):
        eta = theta[0] + X @ theta[1:]
        return (np.logaddexp(0, eta) - y * eta).sum() + penalty.value(theta[1:])

    found = np.r_[model.intercept_, model.coef_]
    assert minimize(objective, found).fun == pytest.approx(objective(found), rel=1e-9)


def test_a_cox_fit_with_effects_of_periods_converges():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = Surv(rng.exponential(np.exp(-X[:, 0])), rng.random(500) < 0.7)
    assert CoxRegression(prior=StudentT(0.0005), time_varying={0: [0.5]}).fit(X, y).converged_
