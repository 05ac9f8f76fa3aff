"""Distributions of the response in generalised linear models, for predictions and residuals.

A distribution has a mean μ = E(y) that depends on η, a variance function V(μ) and a unit deviance:
McCullagh and Nelder (1989), §2.2 to §2.4. The distributions of the library compute residuals
from η itself, so that no digits are lost if a probability is close to 0 or 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp, xlogy

__all__ = [
    "BinaryResponse",
    "GammaResponse",
    "NegativeBinomialResponse",
    "NormalResponse",
    "PoissonResponse",
    "ResponseDistribution",
    "null_predictor",
]

# Newton steps of an intercept alone, and the size of the last one; the likelihood is concave.
INTERCEPT_STEPS, SMALL_STEP = 100, 1e-12


class ResponseDistribution(ABC):
    """Base class of distributions of y given η; all arrays are (n,).

    Attributes
    ----------
    canonical_link : bool
        Whether the derivative of the log-likelihood in η is y − μ.
    """

    canonical_link: ClassVar[bool] = False

    @abstractmethod
    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Compute μ, the inverse of the link function at η."""

    @abstractmethod
    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Compute V(μ), the variance of y divided by the dispersion."""

    @abstractmethod
    def unit_deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Compute twice the difference of the row's log-likelihood between μ = y and μ."""

    def response(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute y − μ."""
        return y - self.mean(eta)

    def pearson(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute (y − μ) / √V(μ)."""
        return self.response(y, eta) / np.sqrt(self.variance(self.mean(eta)))

    def deviance(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute the square root of the unit deviance with the sign of y − μ."""
        mean = self.mean(eta)
        unit = np.maximum(self.unit_deviance(y, mean), 0.0)  # may be negative by rounding
        return np.sign(y - mean) * np.sqrt(unit)


class NormalResponse(ResponseDistribution):
    """Normal distribution with identity link."""

    canonical_link = True

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Return η."""
        return eta

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Return one, because the residual variance is the dispersion."""
        return np.ones_like(mean)

    def unit_deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Compute (y − μ)²."""
        return (y - mean) ** 2

    def pearson(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute y − μ."""
        return y - eta

    def deviance(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute y − μ, which is the signed root of its square."""
        return y - eta


class BinaryResponse(ResponseDistribution):
    """Bernoulli distribution with logit link, y in {0, 1}."""

    canonical_link = True

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Compute the probability 1 / (1 + exp(−η))."""
        return np.asarray(expit(eta))

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Compute μ (1 − μ)."""
        return mean * (1.0 - mean)

    def unit_deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Compute −2 log of the probability of y."""
        return -2.0 * np.log(np.where(y > 0.5, mean, 1.0 - mean))

    def response(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute y − μ = ±1 / (1 + exp m) with the margin m = ±η."""
        side = np.where(y > 0.5, 1.0, -1.0)
        return np.asarray(side * expit(-side * eta))

    def pearson(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute ±exp(−m / 2) with the margin m = ±η."""
        side = np.where(y > 0.5, 1.0, -1.0)
        with np.errstate(over="ignore"):  # a row of nearly zero probability
            return side * np.exp(-(side * eta) / 2)

    def deviance(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute ±√(2 log(1 + exp(−m))) with the margin m = ±η."""
        side = np.where(y > 0.5, 1.0, -1.0)
        return side * np.sqrt(2.0 * np.logaddexp(0.0, -(side * eta)))


class PoissonResponse(ResponseDistribution):
    """Poisson distribution with log link; η includes the log exposure."""

    canonical_link = True

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Compute exp η."""
        return np.exp(eta)

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Return μ."""
        return mean

    def unit_deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Compute 2 [y log(y / μ) − (y − μ)]."""
        return 2.0 * (xlogy(y, y) - xlogy(y, mean) - (y - mean))

    def response(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute y − μ."""
        with np.errstate(over="ignore"):
            return y - np.exp(eta)

    def pearson(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute (y − μ) / √μ, which is finite even if μ overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(y > 0, y * np.exp(-eta / 2), 0.0) - np.exp(eta / 2)

    def deviance(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute the signed root of 2 [y log y − y η − (y − μ)]."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(eta)
        unit = xlogy(y, y) - y * eta - (y - mean)
        return np.sign(y - mean) * np.sqrt(np.maximum(2.0 * unit, 0.0))


class GammaResponse(ResponseDistribution):
    """Gamma distribution with log link."""

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Compute exp η."""
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Compute μ²."""
        return mean**2

    def unit_deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Compute 2 [y / μ − 1 − log(y / μ)]."""
        return self.deviance(y, np.log(mean)) ** 2

    def pearson(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute y / μ − 1."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.asarray(np.expm1(np.log(y) - eta))

    def deviance(self, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Compute the signed root of 2 [exp(t) − 1 − t] with t = log y − η."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            t = np.log(y) - eta
            return np.sign(t) * np.sqrt(2.0 * np.maximum(np.expm1(t) - t, 0.0))


@dataclass(frozen=True)
class NegativeBinomialResponse(ResponseDistribution):
    """Negative binomial distribution with log link; η includes the log exposure.

    Parameters
    ----------
    dispersion : float
        α in V(μ) = μ + α μ²; zero is the Poisson distribution.
    """

    dispersion: float = 1.0

    def mean(self, eta: np.ndarray) -> np.ndarray:
        """Compute exp η."""
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Compute μ + α μ²."""
        return mean * (1.0 + self.dispersion * mean)

    def unit_deviance(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Compute 2 [y log(y / μ) − (y + θ) log((1 + α y) / (1 + α μ))] with θ = 1 / α."""
        a = self.dispersion
        if a == 0.0:
            return PoissonResponse().unit_deviance(y, mean)
        log_ratio = np.log1p(a * (y - mean) / (1.0 + a * mean))
        return 2.0 * (xlogy(y, y) - xlogy(y, mean) - (y + 1.0 / a) * log_ratio)

    def intercept(self, y: np.ndarray, w: np.ndarray, own: np.ndarray, start: float) -> float:
        """Compute the intercept with the largest likelihood by Newton's method from ``start``.

        Parameters
        ----------
        y, w, own : (n,) arrays
            Counts, weights, and the known terms of η.
        """
        rate, a = start, self.dispersion
        for _ in range(INTERCEPT_STEPS):
            mean = np.exp(rate + own)
            step = (w @ ((y - mean) / (1.0 + a * mean))) / (
                w @ (mean * (1.0 + a * y) / (1.0 + a * mean) ** 2)
            )
            rate += float(np.clip(step, -1.0, 1.0))
            if abs(step) < SMALL_STEP:
                break
        return rate


def null_predictor(
    y: np.ndarray, weight: np.ndarray, offset: np.ndarray | None = None
) -> np.ndarray:
    """Compute the log mean of positive outcomes y without covariates, (n,).

    The mean is exp(offset) times the weighted mean of y / exp(offset), which maximises the
    likelihood of gamma models.
    """
    own = np.zeros(len(y)) if offset is None else offset
    with np.errstate(divide="ignore"):
        return own + logsumexp(np.log(y) - own, b=weight / weight.sum())
