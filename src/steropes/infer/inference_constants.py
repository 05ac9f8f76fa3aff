"""Tuning parameters of inference: profiles, restricted fits, bootstrap, identification, memory."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BLOCKS",
    "BOOTSTRAP",
    "IDENTIFICATION",
    "NODEWISE",
    "POSTERIOR",
    "PROFILE",
    "RESTRICTED",
    "BlockPolicy",
    "BootstrapPolicy",
    "IdentificationPolicy",
    "NodewisePolicy",
    "PosteriorPolicy",
    "ProfilePolicy",
    "RestrictedFitPolicy",
]


@dataclass(frozen=True)
class ProfilePolicy:
    """Searches along profile likelihoods, which trade fits for accuracy of the limits.

    Distances are in standard errors unless stated otherwise.

    Attributes
    ----------
    fit_tol : float
        Largest KKT violation of a point, in units of λ or of standard errors.
    max_pieces : int
        A value at which the direct fit fails is approached in at most this many steps.
    max_predictor_change : float
        Largest change of η that is allowed: exp overflows at about 709.
    bulk_quantile : float
        Quantile of the sizes of a column's nonzero entries by which outliers are defined.
    outlier_factor : float
        Entries beyond this multiple of that quantile are outliers, which do not limit the
        range over which a profile is searched.
    relative_ridge : float
        This share of its diagonal is added to a Hessian so that it has an inverse.
    slope_tol : float
        A point is the maximum if its slope times the standard error is below this value.
    limit_tol : float
        A limit is found if the log-likelihood is this close to the requested drop.
    rounding : float
        Relative rounding error of the log-likelihood.
    expansion : float
        A step outward is at most this multiple of the distance covered so far.
    max_steps : int
        Largest number of steps of a search.
    min_step : float
        Steps shorter than this many standard errors are not taken, and limits so close are
        equal.
    max_distance : float
        No search goes beyond this multiple of the distance at which a profile counts as
        unbounded.
    distance_rounding : float
        Relative rounding error of a distance that has been added to a value and subtracted
        again.
    unbounded_fall : float
        A side has no limit if the profile falls by less than this over the whole distance.
    max_flat_change : float
        A tabulated profile is flat at an end if it changes by less than this over its
        outermost tenth and its last slope would change it by less over a range as long
        again. Such a change of the log-likelihood moves no limit visibly.
    max_points : int
        Largest number of points of a refined grid.
    """

    fit_tol: float = 1e-6
    max_pieces: int = 16
    max_predictor_change: float = 500.0
    bulk_quantile: float = 0.9
    outlier_factor: float = 10.0
    relative_ridge: float = 1e-10
    slope_tol: float = 1e-4
    limit_tol: float = 1e-8
    rounding: float = 1e-13
    expansion: float = 3.0
    max_steps: int = 100
    min_step: float = 1e-4
    max_distance: float = 10.0
    distance_rounding: float = 1e-12
    unbounded_fall: float = 1e-6
    max_flat_change: float = 1e-4
    max_points: int = 3000


@dataclass(frozen=True)
class RestrictedFitPolicy:
    """Newton fits under linear restrictions.

    Attributes
    ----------
    tol : float
        Largest final step or KKT violation, in standard errors or units of λ.
    max_decrement : float
        A fit that cannot improve is accepted below this Newton decrement, which is twice
        the distance of the log-likelihood from its maximum.
    rounding : float
        Relative rounding error of the log-likelihood.
    max_steps : int
        Largest number of Newton steps.
    max_halvings : int
        Most halvings of a step.
    """

    tol: float = 1e-8
    max_decrement: float = 1e-7
    rounding: float = 1e-13
    max_steps: int = 100
    max_halvings: int = 40


@dataclass(frozen=True)
class BootstrapPolicy:
    """Accuracy of bootstrap draws, whose fits share a Hessian.

    Attributes
    ----------
    tol : float
        Largest KKT violation of a draw, in units of λ or of standard errors.
    max_shared_steps : int
        After this many steps with the shared Hessian, a draw is refitted with Hessians of
        its own.
    """

    tol: float = 1e-4
    max_shared_steps: int = 60


@dataclass(frozen=True)
class IdentificationPolicy:
    """Information below which a coefficient, or a combination of them, counts as not determined.

    Attributes
    ----------
    min_information : float
        A column is collinear if the other columns leave less than this share of its
        information.
    max_rounding_share : float
        Largest share of a column's information that may be rounding error before it is
        inverted.
    min_direction_share : float
        A column diverges along a direction if its part is above this share of the largest
        one.
    max_directions : int
        Largest number of separating directions that are removed one after another.
    singular_share : float
        An equation must keep this share of its variance given the other equations. Below
        it, rounding in the covariance matrix dominates.
    tiny_weight : float
        The check for weak information is skipped if all positive weights are at least this
        large.
    weak_information : float
        Smallest information accepted on a column of size one; its standard error is about
        30,000.
    whole_leverage : float
        A row with a larger leverage alone determines some coefficient.
    """

    min_information: float = 1e-10
    max_rounding_share: float = 1e-2
    min_direction_share: float = 1e-3
    max_directions: int = 8
    singular_share: float = 1e-12
    tiny_weight: float = 1e-6
    weak_information: float = 1e-9
    whole_leverage: float = 1.0 - 1e-10


@dataclass(frozen=True)
class NodewisePolicy:
    """Regressions of single columns on all others.

    Attributes
    ----------
    tol : float
        Largest KKT violation, in units of the penalty.
    ratio : float
        Ratio of successive penalties of a path.
    steps : int
        Largest number of penalties of a path.
    noise_increase : float
        A penalty is reduced as long as the noise factor stays within this relative increase
        (κ₀ of Zhang and Zhang 2014, Table 1).
    goal_increase : float
        If the correlations cannot be made as small as is wanted, this relative increase of the
        smallest possible one is accepted (κ₁ there).
    max_columns : int
        A path ends when more columns have a coefficient. In wide data the noise factor hardly
        increases, and regressions on thousands of columns cost far more than they remove bias.
    min_share : float
        Smallest share of its information that the others may leave of a column.
    max_correlation : float
        A column is a copy of another one if its residuals keep a larger correlation with it.
    max_unreached : float
        A column depends on others if no penalty reaches the correlation that is aimed at, nor
        this one.
    min_residual_share : float
        The same if few columns leave less than this share of its sum of squares.
    rival_share : float
        Columns with at least this share of the largest correlation are named.
    """

    tol: float = 1e-6
    ratio: float = 0.85
    steps: int = 40
    noise_increase: float = 0.25
    goal_increase: float = 0.5
    max_columns: int = 1000
    min_share: float = 1e-10
    max_correlation: float = 0.999
    max_unreached: float = 0.5
    min_residual_share: float = 1e-5
    rival_share: float = 0.999


@dataclass(frozen=True)
class PosteriorPolicy:
    """Hamiltonian Monte Carlo and slice sampling of posteriors.

    Attributes
    ----------
    acceptance : float
        Acceptance probability to which the step size is adapted.
    first_step : float
        First step size, in posterior standard deviations.
    length : float
        Largest length of a trajectory in the same unit: a quarter of a period.
    max_leapfrogs : int
        Largest number of steps of a trajectory.
    max_dense_columns : int
        Largest number of coefficients for which the metric is a whole matrix.
    max_free_columns : int
        Beyond, the correlation of at most this many unpenalised coefficients with all others is
        removed.
    ridge : float
        This share of its diagonal is added to the metric so that it has an inverse.
    start_spread : float
        Standard deviation of the logarithm of the prior's deviation over the starts of chains.
    max_stepping_out, max_shrinkings : int
        Largest numbers of steps of a slice update.
    max_r_hat : float
        Chains have not mixed if the R̂ of a parameter is larger (Vehtari and others 2021).
    min_ess : float
        Smallest effective number of draws for which limits are reliable (the same paper).
    max_variance_r_hat, min_variance_ess : float
        The same for the prior's variance, of which no limits are reported and which mixes more
        slowly than the coefficients.
    """

    acceptance: float = 0.8
    first_step: float = 0.5
    length: float = 1.6
    max_leapfrogs: int = 40
    max_dense_columns: int = 1000
    max_free_columns: int = 100
    ridge: float = 1e-9
    start_spread: float = 0.3
    max_stepping_out: int = 20
    max_shrinkings: int = 100
    max_r_hat: float = 1.01
    min_ess: float = 400.0
    max_variance_r_hat: float = 1.05
    min_variance_ess: float = 100.0


@dataclass(frozen=True)
class BlockPolicy:
    """Sizes of blocks in which arrays are processed; they bound the memory and change no result.

    Attributes
    ----------
    columns : int
        Coefficients or columns that are processed together, which bounds the memory for
        rows times columns.
    diagonal_columns : int
        Columns of which the diagonal of the Hessian is computed together.
    max_score_bytes : float
        Largest number of bytes of scores in memory.
    direction_bytes : float
        Bytes of vectors over rows that are processed together, unless eight take more.
    threshold_functions : int
        Largest number of entries of a (thresholds × functions) array in memory.
    threshold_rows : int
        Largest number of entries of a (thresholds × rows) array in memory.
    row_functions : int
        Largest number of entries of a (rows × functions) array in memory.
    hazard_influences : int
        Largest number of array entries for standard errors from influences on hazards.
    standardized_entries : int
        Largest number of array entries for standardised curves.
    survival_entries : int
        Largest number of array entries for standard errors of Cox curves from the information.
    """

    columns: int = 64
    diagonal_columns: int = 4096
    max_score_bytes: float = 2e9
    direction_bytes: float = 1.5e8
    threshold_functions: int = 1 << 21
    threshold_rows: int = 1 << 22
    row_functions: int = 1 << 22
    hazard_influences: int = 10_000_000
    standardized_entries: int = 4_000_000
    survival_entries: int = 5_000_000


PROFILE = ProfilePolicy()
RESTRICTED = RestrictedFitPolicy()
BOOTSTRAP = BootstrapPolicy()
IDENTIFICATION = IdentificationPolicy()
NODEWISE = NodewisePolicy()
POSTERIOR = PosteriorPolicy()
BLOCKS = BlockPolicy()
