"""The kind of standard errors that a model reports by default.

The inverse information treats a weight as a number of rows. Weights that are not whole numbers,
such as inverse probabilities, are no numbers of rows, so that robust errors are the default then,
as in R's ``coxph``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from ...data.input_types import LabelsLike
from ...errors import DataError
from .setting_types import Kind

__all__ = ["default_kind", "has_fractional_weights", "name_errors", "robust_by_default"]


def has_fractional_weights(model: Any) -> bool:
    """Return whether a weight of a row of the fit is not a whole number."""
    problem = getattr(model, "_problem", None)
    if problem is None:  # a fit that was unpickled without its data
        return bool(getattr(model, "_has_fractional_weights", False))
    weights = np.asarray(problem.weights)
    return bool((weights != np.floor(weights)).any())


def default_kind(model: Any, kind: Kind | None) -> Kind:
    """Return the kind of errors that is meant: by default robust with fractional weights."""
    if kind is not None:
        return kind
    return "robust" if has_fractional_weights(model) else "model"


def robust_by_default(model: Any, cluster: LabelsLike | None) -> np.ndarray | None:
    """Compute the robust covariance matrix that nobody asked for; warn where there is none."""
    known: np.ndarray | None = getattr(model, "_robust_by_default", None)
    if known is not None and cluster is None:
        return known
    try:
        found: np.ndarray = model._robust_matrix(cluster)
    except DataError as error:
        warnings.warn(
            "Weights are not whole numbers, so that standard errors of the model, which take them "
            f"as numbers of rows, are not valid; robust ones are not available: {error}",
            UserWarning,
            stacklevel=4,
        )
        return None
    if cluster is None:
        model._robust_by_default = found
    return found


def name_errors(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Name the kind of errors in a table, in print too unless they are the model's."""
    table.attrs["errors"] = kind
    if kind != "model":
        table.columns.name = f"{kind} errors"
    return table
