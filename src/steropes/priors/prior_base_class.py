"""Base class of priors, with the hooks that a prior may implement.

Most priors are independent between coefficients: a `Penalty` holds λ_j and κ_j of each column.
Three kinds of priors need more.

* A prior that couples coefficients smoothly, or has another smooth density, adds a *smooth term* to
  the objective (`Prior.smooth`, a `SmoothTerm`), or a power of the determinant of the information
  (`Prior.information_power`).
* A prior on whole groups, or on differences between neighbours, has a penalty that is not
  differentiable in several coefficients at once (`Prior.group_penalty`); it replaces λ.
* An adaptive prior (`Prior.adaptive`) has weights that depend on the coefficients.
  `Prior.next_penalty` computes the penalty at given coefficients, and the fit is a fixed point of
  this map, found for each replicate separately by an outer loop (`steropes.fit.solve_with_prior`).

A prior never sees data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from .column_settings import ColumnSettings, number_of_entries
from .group_and_fused_penalty import GroupPenalty
from .penalty import Penalty, SmoothTerm

__all__ = ["Prior"]


@dataclass(frozen=True)
class Prior(ColumnSettings, FieldsInHtml, ABC):
    """Base class of priors on the coefficients, with mean zero.

    Attributes
    ----------
    information_power : float
        The prior has |I(β)|^power as a factor, where I is the information of all columns.
    adaptive : bool
        Whether `next_penalty` is implemented.
    bounds_all : bool
        Whether coefficients without λ and κ are also finite for any data, because of the smooth
        term or the information. Fits to separated data are refused otherwise. Columns in
        ``exclude`` are examined in any case.
    smooth_is_convex : bool
        Whether the smooth term is convex everywhere. Otherwise each Hessian is checked.
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
    smooth_is_convex: ClassVar[bool] = False
    multi_valued: ClassVar[str | None] = None

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

        λ and κ must decrease with the variance, λ preferably like variance^(−1/2) and κ like
        variance^(−1), which determines the steps of a search.

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
            A differentiable term of the objective, which may couple coefficients or be a sum over
            them. See ``bounds_all`` for columns that have neither λ nor κ.
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
    ) -> Prior | None:
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
            elif number_of_entries(value) == len(copies) != len(names):
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
        return declared is not ColumnSettings and all(issubclass(declared, owner(s)) for s in hooks)
