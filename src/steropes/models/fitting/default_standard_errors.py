"""The kind of standard errors that a model reports by default.

The inverse information treats a weight as a number of rows. Weights that are not whole numbers,
such as inverse probabilities, are no numbers of rows, so that robust errors are the default then,
as in R's ``coxph``.
"""

from __future__ import annotations

import warnings
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd

from ...data.input_types import LabelsLike, VectorLike
from ...errors import DataError
from .covariances import has_limits, why_no_covariance
from .setting_types import Kind

__all__ = [
    "NamesErrors",
    "default_kind",
    "has_fractional_weights",
    "has_fractions",
    "name_errors",
    "name_missing_errors",
    "refuse_errors_not_asked_for",
    "robust_by_default",
]

# The note of tables whose errors or tests treat weights that are not whole as counts.
AS_COUNTS = (
    "Weights are not whole numbers, but these errors or tests take them as numbers of rows; robust "
    "ones do not."
)
Table = TypeVar("Table", pd.DataFrame, pd.Series)


class NamesErrors:
    """A named tuple of arrays with errors, whose attribute ``errors`` is their kind.

    Attributes
    ----------
    errors : str
        The kind, as in ``attrs["errors"]`` of tables.
    """

    errors: str = "model"

    def with_errors(self, kind: str) -> Self:
        """Set the kind of errors, and return the tuple."""
        self.errors = kind
        return self

    def __repr__(self) -> str:
        """Print the arrays and the kind of errors."""
        return f"{super().__repr__()[:-1]}, errors={self.errors!r})"


def name_missing_errors(table: pd.DataFrame, prior: Any) -> pd.DataFrame:
    """State in a table, in print too, why a prior leaves it without errors."""
    table.attrs["note"] = why_no_covariance(prior)
    table.columns.name = "limits" if has_limits(prior) else "shrunken"
    table.columns.name += ": no errors; see kind='profile'"
    return table


def has_fractional_weights(model: Any) -> bool:
    """Return whether a weight of a row, or of an interval, of the fit is not a whole number."""
    problem = getattr(model, "_problem", None)
    if problem is None:  # a fit that was unpickled without its data
        return bool(getattr(model, "_has_fractional_weights", False))
    return problem.likelihood.has_interval_weights or has_fractions(problem.weights)


def has_fractions(weights: VectorLike) -> bool:
    """Return whether a weight is not a whole number."""
    values = np.asarray(weights, np.float64)
    return bool((values != np.floor(values)).any())


def default_kind(model: Any, kind: Kind | None) -> Kind:
    """Return the kind of errors that is meant: by default robust with fractional weights."""
    if kind is not None:
        return kind
    return "robust" if has_fractional_weights(model) else "model"


def refuse_errors_not_asked_for(
    return_se: bool, kind: Kind | None, cluster: LabelsLike | None
) -> None:
    """Refuse a kind or clusters of errors that are not returned."""
    if not return_se and (kind is not None or cluster is not None):
        raise DataError("kind and cluster are those of the errors; set return_se=True.")


def robust_by_default(model: Any, cluster: LabelsLike | None) -> np.ndarray | None:
    """Compute the robust covariance matrix that no one asked for; warn where there is none."""
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


def name_errors(table: Table, kind: str, model: Any = None) -> Table:
    """Name the kind of errors of a table or test, for all that models return.

    Parameters
    ----------
    table : DataFrame or Series
        Changed in place.
    kind : str
        One of `Kind`, "M-estimation", "profile" or "bootstrap".
    model : PenalizedModel, optional
        The fitted model. With it, errors of the model and of likelihoods, which take weights as
        numbers of rows, are named in print too if its weights are not whole numbers.

    Returns
    -------
    DataFrame or Series
        The table, with the kind in ``attrs["errors"]`` and, unless it is the model's, in print.
    """
    table.attrs["errors"] = kind
    fractional = model is not None and has_fractional_weights(model)
    if kind != "model" or fractional:
        title = "profile limits" if kind == "profile" else f"{kind} errors"
        if isinstance(table, pd.Series):
            table.name = title
        else:
            table.columns.name = title
    if kind in ("model", "profile") and fractional:
        table.attrs["note"] = AS_COUNTS
    return table
