"""Parts of the pages of designs: tables, figures and calls as HTML."""

from __future__ import annotations

import importlib
import io
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
th, td { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left; }
.wide { overflow-x: auto; } .failed { color: #a11; } pre { background: #f5f5f5; padding: 1rem;
       overflow-x: auto; } svg { max-width: 100%; height: auto; }
@media print { .page { break-before: page; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Write a self-contained page with a title and parts in HTML."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def table_html(table: pd.DataFrame) -> str:
    """Write a table without its index."""
    text = pd.DataFrame(table).to_html(
        index=False, border=0, na_rep="", float_format="{:.3g}".format
    )
    return f'<div class="wide">{text}</div>'


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
