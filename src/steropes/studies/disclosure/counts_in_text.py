"""Counts of people within sentences, such as the reason why a question has no estimate."""

from __future__ import annotations

import re

import pandas as pd

from steropes.studies.disclosure.disclosive_digit_rounding import significant
from steropes.studies.disclosure.disclosure_rules import DisclosureRules

__all__ = ["released_notes_column", "released_text"]

PEOPLE = (
    "cases|clusters|entries|eras|events|outcomes|people|periods|persons|records|rows|strata|"
    "subjects|weights|others"
)
WHOLE = r"\d+(?:,\d{3})*"
COUNT = re.compile(
    rf"(?P<below><|\bfewer than )?\b(?P<n>{WHOLE})(?: of (?:the )?{WHOLE})?"
    rf"(?= (?:other )?(?:{PEOPLE})\b)"
    rf"|(?P<other>\bthe other )(?P<rest_below><)?(?P<rest>{WHOLE})"
)
# The number of rows that errors of models append to the columns they name.
ROWS = re.compile(r" ?\(n_samples = \d+\)")


def released_text(text: str, rules: DisclosureRules) -> str:
    """Round the counts of people in a sentence, and suppress the small ones.

    A count in a sentence is the only one of its kind, so that it need not be exact.

    Examples
    --------
    >>> released_text("age: 5 knots for 3 outcomes", DisclosureRules())
    'age: 5 knots for <5 outcomes'
    >>> released_text("2 of 1,234 weights are not positive", DisclosureRules("opensafely", 8))
    '<8 weights are not positive'
    >>> released_text("covers all days of 1,234 cases", DisclosureRules())
    'covers all days of about 1,200 cases'
    >>> released_text("fewer than 2 people", DisclosureRules())
    'fewer than 5 people'
    >>> released_text("columns are constant (n_samples = 382).", DisclosureRules())
    'columns are constant.'
    """
    if rules.open:
        return text

    def replaced(match: re.Match[str]) -> str:
        """Round or suppress one count."""
        before = match["other"] or ""
        n = int((match["n"] or match["rest"]).replace(",", ""))
        if match["below"] or match["rest_below"]:
            return f"{before}{match['below'] or '<'}{max(n, rules.least):,}"
        if rules.small(n):
            return f"{before}<{rules.least}"
        return f"{before}about {significant(rules.rounded(n), 2):,.0f}" if n else f"{before}0"

    return COUNT.sub(replaced, ROWS.sub("", text))


def released_notes_column(notes: pd.Series, rules: DisclosureRules) -> pd.Series:
    """Apply `released_text` to each note; missing ones stay."""
    return notes.map(lambda text: released_text(text, rules) if isinstance(text, str) else text)
