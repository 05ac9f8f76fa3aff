"""Tables of a study for a paper, as LaTeX and as a Word document."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from steropes.studies._optional_packages import need
from steropes.studies.formatting.released_numbers import decimals, percent, title_case
from steropes.studies.release.one_question_release import Published
from steropes.studies.report.page_parts import Cell, Rows
from steropes.studies.report.study_page_rows import (
    attrition_rows,
    hazard_rows,
    outcome_rows,
    rate_rows,
)

__all__ = ["PaperTable", "latex_tables", "paper_table", "paper_tables", "word_tables"]

DEMOGRAPHIC = re.compile(r"(gender|age group|index year|age)\b")
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "<": r"$<$",
    ">": r"$>$",
    "−": "$-$",
    "–": "--",
    "\N{NO-BREAK SPACE}": "~",
}


@dataclass(frozen=True)
class PaperTable:
    """A table with its caption, head and rows of text; columns after the first are numbers."""

    name: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_tables(public: Published) -> list[PaperTable]:
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
    return [table for table in tables if table.rows]


def latex_tables(tables: Sequence[PaperTable]) -> str:
    """Write tables in LaTeX, for the package booktabs."""
    parts = ["% Tables of a study by steropes; \\usepackage{booktabs}"]
    for table in tables:
        columns = "l" + "r" * (len(table.head) - 1)
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (table.head, *table.rows)]
        parts += [
            r"\begin{table}",
            rf"\caption{{{_latex(table.caption)}}}\label{{tab:{table.name}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    return "\n".join(parts)


def word_tables(tables: Sequence[PaperTable]) -> bytes:
    """Write tables as a Word document, the same bytes for the same tables.

    Raises
    ------
    ImportError
        ``python-docx`` is not installed; the message says how to install it.
    """
    document = need("docx", "paper").Document()
    for number, table in enumerate(tables, 1):
        document.add_paragraph(f"Table {number}. {table.caption}", style="Caption")
        made = document.add_table(rows=0, cols=len(table.head), style="Light List")
        for row in (table.head, *table.rows):
            for cell, text in zip(made.add_row().cells, row, strict=True):
                cell.text = text
        document.add_paragraph()
    packed = io.BytesIO()
    document.save(packed)
    return _undated(packed.getvalue())


def _undated(archive: bytes) -> bytes:
    """Pack an archive again without times of day."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(name))
    return packed.getvalue()


def paper_table(name: str, caption: str, head: tuple[str, ...], rows: Rows) -> PaperTable:
    """Create a table from the texts of cells, with their remarks in brackets."""
    texts = tuple(tuple(_words(cell) for cell in row) for row in rows)
    return PaperTable(name, caption, head, texts)


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


def _latex(text: str) -> str:
    """Escape the characters that LaTeX reads as commands."""
    return "".join(LATEX.get(character, character) for character in text)
