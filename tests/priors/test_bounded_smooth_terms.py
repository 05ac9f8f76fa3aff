"""Smooth priors that are sums over coefficients, and their declaration `bounds_all`."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from steropes import CumulativeProbabilityModel, Hierarchical, LogisticRegression, SeparationError
from steropes.priors import Penalty, Prior

ADVICE = "declare bounds_all = True in the class PseudoHuber"


@dataclass(frozen=True)
class PseudoHuber(Prior):
    """A penalty like that of ridge near zero and of the lasso far from it."""

    variance: float = 1.0

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return SumOfRoots(1 / self.variance)


@dataclass(frozen=True)
class SumOfRoots:
    """Σ strength (√(1 + β²) − 1)."""

    strength: float

    def value(self, beta):
        return self.strength * (np.sqrt(1 + beta**2) - 1).sum(axis=0)

    def gradient(self, beta):
        return self.strength * beta / np.sqrt(1 + beta**2)

    def hessian(self, beta, columns):
        return np.diag(self.strength * (1 + beta[columns] ** 2) ** -1.5)


class Bounded(PseudoHuber):
    bounds_all: ClassVar[bool] = True


def separated():
    X = np.random.default_rng(0).normal(size=(100, 4))
    return X, (X[:, 0] > 0).astype(int)


def wide():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 50)), rng.integers(0, 2, 30)


@pytest.mark.parametrize("data", [separated, wide])
@pytest.mark.parametrize("model", [LogisticRegression, CumulativeProbabilityModel])
def test_the_error_names_the_declaration_that_a_smooth_prior_lacks(data, model):
    with pytest.raises(SeparationError, match=ADVICE) as caught:
        model(prior=PseudoHuber()).fit(*data())
    assert "x0" in caught.value.columns or data is wide


def test_so_does_a_search_for_the_variance():
    with pytest.raises(SeparationError, match=ADVICE):
        LogisticRegression(prior=PseudoHuber(), cv=5).fit(*separated())


@pytest.mark.parametrize("data", [separated, wide])
def test_with_the_declaration_the_fit_is_at_its_finite_optimum(data):
    X, y = data()
    model = LogisticRegression(prior=Bounded(), tol=1e-8).fit(X, y)
    assert model.converged_
    r = 1 / (1 + np.exp(-(model.intercept_ + X @ model.coef_))) - y
    gradient = X.T @ r + model.coef_ / np.sqrt(1 + model.coef_**2)
    assert np.abs(gradient).max() < 1e-5
    assert 0.5 < np.abs(model.coef_).max() < 10


def test_with_the_declaration_a_variance_can_be_chosen():
    X, y = separated()
    model = LogisticRegression(prior=Bounded(), cv=5).fit(X, y)
    assert np.isfinite(model.variance_)
    assert model.coef_[0] > 1


def test_columns_outside_the_smooth_term_get_no_such_advice():
    X, y = separated()
    prior = Hierarchical([None, "a", "a", "b"], exclude=["x0"])
    with pytest.raises(SeparationError, match="give them a prior") as caught:
        LogisticRegression(prior=prior).fit(X, y)
    assert "bounds_all" not in str(caught.value)
