"""A site's record of its answers, and limits on the numbers that they disclose.

Sums over a table are linear equations in the sizes of its cells. Twenty evaluations of a model with
four 0/1 columns are more equations than the table has cells, so that these can be computed; since
sizes are not negative, somewhat fewer equations suffice. The ledger counts the numbers that a site
has helped to disclose, over all plans and sessions, and compares them with the number of different
combinations of values among its people. With few numbers per combination, the cells remain
undetermined. Beyond that (`OwnerRules.answers_per_cell`) a site answers only if no cell of the
table of all columns is too small.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..private_files import open_private
from .message_files import read_bytes
from .row_hashes import from_text, memberships

__all__ = [
    "Answered",
    "Ledger",
    "PlanRecord",
    "count_disclosed",
    "grids",
    "members_of",
    "refuse_differences",
]


@dataclass(frozen=True)
class Answered:
    """A request that a site has answered.

    Attributes
    ----------
    request : str
        The id of the request.
    numbers : int
        Number of numbers in the answer, in clear or within totals.
    """

    round: int
    request: str
    numbers: int


@dataclass
class PlanRecord:
    """A plan that a site has taken part in.

    Attributes
    ----------
    study : str
        Digest of the plan, which must be the same in all rounds.
    place : str
        Place where messages are exchanged; empty if they are not files.
    columns : list of str
        All columns that the plan names, in whatever role.
    outcome : str
        Column of the outcome or the time.
    times : list of float
        Grid of times.
    rows : str
        Digest of the site's rows, which must be the same in all rounds.
    withdrawn : bool
        Whether the site has withdrawn.
    totals : list of list of str
        The sets of sites over which answers were added; several if a site left.
    table : str
        Digest of the names of all columns of the site's table.
    members : str
        Keyed digests of the rows with a positive weight, in base64, or the ``study`` of an earlier
        plan with the same rows after an equals sign.
    rows_of_person : int
        The largest number of rows of a person.
    grouped : int
        Number of people whose values were replaced because their combination is rare.
    plan : dict
        The plan as plain values, if anyone's values were replaced.
    least, levels : int
        The owner's rules by which they were.
    """

    study: str
    place: str
    columns: list[str]
    outcome: str
    times: list[float]
    sites: list[str]
    people: int
    rows: str
    answered: list[Answered] = field(default_factory=list)
    withdrawn: bool = False
    totals: list[list[str]] = field(default_factory=list)
    table: str = ""
    members: str = ""
    rows_of_person: int = 1
    grouped: int = 0
    plan: dict[str, Any] = field(default_factory=dict)
    least: int = 0
    levels: int = 0


class Ledger:
    """The plans and answers of a site, kept in a file or in memory.

    Parameters
    ----------
    path : Path, optional
        A JSON file, created with the first answer; by default the ledger is kept in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._plans: list[PlanRecord] = []

    @contextmanager
    def open(self) -> Iterator[list[PlanRecord]]:
        """Lock the ledger and yield its plans, which are saved at the end."""
        if self.path is None:
            yield self._plans
            return
        with _locked(self.path.with_suffix(".lock")):
            plans = self._read()
            yield plans
            content = json.dumps({"plans": [asdict(p) for p in plans]}, indent=1) + "\n"
            part = self.path.with_suffix(".part")
            part.unlink(missing_ok=True)
            with os.fdopen(open_private(part, os.O_WRONLY | os.O_EXCL), "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)

    def _read(self) -> list[PlanRecord]:
        """Read the file."""
        assert self.path is not None
        if not self.path.exists():
            return []
        try:
            given = json.loads(read_bytes(self.path))
            return [_record(p) for p in given["plans"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.path} cannot be read ({error}). It is the record of this site's answers: "
                "restore it from a backup, and do not answer without it"
            ) from None


def _record(given: Mapping[str, Any]) -> PlanRecord:
    """Create a record from plain values."""
    answered = [Answered(**a) for a in given["answered"]]
    return PlanRecord(**{**given, "answered": answered})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a file; other processes wait for it."""
    with os.fdopen(open_private(path, os.O_RDWR), "w") as file:
        try:
            import fcntl
        except ImportError:  # on Windows the folder is used by one person only
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def count_disclosed(plans: list[PlanRecord], but: str = "") -> int:
    """Count the numbers disclosed so far, each request once, except the request ``but``."""
    each = {a.request: a.numbers for p in plans for a in p.answered if a.request != but}
    return sum(each.values())


def refuse_differences(
    plans: list[PlanRecord], own: PlanRecord, least: int, asked: Sequence[str] = ()
) -> list[str]:
    """Return sentences on plans with totals that differ by too few people, or by sites.

    A site knows only its own plans. If the site sets of all plans with a common site are equal, no
    combination of totals over different sets is a total over fewer sites (docs/federated_protocol).

    Parameters
    ----------
    plans : list of PlanRecord
        All plans of the ledger.
    own : PlanRecord
        The plan of the request.
    least : int
        The smallest number of people by which two plans may differ.
    asked : sequence of str
        The sites over which the answer will be added; by default those of the plan.
    """
    others = [plan for plan in plans if plan.study != own.study]
    if _few_apart(others, own, least):
        return [
            f"the data differ from those of an earlier plan by fewer than {least} people, who "
            "would follow by subtraction: use the same rows"
        ]
    for plan in others:
        if asked and plan.totals and sorted(asked) != plan.totals[-1]:
            return [
                "an earlier plan on these data had other sites, and the sums of single ones "
                "would follow by subtraction: name the same sites"
            ]
    return []


def _few_apart(others: list[PlanRecord], own: PlanRecord, least: int) -> bool:
    """Return whether some combination of the people of all plans is small."""
    for plan in others:
        if plan.table != own.table and 0 < abs(plan.people - own.people) < least:
            return True  # rows of different tables have no common digests
    alike = [plan for plan in others if plan.table == own.table and plan.members]
    if not alike:
        return False
    _, part = memberships([members_of(p, [*others, own]) for p in [*alike, own]])
    most = max(p.rows_of_person for p in [*alike, own])
    return bool((np.bincount(part) / most < least).any())


def members_of(plan: PlanRecord, plans: Sequence[PlanRecord]) -> np.ndarray:
    """Return the keyed digests of a plan's people, (k,) uint64."""
    members = plan.members
    if members.startswith("="):
        members = next((p.members for p in plans if p.study == members[1:]), "")
    return from_text(members)


def grids(plans: Sequence[PlanRecord], outcome: str) -> np.ndarray:
    """Return the union of the time grids of all plans with an outcome, ascending."""
    of = [p.times for p in plans if p.outcome == outcome]
    return np.unique(np.concatenate([np.asarray(t, float) for t in of]))
