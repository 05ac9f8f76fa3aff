"""Text from databases and specifications, made safe for terminals, messages and spreadsheets."""

from __future__ import annotations

import re
import unicodedata

import pandas as pd

__all__ = ["csv_text", "plain_text", "without_credentials", "without_parentheses"]

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that spreadsheets take for the start of a formula, or strip before they look for one.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# A program whose separator is not the comma begins another cell after one of these.
OTHER_CELL = re.compile(r"([;\t]\s*)(?=[=+@\uff1d\uff0b\uff0d\uff20]|-(?!\s*\d))")
QUOTED_NA = "\x1aNA"  # Other text has no control characters when it is written.
HIDDEN = "***"
# "scheme://user:password@", also with a single slash, a common typing error.
CREDENTIALS = re.compile(r"([A-Za-z][\w+.-]*:/{1,2})[^/\s]*@")
PARENTHESES = re.compile(r"\s*\([^()]*\)")
SECRET = re.compile(r"((?:password|passwd|pwd|token|secret)\s*[=:]\s*)[^\s&;,]+", re.IGNORECASE)


def plain_text(text: str) -> str:
    """Replace control characters, such as those that recolour or clear a terminal, by spaces."""
    return CONTROL.sub(" ", text)


def without_credentials(text: str) -> str:
    """Hide the user and password of every URL in a message, and values named like passwords."""
    return SECRET.sub(rf"\1{HIDDEN}", CREDENTIALS.sub(rf"\1{HIDDEN}@", text))


def without_parentheses(text: str) -> str:
    """Remove parentheses with their contents, also nested ones."""
    shorter = PARENTHESES.sub("", text)
    return shorter if shorter == text else without_parentheses(shorter)


def csv_text(table: pd.DataFrame) -> str:
    """Write a table as CSV whose cells no spreadsheet takes for formulas.

    Text that begins like a formula and is not a number gets an apostrophe in front, as OWASP
    advises against CSV injection. Numbers are unchanged. The text "NA" is quoted, as in files of R,
    where NA without quotes is a missing value.
    """
    safe = table.copy()
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, table.iloc[:, place].map(_safe_cell))
    safe.columns = pd.Index([_safe_cell(name) for name in table.columns])
    return str(safe.to_csv(index=False, lineterminator="\n")).replace(QUOTED_NA, '"NA"')


def _visible(text: str) -> str:
    """Return a text from its first visible character or control character."""
    for place, character in enumerate(text):
        if unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cf"):
            return text[place:]
    return ""


def _safe_cell(value: object) -> object:
    """Make text safe for a spreadsheet; a quote precedes text that it would take for a formula."""
    if not isinstance(value, str):
        return value
    value = plain_text(value)
    if value == "NA":
        return QUOTED_NA
    value = OTHER_CELL.sub(r"\1'", value)
    if not _visible(value).startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
