"""What a fit will take, before it starts: memory from what is stored, time from small trials.

The working set is not known beforehand: the figures are for one of a given size, of the columns
with the most entries. Time is that of the products, Hessians and likelihoods of a usual number of
steps, in units that trials of some hundredths of a second give on this machine. The numbers of
steps and passes are those with which `python -m benchmarks.estimates` is met.
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
from ..backends.blas_threads import single_threaded_blas
from ..backends.cpu import NO_DATA, Lines
from ..errors import DataError

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
PASSES = 35  # over all entries: scales, looks at all columns, certificate,
EXPONENTIALS = 40  # that a row's likelihood costs in a step,
VARIANCES = 12  # that a cross-validation looks at,
STEPS_EACH = 3  # steps of the folds at each
STEPS_DRAW = 8  # of a draw of a bootstrap
GROUP = 8  # replicates that go together,
LANES = 0.5  # and what an entry costs one of them, in that of one by itself
VECTORS = 14  # arrays as long as the rows that a fit has at once,
LANE_VECTORS = 6  # and each of the replicates beside it
COPIES = 2  # of all dense columns: centred, and as they are looked at
LEAST = 1e7  # bytes that any fit takes
ROW = 24  # bytes of a row's place among the rows of the working set
TRIAL = 200_000  # entries
DENSE_TRIAL = (3000, 64)  # rows, columns
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
        Bytes of ``rows`` of the working set, ``vectors`` of the replicates, the ``hessian``,
        copies of ``dense`` columns, and a ``base``.
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
        draws: int = 0,
        sparse: bool = True,
        working_set: int | None = None,
        n_jobs: int | None = None,
    ) -> Estimate:
        """What a fit will take, or a cross-validation: memory, time.

        Parameters
        ----------
        folds : int
            Fits of a cross-validation, folds times repeats; 0 is a fit by itself.
        draws : int
            Draws of a bootstrap, beside the fit.
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
            a sentence. Memory is that of the columns with the most entries. Where ``working_set``
            is what the fit ends with, time is right within a factor of 2.5 and memory of 1.6 in
            18 measured cases of 0.2 to 6 seconds (benchmarks/history/2026-11.md), on a machine as
            busy as it is now; thousands of strongly correlated columns in the model were not among
            them and take longer.

        Raises
        ------
        DataError
            Numbers that are negative.
        """
        for name, number in (("folds", folds), ("draws", draws), ("working_set", working_set)):
            if number is not None and number < 0:
                raise DataError(f"{name} must be a whole number from 0, not {number}.")
        return estimate(self.stored(), folds, draws, sparse, working_set, n_jobs)


def estimate(
    columns: Columns, folds: int, draws: int, sparse: bool, working_set: int | None,
    threads: int | None, clock: Callable[[], float] = time.perf_counter,
) -> Estimate:  # fmt: skip
    """See `Estimated.estimate`; ``clock`` is what the trials are timed by."""
    n, p = columns.n, len(columns.entries)
    k = working_set if working_set is not None else (min(p, WORKING_SET) if sparse else p)
    k = min(k, p)
    most = np.argsort(-columns.entries, kind="stable")[:k]
    full = columns.entries >= n  # dense: no places, only numbers
    parts = {**_parts(columns, max(folds, min(draws, GROUP)), folds, k), "base": LEAST}
    parts["dense"] = 8.0 * n * (COPIES * float(full.sum()) + float(full[most].sum()))
    work = _Work.of(columns, most, _trials(threads, clock))
    seconds = work.read + STEPS * work.step + HESSIANS * work.hessian
    if folds:
        steps = STEPS_EACH * (work.step + folds * work.lane)
        groups = -(-folds // GROUP)
        seconds += VARIANCES * (steps + 2 * work.hessian + groups * work.look)
    seconds += draws * STEPS_DRAW * work.lane
    x = float(np.where(full, 8.0 * n, np.where(columns.values, 12.0, 4.0) * columns.entries).sum())
    return Estimate(sum(parts.values()), x, seconds, k, parts)


@dataclass(frozen=True)
class _Work:
    """Seconds of what fits are made of.

    Attributes
    ----------
    read : float
        All passes over X of one fit.
    step : float
        Of a single fit, over the working set,
    lane : float
        and of one replicate among others.
    hessian : float
        Of the working set.
    look : float
        At all columns, of replicates together.
    """

    read: float
    step: float
    lane: float
    hessian: float
    look: float

    @classmethod
    def of(cls, columns: Columns, most: np.ndarray, unit: _Units) -> _Work:
        """For a working set ``most``."""
        n = columns.n
        dense = columns.entries[most] >= n
        active = float(columns.entries[most][~dense].sum())
        numbers = float(n) * float(dense.sum())
        total = float(columns.entries.sum())
        products = 3 * (active * unit.entry + numbers * unit.number)
        rows = EXPONENTIALS * n * unit.exponential
        pairs = active * active / max(n, 1) / 2 + active * float(dense.sum())
        squares = numbers * float(dense.sum()) / 2
        return cls(
            PASSES * total * unit.entry, products + rows, LANES * products + rows,
            pairs * unit.pair + squares * unit.square, GROUP * LANES * total * unit.entry,
        )  # fmt: skip


def least_memory(design: Any, sparse: bool) -> float:
    """Bytes beside X that any fit needs: vectors, and all columns by rows but under ``sparse``."""
    columns: Columns = design.stored()
    needed = _parts(columns, 0, 0, 0 if sparse else len(columns.entries), LANE_VECTORS)
    if len(columns.entries) > WIDEST:  # there is no such matrix then
        needed["hessian"] = 0.0
    return sum(needed.values())


def _parts(
    columns: Columns, lanes: int, folds: int, k: int, vectors: int = VECTORS
) -> dict[str, float]:
    """Bytes for a working set of the k columns with the most entries."""
    n = columns.n
    most = np.argsort(-columns.entries, kind="stable")[:k]
    entries, values = columns.entries[most], columns.values[most]
    cost = np.where(entries >= n, 8.0 * n, np.where(values, 10.0, 2.0) * entries)
    beside = LANE_VECTORS * min(lanes, GROUP) + 4 * folds
    return {
        "rows": float(cost.sum()) + ROW * n,
        "vectors": 8.0 * n * (vectors + beside),
        "hessian": 16.0 * k * k,
    }


@dataclass(frozen=True)
class _Units:
    """Seconds, here and now.

    Attributes
    ----------
    entry, number : float
        Of a sparse and of a dense column in a product.
    pair, square : float
        Of entries, and of numbers, in a Hessian.
    exponential : float
    """

    entry: float
    number: float
    pair: float
    square: float
    exponential: float


@single_threaded_blas()
def _trials(threads: int | None, clock: Callable[[], float]) -> _Units:
    backend = get_backend("cpu", threads)
    rng = np.random.default_rng(0)
    width, a_row = 500, 20
    rows = TRIAL // a_row
    places = np.sort(rng.integers(0, width // a_row, (rows, a_row)) + np.arange(a_row) * 25, axis=1)
    at = np.arange(rows, dtype=np.int64) * a_row
    lines = Lines(at, at + a_row, places.ravel().astype(np.uint16), NO_DATA, width)
    D, v = rng.normal(size=(width, 1)), np.ones(rows)
    X = rng.normal(size=DENSE_TRIAL)
    x, squares = np.ones((X.shape[1], 1)), X.shape[1] * X.size / 2

    def seconds(run: Callable[[], object]) -> float:
        run()  # compiled, or read from the cache
        start = clock()
        run()
        return max(clock() - start, 1e-6)

    gram = seconds(lambda: backend.gram(lines, v, np.zeros((width, width))))
    return _Units(
        entry=seconds(lambda: backend.gather(lines, D)) / TRIAL,
        number=seconds(lambda: X @ x) / X.size,
        pair=gram / (TRIAL * a_row / 2),
        square=seconds(lambda: X.T @ (X * 0.5)) / squares,
        exponential=seconds(lambda: np.exp(-np.abs(X))) / X.size,
    )  # fmt: skip


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
