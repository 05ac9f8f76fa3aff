"""The columns that a prior is about, where the coefficients fitted are other ones.

A prior is written for the columns of X as the user gave them. A fit may have fewer coefficients,
where some are given (``fixed``), or several of a column, where its effect changes with time. These
classes ask a prior about the user's columns and answer for the coefficients that are fitted, so
that a prior needs to know of neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..errors import DataError
from .base import Penalty, Prior, SmoothTerm
from .group_penalty import GroupPenalty

__all__ = ["AllColumns", "CopiedColumns", "KeptColumns", "PriorColumns"]

SAME = 1e-9  # relative difference between two values of a term that rounding can make


class PriorColumns(Protocol):
    """Ask a prior about the coefficients that are fitted, p of them."""

    def separable(self, prior: Prior) -> Penalty:
        """See `Prior.separable`."""

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `Prior.smooth`."""

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `Prior.group_penalty`."""

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `Prior.next_penalty`."""


@dataclass(frozen=True)
class AllColumns:
    """One coefficient for each column.

    Attributes
    ----------
    names : sequence of str
    """

    names: Sequence[str]

    def separable(self, prior: Prior) -> Penalty:
        """See `PriorColumns.separable`."""
        return prior.separable(self.names)

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `PriorColumns.smooth`."""
        return prior.smooth(self.names)

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `PriorColumns.group_penalty`."""
        return prior.group_penalty(self.names)

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `PriorColumns.next_penalty`."""
        return prior.next_penalty(self.names, beta, before)


@dataclass(frozen=True)
class KeptColumns:
    """Coefficients of some columns, with those of the others at given values.

    Attributes
    ----------
    names : sequence of str
        Of all columns.
    kept : (k,) int array
        Places of the columns whose coefficients are fitted.
    values : (p,) array
        The coefficients given.
    """

    names: Sequence[str]
    kept: np.ndarray
    values: np.ndarray

    def separable(self, prior: Prior) -> Penalty:
        """See `PriorColumns.separable`."""
        return _of(prior.separable(self.names), self.kept)

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `PriorColumns.smooth`: the term as a function of the coefficients that are fitted."""
        term = prior.smooth(self.names)
        return None if term is None else _WithGiven(term, self.kept, self.values)

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `PriorColumns.group_penalty`; fixed coefficients may not cut a group or a chain."""
        whole = prior.group_penalty(self.names)
        if whole is None:
            return None
        for members in (*whole.groups, *whole.chains):
            given = np.setdiff1d(members, self.kept)
            if 0 < len(given) < len(members):
                raise DataError(
                    f"The coefficient of {self.names[given[0]]!r} is given, and "
                    f"{type(prior).__name__} joins it with others, whose penalty depends on it. "
                    "Leave the column out of the prior."
                )
        return whole.only(self.kept)

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `PriorColumns.next_penalty`."""
        old = None if before is None else self._whole(before)
        return _of(prior.next_penalty(self.names, self._whole(beta), old), self.kept)

    def _whole(self, beta: np.ndarray) -> np.ndarray:
        out = self.values.copy()
        out[self.kept] = beta
        return out


@dataclass(frozen=True)
class _WithGiven:
    """A smooth term with some coefficients at given values; see `SmoothTerm`."""

    inner: SmoothTerm
    kept: np.ndarray
    values: np.ndarray

    def value(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.value`."""
        return self.inner.value(self._whole(beta))

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.gradient`."""
        return np.asarray(self.inner.gradient(self._whole(beta))[self.kept])

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.hessian`."""
        return self.inner.hessian(self._whole(beta), self.kept[columns])

    def _whole(self, beta: np.ndarray) -> np.ndarray:
        shape = (len(self.values), *beta.shape[1:])
        out = np.broadcast_to(self.values.reshape(-1, *[1] * (beta.ndim - 1)), shape).copy()
        out[self.kept] = beta
        return out


@dataclass(frozen=True)
class CopiedColumns:
    """Several coefficients of some columns, each with the prior of its column.

    Attributes
    ----------
    names : sequence of str
        Of the columns of X.
    source : (q,) int array
        The column of each coefficient.
    copies : sequence of str
        Names of the coefficients.
    exclude : sequence of str
        Coefficients that the prior leaves alone.
    """

    names: Sequence[str]
    source: np.ndarray
    copies: Sequence[str]
    exclude: Sequence[str] = ()

    def separable(self, prior: Prior) -> Penalty:
        """See `PriorColumns.separable`."""
        return self._without_excluded(
            _of(self._of_columns(prior).separable(self.names), self.source)
        )

    def smooth(self, prior: Prior) -> SmoothTerm | None:
        """See `PriorColumns.smooth`.

        A term that treats all columns alike is that of the coefficients. What one of particular
        columns means for several coefficients of one, it has to say itself.
        """
        term = self._of_columns(prior).smooth(self.names)
        if term is None:
            return None
        if not _treats_alike(term, len(self.names)):
            raise DataError(
                f"{type(prior).__name__} joins particular columns, and effects that vary with time "
                "have several coefficients of one: what it means for these its of_copies has to "
                "say."
            )
        return self._excluding(prior, self.exclude).smooth(self.copies)

    def group_penalty(self, prior: Prior) -> GroupPenalty | None:
        """See `PriorColumns.group_penalty`: refused."""
        if prior.group_penalty(self.names) is None:
            return None
        raise DataError(
            f"{type(prior).__name__} joins columns, and effects that vary with time have several "
            "coefficients of one: what it means for these its of_copies has to say."
        )

    def next_penalty(self, prior: Prior, beta: np.ndarray, before: np.ndarray | None) -> Penalty:
        """See `PriorColumns.next_penalty`; asks once per layer of `_layers`."""
        own = self._of_columns(prior)
        l1, l2 = np.zeros(len(beta)), np.zeros(len(beta))
        for at in self._layers():
            old = None if before is None else before[at]
            found = own.next_penalty(self.names, beta[at], old)
            l1[at], l2[at] = found.l1, found.l2
        return self._without_excluded(Penalty(l1, l2))

    def _layers(self) -> list[np.ndarray]:
        """Places of one coefficient of each column, so that each is in some of them."""
        of = [np.flatnonzero(self.source == j) for j in range(len(self.names))]
        most = max(len(at) for at in of)
        return [np.array([at[min(k, len(at) - 1)] for at in of]) for k in range(most)]

    def _of_columns(self, prior: Prior) -> Prior:
        """The prior with the columns excluded of which all coefficients are."""
        gone = set(self.exclude)
        whole = [
            name
            for j, name in enumerate(self.names)
            if all(self.copies[int(k)] in gone for k in np.flatnonzero(self.source == j))
        ]
        return self._excluding(prior, whole)

    def _excluding(self, prior: Prior, names: Sequence[str]) -> Prior:
        if "exclude" not in prior.get_params():
            return prior
        changed: dict[str, Any] = {"exclude": list(names)}
        return replace(prior, **changed)

    def _without_excluded(self, penalty: Penalty) -> Penalty:
        free = np.isin(np.array(self.copies, object), list(self.exclude))
        return Penalty(np.where(free, 0.0, penalty.l1), np.where(free, 0.0, penalty.l2))


def _of(penalty: Penalty, at: np.ndarray) -> Penalty:
    """A penalty of some columns, or of some several times."""
    return Penalty(np.asarray(penalty.l1)[at], np.asarray(penalty.l2)[at])


def _treats_alike(term: SmoothTerm, p: int) -> bool:
    """Whether a term is the same whichever column has which coefficient.

    Two permutations make all others: a swap of the first two columns, and a turn of all.
    """
    beta = np.cos(np.arange(1.0, p + 1.0))
    swapped = beta.copy()
    swapped[:2] = swapped[:2][::-1]
    values = [float(term.value(x[:, None])[0]) for x in (beta, swapped, np.roll(beta, 1))]
    size = max(abs(value) for value in values)
    return max(values) - min(values) <= SAME * size
