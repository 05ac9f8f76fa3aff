"""The targeting step: outcome means whose inverse-probability-weighted residuals sum to zero."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from steropes.design_matrix import null_design
from steropes.errors import DataError, SeparationError
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression

__all__ = ["Targeting", "targeted_means"]

Targeting = Literal["covariate", "weight"]
# Initial means of an outcome with a range are kept this share of it within it (as in R's tmle);
# probabilities of an event may be small and are kept from 0 and 1 by rounding errors alone.
INSIDE, INSIDE_OF_BINARY = 5e-4, 1e-12


def targeted_means(
    y: NDArray, arms: NDArray, weights: NDArray, means: NDArray, factor: NDArray,
    targeting: Targeting,
) -> NDArray:  # fmt: skip
    """Fluctuate the means of each treatment by a logistic model with one coefficient.

    The outcome is scaled to [0, 1] by its observed range, which the targeted means then keep.

    Parameters
    ----------
    y : ndarray, shape (n,)
    arms : ndarray of bool, shape (n, 2)
        Who has each treatment and an observed outcome.
    weights : ndarray, shape (n,)
        Weights of people.
    means, factor : ndarray, shape (n, 2)
        Initial means, and the factor of residuals in the influence function.
    targeting : {"covariate", "weight"}
        Whether the factor is the covariate of the logistic model, or its weight with an intercept.

    Returns
    -------
    ndarray, shape (n, 2)

    Raises
    ------
    DataError
        All outcomes of a group are the lowest or the highest of all.

    References
    ----------
    Gruber and van der Laan (2010), International Journal of Biostatistics 6(1):26.
    """
    used = arms.any(axis=1)
    low, high = float(y[used].min()), float(y[used].max())
    if low == high:
        raise DataError("The outcome is the same for everybody.")
    binary = bool(np.isin(y[used], (0.0, 1.0)).all())
    inside = INSIDE_OF_BINARY if binary else INSIDE
    offset = logit(np.clip((means - low) / (high - low), inside, 1 - inside))
    out = np.empty_like(means)
    for k in (0, 1):
        at = arms[:, k]
        share = (y[at] - low) / (high - low)
        shift = _shift(share, weights[at], offset[at, k], factor[at, k], targeting, k)
        H = factor[:, k] if targeting == "covariate" else 1.0
        out[:, k] = low + (high - low) * expit(offset[:, k] + shift * H)
    return out


def _shift(
    share: NDArray, weights: NDArray, offset: NDArray, factor: NDArray, targeting: Targeting,
    group: int,
) -> float:  # fmt: skip
    """Fit the coefficient of the fluctuation."""
    model = FractionalLogisticRegression(fit_intercept=targeting == "weight")
    try:
        if targeting == "weight":
            fit = model.fit(
                null_design(len(share)), share, sample_weight=weights * factor, offset=offset
            )
            return float(fit.intercept_)
        fit = model.fit(factor[:, None], share, sample_weight=weights, offset=offset)
        return float(fit.coef_[0])
    except (DataError, SeparationError) as error:
        name = "comparator" if group else "target"
        raise DataError(
            f"The outcome means of the {name} cannot be targeted, since the outcome hardly varies "
            f"among its people. Take method='aipw', or a common outcome. {error}"
        ) from error
