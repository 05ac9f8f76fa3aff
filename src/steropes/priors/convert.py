"""Variances of priors to glmnet's λ and back."""

from __future__ import annotations

import numpy as np

__all__ = ["glmnet_lambda", "variance_from_glmnet"]


def glmnet_lambda(variance, n):
    """glmnet's λ for a Laplace prior's variance, at ``alpha = 1``.

    glmnet minimises −ℓ/n + λ‖β‖₁ while a Laplace prior of variance s² adds sqrt(2/s²)‖β‖₁ to
    −ℓ, so λ = sqrt(2/s²) / n. Equality of the fits needs glmnet's ``standardize = FALSE``.
    glmnet's Cox loss is 2/n times the log partial likelihood's negative in its deviance, but
    its objective is the same −ℓ/n.

    Parameters
    ----------
    variance : float or array
        Variance of the Laplace prior, > 0.
    n : float
        Number of rows, or the sum of the weights where they are not one.

    Examples
    --------
    >>> float(glmnet_lambda(2.0, 100))
    0.01
    """
    return np.sqrt(2.0 / np.asarray(variance, dtype=float)) / n


def variance_from_glmnet(lambda_, n):
    """Variance of the Laplace prior for glmnet's λ: 2 / (n λ)²; see `glmnet_lambda`.

    Examples
    --------
    >>> float(variance_from_glmnet(0.01, 100))
    2.0
    """
    return 2.0 / (n * np.asarray(lambda_, dtype=float)) ** 2
