"""One page about a comparison of groups, for a clinician and for a methodologist."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Protocol

import numpy as np
import pandas as pd

from steropes.data.number_text import counted, decimals
from steropes.data.result_tables import ResultTable
from steropes.designs.effects.e_values import COMMON, e_value, e_value_of_limit
from steropes.designs.effects.outcome_families import Kind
from steropes.designs.values.estimands import estimand_name
from steropes.errors import DataError

__all__ = ["report_page"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left; }
.wide { overflow-x: auto; } .failed { color: #a11; } pre { background: #f5f5f5; padding: 1rem;
       overflow-x: auto; } svg { max-width: 100%; height: auto; }
"""
# Rows of a table on the page; long tables of covariates have tens of thousands.
MAX_ROWS = 200
# The kind of ratio that each measure is, for its E-value; risk and rate ratios are not converted.
KINDS: dict[str, Kind] = {
    "hazard ratio": "cox", "odds ratio": "logistic", "risk ratio": "poisson",
    "rate ratio": "poisson",
}  # fmt: skip


class Comparison(Protocol):
    """What a page needs of a `GroupComparison`."""

    @property
    def effects(self) -> ResultTable: ...
    @property
    def table_one(self) -> pd.DataFrame: ...
    @property
    def weights(self) -> pd.DataFrame: ...
    @property
    def diagnostics(self) -> pd.DataFrame: ...
    @property
    def estimand(self) -> Any: ...
    @property
    def names(self) -> tuple[str, str]: ...
    @property
    def horizon(self) -> float | None: ...
    def plot(self, what: Any = ..., **options: Any) -> Any: ...


def report_page(comparison: Comparison, call: Mapping[str, Any], common: bool) -> str:
    """Write the page as HTML.

    Parameters
    ----------
    call : mapping
        The arguments of `compare_groups`, by name.
    common : bool
        Whether at least 15 % of the people had the outcome.
    """
    title = f"{comparison.names[0]} against {comparison.names[1]}"
    parts = [
        f"<h1>{escape(title)}</h1>", *_summary(comparison), *_checks(comparison),
        "<h2>Characteristics before adjustment</h2>", _html(comparison.table_one),
        *_figures(comparison), *_errors(comparison), *_e_values(comparison, common),
        "<h2>The code that repeats this comparison</h2>",
        f"<pre>{escape(call_text(call))}</pre>",
    ]  # fmt: skip
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def call_text(call: Mapping[str, Any]) -> str:
    """Write a call of `compare_groups`, with the names of tables in place of tables."""
    lines = ["steropes.compare_groups(", "    data,"]
    for name, value in call.items():
        text = repr(value.tolist() if isinstance(value, pd.Index | np.ndarray) else value)
        if name == "covariates" and not isinstance(value, str | Sequence | pd.Index | np.ndarray):
            text = "covariates"
        lines.append(f"    {name}={text},")
    return "\n".join([*lines, ")"])


def _summary(comparison: Comparison) -> Iterator[str]:
    """Yield the question, who remains, and the effects."""
    yield (
        f"<p>The effect of {escape(comparison.names[0])} instead of "
        f"{escape(comparison.names[1])} in {escape(estimand_name(comparison.estimand))}."
    )
    if comparison.horizon is not None:
        yield f" Risks and restricted means are by time {comparison.horizon:g}."
    yield "</p><ul>"
    for method in comparison.weights:
        w = comparison.weights[method].to_numpy()
        remain, size = int((w > 0).sum()), float(w.sum() ** 2 / (w @ w))
        text = f"{method}: {counted(remain)} of {counted(len(w))} people remain"
        yield f"<li>{escape(text)}, as informative as {size:,.0f} with equal weights</li>"
    yield "</ul><h2>Effects</h2>"
    yield _html(comparison.effects.paper_table(digits=3).reset_index())
    yield (
        "<p>Marginal effects are those of a population; conditional ones compare people with the "
        "same covariates. Odds and hazard ratios of the two kinds differ even without "
        "confounding.</p>"
    )


def _checks(comparison: Comparison) -> Iterator[str]:
    """Yield the diagnostics: those that failed in words, then all."""
    table = comparison.diagnostics
    own = table[table["method"] != "unadjusted"] if table["method"].nunique() > 1 else table
    failed = own[~own["passed"]]
    yield "<h2>Can the comparison be trusted?</h2>"
    if failed.empty:
        yield "<p>All diagnostics passed.</p>"
    else:
        yield '<ul class="failed">'
        for row in failed.itertuples():
            text = f"{row.method}: {row.diagnostic} is {row.value:.3g}, above {row.limit:g}. "
            yield f"<li>{escape(text + str(row.note))}</li>"
        yield "</ul>"
    shown = own.assign(
        value=[f"{x:,.6g}" for x in own["value"]],
        limit=["" if math.isnan(x) else f"{x:g}" for x in own["limit"]],
        passed=np.where(own["passed"], "yes", "no"),
    )
    yield "<details><summary>All diagnostics: overlap, effective sample sizes, largest weights,"
    yield " balance, ties and certificates of optima</summary>"
    yield _html(shown)
    yield "</details>"


def _figures(comparison: Comparison) -> Iterator[str]:
    """Yield figures, if Matplotlib is installed and the comparison has them."""
    try:
        figure = importlib.import_module("matplotlib.figure")
        settings = importlib.import_module("matplotlib").rc_context
    except ModuleNotFoundError:
        yield '<p>Figures need Matplotlib: pip install "steropes[plots]".</p>'
        return
    for what, title in (("balance", "Balance of covariates"), ("overlap", "Overlap of scores")):
        with settings({"svg.hashsalt": what, "svg.fonttype": "path"}):
            drawn = figure.Figure(figsize=(8, 5), layout="constrained")
            try:
                comparison.plot(what, ax=drawn.subplots())
            except DataError:  # no method has scores
                continue
            buffer = io.StringIO()
            drawn.savefig(buffer, format="svg", metadata={"Date": None})
        picture = buffer.getvalue()
        yield f"<h2>{title}</h2>{picture[picture.index('<svg') :]}"


def _errors(comparison: Comparison) -> Iterator[str]:
    """Yield what the errors of each method account for."""
    yield "<h2>Which variance</h2>"
    columns = ["method", "scale", "errors"]
    yield _html(pd.DataFrame(comparison.effects)[columns].drop_duplicates())


def _e_values(comparison: Comparison, common: bool) -> Iterator[str]:
    """Yield the strength of unmeasured confounding that could explain each ratio."""
    rows = []
    for row in pd.DataFrame(comparison.effects).itertuples():
        if row.measure not in KINDS or row.method == "unadjusted" or not row.lower > 0:
            continue
        kind = KINDS[str(row.measure)]
        limits = math.log(float(row.lower)), math.log(float(row.upper))
        values = e_value(math.log(float(row.estimate)), kind, common)
        rows.append(
            (row.method, row.measure, decimals(values, 2),
             decimals(e_value_of_limit(*limits, kind, common), 2))
        )  # fmt: skip
    if not rows:
        return
    names = ["Method", "Measure", "E-value", "E-value of the limit nearer to 1"]
    form = "at least" if common else "fewer than"
    yield "<h2>Unmeasured confounding</h2>"
    yield (
        "<p>A confounder that was not measured explains an estimate only if its risk ratios with "
        "the treatment and with the outcome both reach the E-value (VanderWeele and Ding 2017). "
        f"{form.capitalize()} {100 * COMMON:g} % of the people had the outcome.</p>"
    )
    yield _html(pd.DataFrame(rows, columns=names))


def _html(table: pd.DataFrame) -> str:
    """Write a table."""
    text = pd.DataFrame(table).to_html(
        index=False, border=0, na_rep="", float_format="{:.3g}".format
    )
    return f'<div class="wide">{text}</div>'
