"""Copies of a fitted model, and pickles, which leave its data out."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

__all__ = ["PicklingWithoutData"]


class PicklingWithoutData:
    """What of an estimator is in a pickle, and what in a copy."""

    _has_sparse_prior: Any
    _data: ClassVar[frozenset[str]] = frozenset({"_problem", "_row_labels"})  # a fit's data

    def __getstate__(self) -> dict[str, Any]:
        """All but the data; what they are needed for after the fit says so."""
        state: Any = super().__getstate__()
        if hasattr(self, "coef_"):
            state = {**state, "_shrinks": self._has_sparse_prior()}  # which takes the data to say
        return {name: value for name, value in state.items() if name not in self._data}

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        new.__dict__ = dict(self.__dict__)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that can do what the model can: nothing changes the data, which both have."""
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for name, value in self.__dict__.items():
            new.__dict__[name] = value if name in self._data else copy.deepcopy(value, memo)
        return new
