"""Notes on irregularities of the database, for the reader of a study's results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from steropes.studies.disclosure import Bound, DisclosureRules

__all__ = [
    "DataNote",
    "distinct",
    "explained",
    "note_rows",
    "published_notes",
    "released_notes",
    "table_sentences",
]


@dataclass(frozen=True)
class DataNote:
    """An irregularity of the database, with the rule that handles it.

    Attributes
    ----------
    topic : str
        Identifies the kind of note, such as "joined_periods".
    text : str
        The note as a sentence without its full stop.
    count : int, optional
        Number of people or records concerned.
    counted : str
        Unit of the count, such as "people".
    warning : bool, default False
        Whether the results may be wrong because of it.
    """

    topic: str
    text: str
    count: int | None = None
    counted: str = "people"
    warning: bool = False

    def sentence(self, rules: DisclosureRules) -> str:
        """Write the note as a sentence, with its count as far as the rules release it."""
        if self.count is None:
            return f"{self.text}."
        count = _released(self.count, rules)
        text = str(count) if isinstance(count, Bound) else f"{count:,}"
        return f"{self.text} ({self.counted}: {text})."


def _released(count: int, rules: DisclosureRules) -> int | Bound:
    """Release a count, rounded because notes on a cohort and on all people can be subtracted."""
    bound = rules.count(count)
    return bound if isinstance(bound, Bound) else rules.coarse(count)


def published_notes(notes: Iterable[DataNote], rules: DisclosureRules) -> list[dict[str, object]]:
    """List notes for a report, without small cells.

    Returns
    -------
    list of dict
        ``topic``, ``note`` (the sentence), ``counted``, ``count`` and ``warning`` of each note.
    """
    return [
        {
            "topic": note.topic,
            "note": note.sentence(rules),
            "counted": None if note.count is None else note.counted,
            "count": None if note.count is None else _released(note.count, rules),
            "warning": note.warning,
        }
        for note in notes
    ]


def note_rows(notes: Iterable[DataNote], key: dict[str, Any]) -> list[dict[str, Any]]:
    """List notes as rows of the exact result table ``data_note``."""
    return [
        {
            **key,
            "topic": note.topic,
            "note": note.text,
            "counted": None if note.count is None else note.counted,
            "count": note.count,
            "warning": int(note.warning),
        }
        for note in notes
    ]


def released_notes(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Apply disclosure control to a table ``data_note``: −n means a count of fewer than n."""

    def released(count: float | None) -> int | None:
        """Return a count or minus its bound."""
        if count is None or pd.isna(count):
            return None
        found = _released(int(count), rules)
        return -int(found.limit) if isinstance(found, Bound) else found

    counts = [released(count) for count in table["count"]]
    return table.assign(count=pd.array(counts, dtype="Int64"))


def table_sentences(table: pd.DataFrame) -> list[tuple[str, bool]]:
    """List the sentences of a released table ``data_note``, and whether each one is a warning.

    A note that several questions and analyses share is listed once, with its largest count.
    """
    largest: dict[str, dict[str, Any]] = {}
    for line in table.to_dict("records"):
        known = largest.setdefault(str(line["note"]), line)
        if not pd.isna(line["count"]) and line["count"] > known["count"]:
            largest[str(line["note"])] = line
    found = []
    for text, line in largest.items():
        sentence = text
        if not pd.isna(line["count"]):
            count = int(line["count"])
            sentence += f" ({line['counted']}: {f'<{-count}' if count < 0 else f'{count:,}'})"
        found.append((f"{sentence}.", bool(line["warning"])))
    return sorted(found, key=lambda line: not line[1])


def explained(message: str, notes: Iterable[DataNote]) -> str:
    """Append the warnings among some notes to the message of an error that they may explain."""
    return "; ".join([message, *dict.fromkeys(note.text for note in notes if note.warning)])


def distinct(notes: Iterable[DataNote]) -> tuple[DataNote, ...]:
    """Remove repeated notes; warnings come first."""
    unique = dict.fromkeys(notes)
    return tuple(sorted(unique, key=lambda note: not note.warning))
