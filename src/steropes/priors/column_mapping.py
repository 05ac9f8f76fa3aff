"""Mappings between the columns of X that a prior describes and the coefficients that are fitted.

A prior describes the columns of X as the user gave them. A fit may have fewer coefficients, if some
are given (``fixed``), or several for a column, if its effect changes with time. These classes
evaluate a prior for the user's columns and convert the results to the fitted coefficients, so that
a prior needs to handle neither case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..errors import DataError
from .custom_prior_checks import checked_next_penalty, checked_separable, checked_smooth
from .group_and_fused_penalty import GroupPenalty
from .penalty import Penalty, SmoothTerm
from .prior_base_class import Prior

__all__ = ["AllColumns", "CopiedColumns", "KeptColumns", "PriorColumns"]

# Two values of a term are equal if their relative difference is below this value.
RELATIVE_ROUNDING = 1e-9


class PriorColumns(Protocol):
    """A prior's terms for the p coefficients that are fitted."""

    def separable(self, prior: Prior) -> Penalty:
        """See `Prior.separable`."""

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `Prior.smooth`."""

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `Prior.group_penalty`."""

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `Prior.next_penalty`."""

    def excluded(self, prior: Prior) -> np.ndarray:
        """Return the mask (p,) of the fitted coefficients that the prior excludes."""


@dataclass(frozen=True)
class AllColumns:
    """One fitted coefficient for each column."""

    names: Sequence[str]

    def separable(self, prior: Prior) -> Penalty:
        """See `PriorColumns.separable`."""
        return checked_separable(prior, self.names)

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `PriorColumns.smooth`."""
        return checked_smooth(prior, self.names)

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `PriorColumns.group_penalty`."""
        return prior.group_penalty(self.names)

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `PriorColumns.next_penalty`."""
        return checked_next_penalty(prior, self.names, beta, before)

    def excluded(self, prior: Prior) -> np.ndarray:
        """See `PriorColumns.excluded`."""
        return prior.excluded(self.names)


@dataclass(frozen=True)
class KeptColumns:
    """Fitted coefficients of some columns, with the others fixed.

    Attributes
    ----------
    kept : (k,) int array
        Positions of the columns with fitted coefficients.
    values : (p,) array
        The values of the fixed coefficients.
    """

    names: Sequence[str]
    kept: np.ndarray
    values: np.ndarray

    def separable(self, prior: Prior) -> Penalty:
        """See `PriorColumns.separable`."""
        return _select(checked_separable(prior, self.names), self.kept)

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `PriorColumns.smooth`; the term as a function of the fitted coefficients."""
        term = checked_smooth(prior, self.names)
        return None if term is None else _WithFixedValues(term, self.kept, self.values)

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `PriorColumns.group_penalty`; fixed coefficients may not cut a group or a chain."""
        whole = prior.group_penalty(self.names)
        if whole is None:
            return None
        for members in (*whole.groups, *whole.chains):
            given = np.setdiff1d(members, self.kept)
            if 0 < len(given) < len(members):
                raise DataError(
                    f"The coefficient of {self.names[given[0]]!r} is fixed, and "
                    f"{type(prior).__name__} combines it with others, whose penalty depends on it. "
                    "Leave the column out of the prior."
                )
        return whole.only(self.kept)

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `PriorColumns.next_penalty`."""
        old = None if before is None else self._all_coefficients(before)
        beta = self._all_coefficients(beta)
        return _select(checked_next_penalty(prior, self.names, beta, old), self.kept)

    def excluded(self, prior: Prior) -> np.ndarray:
        """See `PriorColumns.excluded`."""
        return prior.excluded(self.names)[self.kept]

    def _all_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Combine fitted coefficients with the fixed ones, (p,)."""
        out = self.values.copy()
        out[self.kept] = beta
        return out


@dataclass(frozen=True)
class _WithFixedValues:
    """A smooth term with some coefficients fixed; see `SmoothTerm`."""

    inner: SmoothTerm
    kept: np.ndarray
    values: np.ndarray

    def value(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.value`."""
        return self.inner.value(self._all_coefficients(beta))

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.gradient`."""
        return np.asarray(self.inner.gradient(self._all_coefficients(beta))[self.kept])

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.hessian`."""
        return self.inner.hessian(self._all_coefficients(beta), self.kept[columns])

    def _all_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Combine fitted coefficients with the fixed ones, (p,) or (p, B)."""
        shape = (len(self.values), *beta.shape[1:])
        out = np.broadcast_to(self.values.reshape(-1, *[1] * (beta.ndim - 1)), shape).copy()
        out[self.kept] = beta
        return out


@dataclass(frozen=True)
class CopiedColumns:
    """Several fitted coefficients for some columns, each with the prior of its column.

    Attributes
    ----------
    names : sequence of str
        Names of the columns of X.
    source : (q,) int array
        The column of each coefficient.
    copies : sequence of str
        Names of the coefficients.
    exclude : sequence of str
        Coefficients that are not penalised.
    """

    names: Sequence[str]
    source: np.ndarray
    copies: Sequence[str]
    exclude: Sequence[str] = ()

    def separable(self, prior: Prior) -> Penalty:
        """See `PriorColumns.separable`."""
        return self._without_excluded(
            _select(checked_separable(self._of_columns(prior), self.names), self.source)
        )

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `PriorColumns.smooth`.

        A term that is symmetric in the columns that are not excluded is applied to the
        coefficients. Other terms must be defined for several coefficients of one column by the
        prior's `Prior.of_copies`.
        """
        own = self._of_columns(prior)
        term = checked_smooth(own, self.names)
        if term is None:
            return None
        if not _is_symmetric(term, ~own.excluded(self.names)):
            raise DataError(
                f"{type(prior).__name__} combines particular columns, but an effect that varies "
                "with time has several coefficients: the prior's of_copies must define the "
                "penalty of these."
            )
        return self._excluding(prior, self.exclude).smooth(self.copies)

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """Raise `DataError` if the prior has a group penalty; see `PriorColumns.group_penalty`."""
        if prior.group_penalty(self.names) is None:
            return None
        raise DataError(
            f"{type(prior).__name__} combines columns, but an effect that varies with time has "
            "several coefficients: the prior's of_copies must define the penalty of these."
        )

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `PriorColumns.next_penalty`; asks once per layer of `_layers`."""
        own = self._of_columns(prior)
        l1, l2 = np.zeros(len(beta)), np.zeros(len(beta))
        for at in self._layers():
            old = None if before is None else before[at]
            found = checked_next_penalty(own, self.names, beta[at], old)
            l1[at], l2[at] = found.l1, found.l2
        return self._without_excluded(Penalty(l1, l2))

    def excluded(self, prior: Prior) -> np.ndarray:
        """See `PriorColumns.excluded`; the exclusions of the prior are those of the columns."""
        return np.isin(np.array(self.copies, object), list(self.exclude))

    def _layers(self) -> list[np.ndarray]:
        """Return sets of positions, each with one coefficient per column, that cover all."""
        of = [np.flatnonzero(self.source == j) for j in range(len(self.names))]
        most = max(len(at) for at in of)
        return [np.array([at[min(k, len(at) - 1)] for at in of]) for k in range(most)]

    def _of_columns(self, prior: Prior) -> Prior:
        """Return the prior with those columns excluded whose coefficients are all excluded."""
        gone = set(self.exclude)
        whole = [
            name
            for j, name in enumerate(self.names)
            if all(self.copies[int(k)] in gone for k in np.flatnonzero(self.source == j))
        ]
        return self._excluding(prior, whole)

    def _excluding(self, prior: Prior, names: Sequence[str]) -> Prior:
        """Return the prior with another setting ``exclude``, if it has one."""
        if "exclude" not in prior.get_params():
            return prior
        changed: dict[str, Any] = {"exclude": list(names)}
        return replace(prior, **changed)

    def _without_excluded(self, penalty: Penalty) -> Penalty:
        """Set the penalties of the excluded coefficients to zero."""
        free = np.isin(np.array(self.copies, object), list(self.exclude))
        return Penalty(np.where(free, 0.0, penalty.l1), np.where(free, 0.0, penalty.l2))


def _select(penalty: Penalty, at: np.ndarray) -> Penalty:
    """Select the penalties of some columns, possibly with repetitions."""
    return Penalty(np.asarray(penalty.l1)[at], np.asarray(penalty.l2)[at])


def _is_symmetric(term: SmoothTerm, included: np.ndarray) -> bool:
    """Return whether a term is invariant under permutations of the included columns (p,), bool.

    Two permutations generate all others: the exchange of the first two columns, and a rotation.
    """
    beta = np.cos(np.arange(1.0, len(included) + 1.0))
    at = np.flatnonzero(included)
    swapped, rotated = beta.copy(), beta.copy()
    swapped[at[:2]] = beta[at[:2]][::-1]
    rotated[at] = np.roll(beta[at], 1)
    values = [float(term.value(x[:, None])[0]) for x in (beta, swapped, rotated)]
    size = max(abs(value) for value in values)
    return max(values) - min(values) <= RELATIVE_ROUNDING * size
