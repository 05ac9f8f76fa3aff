"""Verdicts on the parts of a specification: runs, runs with differences, or does not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steropes.studies.report.plain_text import plain_text

__all__ = ["PartVerdict", "runs", "skipped"]


@dataclass(frozen=True)
class PartVerdict:
    """A part of a specification, and whether it runs.

    Attributes
    ----------
    module : str
        The module, or "cohorts" or "file".
    part : str
        The part of the module, such as "analysis 1 (on treatment)".
    differences : tuple of str
        What differs from R, as sentences without full stop.
    reason : str
        Reason why the part does not run; "" if it runs.
    """

    module: str
    part: str
    differences: tuple[str, ...] = ()
    reason: str = ""

    @property
    def word(self) -> str:
        """The verdict in words."""
        if self.reason:
            return "does not run"
        return "runs with a difference" if self.differences else "runs"

    def line(self) -> str:
        """Return the verdict as one line."""
        why = self.reason or "; ".join(self.differences)
        text = f"{self.part}: {self.word}" + (f": {why}" if why else "")
        return " ".join(plain_text(text).split())


def runs(module: str, part: str, differences: Sequence[str] = ()) -> PartVerdict:
    """Create the verdict of a part that runs."""
    return PartVerdict(module, part, tuple(dict.fromkeys(differences)))


def skipped(module: str, part: str, reason: str) -> PartVerdict:
    """Create the verdict of a part that does not run."""
    return PartVerdict(module, part, (), reason)
