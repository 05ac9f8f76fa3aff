"""Notes on the database that a reader of a study's results should know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from steropes.studies.disclosure import Bound, shown, small

__all__ = ["DataNote", "published_notes"]


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
    """

    topic: str
    text: str
    count: int | None = None
    counted: str = "people"

    def sentence(self, least: int) -> str:
        """Write the note as a sentence in which a count below ``least`` is hidden."""
        if self.count is None:
            return f"{self.text}."
        return f"{self.text} ({self.counted}: {shown(self.count, least)})."


def published_notes(notes: Iterable[DataNote], least: int) -> list[dict[str, Any]]:
    """List notes for a report: ``topic``, ``text``, ``counted`` and ``count``, without small cells.

    Parameters
    ----------
    notes : iterable of DataNote
    least : int
        Counts from 1 to ``least`` - 1 become a bound.
    """
    return [
        {
            "topic": note.topic,
            "text": note.sentence(least),
            "counted": None if note.count is None else note.counted,
            "count": None if note.count is None else _hidden(note.count, least),
        }
        for note in notes
    ]


def _hidden(count: int, least: int) -> int | Bound:
    return Bound(least) if small(count, least) else count
