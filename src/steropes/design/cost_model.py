"""Typical numbers of operations and arrays of a fit, for estimates of its memory and time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COSTS", "CostModel"]


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
