"""Hazards that are changed until the influence function of a risk or restricted mean has mean zero.

A functional is a sum Σ c_j(t) F_j(t) of risks. Its influence function has the martingales of every
cause l times

    H_l(k) = 1(A = a) q / (e_a G(k−)) Σ_{t ≥ k} Σ_j c_j(t) [1(l = j) − (F_j(t) − F_j(k)) / S(k)].

The hazards are fluctuated along H by a logistic model with one coefficient, H is computed again,
and so on, until the mean of the influence function is small against its error (Moore and van der
Laan 2009).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from steropes.designs.doubly_robust.discrete_survival import SMALLEST, FollowUp, Hazards
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression

__all__ = ["targeted_hazards"]

# The mean of the influence function is at most this share of its error. Few fluctuations suffice;
# so many that do not are an error.
SHARE, MOST_STEPS = 1e-3, 100


def targeted_hazards(
    follow_up: FollowUp, hazards: Hazards, own: NDArray, factor: NDArray, bound: float,
    weights: NDArray, coefficients: NDArray,
) -> Hazards:  # fmt: skip
    """Fluctuate the hazards of one treatment for one functional.

    Parameters
    ----------
    own : ndarray of bool, shape (n,)
        Who has the treatment.
    factor : ndarray, shape (n,)
        q / e_a.
    bound : float
        Least probability to be uncensored.
    weights : ndarray, shape (n,)
        Weights of people.
    coefficients : ndarray, shape (K, J)
        Those of the risks in the functional.

    Raises
    ------
    DataError
        A fluctuation has no finite maximum, or does not converge.
    """
    n, (K, J) = len(own), coefficients.shape
    k = np.arange(1, K + 1)
    at_risk = own[:, None] & (k <= follow_up.last[:, None])
    possible = hazards.events > 0  # Hazards of intervals without an event stay zero.
    used = at_risk[:, :, None] & possible
    happened = (k == follow_up.last[:, None])[:, :, None] & (
        follow_up.event[:, None] == np.arange(1, J + 1)
    )[:, None]
    scale = factor[:, None] / hazards.uncensored(bound)
    w = np.broadcast_to(weights[:, None, None], (n, K, J))
    found = hazards
    for _ in range(MOST_STEPS):
        H = scale[:, :, None] * _gradient(found, coefficients)
        score = np.where(used, H * (happened - found.events), 0.0).sum(axis=(1, 2)) * weights
        if abs(score.sum()) <= SHARE * np.sqrt((score**2).sum()):
            return found
        h = np.clip(found.events, SMALLEST, 1 - SMALLEST)
        size = float(np.abs(H[used]).max())
        shift = _shift(happened[used], logit(h[used]), H[used] / size, w[used]) / size
        found = replace(found, events=np.where(possible, expit(logit(h) + shift * H), 0.0))
    raise DataError("The hazards cannot be targeted; take method='aipw', or a larger bound.")


def _gradient(hazards: Hazards, coefficients: NDArray) -> NDArray:
    """Compute the derivative of the functional in the hazards over S(k − 1), (n, K, J)."""
    F, S = hazards.risks(), np.maximum(hazards.survival(), SMALLEST)
    later = np.cumsum(coefficients[::-1], axis=0)[::-1]  # Σ_{t ≥ k} c_j(t), (K, J)
    risk = (coefficients * F)[:, ::-1].cumsum(axis=1)[:, ::-1].sum(axis=2)
    return np.asarray(later - ((risk - (later * F).sum(axis=2)) / S)[:, :, None])


def _shift(happened: NDArray, offset: NDArray, H: NDArray, weights: NDArray) -> float:
    """Fit the coefficient of the fluctuation."""
    model = FractionalLogisticRegression(fit_intercept=False)
    try:
        fit = model.fit(H[:, None], happened * 1.0, sample_weight=weights, offset=offset)
    except (DataError, SeparationError) as error:
        raise DataError(
            f"The hazards cannot be targeted, since events are few. Take method='aipw'. {error}"
        ) from error
    return float(fit.coef_[0])
