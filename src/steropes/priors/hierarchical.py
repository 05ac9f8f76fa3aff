"""Hierarchical normal priors, in which the coefficients of a group share a mean."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import DataError
from .column_settings import Columns
from .group_membership import group_numbers
from .penalty import Penalty
from .prior_base_class import Prior

__all__ = ["Hierarchical", "WithinGroupVariation"]


@dataclass(frozen=True)
class Hierarchical(Prior):
    """Normal priors around group means, which have normal priors themselves.

    β_j ~ N(μ_g, s²) for the columns j of group g, and μ_g ~ N(0, t²). Groups can be drugs of a
    class, as Suchard and others (2013) propose, or ages, or sites (Lindley and Smith 1972). The
    means are integrated out: within a group of m columns β ~ N(0, s² I + t² 1 1'), whose negative
    log density is

        ½ ‖β‖² / (s² + m t²) + ½ [1/s² − 1/(s² + m t²)] Σ_j (β_j − β̄)².

    The coefficients of a group shrink towards each other, more so the smaller s² is, and their mean
    shrinks towards zero. The posterior mode is that of the coefficients and the means jointly.

    Parameters
    ----------
    groups : (p,) labels, or mapping of names to labels
        Group of each column. Columns with the label None, and those not named by a mapping, are in
        no group and have the prior N(0, s²).
    variance : float, default=1.0
        Variance s² of a coefficient around the mean of its group.
    group_variance : float, or sequence of float, default=1.0
        Variance t² of the means around zero. With ``cv`` several values can be given: the
        cross-validation compares them on the same folds, each along a path of ``variance``.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask; they are in no group. An
        intercept is never penalised.

    References
    ----------
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10.
    Lindley and Smith (1972), JRSS B 34:1–41.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = X @ [1.0, 1.1, 0.0] + rng.standard_normal(200)
    >>> prior = steropes.Hierarchical(["statin", "statin", None], variance=1e-4)
    >>> coef = steropes.LinearRegression(prior=prior).fit(X, y).coef_
    >>> bool(abs(coef[0] - coef[1]) < 0.1)
    True
    """

    smooth_is_convex: ClassVar[bool] = True
    multi_valued: ClassVar[str | None] = "group_variance"
    optional_entries: ClassVar[frozenset[str]] = frozenset({"groups"})
    by_column: ClassVar[frozenset[str]] = frozenset({"groups"})

    groups: Sequence[Hashable] | np.ndarray | Mapping[str, Hashable]
    variance: float = 1.0
    group_variance: float | Sequence[float] = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ = 0 and κ of each column: the part of the prior that is independent.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The κ = 1 / (s² + m t²) for a column in a group of m, and 1 / s² outside groups.
        """
        member, size = self._members(names)
        s2, t2 = self._variances()
        l2 = np.full(len(names), 1.0 / s2)
        at = member >= 0
        l2[at] = 1.0 / (s2 + size[member[at]] * t2)
        return Penalty(np.zeros(len(names)), np.where(self.excluded(names), 0.0, l2))

    def smooth(self, names: Sequence[str]) -> WithinGroupVariation:
        """Compute the term that shrinks the coefficients of a group towards their mean.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        WithinGroupVariation
            The term ½ Σ_g [1/s² − 1/(s² + m t²)] Σ_j (β_j − β̄_g)².
        """
        member, size = self._members(names)
        s2, t2 = self._variances()
        return WithinGroupVariation(member, 1.0 / s2 - 1.0 / (s2 + size * t2))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance within groups; that of the means is kept.

        Parameters
        ----------
        variance : float
            The new variance s².

        Returns
        -------
        Hierarchical
            A changed copy.
        """
        return replace(self, variance=float(variance))

    def _variances(self) -> tuple[float, float]:
        """Return s² and t², validated."""
        values = []
        for what in ("variance", "group_variance"):
            value: Any = getattr(self, what)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 < float(value) < np.inf):
                listed = np.ndim(value) > 0 and what == "group_variance"
                more = " (several values need a cross-validation)" if listed else ""
                raise DataError(
                    f"Hierarchical's {what} must be a positive number, not {value!r}{more}."
                )
            values.append(float(value))
        return values[0], values[1]

    def _members(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each column's group, −1 for none, and the groups' sizes."""
        return group_numbers("Hierarchical", self.groups, names, self.excluded(names))


@dataclass(frozen=True)
class WithinGroupVariation:
    """The smooth term ½ Σ_g d_g Σ_{j in g} (β_j − β̄_g)²; see `SmoothTerm`.

    Attributes
    ----------
    member : (p,) int array
        Group of each column, −1 for none.
    d : (groups,) array
        Weight of each group.
    """

    member: np.ndarray
    d: np.ndarray

    def value(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.value`."""
        _, of, away = self._deviations(beta)
        return 0.5 * (self.d[of, None] * away**2).sum(axis=0)

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.gradient`."""
        at, of, away = self._deviations(beta)
        out = np.zeros(beta.shape)
        out[at] = self.d[of, None] * away
        return out

    def _deviations(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns in groups, their groups, and their deviations from the means."""
        at = np.flatnonzero(self.member >= 0)
        of = self.member[at]
        total = np.zeros((len(self.d), beta.shape[1]))
        np.add.at(total, of, beta[at])
        mean = total / np.maximum(np.bincount(of, minlength=len(self.d)), 1)[:, None]
        return at, of, beta[at] - mean[of]

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.hessian`."""
        of, out = self.member[columns], np.zeros((len(columns), len(columns)))
        size = np.bincount(self.member[self.member >= 0], minlength=len(self.d))
        by = np.argsort(of, kind="stable")
        for at in np.split(by, np.flatnonzero(np.diff(of[by])) + 1):
            g = of[at[0]] if len(at) else -1
            if g >= 0:
                out[np.ix_(at, at)] = -self.d[g] / size[g]
                out[at, at] += self.d[g]
        return out
