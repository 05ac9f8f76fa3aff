"""Tuning parameters of the solver.

None of them changes an optimum, only how fast it is reached. Figures are from
`benchmarks/ABLATION.md` and `benchmarks/history/`; a value without one was not measured by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .subproblem.subproblem_constants import SubproblemPolicy

__all__ = [
    "DEFAULT",
    "DataTermPolicy",
    "GroupPenaltyPolicy",
    "HessianPolicy",
    "SolverPolicy",
    "StepPolicy",
    "WorkingSetPolicy",
]


@dataclass(frozen=True)
class HessianPolicy:
    """When Hessians are recomputed, from which rows, in which precision and representation.

    Attributes
    ----------
    max_subsampling : int
        Largest ratio of all rows to those of a subsampled Hessian. Without subsampled Hessians
        single fits of `claims-fit` took 1.3 to 1.4 times as long, and ten folds 1.1 times.
    rows_per_column : int
        Rows, or events, that a subsampled Hessian has for each column. Fewer make it cheaper and
        its steps worse. Subsampling until the end cost seven steps for each Hessian saved.
    min_pairs : float
        Additions of a Hessian below which subsampling is not worthwhile.
    settling_steps : int
        Steps with a subsampled Hessian before the first one of all rows.
    max_matrix_columns : int
        Working-set size above which the Gram matrix, of 4 k² bytes, is never formed.
    min_wide_columns : int
        Working-set size above which it is not formed if it is much larger than the data.
    entries_lasso : float
        Multiple of the entries of X that k² must exceed for that under an ℓ1 penalty. A logistic
        fit with 8,600 nonzero coefficients took 67 s with a multiple of 2, and 42 and 40 s with 20
        and 100; one with 8,800 took half as long without a matrix.
    entries_per_replicate : float
        Addition to that multiple for each further replicate, which reads the rows again. With the
        limit of a single fit, ten folds of `claims-cv-large` took 32 instead of 18 s.
    entries_per_grouped_replicate : float
        The same if the curvature has rank-one terms, which are exact only without a matrix.
    entries_ridge : float
        The multiple without an ℓ1 penalty, where a Cholesky factor in double precision is needed.
    max_free_share : float
        Share of the working set without penalty above which the matrix is formed nevertheless, as
        descent by columns is slow for these.
    max_double_columns : int
        Working-set size up to which Hessians are in double precision.
    single_rows_per_column : int
        Rows for each column above which single precision suffices under an ℓ1 penalty. Without
        single precision in models `claims-cv-large` took 1.4 times as long.
    coarse_violation : float
        Violation below which bad contraction is attributed to the coarseness of a Hessian.
    column_hessian_cost : float
        Cost of a Hessian that is not formed, in steps.
    cheap_cost : float
        Cost of a Hessian, in steps, below which a single fit computes one for each step. That
        changes nothing under a lasso, and saves rounds of federated fits.
    patient_columns : int
        Working-set size above which a single fit waits for two steps before it recomputes its
        Hessian. Without waiting `claims-fit-large` computed 13 instead of 12 Hessians of up to
        5,400 columns in as many steps, and took 1.25 and 1.30 times as long with seeds 1 and 2.
        Smaller working sets are not affected, so `claims-fit` does not change. Waiting from 300 or
        700 columns on was no gain.
    dear_columns : int
        Working-set size above which models cost more than the gradient over all columns. They are
        then solved less accurately, and replicates that share a Hessian wait for two steps as well.
    max_exact_diagonal : int
        Columns up to which the diagonal of a Hessian that is not formed is computed exactly.
    good_contraction : float
        Contraction of the violation by a step below which a Hessian is kept.
    bad_contraction : float
        Contraction above which another Hessian is computed whatever it costs.
    expected_contraction : float
        Contraction that is expected of a new Hessian when its cost is compared with the steps that
        it saves. 0.2 and 0.3 were a tenth slower on one data set and alike on the others.
    max_bfgs_pairs : int
        Most BFGS pairs of a replicate; beyond it the older half is dropped. Without
        pairs `cox-fit` took 26 instead of 10 steps, and fifty outcomes 1.9 times as long.
    max_own_columns : int
        Working-set size above which replicates' own Hessians are not formed.
    spare_share : float
        Room for columns that join, relative to the size of the matrix; it saves copies.
    min_spare, spare_per_new : int
        The room is at most ``min_spare`` columns, or ``spare_per_new`` for each column that joined
        last, because memory that was never touched is slow.
    """

    max_subsampling: int = 8
    rows_per_column: int = 16
    min_pairs: float = 2e5
    settling_steps: int = 3
    max_matrix_columns: int = 20_000
    min_wide_columns: int = 6000
    entries_lasso: float = 8.0
    entries_per_replicate: float = 1.2
    entries_per_grouped_replicate: float = 0.2
    entries_ridge: float = 4.0
    max_free_share: float = 0.1
    max_double_columns: int = 512
    single_rows_per_column: int = 4
    coarse_violation: float = 1.0
    column_hessian_cost: float = 0.3
    cheap_cost: float = 1.3
    patient_columns: int = 2000
    dear_columns: int = 4000
    max_exact_diagonal: int = 32
    good_contraction: float = 0.3
    bad_contraction: float = 0.9
    expected_contraction: float = 0.1
    max_bfgs_pairs: int = 12
    max_own_columns: int = 3000
    spare_share: float = 0.5
    min_spare: int = 256
    spare_per_new: int = 4


@dataclass(frozen=True)
class WorkingSetPolicy:
    """How columns join the working set, and the sequence of stronger penalties from zero.

    Attributes
    ----------
    min_batch : int
        Columns that may always join at once.
    batch_share : float
        Columns that may join at once for each one in the working set. Of correlated columns many
        violate until the first have moved. Without a limit `claims-fit-large` took 1.2 times as
        long; half as many again made no difference.
    min_violators : int
        Violating columns at the start above which stronger penalties come first. Without these
        `claims-fit` took 1.2 times as long.
    near_ratio, far_ratio : float
        Ratio of one stronger penalty to the next close to the requested one, and before. Ratios of
        1.5 to 2.4 and 3 to 6 were within 3 % on average, and a sixth slower with 80,000 columns.
    near_penalties : int
        Number of penalties with the smaller ratio.
    near : float
        Share of λ above which a column joins at once if X has few columns.
    most : float
        Share of such columns above which all columns join.
    path_violation : float
        Violation to which the stronger penalties are solved. Two or three times as much was a fifth
        faster on one data set and a fifth slower on the next.
    early_checks : tuple of float
        Violations at which all columns are checked before the working set is final. A first check
        at 0.5 or 1 was likewise faster and slower.
    subsampled_violation : float
        Tolerance above which a single fit uses subsampled Hessians throughout.
    few_new : float
        Share of the working set: if fewer columns join, the next penalty is due.
    renewing_share : float
        Share of the working set: if more columns join, the Hessian is computed again.
    """

    min_batch: int = 500
    batch_share: float = 1.25
    min_violators: int = 500
    near_ratio: float = 1.7
    far_ratio: float = 6.0
    near_penalties: int = 3
    near: float = 0.9
    most: float = 0.75
    path_violation: float = 1.0
    early_checks: tuple[float, ...] = (0.3, 0.01)
    subsampled_violation: float = 0.05
    few_new: float = 0.1
    renewing_share: float = 0.5


@dataclass(frozen=True)
class StepPolicy:
    """How accurately models are solved for a step, and how far a step may go.

    Attributes
    ----------
    single_share : float
        Share of the violation that the models of a single fit may leave far from its end. 0.2 and
        0.3 were a fifth faster on one data set and a fifth slower on the next.
    single_near_shares : tuple of float
        Bounds of that share near the end, where it is the square of the last contraction (Eisenstat
        and Walker 1996, choice 2).
    shared_share : float
        The same share for replicates that share a Hessian.
    dear_share : float
        The same beyond `HessianPolicy.dear_columns`; more would look like a bad Hessian.
    aim_share : float
        Share of the aim below which models are never solved.
    free_reach : float
        Multiple of the trust radius that a column without penalty may go in the first step.
    max_damping : float
        Damping, relative to the curvature, at which a step that fails ends the replicate.
    patient_steps : int
        Whole steps in a row that the trust radius has limited before it is doubled. Some columns
        are tiny except in one row and need thousands of radii.
    max_stretch : float
        Largest multiple of the trust radius.
    derivative_share : float
        Share of the first violation at which the derivative along a path is known.
    derivative_step_share : float
        Share of the remaining violation to which each of its steps is solved. Solving the system at
        once to 0.01 or 0.03 was no gain.
    """

    single_share: float = 0.1
    single_near_shares: tuple[float, float] = (3e-4, 0.02)
    shared_share: float = 0.03
    dear_share: float = 0.2
    aim_share: float = 0.3
    free_reach: float = 5.0
    max_damping: float = 1e4
    patient_steps: int = 8
    max_stretch: float = 1e9
    derivative_share: float = 0.05
    derivative_step_share: float = 0.3


@dataclass(frozen=True)
class DataTermPolicy:
    """Precision and costs of sums over local rows.

    Attributes
    ----------
    single_precision_tol : float
        Tolerance, in λ, from which gradients of columns outside of the working set are in single
        precision: a thousand times its rounding error.
    single_precision_lanes : int
        Replicates from which that is faster, as their residuals no longer fit the cache.
    min_cached_entries : int
        Entries of the working set above which sums of columns that stay are not computed again. A
        lookup costs more than the sums of fewer entries.
    max_new_share : float
        Share of new columns above which all are computed again.
    effective_rows_per_column : int
        Effective rows or events for each column that a subsample needs, else it is not used.
    pair_cost, whole_pair_cost, row_cost : float
        Time of a product of two entries of a row, of two entries of complete rows, and of the
        evaluation of a row of a likelihood with nuisance parameters, each relative to the time of a
        step for one entry. Hessians are compared with steps by these.
    fixed_cost : float
        Least cost of such a Hessian, in steps.
    min_resident_numbers : int
        Columns times replicates from which the coefficients and gradients of replicates are kept on
        a device. By arithmetic, NumPy reads or writes this many numbers in the time of a launch;
        not measured.
    device_products_per_step : float
        Multiply-adds of a Hessian that take as long as a step on a device: 15 ms on an H100.
    """

    single_precision_tol: float = 1e-4
    single_precision_lanes: int = 8
    min_cached_entries: int = 1_000_000
    max_new_share: float = 0.5
    effective_rows_per_column: int = 10
    pair_cost: float = 0.04
    whole_pair_cost: float = 0.007
    row_cost: float = 40.0
    fixed_cost: float = 0.7
    min_resident_numbers: int = 1 << 16
    device_products_per_step: float = 4e12


@dataclass(frozen=True)
class GroupPenaltyPolicy:
    """Steps and models under penalties of groups of coefficients.

    Attributes
    ----------
    max_share : float
        Share of the violation to which a model is minimised far from the optimum.
    min_batch : int
        Columns that may always join at once, or as many as there are.
    max_rounds : int
        Most rounds of sweeps and a Newton step for a model.
    sweeps : int
        Sweeps of a round. More find the zero groups of correlated columns before a Newton step.
    max_halvings : int
        Most halvings of a Newton step.
    """

    max_share: float = 0.1
    min_batch: int = 64
    max_rounds: int = 200
    sweeps: int = 3
    max_halvings: int = 20


@dataclass(frozen=True)
class SolverPolicy:
    """Tuning parameters of a `Batch` and of the terms that it moves."""

    hessian: HessianPolicy = field(default_factory=HessianPolicy)
    working_set: WorkingSetPolicy = field(default_factory=WorkingSetPolicy)
    step: StepPolicy = field(default_factory=StepPolicy)
    subproblem: SubproblemPolicy = field(default_factory=SubproblemPolicy)
    data: DataTermPolicy = field(default_factory=DataTermPolicy)
    group_penalty: GroupPenaltyPolicy = field(default_factory=GroupPenaltyPolicy)


DEFAULT = SolverPolicy()
