"""Effect estimates with intervals and profile likelihoods."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.designs.covariates.covariates_by_column import Covariates, IntoCovariates
from steropes.designs.effects.e_values import is_common
from steropes.designs.effects.effect_estimate_result import (
    Estimate,
    empty_interactions,
    empty_profile,
    empty_subgroups,
)
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.effects.outcome_regression import (
    FittedEffect,
    clusters_of,
    fit_outcome_model,
    fit_period_effects,
)
from steropes.designs.effects.outcome_summaries import arm_counts
from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.designs.effects.two_group_tests import proportionality_p, robust_error
from steropes.designs.values.arm_names import TREATED_ARMS
from steropes.designs.values.input_checks import require_people, require_weights
from steropes.designs.values.normal_quantile import Z
from steropes.designs.values.profile_likelihood_points import CHEAP_SPACING, store_profile
from steropes.errors import DataError, SeparationError

__all__ = ["estimate_effect", "reason_without_estimate"]


def estimate_effect(
    people: pd.DataFrame,
    model: OutcomeModel | None = None,
    *,
    weights: ArrayLike | None = None,
    sets: ArrayLike | None = None,
    features: IntoCovariates | None = None,
) -> Estimate:
    """Estimate the effect of the treatment on the outcome.

    An effect that cannot be estimated is not an error: ``note`` gives the reason.

    Parameters
    ----------
    people : DataFrame
        As in ``StudyPopulation.people``: ``person_id``, ``treated``, ``time``, ``event``,
        ``outcomes``, ``days_at_risk``.
    model : OutcomeModel, optional
        Settings of the model. Default: those of ``OutcomeModel()``.
    weights : array_like, shape (n,), optional
        Propensity weights, for ``weighted``.
    sets : array_like of int, shape (n,), optional
        Matched sets or strata, for ``stratified``; also the clusters of robust intervals.
    features : Covariates, data frame, sparse matrix or array_like, optional
        Covariates of the same people, shape (n, p).

    Returns
    -------
    Estimate
        The effect on the log scale, with its interval and profile.

    Raises
    ------
    DataError
        The model needs weights, sets or covariates that are missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs import OutcomeModel, estimate_effect
    >>> people = pd.DataFrame({"treated": [1, 1, 1, 0, 0, 0], "time": [5, 8, 9, 3, 6, 9],
    ...                        "event": [1, 0, 1, 1, 1, 0]})
    >>> estimate = estimate_effect(people, OutcomeModel(interval="wald"))
    >>> round(estimate.log_rr, 3)
    -0.101
    """
    from scipy.special import ndtr

    model = model or OutcomeModel()
    if model.family.doubly_robust:
        raise DataError(
            f'kind "{model.kind}" needs models of both arms: use steropes.designs.DoublyRobust, '
            "or compare_groups"
        )
    for needed, given, name in (
        (model.weighted, weights, "propensity weights"),
        (model.stratified, sets, "matched sets or strata"),
        (model.covariates or bool(model.interactions), features, "covariates"),
    ):
        if needed and given is None:
            raise DataError(f"the outcome model needs {name}, but the analysis provides none")
    require_people(people, "treated", "time", "event")
    if model.family.needs_rates or model.stratified:
        require_people(people, "outcomes", "days_at_risk")
    require_weights(weights, len(people))
    note = reason_without_estimate(people)
    if note:
        return Estimate(note=note)
    w = None if not model.weighted or weights is None else np.asarray(weights, dtype=float)
    s = None if sets is None else np.asarray(sets)
    x = None if features is None else Covariates.of(features, "outcome model")
    common = is_common(people)
    try:
        if model.plain and model.interval_used != "bootstrap":
            found = _from_counts(people, model, w, s)
        else:
            found = _from_fit(people, model, w, s, x)
        if model.split_days and math.isfinite(found.log_rr):
            periods, converged = fit_period_effects(people, model, w, s, x)
            p = 2 * ndtr(-np.abs(periods["log_rr"] / periods["se"]))
            found = replace(
                found, periods=periods.assign(p=p), converged=found.converged and converged
            )
        return replace(found, kind=model.kind, common=common)
    except (SeparationError, DataError, np.linalg.LinAlgError) as error:
        return Estimate(note=str(error))


def reason_without_estimate(people: pd.DataFrame) -> str:
    """Return the reason why there can be no estimate; "" if it can be attempted."""
    treated = people["treated"].to_numpy()
    without = [name for value, name in TREATED_ARMS if not (treated == value).any()]
    if without:
        return "nobody is left" if len(without) == 2 else f"nobody is left in the {without[0]} arm"
    if not (people["event"] == 1).any():
        return "nobody had the outcome during the time at risk"
    return ""


def _counted(
    people: pd.DataFrame, model: OutcomeModel, w: NDArray | None, s: NDArray | None
) -> TwoGroupCox:
    """Count the people at risk and the events."""
    return TwoGroupCox.of(people["time"], people["event"] == 1, people["treated"], w, s, model.ties)


def _from_counts(
    people: pd.DataFrame, model: OutcomeModel, w: NDArray | None, s: NDArray | None
) -> Estimate:
    """Estimate Cox's model of the treatment alone from its exact likelihood."""
    strata = s if model.stratified else None
    groups = _counted(people, model, w, strata)
    best = groups.maximum()
    if math.isnan(best):
        return Estimate(note="no set or stratum has an outcome and people of both arms at risk")
    lower, upper = groups.interval()
    profile = _profile(groups, model, best, (lower, upper))
    if math.isinf(best):
        return Estimate(
            lower=lower,
            upper=upper,
            interval="profile",
            profile=profile,
            note=_infinite_because(people, "comparator" if best > 0 else "target", model, strata),
        )
    happened = (people["event"] == 1).to_numpy()
    if model.interval_used == "profile":
        se = (upper - lower) / (2 * Z)
    else:
        se = 1 / math.sqrt(groups.information(best))
        if model.interval_used == "robust":
            clusters = clusters_of(people, s)
            se = robust_error(
                groups, best, people["time"], happened, people["treated"], w, strata, clusters
            )
        lower, upper = best - Z * se, best + Z * se
    at_best = float(groups.log_likelihood(best)[0])
    return Estimate(
        log_rr=best,
        se=se,
        lower=lower,
        upper=upper,
        llr=at_best - float(groups.log_likelihood(0.0)[0]),
        interval=model.interval_used,
        profile=profile,
        proportional_p=proportionality_p(groups, best, people["time"], happened, w),
    )


def _infinite_because(
    people: pd.DataFrame, arm: str, model: OutcomeModel, strata: NDArray | None
) -> str:
    """Return why the ratio is infinite or zero: in which arm no one had the outcome, and when."""
    value, other = (1, "comparator") if arm == "target" else (0, "target")
    when = "during the time at risk"
    if ((people["event"] == 1) & (people["treated"] == value)).any():
        same = "" if strata is None else " of the same set or stratum"
        when = f"while people of the {other} arm{same} were at risk"
        if not model.plain:
            when = "among the people whom the model compares"
    ratio = model.family.ratio
    return f"nobody in the {arm} arm had the outcome {when}, so there is no finite {ratio}"


def _profile(
    groups: TwoGroupCox, model: OutcomeModel, best: float, limits: tuple[float, float]
) -> pd.DataFrame:
    """Store the log-likelihood, minus its supremum, and its slope over the relevant range."""
    table = store_profile(
        groups.value_and_gradient,
        best,
        *limits,
        lowest=math.log(model.lowest),
        highest=math.log(model.highest),
        step=CHEAP_SPACING,
    )
    return table.assign(log_likelihood=table["log_likelihood"] - table["log_likelihood"].max())


def _from_fit(
    people: pd.DataFrame,
    model: OutcomeModel,
    w: NDArray | None,
    s: NDArray | None,
    features: Covariates | None,
) -> Estimate:
    """Estimate any other model with an estimator of the library."""
    fitted = fit_outcome_model(people, model, w, s, features)
    profile, llr = empty_profile(), fitted.llr
    if fitted.profile is not None:
        profile = fitted.profile[["log_rr", "log_likelihood", "gradient"]].reset_index(drop=True)
        profile["log_likelihood"] -= profile["log_likelihood"].max()
    if math.isinf(fitted.log_rr):
        return _one_limit(people, model, s, fitted, profile)
    proportional = fitted.proportional_p
    if model.plain:  # The likelihood is known for any kind of interval.
        groups = _counted(people, model, w, s if model.stratified else None)
        profile = _profile(groups, model, fitted.log_rr, groups.interval())
        at = groups.log_likelihood([fitted.log_rr, 0.0])
        llr = float(at[0] - at[1])
        happened = (people["event"] == 1).to_numpy()
        proportional = proportionality_p(groups, fitted.log_rr, people["time"], happened, w)
    return Estimate(
        log_rr=fitted.log_rr,
        se=fitted.se,
        lower=fitted.lower,
        upper=fitted.upper,
        llr=llr,
        interval=model.interval_used,
        profile=profile,
        interactions=_interactions(fitted),
        subgroups=_subgroups(fitted, people, features, model.family.days),
        proportional_p=proportional,
        converged=fitted.converged,
    )


def _one_limit(
    people: pd.DataFrame,
    model: OutcomeModel,
    s: NDArray | None,
    fitted: FittedEffect,
    profile: pd.DataFrame,
) -> Estimate:
    """Return the finite limit of an effect without an estimate, with the reason."""
    arm = "comparator" if fitted.log_rr > 0 else "target"
    return Estimate(
        lower=fitted.lower,
        upper=fitted.upper,
        interval="profile",
        profile=profile,
        converged=fitted.converged,
        note=_infinite_because(people, arm, model, s if model.stratified else None),
    )


def _interactions(fitted: FittedEffect) -> pd.DataFrame:
    """Tabulate the interactions with their p-values."""
    if not fitted.interactions:
        return empty_interactions()
    from scipy.special import ndtr

    table = pd.DataFrame(
        fitted.interactions, columns=["covariate_id", "log_rr", "se", "lower", "upper"]
    )
    return table.assign(p=2 * ndtr(-np.abs(table["log_rr"] / table["se"])))


def _subgroups(
    fitted: FittedEffect, people: pd.DataFrame, features: Covariates | None, days: str
) -> pd.DataFrame:
    """Tabulate the effects within subgroups with the counts of each."""
    if not fitted.subgroups or features is None:
        return empty_subgroups()
    from scipy.special import ndtr

    names = ["covariate_id", "level", "log_rr", "se", "lower", "upper"]
    table = pd.DataFrame(fitted.subgroups, columns=names)
    table["p"] = 2 * ndtr(-np.abs(table["log_rr"] / table["se"]))
    counts = [
        arm_counts(people[features.column(line.covariate_id) == line.level], days)
        for line in table.itertuples(index=False)
    ]
    return table.join(pd.DataFrame(counts))
