"""Groups of rows that stay in one fold, and classes that are spread evenly over the folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..data import check_strata
from ..errors import DataError

__all__ = ["classes_of", "units_of"]


def units_of(groups: Any, together: np.ndarray | None, there: np.ndarray) -> np.ndarray | None:
    """Codes of the rows that stay whole in a fold, (m,), or None where each is by itself.

    Parameters
    ----------
    groups : (n,) labels or None
        The user's.
    together : (n,) int array or None
        Strata that the model keeps whole. A group and a stratum with a row in common are in one
        unit, and what they have rows in common with.
    there : (n,) bool array
        The m rows that count; others join nothing, and have no code.
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


def classes_of(stratify: Any, label: np.ndarray | None, there: np.ndarray) -> np.ndarray | None:
    """Codes of the classes to spread evenly over the folds, (m,), or None for none.

    Parameters
    ----------
    stratify : bool or (n,) labels
        The user's; True for the model's.
    label : (n,) int array or None
        The model's.
    there : (n,) bool array
        The m rows that count.

    Returns
    -------
    (m,) int array or None
        Of the user's classes the rarest has the highest code: that of a group of several.
    """
    if isinstance(stratify, bool | np.bool_):
        return label[there] if stratify and label is not None else None
    code = _of_rows(_codes(stratify, len(there), "stratify", "class"), there)
    assert code is not None
    rank = np.empty(int(code.max()) + 1, np.int64)
    rank[np.argsort(-np.bincount(code), kind="stable")] = np.arange(len(rank))
    return rank[code]


def _of_rows(codes: np.ndarray | None, there: np.ndarray) -> np.ndarray | None:
    """Codes of some of the rows, 0, 1, … as if there were no others."""
    if codes is None or there.all():
        return codes
    return check_strata(codes[there], int(there.sum()))


def _codes(labels: Any, n: int, what: str, one: str) -> np.ndarray:
    try:
        code = check_strata(labels, n)
    except DataError as error:
        words = str(error).replace("strata", what).replace("stratum", one)
        raise DataError(f"CrossValidation: {words}") from None
    assert code is not None
    return code
