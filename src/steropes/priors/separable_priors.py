"""Laplace, normal and elastic-net priors: Σ λ_j |β_j| + ½ Σ κ_j β_j² on the log-likelihood."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from .base import Columns, Penalty, Prior, Variance

__all__ = ["ElasticNet", "Laplace", "Normal"]


@dataclass(frozen=True)
class Laplace(Prior):
    """Laplace (double exponential) prior: the lasso.

    Parameters
    ----------
    variance : float, (p,) array, or mapping of names to numbers
        Variance s² of the prior; the penalty is sqrt(2 / s²) |β| on the total log-likelihood.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.
    """

    by_column: ClassVar[frozenset[str]] = frozenset({"variance"})

    variance: Variance = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`."""
        l1 = np.sqrt(2.0 / self._vector("variance", self.variance, names))
        return Penalty(np.where(self.excluded(names), 0.0, l1), np.zeros(len(names)))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`; relative variances of the columns stay as they are."""
        return replace(self, variance=_rescaled(self.variance, variance))


@dataclass(frozen=True)
class Normal(Prior):
    """Normal prior: ridge.

    Parameters
    ----------
    variance : float, (p,) array, or mapping of names to numbers
        Variance s² of the prior; the penalty is β² / (2 s²) on the total log-likelihood.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.
    """

    by_column: ClassVar[frozenset[str]] = frozenset({"variance"})

    variance: Variance = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`."""
        l2 = 1.0 / self._vector("variance", self.variance, names)
        return Penalty(np.zeros(len(names)), np.where(self.excluded(names), 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`."""
        return replace(self, variance=_rescaled(self.variance, variance))


@dataclass(frozen=True)
class ElasticNet(Prior):
    """Product of a Laplace and a normal prior.

    Parameters
    ----------
    laplace_variance, normal_variance : float, (p,) array, or mapping of names to numbers
        As in `Laplace` and `Normal`; the penalties add up.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.
    """

    by_column: ClassVar[frozenset[str]] = frozenset({"laplace_variance", "normal_variance"})

    laplace_variance: Variance
    normal_variance: Variance
    exclude: Columns = ()

    @property
    def variance(self) -> Variance:
        """The Laplace part's variance, which a cross-validation varies."""
        return self.laplace_variance

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`."""
        free = self.excluded(names)
        l1 = np.sqrt(2.0 / self._vector("laplace_variance", self.laplace_variance, names))
        l2 = 1.0 / self._vector("normal_variance", self.normal_variance, names)
        return Penalty(np.where(free, 0.0, l1), np.where(free, 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """Both variances, their ratio of penalties kept: λ and κ scale alike, as glmnet's α."""
        old = _overall(self.laplace_variance)
        # λ ∝ laplace^(-1/2) and κ ∝ normal^(-1): equal factors on the penalties.
        factor = np.sqrt(old / variance)
        return replace(
            self,
            laplace_variance=_rescaled(self.laplace_variance, variance),
            normal_variance=_times(self.normal_variance, 1.0 / factor),
        )

    def beside(self, compared: Collection[str]) -> Prior:
        """See `Prior.beside`: where the normal part's variance is compared the path keeps it."""
        return LaplacePath(**self.get_params()) if "normal_variance" in compared else self


@dataclass(frozen=True)
class LaplacePath(ElasticNet):
    """An elastic net whose Laplace part alone moves along a path of variances."""

    def with_variance(self, variance: float) -> Self:
        """The Laplace part's; the normal part's stays as it is."""
        return replace(self, laplace_variance=_rescaled(self.laplace_variance, variance))


def _overall(variance: Variance) -> float:
    """One number for a vector of variances: the geometric mean of the finite ones."""
    each: Any = list(variance.values()) if isinstance(variance, Mapping) else variance
    value = np.asarray(each, dtype=np.float64)
    finite = value[np.isfinite(value)] if value.ndim else value[None]
    return float(np.exp(np.log(finite).mean())) if len(finite) else 1.0


def _rescaled(old: Variance, variance: float) -> Variance:
    if not isinstance(old, Mapping) and np.ndim(old) == 0:
        return float(variance)
    return _times(old, float(variance) / _overall(old))


def _times(old: Variance, factor: float) -> Variance:
    if isinstance(old, Mapping):
        return {name: float(value) * factor for name, value in old.items()}
    return np.asarray(old, float) * factor if np.ndim(old) else float(cast(float, old)) * factor
