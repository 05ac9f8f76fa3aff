"""Weights of the classes of an outcome, which multiply the weights of rows."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from ...data.vector_checks import refuse_extreme_weights
from ...errors import DataError
from .setting_types import ClassWeight

__all__ = ["weigh_classes", "weights_of_classes"]


def weigh_classes(
    class_weight: ClassWeight, classes: list[Any], codes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Multiply row weights by those of the rows' classes.

    Parameters
    ----------
    codes : (n,) int array
        Position of each row's class in ``classes``.
    weights : (n,) array
        Weights of the rows, such as ``sample_weight``.

    Returns
    -------
    of_class : (K,) array
        Weights of the classes.
    weights : (n,) array
        Products of the weights of rows and classes.
    """
    of_class = weights_of_classes(class_weight, classes, codes, weights)
    if class_weight is None:
        return of_class, weights
    with np.errstate(over="ignore"):
        weights = weights * of_class[codes]
    refuse_extreme_weights(weights, "sample_weight times class_weight")
    return of_class, weights


def weights_of_classes(
    class_weight: ClassWeight, classes: list[Any], codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Compute the weight of each class, as scikit-learn's ``compute_class_weight``.

    Parameters
    ----------
    class_weight : {"balanced"}, mapping or None
    classes : list of K labels
    codes : (n,) int array
        Position of each row's class.
    weights : (n,) array
        Row weights, by which "balanced" counts the rows of a class.

    Returns
    -------
    (K,) array

    Raises
    ------
    DataError
        If the setting is neither of these, names an unknown label or has a weight that is negative
        or no number, or if "balanced" meets a class without rows.
    """
    K = len(classes)
    if class_weight is None:
        return np.ones(K)
    if isinstance(class_weight, str) and class_weight == "balanced":
        count = np.bincount(codes, weights, K)
        if not count.all():
            raise DataError(
                f"class_weight='balanced' needs rows of each class, and the class "
                f"{classes[count.argmin()]!r} has none with a positive weight. Leave its rows out."
            )
        return np.asarray(count.sum() / (K * count))
    if not isinstance(class_weight, Mapping):
        raise DataError(
            "class_weight must be 'balanced' or a mapping from labels to weights, such as "
            f"{{{classes[0]!r}: 1.0, {classes[-1]!r}: 5.0}}, not {class_weight!r}."
        )
    out = np.ones(K)
    for label, value in class_weight.items():
        at = [k for k, own in enumerate(classes) if own == label]
        if not at:
            raise DataError(
                f"class_weight has {_plain(label)!r}, which is not a class of y; the classes are "
                f"{', '.join(map(repr, classes))}."
            )
        number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
        if not (number and 0 <= float(value) < np.inf):
            raise DataError(
                f"class_weight has {_plain(value)!r} for the class {classes[at[0]]!r}; it must be "
                "a finite number from zero."
            )
        out[at[0]] = float(value)
    return out


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to Python's, which messages show without its type."""
    return value.item() if isinstance(value, np.generic) else value
