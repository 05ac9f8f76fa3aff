"""Notes on the database that a reader of a study's results should know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from steropes.studies.disclosure import Bound, DisclosureRules

__all__ = ["DataNote", "distinct", "note_rows", "published_notes", "rules_of", "table_sentences"]


@dataclass(frozen=True)
class DataNote:
    """One property of the database that a study met, and the rule by which it was handled.

    Attributes
    ----------
    topic : str
        Identifies the kind of note, such as "joined_periods".
    text : str
        The note as a sentence without its full stop.
    count : int, optional
        How many people or records it concerns.
    counted : str
        The things that were counted, such as "people".
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
        count = rules.count(self.count)
        said = str(count) if isinstance(count, Bound) else f"{count:,}"
        return f"{self.text} ({self.counted}: {said})."


def published_notes(notes: Iterable[DataNote], rules: DisclosureRules) -> list[dict[str, Any]]:
    """List notes for a report, without small cells.

    Parameters
    ----------
    notes : iterable of DataNote
    rules : DisclosureRules

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
            "count": None if note.count is None else rules.count(note.count),
            "warning": note.warning,
        }
        for note in notes
    ]


def note_rows(
    notes: Iterable[DataNote], key: dict[str, Any], rules: DisclosureRules
) -> list[dict[str, Any]]:
    """List notes as rows of the result table ``data_note``; minus n stands for fewer than n."""
    return [
        {
            **key,
            **line,
            "count": -rules.least if isinstance(line["count"], Bound) else line["count"],
            "warning": int(line["warning"]),
        }
        for line in published_notes(notes, rules)
    ]


def rules_of(least: int) -> DisclosureRules:
    """The rules of a setting ``min_cell``."""
    return DisclosureRules("none", 0) if least <= 1 else DisclosureRules("ohdsi", least)


def table_sentences(table: pd.DataFrame) -> list[tuple[str, bool]]:
    """List the sentences of a result table ``data_note``, and whether each one is a warning.

    A note that several questions and analyses share is listed once, with its largest count.
    """
    largest: dict[str, tuple[float, str, bool]] = {}
    for line in table.to_dict("records"):
        note = str(line["note"])
        known = not pd.isna(line["count"])
        text, count = (note.rpartition(" (")[0], float(line["count"])) if known else (note, 0.0)
        if text not in largest or count > largest[text][0]:
            largest[text] = count, note, bool(line["warning"])
    found = [(note, warning) for _, note, warning in largest.values()]
    return sorted(found, key=lambda line: not line[1])


def distinct(notes: Iterable[DataNote]) -> tuple[DataNote, ...]:
    """Drop the repetitions among notes; warnings come first."""
    unique = dict.fromkeys(notes)
    return tuple(sorted(unique, key=lambda note: not note.warning))
