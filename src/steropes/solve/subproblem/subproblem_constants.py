"""Tuning parameters of the minimisation of quadratic models and of its preconditioners.

None of them changes the minimum, only how fast it is found. Figures are from
`benchmarks/ABLATION.md` and `benchmarks/history/`; a value without one was not measured by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["PreconditionerPolicy", "SubproblemPolicy"]


@dataclass(frozen=True)
class PreconditionerPolicy:
    """Blocks of correlated columns and the factor that replaces them in conjugate gradients.

    Attributes
    ----------
    strong_correlation : float
        Correlation above which two columns share a block. Larger blocks cost more and save
        iterations. Blocks took `claims-cv` from 2.6 to 1.7 s; 0.1 and 0.3 made no difference.
    max_block_columns : int
        Most columns of a block, which is factored in time cubic in them.
    pairs_per_column : int
        Room for correlated pairs; if there are more, the required correlation is raised.
    max_correlation : float
        Correlation beyond which it is not raised, so that equal columns are always found.
    min_factor_columns : int
        Coordinates up to which a factor is used instead, as it costs next to nothing.
    enough_iterations : int
        Iterations with blocks that are as good as with a factor; more count as lost.
    columns_per_lost_iteration : int
        Columns for each lost iteration after which a factor is tried. It trades the cost of a
        factor, cubic in the columns, for iterations.
    retry_growth : int
        Growth of the columns after which blocks are tried again. The first few columns are the
        most frequent and most correlated ones, so blocks that failed for them can serve more.
    max_factor_columns : int
        Most columns of a factor, those with the most curvature; it bounds memory.
    doubtful_share : float
        Share of the columns in all supports, those with small coefficients, that is not
        eliminated, as they may soon leave a support.
    spare_share : float
        Room for columns that join, relative to their number; it trades memory for copies.
    same_diagonal : float
        Relative change of the diagonal beyond which a factor belongs to another matrix.
    max_lacking_share : float
        Largest share of the eliminated columns that a replicate may lack. A correction for each
        costs little as long as they are few.
    min_lacking : int
        Number that it may lack in any case, unless this is more than a quarter.
    min_exact_share : float
        Share of the support of a single replicate that a factor must eliminate to be kept.
    kept_corrections : int
        Replicates' corrections for lacking columns that are kept, about two for each of 12 lanes.
    kept_unit_share : float
        Columns of L⁻¹ that are kept for later corrections, relative to the eliminated columns.
    """

    strong_correlation: float = 0.2
    max_block_columns: int = 64
    pairs_per_column: int = 32
    max_correlation: float = 0.99
    min_factor_columns: int = 256
    enough_iterations: int = 6
    columns_per_lost_iteration: int = 200
    retry_growth: int = 2
    max_factor_columns: int = 20_000
    doubtful_share: float = 0.1
    spare_share: float = 0.1
    same_diagonal: float = 1e-3
    max_lacking_share: float = 0.15
    min_lacking: int = 16
    min_exact_share: float = 0.8
    kept_corrections: int = 24
    kept_unit_share: float = 0.25


@dataclass(frozen=True)
class SubproblemPolicy:
    """Sweeps, Newton steps and exact solutions of quadratic models.

    Attributes
    ----------
    max_rounds : int
        Most rounds of a sweep and a Newton step. The driver continues from any point, so the
        bound only limits models that stall.
    refresh_rounds : int
        Rounds after which slopes are recomputed, at the price of a product, to remove accumulated
        rounding errors.
    max_sweeps : int
        Sweeps that would be needed at the last contraction, above which a Newton step is taken.
        With 2 or 4 instead of 6 folds took as long.
    max_sweeps_alone : int
        The same for a single replicate, whose sweeps share no work with others.
    resting_share : float
        Share of the largest violation below which a coordinate of several replicates waits for the
        next Newton step. Without waiting all sweeps of `claims-cv` took 1.45 instead of 0.83 of 8
        processor seconds. In the sweeps of a single replicate it was no gain.
    rough_residual, fine_residual : float
        Largest and smallest relative residual to which a Newton step is solved. Solving to 0.05 or
        0.1 instead of 0.2 took as long.
    ready_violation : float
        Violation below which a Newton step is solved to the tolerance, since signs are known.
        0.06 to 0.15 instead made no difference.
    residual_share : float
        Share of the tolerance below which a residual is small enough.
    max_iterations : int
        Most conjugate gradient iterations of a Newton step; two or three are usual with blocks.
    slow_contraction : float
        Contraction by a round with a Newton step above which the model is minimised exactly for
        its signs, if its support is small.
    dear_support : int
        Support above which that is expensive. It is then left to the next step of the driver,
        which took 9 % from fits of 100,000 × 20,000, or done after ``slow_rounds``.
    sufficient_share : float
        Share of the first violation that suffices to leave an expensive model.
    slow_rounds : int
        Slow rounds in a row after which an expensive model is minimised exactly after all.
    max_exact_support : int
        Support above which models with a matrix are never minimised exactly.
    max_exact_support_by_columns : int
        The same for a column operator, which takes one product for each coordinate.
    max_exact_work : float
        Total cubed size of the systems of one exact minimisation.
    max_cuts : int
        Times that a Newton step is shortened until it lowers the model.
    cut_factor : float
        Factor of each.
    max_cancellation : float
        Ratio of the part that stops at zero to the rest of a step above which its product is
        recomputed, as a difference of two long steps would consist of rounding errors.
    near_share : float
        Share of λ above which the slope of a zero coordinate includes it in the first search.
        More coordinates make larger searches, fewer make more of them.
    max_searches : int
        Most searches, each with the coordinates that violated after the last.
    max_part_share : float
        Share of the coordinates above which a search uses the whole matrix instead of a copy of
        its part. 0.85 instead of 0.6 made no difference.
    max_support_share : float
        The same for the support of a Newton step.
    reusable_share : float
        Size of a larger part, relative to the one wanted, up to which it is reused.
    max_read_share : float
        Share of nonzero coordinates up to which a product reads only their rows of the matrix.
    max_read_share_alone : float
        The same for one vector, where skipping rows saves more.
    min_panel_columns : int
        Coordinates from which the sweeps of one replicate run in panels, in all threads.
    min_device_columns : int
        Coordinates from which models are minimised on a device that has the Hessian. Products with
        smaller matrices take less time than their launches; not measured on a GPU yet.
    max_eliminated : int
        Most unpenalised columns that are eliminated; each is a dense row of k numbers.
    linear_residual : float
        Relative residual of the systems for derivatives along a path, which are solved repeatedly.
        0.03 and 0.01 were no gain.
    preconditioner : PreconditionerPolicy
    max_kept_factor : int
        Most columns of a factor that is kept for the next steps with the same Hessian; it bounds
        memory. Kept factors took a multinomial ridge of 1,203 coefficients, which takes 69 steps
        with three Hessians, from 3.5 to 1.9 processor seconds.
    """

    max_kept_factor: int = 8_000
    max_rounds: int = 40
    refresh_rounds: int = 5
    max_sweeps: int = 6
    max_sweeps_alone: int = 2
    resting_share: float = 0.3
    rough_residual: float = 0.2
    fine_residual: float = 1e-3
    ready_violation: float = 0.02
    residual_share: float = 0.5
    max_iterations: int = 16
    slow_contraction: float = 0.5
    dear_support: int = 150
    sufficient_share: float = 0.7
    slow_rounds: int = 2
    max_exact_support: int = 794
    max_exact_support_by_columns: int = 100
    max_exact_work: float = 2e9
    max_cuts: int = 5
    cut_factor: float = 0.4
    max_cancellation: float = 4.0
    near_share: float = 0.9
    max_searches: int = 8
    max_part_share: float = 0.6
    max_support_share: float = 0.35
    reusable_share: float = 1.3
    max_read_share: float = 0.7
    max_read_share_alone: float = 0.9
    min_panel_columns: int = 3000
    min_device_columns: int = 256
    max_eliminated: int = 32
    linear_residual: float = 0.1
    preconditioner: PreconditionerPolicy = field(default_factory=PreconditionerPolicy)
