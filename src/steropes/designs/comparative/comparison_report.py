"""One page about a comparison of groups, for a clinician and for a methodologist."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Protocol

import numpy as np
import pandas as pd

from steropes.data.number_text import counted, decimals
from steropes.data.result_tables import ResultTable
from steropes.designs.effects.e_values import COMMON, e_value, e_value_of_limit
from steropes.designs.effects.outcome_families import Kind
from steropes.designs.values.estimands import estimand_name
from steropes.designs.values.html_page import call_text, figures, page, table_html

__all__ = ["report_page"]

FIGURES = {"balance": "Balance of covariates", "overlap": "Overlap of scores"}
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
    parts = [
        *_summary(comparison), *_checks(comparison),
        "<h2>Characteristics before adjustment</h2>", table_html(comparison.table_one),
        *figures(comparison.plot, FIGURES), *_errors(comparison), *_e_values(comparison, common),
        "<h2>The code that repeats this comparison</h2>",
        f"<pre>{escape(call_text('compare_groups', ['data'], call))}</pre>",
    ]  # fmt: skip
    return page(f"{comparison.names[0]} against {comparison.names[1]}", parts)


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
    yield table_html(comparison.effects.paper_table(digits=3).reset_index())
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
    yield table_html(shown)
    yield "</details>"


def _errors(comparison: Comparison) -> Iterator[str]:
    """Yield what the errors of each method account for."""
    yield "<h2>Which variance</h2>"
    columns = ["method", "scale", "errors"]
    yield table_html(pd.DataFrame(comparison.effects)[columns].drop_duplicates())


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
    yield table_html(pd.DataFrame(rows, columns=names))
