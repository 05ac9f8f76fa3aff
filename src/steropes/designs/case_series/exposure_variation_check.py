"""A check that some exposure varies within a case, without which there is no estimate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.case_series.series_column_descriptions import Column
from steropes.errors import DataError

__all__ = ["contrast_columns", "require_contrast"]

NAMED = 3  # A message names at most this many covariates.


def contrast_columns(columns: list[Column]) -> NDArray:
    """Select the columns of exposures that must vary within a case: of interest, or else all."""
    exposures = [j for j, c in enumerate(columns) if c.window >= 0]
    of_interest = [j for j in exposures if columns[j].of_interest]
    return np.array(of_interest or exposures, np.int64)


def require_contrast(
    case: NDArray, ones: list[NDArray], names: list[str], n_exposed: int, cases: Cases
) -> None:
    """Raise if none of some covariates varies within any case.

    Parameters
    ----------
    case : (n,) int array
        The case of each row of the model, ascending.
    ones : list of (m,) int arrays
        The rows in which each covariate is one.
    n_exposed : int
        Number of cases with a day of any of them.
    cases : Cases
        All cases.

    Raises
    ------
    DataError
        Everybody is always exposed, or some cases always are and the others never.
    """
    if any(_changes(case, rows) for rows in ones):
        return
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
    cover = "covers" if len(names) == 1 else "cover"
    remedy = "extend the time that counts, or shorten the windows"
    if n_exposed == len(cases):
        raise DataError(f"{listed} {cover} all of everybody's time that counts; {remedy}")
    raise DataError(
        f"nobody's exposure changes over time: {listed} {cover} all days that count of "
        f"{cases.count_text(n_exposed)} cases and none of the other "
        f"{cases.count_text(len(cases) - n_exposed)}"
        f", and only days of the same person are compared; {remedy}"
    )


def _changes(case: NDArray, rows: NDArray) -> bool:
    """Check whether a covariate is one in some rows of a case and zero in others."""
    has, on = np.unique(case[rows], return_counts=True)
    sizes = np.searchsorted(case, has, "right") - np.searchsorted(case, has, "left")
    return bool((on < sizes).any())
