"""The steps of a grid, in their order: what outcomes share, then the outcomes, by several at once.

What a step finds is stored before the next one's results are waited for, so that a process that is
killed has lost no more than what it was at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from steropes.errors import DataError, SeparationError
from steropes.studies.comparative.outcome_analysis import Prepared
from steropes.studies.comparative.positive_controls import add_positive_controls
from steropes.studies.comparative.settings import Question, StudyAnalysis
from steropes.studies.database.data_notes import DataNote, distinct, note_rows
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics
from steropes.studies.execution.analysis_cache import Workbench
from steropes.studies.execution.specification import GridSpec
from steropes.studies.execution.store import ResultStore
from steropes.studies.results.comparative_results import (
    diagnostics_row,
    outcome_tables,
    specification_tables,
)
from steropes.studies.results.shared_tables import comparison_id, shared_tables

__all__ = ["work_through"]

REFUSED = (DataError, SeparationError, np.linalg.LinAlgError)
AT_ONCE = 4  # outcomes for each process before their results are stored

Tables = dict[str, list[dict[str, Any]]]
Say = Callable[[str], None]


@dataclass(frozen=True, repr=False, eq=False)
class _Task:
    """An outcome to answer, with all that it takes."""

    prepared: Prepared
    outcome: int
    database: str
    with_balance: bool


def work_through(
    db: OmopDatabase, spec: GridSpec, store: ResultStore, say: Say, jobs: int = 1
) -> None:
    """Do what is not done yet.

    Parameters
    ----------
    db : OmopDatabase
    spec : GridSpec
    store : ResultStore
        Knows what is done.
    say : callable
        Told each step.
    jobs : int, default 1
        Processes.
    """
    done = store.done
    say("making cohorts")
    found = spec.make_cohorts(db)
    refused = found.refused
    questions = spec.questions
    blocked = {comparison_id(q): _blocked(q, refused) for q in questions}
    cohorts = found.table
    if cohorts is None or all(blocked.values()):
        raise DataError("; ".join(dict.fromkeys(w for w in blocked.values() if w)))
    for why in refused.values():
        say(f"left out: {why}")
    for cohort in spec.unused:
        say(f"not used: cohort {cohort}, which no question and no analysis asks for")
    made: list[dict[str, Any]] = []
    if spec.controls.positive is not None:
        bench = Workbench(spec.of_compared(db, refused), cohorts)
        good = tuple(q for q in questions if not blocked[comparison_id(q)])
        added = add_positive_controls(bench, good, spec.analyses, spec.controls.positive, say)
        cohorts, made = added.cohorts, added.made
        more = {comparison_id(q): q for q in added.questions}
        questions = tuple(more.get(comparison_id(q), q) for q in questions)
    if "specification" not in done:
        tables = specification_tables(questions, spec.analyses)
        tables["database"] = [{"database_id": spec.database_id, **db.provenance()}]
        tables["positive_control"] = [{**row, "database_id": spec.database_id} for row in made]
        names = {o.id for q in questions for o in q.outcomes}
        names |= {c for q in questions for c in (q.target, q.comparator)}
        tables["cohort"] = [{"cohort_id": c, "name": cohorts.name(c)} for c in sorted(names)]
        where = {"database_id": spec.database_id}
        left_out = (DataNote("left_out", f"Left out: {w}", warning=True) for w in refused.values())
        notes = distinct((*left_out, *cohorts.notes))
        tables["data_note"] = note_rows(notes, where)
        store.add("specification", tables)
    bench = Workbench(spec.of_compared(db, refused), cohorts, spec.thresholds)
    groups = [(q, a, _left(q, a, done)) for q in questions for a in spec.analyses]
    clock = _Clock(sum(len(left) for *_, left in groups))
    with _workers(jobs) as parallel:
        last: Question | None = None
        for question, analysis, left in groups:
            if not left:
                continue
            if last is not question:
                bench.forget()
                last = question
            say(f"{analysis.description or f'analysis {analysis.id}'} ({clock})")
            why = blocked[comparison_id(question)] or refused.get(analysis.competing or -1, "")
            group = _Group(bench, spec, question, analysis, refused, why)
            _work(group, left, store, parallel, clock, jobs)


def _blocked(question: Question, refused: dict[int, str]) -> str:
    """Why a question cannot be asked at all; nothing if it can."""
    needed = [question.target, question.comparator, question.nesting]
    outcomes = [o.id for o in question.outcomes if o.of_interest]
    if outcomes and all(o in refused for o in outcomes):
        needed += outcomes  # controls alone answer nothing
    return next((refused[c] for c in needed if c is not None and c in refused), "")


@dataclass(frozen=True, repr=False, eq=False)
class _Group:
    """A question and an analysis; which outcomes cannot be answered; why none of them can."""

    bench: Workbench
    spec: GridSpec
    question: Question
    analysis: StudyAnalysis
    refused: dict[int, str]
    blocked: str

    def prepared(self) -> Prepared:
        """With what all outcomes share."""
        if self.blocked:
            raise DataError(self.blocked)
        return self.bench.prepared(self.question, self.analysis)

    def shared_rows(self, prepared: Prepared) -> Tables:
        """The rows that all outcomes share, with the notes on the data of both cohorts."""
        spec = self.spec
        key = {
            "target_comparator_id": comparison_id(self.question),
            "analysis_id": self.analysis.id,
            "database_id": spec.database_id,
        }
        features = prepared.shared.features
        notes = distinct((*prepared.comparison.notes, *(features.notes if features else ())))
        return {
            **shared_tables(self.question, self.analysis, prepared.shared, spec.database_id),
            "data_note": note_rows(notes, key),
        }

    def refusal(self, outcome: int, why: str) -> Tables:
        """The rows of what could not be answered: they say why."""
        key = {
            "target_comparator_id": comparison_id(self.question),
            "outcome_id": outcome,
            "analysis_id": self.analysis.id,
            "database_id": self.spec.database_id,
        }
        counts = ("subjects", "days", "outcomes")
        nobody = {f"{arm}_{c}": 0 for arm in ("target", "comparator") for c in counts}
        none_told = {"target_informative": 0, "comparator_informative": 0}
        none = Diagnostics(detectable=math.inf, thresholds=self.spec.thresholds)
        return {
            "cm_result": [
                {**key, **nobody, **none_told, "target_estimator": self.analysis.estimates()}
            ],
            "cm_diagnostics_summary": [{**key, **diagnostics_row(none)}],
            "note": [{**key, "note": why}],
        }


def _left(question: Question, analysis: StudyAnalysis, done: set[str]) -> list[tuple[str, int]]:
    """Steps of a question and an analysis that are not done, with their outcomes; −1 is shared."""
    name = f"{comparison_id(question)} {analysis.id}"
    steps = [(name, -1), *((f"{name} {o.id}", o.id) for o in question.outcomes)]
    return [s for s in steps if s[0] not in done]


def _work(
    group: _Group,
    left: list[tuple[str, int]],
    store: ResultStore,
    parallel: Any,
    clock: _Clock,
    jobs: int,
) -> None:
    """All that is left to do of a question and an analysis."""
    spec, question = group.spec, group.question
    where = spec.database_id
    try:
        prepared = group.prepared()
    except REFUSED as error:
        for name, outcome in left:
            store.add(name, {} if outcome < 0 else group.refusal(outcome, str(error)))
            clock.tick()
        return
    if left[0][1] < 0:
        store.add(left[0][0], group.shared_rows(prepared))
        clock.tick()
        left = left[1:]
    of_interest = {o.id for o in question.outcomes if o.of_interest}
    if parallel is not None:
        prepared = prepared.packed()
    asked = [(name, o) for name, o in left if o not in group.refused]
    for name, outcome in left:
        if outcome in group.refused:
            store.add(name, group.refusal(outcome, group.refused[outcome]))
            clock.tick()
    tasks = [_Task(prepared, o, where, o in of_interest) for _, o in asked]
    for (name, outcome), found in zip(asked, _answers(tasks, parallel, jobs), strict=True):
        store.add(name, group.refusal(outcome, found) if isinstance(found, str) else found)
        clock.tick()


def _answers(tasks: list[_Task], parallel: Any, jobs: int) -> Iterator[Tables | str]:
    """What is found of each task, in their order."""
    if parallel is None:
        yield from map(_answer, tasks)
        return
    from joblib import delayed

    size = AT_ONCE * jobs
    for first in range(0, len(tasks), size):
        yield from parallel(delayed(_answer)(t) for t in tasks[first : first + size])


def _answer(task: _Task) -> Tables | str:
    """The rows of an outcome, or why there are none."""
    try:
        result = task.prepared.answer(task.outcome)
    except REFUSED as error:
        return str(error)
    return outcome_tables(result, task.database, with_balance=task.with_balance)


def _workers(jobs: int) -> AbstractContextManager[Any]:
    """Processes that stay for the whole grid; none where one is enough."""
    if jobs == 1:
        return nullcontext()
    from joblib import Parallel

    workers: AbstractContextManager[Any] = Parallel(n_jobs=jobs)
    return workers


class _Clock:
    """How many steps are done, and how long the others may take."""

    def __init__(self, steps: int) -> None:
        self.steps, self.done = steps, 0
        self.began = time.monotonic()

    def tick(self) -> None:
        """A step is done."""
        self.done += 1

    def __str__(self) -> str:
        if not self.done:
            return f"{self.steps:,} steps"
        left = (time.monotonic() - self.began) / self.done * (self.steps - self.done)
        remaining = f"; about {left / 60:.0f} minutes left" if left > 90 else ""
        return f"{self.done:,} of {self.steps:,}{remaining}"
