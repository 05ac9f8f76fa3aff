"""Laplace priors on groups of coefficients and on differences between neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np

from ..data.column_lookup import unknown_column
from ..errors import DataError
from .column_settings import Columns
from .group_and_fused_penalty import GroupPenalty
from .group_membership import group_numbers
from .penalty import Penalty
from .prior_base_class import Prior

__all__ = ["FusedLaplace", "GroupLaplace"]


@dataclass(frozen=True)
class GroupLaplace(Prior):
    """Laplace prior on whole groups of coefficients: the group lasso.

    The coefficients of a group have the density ∝ exp(−λ ‖β_g‖), which is spherical, so that either
    all of them are zero or none is. Groups can be the levels of a factor, the splines of a
    covariate or all time windows of a drug. With λ = √((m + 1) / s²) for a group of m columns, each
    coefficient has the variance s² (‖β_g‖ has the gamma distribution with shape m and rate λ). For
    one column this is `Laplace`. Yuan and Lin (2006) use λ ∝ √m.

    Parameters
    ----------
    groups : (p,) labels, or mapping of names to labels
        Group of each column. Columns with the label None, and those not named by a mapping, have
        separate Laplace priors with the same variance.
    variance : float, default=1.0
        Variance s² of each coefficient.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask; they are in no group. An
        intercept is never penalised.

    Notes
    -----
    The norm combines the columns of a group, which should therefore have similar units.
    ``optimality_`` measures the violations of ‖∇_g‖ ≤ λ_g for groups at zero and of
    ∇_g = −λ_g β_g / ‖β_g‖ for the others, in units of λ_g.

    References
    ----------
    Yuan and Lin (2006), JRSS B 68:49–67. Meier, van de Geer and Bühlmann (2008), JRSS B 70:53–71.
    Kyung, Gill, Ghosh and Casella (2010), Bayesian Analysis 5:369–412 (the prior).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = X @ [1.0, 1.0, 0.0, 0.0] + rng.standard_normal(200)
    >>> prior = steropes.GroupLaplace(["a", "a", "b", "b"], variance=0.01)
    >>> (steropes.LinearRegression(prior=prior).fit(X, y).coef_ != 0).tolist()
    [True, True, False, False]
    """

    optional_entries: ClassVar[frozenset[str]] = frozenset({"groups"})
    by_column: ClassVar[frozenset[str]] = frozenset({"groups"})

    groups: Sequence[Hashable] | np.ndarray | Mapping[str, Hashable]
    variance: float = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ of the group of each column, and κ = 0.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The λ = √((m + 1) / s²) for a column in a group of m.
        """
        return Penalty(self.group_penalty(names).l1, np.zeros(len(names)))

    def group_penalty(self, names: Sequence[str]) -> GroupPenalty:
        """Compute the penalty Σ_g λ_g ‖β_g‖.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        GroupPenalty
            The λ of each column's group, and the groups of more than one column.
        """
        free = self.excluded(names)
        member, size = group_numbers("GroupLaplace", self.groups, names, free)
        s2 = positive_number("GroupLaplace", "variance", self.variance)
        m = np.where(member >= 0, np.append(size, 1)[member], 1)
        l1 = np.where(free, 0.0, np.sqrt((m + 1) / s2))
        groups = [np.flatnonzero(member == g) for g in range(len(size))]
        return GroupPenalty(l1, tuple(x for x in groups if len(x) > 1))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance.

        Parameters
        ----------
        variance : float
            The new variance of each coefficient.

        Returns
        -------
        GroupLaplace
            A changed copy.
        """
        return replace(self, variance=float(variance))


@dataclass(frozen=True)
class FusedLaplace(Prior):
    """Laplace prior on the steps between neighbouring coefficients: the fused lasso along chains.

    The prior expresses that the effects of neighbouring time windows, ages or doses differ little.
    In a chain β_1, …, β_m the steps β_1 − 0, β_2 − β_1, …, β_m − β_{m−1} have independent Laplace
    priors, which is a random walk from zero. Neighbours without a step share one effect.

    Parameters
    ----------
    chains : sequence of sequences of str or int
        Columns by name or position, in the order in which they are neighbours. A column is in at
        most one chain; columns in none have a Laplace prior with the same variance.
    variance : float, default=1.0
        Variance of a step; the penalty is √(2 / variance) |step| on the total log-likelihood.
    level_variance : float, optional
        Variance of the first step of each chain, from zero; by default ``variance``. Infinity
        leaves the level of a chain unpenalised, as in the original paper.
    exclude : sequence of str or int, or (p,) bool array, default=()
        Columns left unpenalised, by name or position, or as a mask; they are in no chain. An
        intercept is never penalised.

    Notes
    -----
    ``optimality_`` measures the violations in units of λ for the gradient with respect to the
    steps, whose elements are sums of the coefficients' gradient from one to the end of its chain.

    References
    ----------
    Tibshirani, Saunders, Rosset, Zhu and Knight (2005), JRSS B 67:91–108.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = X @ [1.0, 1.0, 1.0] + rng.standard_normal(200)
    >>> prior = steropes.FusedLaplace([[0, 1, 2]], variance=0.001, level_variance=np.inf)
    >>> len(np.unique(steropes.LinearRegression(prior=prior).fit(X, y).coef_.round(6)))
    1
    """

    by_column: ClassVar[frozenset[str]] = frozenset()  # `of_columns` converts the chains

    chains: Sequence[Sequence[str | int]]
    variance: float = 1.0
    level_variance: float | None = None
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """Compute λ of the step to each column, and κ = 0.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The λ = √(2 / variance), with ``level_variance`` at the start of each chain.
        """
        return Penalty(self.group_penalty(names).l1, np.zeros(len(names)))

    def group_penalty(self, names: Sequence[str]) -> GroupPenalty:
        """Compute the penalty Σ λ_j |step_j| along the chains.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        GroupPenalty
            The λ of each step, and the chains of more than one column.
        """
        chains, free = self._chains(names), self.excluded(names)
        s2 = positive_number("FusedLaplace", "variance", self.variance)
        l1 = np.where(free, 0.0, np.sqrt(2.0 / s2))
        if self.level_variance is not None:
            level = self.level_variance
            if level != np.inf:
                level = positive_number("FusedLaplace", "level_variance", level)
            for x in chains:
                l1[x[0]] = np.sqrt(2.0 / level)
        return GroupPenalty(l1, (), tuple(x for x in chains if len(x) > 1))

    def with_variance(self, variance: float) -> Self:
        """Return the prior with another variance of the steps; a given ``level_variance`` is kept.

        Parameters
        ----------
        variance : float
            The new variance of a step.

        Returns
        -------
        FusedLaplace
            A changed copy.
        """
        return replace(self, variance=float(variance))

    def of_columns(self, kept: np.ndarray, names: Sequence[str]) -> Self | None:
        """Return the prior of some columns, as if X had no others.

        Parameters
        ----------
        kept : (k,) int array
            Positions of the columns with fitted coefficients.
        names : sequence of str
            Names of all columns.

        Returns
        -------
        FusedLaplace
            The prior of these columns.

        Raises
        ------
        DataError
            If the coefficient of a column in a chain is fixed.
        """
        there = {names[j] for j in kept}
        chains = [[names[j] for j in x] for x in self._chains(names)]
        for chain in chains:
            gone = [name for name in chain if name not in there]
            if gone:
                raise DataError(
                    f"The coefficient of {gone[0]!r} is fixed, and its neighbours' prior depends "
                    "on it: remove it from FusedLaplace's chains."
                )
        fewer = super().of_columns(kept, names)
        return None if fewer is None else replace(fewer, chains=chains)

    def of_copies(
        self,
        source: np.ndarray,
        names: Sequence[str],
        exclude: Sequence[str | int],
        copies: Sequence[str],
    ) -> Self:
        """Raise `DataError`, as chains are not defined for several coefficients of one column.

        Parameters
        ----------
        source : (q,) int array
            The column of each coefficient.
        names : sequence of str
            Names of the columns of X.
        exclude : sequence of str or int
            The new setting ``exclude``.
        copies : sequence of str
            Names of the coefficients.

        Raises
        ------
        DataError
            Always.
        """
        raise DataError("FusedLaplace is not available for effects that vary with time.")

    def _chains(self, names: Sequence[str]) -> list[np.ndarray]:
        """Convert and validate the chains; returns positions of columns."""
        place = {name: j for j, name in enumerate(names)}
        free, used = self.excluded(names), np.zeros(len(names), bool)
        if isinstance(self.chains, str) or any(
            isinstance(x, str) or not isinstance(x, Sequence | np.ndarray) for x in self.chains
        ):
            raise DataError(
                "FusedLaplace's chains must be lists of columns, such as "
                f"[['w1', 'w2', 'w3']], not {self.chains!r}."
            )
        out = []
        for chain in self.chains:
            at = []
            for item in chain:
                j = _place(item, place, len(names))
                if free[j] or used[j]:
                    what = "excluded" if free[j] else "in the chains twice"
                    raise DataError(f"FusedLaplace's column {names[j]!r} is {what}.")
                used[j] = True
                at.append(j)
            if at:
                out.append(np.array(at))
        return out


def _place(item: object, place: dict[str, int], p: int) -> int:
    """Convert a column's name or position to its position."""
    if isinstance(item, str):
        if item not in place:
            raise unknown_column("FusedLaplace's setting chains", item, place)
        return place[item]
    if isinstance(item, bool) or not isinstance(item, Integral):
        raise DataError(f"FusedLaplace's chains take names or positions, not {item!r}.")
    if not -p <= int(item) < p:
        raise DataError(f"FusedLaplace's chains have position {item}, but X has {p} columns.")
    return int(item) % p


def positive_number(who: str, what: str, value: object) -> float:
    """Validate a setting that must be a positive, finite number."""
    number = None if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if number is None or not 0 < number < np.inf:
        raise DataError(f"{who}'s {what} must be a positive number, not {value!r}.")
    return number
