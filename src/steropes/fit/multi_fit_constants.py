"""Tuning parameters of many fits at once and of rows in blocks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "OUTCOMES",
    "REPLICATES",
    "TRANSFER",
    "OutcomesPolicy",
    "ReplicatePolicy",
    "TransferPolicy",
]


@dataclass(frozen=True)
class OutcomesPolicy:
    """Groups of outcomes that share a Hessian.

    Attributes
    ----------
    max_columns : int
        Largest number of columns near λ for which a group of outcomes shares a Hessian.
    near_share : float
        A column may become nonzero if its slope is above this share of λ.
    first_steps : int
        Number of steps before the Hessian is recomputed.
    max_rounds : int
        Number of times that missing columns are added before an outcome is left
        unconverged.
    slope_error : float
        Accuracy of the slopes at the start, as a share of λ.
    min_rows_for_threads : int
        Groups run in threads only for at least this many rows; otherwise they wait for the
        interpreter.
    arrays_per_lane : int
        Number of arrays as long as the linear predictors in each lane.
    max_bytes : float
        Largest number of bytes of groups that run in parallel.
    min_near_columns : int
        Smallest number of columns near λ with which a group passes through the intermediate
        penalties first.
    intermediate_tol : float
        Tolerance under the intermediate penalties, as a share of λ.
    preliminary_tol : float
        Tolerance before all columns are first checked, as a share of λ.
    max_steps : int
        After this many steps an outcome is better fitted alone, with Hessians of its own.
    rows_per_column : int
        Number of sampled rows for each column that may be nonzero in one outcome.
    max_row_share : float
        All rows are used if the sample would exceed this share of them.
    full_rows : float
        A column needs this many nonzero rows in the sample for its correlations to be used
        in full.
    """

    max_columns: int = 10_000
    near_share: float = 0.9
    first_steps: int = 2
    max_rounds: int = 4
    slope_error: float = 1e-3
    min_rows_for_threads: int = 1 << 16
    arrays_per_lane: int = 10
    max_bytes: float = 2e9
    min_near_columns: int = 500
    intermediate_tol: float = 0.5
    preliminary_tol: float = 0.05
    max_steps: int = 40
    rows_per_column: int = 24
    max_row_share: float = 0.5
    full_rows: float = 16.0


@dataclass(frozen=True)
class ReplicatePolicy:
    """Batches of replicates and their descents.

    Attributes
    ----------
    lanes : int
        Number of replicates that are fitted together.
    device_lanes : int
        The most on a device, whose launches then serve more replicates.
    device_bytes : float
        Bytes of a device that they may occupy.
    arrays_per_lane : int
        Number of arrays as long as the linear predictors in each replicate.
    coefficient_arrays : int
        Number of arrays as long as the coefficients in each replicate on a device: coefficients,
        gradients, two penalties and their formulas. Arrays of the working set are not counted.
    max_descents : int
        Largest number of descents under an adaptive prior.
    max_coupled_columns : int
        Largest number of columns under a prior that couples coefficients.
    far_offset : float
        The intercept does not start at zero if some offset is larger than this value.
    tasks_per_worker : int
        Number of tasks per worker in one call if the backend returns results only at its
        end (Ray).
    """

    lanes: int = 8
    device_lanes: int = 128
    device_bytes: float = 8e9
    arrays_per_lane: int = 4
    coefficient_arrays: int = 8
    max_descents: int = 500
    max_coupled_columns: int = 10_000
    far_offset: float = 30.0
    tasks_per_worker: int = 4


@dataclass(frozen=True)
class TransferPolicy:
    """Transfers between processes, and rows in blocks.

    Attributes
    ----------
    max_rounds : int
        Number of attempts to send data while workers are lost and replaced.
    poll_seconds : float
        Seconds between checks that a pending result can still arrive.
    worker_timeout : float
        Seconds to wait for a first worker.
    max_scheduler_bytes : int
        Larger messages bypass the scheduler.
    max_active_bytes : float
        Default memory for columns of the working set if blocks are in files.
    max_column_sets : int
        Number of column sets for which a block keeps the rows.
    rows_per_block : int
        Default number of rows of a block.
    """

    max_rounds: int = 20
    poll_seconds: float = 5.0
    worker_timeout: float = 60.0
    max_scheduler_bytes: int = 1_000_000
    max_active_bytes: float = 2e9
    max_column_sets: int = 2
    rows_per_block: int = 250_000


OUTCOMES = OutcomesPolicy()
REPLICATES = ReplicatePolicy()
TRANSFER = TransferPolicy()
