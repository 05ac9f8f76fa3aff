"""Tables of text for papers, as LaTeX, Excel and Word."""

from __future__ import annotations

import importlib
import io
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType, ModuleType
from typing import IO, Any, NamedTuple

import pandas as pd

from ..errors import DataError
from .number_formatting import counted, deciding_p, decimals

__all__ = [
    "CaptionedTable",
    "Interval",
    "PaperTable",
    "format_table",
    "latex_document",
    "word_document",
]

# Captions of columns whose names are short.
CAPTIONS = {
    "auc": "AUC", "chisq": "χ²", "coef": "Coefficient", "df": "Degrees of freedom", "n": "People",
    "p": "P value", "p_holm": "P value (Holm)", "r2": "R²", "alpha": "α",
}  # fmt: skip
# Columns that papers leave out: intervals and p-values show the same.
HIDDEN = ("se", "z", "t", "converged")
# Characters that LaTeX reads as commands, as text.
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip
# Characters that other fonts than T1 lack or print as punctuation of Spanish.
SYMBOLS = {
    "<": r"\textless{}", ">": r"\textgreater{}", "−": "$-$", "–": "--", "∞": r"$\infty$",
    "χ²": r"$\chi^2$", "R²": "$R^2$", "α": r"$\alpha$", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip
# Estimates from here on have three digits and an exponent.
HUGE = 1e6


class Interval(NamedTuple):
    """Columns that are one cell of a paper: an estimate with its limits.

    Attributes
    ----------
    caption : str
        The caption of the cell, without the level.
    estimate, lower, upper : str
        The columns. There is no estimate if the table lacks its column.
    level : float, optional
        Confidence level.
    kind : str
        Name of the limits, default "CI".
    """

    caption: str
    estimate: str = "estimate"
    lower: str = "lower"
    upper: str = "upper"
    level: float | None = None
    kind: str = "CI"

    def title(self) -> str:
        """Return the caption with level and kind of the limits."""
        level = "" if self.level is None else f"{100 * self.level:.10g}% "
        return f"{self.caption} ({level}{self.kind})"


class PaperTable(pd.DataFrame):
    """A table of text for a paper.

    ``to_latex`` and ``to_excel`` are those of pandas, with names that LaTeX or Excel would take for
    commands written as text; ``to_word`` writes a Word document. They need the packages of the
    extra ``tables``.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> steropes.LogisticRegression().fit(X, y).summary().paper_table().loc["x0"].tolist()
    ['4.00 (0.13 to 119.23)', '0.42']
    """

    @property
    def _constructor(self) -> type[PaperTable]:
        return PaperTable

    def to_latex(self, buf: Any = None, *, escape: bool = True, **options: Any) -> str | None:
        """Write the table in LaTeX, for the package booktabs.

        Parameters
        ----------
        buf : path or file, optional
            Where to write. Default: return the text.
        escape : bool
            Whether to write characters with a meaning in LaTeX, such as ``_`` and ``%``, as text;
            default True, unlike in pandas.
        **options
            As of ``pandas.DataFrame.to_latex``, such as ``caption`` and ``label``.

        Returns
        -------
        str or None
            The text, if there is no ``buf``.

        Raises
        ------
        ImportError
            If Jinja2 is not installed.
        """
        _need("jinja2", "Jinja2")
        shown = _escaped(self) if escape else pd.DataFrame(self)
        text = str(shown.to_latex(escape=False, **options))
        if escape:
            text = _with_symbols(text)
        if buf is None:
            return text
        if isinstance(buf, str | os.PathLike):
            with open(buf, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            buf.write(text)
        return None

    def to_excel(self, excel_writer: Any, *, sheet_name: str = "Sheet1", **options: Any) -> None:
        """Write the table to a sheet of Excel. Text that begins like a formula remains text.

        Parameters
        ----------
        excel_writer : path, file or ExcelWriter of openpyxl
            Where to write.
        sheet_name : str
            Name of the sheet.
        **options
            As of ``pandas.DataFrame.to_excel``.

        Raises
        ------
        DataError
            If an ExcelWriter has another engine than openpyxl.
        ImportError
            If openpyxl is not installed.
        """
        _need("openpyxl", "openpyxl")
        if isinstance(excel_writer, pd.ExcelWriter):
            if excel_writer.engine != "openpyxl":
                raise DataError(
                    f"Tables for papers are written by openpyxl, not by {excel_writer.engine}: "
                    'pandas.ExcelWriter(path, engine="openpyxl").'
                )
            opened: Any = nullcontext(excel_writer)
        else:
            opened = pd.ExcelWriter(excel_writer, engine="openpyxl")
        with opened as writer:
            pd.DataFrame(self).to_excel(writer, sheet_name=sheet_name, **options)
            for row in writer.sheets[sheet_name].iter_rows():
                for cell in row:
                    if cell.data_type == "f":
                        cell.data_type = "s"

    def to_word(
        self, path: str | os.PathLike[str] | IO[bytes], *, caption: str = "", index: bool = True
    ) -> None:
        """Write the table as a Word document, the same bytes for the same table.

        Parameters
        ----------
        path : path or file
            Where to write.
        caption : str
            The caption above the table, default none.
        index : bool
            Whether to write the names of the rows, default True.

        Raises
        ------
        ImportError
            If python-docx is not installed.
        """
        written = _word_document([(caption, self, index)])
        if isinstance(path, str | os.PathLike):
            with open(path, "wb") as file:
                file.write(written)
        else:
            path.write(written)


class CaptionedTable(NamedTuple):
    """A table of a document, whose first column names the rows.

    Attributes
    ----------
    name : str
        The name by which the document refers to it.
    caption : str
    table : PaperTable
        Its index is not written.
    """

    name: str
    caption: str
    table: PaperTable


def latex_document(tables: Sequence[CaptionedTable]) -> str:
    """Write tables one after the other in LaTeX, for the package booktabs.

    Raises
    ------
    ImportError
        If Jinja2 is not installed.
    """
    parts = ["% Tables of a study by steropes; \\usepackage{booktabs}"]
    for name, caption, table in tables:
        text = table.to_latex(
            index=False,
            caption=_as_latex(caption),
            label=f"tab:{name}",
            column_format="l" + "r" * (len(table.columns) - 1),
        )
        parts.append(str(text))
    return "\n".join(parts)


def word_document(tables: Sequence[CaptionedTable]) -> bytes:
    """Write numbered tables as a Word document, the same bytes for the same tables.

    Raises
    ------
    ImportError
        If python-docx is not installed.
    """
    numbered = enumerate(tables, 1)
    return _word_document([(f"Table {k}. {t.caption}", t.table, False) for k, t in numbered])


def _word_document(parts: Sequence[tuple[str, PaperTable, bool]]) -> bytes:
    """Write tables with their captions, and with or without their index."""
    document = _need("docx", "python-docx").Document()
    for caption, table, with_index in parts:
        if caption:
            document.add_paragraph(caption, style="Caption")
        names = table.index.names if with_index else []
        head = ["" if name is None else str(name) for name in (*names, *table.columns)]
        made = document.add_table(rows=0, cols=len(head), style="Light List")
        labels = [label if isinstance(label, tuple) else (label,) for label in table.index]
        cells = pd.DataFrame(table).itertuples(index=False)
        rows = ((*(a if with_index else ()), *b) for a, b in zip(labels, cells, strict=True))
        for row in (head, *rows):
            for cell, text in zip(made.add_row().cells, row, strict=True):
                cell.text = str(text)
        if len(parts) > 1:
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


def _escaped(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of which LaTeX reads no character of cells, labels and names as a command."""
    shown = pd.DataFrame(table).map(_as_latex)
    names = [None if name is None else _as_latex(name) for name in table.index.names]
    if isinstance(table.index, pd.MultiIndex):
        labels = [tuple(map(_as_latex, label)) for label in table.index]
        shown.index = pd.MultiIndex.from_tuples(labels, names=names)
    else:
        shown.index = pd.Index([_as_latex(label) for label in table.index], name=names[0])
    return shown.set_axis([_as_latex(name) for name in table.columns], axis="columns")


def _as_latex(value: object) -> str:
    """Write a value so that LaTeX reads all its characters as text."""
    return "".join(LATEX.get(character, character) for character in str(value))


def _with_symbols(text: str) -> str:
    """Replace the characters of `SYMBOLS` by commands."""
    for character, command in SYMBOLS.items():
        text = text.replace(character, command)
    return text


def _need(module: str, package: str) -> ModuleType:
    """Import an optional package; name the command that installs it if it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(
            f'Tables for papers need {package}: pip install "steropes[tables]"', name=module
        ) from error


def format_table(
    table: pd.DataFrame,
    intervals: Sequence[Interval] = (),
    labels: Sequence[str] = (),
    captions: Mapping[str, str] = MappingProxyType({}),
    hidden: Sequence[str] = (),
    digits: int = 2,
) -> PaperTable:
    """Format a table for a paper; see `ResultTable.paper_table`.

    Parameters
    ----------
    table : DataFrame
    intervals : sequence of Interval
        Estimates with limits; those without limits in the table are left out.
    labels : sequence of str
        Columns that name the rows, default the index. Columns that were dropped are left out.
    captions : mapping
        Captions of columns.
    hidden : sequence of str
        Columns to leave out.
    digits : int
        Decimals.
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 10:
        raise DataError(f"digits must be a whole number from 0 to 10, not {digits!r}.")
    shown = [i for i in intervals if {i.lower, i.upper} <= set(table.columns)]
    first = {i.estimate if i.estimate in table else i.lower: i for i in shown}
    covered = {name for i in shown for name in (i.estimate, i.lower, i.upper)}
    labels = [name for name in labels if name in table]
    left_out = {*HIDDEN, *hidden, *labels}
    texts: dict[str, list[str]] = {}
    for place, name in enumerate(table.columns):
        if name in first:
            texts[first[name].title()] = _interval_texts(table, first[name], digits)
        elif name not in covered and name not in left_out:
            caption = captions.get(name) or _caption(name)
            texts[caption] = _column_texts(str(name), table.iloc[:, place], digits)
    index = pd.MultiIndex.from_frame(table[list(labels)]) if len(labels) > 1 else table.index
    if len(labels) == 1:
        index = pd.Index(table[labels[0]])
    names = [None if name is None else captions.get(name) or _caption(name) for name in index.names]
    return PaperTable(texts, index=index.set_names(names))


def _caption(name: object) -> str:
    """Return the caption of a column: its name with a capital and without underscores."""
    text = str(name)
    return CAPTIONS.get(text) or (text[:1].upper() + text[1:]).replace("_", " ")


def _interval_texts(table: pd.DataFrame, interval: Interval, digits: int) -> list[str]:
    """Format an estimate and its limits in each row."""
    texts = []
    lower, upper = (table[name].astype(float) for name in (interval.lower, interval.upper))
    estimates = table[interval.estimate].astype(float) if interval.estimate in table else None
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        known = not (math.isnan(low) and math.isnan(high))
        span = f"{_number(low, digits)} to {_number(high, digits)}" if known else ""
        if estimates is None:
            texts.append(span)
        else:
            estimate = _number(float(estimates.iloc[i]), digits)
            texts.append(f"{estimate} ({span})" if span else estimate)
    return texts


def _column_texts(name: str, values: pd.Series, digits: int) -> list[str]:
    """Format a column: p-values, counts and other numbers, answers and text."""
    if pd.api.types.is_bool_dtype(values):
        return ["yes" if value else "no" for value in values]
    if not pd.api.types.is_numeric_dtype(values):
        return ["" if pd.isna(value) else str(value) for value in values]
    numbers = values.astype(float)
    if name == "p" or name.startswith("p_"):
        return [deciding_p(p) for p in numbers]
    if all(x.is_integer() for x in numbers.dropna()):
        return [counted(x) if x >= 0 else decimals(x, 0) for x in numbers]
    return [_number(x, digits) for x in numbers]


def _number(x: float, digits: int) -> str:
    """Format a number with some decimals, with two more where it would round to zero."""
    if math.isfinite(x) and abs(x) >= HUGE:
        return f"{x:.3g}".replace("-", "−")
    return decimals(x, digits + 2 if x and abs(x) < 0.5 * 10.0**-digits else digits)
