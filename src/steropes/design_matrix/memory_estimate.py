"""Estimates of the memory and time of a fit, from the stored entries and small timing trials.

The working set is not known in advance, so an estimate assumes a given size and the columns with
the most entries. The time is that of the products, Hessians and likelihoods of a typical number of
steps, in units measured on this machine by trials of a few hundredths of a second. The numbers of
steps and passes are calibrated by `python -m benchmarks.estimates`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..backends import host_backend
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


# The rows and columns of a dense timing trial.
DENSE_TRIAL = (3000, 64)


@dataclass(frozen=True)
class CostModel:
    """Typical numbers of operations and arrays of a fit.

    Attributes
    ----------
    working_set : int
        Default size of the working set if the prior sets coefficients to zero.
    steps : int
        Number of steps of a fit without a warm start.
    passes : int
        Number of passes over all entries: scales, gradients of all columns and the
        certificate.
    exponentials : int
        Cost of a row's likelihood in a step, in exponentials.
    variances : int
        Number of variances that a cross-validation evaluates.
    steps_per_variance : int
        Number of steps of the folds at each variance.
    steps_per_draw : int
        Number of steps of a bootstrap draw.
    lanes : int
        Number of replicates that are solved together.
    lane_cost : float
        Cost of an entry for one of these replicates, relative to a single fit.
    vectors : int
        Number of arrays with an entry per row that a fit holds at its peak.
    lane_vectors : int
        Number of such arrays for each further replicate.
    dense_copies : int
        Number of copies of all dense columns: centred, and for gradients of all columns.
    min_bytes : float
        Memory of any fit in bytes.
    row_bytes : int
        Bytes of index data for a row of the working set.
    trial_entries : int
        Number of entries in a timing trial.
    max_hessian_columns : int
        Number of columns above which a fit without an ℓ1 penalty may use no Hessian.
    """

    working_set: int = 1000
    steps: int = 15
    hessians: int = 6
    passes: int = 35
    exponentials: int = 40
    variances: int = 12
    steps_per_variance: int = 3
    steps_per_draw: int = 8
    lanes: int = 8
    lane_cost: float = 0.5
    vectors: int = 14
    lane_vectors: int = 6
    dense_copies: int = 2
    min_bytes: float = 1e7
    row_bytes: int = 24
    trial_entries: int = 200_000
    max_hessian_columns: int = 6000


COSTS = CostModel()


@dataclass(frozen=True)
class Columns:
    """Stored entries of each column, (p,), and whether the column stores values."""

    n: int
    entries: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """Estimated memory and time of a fit.

    Attributes
    ----------
    memory : float
        Peak memory in bytes in addition to X.
    x : float
        Bytes of X.
    seconds : float
        Time on this machine at its present load.
    working_set : int
        Assumed size of the working set.
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
            f"about {_bytes(self.memory)} in addition to X ({parts}) and "
            f"{_duration(self.seconds)}, with a working set of {self.working_set:,} columns; "
            f"X takes {_bytes(self.x)}"
        )


class Estimated(ABC):
    """Base class of designs that estimate the memory and time of a fit."""

    @abstractmethod
    def stored(self) -> Columns:
        """Count the stored entries of each column."""

    def estimate(
        self,
        *,
        folds: int = 0,
        draws: int = 0,
        sparse: bool = True,
        working_set: int | None = None,
        n_jobs: int | None = None,
    ) -> Estimate:
        """Estimate the memory and time of a fit, cross-validation or bootstrap.

        Parameters
        ----------
        folds : int
            Number of fits of a cross-validation, folds times repeats; 0 means a single fit.
        draws : int
            Number of bootstrap draws in addition to the fit.
        sparse : bool
            Whether the prior sets coefficients to zero (Laplace, elastic net). Otherwise the
            working set contains all columns.
        working_set : int, optional
            Final size of the working set. Default: all columns, or at most 1,000 with ``sparse``.
        n_jobs : int, optional
            Number of threads, as in the estimators.

        Returns
        -------
        Estimate
            ``memory`` in bytes in addition to X, ``x`` in bytes, ``seconds`` and ``parts``; it
            prints as a sentence. The working set is assumed to consist of the columns with the most
            entries. With the true final size as ``working_set``, time was within a factor of 2.5
            and memory within 1.6 in 18 measured cases of 0.2 to 6 seconds
            (benchmarks/history/2026-11.md) at constant load. Models with thousands of strongly
            correlated columns were not measured and take longer.

        Raises
        ------
        DataError
            If a number is negative.
        """
        for name, number in (("folds", folds), ("draws", draws), ("working_set", working_set)):
            if number is not None and number < 0:
                raise DataError(f"{name} must be a whole number from 0, not {number}.")
        return estimate(self.stored(), folds, draws, sparse, working_set, n_jobs)


def estimate(
    columns: Columns, folds: int, draws: int, sparse: bool, working_set: int | None,
    threads: int | None, clock: Callable[[], float] = time.perf_counter,
) -> Estimate:  # fmt: skip
    """See `Estimated.estimate`; ``clock`` times the trials."""
    n, p = columns.n, len(columns.entries)
    k = working_set if working_set is not None else (min(p, COSTS.working_set) if sparse else p)
    k = min(k, p)
    most = np.argsort(-columns.entries, kind="stable")[:k]
    full = columns.entries >= n  # dense columns store no row numbers
    parts = {
        **_parts(columns, max(folds, min(draws, COSTS.lanes)), folds, k),
        "base": COSTS.min_bytes,
    }
    parts["dense"] = 8.0 * n * (COSTS.dense_copies * float(full.sum()) + float(full[most].sum()))
    work = _Work.of(columns, most, _trials(threads, clock))
    seconds = work.read + COSTS.steps * work.step + COSTS.hessians * work.hessian
    if folds:
        steps = COSTS.steps_per_variance * (work.step + folds * work.lane)
        groups = -(-folds // COSTS.lanes)
        seconds += COSTS.variances * (steps + 2 * work.hessian + groups * work.look)
    seconds += draws * COSTS.steps_per_draw * work.lane
    x = float(np.where(full, 8.0 * n, np.where(columns.values, 12.0, 4.0) * columns.entries).sum())
    return Estimate(sum(parts.values()), x, seconds, k, parts)


@dataclass(frozen=True)
class _Work:
    """Seconds of the parts of a fit.

    Attributes
    ----------
    read : float
        All passes of one fit over X.
    step : float
        A step of a single fit over the working set.
    lane : float
        A step of one replicate that is solved with others.
    hessian : float
        A Hessian of the working set.
    look : float
        The gradients of all columns for replicates that are solved together.
    """

    read: float
    step: float
    lane: float
    hessian: float
    look: float

    @classmethod
    def of(cls, columns: Columns, most: np.ndarray, unit: _Units) -> _Work:
        """Compute the seconds for a working set ``most``."""
        n = columns.n
        dense = columns.entries[most] >= n
        active = float(columns.entries[most][~dense].sum())
        numbers = float(n) * float(dense.sum())
        total = float(columns.entries.sum())
        products = 3 * (active * unit.entry + numbers * unit.number)
        rows = COSTS.exponentials * n * unit.exponential
        pairs = active * active / max(n, 1) / 2 + active * float(dense.sum())
        squares = numbers * float(dense.sum()) / 2
        return cls(
            COSTS.passes * total * unit.entry, products + rows, COSTS.lane_cost * products + rows,
            pairs * unit.pair + squares * unit.square,
            COSTS.lanes * COSTS.lane_cost * total * unit.entry,
        )  # fmt: skip


def least_memory(design: Estimated, sparse: bool) -> float:
    """Compute the minimum memory of a fit in bytes in addition to X."""
    columns: Columns = design.stored()
    needed = _parts(columns, 0, 0, 0 if sparse else len(columns.entries), COSTS.lane_vectors)
    if len(columns.entries) > COSTS.max_hessian_columns:  # such a fit stores no Hessian
        needed["hessian"] = 0.0
    return sum(needed.values())


def _parts(
    columns: Columns, lanes: int, folds: int, k: int, vectors: int = COSTS.vectors
) -> dict[str, float]:
    """Compute the bytes for a working set of the k columns with the most entries."""
    n = columns.n
    most = np.argsort(-columns.entries, kind="stable")[:k]
    entries, values = columns.entries[most], columns.values[most]
    cost = np.where(entries >= n, 8.0 * n, np.where(values, 10.0, 2.0) * entries)
    beside = COSTS.lane_vectors * min(lanes, COSTS.lanes) + 4 * folds
    return {
        "rows": float(cost.sum()) + COSTS.row_bytes * n,
        "vectors": 8.0 * n * (vectors + beside),
        "hessian": 16.0 * k * k,
    }


@dataclass(frozen=True)
class _Units:
    """Seconds of elementary operations on this machine at its present load.

    Attributes
    ----------
    entry, number : float
        An entry of a sparse and of a dense column in a product.
    pair, square : float
        A pair of sparse entries and of dense entries in a Hessian.
    """

    entry: float
    number: float
    pair: float
    square: float
    exponential: float


@single_threaded_blas()
def _trials(threads: int | None, clock: Callable[[], float]) -> _Units:
    """Time small trials of the elementary operations."""
    backend = host_backend(threads)
    rng = np.random.default_rng(0)
    width, a_row = 500, 20
    rows = COSTS.trial_entries // a_row
    places = np.sort(rng.integers(0, width // a_row, (rows, a_row)) + np.arange(a_row) * 25, axis=1)
    at = np.arange(rows, dtype=np.int64) * a_row
    lines = Lines(at, at + a_row, places.ravel().astype(np.uint16), NO_DATA, width)
    D, v = rng.normal(size=(width, 1)), np.ones(rows)
    X = rng.normal(size=DENSE_TRIAL)
    x, squares = np.ones((X.shape[1], 1)), X.shape[1] * X.size / 2

    def seconds(run: Callable[[], object]) -> float:
        run()  # compiles the kernel or loads it from the cache
        start = clock()
        run()
        return max(clock() - start, 1e-6)

    gram = seconds(lambda: backend.gram(lines, v, np.zeros((width, width))))
    return _Units(
        entry=seconds(lambda: backend.gather(lines, D)) / COSTS.trial_entries,
        number=seconds(lambda: X @ x) / X.size,
        pair=gram / (COSTS.trial_entries * a_row / 2),
        square=seconds(lambda: X.T @ (X * 0.5)) / squares,
        exponential=seconds(lambda: np.exp(-np.abs(X))) / X.size,
    )  # fmt: skip


def free_memory() -> float:
    """Return the bytes available to this process; infinite if unknown."""
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
    """Format the message that a fit does not fit into memory, with three remedies."""
    rows = max(int(n * free / needed / 2), 1)
    return (
        f"The fit needs about {_bytes(needed)} of memory in addition to X, and {_bytes(free)} "
        f"are free. There are three remedies: fit a sample of rows (some {rows:,} of {n:,} would "
        "do); put blocks of rows on several machines, ShardedDesign.from_parquet(…, client=client);"
        " or keep them on disk, ShardedDesign.from_parquet(…, folder=folder)."
    )


def _bytes(size: float) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB" if size < 1000 else f"{size:,.0f} GB"


def _duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} seconds"
    if seconds < 6000:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:,.0f} hours"
