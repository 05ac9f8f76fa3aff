"""Text and HTML representations of fitted models.

``repr`` is scikit-learn's and shows the settings. The representations of a fit show counts,
coefficients and the outcome of the optimisation, and no data of single people.
"""

from __future__ import annotations

import html
import reprlib
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.utils import estimator_html_repr

from ...data.html_representations import SHOWN_ROWS
from ...errors import DataError
from ...priors import Prior
from .covariances import why_no_covariance
from .fitted_model import FittedModel
from .wald_tables import wald_summary

__all__ = ["fit_html", "fit_mimebundle", "fit_text"]

# A setting of the prior whose text is longer (in characters) is abbreviated.
MAX_SETTING_WIDTH = 60
# Standard errors are computed for a display only up to this number of coefficients.
MAX_STANDARD_ERRORS = 200


def fit_text(model: FittedModel) -> str:
    """Format a fitted model as text: facts of the fit, then the coefficients."""
    facts = _facts(model)
    width = max(len(name) for name, _ in facts)
    lines = [type(model).__name__, *(f"{name:<{width}}  {text}" for name, text in facts)]
    table, note = _displayed_coefficients(model)
    if len(table):  # a null model has no coefficients
        lines += ["", _formatted(table).to_string()]
    return "\n".join([*lines, *([note] if note else [])])


def fit_html(model: FittedModel) -> str:
    """Format a fitted model as HTML; scikit-learn's representation where there is no fit."""
    if not model.__sklearn_is_fitted__():
        return str(estimator_html_repr(model))
    facts = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for name, text in _facts(model)
    )
    table, note = _displayed_coefficients(model)
    coefficients = _formatted(table).to_html(border=0, escape=True) if len(table) else ""
    note = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<pre>{html.escape(repr(model))}</pre><table>{facts}</table>{coefficients}{note}"


def fit_mimebundle(model: FittedModel) -> dict[str, str]:
    """Return the representations for notebooks: text, and HTML if scikit-learn is set to it."""
    bundle = {"text/plain": repr(model)}
    if get_config()["display"] == "diagram":
        bundle["text/html"] = fit_html(model)
    return bundle


def _facts(model: FittedModel) -> list[tuple[str, str]]:
    """List the facts that a representation of a fit shows, each as its name and text."""
    facts: list[tuple[str, str]] = []
    formula = getattr(model, "_formula", None)
    if formula is not None:
        facts.append(("Formula", formula.text))
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    if len(classes) == 2 and classes != [0, 1] and np.ndim(model.coef_) == 1:
        facts.append(("Outcome", f"{classes[1]!r} rather than {classes[0]!r}"))
    problem = getattr(model, "_problem", None)
    weights = None if problem is None else getattr(problem, "weights", None)
    if weights is not None:
        facts.append(("Rows", _rows_text(np.asarray(weights))))
    facts.append(("Prior", "none" if model.prior_ is None else _prior_text(model.prior_)))
    coef = np.asarray(model.coef_)
    if coef.ndim == 2:  # a reference class has no coefficients of its own
        coef = coef[coef.any(axis=1)] if model.prior_ is None else coef
    nonzero = int(np.count_nonzero(coef))
    text = f"{coef.size:,}" + (f", {nonzero:,} not zero" if nonzero < coef.size else "")
    facts.append(("Coefficients", text))
    facts.append(("Log-likelihood", f"{model.log_likelihood_:.8g}"))
    if (dispersion := getattr(model, "dispersion_", None)) is not None:
        facts.append(("Dispersion", f"{dispersion:.6g}"))
    end = "converged" if model.converged_ else "NOT CONVERGED"
    steps = f"{model.n_iter_} step" + "s" * (model.n_iter_ != 1)
    facts.append(("Fit", f"{end} after {steps}, largest KKT violation {model.optimality_:.1e}"))
    return facts


def _prior_text(prior: Prior) -> str:
    """Format a prior in one line; long settings show a few entries and their number."""
    parts = []
    for name, value in prior.get_params().items():
        several = isinstance(value, Mapping | Sequence | np.ndarray) and not isinstance(value, str)
        if several and len(value) == 0:
            continue
        if several and len(repr(value)) > MAX_SETTING_WIDTH:
            labels = list(value.values()) if isinstance(value, Mapping) else list(value)
            parts.append(f"{name}={reprlib.repr(labels[:3])[:-1]}, … {len(labels):,} in all]")
        else:
            parts.append(f"{name}={value!r}")
    return f"{type(prior).__name__}({', '.join(parts)})"


def _rows_text(weights: np.ndarray) -> str:
    """Format the number of rows with a positive weight, and the sum of unequal weights."""
    used = int(np.count_nonzero(weights))
    text = f"{used:,}"
    if used < len(weights):
        text += f" of {len(weights):,} with a weight"
    total = float(weights.sum())
    return text + (f", weights add up to {total:,.6g}" if total != used else "")


def _displayed_coefficients(model: FittedModel) -> tuple[pd.DataFrame, str]:
    """Choose the coefficients to display; return them and a note about the others."""
    names = model._coefficient_names()
    coef = np.asarray(model._coefficients(), float)
    table, note = pd.DataFrame({"coef": coef}, index=list(names)), ""
    known = getattr(model, "_problem", None) is not None or model._information is not None
    if len(names) <= MAX_STANDARD_ERRORS and known:
        try:
            table = wald_summary(model).dropna(axis=1, how="all")
            if table.attrs.get("errors", "model") != "model":
                note = "Standard errors are robust, because weights are not whole numbers."
        except DataError:
            note = "No standard errors: see summary()."
    if model._has_sparse_prior():
        note, table.columns.name = why_no_covariance(model.prior_), None
    if len(table) <= SHOWN_ROWS:
        return table, note
    largest = np.argsort(-np.abs(coef), kind="stable")[:SHOWN_ROWS]
    free = np.flatnonzero(np.array(names) == "intercept")
    shown = np.union1d(largest[coef[largest] != 0], free)
    rest, nonzero = len(table) - len(shown), int(np.count_nonzero(np.delete(coef, free)))
    if nonzero == 0:
        text = "All coefficients are zero."
    elif nonzero <= SHOWN_ROWS:
        text = f"All that are not zero; the other {rest:,} are in summary()."
    else:
        text = f"The largest coefficients; {rest:,} more are in summary()."
    return table.iloc[shown], f"{text} {note}".rstrip()


def _formatted(table: pd.DataFrame) -> pd.DataFrame:
    """Format the numbers of a table as text, p-values with four decimals."""

    def column(x: pd.Series) -> list[str]:
        """Format one column."""
        if x.dtype.kind not in "fc":
            return [str(v) for v in x]
        if x.name == "p":
            return ["<0.0001" if v < 1e-4 else f"{v:.4f}" for v in x]
        return [f"{v:.4g}" for v in x]

    return pd.DataFrame({name: column(table[name]) for name in table}, table.index)
