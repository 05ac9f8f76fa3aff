"""Errors and warnings of the library; messages name the row or column and the remedy."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "DataError", "MonotoneLikelihoodWarning", "SeparationError", "listed", "separation_of",
]  # fmt: skip


class DataError(ValueError):
    """The input cannot be used as it is; the message names the row or column and the remedy.

    Examples
    --------
    >>> import steropes
    >>> try:
    ...     steropes.Surv([5.0, -3.0], [1, 0])
    ... except steropes.DataError as error:
    ...     print(error)
    time must not be negative; row 1 is -3.
    """


class SeparationError(ValueError):
    """The likelihood has no finite or no unique maximum; the message names the columns.

    Parameters
    ----------
    message : str
        The message.
    columns : list of str, optional
        Columns that the message is about.

    Attributes
    ----------
    columns : list of str
        The columns whose coefficients the data do not determine.

    References
    ----------
    Albert and Anderson (1984), Biometrika 71:1–10.

    Examples
    --------
    >>> import steropes
    >>> try:
    ...     steropes.LogisticRegression().fit([[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1])
    ... except steropes.SeparationError as error:
    ...     sorted(error.columns)
    ['intercept', 'x0']
    """

    def __init__(self, message: str, columns: list[str] | None = None) -> None:
        super().__init__(message)
        self.columns = list(columns or [])

    # Exceptions are pickled with their message alone unless they define this.
    def __reduce__(self) -> tuple[type[SeparationError], tuple[str, list[str]]]:
        return type(self), (str(self), self.columns)


class MonotoneLikelihoodWarning(UserWarning):
    """A profile likelihood is monotone: the data bound the coefficient on one side only.

    Examples
    --------
    >>> import warnings
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0, 1, 1, 1]
    >>> model = steropes.LogisticRegression(prior=steropes.Normal()).fit(X, y)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     interval = model.confint("x0", method="profile")
    >>> float(interval.loc["x0", "upper"]), caught[0].category.__name__
    (inf, 'MonotoneLikelihoodWarning')
    """


def listed(names: Sequence[str], most: int = 8) -> str:
    """Format names for a message: the first of them, and the number of the others."""
    text = ", ".join(map(repr, names[:most]))
    return text + (f" and {len(names) - most} more" if len(names) > most else "")


def separation_of(what: str, error: SeparationError) -> str:
    """Return the message of an error with the name of the variable that columns separate."""
    return str(error).replace("the outcome is separated", f"{what} is separated")
