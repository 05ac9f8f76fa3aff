"""Estimands: the populations in which an effect is estimated, and their weights by the score."""

from __future__ import annotations

from typing import Literal, get_args

from steropes.errors import DataError

__all__ = ["SPREAD_OF_ESTIMAND", "AnyEstimand", "Denominator", "check_estimand"]

AnyEstimand = Literal["ate", "att", "atu", "ato", "atm", "entropy"]
Denominator = Literal["target", "comparator", "pooled", "all"]
# The groups whose spread standardises differences; "pooled" under all other estimands.
SPREAD_OF_ESTIMAND: dict[str, Denominator] = {"att": "target", "atu": "comparator"}


def check_estimand(estimand: str, known: tuple[str, ...] = get_args(AnyEstimand)) -> str:
    """Return the name of an estimand in lower case, with "atc" as "atu".

    Raises
    ------
    DataError
        The estimand is not one of those known.
    """
    name = {"atc": "atu"}.get(str(estimand).lower(), str(estimand).lower())
    if name not in known:
        raise DataError(f"estimand must be one of {', '.join(known)}, not {estimand!r}.")
    return name
