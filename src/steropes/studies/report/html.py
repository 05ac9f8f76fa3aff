"""Tables, cards and the frame of a page, as HTML; and numbers as readers see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from steropes.studies.report.digits import Relation, deciding, limit_text, passes
from steropes.studies.report.formatting import decimals
from steropes.version import __version__

__all__ = [
    "cards",
    "counted",
    "document",
    "effect",
    "findings",
    "fold",
    "number",
    "number_table",
    "paragraphs",
    "table",
    "verdict",
]


def document(title: str, body: Iterable[str]) -> str:
    """A whole page, with its styles in it."""
    room = files("steropes.studies") / "report"
    css = "".join((room / f"{n}.css").read_text("utf-8") for n in ("palette", "page", "figures"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + f"\n<footer>Made by steropes {__version__}.</footer>\n</main>\n</body>\n</html>\n"
    )


def cards(shown: Iterable[tuple[str, str]], main: int = -1) -> str:
    """Numbers large, with what they are; the one that matters is marked."""
    boxes = "".join(
        f'<div class="card{" main" if i == main else ""}"><b>{escape(a)}</b>'
        f"<span>{escape(b)}</span></div>"
        for i, (a, b) in enumerate(shown)
    )
    return f'<div class="cards">{boxes}</div>'


def findings(found: Iterable[tuple[str, str]]) -> str:
    """Sentences with their verdicts, PASS, FAIL or NOT EVALUATED, as a list of marks."""
    items = "".join(f'<li class="{v.split()[0]}">{escape(said)}</li>' for v, said in found)
    return f'<ul class="checks">{items}</ul>' if items else ""


def paragraphs(sentences: Iterable[str]) -> str:
    """Write each sentence as a paragraph of its own."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def fold(summary: str, body: str) -> str:
    """What is shown when it is asked for, and always in print."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>" if body else ""


def table(
    head: Sequence[str],
    lines: Iterable[Sequence[str]],
    *,
    text: Iterable[int] = (),
    raw: Iterable[int] = (),
    caption: str = "",
) -> str:
    """A table whose rows stand one below the other where the page is narrow.

    Parameters
    ----------
    head, lines
        Texts of the cells.
    text : iterable of int
        Columns of words rather than numbers.
    raw : iterable of int
        Columns that are HTML already.
    caption : str
    """
    words, html = {*text}, {*raw}

    def cell(i: int, value: str) -> str:
        kind = ' class="text"' if i in words else ""
        label = f' data-label="{escape(head[i], quote=True)}"'
        return f"<td{kind}{label}>{value if i in html else escape(value)}</td>"

    rows = "\n".join(
        f"<tr>{''.join(cell(i, v) for i, v in enumerate(line))}</tr>" for line in lines
    )
    return _table("stacked", head, rows, words, caption)


def number_table(
    head: Sequence[str],
    sections: Mapping[str, Iterable[Sequence[str]]],
    caption: str = "",
) -> str:
    """A table of a name and a few short numbers, which stay side by side on a phone.

    Parameters
    ----------
    head : sequence of str
    sections : mapping of str to rows
        Rows by the title over them; an empty title is none.
    caption : str
    """
    rows = []
    for title, lines in sections.items():
        if title:
            rows.append(f'<tr class="section"><td colspan="{len(head)}">{escape(title)}</td></tr>')
        rows += [f"<tr>{''.join(f'<td>{escape(v)}</td>' for v in line)}</tr>" for line in lines]
    return _table("numbers", head, "\n".join(rows), set(), caption)


def _table(kind: str, head: Sequence[str], rows: str, words: set[int], caption: str) -> str:
    top = "".join(
        f'<th scope="col"{" class=text" if i in words else ""}>{escape(h)}</th>'
        for i, h in enumerate(head)
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table class="{kind}" style="--columns:{len(head) - 1}">{title}'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def verdict(
    value: float,
    said: str,
    digits: int = 2,
    relation: Relation = "below",
    limit: float | None = None,
) -> str:
    """Format a number with its verdict, as HTML.

    The number has the digits that tell it from the limit. One that was rounded to the other side of
    the limit is shown as a bound that agrees with the verdict.

    Parameters
    ----------
    value : float
    said : {"PASS", "FAIL", "NOT EVALUATED"}
    digits : int, default 2
        Fewest decimals.
    relation, limit
        What it takes to pass; None for no limit.
    """
    shown = (
        "∞"
        if math.isinf(value)
        else ""
        if math.isnan(value)
        else deciding(value, limit, digits=digits)
    )
    passed = said == "PASS"
    judged = math.isfinite(value) and said != "NOT EVALUATED"
    if judged and limit is not None and passes(value, relation, limit) != passed:
        above = passed == (relation in ("at least", "above"))
        shown = f"{'&gt;' if above else '&lt;'}{limit_text(limit)}"
    if said == "NOT EVALUATED":
        return f'<span class="faint">{shown or "–"}</span>'
    return f'<span class="{said}">{shown} <small>{said.lower()}</small></span>'


def effect(ratio: float, low: float, high: float, digits: int = 2) -> str:
    """An estimate with its limits; nothing where there is none."""
    if not math.isfinite(ratio):
        return ""
    return f"{decimals(ratio, digits)} ({decimals(low, digits)} to {decimals(high, digits)})"


def number(x: Any, digits: int) -> str:
    """A number; nothing where it is missing or has no end."""
    value = math.nan if x is None else float(x)
    return decimals(value, digits) if math.isfinite(value) else ""


def counted(n: Any) -> str:
    """A count; what stands for fewer than n people is minus n."""
    value = math.nan if n is None else float(n)
    if math.isnan(value):
        return "–"
    return f"<{-value:,.0f}" if value < 0 else f"{value:,.0f}"
