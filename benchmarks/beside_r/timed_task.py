"""Processor seconds of one task in both programs, and files of such tasks."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

__all__ = ["HEADER", "REPEATS", "TimedTask", "fastest", "keep_time", "read_times"]

T = TypeVar("T")
REPEATS = 3  # of tasks shorter than ten seconds, of which the fastest counts
COLUMNS = ("data", "task", "R", "its seconds", "ours", "times as long", "its objective above ours")
HEADER = f"| {' | '.join(COLUMNS)} |\n|---|---|---|---:|---:|---:|---:|"


@dataclass(frozen=True)
class TimedTask:
    """Processor seconds of both programs, and how far R's objective is above ours.

    Attributes
    ----------
    data, task : str
        What was fitted to what.
    seconds, r_seconds : float
        Processor seconds on one thread, those of R without the conversion of its data.
    excess : float
        R's penalised objective less ours under the same prior; NaN where both chose a variance.
    finished : bool
        Whether R ended; if not, ``r_seconds`` is when it was stopped.
    other : str
        The package of R.
    """

    data: str
    task: str
    seconds: float
    r_seconds: float
    excess: float = math.nan
    finished: bool = True
    other: str = "Cyclops"

    def as_row(self) -> str:
        """Return a line of a Markdown table."""
        more = "" if self.finished else "> "
        excess = "" if math.isnan(self.excess) else f"{self.excess:.0e}"
        return (
            f"| {self.data} | {self.task} | {self.other} | {more}{self.r_seconds:.2f} | "
            f"{self.seconds:.2f} | {more}{self.r_seconds / self.seconds:.1f} | {excess} |"
        )


def read_times(path: Path | None) -> list[TimedTask]:
    """Read the tasks that a file of results has."""
    if path is None or not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [TimedTask(**json.loads(line)) for line in lines]


def keep_time(path: Path | None, task: TimedTask) -> TimedTask:
    """Append a task to a file of results."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(task)) + "\n")
    return task


def fastest(make: Callable[[], T]) -> tuple[T, float]:
    """Return what a call returns, and the processor seconds of the fastest repeat."""
    seconds = math.inf
    for _ in range(REPEATS):
        started = time.process_time()
        made = make()
        seconds = min(seconds, time.process_time() - started)
        if seconds > 10:
            break
    return made, seconds
