"""Risks by day under two treatments, and their influence functions by interval of days.

With hazards h_l(k | a, W) of the causes l, the probability G(k−) to be uncensored before interval k
is over, event-free survival S and risks F_j(t) = Σ S(k − 1) h_j(k), a person's contribution to the
risk of cause j by t is

    P F_j(t) + 1(A = a) q / e_a Σ_{k ≤ t} 1 / G(k−) Σ_l [1(l = j) − (F_j(t) − F_j(k)) / S(k)]
                                             × (dN_l(k) − Y(k) h_l(k))

(Moore and van der Laan 2009; Benkeser, Carone and Gilbert 2018), with P and q as in `arm_means`.
Within an interval events come before censoring. Sums over k are cumulative, so that all times cost
as much as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FollowUp", "Hazards", "arm_contributions"]

# Survival and probabilities to be uncensored are at least this number in denominators.
SMALLEST = 1e-12


@dataclass(frozen=True, repr=False)
class FollowUp:
    """Intervals of people under observation.

    Attributes
    ----------
    last : ndarray of int, shape (n,)
        The last interval in which they were at risk, counted from 1; at most ``count``.
    event : ndarray of int, shape (n,)
        0 censored at its end, or the cause of the event in it.
    count : int
        Number of intervals, K.
    causes : int
        Number of causes.
    """

    last: NDArray
    event: NDArray
    count: int
    causes: int

    @classmethod
    def of(cls, time: NDArray, event: NDArray, interval: float, until: float) -> FollowUp:
        """Put times to events in intervals of a width, up to a time; later events are censored."""
        count = int(np.ceil(until / interval - 1e-9))
        last = np.maximum(np.ceil(time / interval - 1e-9), 0).astype(np.int64)
        had = np.where(last <= count, event, 0)
        return cls(np.minimum(last, count), had, count, max(1, int(event.max())))

    def censored_within(self) -> NDArray:
        """Who is censored before the last interval is over, (n,) bool."""
        return (self.event == 0) & (self.last < self.count)


@dataclass(frozen=True, repr=False)
class Hazards:
    """Hazards of everybody under one treatment.

    Attributes
    ----------
    events : ndarray, shape (n, K, J)
    censoring : ndarray, shape (n, K), or None
        None if no one is censored early.
    """

    events: NDArray
    censoring: NDArray | None

    def survival(self) -> NDArray:
        """Compute event-free survival at the end of each interval, (n, K)."""
        return np.cumprod(1 - np.minimum(self.events.sum(axis=2), 1.0), axis=1)

    def risks(self) -> NDArray:
        """Compute the risk of each cause by the end of each interval, (n, K, J)."""
        S = self.survival()
        before = np.column_stack([np.ones(len(S)), S[:, :-1]])
        return np.cumsum(before[:, :, None] * self.events, axis=1)

    def uncensored(self, bound: float) -> NDArray:
        """Compute G(k−), bounded from below, (n, K)."""
        n, K = self.events.shape[:2]
        if self.censoring is None:
            return np.ones((n, K))
        G = np.cumprod(1 - self.censoring, axis=1)
        return np.maximum(np.column_stack([np.ones(n), G[:, :-1]]), max(bound, SMALLEST))


def arm_contributions(
    follow_up: FollowUp, hazards: Hazards, own: NDArray, factor: NDArray, inside: NDArray,
    bound: float,
) -> NDArray:  # fmt: skip
    """Compute pseudo-outcomes of the risks of all causes by the end of each interval, (n, K, J).

    Parameters
    ----------
    own : ndarray of bool, shape (n,)
        Who has the treatment.
    factor : ndarray, shape (n,)
        q / e_a.
    inside : ndarray, shape (n,)
        P, who is in the population.
    bound : float
        Least probability to be uncensored.
    """
    F = hazards.risks()
    out = inside[:, None, None] * F
    at = np.flatnonzero(own)
    events, F, S = hazards.events[at], F[at], np.maximum(hazards.survival()[at], SMALLEST)
    k = np.arange(1, follow_up.count + 1)
    last, had = follow_up.last[at, None], follow_up.event[at]
    weight = (k <= last) / hazards.uncensored(bound)[at]
    happened = (k == last)[:, :, None] & (had[:, None] == np.arange(1, events.shape[2] + 1))[
        :, None
    ]
    M = weight[:, :, None] * (happened - events)  # the martingales over G
    spread = M.sum(axis=2) / S
    B = np.cumsum(spread, axis=1)
    C = np.cumsum(spread[:, :, None] * F, axis=1)
    residual = np.cumsum(M, axis=1) - F * B[:, :, None] + C
    out[at] += factor[at, None, None] * residual
    return out
