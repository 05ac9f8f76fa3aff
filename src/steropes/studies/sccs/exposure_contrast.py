"""Data in which nobody's exposure changes, of which a case series has nothing to say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.disclosure import LEAST, shown
from steropes.studies.sccs.era_covariates import Column

__all__ = ["looked_at", "refuse_no_contrast"]

NAMED = 3  # covariates that a message names


def looked_at(columns: list[Column]) -> NDArray:
    """The columns of exposures that have to change within somebody: of interest, or else all."""
    exposures = [j for j, c in enumerate(columns) if c.window >= 0]
    of_interest = [j for j in exposures if columns[j].of_interest]
    return np.array(of_interest or exposures, np.int64)


def refuse_no_contrast(
    case: NDArray, ones: list[NDArray], names: list[str], n_exposed: int, n_cases: int
) -> None:
    """Refuse data in which none of some covariates changes within any case.

    Parameters
    ----------
    case : (n,) int array
        The case of each row of the model, ascending.
    ones : list of (m,) int arrays
        The rows in which each covariate is one.
    names : list of str
        Of the covariates.
    n_exposed, n_cases : int
        How many cases have a day of any of them, and how many there are.

    Raises
    ------
    DataError
        Which of the two it is: everybody is exposed always, or some are always and others never.
    """
    if any(_changes(case, rows) for rows in ones):
        return
    said = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
    remedy = "widen the time that counts, or shorten the windows"
    if n_exposed == n_cases:
        raise DataError(f"{said} covers all of everybody's time that counts; {remedy}")
    raise DataError(
        f"no variation of exposure within anyone: {said} covers all days that count of "
        f"{shown(n_exposed, LEAST)} cases and none of the other {shown(n_cases - n_exposed, LEAST)}"
        f", and only days of the same person are compared; {remedy}"
    )


def _changes(case: NDArray, rows: NDArray) -> bool:
    """Whether a covariate is one in some rows of a case and zero in others."""
    has, on = np.unique(case[rows], return_counts=True)
    sizes = np.searchsorted(case, has, "right") - np.searchsorted(case, has, "left")
    return bool((on < sizes).any())
