"""Searches under priors with penalties that are unusual functions of the variance."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from steropes import CrossValidation, DataError, InformationCriterion, LogisticRegression
from steropes.priors import Penalty, Prior

CHOOSERS = {"cv": CrossValidation(5, random_state=1), "criterion": InformationCriterion()}
N, P = 5000, 8


@dataclass(frozen=True)
class PowerOfVariance(Prior):
    """λ, or κ, is a multiple of variance^(−power)."""

    power: float
    ridge: bool = False
    variance: float = 1.0

    def separable(self, names):
        penalty, none = np.full(len(names), self.variance**-self.power), np.zeros(len(names))
        return Penalty(none, penalty) if self.ridge else Penalty(penalty, none)

    def with_variance(self, variance):
        return replace(self, variance=variance)


@dataclass(frozen=True)
class Constant(PowerOfVariance):
    """A prior with a mistake in `with_variance`."""

    def separable(self, names):
        return Penalty(np.full(len(names), 1e6), np.zeros(len(names)))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    return X, (rng.random(N) < 1 / (1 + np.exp(X[:, 1] - X[:, 0]))).astype(int)


def fitted(data, prior, chooser):
    return LogisticRegression(prior=prior, cv=CHOOSERS[chooser]).fit(*data)


def penalty_of(model):
    found = model.prior_.separable([""] * P)
    return (found.l1 + found.l2)[0]


@pytest.mark.sampled
@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("power", [1.5, 2.0])
def test_lambda_may_fall_faster_than_the_root_of_the_variance(data, power, chooser):
    usual = fitted(data, PowerOfVariance(0.5), chooser)
    other = fitted(data, PowerOfVariance(power), chooser)
    assert (usual.coef_ != 0).sum() >= 2
    assert (other.coef_ != 0).sum() >= 2
    assert abs(np.log(penalty_of(other) / penalty_of(usual))) < 1.2
    assert np.abs(other.coef_ - usual.coef_).max() < 0.15


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_kappa_may_fall_faster_than_the_variance(data, chooser):
    usual = fitted(data, PowerOfVariance(1.0, True), chooser)
    other = fitted(data, PowerOfVariance(2.0, True), chooser)
    assert np.abs(usual.coef_).max() > 0.5
    assert np.abs(other.coef_ - usual.coef_).max() < 0.1


@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("ridge", [False, True])
def test_a_penalty_that_grows_with_the_variance_is_refused(data, ridge, chooser):
    with pytest.raises(DataError, match="penalty of PowerOfVariance grows with its variance"):
        fitted(data, PowerOfVariance(-0.5, ridge), chooser)


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_penalty_that_no_variance_weakens_is_refused(data, chooser):
    with pytest.raises(DataError, match="penalty of Constant stays too strong"):
        fitted(data, Constant(0.5), chooser)
