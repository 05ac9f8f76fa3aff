"""The result of a case-only or case–control design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.values.html_page import call_text, figures, page, table_html

__all__ = ["CaseOnlyResult", "shown_ratios"]

HIDDEN = ("kind", "log_ratio", "se", "errors")
CAPTIONS = {
    "exposed_cases": "Exposed cases",
    "exposed_references": "Exposed references",
    "exposed_controls": "Exposed controls",
    "discordant_sets": "Discordant sets",
    "note": "Note",
}


@dataclass(frozen=True, repr=False, eq=False)
class CaseOnlyResult(TextInHtml):
    """Ratios of a case-only or case–control design.

    Attributes
    ----------
    estimates : DataFrame
        A row for each exposure (and covariate): ``kind``, what is compared; ``ratio``, ``lower``
        and ``upper``; ``log_ratio`` with its standard error ``se``; ``p``; ``errors``, "model",
        "robust" (the sandwich over people, if a person has several sets) or "exact"; and counts,
        such as ``exposed_cases`` and ``discordant_sets``. It has ``plot()`` and ``paper_table()``.
    attrition : DataFrame
        ``rule``, ``people`` and ``events`` that remain.
    measure : str
        Name of the ratios, such as "Odds ratio".
    level : float
        Level of the intervals.
    sets : DataFrame or None
        The matched sets, one row for each window or person: ``set``, ``id``, ``case`` (1 or 0),
        ``day`` (the index day) and the columns of the model. None for the self-controlled cohort.
    model : ConditionalLogisticRegression or None
        The fitted model; None for the self-controlled cohort.

    See Also
    --------
    case_crossover, case_time_control, nested_case_control, self_controlled_cohort : Compute it.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.case_only import case_crossover
    >>> people = pd.DataFrame({"id": range(6), "start": 1, "end": 400})
    >>> events = pd.DataFrame({"id": range(6), "day": 300})
    >>> drugs = pd.DataFrame({"id": range(6), "start": [290, 295, 280, 285, 230, 235]})
    >>> result = case_crossover(events, drugs, people)
    >>> result.summary()[["ratio", "exposed_cases"]]
             ratio  exposed_cases
    exposed    2.0              4
    """

    estimates: ResultTable
    attrition: pd.DataFrame
    measure: str
    level: float
    sets: pd.DataFrame | None
    model: Any
    _design: str
    _function: str
    _tables: tuple[str, ...]
    _call: Mapping[str, Any]

    def __repr__(self) -> str:
        """Return the ratios of the exposures."""
        shown = self.summary().drop(columns=[*HIDDEN, "note"], errors="ignore")
        title = f"{self._design}: {self.measure.lower()}s with {100 * self.level:g} % intervals"
        return f"{title}\n{shown.to_string(float_format=lambda x: f'{x:.4g}')}"

    def summary(self) -> ResultTable:
        """Return the estimates of the exposures.

        Returns
        -------
        DataFrame
            Rows of ``estimates`` of the first kind.
        """
        kept = self.estimates["kind"].eq(self.estimates["kind"].iloc[0])
        return shown_ratios(pd.DataFrame(self.estimates[kept]), self.measure, self.level)

    def plot(self, **options: Any) -> Any:
        """Draw the ratios of the exposures.

        Parameters
        ----------
        **options
            As of `steropes.plots.ratio_forest`, such as ``ax``.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        return self.summary().plot(**options)

    def write_report(self, path: str | PathLike[str]) -> None:
        """Write one self-contained page with the estimates and who remains, as HTML.

        It has no data of single people, but counts may be small.

        Parameters
        ----------
        path : path
            Where to write, such as "crossover.html".
        """
        table = self.estimates.paper_table(digits=3).rename_axis("Covariate").reset_index()
        table.insert(1, "Comparison", self.estimates["kind"].to_numpy())
        text = call_text(f"designs.case_only.{self._function}", self._tables, self._call)
        parts = [
            table_html(table), "<h2>Who remains</h2>", table_html(self.attrition),
            *figures(self._drawn, {"ratios": f"{self.measure}s"}),
            "<h2>The code that repeats this analysis</h2>", f"<pre>{escape(text)}</pre>",
        ]  # fmt: skip
        Path(path).write_text(page(self._design, parts), encoding="utf-8")

    def _drawn(self, what: str, **options: Any) -> Any:
        """Draw the only figure of the page."""
        return self.plot(**options)


def shown_ratios(table: pd.DataFrame, measure: str, level: float) -> ResultTable:
    """Make a table of ratios a result that is drawn as a forest."""
    return present(
        table, "ratio_forest", columns=("ratio", "lower", "upper"), ratio=measure,
        intervals=(Interval(measure, "ratio", "lower", "upper", level),), hidden=HIDDEN,
        captions=CAPTIONS,
    )  # fmt: skip
