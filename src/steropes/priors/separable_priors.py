"""Laplace, normal and elastic-net priors, with the penalty Σ λ_j |β_j| + ½ Σ κ_j β_j²."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from .coefficient_limits import Limit, LimitedPrior
from .column_settings import Columns, Variance
from .penalty import Penalty
from .prior_base_class import Prior

__all__ = ["ElasticNet", "Laplace", "Normal"]


@dataclass(frozen=True, repr=False)
class Laplace(LimitedPrior):
    """Laplace (double exponential) prior: the lasso.

    Parameters
    ----------
    variance : float, (p,) array, or mapping of names to numbers, default=1.0
        Variance s² of the prior; the penalty is sqrt(2 / s²) |β| on the total log-likelihood.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask. An intercept is never
        penalised.
    lower, upper : float, (p,) array, or mapping of names to numbers, default -inf and inf
        Limits of the coefficients in X's units: the prior is truncated to [lower, upper], which
        must include zero. Columns that a mapping omits have none, and the intercept has none.
        ``lower=0`` with an infinite variance is maximum likelihood with nonnegative coefficients.

    See Also
    --------
    glmnet_lambda : Convert the variance to glmnet's λ.

    References
    ----------
    Tibshirani (1996), JRSS B 58:267–288. Genkin, Lewis and Madigan (2007), Technometrics
    49:291–304 (the prior). Friedman, Hastie and Tibshirani (2010), Journal of Statistical Software
    33(1) (glmnet, which has the same limits).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = X @ [1.0, 0.0, 0.5] + rng.standard_normal(200)
    >>> prior = steropes.Laplace(variance=0.001, exclude=[2])
    >>> (steropes.LinearRegression(prior=prior).fit(X, y).coef_ != 0).tolist()
    [True, False, True]
    >>> prior = steropes.Laplace(variance=0.001, lower={"x0": 0.0}, upper=0.3)
    >>> steropes.LinearRegression(prior=prior).fit(X, y).coef_.round(2).tolist()
    [0.3, 0.0, 0.26]
    """

    by_column: ClassVar[frozenset[str]] = frozenset({"variance", "lower", "upper"})

    variance: Variance = 1.0
    exclude: Columns = ()
    lower: Limit = -np.inf
    upper: Limit = np.inf

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ = √(2 / variance) of each column, and κ = 0.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The λ in X's units, zero for excluded columns.
        """
        l1 = np.sqrt(2.0 / self._variance_vector("variance", self.variance, names))
        return Penalty(np.where(self.excluded(names), 0.0, l1), np.zeros(len(names)))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance; the ratios of the columns' variances are kept.

        Parameters
        ----------
        variance : float
            The new variance; of several variances, their geometric mean.

        Returns
        -------
        Laplace
            A changed copy.
        """
        return replace(self, variance=_rescaled(self.variance, variance))


@dataclass(frozen=True, repr=False)
class Normal(LimitedPrior):
    """Normal prior: ridge regression.

    Parameters
    ----------
    variance : float, (p,) array, or mapping of names to numbers, default=1.0
        Variance s² of the prior; the penalty is β² / (2 s²) on the total log-likelihood.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask. An intercept is never
        penalised.
    lower, upper : float, (p,) array, or mapping of names to numbers, default -inf and inf
        Limits of the coefficients in X's units: the prior is truncated to [lower, upper], which
        must include zero. Columns that a mapping omits have none, and the intercept has none.
        ``lower=0`` with an infinite variance is maximum likelihood with nonnegative coefficients.

    References
    ----------
    Hoerl and Kennard (1970), Technometrics 12:55–67.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[-1.0], [0.0], [1.0]], [-2.0, 0.0, 2.0]
    >>> model = steropes.LinearRegression(prior=steropes.Normal(variance=0.5)).fit(X, y)
    >>> float(model.coef_[0])  # X'y / (X'X + 1 / 0.5) with X'X = 2 and X'y = 4
    1.0
    """

    by_column: ClassVar[frozenset[str]] = frozenset({"variance", "lower", "upper"})

    variance: Variance = 1.0
    exclude: Columns = ()
    lower: Limit = -np.inf
    upper: Limit = np.inf

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute κ = 1 / variance of each column, and λ = 0.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The κ in X's units, zero for excluded columns.
        """
        l2 = 1.0 / self._variance_vector("variance", self.variance, names)
        return Penalty(np.zeros(len(names)), np.where(self.excluded(names), 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance; the ratios of the columns' variances are kept.

        Parameters
        ----------
        variance : float
            The new variance; of several variances, their geometric mean.

        Returns
        -------
        Normal
            A changed copy.
        """
        return replace(self, variance=_rescaled(self.variance, variance))


@dataclass(frozen=True, repr=False)
class ElasticNet(LimitedPrior):
    """Elastic net: the product of a Laplace and a normal prior.

    Parameters
    ----------
    laplace_variance, normal_variance : float, (p,) array, or mapping of names to numbers
        Variances of the factors, as in `Laplace` and `Normal`; the penalties are added.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask. An intercept is never
        penalised.
    lower, upper : float, (p,) array, or mapping of names to numbers, default -inf and inf
        Limits of the coefficients in X's units: the prior is truncated to [lower, upper], which
        must include zero. Columns that a mapping omits have none, and the intercept has none.
        ``lower=0`` with an infinite variance is maximum likelihood with nonnegative coefficients.

    Notes
    -----
    A cross-validation varies both variances so that the ratio of the two penalties, glmnet's
    α, stays the same.

    References
    ----------
    Zou and Hastie (2005), JRSS B 67:301–320.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = X @ [1.0, 0.0, 0.0] + rng.standard_normal(200)
    >>> prior = steropes.ElasticNet(laplace_variance=0.001, normal_variance=1.0)
    >>> (steropes.LinearRegression(prior=prior).fit(X, y).coef_ != 0).tolist()
    [True, False, False]
    """

    by_column: ClassVar[frozenset[str]] = frozenset(
        {"laplace_variance", "normal_variance", "lower", "upper"}
    )

    laplace_variance: Variance
    normal_variance: Variance
    exclude: Columns = ()
    lower: Limit = -np.inf
    upper: Limit = np.inf

    @property
    def variance(self) -> Variance:
        """Variance of the Laplace factor, which a cross-validation varies."""
        return self.laplace_variance

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ and κ of each column.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The λ = √(2 / laplace_variance) and κ = 1 / normal_variance, zero for excluded columns.
        """
        free = self.excluded(names)
        l1 = np.sqrt(2.0 / self._variance_vector("laplace_variance", self.laplace_variance, names))
        l2 = 1.0 / self._variance_vector("normal_variance", self.normal_variance, names)
        return Penalty(np.where(free, 0.0, l1), np.where(free, 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with both variances changed; the ratio of λ and κ is kept.

        Parameters
        ----------
        variance : float
            The new variance of the Laplace factor.

        Returns
        -------
        ElasticNet
            A changed copy.
        """
        old = _overall(self.laplace_variance)
        # λ ∝ laplace^(-1/2) and κ ∝ normal^(-1): equal factors on the penalties.
        factor = np.sqrt(old / variance)
        return replace(
            self,
            laplace_variance=_rescaled(self.laplace_variance, variance),
            normal_variance=_times(self.normal_variance, 1.0 / factor),
        )

    def for_comparison(self, compared: Collection[str]) -> Prior:
        """Return a prior that keeps its normal variance along the path if that is compared.

        Parameters
        ----------
        compared : collection of str
            Names of the settings in the ``compare`` of a `CrossValidation`.

        Returns
        -------
        Prior
            A prior whose `with_variance` changes the Laplace factor only, or the prior itself.
        """
        return LaplacePath(**self.get_params()) if "normal_variance" in compared else self


@dataclass(frozen=True, repr=False)
class LaplacePath(ElasticNet):
    """An elastic net of which only the Laplace factor changes along a path of variances."""

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance of the Laplace factor only."""
        return replace(self, laplace_variance=_rescaled(self.laplace_variance, variance))


def _overall(variance: Variance) -> float:
    """Summarise variances by the geometric mean of the finite ones."""
    each: Any = list(variance.values()) if isinstance(variance, Mapping) else variance
    value = np.asarray(each, dtype=np.float64)
    finite = value[np.isfinite(value)] if value.ndim else value[None]
    return float(np.exp(np.log(finite).mean())) if len(finite) else 1.0


def _rescaled(old: Variance, variance: float) -> Variance:
    """Rescale variances to another overall variance."""
    if not isinstance(old, Mapping) and np.ndim(old) == 0:
        return float(variance)
    return _times(old, float(variance) / _overall(old))


def _times(old: Variance, factor: float) -> Variance:
    """Multiply variances by a factor."""
    if isinstance(old, Mapping):
        return {name: float(value) * factor for name, value in old.items()}
    return np.asarray(old, float) * factor if np.ndim(old) else float(cast(float, old)) * factor
