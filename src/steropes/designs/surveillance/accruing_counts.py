"""Numbers of events that accrue over looks, and the statistics of MaxSPRT."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logit, xlog1py, xlogy
from scipy.stats import poisson

__all__ = ["BinomialLooks", "Looks", "PoissonLooks", "farthest"]

# Counts of events with a smaller probability of being exceeded at any node are not candidates.
NEGLIGIBLE = 1e-12
# Counts whose roots differ by less share a tilt under which all of them are probable: the root of a
# number of events (`Looks.root`) has a standard deviation of one half.
ROOTS = 8.0


def farthest(variance: float) -> float:
    """Return a deviation of a number of events from its mean that is practically never exceeded.

    Larger ones have probabilities below exp(−39) = 1e-17, by Bernstein's inequality, whether the
    number is Poisson, binomial or hypergeometric.
    """
    return float(13 + np.sqrt(169 + 78 * variance))


class Looks(ABC):
    """Events that accrue over looks, with their null distribution.

    A tilt multiplies the rate, or the odds, of events of interest by its exponential.
    """

    sizes: NDArray  # Cumulative expected events, or events, at each look.

    @abstractmethod
    def statistic(self, events: NDArray, look: int) -> NDArray:
        """Compute the log-likelihood ratio of cumulative numbers of events of interest."""

    @abstractmethod
    def probability(self, look: int, events: NDArray, tilt: NDArray) -> NDArray:
        """Compute the probabilities of cumulative numbers of events, (nodes, events)."""

    @abstractmethod
    def new_events(self, look: int, events: NDArray, tilt: float) -> NDArray:
        """Compute the probabilities of numbers of new events, (events,)."""

    @abstractmethod
    def probable_tilt(self, look: int, events: float) -> float:
        """Return the tilt with which a cumulative number of events is expected."""

    @abstractmethod
    def most_events(self, look: int, tilt: float, least: int = 0) -> int:
        """Return a number of cumulative events that is practically never exceeded.

        It is at least ``least``, if that many events are possible.
        """

    @abstractmethod
    def moments(self, look: int, tilt: float) -> tuple[float, float]:
        """Return the mean and the variance of cumulative numbers of events."""

    def probable_events(self, look: int, tilt: NDArray) -> tuple[int, int]:
        """Return the least and greatest number of events that may happen at any tilt."""
        low, spread = self.moments(look, float(tilt.min()))
        high, wide = self.moments(look, float(tilt.max()))
        return max(int(low - farthest(spread)), 0), int(high + farthest(wide)) + 1

    @abstractmethod
    def root(self, look: int, events: float) -> float:
        """Return the transformation of a number that stabilises its variance."""

    @abstractmethod
    def with_root(self, look: int, roots: NDArray) -> NDArray:
        """Return the numbers that have these roots; the inverse of `root`."""

    def blocks(self, look: int, first: int, size: int) -> list[tuple[int, int, float]]:
        """Cut counts from ``first`` to ``size`` − 1 into parts (first, size) with their tilts."""
        low, high = self.root(look, first), self.root(look, size - 1)
        number = max(int(np.ceil((high - low) / ROOTS)), 1)
        ends = np.linspace(low, high, number + 1)
        inner = np.ceil(self.with_root(look, ends[1:-1])).astype(int)
        edges = np.concatenate([[first], np.clip(inner, first, size), [size]])
        middles = self.with_root(look, (ends[1:] + ends[:-1]) / 2)
        return [
            (int(a), int(b), self.probable_tilt(look, float(m)))
            for a, b, m in zip(edges[:-1], edges[1:], middles, strict=True)
            if a < b
        ]


@dataclass(frozen=True)
class PoissonLooks(Looks):
    """Poisson events; sizes are cumulative expected events without an effect."""

    sizes: NDArray

    def statistic(self, events: NDArray, look: int) -> NDArray:
        """Compute μ − c + c ln(c/μ) where c > μ, and 0 elsewhere."""
        mu = self.sizes[look]
        return np.where(events > mu, mu - events + xlogy(events, events / mu), 0.0)

    def probability(self, look: int, events: NDArray, tilt: NDArray) -> NDArray:
        """Compute Poisson probabilities."""
        return _poisson(events, self.sizes[look] * np.exp(tilt)[:, None])

    def new_events(self, look: int, events: NDArray, tilt: float) -> NDArray:
        """Compute Poisson probabilities."""
        new = self.sizes[look] - (self.sizes[look - 1] if look else 0.0)
        return _poisson(events, new * np.exp(tilt))

    def probable_tilt(self, look: int, events: float) -> float:
        """Return the logarithm of the ratio of observed and expected events."""
        return float(np.log(max(events, 0.5) / self.sizes[look]))

    def root(self, look: int, events: float) -> float:
        """Return the square root."""
        return float(np.sqrt(events))

    def with_root(self, look: int, roots: NDArray) -> NDArray:
        """Return the square."""
        return roots**2

    def most_events(self, look: int, tilt: float, least: int = 0) -> int:
        """Return an extreme quantile."""
        return max(int(poisson.isf(NEGLIGIBLE, self.sizes[look] * np.exp(tilt))) + 1, least)

    def moments(self, look: int, tilt: float) -> tuple[float, float]:
        """Return the expected events times the ratio of rates, twice."""
        mean = float(self.sizes[look] * np.exp(tilt))
        return mean, mean


def _poisson(events: NDArray, mean: NDArray | float) -> NDArray:
    """Compute Poisson probabilities."""
    return np.asarray(np.exp(xlogy(events, mean) - mean - gammaln(events + 1)))


@dataclass(frozen=True)
class BinomialLooks(Looks):
    """Events of which a part falls into time at risk; sizes are cumulative numbers of events."""

    sizes: NDArray
    p: float

    def statistic(self, events: NDArray, look: int) -> NDArray:
        """Compute c ln(c/np) + (n − c) ln((n − c)/(n(1 − p))) where c > np, and 0 elsewhere."""
        n, p = self.sizes[look], self.p
        rest = np.maximum(n - events, 0.0)
        value = xlogy(events, events / (n * p)) + xlogy(rest, rest / (n * (1 - p)))
        return np.where(events > n * p, value, 0.0)

    def probability(self, look: int, events: NDArray, tilt: NDArray) -> NDArray:
        """Compute binomial probabilities."""
        return _binomial(events, int(self.sizes[look]), self._odds(tilt)[:, None])

    def new_events(self, look: int, events: NDArray, tilt: float) -> NDArray:
        """Compute binomial probabilities."""
        new = int(self.sizes[look] - (self.sizes[look - 1] if look else 0.0))
        return _binomial(events, new, self._odds(tilt))

    def _odds(self, tilt: NDArray | float) -> NDArray:
        """Return the probability of time at risk with odds multiplied by a tilt."""
        return np.asarray(expit(logit(self.p) + tilt))

    def probable_tilt(self, look: int, events: float) -> float:
        """Return the logarithm of the ratio of observed and expected odds."""
        n = self.sizes[look]
        share = np.clip(events / n, 0.5 / n, 1 - 0.5 / n)
        return float(logit(share) - logit(self.p))

    def root(self, look: int, events: float) -> float:
        """Return √n arcsin √(c/n)."""
        n = self.sizes[look]
        return float(np.sqrt(n) * np.arcsin(np.sqrt(min(events / n, 1.0))))

    def with_root(self, look: int, roots: NDArray) -> NDArray:
        """Return n sin²(root/√n)."""
        n = self.sizes[look]
        return np.asarray(n * np.sin(roots / np.sqrt(n)) ** 2)

    def most_events(self, look: int, tilt: float, least: int = 0) -> int:
        """Return the number of events."""
        return int(self.sizes[look])

    def moments(self, look: int, tilt: float) -> tuple[float, float]:
        """Return n p and n p (1 − p)."""
        n, p = self.sizes[look], float(self._odds(tilt))
        return n * p, n * p * (1 - p)


def _binomial(events: NDArray, n: int, p: NDArray) -> NDArray:
    """Compute binomial probabilities; more than ``n`` events have none."""
    rest = np.maximum(n - events, 0)
    ways = gammaln(n + 1) - gammaln(events + 1) - gammaln(rest + 1)
    value = np.exp(ways + xlogy(events, p) + xlog1py(rest, -p))
    return np.where(events > n, 0.0, value)
