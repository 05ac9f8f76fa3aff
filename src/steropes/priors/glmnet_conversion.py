"""Conversion between variances of Laplace priors and glmnet's λ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from ..errors import DataError

__all__ = ["glmnet_lambda", "variance_from_glmnet"]


@overload
def glmnet_lambda(variance: float, n: float) -> np.float64: ...
@overload
def glmnet_lambda(variance: Sequence[float] | np.ndarray, n: float) -> np.ndarray: ...
def glmnet_lambda(variance: ArrayLike, n: float) -> np.float64 | np.ndarray:
    """Convert the variance of a Laplace prior to glmnet's λ at ``alpha = 1``.

    glmnet minimises −ℓ/n + λ‖β‖₁, while a Laplace prior of variance s² adds sqrt(2/s²)‖β‖₁ to
    −ℓ, so λ = sqrt(2/s²) / n. The fits are equal only with glmnet's ``standardize = FALSE``. For
    Cox's model (Breslow ties) glmnet's article writes 2ℓ/n (Simon and others 2011, eq. 2), but the
    program uses ℓ/n as for the other families. With ``alpha = 1/2`` half of λ applies to each part:
    an `ElasticNet` with λ_1 = nλ/2 and κ = nλ/2.

    Parameters
    ----------
    variance : float or array
        Positive variance of the Laplace prior.
    n : float
        Number of rows, or the sum of the weights if these are not one.

    Returns
    -------
    float or array
        The λ of glmnet, of the shape of ``variance``.

    Raises
    ------
    DataError
        A variance or n is not positive.

    References
    ----------
    Simon, Friedman, Hastie and Tibshirani (2011), Journal of Statistical Software 39(5):1–13.

    Examples
    --------
    >>> import steropes
    >>> float(steropes.glmnet_lambda(2.0, 100))
    0.01
    """
    variance = np.asarray(variance, dtype=float)
    _check(n)
    if not (variance > 0).all():  # NaN fails too
        raise DataError("variance must be positive.")
    return np.sqrt(2.0 / variance) / n


@overload
def variance_from_glmnet(lambda_: float, n: float) -> np.float64: ...
@overload
def variance_from_glmnet(lambda_: Sequence[float] | np.ndarray, n: float) -> np.ndarray: ...
def variance_from_glmnet(lambda_: ArrayLike, n: float) -> np.float64 | np.ndarray:
    """Convert glmnet's λ to the variance of a Laplace prior, 2 / (n λ)²; see `glmnet_lambda`.

    Parameters
    ----------
    lambda_ : float or array
        The λ of glmnet, not negative.
    n : float
        Number of rows, or the sum of the weights if these are not one.

    Returns
    -------
    float or array
        Infinite, which means no penalty, where λ is zero.

    Raises
    ------
    DataError
        λ is negative, or n is not positive.

    See Also
    --------
    glmnet_lambda : The inverse, with the definition of the two penalties.

    Examples
    --------
    >>> import steropes
    >>> float(steropes.variance_from_glmnet(0.01, 100))
    2.0
    """
    lambda_ = np.asarray(lambda_, dtype=float)
    _check(n)
    if not (lambda_ >= 0).all():
        raise DataError("lambda_ must not be negative.")
    with np.errstate(divide="ignore", over="ignore"):
        return 2.0 / (n * lambda_) ** 2


def _check(n: float) -> None:
    """Raise an error unless n is positive."""
    if not n > 0:
        raise DataError(f"n must be the number of rows, above zero, not {n!r}.")
