"""What a fitted model looks like when it is printed, and in a notebook.

`repr` stays scikit-learn's, the settings. Nothing of single people is shown: counts, coefficients
and how the fit ended.
"""

from __future__ import annotations

import html
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.utils import estimator_html_repr

from ..errors import DataError

__all__ = ["FitDisplay"]

ROWS = 20  # coefficients that are shown
WIDE = 60  # characters of a prior's setting from which on it is cut
TESTED = 200  # coefficients up to which standard errors are computed for a print


class FitDisplay:
    """A readable print and an HTML representation of a fitted estimator."""

    def __str__(self) -> str:
        """The settings, and after a fit what it found."""
        if not hasattr(self, "coef_"):
            return repr(self)
        facts = _facts(self)
        width = max(len(name) for name, _ in facts)
        lines = [type(self).__name__, *(f"{name:<{width}}  {text}" for name, text in facts)]
        table, more = _table(self)
        if len(table):  # a null model has no coefficients
            lines += ["", _formatted(table).to_string()]
        return "\n".join([*lines, *([more] if more else [])])

    def _html_repr(self) -> str:
        if not hasattr(self, "coef_"):
            return str(estimator_html_repr(self))
        facts = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in _facts(self)
        )
        table, more = _table(self)
        shown = _formatted(table).to_html(border=0, escape=True) if len(table) else ""
        note = f"<p>{html.escape(more)}</p>" if more else ""
        return f"<pre>{html.escape(repr(self))}</pre><table>{facts}</table>{shown}{note}"

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._html_repr()
        return bundle


def _facts(model: Any) -> list[tuple[str, str]]:
    """What is told about a fit, by name."""
    facts: list[tuple[str, str]] = []
    formula = getattr(model, "_formula", None)
    if formula is not None:
        facts.append(("Formula", formula.text))
    problem = getattr(model, "_problem", None)
    weights = None if problem is None else getattr(problem, "weights", None)
    if weights is not None:
        facts.append(("Rows", _rows(np.asarray(weights))))
    facts.append(("Prior", "none" if model.prior_ is None else _described(model.prior_)))
    coef = np.asarray(model.coef_)
    nonzero = int(np.count_nonzero(coef))
    text = f"{coef.size:,}" + (f", {nonzero:,} not zero" if nonzero < coef.size else "")
    facts.append(("Coefficients", text))
    facts.append(("Log-likelihood", f"{model.log_likelihood_:.8g}"))
    end = "converged" if model.converged_ else "NOT CONVERGED"
    steps = f"{model.n_iter_} step" + "s" * (model.n_iter_ != 1)
    facts.append(("Fit", f"{end} after {steps}, largest KKT violation {model.optimality_:.1e}"))
    return facts


def _described(prior: Any) -> str:
    """A prior in a line: settings of one entry a column by how many there are."""
    parts = []
    for name, value in prior.get_params().items():
        several = isinstance(value, Mapping | Sequence | np.ndarray) and not isinstance(value, str)
        if several and len(value) == 0:
            continue
        if several and len(repr(value)) > WIDE:
            labels = list(value.values()) if isinstance(value, Mapping) else list(value)
            parts.append(f"{name}={reprlib.repr(labels[:3])[:-1]}, … {len(labels):,} in all]")
        else:
            parts.append(f"{name}={value!r}")
    return f"{type(prior).__name__}({', '.join(parts)})"


def _rows(weights: np.ndarray) -> str:
    used = int(np.count_nonzero(weights))
    text = f"{used:,}"
    if used < len(weights):
        text += f" of {len(weights):,} with a weight"
    total = float(weights.sum())
    return text + (f", weights add up to {total:,.6g}" if total != used else "")


def _table(model: Any) -> tuple[pd.DataFrame, str]:
    """The coefficients that are shown, and a line about those that are not."""
    names = model._coefficient_names()
    coef = np.asarray(model._coefficients(), float)
    table, note = pd.DataFrame({"coef": coef}, index=list(names)), ""
    known = getattr(model, "_problem", None) is not None or model._information is not None
    if len(names) <= TESTED and known:
        try:
            table = model.summary().dropna(axis=1, how="all")
        except DataError:
            note = "No standard errors: see summary()."
    if len(table) <= ROWS:
        return table, note
    largest = np.argsort(-np.abs(coef), kind="stable")[:ROWS]
    free = np.flatnonzero(np.array(names) == "intercept")
    shown = np.union1d(largest[coef[largest] != 0], free)
    rest, nonzero = len(table) - len(shown), int(np.count_nonzero(np.delete(coef, free)))
    if nonzero == 0:
        said = "All coefficients are zero."
    elif nonzero <= ROWS:
        said = f"All that are not zero; the other {rest:,} are in summary()."
    else:
        said = f"The largest coefficients; {rest:,} more are in summary()."
    return table.iloc[shown], f"{said} {note}".rstrip()


def _formatted(table: pd.DataFrame) -> pd.DataFrame:
    def column(x: pd.Series) -> list[str]:
        if x.dtype.kind not in "fc":
            return [str(v) for v in x]
        if x.name == "p":
            return ["<0.0001" if v < 1e-4 else f"{v:.4f}" for v in x]
        return [f"{v:.4g}" for v in x]

    return pd.DataFrame({name: column(table[name]) for name in table}, table.index)
