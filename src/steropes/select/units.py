"""What a user says of folds: rows that stay together, and classes that are spread evenly."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..data import check_strata
from ..errors import DataError

__all__ = ["classes_of", "units_of"]


def units_of(groups: Any, together: np.ndarray | None, n: int) -> np.ndarray | None:
    """Codes of the rows that stay whole in a fold, (n,), or None where each is by itself.

    Parameters
    ----------
    groups : (n,) labels or None
        The user's.
    together : (n,) int array or None
        Strata that the model keeps whole. A group and a stratum with a row in common are in one
        unit, and what they have rows in common with.
    n : int
    """
    if groups is None:
        return together
    code = _codes(groups, n, "groups", "group")
    if together is None:
        return code
    sets, people = int(together.max()) + 1, int(code.max()) + 1
    shape = (sets + people, sets + people)
    links = sparse.coo_array((np.ones(n, np.int8), (together, sets + code)), shape=shape)
    return connected_components(links.tocsr(), directed=False)[1][together].astype(np.int64)


def classes_of(stratify: Any, label: np.ndarray | None, n: int) -> np.ndarray | None:
    """Codes of the classes to spread evenly over the folds, (n,), or None for none.

    Parameters
    ----------
    stratify : bool or (n,) labels
        The user's; True for the model's.
    label : (n,) int array or None
        The model's.
    n : int

    Returns
    -------
    (n,) int array or None
        Of the user's classes the rarest has the highest code: that of a group of several.
    """
    if isinstance(stratify, bool | np.bool_):
        return label if stratify else None
    code = _codes(stratify, n, "stratify", "class")
    rank = np.empty(int(code.max()) + 1, np.int64)
    rank[np.argsort(-np.bincount(code), kind="stable")] = np.arange(len(rank))
    return rank[code]


def _codes(labels: Any, n: int, what: str, one: str) -> np.ndarray:
    try:
        code = check_strata(labels, n)
    except DataError as error:
        words = str(error).replace("strata", what).replace("stratum", one)
        raise DataError(f"CrossValidation: {words}") from None
    assert code is not None
    return code
