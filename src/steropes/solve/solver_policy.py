"""Tuning parameters of the solver."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["DEFAULT", "HessianPolicy", "SolverPolicy", "WorkingSetPolicy"]


@dataclass(frozen=True)
class HessianPolicy:
    """Heuristics for row subsampling, precision and representation of the Hessian.

    Attributes
    ----------
    max_subsampling : int
        Most rows of which one enters a subsampled Hessian. Without subsampled Hessians single fits
        of `claims-fit` took 1.3 to 1.4 times as long, and ten folds 1.1 times.
    rows_per_column : int
        Rows, or events, that a subsampled Hessian has for each column.
    min_pairs : float
        Additions of a Hessian below which subsampling is not worthwhile.
    settling_steps : int
        Steps with a subsampled Hessian before the first one of all rows.
    max_matrix_columns : int
        Working-set size above which the Gram matrix, of 4 k² bytes, is never formed.
    min_wide_columns : int
        Working-set size above which it is not formed if it is much larger than the data.
    entries_lasso : float
        Multiple of the entries of X that k² must exceed for that under an ℓ1 penalty.
    entries_per_replicate : float
        Addition to that multiple for each further replicate, which reads the rows again.
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
    dear_columns : int
        Working-set size above which models cost more than the gradient over all columns, and are
        solved less accurately.
    max_exact_diagonal : int
        Columns up to which the diagonal of a Hessian that is not formed is computed exactly.
    max_own_columns : int
        Working-set size above which replicates' own Hessians are not formed.
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
    dear_columns: int = 4000
    max_exact_diagonal: int = 32
    max_own_columns: int = 3000


@dataclass(frozen=True)
class WorkingSetPolicy:
    """How columns join the working set, and the way from nothing over stronger penalties.

    Attributes
    ----------
    min_batch : int
        Columns that may always join at once.
    batch_share : float
        Columns that may join at once for each one in the working set. Of correlated columns many
        violate until the first have moved. Without a limit `claims-fit-large` took 1.2 times as
        long.
    min_violators : int
        Violating columns at the start above which stronger penalties come first. Without these
        `claims-fit` took 1.2 times as long.
    near : float
        Share of λ above which a column joins at once if there are few columns.
    most : float
        Share of such columns above which all columns join.
    path_violation : float
        Violation to which the stronger penalties are solved.
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
    near: float = 0.9
    most: float = 0.75
    path_violation: float = 1.0
    subsampled_violation: float = 0.05
    few_new: float = 0.1
    renewing_share: float = 0.5


@dataclass(frozen=True)
class SolverPolicy:
    """Tuning parameters of a `Batch`.

    None of them changes what is optimal, only the way there.
    """

    hessian: HessianPolicy = field(default_factory=HessianPolicy)
    working_set: WorkingSetPolicy = field(default_factory=WorkingSetPolicy)


DEFAULT = SolverPolicy()
