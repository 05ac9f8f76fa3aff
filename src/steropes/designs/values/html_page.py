"""Parts of the pages of designs: tables, figures and calls as HTML."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from steropes.errors import DataError

__all__ = ["call_text", "figures", "page", "table_html"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left;
         vertical-align: top; }
th { vertical-align: bottom; } td.number, .whole { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td:last-child:not(.number) { min-width: 8rem; } p { overflow-wrap: break-word; }
@media (max-width: 40rem) { h1 { font-size: 1.5rem; } th, td { padding: 0.2rem 0.35rem; } }
.wide { overflow-x: auto; } .failed { color: #a11; } pre { background: #f5f5f5; padding: 1rem;
       overflow-x: auto; } svg { max-width: 100%; height: auto; }
@media print { .page { break-before: page; } }
"""
# Numbers and limits, by whose cells a column is aligned to the right; they may be missing.
NUMBER = re.compile(r"|(&lt;|≥|<)?[−-]?(∞|[\d,.]+(e[+-]?\d+)?)")
# The beginning of an estimate, and a length that estimates with their limits do not reach.
ESTIMATE, WIDEST = re.compile(r"(&lt; ?|≥|<)?[−-]?\d"), 30
# Names of columns that say little to readers of pages.
HEADINGS = {"log_rr": "log ratio", "se": "standard error", "smd": "standardised difference"}


def page(title: str, parts: Iterable[str]) -> str:
    """Write a self-contained page with a title and parts in HTML."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def table_html(table: pd.DataFrame) -> str:
    """Write a table with readable headings, without its index and without empty columns."""
    given = pd.DataFrame(table)
    cells = [[_cell(value) for value in column] for _, column in given.items()]
    kept = [k for k, column in enumerate(cells) if any(column) or not len(given)]
    sides = [' class="number"' if all(map(NUMBER.fullmatch, cells[k])) else "" for k in kept]
    heads = [_heading(str(given.columns[k])) for k in kept]
    head = "".join(f"<th{side}>{name}</th>" for side, name in zip(sides, heads, strict=True))
    lines = "".join(
        f"<tr>{''.join(_td(side, cell) for side, cell in zip(sides, row, strict=True))}</tr>\n"
        for row in zip(*(cells[k] for k in kept), strict=True)
    )
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>"
    return f'<div class="wide"><table>\n{body}\n</table></div>'


def _td(side: str, cell: str) -> str:
    """Write a cell; estimates with limits are not broken over lines."""
    if not side and len(cell) < WIDEST and ESTIMATE.match(cell):
        side = ' class="whole"'
    return f"<td{side}>{cell}</td>"


def _heading(name: str) -> str:
    """Write the name of a column as a heading; letters such as p stay small."""
    words = HEADINGS.get(name, name.replace("_", " "))
    return escape(words if len(words) < 3 else words[:1].upper() + words[1:])


def _cell(value: Any) -> str:
    """Write a value, identifiers being text; a missing one is empty."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        number = float(value)
        if np.isnan(number):
            return ""
        if np.isinf(number):
            return "∞" if number > 0 else "−∞"
        text = f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"
        return text.replace("-", "−", 1) if number < 0 else text
    if isinstance(value, int | np.integer):
        return f"{value:,}".replace("-", "−")
    return "" if value is None or value is pd.NA or value is pd.NaT else escape(str(value))


def figures(plot: Callable[..., Any], titles: Mapping[str, str]) -> Iterator[str]:
    """Yield figures with their titles, if Matplotlib is installed and the result has them.

    Parameters
    ----------
    plot : callable
        Draws a figure by its name on the axes ``ax``; raises DataError if there is none.
    titles : mapping
        Titles by the names of figures.
    """
    try:
        figure = importlib.import_module("matplotlib.figure")
        ticker = importlib.import_module("matplotlib.ticker")
        settings = importlib.import_module("matplotlib").rc_context
    except ModuleNotFoundError:
        yield '<p>Figures need Matplotlib: pip install "steropes[plots]".</p>'
        return
    for what, title in titles.items():
        with settings({"svg.hashsalt": what, "svg.fonttype": "path"}):
            drawn = figure.Figure(figsize=(8, 5), layout="constrained")
            try:
                plot(what, ax=drawn.subplots())
            except DataError:
                continue
            places = drawn.axes[0].yaxis.get_major_locator()
            if isinstance(places, ticker.FixedLocator) and len(places()):  # rows with names
                drawn.set_figheight(min(1.5 + 0.3 * len(places()), 12.0))
            buffer = io.StringIO()
            drawn.savefig(buffer, format="svg", metadata={"Date": None})
        picture = buffer.getvalue()
        yield f"<h2>{escape(title)}</h2>{picture[picture.index('<svg') :]}"


def call_text(function: str, tables: Sequence[str], call: Mapping[str, Any]) -> str:
    """Write a call of a function, with the names of tables in place of tables.

    Parameters
    ----------
    tables : sequence of str
        Arguments by position.
    call : mapping
        Arguments by name.
    """
    lines = [f"steropes.{function}(", f"    {', '.join(tables)},"]
    for name, value in call.items():
        text = repr(value.tolist() if isinstance(value, pd.Index | np.ndarray) else value)
        if isinstance(value, pd.DataFrame) or "\n" in text:
            text = name
        lines.append(f"    {name}={text},")
    return "\n".join([*lines, ")"])
