"""Two pages about a comparison of groups: for a clinician, and for a methodologist."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from steropes.data.number_formatting import counted
from steropes.designs.comparative.clinician_page import (
    Comparison,
    e_values_of,
    page_for_clinicians,
)
from steropes.designs.comparative.comparison_diagnostics import SENSITIVITY
from steropes.designs.effects.e_values import COMMON
from steropes.designs.values.estimands import estimand_name
from steropes.designs.values.html_page import call_text, figures, page, table_html

__all__ = ["report_page"]

FIGURES = {"balance": "Balance of covariates", "overlap": "Overlap of scores"}


def report_page(
    comparison: Comparison, call: Mapping[str, Any], common: bool, groups: tuple[int, int]
) -> str:
    """Write both pages as one HTML file.

    Parameters
    ----------
    call : mapping
        The arguments of `compare_groups`, by name.
    common : bool
        Whether at least 15 % of the people had the outcome.
    groups : (int, int)
        Numbers of people in the target and in the comparator.
    """
    parts = [
        '<p>For <a href="#words">clinicians</a> and for <a href="#methods">methodologists</a></p>',
        '<section id="words">', *page_for_clinicians(comparison, call, common, groups),
        '</section><section id="methods" class="page">', "<h1>Methods and all results</h1>",
        *_summary(comparison), *_checks(comparison), *_sensitivity(comparison),
        "<h2>Characteristics before adjustment</h2>", table_html(comparison.table_one),
        *figures(comparison.plot, FIGURES), *_errors(comparison), *_e_values(comparison, common),
        "<h2>The code that repeats this comparison</h2>",
        f"<pre>{escape(call_text('compare_groups', ['data'], call))}</pre>", "</section>",
    ]  # fmt: skip
    return page(f"{comparison.names[0]} against {comparison.names[1]}", parts)


def _summary(comparison: Comparison) -> Iterator[str]:
    """Yield the estimand, who remains, and the effects."""
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
    # The sentence above has the estimand, and a section below the errors of each method.
    effects = comparison.effects.drop(columns="errors")
    yield table_html(effects.paper_table(digits=3).reset_index())
    yield (
        "<p>Marginal effects are those of a population; conditional ones compare people with the "
        "same covariates. Odds and hazard ratios of the two kinds differ even without "
        "confounding.</p>"
    )


def _checks(comparison: Comparison) -> Iterator[str]:
    """Yield the diagnostics: those that failed in words, then all."""
    table = comparison.diagnostics
    own = table[table["method"] != "unadjusted"] if table["method"].nunique() > 1 else table
    own = own[~own["diagnostic"].str.startswith(SENSITIVITY)]
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


def _sensitivity(comparison: Comparison) -> Iterator[str]:
    """Yield how much the first effect depends on ties and on people at the ends of the scores."""
    table = comparison.diagnostics
    rows = table[table["diagnostic"].str.startswith(SENSITIVITY)]
    if rows.empty:
        return
    yield "<h2>Ties and trimming</h2><ul>"
    for row in rows.itertuples():
        yield f"<li>{escape(f'{row.method}: {row.note}')}</li>"
    yield "</ul>"


def _errors(comparison: Comparison) -> Iterator[str]:
    """Yield the sources of error that each method includes."""
    yield "<h2>Which variance</h2>"
    columns = ["method", "scale", "errors"]
    yield table_html(pd.DataFrame(comparison.effects)[columns].drop_duplicates())


def _e_values(comparison: Comparison, common: bool) -> Iterator[str]:
    """Yield the strength of unmeasured confounding that could explain each ratio."""
    rows = e_values_of(comparison, common)
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
