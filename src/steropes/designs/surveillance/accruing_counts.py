"""Numbers of events that accrue over looks, and the statistics of MaxSPRT."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, xlogy
from scipy.stats import binom, poisson

__all__ = ["BinomialLooks", "Looks", "PoissonLooks"]

# Counts of events with a smaller probability of being exceeded at any node are not candidates.
NEGLIGIBLE = 1e-12


class Looks(ABC):
    """Events that accrue over looks, with their null distribution."""

    sizes: NDArray  # Cumulative expected events, or events, at each look.

    @abstractmethod
    def statistic(self, events: NDArray, look: int) -> NDArray:
        """Compute the log-likelihood ratio of cumulative numbers of events of interest."""

    @abstractmethod
    def new_events(self, look: int, size: int, tilt: NDArray) -> NDArray:
        """Compute the probabilities of 0, …, size − 1 new events, (nodes, size)."""

    @abstractmethod
    def most_events(self, look: int, tilt: float, least: int = 0) -> int:
        """Return a number of cumulative events that is practically never exceeded.

        It is at least ``least``, if so many events are possible.
        """


@dataclass(frozen=True)
class PoissonLooks(Looks):
    """Poisson events; sizes are cumulative expected events without an effect."""

    sizes: NDArray

    def statistic(self, events: NDArray, look: int) -> NDArray:
        """Compute μ − c + c ln(c/μ) where c > μ, and 0 elsewhere."""
        mu = self.sizes[look]
        return np.where(events > mu, mu - events + xlogy(events, events / mu), 0.0)

    def new_events(self, look: int, size: int, tilt: NDArray) -> NDArray:
        """Compute Poisson probabilities."""
        new = self.sizes[look] - (self.sizes[look - 1] if look else 0.0)
        return np.asarray(poisson.pmf(np.arange(size), (new * np.exp(tilt))[:, None]))

    def most_events(self, look: int, tilt: float, least: int = 0) -> int:
        """Return an extreme quantile."""
        return max(int(poisson.isf(NEGLIGIBLE, self.sizes[look] * np.exp(tilt))) + 1, least)


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

    def new_events(self, look: int, size: int, tilt: NDArray) -> NDArray:
        """Compute binomial probabilities, with odds multiplied by the tilt."""
        new = int(self.sizes[look] - (self.sizes[look - 1] if look else 0.0))
        p = expit(logit(self.p) + tilt)
        return np.asarray(binom.pmf(np.arange(size), new, p[:, None]))

    def most_events(self, look: int, tilt: float, least: int = 0) -> int:
        """Return the number of events."""
        return int(self.sizes[look])
