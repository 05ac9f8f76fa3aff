"""Steps of a study, stored as they complete, so that an interrupted run can continue.

Every study design divides its work into groups of steps that share their preparation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from steropes.errors import DataError, SeparationError
from steropes.fit.parallel_tasks import has_parallel_backend, run_tasks
from steropes.models.fitting.progress_messages import counted_steps
from steropes.studies.disclosure import DisclosureRules, applied_rules, rules_in_force
from steropes.studies.execution.result_store import ResultStore, Rows

__all__ = [
    "REFUSED",
    "Say",
    "StepGroup",
    "Tables",
    "draws_in_tasks",
    "run_in_processes",
    "run_steps",
]

# Errors that concern a single result: its rows give the reason, and the run continues.
REFUSED = (DataError, SeparationError, np.linalg.LinAlgError)

Tables = dict[str, Rows]
Say = Callable[[str], None]
Common = TypeVar("Common")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class StepGroup:
    """Steps that share their preparation.

    Attributes
    ----------
    title : str
        Description for the progress line.
    names : tuple of str
        Names of the steps that are not stored yet.
    answer : callable
        Takes the number of processes and yields name and rows of each of these steps. Only the
        first of them may be computed by this process.
    prepare : callable, optional
        Makes what ``answer`` starts from and keeps it, while other processes compute the steps of
        the group before.
    """

    title: str
    names: tuple[str, ...]
    answer: Callable[[int], Iterator[tuple[str, Tables]]]
    prepare: Callable[[], object] | None = None


def run_steps(groups: Sequence[StepGroup], store: ResultStore, say: Say, jobs: int = 1) -> None:
    """Run the steps and store their rows; an interrupted run stores the complete steps."""
    groups = [group for group in groups if group.names]
    total, done = sum(len(group.names) for group in groups), 0
    with counted_steps(total) as report, store.buffered() as add:
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            say(f"{group.title} ({done + 1:,} of {total:,})")
            for k, (name, tables) in enumerate(group.answer(jobs)):
                add(name, tables)
                done += 1
                report(done)
                if k == 1 and jobs > 1 and following is not None and following.prepare is not None:
                    with suppress(Exception):  # It is raised again when the group is answered.
                        following.prepare()


@contextmanager
def draws_in_tasks(jobs: int) -> Iterator[None]:
    """Let bootstrap draws be fitted in tasks of a few draws by several processes.

    The tasks are the same with one process, so that results do not depend on their number.
    """
    from joblib import parallel_config

    if jobs > 1:
        with parallel_config(n_jobs=jobs):
            yield
    elif has_parallel_backend():
        yield
    else:
        with parallel_config(backend="sequential"):
            yield


def run_in_processes(
    function: Callable[[Common, Task], Result], common: Common, tasks: Sequence[Task], jobs: int
) -> Iterator[Result]:
    """Yield ``function(common, task)`` for each task, in order, computed by several processes.

    The common data are sent to each process once. Processes apply the disclosure rules of this
    run, which they would not know otherwise, and import modules from the same folders, although
    they may be older than an entry of ``sys.path``.
    """
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            yield function(common, task)
        return
    from joblib import parallel_config

    work = _Work(function, common, rules_in_force(), tuple(sys.path))
    with parallel_config(n_jobs=jobs):
        yield from run_tasks(_run_under_rules, work, tasks)


@dataclass(frozen=True, repr=False, eq=False)
class _Work(Generic[Common, Task, Result]):
    """A function with the data that all tasks share, and the rules and folders of the run."""

    function: Callable[[Common, Task], Result]
    common: Common
    rules: DisclosureRules
    folders: tuple[str, ...]


def _run_under_rules(work: _Work[Common, Task, Result], task: Task) -> Result:
    """Run a task under the disclosure rules of the run."""
    sys.path.extend(folder for folder in work.folders if folder not in sys.path)
    with applied_rules(work.rules):
        return work.function(work.common, task)
