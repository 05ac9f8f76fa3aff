"""What a fit will take, before it starts: memory from what is stored, time from small trials.

The working set is not known beforehand: the figures are for one of a given size, of the columns
with the most entries. Time is that of the products and Hessians of a usual number of steps, in
units that a trial of some hundredths of a second gives on this machine. It is a matter of a factor
of two or three either way, enough to tell minutes from days.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import get_backend
from ..backends.cpu import NO_DATA, Lines

__all__ = [
    "Columns",
    "Estimate",
    "Estimated",
    "estimate",
    "free_memory",
    "least_memory",
    "too_large",
]

WORKING_SET = 1000  # columns, where a prior sets coefficients to zero and nobody says more
STEPS = 15  # of a fit from nothing,
HESSIANS = 6  # of which some are new,
VARIANCES = 12  # that a cross-validation looks at,
STEPS_EACH = 5  # steps of the folds at each
GROUP = 8  # folds that go together
VECTORS = 6  # arrays as long as the rows that a replicate has at once
ROW = 24  # bytes of a row's place among the rows of the working set
TRIAL = 200_000  # entries
WIDEST = 6000  # columns from which on a fit without an ℓ1 penalty may do without a Hessian


@dataclass(frozen=True)
class Columns:
    """What is stored of a design: entries of each column, (p,), and whether they have values."""

    n: int
    entries: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """What a fit will take.

    Attributes
    ----------
    memory : float
        Bytes beside X at the peak.
    x : float
        Bytes of X itself.
    seconds : float
        On this machine as busy as it is now.
    working_set : int
        Columns that this is for.
    parts : dict
        Bytes of ``rows`` of the working set, ``vectors`` of the replicates and ``hessian``.
    """

    memory: float
    x: float
    seconds: float
    working_set: int
    parts: dict[str, float]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {_bytes(size)}" for name, size in self.parts.items())
        return (
            f"about {_bytes(self.memory)} beside X ({parts}) and {_duration(self.seconds)}, with "
            f"a working set of {self.working_set:,} columns; X takes {_bytes(self.x)}"
        )


class Estimated(ABC):
    """A design that tells what a fit of it will take."""

    @abstractmethod
    def stored(self) -> Columns:
        """Entries of each column."""

    def estimate(
        self,
        *,
        folds: int = 0,
        sparse: bool = True,
        working_set: int | None = None,
        n_jobs: int | None = None,
    ) -> Estimate:
        """What a fit will take, or a cross-validation: memory, time.

        Parameters
        ----------
        folds : int
            Fits of a cross-validation, folds times repeats; 0 is a fit by itself.
        sparse : bool
            Whether the prior sets coefficients to zero (Laplace, elastic net). Otherwise all
            columns are worked on.
        working_set : int, optional
            Columns worked on at the end; default all, or 1,000 with ``sparse``.
        n_jobs : int, optional
            Threads, as of the estimator.

        Returns
        -------
        Estimate
            ``memory`` in bytes beside X, ``x`` in bytes, ``seconds``, and their parts; printed,
            a sentence. Memory is that of the columns with the most entries; time is right within
            a factor of two or three, on a machine as busy as it is now.
        """
        return estimate(self.stored(), folds, sparse, working_set, n_jobs)


def estimate(
    columns: Columns, folds: int, sparse: bool, working_set: int | None, threads: int | None,
    clock: Callable[[], float] = time.perf_counter,
) -> Estimate:  # fmt: skip
    """See `Estimated.estimate`; ``clock`` is what the trial is timed by."""
    n, p = columns.n, len(columns.entries)
    k = working_set if working_set is not None else (min(p, WORKING_SET) if sparse else p)
    k = min(k, p)
    full = columns.entries >= n  # dense: no places, only numbers
    most = np.argsort(-columns.entries, kind="stable")[:k]
    active, total = float(columns.entries[most].sum()), float(columns.entries.sum())
    replicates = max(folds, 0)
    parts = _parts(columns, replicates, k)
    entry, pair = _trial(threads, clock)
    pairs = active * active / max(n, 1) / 2
    seconds = STEPS * (3 * active + total / 3) * entry + HESSIANS * pairs * pair
    if replicates:
        groups = -(-replicates // GROUP)
        each = (1 + 2 * groups) * STEPS_EACH * (3 * active + total / 3) * entry
        seconds += VARIANCES * (each + 2 * pairs * pair)
    x = float(np.where(full, 8.0 * n, np.where(columns.values, 12.0, 4.0) * columns.entries).sum())
    return Estimate(sum(parts.values()), x, seconds, k, parts)


def least_memory(design: Any, sparse: bool) -> float:
    """Bytes beside X that any fit needs: vectors, and all columns by rows but under ``sparse``."""
    columns: Columns = design.stored()
    needed = _parts(columns, 0, 0 if sparse else len(columns.entries))
    if len(columns.entries) > WIDEST:  # there is no such matrix then
        needed["hessian"] = 0.0
    return sum(needed.values())


def _parts(columns: Columns, folds: int, k: int) -> dict[str, float]:
    """Bytes for a working set of the k columns with the most entries."""
    n = columns.n
    most = np.argsort(-columns.entries, kind="stable")[:k]
    entries, values = columns.entries[most], columns.values[most]
    cost = np.where(entries >= n, 8.0 * n, np.where(values, 10.0, 2.0) * entries)
    return {
        "rows": float(cost.sum()) + ROW * n,
        "vectors": 8.0 * n * VECTORS * (1 + min(folds, GROUP)) + 8.0 * n * 4 * folds,
        "hessian": 16.0 * k * k,
    }


def _trial(threads: int | None, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds for an entry of a product, and for a pair of entries of a Hessian, here and now."""
    backend = get_backend("cpu", threads)
    rng = np.random.default_rng(0)
    width, a_row = 500, 20
    rows = TRIAL // a_row
    places = np.sort(rng.integers(0, width // a_row, (rows, a_row)) + np.arange(a_row) * 25, axis=1)
    at = np.arange(rows, dtype=np.int64) * a_row
    lines = Lines(at, at + a_row, places.ravel().astype(np.uint16), NO_DATA, width)
    D, v = rng.normal(size=(width, 1)), np.ones(rows)

    def seconds(run: Callable[[], object]) -> float:
        run()  # compiled, or read from the cache
        start = clock()
        run()
        return max(clock() - start, 1e-6)

    entry = seconds(lambda: backend.gather(lines, D)) / TRIAL
    pair = seconds(lambda: backend.gram(lines, v, np.zeros((width, width)))) / (TRIAL * a_row / 2)
    return entry, pair


def free_memory() -> float:
    """Bytes that this process may still have; infinite where that cannot be told."""
    free = np.inf
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = 1024.0 * float(line.split()[1])
        most = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if most != "max":
            used = float(Path("/sys/fs/cgroup/memory.current").read_text())
            free = min(free, max(float(most) - used, 0.0))
    except (OSError, ValueError):
        pass
    return free


def too_large(needed: float, free: float, n: int) -> str:
    """Say that a fit does not fit, and the three ways out."""
    rows = max(int(n * free / needed / 2), 1)
    return (
        f"The fit needs about {_bytes(needed)} of memory beside X, and {_bytes(free)} are free. "
        f"There are three ways out: fit a sample of rows (some {rows:,} of {n:,} would do); put "
        "blocks of rows on several machines, ShardedDesign.from_parquet(…, client=client); or "
        "keep them on disk, ShardedDesign.from_parquet(…, folder=folder)."
    )


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB" if size < 1000 else f"{size:,.0f} GB"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(seconds, 1):.0f} seconds"
    if seconds < 6000:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:,.0f} hours"
