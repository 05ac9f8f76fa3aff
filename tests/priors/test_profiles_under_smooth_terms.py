"""A held coefficient must not enter the smooth term of a prior that a user has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from steropes import CoxRegression, LogisticRegression
from steropes.data import Surv
from steropes.errors import DataError
from steropes.priors import Penalty, Prior


@dataclass(frozen=True)
class Tilted(Prior):
    """A Laplace prior that charges a constant more for a larger coefficient."""

    variance: float = 0.02

    def separable(self, names):
        return Penalty(np.full(len(names), np.sqrt(2 / self.variance)), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return Slope(np.full(len(names), 5.0))


@dataclass(frozen=True)
class TiltedWithExclusions(Tilted):
    exclude: Sequence[str | int] = ()

    def separable(self, names):
        found = super().separable(names)
        return Penalty(np.where(self.excluded(names), 0.0, found.l1), found.l2)

    def smooth(self, names):
        return Slope(np.where(self.excluded(names), 0.0, 5.0))


@dataclass(frozen=True)
class Slope:
    slopes: np.ndarray

    def value(self, beta):
        return self.slopes @ beta

    def gradient(self, beta):
        return np.broadcast_to(self.slopes[:, None], beta.shape)

    def hessian(self, beta, columns):
        return np.zeros((len(columns), len(columns)))


@dataclass(frozen=True)
class Budget(Prior):
    """A prior that acts where the sum of the coefficients is above a limit."""

    limit: float

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.ones(len(names)))

    def with_variance(self, variance):
        return self

    def smooth(self, names):
        return Excess(self.limit)


@dataclass(frozen=True)
class Excess:
    limit: float

    def _excess(self, beta):
        return np.maximum(beta.sum(axis=0) - self.limit, 0)

    def value(self, beta):
        return 250.0 * self._excess(beta) ** 2

    def gradient(self, beta):
        return 500.0 * np.broadcast_to(self._excess(beta), beta.shape)

    def hessian(self, beta, columns):
        return np.full((len(columns), len(columns)), 500.0 * (self._excess(beta) > 0))


@pytest.fixture
def data(rng):
    X = rng.normal(size=(150, 3))
    y = (rng.random(150) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return X, y


@pytest.mark.parametrize("prior", [Tilted(), Budget(5.0)], ids=["linear", "not active"])
def test_terms_without_curvature_at_the_estimate_are_refused(data, prior):
    m = LogisticRegression(prior=prior).fit(*data)
    for refused in (
        lambda: m.confint("x0", method="profile"),
        lambda: m.inference.profile("x0"),
        lambda: m.inference.linear_combination("x0 - x1", method="profile"),
    ):
        with pytest.raises(DataError, match=f"smooth term of {type(prior).__name__} may depend"):
            refused()


def test_an_excluded_coefficient_has_the_profile_of_brute_force(data):
    X, y = data
    m = LogisticRegression(prior=TiltedWithExclusions(exclude=["x0"]), tol=1e-10).fit(X, y)

    def objective(at):
        """Minimise over the intercept and the parts of the others, which are of one sign each."""

        def loss(b):
            eta = b[0] + at * X[:, 0] + X[:, 1:] @ (b[1:3] - b[3:])
            return (
                np.logaddexp(0, eta).sum() - y @ eta + 10 * b[1:].sum() + 5 * (b[1:3] - b[3:]).sum()
            )

        bounds = [(None, None), *[(0, None)] * 4]
        return minimize(loss, np.zeros(5), bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9}).fun

    best, half = objective(m.coef_[0]), 1.920729410347062
    limits = [
        brentq(lambda at: objective(at) - best - half, *ends, xtol=1e-7)
        for ends in ((m.coef_[0] - 3, m.coef_[0]), (m.coef_[0], m.coef_[0] + 3))
    ]
    np.testing.assert_allclose(
        m.confint("x0", method="profile").to_numpy().ravel(), limits, atol=2e-5
    )


def test_exclusions_count_beside_fixed_coefficients_and_effects_by_time(data, rng):
    X, y = data
    prior = TiltedWithExclusions(exclude=["x1"])
    m = LogisticRegression(prior=prior).fit(X, y, fixed={"x0": 0.5})
    assert np.isfinite(m.confint("x1", method="profile").to_numpy()).all()
    with pytest.raises(DataError, match="may depend"):
        m.confint("x2", method="profile")
    times = rng.exponential(size=150)
    cox = CoxRegression(prior=replace(prior, exclude=["x0"]), time_varying={"x1": [0.5]})
    cox.fit(X, Surv(times, np.ones(150)))
    assert np.isfinite(cox.confint("x0", method="profile").to_numpy()).all()
    with pytest.raises(DataError, match="may depend"):
        cox.confint("x2", method="profile")
