"""The names of estimands: the people among whom an effect is estimated.

Every page, table and terminal uses these names. Functions and settings take the codes "ate", "att",
"atc", "ato", "atm" and "entropy", in small letters or capitals; "atc" is the same as "atu", the
code in result tables.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from steropes.errors import DataError

__all__ = [
    "ESTIMANDS", "SPREAD_OF_ESTIMAND", "AnyEstimand", "Denominator", "check_estimand",
    "denominators", "estimand_name",
]  # fmt: skip

AnyEstimand = Literal["ate", "att", "atu", "ato", "atm", "entropy"]
Denominator = Literal["target", "comparator", "pooled", "all"]
# The groups whose spread standardises differences; "pooled" under all other estimands.
SPREAD_OF_ESTIMAND: dict[str, Denominator] = {"att": "target", "atu": "comparator"}

ESTIMANDS = {
    "att": "people like the target's (ATT)",
    "atu": "people like the comparator's (ATU)",
    "ate": "everybody in either arm (ATE)",
    "ato": "people who might have had either (ATO)",
    "atm": "the matched people (ATM)",
    "entropy": "people whose treatment was least certain (entropy weights)",
}


def estimand_name(code: str, adjusted: bool = True) -> str:
    """Return the name of an estimand.

    Parameters
    ----------
    code : str
        A key of ``ESTIMANDS``; any other text is returned as it is.
    adjusted : bool, default True
        Whether the estimate is adjusted; if not, "not adjusted" is appended.
    """
    return ESTIMANDS.get(code, code) + ("" if adjusted else ", not adjusted")


def check_estimand(
    estimand: str, known: tuple[AnyEstimand, ...] = get_args(AnyEstimand)
) -> AnyEstimand:
    """Return the name of an estimand in lower case, with "atc" as "atu".

    Raises
    ------
    DataError
        The estimand is not one of those known.
    """
    name = {"atc": "atu"}.get(str(estimand).lower(), str(estimand).lower())
    for each in known:
        if each == name:
            return each
    shown = ", ".join("atc" if each == "atu" else each for each in known)
    raise DataError(f"estimand must be one of {shown}, not {estimand!r}.")


def denominators(variance: NDArray, whose: Denominator) -> NDArray:
    """Return the spread by which differences of means are divided, (p,).

    Parameters
    ----------
    variance : ndarray, shape (p, 3)
        Variances in the target, the comparator and both, before adjustment. That of both counts
        where the others are zero.
    """
    of = {"target": variance[:, 0], "comparator": variance[:, 1], "all": variance[:, 2]}
    chosen = (variance[:, 0] + variance[:, 1]) / 2 if whose == "pooled" else of[whose]
    return np.sqrt(np.where(chosen > 0, chosen, variance[:, 2]))
