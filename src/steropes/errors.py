"""Errors and warnings of the library; messages name the row or column and the remedy."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "DataError",
    "MonotoneLikelihoodWarning",
    "NotConvergedWarning",
    "SeparationError",
    "listed",
]


class DataError(ValueError):
    """The input cannot be used as it is; the message names the row or column and the remedy."""


class SeparationError(ValueError):
    """The likelihood has no finite or no unique maximum; the message names the columns.

    Attributes
    ----------
    columns : list of str
        The columns whose coefficients the data do not determine.
    """

    def __init__(self, message: str, columns: list[str] | None = None) -> None:
        super().__init__(message)
        self.columns = list(columns or [])

    # Exceptions are pickled with their message alone unless they define this.
    def __reduce__(self) -> tuple[type[SeparationError], tuple[str, list[str]]]:
        return type(self), (str(self), self.columns)


class NotConvergedWarning(UserWarning):
    """The certificate (largest KKT violation) stayed above ``tol``; the fit is kept."""


class MonotoneLikelihoodWarning(UserWarning):
    """A profile likelihood is monotone: the data bound the coefficient on one side only."""


def listed(names: Sequence[str], most: int = 8) -> str:
    """Format names for a message: the first of them, and the number of the others."""
    text = ", ".join(map(repr, names[:most]))
    return text + (f" and {len(names) - most} more" if len(names) > most else "")
