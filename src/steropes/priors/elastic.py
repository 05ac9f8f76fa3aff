"""Laplace, normal and elastic-net priors: Σ λ_j |β_j| + ½ Σ κ_j β_j² on the log-likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, Self, cast

import numpy as np

from ..errors import DataError

# One number, or one for each column.
Variance = float | Sequence[float] | np.ndarray
# Names, positions or a mask of columns.
Columns = str | int | Sequence[str | int] | np.ndarray

__all__ = ["ElasticNet", "Laplace", "Normal", "Penalty", "Prior"]


@dataclass(frozen=True)
class Penalty:
    """What the solver needs: λ_j of |β_j| and κ_j of β_j²/2, (p,) each, in X's units."""

    l1: np.ndarray
    l2: np.ndarray

    def value(self, beta: np.ndarray) -> float:
        """Σ λ_j |β_j| + ½ Σ κ_j β_j²."""
        return float((self.l1 * abs(beta)).sum() + 0.5 * (self.l2 * beta**2).sum())


@dataclass(frozen=True)
class Prior(ABC):
    """Independent priors on the coefficients, with mean zero."""

    exclude = cast("Columns", ())  # a field of the subclasses, after the variances

    @abstractmethod
    def penalty(self, names: Sequence[str]) -> Penalty:
        """λ and κ for columns with these names."""

    @abstractmethod
    def with_variance(self, variance: float) -> Self:
        """Return the same prior with another overall variance, as a cross-validation tries it."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as scikit-learn's: ``prior__variance`` is one of an estimator."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; a fit that was made with the prior keeps what it had."""
        known = self.get_params()
        for name in params:
            if name not in known:
                raise DataError(
                    f"{type(self).__name__} has no setting {name!r}; it has "
                    f"{', '.join(map(repr, known))}."
                )
        for name, value in params.items():
            object.__setattr__(self, name, value)
        return self

    def exclusions(self, p: int) -> list[str | int]:
        """What ``exclude`` says of p columns as names and positions; a mask is read as such."""
        exclude: Any = self.exclude  # whatever the user has set
        items: list[Any] = [exclude] if isinstance(exclude, str | Integral) else list(exclude)
        if items and all(isinstance(item, bool | np.bool_) for item in items):
            if len(items) != p:
                raise DataError(f"exclude is a mask of {len(items)} columns, but X has {p}.")
            return [int(j) for j in np.flatnonzero(items)]
        for item in items:
            if isinstance(item, bool | np.bool_) or not isinstance(item, str | Integral):
                raise DataError(
                    f"exclude takes names, positions or a mask of all columns, not {item!r}."
                )
        return items

    def excluded(self, names: Sequence[str]) -> np.ndarray:
        """Mask of the columns left unpenalised, (p,) bool."""
        mask = np.zeros(len(names), bool)
        place = {name: j for j, name in enumerate(names)}
        for item in self.exclusions(len(names)):
            if isinstance(item, str):
                if item not in place:
                    raise DataError(f"exclude names {item!r}, which is not a column of X.")
                mask[place[item]] = True
            else:
                if not -len(names) <= item < len(names):
                    raise DataError(f"exclude has position {item}, but X has {len(names)} columns.")
                mask[item] = True
        return mask

    def of_copies(self, source: np.ndarray, p: int, exclude: Sequence[str | int]) -> Self:
        """Return the prior of columns that each stand for one of p, ``source``.

        Settings with one entry a column follow their column; ``exclude`` is the new one.
        """
        wider: dict[str, Any] = {"exclude": exclude}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "exclude" and np.ndim(value) == 1 and len(value) == p:
                wider[field.name] = np.asarray(value)[source]
        return replace(self, **wider)

    def _vector(self, what: str, variance: Any, p: int) -> np.ndarray:
        try:
            value = np.asarray(variance, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"{type(self).__name__}'s {what} must be a number, not {variance!r}."
            ) from None
        if value.ndim > 1 or (value.ndim == 1 and len(value) != p):
            raise DataError(
                f"{type(self).__name__}'s {what} must be a number or one for each of the {p} "
                f"columns, not of shape {value.shape}."
            )
        if not (value > 0).all():  # NaN fails too; infinity is no penalty
            raise DataError(f"{type(self).__name__}'s {what} must be positive.")
        return np.broadcast_to(value, (p,))


@dataclass(frozen=True)
class Laplace(Prior):
    """Laplace (double exponential) prior: the lasso.

    Parameters
    ----------
    variance : float or (p,) array
        Variance s² of the prior; the penalty is sqrt(2 / s²) |β| on the total log-likelihood.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.
    """

    variance: Variance = 1.0
    exclude: Columns = ()

    def penalty(self, names: Sequence[str]) -> Penalty:
        """See `Prior.penalty`."""
        l1 = np.sqrt(2.0 / self._vector("variance", self.variance, len(names)))
        return Penalty(np.where(self.excluded(names), 0.0, l1), np.zeros(len(names)))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`; relative variances of the columns stay as they are."""
        return replace(self, variance=_rescaled(self.variance, variance))


@dataclass(frozen=True)
class Normal(Prior):
    """Normal prior: ridge.

    Parameters
    ----------
    variance : float or (p,) array
        Variance s² of the prior; the penalty is β² / (2 s²) on the total log-likelihood.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.
    """

    variance: Variance = 1.0
    exclude: Columns = ()

    def penalty(self, names: Sequence[str]) -> Penalty:
        """See `Prior.penalty`."""
        l2 = 1.0 / self._vector("variance", self.variance, len(names))
        return Penalty(np.zeros(len(names)), np.where(self.excluded(names), 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`."""
        return replace(self, variance=_rescaled(self.variance, variance))


@dataclass(frozen=True)
class ElasticNet(Prior):
    """Product of a Laplace and a normal prior.

    Parameters
    ----------
    laplace_variance, normal_variance : float or (p,) array
        As in `Laplace` and `Normal`; the penalties add up.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask. An intercept never is
        penalised.
    """

    laplace_variance: Variance
    normal_variance: Variance
    exclude: Columns = ()

    @property
    def variance(self) -> Variance:
        """The Laplace part's variance, which a cross-validation varies."""
        return self.laplace_variance

    def penalty(self, names: Sequence[str]) -> Penalty:
        """See `Prior.penalty`."""
        p, free = len(names), self.excluded(names)
        l1 = np.sqrt(2.0 / self._vector("laplace_variance", self.laplace_variance, p))
        l2 = 1.0 / self._vector("normal_variance", self.normal_variance, p)
        return Penalty(np.where(free, 0.0, l1), np.where(free, 0.0, l2))

    def with_variance(self, variance: float) -> Self:
        """Both variances, their ratio of penalties kept: λ and κ scale alike, as glmnet's α."""
        old = _overall(self.laplace_variance)
        # λ ∝ laplace^(-1/2) and κ ∝ normal^(-1): equal factors on the penalties.
        factor = np.sqrt(old / variance)
        return replace(
            self,
            laplace_variance=_rescaled(self.laplace_variance, variance),
            normal_variance=np.asarray(self.normal_variance, float) / factor
            if np.ndim(self.normal_variance)
            else float(cast(float, self.normal_variance)) / factor,
        )


def _overall(variance: Variance) -> float:
    """One number for a vector of variances: the geometric mean of the finite ones."""
    value = np.asarray(variance, dtype=np.float64)
    finite = value[np.isfinite(value)] if value.ndim else value[None]
    return float(np.exp(np.log(finite).mean())) if len(finite) else 1.0


def _rescaled(old: Variance, variance: float) -> float | np.ndarray:
    if np.ndim(old) == 0:
        return float(variance)
    return np.asarray(old, float) * (float(variance) / _overall(old))
