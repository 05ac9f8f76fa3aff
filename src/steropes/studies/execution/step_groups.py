"""Steps of a grid: each is stored when it is complete, and an interrupted run omits those stored.

Every study design divides its work into groups of steps that share their preparation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from steropes.errors import DataError, SeparationError
from steropes.models.progress import counted_steps
from steropes.studies.execution.store import ResultStore

__all__ = ["REFUSED", "Say", "StepGroup", "Tables", "run_steps"]

# Errors that concern a single result: its rows give the reason, and the run continues.
REFUSED = (DataError, SeparationError, np.linalg.LinAlgError)

Tables = dict[str, list[dict[str, Any]]]
Say = Callable[[str], None]


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
        Takes the parallel processes (None for a single one) and yields name and rows of each of
        these steps.
    """

    title: str
    names: tuple[str, ...]
    answer: Callable[[Any], Iterator[tuple[str, Tables]]]


def run_steps(groups: Sequence[StepGroup], store: ResultStore, say: Say, jobs: int = 1) -> None:
    """Run the steps and store the rows of each before the next rows are computed."""
    total, done = sum(len(group.names) for group in groups), 0
    with _workers(jobs) as parallel, counted_steps(total) as report:
        for group in groups:
            if not group.names:
                continue
            say(f"{group.title} ({done + 1:,} of {total:,})")
            for name, tables in group.answer(parallel):
                store.add(name, tables)
                done += 1
                report(done)


def _workers(jobs: int) -> AbstractContextManager[object]:
    """Start processes for the whole run; none if one is enough."""
    if jobs == 1:
        return nullcontext()
    from joblib import Parallel

    workers: AbstractContextManager[Any] = Parallel(n_jobs=jobs)
    return workers
