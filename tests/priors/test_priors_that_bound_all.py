"""Priors with ``bounds_all`` keep coefficients finite, except those of excluded columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from steropes import CoxRegression, CrossValidation, LogisticRegression
from steropes.data import Surv
from steropes.errors import SeparationError
from steropes.priors import Normal, Penalty, Prior


@dataclass(frozen=True)
class PseudoHuber(Prior):
    bounds_all = True
    variance: float = 1.0
    exclude: Sequence[str | int] = ()

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return SumOfRoots(np.where(self.excluded(names), 0.0, 1 / self.variance))


@dataclass(frozen=True)
class SumOfRoots:
    strength: np.ndarray

    def value(self, beta):
        return self.strength @ (np.sqrt(1 + beta**2) - 1)

    def gradient(self, beta):
        return self.strength[:, None] * beta / np.sqrt(1 + beta**2)

    def hessian(self, beta, columns):
        return np.diag(self.strength[columns] * (1 + beta[columns] ** 2) ** -1.5)


@pytest.fixture
def separated(rng):
    """Outcomes that the column x0 separates."""
    X = rng.normal(size=(80, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("cv", [None, CrossValidation(3, search=[0.1, 1.0], random_state=0)])
def test_a_column_that_is_excluded_can_separate_the_outcome(separated, cv):
    X, y = separated
    with pytest.raises(SeparationError, match="x0"):
        LogisticRegression(prior=PseudoHuber(exclude=["x0"]), cv=cv).fit(X, y)
    m = LogisticRegression(prior=PseudoHuber(exclude=["x1"]), cv=cv).fit(X, y)
    assert m.converged_
    assert abs(m.coef_).max() < 50


@pytest.mark.parametrize("make", [Normal, PseudoHuber])
def test_all_events_can_have_an_excluded_column(separated, make):
    X, y = separated
    X[:, 0] = y
    survival = Surv(np.arange(1.0, 81.0), y)
    with pytest.raises(SeparationError, match="x0"):
        CoxRegression(prior=make(exclude=["x0"])).fit(X, survival)


def test_a_penalised_column_may_separate_the_outcome(separated):
    assert LogisticRegression(prior=PseudoHuber()).fit(*separated).converged_


def test_degrees_of_freedom_are_the_trace(separated, rng):
    X, _ = separated
    y = (rng.random(80) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    m = LogisticRegression(prior=PseudoHuber(0.1, exclude=["x1"])).fit(X, y)
    A = np.column_stack([np.ones(80), X])
    p = m.predict_proba(X)[:, 1]
    H = A.T @ (A * (p * (1 - p))[:, None])
    P = np.diag([0, *(np.array([10, 0, 10]) * (1 + m.coef_**2) ** -1.5)])
    expected = np.trace(np.linalg.solve(H + P, H))
    np.testing.assert_allclose(m.aic_ / 2 + m.log_likelihood_, expected, rtol=1e-6)
