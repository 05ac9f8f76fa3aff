"""Tuning parameters of federated fits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ADMISSION",
    "CONVERGENCE",
    "EVALUATION",
    "GROUPING",
    "AdmissionPolicy",
    "ConvergencePolicy",
    "EvaluationPolicy",
    "GroupingPolicy",
]


@dataclass(frozen=True)
class ConvergencePolicy:
    """Ends of federated fits, and the search for coefficients that the data do not determine.

    Attributes
    ----------
    min_residual_share : float
        Smallest residual standard deviation, as a share of the outcome's.
    no_information : float
        A coefficient has no information if that on its standardised column is below this
        many rows'.
    nearly_factor : float
        Coefficients with information up to this multiple of ``no_information`` may diverge
        with others.
    max_slope : float
        A slope above this many rows' is caused by a step that was too long, not by
        divergence.
    sum_rounding : float
        Relative rounding error of sums with centres that are far from a site's rows.
    named_share : float
        The error names coefficients above this share of the largest diverging one.
    max_iterations : int
        Largest number of iterations of a fit.
    incomplete_factor : float
        A fold's fit is incomplete if its certificate exceeds this multiple of the
        tolerance.
    start_tol : float
        Tolerance of the initial fit without penalised columns.
    max_intercept_steps : int
        Largest number of Newton steps; a step that leaves the bracket is replaced by a
        bisection.
    weak_variance : float
        Variance of a weak prior on the coefficient of a column with standard deviation one.
    max_predictor_change : float
        A profile is not extended beyond this change of η between two rows.
    """

    min_residual_share: float = 1e-3
    no_information: float = 1e-6
    nearly_factor: float = 100.0
    max_slope: float = 1e-3
    sum_rounding: float = 1e-12
    named_share: float = 0.3
    max_iterations: int = 200
    incomplete_factor: float = 10.0
    start_tol: float = 1e-6
    max_intercept_steps: int = 100
    weak_variance: float = 100.0
    max_predictor_change: float = 30.0


@dataclass(frozen=True)
class EvaluationPolicy:
    """Requests of a fit, which trade the number of rounds for the size of the answers.

    Attributes
    ----------
    max_hessian_of_lane : int
        A Hessian covers all columns up to this number of them.
    max_full_hessian : int
        A Hessian covers all columns up to this number of them.
    newton_share : float
        Shorter steps are not evaluated if the slopes promise less than this share of the decrease
        that they promised of the step before.
    likely_share : float
        A Hessian covers columns with slopes above this share of λ, since they may become
        nonzero soon.
    same_point : float
        Coefficients with a relative difference below this value are the same point.
    max_weight_error : float
        A Hessian with a larger relative error of its weights is not used for the
        certificate.
    exact_weight_error : float
        Largest relative error of a Hessian's weights for standard errors.
    weight_rounding : float
        A weight below this share of the weight at the same time is rounding error.
    min_within_share : float
        A standard deviation within sites below this share of the overall one may be
        rounding error.
    min_between_share : float
        A variance between sites below this share of the squared mean may be rounding error.
    center_share : float
        A column is centred if at least this share of its values is nonzero.
    max_numbers : int
        Approximate largest number of numbers in a message.
    max_ahead : int
        Largest number of variances that are fitted together.
    max_variances : int
        Largest number of variances of a search.
    columns_at_once : int
        Number of columns summed at once.
    """

    max_hessian_of_lane: int = 100
    max_full_hessian: int = 400
    newton_share: float = 0.1
    likely_share: float = 0.6
    same_point: float = 1e-12
    max_weight_error: float = 10.0
    exact_weight_error: float = 1e-9
    weight_rounding: float = 1e-12
    min_within_share: float = 1e-6
    min_between_share: float = 1e-12
    center_share: float = 0.5
    max_numbers: int = 300_000
    max_ahead: int = 8
    max_variances: int = 60
    columns_at_once: int = 64


@dataclass(frozen=True)
class AdmissionPolicy:
    """Limits of the programs that a site admits and a lead keeps.

    Attributes
    ----------
    max_requests : int
        Number of rounds for which the next request is kept.
    max_programs : int
        Number of paused programs that are kept.
    same_request : float
        Largest relative difference of requests that two machines compute from the same
        totals.
    min_rounds : int
        Smallest number of evaluations of a fit.
    min_variances : int
        Smallest number of variances of a search.
    max_named : int
        Largest number of factors that a sentence names.
    covariates_at_once : int
        Number of covariates that are tabulated with the outcomes at once.
    """

    max_requests: int = 32
    max_programs: int = 2
    same_request: float = 1e-6
    min_rounds: int = 3
    min_variances: int = 5
    max_named: int = 5
    covariates_at_once: int = 300


@dataclass(frozen=True)
class GroupingPolicy:
    """Groups of rows with rare combinations of values.

    Attributes
    ----------
    max_columns_of_products : int
        Sums of products of two columns are kept up to this number of columns.
    product_weight : float
        Weight of a product's sum relative to that of a column, in standard deviations. Estimates
        depend on products through the curvature of the loss only.
    max_tried : int
        Number of combinations that are tried for a group before it is left as it is.
    moves_per_sum : int
        Largest number of moved rows of a class per sum that is kept.
    max_considered : int
        Number of combinations on each side among which the best move is sought.
    min_gain : float
        A move that reduces the squared differences by less is not made.
    outcome_parts : int
        Number of classes of an outcome with many values, within which rows are grouped. Within
        tenths, less than a twentieth of the variance of a normal outcome is left.
    max_numbers : int
        Largest number of numbers, rows times columns, that are grouped.
    percent_with_bias : int
        From this share of grouped people on, in percent, results warn of bias. In simulations
        estimates differed from those of all rows by 0.1 standard errors (root mean square) with 4 %
        of grouped people, by 0.3 with 19 % and by 0.5 to 1 with 42 %.
    """

    max_columns_of_products: int = 15
    product_weight: float = 0.1
    max_tried: int = 1000
    moves_per_sum: int = 10
    max_considered: int = 25
    min_gain: float = 1e-9
    outcome_parts: int = 10
    max_numbers: int = 100_000_000
    percent_with_bias: int = 5


CONVERGENCE = ConvergencePolicy()
EVALUATION = EvaluationPolicy()
ADMISSION = AdmissionPolicy()
GROUPING = GroupingPolicy()
