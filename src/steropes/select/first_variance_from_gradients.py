"""The prior variance at which the first penalised coefficient leaves zero, where a path begins."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..priors import INFINITE_PENALTY, Prior
from .variance_path_constants import DEFAULT

__all__ = ["first_variance", "own_information"]

# A relative difference below this is rounding error.
ROUNDING = 1e-9


def first_variance(
    prior: Prior,
    penalties: Callable[[Prior], tuple[np.ndarray, np.ndarray]],
    gradient: Callable[[np.ndarray], np.ndarray],
    information: Callable[[np.ndarray], np.ndarray],
    beyond: float = DEFAULT.step_ratio,
) -> float:
    """Return the variance at which the first penalised coefficient leaves zero, or nearly so.

    It follows from ratios of a column's data to its penalty. It depends neither on the storage of X
    nor on the unit of a column, if its variance has the same unit. Priors are expected to have λ
    proportional to variance^(−1/2) or κ to variance^(−1). If another decreasing function of the
    variance makes the penalty too strong, the first variance is found by bisection.

    Parameters
    ----------
    penalties : callable
        Takes the prior with some variance and returns λ and κ, (p,) each.
    gradient : callable
        Takes λ (p,), infinite for all columns with a penalty, fits the others, and returns the
        gradient of the loss there, (p,), in the units of λ.
    information : callable
        Takes numbers of columns and returns the curvature of the loss along each at that fit, with
        the columns without penalty eliminated, in the units of κ.
    beyond : float
        Ratio of the result to the variance at which the first coefficient leaves zero, for λ. By
        default it is a step of a search, which needs no fits in which all coefficients are zero.

    Raises
    ------
    DataError
        If no column has a penalty, or if penalties grow with the variance or stay too strong.
    """
    l1, l2 = penalties(prior.with_variance(1.0))
    penalised = (l1 > 0) | (l2 > 0)
    if not penalised.any():
        raise DataError("Every column is excluded from the prior; there is nothing to choose.")
    g = np.abs(gradient(np.where(penalised, INFINITE_PENALTY, 0.0)))
    laplace = (l1 > 0).any()
    if laplace:
        columns = np.flatnonzero(l1 > 0)
        data, unit = g[columns], l1[columns]
        largest = float((data / unit).max())
        if not largest > 0:
            return 1.0
        first, target = beyond / largest**2, beyond**0.5
    else:
        columns = np.flatnonzero(penalised)
        columns = columns[
            np.unique(np.linspace(0, len(columns) - 1, DEFAULT.start_columns).astype(int))
        ]
        data = information(columns)
        columns, data = columns[data > 0], data[data > 0]
        if not len(columns):
            return 1.0
        target = DEFAULT.ridge_start
        first = target / float(np.median(data / l2[columns]))

    def ratio(variance: float) -> float:
        l1, l2 = penalties(prior.with_variance(variance))
        with np.errstate(divide="ignore"):
            ratios = data / (l1 if laplace else l2)[columns]
        return float(ratios.max() if laplace else np.median(ratios))

    _refuse_rising(prior, penalties, first)
    if ratio(first) >= target / DEFAULT.scaling_factor:
        return first  # A start that is too weak is harmless: the search also goes backwards.
    return _weak_enough(prior, ratio, first, target)


def _refuse_rising(
    prior: Prior, penalties: Callable[[Prior], tuple[np.ndarray, np.ndarray]], first: float
) -> None:
    """Raise `DataError` if a larger variance gives a larger λ or κ."""
    here = penalties(prior.with_variance(first))
    beyond = penalties(prior.with_variance(DEFAULT.scaling_factor * first))
    if any((y > x * (1 + ROUNDING)).any() for x, y in zip(here, beyond, strict=True)):
        raise DataError(
            f"The penalty of {type(prior).__name__} grows with its variance, but a larger variance "
            "must mean a weaker penalty for cv to choose it. Change its separable or with_variance."
        )


def _weak_enough(
    prior: Prior, ratio: Callable[[float], float], strong: float, target: float
) -> float:
    """Find the variance above ``strong`` at which the ratio of data to penalty is ``target``."""
    weak, decades = strong, 1
    while ratio(weak) < target:
        if np.log10(weak) + decades > sys.float_info.max_10_exp:
            raise DataError(
                f"The penalty of {type(prior).__name__} stays too strong for any coefficient, "
                "however large its variance is, so cv cannot choose a variance. Check that its "
                "with_variance changes the penalty that separable returns."
            )
        strong, weak = weak, strong * 10.0**decades
        decades *= 2
    while np.log(weak / strong) > DEFAULT.scaling_accuracy:
        middle = float(np.sqrt(strong) * np.sqrt(weak))
        strong, weak = (middle, weak) if ratio(middle) < target else (strong, middle)
    return weak


def own_information(
    H: np.ndarray, free: np.ndarray, at: np.ndarray, whole: np.ndarray | None = None
) -> np.ndarray:
    """Return a Hessian's diagonal at some places, with the columns at ``free`` eliminated.

    Remainders at the level of rounding are zero, relative to the diagonal or to ``whole``, its
    value before terms that may cancel it were subtracted.
    """
    h = np.diag(H)[at].copy()
    if len(free):
        cross = H[np.ix_(free, at)]
        h -= (cross * linalg.lstsq(H[np.ix_(free, free)], cross)[0]).sum(axis=0)
    whole = np.diag(H)[at] if whole is None else whole
    return np.where(h > ROUNDING * whole, h, 0.0)
