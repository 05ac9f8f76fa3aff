"""HTML representations of curves and other results: a title and a table of facts."""

from __future__ import annotations

import html
from collections.abc import Mapping

__all__ = ["facts_html"]


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Format a title and named facts as HTML."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<p><b>{html.escape(title)}</b></p><table>{lines}</table>"
