"""Variances of cumulative incidences by the infinitesimal jackknife."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["IncidenceSteps", "incidence_variances"]

Floats = np.ndarray


class IncidenceSteps(NamedTuple):
    """Aalen–Johansen curves at their m distinct times, with the events of K causes.

    Attributes
    ----------
    times, survival, at_risk : (m,) arrays
        Survival just after each time, and the weights at risk just before it.
    incidence, events : (m, K) arrays
    """

    times: Floats
    survival: Floats
    at_risk: Floats
    incidence: Floats
    events: Floats


def incidence_variances(
    steps: IncidenceSteps,
    place: np.ndarray,
    cause: np.ndarray,
    entry: Floats | None,
    weight: Floats,
) -> Floats:
    """Sum the squared influences of people on F_k(t).

    The influence of a person is U(t) = Σ_u {S(u−) dM_k(u) / Y(u) − [F_k(t) − F_k(u)] dM(u) /
    [Y(u) − N(u)]} over times u ≤ t, with N events of any cause among Y at risk and the martingale
    increments dM = dN − 1(at risk) N / Y of the person. It is F_k(t) a(t) + b(t) with sums a and b
    that no longer change after the person has left, so that cumulative sums over people suffice.

    Parameters
    ----------
    place : (n,) int array
        Position of each person's last time in ``steps.times``.
    cause : (n,) int array
        Position of the cause of each person's event; −1 for a censored person.
    entry : (n,) array or None
        Start of observation; people are at risk after it.
    weight : (n,) array
        Positive. Whole numbers are repeats of a person, and each repeat has an influence of its
        own. Others multiply the influence of one person, as in R's ``survfit``.

    Returns
    -------
    (m, K) array

    References
    ----------
    Therneau, Crowson and Atkinson (2024), vignette "Multi-state models and competing risks" and
    "Residuals of survival curves" of the R package survival.
    """
    m, K = steps.incidence.shape
    n = np.where(steps.at_risk > 0, steps.at_risk, 1.0)
    before = np.append(1.0, steps.survival[:-1])
    # Once the survival is zero nothing changes any more. People without an event, Y − N, are
    # derived from the curve, because the difference itself may consist of rounding errors.
    left = steps.survival > 0
    stay = n * np.where(left, steps.survival / np.where(before > 0, before, 1.0), 1.0)
    gone = np.where(left, 1.0 / stay, 0.0)
    repeats = bool((weight == np.floor(weight)).all())
    share = weight if repeats else weight**2
    enter = np.zeros(len(place), np.intp)
    if entry is not None:
        enter = np.minimum(np.searchsorted(steps.times, entry, side="right"), place)
    hazard = steps.events.sum(axis=1) / n * gone
    event = cause >= 0
    A = np.append(0.0, np.cumsum(hazard))
    a = A[place + 1] - A[enter] - np.where(event, gone[place], 0.0)
    present = _Present(share, enter, place, m)
    n_0, n_a, n_aa = (present.total(x) for x in (1.0, A[enter], A[enter] ** 2))
    left_aa = _cumulative(share * a * a, place, m)
    out = np.empty((m, K))
    for k in range(K):
        F = steps.incidence[:, k]
        C = np.append(0.0, np.cumsum(hazard * F + before * steps.events[:, k] / n**2))
        b = C[enter] - C[place + 1] + np.where(event, F[place] * gone[place], 0.0)
        b += np.where(cause == k, (before / n)[place], 0.0)
        n_c, n_cc = present.total(C[enter]), present.total(C[enter] ** 2)
        n_ac = present.total(A[enter] * C[enter])
        own, of = A[1:], C[1:]
        aa = own**2 * n_0 - 2.0 * own * n_a + n_aa + left_aa
        ab = own * n_c + of * n_a - own * of * n_0 - n_ac + _cumulative(share * a * b, place, m)
        bb = of**2 * n_0 - 2.0 * of * n_c + n_cc + _cumulative(share * b * b, place, m)
        out[:, k] = F**2 * aa + 2.0 * F * ab + bb
    return np.maximum(out, 0.0)


def _cumulative(values: Floats, place: np.ndarray, m: int) -> Floats:
    """Sum values of people whose last time is each time or an earlier one, (m,)."""
    return np.cumsum(np.bincount(place, values, m))


class _Present(NamedTuple):
    """People with their weights and the positions of the first and after the last time at risk."""

    share: Floats
    enter: np.ndarray
    place: np.ndarray
    m: int

    def total(self, values: Floats | float) -> Floats:
        """Sum values of the people who remain under observation after each time, (m,)."""
        x = self.share * values
        change = np.bincount(self.enter, x, self.m + 1) - np.bincount(self.place, x, self.m + 1)
        return np.cumsum(change)[: self.m]
