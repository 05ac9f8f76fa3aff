"""Tables of a study for a paper."""

from __future__ import annotations

import re

from steropes.data.formatted_tables_for_papers import CaptionedTable, PaperTable
from steropes.studies.formatting.released_numbers import decimals, percent, title_case
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.page_parts import Cell, Rows
from steropes.studies.report.study_page_tables import (
    attrition_rows,
    hazard_rows,
    outcome_rows,
    rate_rows,
)

__all__ = ["paper_table", "paper_tables"]

DEMOGRAPHIC = re.compile(r"(gender|age group|index year|age)\b")


def paper_tables(public: Published) -> list[CaptionedTable]:
    """Return characteristics (Table 1), attrition and estimates, from released numbers."""
    names = {arm: title_case(public.names[arm]) for arm in ("target", "comparator")}
    target, comparator = names["target"], names["comparator"]
    tables = [
        paper_table(
            "characteristics",
            f"Characteristics of users of {target} and {comparator} before and after matching. "
            "SMD: standardised mean difference.",
            (
                "Characteristic",
                *(f"{n}, {w}" for w in ("before", "after") for n in (*names.values(), "SMD")),
            ),
            _characteristics(public),
        ),
        paper_table(
            "attrition",
            "People left and dropped by each rule.",
            ("Rule", target, "dropped", comparator, "dropped"),
            attrition_rows(public),
        ),
    ]
    ratio = ("Hazard ratio",) if public.blinded else ("Hazard ratio", "95% interval", "p")
    rate = () if public.blinded else ("Person-years", "Events", "Per 1,000 years", "95% interval")
    tables += [
        paper_table(
            "rates", "Incidence of the outcome.", ("Arm", "People", *rate), rate_rows(public)
        ),
        paper_table(
            "estimates",
            f"Hazard ratios of {target} against {comparator}.",
            ("Among", "People", "Events", *ratio),
            hazard_rows(public),
        ),
        paper_table(
            "outcomes",
            "All outcomes and negative controls.",
            ("Outcome", target, comparator, "Hazard ratio (95%)", "p", "Calibrated (95%)"),
            outcome_rows(public),
        ),
    ]
    return [t for t in tables if len(t.table)]


def paper_table(name: str, caption: str, head: tuple[str, ...], rows: Rows) -> CaptionedTable:
    """Create a table from the texts of cells, with their remarks in brackets."""
    texts = [tuple(_words(cell) for cell in row) for row in rows]
    return CaptionedTable(name, caption, PaperTable(texts, columns=[*head]))


def _words(cell: str | Cell) -> str:
    """Return the text of a cell."""
    if isinstance(cell, str):
        return cell
    return f"{cell.text} ({cell.remark})" if cell.remark else cell.text


def _characteristics(public: Published) -> list[tuple[str, ...]]:
    """Return the shares of both arms: all demographics, then the most unequal covariates."""
    rows: dict[bool, list[tuple[str, ...]]] = {True: [], False: []}
    for line in public.balance:
        row = [title_case(str(line["covariate"]))]
        for when in ("before", "after"):
            row += [percent(line[f"{arm}_{when}"]) for arm in ("target", "comparator")]
            row.append(decimals(line[f"smd_{when}"], 2))
        rows[DEMOGRAPHIC.match(str(line["covariate"])) is not None].append(tuple(row))
    return [*sorted(rows[True]), *rows[False][:40]]
