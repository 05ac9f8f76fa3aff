"""Whether each part of a specification runs, runs with differences from R, or does not run.

After a run they state which parts ran, with the numbers of cohorts without entries and of missing
estimates.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steropes.studies.formatting.text_safety import plain_text, without_parentheses

__all__ = [
    "PartVerdict",
    "runs",
    "skipped",
    "summary_lines",
    "verdicts_after",
    "verdicts_without_entries",
]

NAMED = 3  # Cohorts without entries that are named.
LONGEST_LINE = 240  # Characters of a line of a summary, which two rows of a terminal can show.
# Ids and counts, by which the reasons of similar parts differ, and lists of them.
IDS = re.compile(r"\d[\d,]*(?:, \d[\d,]*)*(?: and \d[\d,]* more)?")
Subject = tuple[tuple[str, int], ...]


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
        Differences from R, as sentences without full stop.
    reason : str
        Reason why the part does not run; "" if it runs.
    needs : tuple of frozenset of int
        The cohorts of each result of the part, which all need entries; empty if it needs none.
    subject : tuple of (str, int)
        Columns of result tables, with the ids of the part's rows.
    after : bool
        Whether this is the verdict after a run.
    remark : str
        A finding of the run, such as the number of cohorts without entries.
    """

    module: str
    part: str
    differences: tuple[str, ...] = ()
    reason: str = ""
    needs: tuple[frozenset[int], ...] = ()
    subject: Subject = ()
    after: bool = False
    remark: str = ""

    @property
    def word(self) -> str:
        """The verdict in words."""
        if self.reason:
            return "did not run" if self.after else "does not run"
        verb = "ran" if self.after else "runs"
        return f"{verb} with a difference" if self.differences else verb

    @property
    def text(self) -> str:
        """The reason or the differences, and the remark."""
        return "; ".join(filter(None, (self.reason or "; ".join(self.differences), self.remark)))

    def line(self) -> str:
        """Return the verdict as one line."""
        text = f"{self.part}: {self.word}" + (f": {self.text}" if self.text else "")
        return " ".join(plain_text(text).split())


def runs(
    module: str,
    part: str,
    differences: Sequence[str] = (),
    *,
    needs: Iterable[Iterable[int | None]] = (),
    subject: Subject = (),
) -> PartVerdict:
    """Create the verdict of a part that runs."""
    used = tuple(dict.fromkeys(frozenset(i for i in of if i is not None) for of in needs))
    return PartVerdict(module, part, tuple(dict.fromkeys(differences)), "", used, subject)


def skipped(module: str, part: str, reason: str) -> PartVerdict:
    """Create the verdict of a part that does not run."""
    return PartVerdict(module, part, (), reason)


def summary_lines(verdicts: Iterable[PartVerdict]) -> list[str]:
    """Return one line for each kind of part that does not run, with the number of such parts.

    Parts are of one kind if they belong to one module, and their names and reasons differ in ids
    and in names in parentheses only. The line names the first of them and its reason, of which it
    leaves out names in parentheses where it would be too long for a terminal.
    """
    kinds: dict[tuple[str, str, str], list[PartVerdict]] = {}
    for v in verdicts:
        if v.reason:
            part, reason = (IDS.sub("#", without_parentheses(t)) for t in (v.part, v.reason))
            kinds.setdefault((v.module, part, reason), []).append(v)
    found = []
    for first, *others in kinds.values():
        more = f" and {len(others):,} other{'s' if len(others) > 1 else ''}" if others else ""
        name = f"{first.module}, {first.part}{more}: {first.word}"
        text = first.text
        if len(name) + len(text) > LONGEST_LINE:
            text = without_parentheses(text)
        line = plain_text(f"{name}: {text}")
        found.append(textwrap.shorten(line, LONGEST_LINE, placeholder=" …"))
    return found


def verdicts_after(
    verdicts: Iterable[PartVerdict],
    failed: Mapping[str, str],
    otherwise: str,
    empty: Mapping[int, str] | None = None,
) -> list[PartVerdict]:
    """Return the verdicts after a run.

    Parameters
    ----------
    failed : mapping of str to str
        The reasons of failures: a module, a part of one as "module, part", or another part.
    otherwise : str
        The module of other parts.
    empty : mapping of int to str, optional
        Cohorts that were made and have no entries, with their names.
    """
    left = dict(failed)
    found = []
    for v in verdicts:
        v = replace(v, after=True)
        part = f"{v.module}, {v.part}"
        keys = [k for k in failed if k == v.module or k == part or part.startswith(f"{k} ")]
        if not v.reason:
            if keys:
                v = replace(v, reason=failed[keys[0]])
            else:  # Cohorts without entries were generated nevertheless.
                v = _without_entries(v, empty or {}, may_be_all=v.module == otherwise)
        for k in keys:
            left.pop(k, None)
        found.append(v)
    return found + [PartVerdict(otherwise, k, (), why, after=True) for k, why in left.items()]


def verdicts_without_entries(
    verdicts: Iterable[PartVerdict], empty: Mapping[int, str], generator: str
) -> list[PartVerdict]:
    """Return the verdicts on a database in which some cohorts have no entries.

    Parameters
    ----------
    empty : mapping of int to str
        Cohorts without entries, with their names.
    generator : str
        The module that generates cohorts, which runs nevertheless.
    """
    return [
        v if v.reason else _without_entries(v, empty, may_be_all=v.module == generator)
        for v in verdicts
    ]


def _without_entries(v: PartVerdict, empty: Mapping[int, str], *, may_be_all: bool) -> PartVerdict:
    """Return a verdict with the cohorts that have no entries, which all results may need."""
    gone = sorted({i for of in v.needs for i in of if i in empty})
    if not gone:
        return v
    named = ", ".join(f"{i} ({empty[i]})" for i in gone[:NAMED])
    more = f" and {len(gone) - NAMED:,} more" if len(gone) > NAMED else ""
    text = f"cohort {named}{more} has no entries" if len(gone) == 1 else (
        f"{len(gone):,} cohorts have no entries: {named}{more}"
    )  # fmt: skip
    lost = [of for of in v.needs if of & {*gone}]
    if len(lost) == len(v.needs) and not may_be_all:
        return replace(v, reason=text)
    if len(v.needs) > 1 and any(len(of) > 1 for of in v.needs):
        text += f", which {len(lost):,} of {len(v.needs):,} results need"
    return replace(v, remark=text)
