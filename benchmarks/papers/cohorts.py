"""Simulated new-user cohorts with the size and shape of the papers' hypertension studies.

Covariates are 0/1 with prevalences from a power law (2.9 % ones) and a twentieth of them has an
effect. Follow-up is log-normal with a median of 89 days and a mean of 149, at most 3,631 days, as
in the published cohort. Times are whole days.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from steropes import Surv

from ..simulate import claims, intercept

MEDIAN, SPREAD, LONGEST = 89.0, 1.0125, 3631.0


@dataclass(frozen=True)
class Cohort:
    """Covariates with the treatment in the first column, covariates alone, and the outcome."""

    X: sparse.csc_array
    covariates: sparse.csc_array
    treated: np.ndarray
    y: np.ndarray


def cohort(
    n: int, p: int, ratios: tuple[float, float], events: float, seed: int,
    *, treated: float = 0.5, confounded: bool = False, competing: float = 0.0,
) -> Cohort:  # fmt: skip
    """Draw a cohort.

    Parameters
    ----------
    n, p : int
        People and baseline covariates.
    ratios : pair of float
        Hazard ratios of the treatment until day 10 and later.
    events : float
        Expected share of people with the outcome before the end of their follow-up.
    treated : float
        Share of treated people.
    confounded : bool
        Whether covariates with an effect on the outcome also affect the treatment.
    competing : float
        Share of people for whom a competing event ends the follow-up.
    """
    rng = np.random.default_rng(seed)
    covariates, beta, _ = claims(rng, n, p, 0.0289, "cox", profile=False)
    eta = covariates @ beta
    eta *= 0.7 / max(eta.std(), 1e-12)
    a = intercept(0.8 * eta, treated)
    z = rng.random(n) < (1 / (1 + np.exp(-a - 0.8 * eta)) if confounded else treated)
    end = np.clip(np.ceil(np.exp(rng.normal(np.log(MEDIAN), SPREAD, n))), 1, LONGEST)
    early, late = (np.exp(eta) * np.where(z, ratio, 1.0) for ratio in ratios)
    low, high = -25.0, 0.0
    for _ in range(60):
        b = 0.5 * (low + high)
        mean = np.mean(-np.expm1(-np.exp(b) * cumulative(early, late, end)))
        low, high = (b, high) if mean < events else (low, b)
    drawn = rng.exponential(size=n) / np.exp(b)  # the cumulative hazard at the event
    day = np.where(drawn < 10 * early, drawn / early, 10 + (drawn - 10 * early) / late)
    day = np.ceil(day)
    event = (day <= end).astype(int)
    time = np.minimum(day, end)
    if competing:
        other = rng.random(n) < competing
        when = np.ceil(rng.random(n) * end)
        first = other & (when < time)
        time, event = np.where(first, when, time), np.where(first, 2, event)
    X = sparse.hstack([sparse.csc_array(z.astype(float)[:, None]), covariates], format="csc")
    return Cohort(X, covariates, z, Surv(time, event))


def cumulative(early: np.ndarray, late: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Cumulative hazard relative to the baseline of a constant hazard that changes on day 10."""
    return early * np.minimum(day, 10) + late * np.maximum(day - 10, 0)
