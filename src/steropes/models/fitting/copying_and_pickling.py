"""Copies of estimators, and the data attributes that copies share and pickles omit."""

from __future__ import annotations

import copy
from typing import TypeVar

__all__ = ["DATA_ATTRIBUTES", "deep_copy_sharing_data", "shallow_copy"]

Model = TypeVar("Model")

# The attributes that hold the data of a fit: pickles omit them and deep copies share them.
DATA_ATTRIBUTES = frozenset({"_problem", "_row_labels", "_clusters"})


def shallow_copy(model: Model) -> Model:
    """Copy an estimator; both share every attribute."""
    new = type(model).__new__(type(model))
    new.__dict__ = dict(model.__dict__)
    return new


def deep_copy_sharing_data(model: Model, shared: frozenset[str], memo: dict[int, object]) -> Model:
    """Copy an estimator deeply, except for the data of its fit, which nothing modifies.

    The copy supports every method of the model, including those that need the data.

    Parameters
    ----------
    model : estimator
    shared : frozenset of str
        Attributes that hold data.
    memo : dict
        The memo of `copy.deepcopy`.
    """
    new = type(model).__new__(type(model))
    memo[id(model)] = new
    for name, value in model.__dict__.items():
        new.__dict__[name] = value if name in shared else copy.deepcopy(value, memo)
    return new
