"""Tuning parameters of the search for a variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["DEFAULT", "PathPolicy"]


@dataclass(frozen=True)
class PathPolicy:
    """Tuning parameters of paths of variances, of their folds and of information criteria.

    Variances are compared on the logarithmic scale, a *step* is a factor of ``step_ratio``, and
    scores are in units of their standard error unless stated otherwise. None of these parameters
    changes the optimum, only which variances are evaluated and how accurately.

    Attributes
    ----------
    step_ratio : float
        Ratio of one variance of the walk to the next. Smaller steps need more fits, larger ones
        more refinement.
    steps_past_best : int
        Steps beyond the best variance before the walk stops, unless the first drop is clear.
    falling_steps : int
        Falling steps after which the walk stops if there is one fold and no standard error.
    flat_share : float
        Share of the range of the scores that replaces ``flat`` if there is one fold.
    flat : float
        Standard errors of the score within which a search is content. With 0.02 searches took 1.5 %
        less time.
    clear : float
        Standard errors that make a drop clear.
    half_step : float
        Share of a step to look ahead: if the parabola is clearly past its top there, the walk takes
        this much only.
    least_step : float
        Share of a step below which the walk never goes on.
    early_gain : float
        Standard errors that the first step must gain for the next to be a double one.
    later_gain : float
        The same for later steps, where the bend of the scores is known.
    double_share : float
        Share of the last gain that the second half of a double step must be expected to bring.
        Double steps took 8.9 instead of 10.2 variances on 26 data sets, and lost 0.004 instead of
        0.0085 standard errors of the best score on average. Three or four steps at once were no
        gain.
    slope_reach : float
        Steps ahead within which a known slope locates the top.
    slope_within : float
        Steps within which the top must be expected for a slope to be computed.
    slope_spacing : float
        Share of a step: no slope is computed so near to a score with a known slope.
    close : float
        Share of a step below which slopes describe the bend better than scores do.
    trust : float
        Multiple of the distance between two close scores that their slopes are followed for.
    beyond : float
        Share of a step beyond the last score in which the scores must fall for the top to be
        passed. The tolerance of the folds hides what happens on shorter distances.
    ridge_start : float
        Ratio of the data's curvature to that of the prior at which a path without a Laplace part
        begins. A smaller one begins further from the best variance, a larger one may miss it.
    start_columns : int
        Most columns that represent all in the median of that ratio, and most columns of the
        dense matrices computed for it.
    scaling_factor : float
        Multiple of the expected strength from which the penalty at the first variance counts as
        another function of the variance, for which a search finds the first variance. From 2 to 20
        the searches of 48 small fits were the same; with 1,000 three of them ended elsewhere and
        lost up to 4.7 standard errors of the score.
    scaling_accuracy : float
        Logarithm of the ratio of variances to which that search locates the first variance. Half
        and twice the value took 2 % more and 2 % fewer evaluations of the penalty, and changed one
        of 48 chosen variances by 0.3 %; 0.01 changed twelve by up to 5 %.
    tied_difference : float
        Relative difference of scores that rounding and the folds' tolerance may cause; of tied
        scores the one with the smallest variance is chosen. From 1e-8 to 2e-6 nothing changed in 48
        small fits; 1e-4 changed two chosen variances.
    max_variances : int
        Most variances of a search.
    max_log_range : float
        Largest logarithm of the ratio of two variances of a search.
    one_se_resolution : float
        Logarithm of the ratio to which the one-standard-error choice is located.
    measured_resolution : float
        Distance of log variances to which the best of scores other than log-likelihoods is located.
    many_nonzero : int
        Nonzero coefficients above which a variance costs much more than the one before: folds are
        then solved less accurately and all replicates start at once.
    min_nonzero_for_slope : int
        Nonzero coefficients above which the slope of the scores costs far less than another
        variance. Without slopes the ten folds of `claims-cv` took 1.9 times as long, and those of
        `claims-cv-large` 2.3 times.
    check_columns : int
        Working-set size above which missing columns are looked for during a fit of the folds and
        not only after it.
    large : float
        Rows times columns above which the full data's path is fitted ahead and all replicates are
        solved at once. Without both `claims-cv-large` took 1.5 times as long.
    max_lanes : int
        Most folds that are solved together: a product with a Hessian costs nearly the same for two
        as for ten.
    max_extrapolation : float
        Logarithm of the ratio of variances up to which replicates are extrapolated. Beyond it the
        full data are fitted first.
    max_extrapolation_full : float
        The same if only the full data were fitted, looking ahead.
    slope_change : float
        Change of log variance from which the slope of the scores is computed.
    slope_steps : int
        Most steps for a slope; two or three are usual. Slopes before every double step were no
        gain.
    slope_tolerance : float
        Change of the slope by a step, relative to it or to the standard error, below which the
        steps end.
    slope_accuracy : float
        The same above which the slope counts as unknown after the last step.
    ahead_tolerance : float
        Violation, in units of λ, to which the fits of the full data that look ahead are solved.
        Looking ahead took 4.2 instead of 10.1 variances on 24 data sets and lost 0.0033 instead of
        0.0027 standard errors of the best score on average.
    ahead_gain : float
        Degrees of freedom gained by a coefficient below which the best variance is extrapolated.
    ahead_slowdown : float
        Share of the fall of that gain's logarithm with which it is continued.
    ahead_fits : int
        Most fits of the full data that look ahead.
    screening_share : float
        Share of λ at which a fold's expected gradient lets a column into the working set.
    screening_many_columns : int
        Working-set size above which that share is one: columns in vain cost more there than
        another look.
    screening_max_columns : int
        Most columns of a working set to which columns are added by screening (a matrix of half a
        gigabyte), unless the next field allows more.
    screening_per_nonzero : float
        Columns for each nonzero coefficient that are always allowed.
    screening_min_new : int
        Columns that may be added at any size. Without screening, the ten folds of `claims-cv` took
        1.0, 1.4 and 1.3 times as long with seeds 1, 2 and 3; see `benchmarks/ABLATION.md`.
    remembered : int
        Variances whose coefficients are kept for extrapolation.
    line_reach : float
        Multiple of the distance between two variances up to which their line is followed.
    small : float
        Rows times columns up to which folds are solved exactly, as that costs nothing.
    small_factor : float
        Factor of the folds' tolerance there, so that rounding decides between no variances.
    dear_factor : float
        Factor of the folds' tolerance above ``many_nonzero``, as λ is small compared with the error
        of the score. Without looser folds `claims-cv-large` took 1.5 times as long. The same factor
        at any size saved 8 to 19 %, but changed scores by up to 0.02 standard errors.
    dearest_factor : float
        The same above ``dearest_nonzero``, if there are ``dearest_rows`` rows for each coefficient.
        It changed the mean scores of `claims-cv-large` by up to 0.008 standard errors.
    dearest_nonzero : int
        Nonzero coefficients above which ``dearest_factor`` applies.
    dearest_rows : int
        Rows for each nonzero coefficient above which ``dearest_factor`` applies.
    loosest : float
        Largest tolerance that these factors lead to, in units of λ.
    ridge_factor : float
        Factor of the tolerance without λ, in units of the standard error of the score.
    adaptive_factor : float
        The same for adaptive priors, which depend on the coefficients.
    full_factor : float
        Factor of the folds' tolerance for the full data, from which folds start. 0.3 and 1 were no
        gain.
    criterion_past : int
        Steps beyond the smallest criterion: it jumps where a coefficient joins.
    criterion_refinement : int
        Parts into which the steps next to the smallest criterion are divided.
    criterion_max_variances : int
        Most steps of the walk of a criterion.
    criterion_flat : float
        Log-likelihood within which the last steps' criteria are equal.
    criterion_flat_steps : int
        Steps before equal criteria end a walk: a ridge begins where it hardly matters.
    criterion_tolerance : float
        Largest violation along the path of a criterion, in units of λ or of standard errors.
    """

    step_ratio: float = 10 ** (1 / 3)
    steps_past_best: int = 2
    falling_steps: int = 4
    flat_share: float = 1e-3
    flat: float = 0.01
    clear: float = 0.05
    half_step: float = 0.5
    least_step: float = 0.2
    early_gain: float = 6.0
    later_gain: float = 1.0
    double_share: float = 0.85
    slope_reach: float = 1.5
    slope_within: float = 2.5
    slope_spacing: float = 0.6
    close: float = 0.4
    trust: float = 2.0
    beyond: float = 0.3
    ridge_start: float = 1e-3
    start_columns: int = 200
    scaling_factor: float = 10.0
    scaling_accuracy: float = 1e-4
    tied_difference: float = 1e-6
    max_variances: int = 60
    max_log_range: float = float(np.log(1e12))
    one_se_resolution: float = 0.1
    measured_resolution: float = 0.25
    many_nonzero: int = 500
    min_nonzero_for_slope: int = 200
    check_columns: int = 1000
    large: float = 2e7
    max_lanes: int = 12
    max_extrapolation: float = 0.8
    max_extrapolation_full: float = 0.4
    slope_change: float = 0.02
    slope_steps: int = 6
    slope_tolerance: float = 0.05
    slope_accuracy: float = 0.2
    ahead_tolerance: float = 0.1
    ahead_gain: float = 2.0
    ahead_slowdown: float = 2 / 3
    ahead_fits: int = 20
    screening_share: float = 0.9
    screening_many_columns: int = 4000
    screening_max_columns: int = 12_000
    screening_per_nonzero: float = 2.0
    screening_min_new: int = 500
    remembered: int = 4
    line_reach: float = 3.0
    small: float = 2e6
    small_factor: float = 1e-4
    dear_factor: float = 10.0
    dearest_factor: float = 30.0
    dearest_nonzero: int = 700
    dearest_rows: int = 20
    loosest: float = 0.1
    ridge_factor: float = 1e-5
    adaptive_factor: float = 1e-2
    full_factor: float = 0.1
    criterion_past: int = 5
    criterion_refinement: int = 4
    criterion_max_variances: int = 40
    criterion_flat: float = 0.005
    criterion_flat_steps: int = 12
    criterion_tolerance: float = 1e-6


DEFAULT = PathPolicy()
