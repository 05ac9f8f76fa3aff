"""Groups of rows that stay in one fold, and classes that are distributed evenly over folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..data import check_strata
from ..errors import DataError

__all__ = ["classes_of", "units_of"]


def units_of(
    groups: ArrayLike | None, together: np.ndarray | None, there: np.ndarray
) -> np.ndarray | None:
    """Return codes (m,) of the units that stay whole in a fold, or None if rows are independent.

    Parameters
    ----------
    groups : (n,) labels or None
        The user's groups.
    together : (n,) int array or None
        Strata that the model keeps whole. A group and a stratum with a common row are in one unit,
        together with all that overlap with them.
    there : (n,) bool array
        The m rows that count; the others have no code.
    """
    n = int(there.sum())
    together = _of_rows(together, there)
    if groups is None:
        return together
    code = _of_rows(_codes(groups, len(there), "groups", "group"), there)
    if together is None or code is None:
        return code
    sets, people = int(together.max()) + 1, int(code.max()) + 1
    shape = (sets + people, sets + people)
    links = sparse.coo_array((np.ones(n, np.int8), (together, sets + code)), shape=shape)
    return connected_components(links.tocsr(), directed=False)[1][together].astype(np.int64)


def classes_of(
    stratify: bool | ArrayLike, label: np.ndarray | None, there: np.ndarray
) -> np.ndarray | None:
    """Return codes (m,) of the classes to distribute evenly over the folds, or None for none.

    Parameters
    ----------
    stratify : bool or (n,) labels
        The user's classes; True for those of the model.
    label : (n,) int array or None
        The model's classes.
    there : (n,) bool array
        The m rows that count.

    Returns
    -------
    (m,) int array or None
        The rarest of the user's classes has the highest code, which a group of several classes
        receives.
    """
    if isinstance(stratify, bool | np.bool_):
        return label[there] if stratify and label is not None else None
    code = _of_rows(_codes(stratify, len(there), "stratify", "class"), there)
    assert code is not None
    rank = np.empty(int(code.max()) + 1, np.int64)
    rank[np.argsort(-np.bincount(code), kind="stable")] = np.arange(len(rank))
    return rank[code]


def _of_rows(codes: np.ndarray | None, there: np.ndarray) -> np.ndarray | None:
    """Return codes 0, 1, … of some of the rows, as if there were no others."""
    if codes is None or there.all():
        return codes
    return check_strata(codes[there], int(there.sum()))


def _codes(labels: ArrayLike, n: int, argument: str, one: str) -> np.ndarray:
    """Return codes of the labels that the user gave for an argument."""
    try:
        code = check_strata(labels, n)
    except DataError as error:
        words = str(error).replace("strata", argument).replace("stratum", one)
        raise DataError(f"CrossValidation: {words}") from None
    assert code is not None
    return code
