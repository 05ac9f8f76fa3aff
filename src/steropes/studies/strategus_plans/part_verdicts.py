"""Verdicts on the parts of a specification: runs, runs with differences, or does not run.

After a run, parts that should have run and could not have failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steropes.studies.formatting.plain_text import plain_text

__all__ = ["PartVerdict", "runs", "skipped", "verdicts_after"]


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
    failed : bool
        Whether it should have run, and failed for the reason.
    """

    module: str
    part: str
    differences: tuple[str, ...] = ()
    reason: str = ""
    failed: bool = False

    @property
    def word(self) -> str:
        """The verdict in words."""
        if self.reason:
            return "failed" if self.failed else "does not run"
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


def verdicts_after(
    verdicts: Iterable[PartVerdict], failed: Mapping[str, str], otherwise: str
) -> list[PartVerdict]:
    """Return the verdicts after a run.

    Parameters
    ----------
    failed : mapping of str to str
        The reasons of what failed: a module, a part of one as "module, part", or another part.
    otherwise : str
        The module of other parts.
    """
    left = dict(failed)
    found = []
    for v in verdicts:
        part = f"{v.module}, {v.part}"
        keys = [k for k in failed if k == v.module or k == part or part.startswith(f"{k} ")]
        if keys and not v.reason:
            v = replace(v, reason=failed[keys[0]], failed=True)
        for k in keys:
            left.pop(k, None)
        found.append(v)
    return found + [PartVerdict(otherwise, k, (), why, True) for k, why in left.items()]
