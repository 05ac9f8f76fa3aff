"""Laplace priors of whole groups, and of the steps between neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import DataError
from .base import Columns, Penalty, Prior
from .group_membership import members
from .group_penalty import GroupPenalty

__all__ = ["FusedLaplace", "GroupLaplace"]


@dataclass(frozen=True)
class GroupLaplace(Prior):
    """Laplace prior of whole groups: the group lasso.

    The coefficients of a group have the density ∝ exp(−λ ‖β_g‖), which is spherical, so that they
    are all zero or none is: levels of a factor, splines of a covariate, all windows of a drug. With
    λ = √((m + 1) / s²) for a group of m columns each coefficient has the variance s² (‖β_g‖ has the
    gamma distribution with shape m and rate λ); of one column that is `Laplace`. Yuan and Lin
    (2006) have λ ∝ √m.

    Parameters
    ----------
    groups : (p,) labels, or mapping of names to labels
        Group of each column. Columns with the label None, or that a mapping does not name, are
        each by themselves, under a Laplace prior of the same variance.
    variance : float
        s², of each coefficient.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask; they are in no group. An
        intercept never is penalised.

    Notes
    -----
    The norm mixes the columns of a group: bring them to similar units. ``optimality_`` counts the
    conditions ‖∇_g‖ ≤ λ_g of groups at zero and ∇_g = −λ_g β_g / ‖β_g‖ of the others in units of
    λ_g.

    References
    ----------
    Yuan and Lin (2006), JRSS B 68:49–67. Meier, van de Geer and Bühlmann (2008), JRSS B 70:53–71.
    Kyung, Gill, Ghosh and Casella (2010), Bayesian Analysis 5:369–412 (the prior).
    """

    partial: ClassVar[frozenset[str]] = frozenset({"groups"})
    by_column: ClassVar[frozenset[str]] = frozenset({"groups"})

    groups: Sequence[Hashable] | np.ndarray | Mapping[str, Hashable]
    variance: float = 1.0
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`: λ of each column's group."""
        return Penalty(self.group_penalty(names).l1, np.zeros(len(names)))

    def group_penalty(self, names: Sequence[str]) -> GroupPenalty:
        """See `Prior.group_penalty`."""
        free = self.excluded(names)
        member, size = members("GroupLaplace", self.groups, names, free)
        s2 = positive("GroupLaplace", "variance", self.variance)
        m = np.where(member >= 0, np.append(size, 1)[member], 1)
        l1 = np.where(free, 0.0, np.sqrt((m + 1) / s2))
        groups = [np.flatnonzero(member == g) for g in range(len(size))]
        return GroupPenalty(l1, tuple(x for x in groups if len(x) > 1))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`."""
        return replace(self, variance=float(variance))


@dataclass(frozen=True)
class FusedLaplace(Prior):
    """Laplace prior of the steps between neighbours: the fused lasso along chains.

    Effects of neighbouring windows, ages or doses differ little: in a chain β_1, …, β_m the steps
    β_1 − 0, β_2 − β_1, …, β_m − β_{m−1} have independent Laplace priors, a random walk from zero.
    Neighbours with no step between them have one effect.

    Parameters
    ----------
    chains : sequence of sequences of str or int
        Columns in the order in which they are neighbours, by name or position; each in one chain
        at most. Columns in none have a Laplace prior of the same variance themselves.
    variance : float
        Of a step; the penalty is √(2 / variance) |step| on the total log-likelihood.
    level_variance : float, optional
        Of the first step of each chain, from zero; default ``variance``. Infinity leaves the
        level of a chain unpenalised, as in the fused lasso's own paper.
    exclude : sequence of str or int, or (p,) bool array
        Columns left unpenalised, by name or position, or as a mask; they are in no chain. An
        intercept never is penalised.

    Notes
    -----
    ``optimality_`` counts the conditions in the slopes of the steps, which are sums of slopes of
    the coefficients from one to the end of its chain, in units of λ.

    References
    ----------
    Tibshirani, Saunders, Rosset, Zhu and Knight (2005), JRSS B 67:91–108.
    """

    by_column: ClassVar[frozenset[str]] = frozenset()  # its chains are read below

    chains: Sequence[Sequence[str | int]]
    variance: float = 1.0
    level_variance: float | None = None
    exclude: Columns = ()

    def separable(self, names: Sequence[str]) -> Penalty:
        """See `Prior.separable`: λ of the step to each column."""
        return Penalty(self.group_penalty(names).l1, np.zeros(len(names)))

    def group_penalty(self, names: Sequence[str]) -> GroupPenalty:
        """See `Prior.group_penalty`."""
        chains, free = self._chains(names), self.excluded(names)
        s2 = positive("FusedLaplace", "variance", self.variance)
        l1 = np.where(free, 0.0, np.sqrt(2.0 / s2))
        if self.level_variance is not None:
            level = self.level_variance
            if level != np.inf:
                level = positive("FusedLaplace", "level_variance", level)
            for x in chains:
                l1[x[0]] = np.sqrt(2.0 / level)
        return GroupPenalty(l1, (), tuple(x for x in chains if len(x) > 1))

    def with_variance(self, variance: float) -> Self:
        """See `Prior.with_variance`; ``level_variance`` stays where it is given."""
        return replace(self, variance=float(variance))

    def of_columns(self, kept: np.ndarray, names: Sequence[str]) -> Self | None:
        """See `Prior.of_columns`."""
        there = {names[j] for j in kept}
        chains = [[names[j] for j in x] for x in self._chains(names)]
        for chain in chains:
            gone = [name for name in chain if name not in there]
            if gone:
                raise DataError(
                    f"The coefficient of {gone[0]!r} is given, and its neighbours' prior depends "
                    "on it: take it out of FusedLaplace's chains."
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
        """Refuse several coefficients of one column."""
        raise DataError("FusedLaplace is not there for effects that vary with time.")

    def _chains(self, names: Sequence[str]) -> list[np.ndarray]:
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


def _place(item: Any, place: dict[str, int], p: int) -> int:
    if isinstance(item, str):
        if item not in place:
            raise DataError(f"FusedLaplace's chains name {item!r}, which is not a column of X.")
        return place[item]
    if isinstance(item, bool) or not isinstance(item, Integral):
        raise DataError(f"FusedLaplace's chains take names or positions, not {item!r}.")
    if not -p <= int(item) < p:
        raise DataError(f"FusedLaplace's chains have position {item}, but X has {p} columns.")
    return int(item) % p


def positive(who: str, what: str, value: Any) -> float:
    """A setting that is one positive, finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 0 < float(value) < np.inf):
        raise DataError(f"{who}'s {what} must be a positive number, not {value!r}.")
    return float(value)
