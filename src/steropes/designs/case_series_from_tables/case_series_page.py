"""HTML page with the estimates and diagnostics of a case series from tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Protocol

import pandas as pd

from steropes.data.plottable_result_tables import ResultTable
from steropes.designs.values.html_page import call_text, figures, page, table_html

__all__ = ["series_page"]

FIGURES = {
    "effects": "Rate ratios of risk periods",
    "time": "Rate ratios of age, season and calendar time",
    "events": "Events around the first exposure",
}
ERRORS = {
    "profile": "Limits are where the profile of the likelihood falls below its maximum; they need "
    "not be symmetric. Standard errors are those of the information matrix.",
    "robust": "Limits and standard errors are those of the sandwich over cases, with the "
    "derivative of the weights of events under later exposure.",
}


class Series(Protocol):
    """The parts of a `CaseSeriesResult` that a page shows."""

    @property
    def estimates(self) -> ResultTable: ...
    @property
    def diagnostics(self) -> pd.DataFrame: ...
    @property
    def attrition(self) -> pd.DataFrame: ...
    @property
    def level(self) -> float: ...
    def plot(self, what: Any = ..., **options: Any) -> Any: ...


def series_page(series: Series, function: str, call: Mapping[str, Any]) -> str:
    """Write the page as HTML.

    Parameters
    ----------
    function : str
        The function, as an attribute of steropes.
    call : mapping
        Its arguments by name, other than the tables.
    """
    text = call_text(function, ["events", "exposures", "observation"], call)
    parts = [
        *_estimates(series), *_checks(series),
        "<h2>Who remains</h2>", table_html(series.attrition),
        *figures(series.plot, FIGURES),
        "<h2>The code that repeats this analysis</h2>", f"<pre>{escape(text)}</pre>",
    ]  # fmt: skip
    title = function.split(".")[-1].replace("self_controlled", "self-controlled").replace("_", " ")
    return page(title.capitalize(), parts)


def _estimates(series: Series) -> Iterator[str]:
    """Yield the question, the estimates, and the sources of error in their limits."""
    yield (
        "<p>Rates of events on days in a risk period relative to the other days, or the days in "
        "control periods, of the same person, so that nothing that is constant in a person "
        "confounds them.</p>"
    )
    yield table_html(series.estimates.paper_table(digits=3).rename_axis("Covariate").reset_index())
    for kind in dict.fromkeys(series.estimates["interval"]):
        if kind in ERRORS:
            yield f"<p>{ERRORS[kind]}</p>"


def _checks(series: Series) -> Iterator[str]:
    """Yield the diagnostics: those that failed in words, then all."""
    table = series.diagnostics
    failed = table[table["passed"].eq(False)]
    yield "<h2>Can the ratios be trusted?</h2>"
    if failed.empty:
        yield "<p>No diagnostic failed.</p>"
    else:
        yield '<ul class="failed">'
        for row in failed.itertuples():
            yield f"<li>{escape(f'{row.diagnostic}. {row.note}')}</li>"
        yield "</ul>"
    words = {True: "yes", False: "no", None: "not evaluated"}
    yield table_html(table.assign(passed=[words[x] for x in table["passed"]]))
