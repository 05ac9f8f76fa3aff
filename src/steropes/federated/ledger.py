"""A site's record of its answers, and the limit on the numbers that become known from them.

Sums over a table of cells are linear equations in the sizes of the cells. Twenty evaluations of a
model with four 0/1 columns are more equations than the table has cells, so that its cells can be
solved for; with the condition that sizes are not negative, somewhat fewer equations suffice. The
ledger counts the numbers that a site has helped to make known, over all plans and sessions, and
compares them with the combinations of values among its own people. Few of the former per one of the
latter leave the cells undetermined. Beyond that (`OwnerRules.answers_per_cell`) a site answers only
if no cell of the table of all columns is too small to be known.
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
from .encoding import read_bytes

__all__ = ["Answered", "Ledger", "PlanRecord", "grids", "refuse_differences", "told"]


@dataclass(frozen=True)
class Answered:
    """A request that a site has answered.

    Attributes
    ----------
    round : int
    request : str
        Its id.
    numbers : int
        How many numbers the answer told, alone or within totals.
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
        The plan's digest, to which later rounds are held.
    place : str
        Where its messages are exchanged; empty where they are not files.
    columns : list of str
        Covariates.
    outcome : str
        The column of the outcome or the time.
    times : list of float
        The grid.
    sites : list of str
    people : int
        At this site.
    rows : str
        A digest of the site's rows, which must be the same in every round.
    answered : list of Answered
    withdrawn : bool
        Whether the site has stated that it takes no further part.
    totals : list of list of str
        The sites over which the answers were added up. Where a site left, there are several sets.
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


class Ledger:
    """The plans and answers of a site, kept in a file or in memory.

    Parameters
    ----------
    path : Path, optional
        A JSON file, which is made when the first answer is recorded.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._plans: list[PlanRecord] = []

    @contextmanager
    def open(self) -> Iterator[list[PlanRecord]]:
        """The plans, to be read and changed by one process at a time; saved at the end."""
        if self.path is None:
            yield self._plans
            return
        with _locked(self.path.with_suffix(".lock")):
            plans = self._read()
            yield plans
            content = json.dumps({"plans": [asdict(p) for p in plans]}, indent=1) + "\n"
            part = self.path.with_suffix(".part")
            part.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(part, flags, 0o600), "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)

    def _read(self) -> list[PlanRecord]:
        assert self.path is not None
        if not self.path.exists():
            return []
        try:
            given = json.loads(read_bytes(self.path))
            return [_record(p) for p in given["plans"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.path} cannot be read ({error}). It holds what this site has answered so "
                "far: restore it from a backup, and do not answer without it"
            ) from None


def _record(given: Mapping[str, Any]) -> PlanRecord:
    answered = [Answered(**a) for a in given["answered"]]
    return PlanRecord(**{**given, "answered": answered})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file; processes that want it wait."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        try:
            import fcntl
        except ImportError:  # Windows: the folder is one person's
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def told(plans: list[PlanRecord], but: str = "") -> int:
    """The numbers told so far, each request counted once, and one of them not at all."""
    each = {a.request: a.numbers for p in plans for a in p.answered if a.request != but}
    return sum(each.values())


def refuse_differences(
    plans: list[PlanRecord], own: PlanRecord, least: int, sites: int, asked: Sequence[str] = ()
) -> list[str]:
    """Sentences on plans whose totals differ by too few people, sites or times.

    Parameters
    ----------
    own : PlanRecord
        The plan to be answered.
    least : int
        Fewest people that two plans may differ by.
    sites : int
        Fewest sites that totals of two plans may differ by.
    asked : sequence of str
        The sites over which the answer will be added up; default those of the plan.
    """
    for plan in plans:
        if plan.study == own.study:
            continue
        if 0 < abs(plan.people - own.people) < least:
            return [
                f"the data differ from those of an earlier plan by fewer than {least} people, who "
                "would follow by subtraction: use the same rows"
            ]
        if plan.outcome != own.outcome and not set(plan.columns) & set(own.columns):
            continue
        now = {*(asked or own.sites)}
        for then in map(set, plan.totals or [plan.sites]):
            if any(0 < len(off) < sites for off in (then - now, now - then)):
                return [
                    "an earlier plan on these data had other sites, and the sums of single ones "
                    f"would follow by subtraction: name the same sites, or at least {sites} more"
                ]
    return []


def grids(plans: list[PlanRecord], own: PlanRecord) -> np.ndarray:
    """All times that grids of plans on the same outcome have, ascending."""
    of = [p.times for p in [*plans, own] if p.outcome == own.outcome]
    return np.unique(np.concatenate([np.asarray(t, float) for t in of]))
