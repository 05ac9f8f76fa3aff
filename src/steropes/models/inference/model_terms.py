"""The terms of a model: which coefficients belong to which term and to which variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DataError
from ..fitting.fitted_model import FittedModel

__all__ = ["ModelTerm", "columns_of_terms", "model_terms"]


@dataclass(frozen=True)
class ModelTerm:
    """A term of a formula, or a column of X.

    Attributes
    ----------
    variables : tuple of str
        Columns of the data that the term uses.
    columns : (k,) int array
        Positions among the columns with estimated coefficients.
    coefficients : (k,) int array
        Positions in the table of coefficients.
    """

    name: str
    variables: tuple[str, ...]
    columns: np.ndarray
    coefficients: np.ndarray


def model_terms(model: FittedModel) -> list[ModelTerm]:
    """List the terms of a fitted model, in the order of the formula.

    Columns with fixed coefficients are left out, and so are terms that consist of them.

    Raises
    ------
    DataError
        If the coefficients are not those of X's columns, as with effects that change with time.
    """
    # The intercept, or the baseline of a pooled model, comes before the columns of X.
    first = len(model._coefficient_names()) - len(model._names)
    if np.shape(model.coef_) != (len(model._all_names),):
        raise DataError(
            "Effects that change with time, or on several classes, have several coefficients for a "
            "column; name them in inference.linear_hypothesis()."
        )
    p = len(model._all_names)
    kept = np.arange(p) if model._fixed is None else np.asarray(model._fixed.kept)
    row = np.full(p, -1)
    row[kept] = np.arange(len(kept))
    out = []
    for name, variables, columns in columns_of_terms(model):
        own = row[columns]
        own = own[own >= 0]
        if len(own):
            out.append(ModelTerm(name, variables, own, own + first))
    return out


def columns_of_terms(model: FittedModel) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """List name, variables and columns of the design, (k,), of each term of a fitted model."""
    return _terms_of_formula(model) or _terms_of_columns(model)


def _terms_of_columns(model: FittedModel) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """Return each column of X as a term; a column of labels has several coefficients."""
    coding = model._coding
    if coding is not None and model._all_names == coding.names:
        pairs = zip(coding.columns, coding.positions, strict=True)
        return [(name, (name,), columns) for name, columns in pairs]
    names = model._all_names
    return [(name, (name,), np.array([j])) for j, name in enumerate(names)]


def _terms_of_formula(model: FittedModel) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """Return the terms of the model's formula; none if it was fitted without one."""
    formula: Any = getattr(model, "_formula", None)
    if formula is None:
        return []
    spec = formula.spec
    data = set(map(str, spec.variables_by_source.get("data", ())))
    out, before = [], 0
    for term, columns in spec.term_slices.items():
        used = spec.term_variables[term]
        size = columns.stop - columns.start
        if str(term) == "1":
            continue
        variables = tuple(sorted(str(v) for v in used if str(v) in data))
        out.append((str(term), variables, np.arange(before, before + size)))
        before += size
    return out
