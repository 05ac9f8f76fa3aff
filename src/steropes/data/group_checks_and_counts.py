"""Checks of the groups of Kaplan–Meier curves, and counts of people and of distinct labels."""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from .array_conversion import refuse_lazy_query
from .input_types import VectorLike
from .vector_checks import label_strata, sort_labels

__all__ = ["check_groups", "count_distinct", "count_people"]


def count_distinct(values: np.ndarray) -> int:
    """Count the distinct values of an array of integers.

    `numpy.unique` hashes integers since version 2.3, which took 12 times as long as sorting for two
    million numbers of which most differ.
    """
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)


def count_people(y: VectorLike) -> int:
    """Count the rows of a survival outcome."""
    refuse_lazy_query(y, "y")
    shape = np.asarray(y).shape
    if len(shape) != 1 or shape[0] == 0:
        raise DataError(
            "y must be a survival outcome of at least one person, steropes.Surv(time, event), "
            f"not of shape {shape}."
        )
    return shape[0]


def check_groups(groups: object, n: int, what: str = "groups") -> tuple[np.ndarray, list]:
    """Convert group labels to codes; return codes and labels, sorted if they can be ordered."""
    try:
        codes, labels = label_strata(groups, n)
    except DataError as error:
        words = str(error).replace("strata", what).replace("stratum", "group")
        raise DataError(words.replace("but X has", "but y has")) from None
    return sort_labels(codes, labels)
