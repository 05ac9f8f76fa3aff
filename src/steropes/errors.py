"""What the library raises: errors and warnings that name the row or column and the remedy."""

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

    def __reduce__(self) -> tuple[type[SeparationError], tuple[str, list[str]]]:
        return type(self), (str(self), self.columns)


class NotConvergedWarning(UserWarning):
    """The certificate (largest KKT violation) stayed above ``tol``; the fit is kept."""


class MonotoneLikelihoodWarning(UserWarning):
    """A profile likelihood rises for ever: the data bound the coefficient on one side only."""


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names as a message lists them: the first of them, and how many more there are."""
    text = ", ".join(map(repr, names[:most]))
    return text + (f" and {len(names) - most} more" if len(names) > most else "")
