"""Outcome models with covariates, with robust errors or of other kinds than Cox's, and their fits.

The effect within a level of a characteristic a is a coefficient of the same model with different
columns: the treatment of people without a and of people with a replace the treatment and its
product with a. Products with other characteristics b are then centred, T (b − mean b), so that the
effect is that at the average of the others.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.effects.outcome_families import Unfitted
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.effects.outcome_model_columns import (
    LEVELS,
    TREATMENT,
    outcome_columns,
    product,
)
from steropes.designs.effects.outcome_summaries import informative_events
from steropes.designs.values.normal_quantile import Z
from steropes.designs.values.profile_likelihood_points import REFIT_SPACING, store_profile
from steropes.errors import DataError, MonotoneLikelihoodWarning, SeparationError
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.inference.coefficient_profiles import CoefficientProfiles
from steropes.priors import Laplace, Normal
from steropes.select import CrossValidation

__all__ = ["PERIODS", "FittedEffect", "clusters_of", "fit_outcome_model", "fit_period_effects"]


# Columns of the effects by period.
PERIODS = (
    *("first_day", "last_day", "log_rr", "se", "lower", "upper", "target_outcomes"),
    *("comparator_outcomes", "target_informative", "comparator_informative"),
)


@dataclass(frozen=True)
class FittedEffect:
    """Effects of the treatment, its interactions and subgroups on the log scale.

    ``converged`` is True if all fits converged. ``log_rr`` is infinite, with one finite limit, if
    the outcomes do not bound the treatment's coefficient on one side. Lines of ``interactions``
    are (covariate, coefficient, standard error, lower, upper limit); those of ``subgroups`` the
    same after (covariate, 1 with it or 0 without it).
    """

    log_rr: float
    se: float
    lower: float
    upper: float
    interactions: tuple[tuple[int, float, float, float, float], ...]
    subgroups: tuple[tuple[int, int, float, float, float, float], ...] = ()
    llr: float = math.nan
    profile: pd.DataFrame | None = None
    proportional_p: float = math.nan
    converged: bool = True


def fit_outcome_model(
    people: pd.DataFrame,
    model: OutcomeModel,
    weights: NDArray | None,
    sets: NDArray | None,
    features: Covariates | None,
) -> FittedEffect:
    """Fit the outcome model and return the effect of the treatment.

    Parameters are those of ``estimate_effect``, already checked.
    """
    rows = _informative(people, sets) if model.stratified else np.arange(len(people))
    people = people.iloc[rows]
    weights = None if weights is None else weights[rows]
    sets = None if sets is None else sets[rows]
    features = None if features is None else features.take(rows)
    clusters = clusters_of(people, sets)
    x, free = outcome_columns(people, model, features)
    try:
        fitted, y, fit = _fitted(people, model, x, free, weights, sets)
    except SeparationError as error:
        return _separated_effect(people, model, x, free, weights, sets, error)
    # The caller knows the profile of a plain model without refits.
    profiles = None if model.plain else CoefficientProfiles(fitted, free)
    lines, refits_converged = _lines(fitted, model, free, clusters, profiles=profiles)
    converged = bool(fitted.converged_) and refits_converged
    interactions = tuple((c, *lines[product(c)]) for c in model.interactions)
    by_cv = model.covariates and model.variance is None
    chosen = replace(model, variance=fitted.variance_) if by_cv else model
    subgroups: list[tuple[int, int, float, float, float, float]] = []
    for c in model.interactions:
        if features is not None and np.isin(features.column(c), (0, 1)).all():
            parts, own = outcome_columns(people, chosen, features, within=c)
            refitted, _, _ = _fitted(people, chosen, parts, own, weights, sets)
            within, refits_converged = _lines(refitted, chosen, own, clusters, [*LEVELS])
            converged &= bool(refitted.converged_) and refits_converged
            subgroups += [(c, k, *within[level]) for k, level in enumerate(LEVELS)]
    log_rr, se, lower, upper = lines[TREATMENT]
    if profiles is None:  # There are no interactions either.
        return FittedEffect(log_rr, se, lower, upper, interactions, converged=converged)
    profile = _profile(profiles, model, lines[TREATMENT])
    llr = _value_at(profile, log_rr) - _value_at(profile, 0.0)
    proportional = math.nan
    if model.family.has_proportionality:
        rest = fitted.linear_predictor(x) - log_rr * (people["treated"].to_numpy() == 1)
        proportional = _proportional(people, model, rest, y, fit)
    return FittedEffect(
        log_rr,
        se,
        lower,
        upper,
        interactions,
        tuple(subgroups),
        llr,
        profile,
        proportional,
        converged,
    )


def _separated_effect(
    people: pd.DataFrame,
    model: OutcomeModel,
    x: Any,
    free: list[str],
    weights: NDArray | None,
    sets: NDArray | None,
    error: SeparationError,
) -> FittedEffect:
    """Return the finite limit and the profile of a treatment whose coefficient has no maximum.

    A profile ignores the prior of its own coefficient, so that a fit with a prior on the treatment
    has the same profile as the one without that cannot be fitted.

    Raises
    ------
    SeparationError
        Other coefficients have no finite maximum either.
    """
    if TREATMENT not in error.columns:
        raise error
    others = [name for name in free if name != TREATMENT]
    try:
        fitted, _, _ = _fitted(people, model, x, others, weights, sets, shrunken=True)
    except SeparationError:
        raise error from None
    profiles = CoefficientProfiles(fitted, [TREATMENT])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonotoneLikelihoodWarning)
        lower, upper = (float(limit) for limit in profiles.intervals(0.95)[0])
    if math.isfinite(lower) == math.isfinite(upper):
        raise error
    best = math.inf if math.isfinite(lower) else -math.inf
    profile = _profile(profiles, model, (best, math.nan, lower, upper), likelihood=True)
    return FittedEffect(
        best, math.nan, lower, upper, (), profile=profile, converged=bool(fitted.converged_)
    )


def fit_period_effects(
    people: pd.DataFrame,
    model: OutcomeModel,
    weights: NDArray | None,
    sets: NDArray | None,
    features: Covariates | None,
) -> tuple[pd.DataFrame, bool]:
    """Estimate the effect of the treatment in each period between ``model.split_days``.

    Parameters are those of ``estimate_effect``, already checked.

    Returns
    -------
    table : DataFrame
        ``first_day``, ``last_day`` (missing in the last period), ``log_rr``, ``se``, ``lower``,
        ``upper`` and, for each arm, the outcomes in the period and the informative ones. Effects
        are missing if one of them cannot be estimated.
    converged : bool
    """
    try:
        lines, converged = _period_lines(people, model, weights, sets, features)
    except (SeparationError, DataError, np.linalg.LinAlgError):  # A period without outcomes.
        lines, converged = [(math.nan,) * 4] * (len(model.split_days) + 1), True
    edges = [0.0, *map(float, model.split_days), math.inf]
    time, event, treated = (people[c].to_numpy() for c in ("time", "event", "treated"))
    rows = []
    for line, first, last in zip(lines, edges[:-1], edges[1:], strict=True):
        within = (event == 1) & (time > first) & (time <= last)
        used = informative_events(time, within, treated, sets if model.stratified else None)
        rows.append(
            (
                *(first + 1, last if math.isfinite(last) else math.nan, *line),
                *(int((within & (treated == arm)).sum()) for arm in (1, 0)),
                *used,
            )
        )
    return pd.DataFrame(rows, columns=[*PERIODS]), converged


def _period_lines(
    people: pd.DataFrame,
    model: OutcomeModel,
    weights: NDArray | None,
    sets: NDArray | None,
    features: Covariates | None,
) -> tuple[list[tuple[float, float, float, float]], bool]:
    """Fit the model whose effect may change, and return coefficient and limits by period."""
    informative = _informative(people, sets) if model.stratified else np.arange(len(people))
    of = people.iloc[informative]
    parts = [None if part is None else part[informative] for part in (weights, sets)]
    x, free = outcome_columns(of, model, None if features is None else features.take(informative))
    estimator, y, fit = _estimator(of, model, free)
    estimator.set_params(time_varying={TREATMENT: [*map(float, model.split_days)]})
    if parts[0] is not None:
        fit["sample_weight"] = parts[0]
    if model.stratified:
        fit["strata"] = parts[1]
    fitted = estimator.fit(x, y, **fit)
    names = [str(name) for name in fitted.summary().index if str(name).startswith(f"{TREATMENT}@")]
    lines, converged = _lines(fitted, model, names, clusters_of(of, parts[1]))
    return [lines[name] for name in names], bool(fitted.converged_) and converged


def _fitted(
    people: pd.DataFrame,
    model: OutcomeModel,
    x: object,
    free: list[str],
    weights: NDArray | None,
    sets: NDArray | None,
    shrunken: bool = False,
) -> tuple[Any, Any, dict[str, Any]]:
    """Return the fitted estimator, its y, and the other arguments of ``fit``.

    If ``shrunken``, columns that are not ``free`` have a prior also in a model without covariates.
    """
    estimator, y, fit = _estimator(people, model, free, shrunken)
    if weights is not None:
        fit["sample_weight"] = weights
    if model.stratified:
        fit["strata"] = sets
    return estimator.fit(x, y, **fit), y, fit


def _proportional(
    people: pd.DataFrame, model: OutcomeModel, rest: NDArray, y: Any, fit: dict[str, Any]
) -> float:
    """Test the proportionality of the treatment's hazards, with the covariates as offset."""
    treated = (people["treated"].to_numpy(dtype=float) == 1).astype(float)[:, None]
    try:
        alone = CoxRegression(ties=model.ties).fit(treated, y, offset=rest, **fit)
        return float(alone.checks.proportionality()["p"].iloc[0])
    except (SeparationError, DataError, np.linalg.LinAlgError):  # Such as a single event time.
        return math.nan


def _informative(people: pd.DataFrame, sets: NDArray | None) -> NDArray:
    """Find the rows of sets with an outcome; others do not affect a conditional likelihood."""
    of_set = pd.Series(np.asarray(sets))
    return np.flatnonzero(
        (people["outcomes"].groupby(of_set.to_numpy()).transform("sum") > 0).to_numpy()
    )


def _estimator(
    people: pd.DataFrame, model: OutcomeModel, free: list[str], shrunken: bool = False
) -> Unfitted:
    """Return the unfitted estimator, its y, and the other arguments of ``fit``."""
    settings: dict[str, Any] = {}
    if shrunken and not model.covariates:
        settings["prior"] = Normal(variance=1.0, exclude=tuple(free))
    if model.covariates:
        exclude = tuple(free)
        if model.variance is not None:
            settings["prior"] = Laplace(variance=model.variance, exclude=exclude)
        else:
            settings["prior"] = Laplace(exclude=exclude)
            settings["cv"] = CrossValidation(
                folds=model.folds, repeats=model.repeats, random_state=model.seed
            )
            settings["random_state"] = model.seed
    return model.family.unfitted(people, model, settings)


def _profile(
    profiles: CoefficientProfiles,
    model: OutcomeModel,
    line: tuple[float, float, float, float],
    likelihood: bool = False,
) -> pd.DataFrame:
    """Store the profile of the treatment around its estimate and likelihood interval.

    If ``likelihood``, the limits of ``line`` are those of the likelihood for any kind of interval.
    """
    log_rr, se, lower, upper = line
    if (
        model.interval_used != "profile" and not likelihood
    ):  # The Wald limits approximate the profile's width.
        lower, upper = log_rr - Z * se, log_rr + Z * se
    return store_profile(
        profiles.function(TREATMENT),
        log_rr,
        *(x if math.isfinite(x) else side * math.inf for side, x in ((-1, lower), (1, upper))),
        lowest=math.log(model.lowest),
        highest=math.log(model.highest),
        step=REFIT_SPACING,
    )


def _value_at(profile: pd.DataFrame, log_rr: float) -> float:
    """Look up the stored log-likelihood at a log ratio; NaN if it is not among the points."""
    apart = (profile["log_rr"] - log_rr).abs()
    near = profile["log_likelihood"][apart < 1e-8]
    return float(near.iloc[0]) if len(near) else math.nan


def clusters_of(people: pd.DataFrame, sets: NDArray | None) -> NDArray:
    """Return the clusters of rows: matched sets, else persons."""
    if sets is None or len(pd.unique(sets)) < 20:  # Score strata are not clusters.
        return people["person_id"].to_numpy()
    return sets


def _lines(
    fitted: Any,
    model: OutcomeModel,
    free: list[str],
    clusters: NDArray,
    wanted: list[str] | None = None,
    profiles: CoefficientProfiles | None = None,
) -> tuple[dict[str, tuple[float, float, float, float]], bool]:
    """Return coefficient, standard error and limits of some columns, by default without prior.

    ``profiles`` are those of these columns, if they are known. The second value is True if all
    refits of the interval converged.
    """
    wanted = free if wanted is None else wanted
    kind = model.interval_used
    if kind == "bootstrap":
        units = None if model.stratified else clusters  # Sets are always drawn as a whole.
        draws = fitted.inference.bootstrap(n=model.draws, random_state=model.seed, cluster=units)
        limits, coef = draws.confint(0.95), pd.DataFrame(draws.coef, columns=draws.names)
        spread = coef.replace([np.inf, -np.inf], np.nan).std()
        point = fitted.summary()["coef"]
        lines = {
            name: (
                float(point[name]),
                float(spread[name]),
                float(limits.loc[name, "lower"]),
                float(limits.loc[name, "upper"]),
            )
            for name in wanted
        }
        return lines, bool(draws.converged.all())
    if kind == "robust":
        table = fitted.summary(0.95, kind="robust", cluster=clusters)
    else:
        table = fitted.summary(0.95)
    if kind == "profile":
        profiles = CoefficientProfiles(fitted, wanted) if profiles is None else profiles
        lower, upper = profiles.intervals(0.95).T
        table = pd.DataFrame(
            {
                "coef": table.loc[wanted, "coef"],
                "se": (upper - lower) / (2 * Z),
                "lower": lower,
                "upper": upper,
            }
        )
    coef, se, lower, upper = (table[c] for c in ("coef", "se", "lower", "upper"))
    lines = {
        name: (float(coef[name]), float(se[name]), float(lower[name]), float(upper[name]))
        for name in wanted
    }
    return lines, True
