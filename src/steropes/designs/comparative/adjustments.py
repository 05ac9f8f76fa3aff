"""Adjustment of two groups by matching or weights, with the errors that each way allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data import Surv
from steropes.designs.comparative.compared_people import ComparisonTable
from steropes.designs.comparative.doubly_robust import DoublyRobust
from steropes.designs.comparative.doubly_robust_survival import DoublyRobustSurvival
from steropes.designs.comparative.entropy_balancing import EntropyBalancing
from steropes.designs.comparative.matching import Matching
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.values.estimands import AnyEstimand, check_estimand
from steropes.errors import DataError, SeparationError, listed
from steropes.infer.errors_with_estimated_weights import WeightModel
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.estimators.penalized_model import PenalizedModel
from steropes.models.estimators.pooled_logistic_regression import PooledLogisticRegression
from steropes.priors import Laplace
from steropes.select.crossvalidation import FOLDS

__all__ = [
    "STANDARDIZATION", "Adjust", "Adjustment", "BothModels", "Step", "adjust_groups", "steps_of",
    "unadjusted",
]  # fmt: skip

Method = Literal[
    "matching", "strata", "weights", "entropy", "standardization", "aipw", "tmle", "ipwra"
]
# Estimates that come from models of treatment and outcome, not from weights alone.
BothModels: TypeAlias = DoublyRobust | DoublyRobustSurvival
Step: TypeAlias = Matching | PropensityWeights | EntropyBalancing | BothModels
Adjust: TypeAlias = Method | Step | Sequence[Method | Step]
STANDARDIZATION = "standardization"
# Populations over which outcome models are averaged.
STANDARDIZED = ("ate", "att", "atu")
# Named methods with a propensity model.
SCORED = ("matching", "strata", "weights", "aipw", "tmle", "ipwra")
# Intervals up to the horizon in which methods given by name have hazards.
INTERVALS = 30
NO_LATE_ENTRY = "late entry (entry=) is not available in doubly robust risks."


@dataclass(frozen=True, repr=False)
class Adjustment:
    """Weights of people after one way of adjustment, and how errors are computed.

    Attributes
    ----------
    method : str
    weights : ndarray, shape (n,)
    step : Matching, PropensityWeights, EntropyBalancing, DoublyRobust(Survival) or None
        The fitted object; None without adjustment.
    clusters : ndarray of int, shape (n,), or None
        Matched sets, within which influences are summed.
    weight_model : WeightModel or None
        The model of the weights, whose estimation the errors include.
    errors : str
        Sources of error that standard errors include.
    """

    method: str
    weights: NDArray
    step: Step | None
    clusters: NDArray | None
    weight_model: WeightModel | None
    errors: str

    @property
    def certificate(self) -> tuple[float, float] | None:
        """The violation of the optimality conditions and the largest of a converged fit.

        None without a fit, and for models of the treatment that prove no optimum.
        """
        step = self.step
        scored = Matching | PropensityWeights | BothModels
        fitted = step.model_ if isinstance(step, scored) else step
        if not isinstance(fitted, PenalizedModel | EntropyBalancing):
            return None
        return float(np.max(fitted.optimality_)), float(fitted.tol)


def steps_of(
    adjust: Adjust, estimand: AnyEstimand, model: Any, long: bool, horizon: float | None = None
) -> dict[str, Step | None]:
    """Return the unfitted objects by the names of their methods; None is standardisation.

    Parameters
    ----------
    adjust : str, object or sequence of them
        As in `compare_groups`.
    model : estimator or None
        Unfitted propensity model.
    long : bool
        Whether the covariates were a long table, of which the default model has a prior.
    horizon : float, optional
        Time of risks of times to events.
    """
    given: Any = [adjust] if isinstance(adjust, str | Step) else adjust
    if not isinstance(given, Sequence):
        raise _unknown_method(adjust)
    if not given:
        raise DataError("adjust is empty; name one method or more.")
    if model is not None and not set(SCORED).intersection(x for x in given if isinstance(x, str)):
        raise DataError(
            f"model is for {listed(list(SCORED))} given by name; leave it out, or set it in the "
            "objects of adjust."
        )
    if model is None and long:
        model = LogisticRegression(prior=Laplace(), cv=FOLDS, random_state=0)
    steps: dict[str, Step | None] = {}
    for each in given:
        if isinstance(each, str):
            step = _named(each, estimand, model, horizon)
        else:
            step = _own(each, estimand)
        name = each if isinstance(each, str) else _name_of(each)
        if name in steps:
            number = 2
            while f"{name} {number}" in steps:
                number += 1
            name = f"{name} {number}"
        steps[name] = step
    return steps


def _named(name: str, estimand: AnyEstimand, model: Any, horizon: float | None) -> Step | None:
    """Return the object of a named method with its defaults."""
    if name == STANDARDIZATION:
        if estimand not in STANDARDIZED:
            raise DataError(
                f"standardization: the estimand is 'ATE', 'ATT' or 'ATC', not {estimand!r}."
            )
        return None
    if name == "matching" and check_estimand(estimand) not in ("att", "atu"):
        raise DataError(
            f"matching: pairs estimate the effect in one group, not {estimand!r}. Set "
            "estimand='ATT' or 'ATC', or give Matching(method='full') in adjust."
        )
    made: dict[str, Any] = {
        "matching": lambda: Matching(estimand=estimand, model=model),
        "strata": lambda: Matching(method="strata", estimand=estimand, model=model),
        "weights": lambda: PropensityWeights(estimand=estimand, model=model),
        "entropy": lambda: EntropyBalancing(estimand=estimand),
        "aipw": lambda: _of_both_models("aipw", estimand, model, horizon),
        "tmle": lambda: _of_both_models("tmle", estimand, model, horizon),
        "ipwra": lambda: DoublyRobust(
            method="ipwra", estimand=estimand, treatment_model=model, folds=1, errors="stacked"
        ),
    }
    if name not in made:
        raise _unknown_method(name)
    step: Step = made[name]()
    return step


def _of_both_models(
    method: str, estimand: AnyEstimand, model: Any, horizon: float | None
) -> BothModels:
    """Return the object of a doubly robust method with its defaults."""
    if horizon is None:
        return DoublyRobust(method=method, estimand=estimand, treatment_model=model)
    return DoublyRobustSurvival(
        method=method, estimand=estimand, treatment_model=model, interval=horizon / INTERVALS
    )


def _unknown_method(given: object) -> DataError:
    """Create the error of a method that there is not."""
    return DataError(
        f"adjust must be one of {listed(list(get_args(Method)))}, a Matching, PropensityWeights, "
        f"EntropyBalancing, DoublyRobust or DoublyRobustSurvival object, or a list of them, not "
        f"{given!r}."
    )


def _own(step: object, estimand: AnyEstimand) -> Step:
    """Return a copy of a user's object; refuse one with another estimand."""
    if not isinstance(step, Step):
        raise DataError(
            "adjust takes names of methods and Matching, PropensityWeights, EntropyBalancing, "
            f"DoublyRobust or DoublyRobustSurvival objects, not {type(step).__name__}."
        )
    own = check_estimand(step.estimand)
    if own != estimand and step.estimand != _default_estimand(step):
        raise DataError(
            f"{type(step).__name__} has estimand={step.estimand!r} and the comparison "
            f"{estimand!r}; give both the same."
        )
    copy: Step = clone(step).set_params(estimand=estimand)
    return copy


def _default_estimand(step: Step) -> object:
    """Return the estimand of an object that states none."""
    return signature(type(step)).parameters["estimand"].default


def _name_of(step: Step) -> str:
    """Return the name of an object's method."""
    if isinstance(step, Matching):
        if step.method in ("nearest", "strata"):
            plain = "strata" if step.method == "strata" else "matching"
            return f"{plain} with replacement" if step.replace else plain
        return f"{step.method} matching"
    if isinstance(step, BothModels):
        return str(step.method)
    return "weights" if isinstance(step, PropensityWeights) else "entropy"


def unadjusted(table: ComparisonTable) -> Adjustment:
    """Return everybody with a weight of one."""
    return _clustered(
        table, Adjustment("unadjusted", np.ones(table.n), None, None, None, "robust (HC0)")
    )


def _clustered(table: ComparisonTable, made: Adjustment) -> Adjustment:
    """Take errors by clusters of people, within which matched sets must lie."""
    codes, how = table.clusters, f"clustered by {table.cluster!r}"
    if codes is None:
        return made
    if isinstance(made.step, Matching) and made.step.method != "strata":
        return replace(made, clusters=_of_sets(table, made.method, made.step, codes), errors=how)
    return replace(made, clusters=codes, errors=f"{made.errors.replace(' (HC0)', '')}, {how}")


def _of_sets(table: ComparisonTable, method: str, step: Matching, codes: NDArray) -> NDArray:
    """Return the clusters of matched people, and −1 for others; refuse sets across clusters."""
    name = table.cluster
    if step.replace:
        raise DataError(
            f"{method}: errors by clusters are not known after matching with replacement; leave "
            "out replace or cluster, or take 'weights'."
        )
    inside = step.sets_ >= 0
    sets, own = step.sets_[inside], codes[inside]
    if len(np.unique(np.column_stack([sets, own]), axis=0)) > len(np.unique(sets)):
        raise DataError(
            f"{method}: people of a matched set are in several clusters of {name!r}. Name it in "
            f"covariates as labels and match within clusters, Matching(exact=[{name!r}]), or take "
            "'weights'."
        )
    if len(np.unique(own)) < 2:
        raise DataError(
            f"{method}: all matched people are in one cluster of {name!r}, and errors by clusters "
            "need two or more; leave cluster out."
        )
    return np.where(inside, codes, -1)


def adjust_groups(
    table: ComparisonTable, method: str, step: Step, horizon: float | None = None
) -> Adjustment:
    """Fit an adjustment to the people.

    Parameters
    ----------
    method : str
        Name of the row in the results.
    step : Matching, PropensityWeights, EntropyBalancing, DoublyRobust or DoublyRobustSurvival
        Unfitted.
    horizon : float, optional
        Time of risks of times to events.
    """
    try:
        if isinstance(step, Matching):
            step.fit(table.columns, table.target, ids=table.ids)
        elif isinstance(step, DoublyRobust):
            _fit_doubly_robust(table, step)
        elif isinstance(step, DoublyRobustSurvival):
            _fit_doubly_robust_survival(table, step, horizon)
        else:
            step.fit(table.columns, table.target)
    except SeparationError as error:
        raise DataError(
            f"{method}: the propensity score cannot be estimated, because the groups do not "
            f"overlap, or covariates are constant or repeat each other. {error}"
        ) from error
    except DataError as error:
        raise DataError(f"{method}: {error}") from error
    if isinstance(step, Matching):
        return _clustered(table, _of_matching(method, step))
    if isinstance(step, BothModels):
        how = str(step.effects_["errors"].iloc[0])
        return Adjustment(method, step.weights_, step, None, None, how)
    return _clustered(table, _of_weights(method, step))


def _of_weights(method: str, step: PropensityWeights | EntropyBalancing) -> Adjustment:
    """Return weights with their errors."""
    reason = step.estimation_left_out
    kept = None if reason else step
    how = (
        f"robust (HC0) with the weights as known, since {reason}"
        if reason
        else "stacked equations (include the estimated weights)"
    )
    return Adjustment(method, step.weights_, step, None, kept, how)


def _fit_doubly_robust(table: ComparisonTable, step: DoublyRobust) -> None:
    """Fit models of treatment and outcome; under a prior for a long table."""
    if table.outcome.entry is not None:
        raise DataError(NO_LATE_ENTRY)
    if table.outcome.event is not None:
        raise DataError(
            "times to events need intervals: take 'aipw', 'tmle' or DoublyRobustSurvival("
            "interval=…) in adjust."
        )
    if table.long and step.outcome_model is None:
        kind = LogisticRegression if table.outcome.kind == "binary" else LinearRegression
        step.set_params(outcome_model=kind(prior=Laplace(), cv=FOLDS, random_state=0))
    if table.long and step.treatment_model is None:
        model = LogisticRegression(prior=Laplace(), cv=FOLDS, random_state=0)
        step.set_params(treatment_model=model)
    step.fit(table.columns, table.target, table.outcome.y, clusters=table.clusters)


def _fit_doubly_robust_survival(
    table: ComparisonTable, step: DoublyRobustSurvival, horizon: float | None
) -> None:
    """Fit models of treatment, events and censoring; under a prior for a long table."""
    event = table.outcome.event
    if event is None:
        raise DataError("DoublyRobustSurvival is for time= and event=; take DoublyRobust.")
    if table.outcome.entry is not None or horizon is None:
        raise DataError(NO_LATE_ENTRY)
    if step.times is not None:
        raise DataError("leave times out; horizon= of compare_groups is the time of risks.")
    if table.long:
        model = PooledLogisticRegression(prior=Laplace(), cv=FOLDS, random_state=0)
        for name in ("event_model", "censoring_model"):
            if getattr(step, name) is None:
                step.set_params(**{name: model})
        if step.treatment_model is None:
            treated = LogisticRegression(prior=Laplace(), cv=FOLDS, random_state=0)
            step.set_params(treatment_model=treated)
    step.set_params(times=[horizon])
    step.fit(table.columns, table.target, Surv(table.outcome.y, event), clusters=table.clusters)


def _of_matching(method: str, step: Matching) -> Adjustment:
    """Return the weights of matched people with their errors."""
    clusters = None if step.replace else step.sets_
    if step.method == "strata":
        # A few strata are no sample of clusters.
        clusters, how = None, "robust (HC0) with the strata as known"
    elif clusters is None:
        how = "robust (HC0) with the matches as known"
    else:
        how = "clustered by matched set"
    return Adjustment(method, step.weights_, step, clusters, None, how)
