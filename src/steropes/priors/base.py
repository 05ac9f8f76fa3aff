"""Base class of priors, with the hooks that a prior may implement.

Most priors are independent between coefficients: a `Penalty` holds λ_j and κ_j of each column.
Three kinds of priors need more.

* A prior that couples coefficients smoothly adds a *smooth term* to the objective (`Prior.smooth`,
  a `SmoothTerm`), or a power of the determinant of the information (`Prior.information_power`).
* A prior on whole groups, or on differences between neighbours, has a penalty that is not
  differentiable in several coefficients at once (`Prior.group_penalty`); it replaces λ.
* An adaptive prior (`Prior.adaptive`) has weights that depend on the coefficients.
  `Prior.next_penalty` computes the penalty at given coefficients, and the fit is a fixed point of
  this map, found for each replicate separately by an outer loop (`steropes.fit.solve_with_prior`).

A prior never sees data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from ..data.column_lookup import ColumnLookup
from ..errors import DataError
from .group_penalty import GroupPenalty

# One number, or one for each column: in their order, or by name.
Variance = float | Sequence[float] | np.ndarray | Mapping[str, float]
# Names, positions or a mask of columns.
Columns = str | int | Sequence[str | int] | np.ndarray

__all__ = ["INFINITE_PENALTY", "Columns", "Penalty", "Prior", "SmoothTerm", "Variance"]

# This λ keeps a coefficient at zero for any data and unit.
INFINITE_PENALTY = 1e200


@dataclass(frozen=True)
class Penalty:
    """A separable penalty: weights λ_j of |β_j| and κ_j of β_j²/2.

    Attributes
    ----------
    l1, l2 : (p,) arrays
        λ and κ in X's units.
    """

    l1: np.ndarray
    l2: np.ndarray

    def value(self, beta: np.ndarray) -> float:
        """Compute Σ λ_j |β_j| + ½ Σ κ_j β_j²."""
        return float((self.l1 * abs(beta)).sum() + 0.5 * (self.l2 * beta**2).sum())


class SmoothTerm(Protocol):
    """A differentiable term of the objective that is not a sum over coefficients.

    Coefficients are in X's units, (p, B) for B replicates, and the term may differ between
    replicates.
    """

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Compute the term for each replicate, (B,)."""

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """Compute the derivative, (p, B). It must be exact, because the certificate uses it."""

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Compute the contribution to the Hessian of one replicate, (k, k), at β (p,).

        The result covers ``columns`` and is positive semidefinite. It may omit a part of the second
        derivative, or all of it; the solver then converges more slowly. Standard errors use it.
        """


@dataclass(frozen=True)
class Prior(ABC):
    """Base class of priors on the coefficients, with mean zero.

    Attributes
    ----------
    information_power : float
        The prior has |I(β)|^power as a factor, where I is the information of all columns.
    adaptive : bool
        Whether `next_penalty` is implemented.
    bounds_all : bool
        Whether coefficients without λ and κ are also finite for any data.
    multi_valued : str or None
        Name of a setting that may hold several numbers for a cross-validation to choose from.
    optional_entries : frozenset of str
        Settings given by column name that may omit columns.
    by_column : frozenset of str
        Settings other than ``exclude`` that can have an entry for each column; see `of_columns`. A
        class that declares it promises that nothing else in it refers to columns.
    """

    information_power: ClassVar[float] = 0.0
    adaptive: ClassVar[bool] = False
    bounds_all: ClassVar[bool] = False
    multi_valued: ClassVar[str | None] = None
    optional_entries: ClassVar[frozenset[str]] = frozenset()
    by_column: ClassVar[frozenset[str]] = frozenset()
    exclude = cast("Columns", ())  # a field of the subclasses, after the variances

    @abstractmethod
    def separable(self, names: Sequence[str]) -> Penalty:
        """Return λ and κ of the columns with these names.

        For an adaptive prior they are the initial ones.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            λ and κ of each column, in X's units.
        """

    @abstractmethod
    def with_variance(self, variance: float) -> Self:
        """Return the prior with another overall variance, for a cross-validation.

        Parameters
        ----------
        variance : float
            The new variance.

        Returns
        -------
        Prior
            A changed copy.
        """

    def for_comparison(self, compared: Collection[str]) -> Prior:
        """Return a prior whose `with_variance` keeps the settings that are compared.

        Parameters
        ----------
        compared : collection of str
            Names of the settings in the ``compare`` of a `CrossValidation`.

        Returns
        -------
        Prior
            The prior itself, unless `with_variance` would change a compared setting.
        """
        return self

    # -- hooks of priors that are more than λ and κ ----------------------------------------------

    def smooth(self, names: Sequence[str]) -> SmoothTerm | None:
        """Return the smooth term in the coefficients, or None.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        SmoothTerm or None
            A differentiable term of the objective that is not a sum over coefficients.
        """
        return None

    def group_penalty(self, names: Sequence[str]) -> GroupPenalty | None:
        """Return a penalty on groups of coefficients or on differences along chains, or None.

        Such a penalty replaces λ; `separable` then gives the λ of the group of each column.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        GroupPenalty or None
            The penalty, in X's units.
        """
        return None

    def next_penalty(
        self, names: Sequence[str], beta: np.ndarray, before: np.ndarray | None
    ) -> Penalty:
        """Compute the penalty of an adaptive prior at the optimum of the last penalty.

        The first penalty is that of `separable`.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.
        beta : (p,) array
            The optimum under the last penalty.
        before : (p,) array or None
            The optimum before that; None at first.

        Returns
        -------
        Penalty
            The next penalty. A column with λ = `INFINITE_PENALTY` stays at zero from then on.
        """
        raise NotImplementedError(type(self).__name__)

    def candidates(self) -> list[Self]:
        """Return the priors that a cross-validation compares, each along a path of variances.

        Returns
        -------
        list of Prior
            One prior for each value of the setting that holds several, or the prior itself.

        Raises
        ------
        DataError
            If a setting with several values is empty.
        """
        values: Any = getattr(self, self.multi_valued) if self.multi_valued else 0.0
        if not self.multi_valued or np.ndim(values) == 0:
            return [self]
        if len(values) == 0:
            setting = f"{type(self).__name__}'s {self.multi_valued}"
            raise DataError(f"{setting} has no value to choose from.")
        return [replace(self, **{self.multi_valued: value}) for value in values]

    def penalty(self, names: Sequence[str]) -> Penalty:
        """Return the penalty of a prior that has only λ and κ.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        Penalty
            The result of `separable`.

        Raises
        ------
        DataError
            If the prior has further terms.
        """
        if not self.plain:
            raise DataError(
                f"{type(self).__name__} is not available for this model: fit with another prior."
            )
        return self.separable(names)

    @property
    def plain(self) -> bool:
        """Whether the prior has no terms other than those of `separable`."""
        cls = type(self)
        smooth = cls.smooth is not Prior.smooth or bool(self.information_power)
        return not (smooth or self.adaptive or cls.group_penalty is not Prior.group_penalty)

    # -- settings ----------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, as in scikit-learn.

        They are the estimator's parameters ``prior__variance`` and so on.

        Parameters
        ----------
        deep : bool
            Ignored, because settings have no settings themselves.

        Returns
        -------
        dict
            The settings.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; existing fits keep the previous ones.

        Parameters
        ----------
        **params
            New values of settings.

        Returns
        -------
        self
            The changed prior.

        Raises
        ------
        DataError
            If no setting has that name.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                raise DataError(
                    f"{type(self).__name__} has no setting {name!r}; it has "
                    f"{', '.join(map(repr, known)) or 'none'}."
                )
        for name, value in params.items():
            object.__setattr__(self, name, value)
        return self

    def exclusions(self, p: int) -> list[str | int]:
        """Convert ``exclude`` for p columns to a list of names and positions.

        Parameters
        ----------
        p : int
            Number of columns of X, which a mask must have.

        Returns
        -------
        list of str or int
            The excluded columns.

        Raises
        ------
        DataError
            If ``exclude`` is neither names nor positions nor a mask of p columns.
        """
        exclude: Any = self.exclude  # whatever the user has set
        one = isinstance(exclude, str | Integral)
        if not one and (isinstance(exclude, Mapping) or not isinstance(exclude, Iterable)):
            raise DataError(
                "exclude must be a sequence of names or positions, or a mask of all columns, not "
                f"{exclude!r}; () excludes none."
            )
        items: list[Any] = [exclude] if one else list(exclude)
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
        """Return the mask of the columns left unpenalised.

        Parameters
        ----------
        names : sequence of str
            Names of the columns of X.

        Returns
        -------
        (p,) bool array
            True for columns in ``exclude``.

        Raises
        ------
        DataError
            If a name or position in ``exclude`` does not exist.
        """
        mask = np.zeros(len(names), bool)
        items = self.exclusions(len(names))
        if items:
            places = ColumnLookup(names, "exclude")
            mask[[places.of(item) for item in items]] = True
        return mask

    # -- fewer columns, and several coefficients of one ------------------------------------------

    def of_columns(self, kept: np.ndarray, names: Sequence[str]) -> Self | None:
        """Return the prior of some columns, as if X had no others.

        Fits with ``fixed`` coefficients use it. The settings in `by_column`, and ``exclude``, lose
        the entries of the other columns.

        Parameters
        ----------
        kept : (k,) int array
            Positions of the columns with fitted coefficients.
        names : sequence of str
            Names of all columns.

        Returns
        -------
        Prior or None
            None is the default for priors that do not declare `by_column`. The prior is then
            evaluated for all columns, with the fixed coefficients at their values, and its results
            for the kept columns are used.
        """
        if not self._declares_columns():
            return None
        changed: dict[str, Any] = {}
        if "exclude" in self.get_params():
            free = self.excluded(names)
            changed["exclude"] = [names[j] for j in kept if free[j]]
        gone = set(names) - {names[j] for j in kept}
        for setting in self.by_column:
            value = getattr(self, setting)
            if isinstance(value, Mapping):
                changed[setting] = {k: v for k, v in value.items() if k not in gone}
            elif (entries := self._entries(setting, names)) is not None:
                changed[setting] = [entries[int(j)] for j in kept]
        return replace(self, **changed)

    def of_copies(
        self,
        source: np.ndarray,
        names: Sequence[str],
        exclude: Sequence[str | int],
        copies: Sequence[str],
    ) -> Self | None:
        """Return the prior of coefficients, several of which can belong to one column.

        Models with effects that change with time use it. The settings in `by_column` follow their
        column, or have an entry for each coefficient.

        Parameters
        ----------
        source : (q,) int array
            The column of each coefficient.
        names : sequence of str
            Names of the columns of X.
        exclude : sequence of str or int
            The new setting ``exclude``, in terms of the coefficients' names or positions.
        copies : sequence of str
            Names of the coefficients.

        Returns
        -------
        Prior or None
            None is the default for priors that do not declare `by_column`. Each coefficient then
            has the λ and κ of its column, and a smooth term that is symmetric in the columns is
            applied to the coefficients.
        """
        if not self._declares_columns():
            return None
        changed: dict[str, Any] = {}
        if "exclude" in self.get_params():
            changed["exclude"] = exclude
        free = replace(self, **changed).excluded(copies)
        for setting in self.by_column:
            value = getattr(self, setting)
            if isinstance(value, Mapping):
                needed = {int(source[k]): copies[k] for k in np.flatnonzero(~free)[::-1]}
                each = self._by_name(setting, value, names, needed)
                changed[setting] = [each[int(j)] for j in source]
            elif _length(value) == len(copies) != len(names):
                continue  # one for each coefficient
            elif (entries := self._entries(setting, names)) is not None:
                changed[setting] = [entries[int(j)] for j in source]
        return replace(self, **changed)

    @classmethod
    def _declares_columns(cls) -> bool:
        """Return whether `by_column` is declared by the class that defines the prior.

        A subclass that overrides a hook may refer to columns in ways that its settings do not show.
        """

        def owner(name: str) -> type:
            return next(c for c in cls.__mro__ if name in c.__dict__)

        declared = owner("by_column")
        hooks = ("separable", "smooth", "group_penalty", "next_penalty")
        return declared is not Prior and all(issubclass(declared, owner(s)) for s in hooks)

    def _entries(self, setting: str, names: Sequence[str]) -> list | None:
        """Return a setting's entries, one for each column; None if one value holds for all."""
        value: Any = getattr(self, setting)
        length = _length(value)
        if length is None:
            return None
        if length != len(names):
            raise DataError(
                f"{type(self).__name__}'s {setting} must be one for all or one for each of the "
                f"{len(names)} columns, not {length}."
            )
        return list(value)

    def _by_name(
        self, what: str, given: Mapping[Any, Any], names: Sequence[str], needed: Mapping[int, str]
    ) -> list[Any]:
        """Convert a setting given by column name into one entry per column.

        ``needed`` maps the positions that must have an entry to the name of the coefficient that
        needs it. Settings in `optional_entries` have None where no entry is given. All other
        missing entries belong to no coefficient and are infinite, which means no penalty and no
        contribution to the overall variance.
        """
        for name in given:
            if name not in names:
                raise DataError(
                    f"{type(self).__name__}'s {what} names {name!r}, which is not a column of X."
                )
        if what in self.optional_entries:
            return [given.get(name) for name in names]
        for j, name in enumerate(names):
            if name not in given and j in needed:
                own = needed[j] == name
                word = "the column" if own else f"{needed[j]!r}, whose prior is its"
                raise DataError(
                    f"{type(self).__name__}'s {what} has no entry for column {name!r}; give it "
                    f"one, or exclude {word}."
                )
        return [given.get(name, np.inf) for name in names]

    def _variance_vector(self, what: str, variance: Any, names: Sequence[str]) -> np.ndarray:
        """Convert a variance setting into a positive number per column, (p,)."""
        p = len(names)
        if isinstance(variance, Mapping):
            free = self.excluded(names)
            needed = {j: name for j, name in enumerate(names) if not free[j]}
            variance = self._by_name(what, variance, names, needed)
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


def _length(value: object) -> int | None:
    """Return the number of entries of a setting; None if it is a single value."""
    if isinstance(value, str) or not isinstance(value, Sized):
        return None
    return None if isinstance(value, np.ndarray) and value.ndim == 0 else len(value)
