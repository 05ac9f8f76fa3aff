"""Fits of several outcomes to one X under a prior that couples their coefficients.

The outcomes are channels of one problem, as the classes of a multinomial model are: X is stored
once, and the solver, its certificate and cross-validation are those of all other problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...backends.blas_threads import single_threaded_blas
from ...data.column_lookup import ColumnLookup
from ...design_matrix import Design
from ...design_matrix.multinomial_design import ClassDesign
from ...errors import DataError, SeparationError
from ...fit import Problem
from ...fit.shards import ShardedDesign
from ...infer import refuse_separated
from ...infer.information_matrix import Information
from ...likelihoods.linear_likelihood import LinearLikelihood
from ...likelihoods.logistic_likelihood import LogisticLikelihood
from ...likelihoods.poisson_likelihood import PoissonLikelihood
from ...likelihoods.stacked_outcomes_likelihood import OutcomeChannelsLikelihood
from ...priors import JointPrior, Prior, PriorColumns
from ...select import InformationCriterion
from ...select.crossvalidation import LIKELIHOOD_SCORES
from ...solve import Fit
from ..estimators.penalized_model import PenalizedModel
from ..fitting.coefficient_tables import coefficient_table
from ..fitting.default_standard_errors import has_fractions
from ..fitting.prior_variance_choice import choose_variance, chooser_of
from ..fitting.progress_messages import Progress
from ..fitting.row_arguments import FitInputs
from ..fitting.solver_runs import fit_by_newton
from ..fitting.time_varying_effects import prior_of_copies
from .outcome_inputs import ROW_ARGUMENTS, FitArguments

__all__ = ["JointFit", "fit_jointly"]

FAMILIES = LinearLikelihood | LogisticLikelihood | PoissonLikelihood


@dataclass(frozen=True)
class JointFit:
    """Outcomes that were fitted together.

    Attributes
    ----------
    tables : dict of str to DataFrame or None
        The coefficients of each outcome as of ``summary()``; None if it cannot be fitted.
    notes : dict of str to str
        Why an outcome has no fit, or no errors.
    optimality : float
        The certificate: the largest violation of the optimality conditions over all outcomes.
    converged : bool
    prior : Prior
        The prior in use, over the coefficients of all outcomes.
    model : PenalizedModel
        With ``variance_`` and ``cv_results_`` if there was a cross-validation.
    """

    tables: dict[str, pd.DataFrame | None]
    notes: dict[str, str]
    optimality: float
    converged: bool
    prior: Prior
    model: PenalizedModel


def fit_jointly(
    estimator: PenalizedModel,
    design: Design | ShardedDesign,
    own: Mapping[str, FitArguments],
    level: float,
) -> JointFit:
    """Fit outcomes together under a `JointPrior`.

    Parameters
    ----------
    estimator : PenalizedModel
        A linear, logistic or Poisson model with a `JointPrior`.
    own : mapping
        The arguments of ``fit`` for each outcome.
    level : float
        Confidence level of the intervals.

    Raises
    ------
    DataError
        The model or a setting has no prior across outcomes, or no outcome can be fitted.
    """
    model = clone(estimator)
    _refuse_settings(model, design)
    model.set_params(device="cpu")
    assert isinstance(design, Design)
    problems, notes = _problems(model, design, own)
    joint = _joint_problem(model, design, problems)
    with single_threaded_blas(), Progress(model.verbose) as progress:
        prior, start = choose_variance(model, joint, progress)
        joint = replace(joint, prior=prior)
        fit, joint, _ = fit_by_newton(joint, start, model.tol, model.max_iter, progress.step)
        _refuse_separated(joint, problems, fit)
    assert prior is not None
    tables, note = _tables(model, joint, fit, list(problems), design.names, level)
    found: dict[str, pd.DataFrame | None] = {name: tables.get(name) for name in own}
    notes |= dict.fromkeys(problems, note)
    return JointFit(found, notes, fit.optimality, fit.converged, prior, model)


def _refuse_settings(model: PenalizedModel, design: Design | ShardedDesign) -> None:
    """Refuse settings that are not available for several outcomes together."""
    kind = type(model.prior).__name__
    if isinstance(design, ShardedDesign):
        raise DataError(f"{kind} needs X as one table or matrix, not in blocks.")
    if model.device == "cuda":
        raise DataError(f"{kind} is fitted on the CPU; set device='cpu' or 'auto'.")
    if model.solver != "newton":
        raise DataError(f"{kind} needs solver='newton', not {model.solver!r}.")
    if vars(type(model)).get("_batched_outcomes", "never") == "never":
        raise _wrong_model(model)
    if model.cv is None:
        return
    chooser = chooser_of(model)
    if isinstance(chooser, InformationCriterion):
        raise DataError(f"The variance of {kind} is chosen by cross-validation; set cv=10.")
    if chooser.scoring not in LIKELIHOOD_SCORES:
        raise DataError(
            f"The variance of {kind} is chosen by the log-likelihood of all outcomes together, not "
            f"by scoring={chooser.scoring!r}."
        )


def _wrong_model(model: PenalizedModel) -> DataError:
    """Create the error of a model without priors across outcomes."""
    return DataError(
        f"{type(model).__name__} has no {type(model.prior).__name__} prior across outcomes, which "
        "is for LinearRegression, LogisticRegression and PoissonRegression: their rows are "
        "independent. Rates of events are Poisson models with exposure=."
    )


def _problems(
    model: PenalizedModel, design: Design, own: Mapping[str, FitArguments]
) -> tuple[dict[str, Problem], dict[str, str]]:
    """Assemble the problem of each outcome, with the reasons of those that have none."""
    problems: dict[str, Problem] = {}
    notes: dict[str, str] = {}
    for name, given in own.items():
        each = clone(model)
        each._names, each.n_features_in_ = design.names, design.p
        rest = {key: given[key] for key in ROW_ARGUMENTS}
        like = next(iter(problems.values()), None)
        try:
            problem = each._make_problem(design, FitInputs(given["y"], **rest), like)
        except (DataError, SeparationError) as error:
            notes[name] = str(error)
            continue
        if not isinstance(problem.likelihood, FAMILIES):
            raise _wrong_model(model)
        problems[name] = problem
    if not problems:
        raise DataError("No outcome can be fitted. The first one: " + next(iter(notes.values())))
    return problems, notes


def _joint_problem(model: PenalizedModel, design: Design, problems: dict[str, Problem]) -> Problem:
    """Combine the problems of all outcomes as channels of one."""
    parts = list(problems.values())
    weights = np.column_stack([part.weights for part in parts])
    used = np.asarray(weights.any(axis=1))
    intercept, C, p = bool(parts[0].n_free), len(parts), design.p
    counted = None if used.all() else used
    X = design
    if intercept:
        X = design.centered(counted).with_intercept()
    elif counted is not None:
        X = design.scaled_by(counted)
    free = C * int(intercept)
    source, channel = np.tile(np.arange(p), C), np.repeat(np.arange(C), p)
    names = [f"{name}:{column}" for name in problems for column in design.names]
    whole = ClassDesign(
        X,
        np.concatenate([np.zeros(free, np.int64), source + int(intercept)]),
        np.concatenate([np.arange(free), channel]),
        C,
        [*(f"{name}:intercept" for name in list(problems)[:free]), *names],
        intercept,
    )
    prior, columns = _prior_of_outcomes(model.prior, design.names, source, names)
    offset = None
    if any(part.offset is not None for part in parts):
        zero = np.zeros(design.n)
        offset = np.concatenate([zero if x.offset is None else x.offset for x in parts])
    return Problem(
        design=whole,
        likelihood=OutcomeChannelsLikelihood(
            [x.likelihood for x in parts if isinstance(x.likelihood, FAMILIES)], weights
        ),
        weights=np.where(used, 1.0, 0.0),
        offset=offset,
        prior=prior,
        columns=columns,
        names=names,
        n_free=free,
        n_constant=free,
        fold_label=_fold_label(parts),
    )


def _prior_of_outcomes(
    prior: Prior | None, names: list[str], source: np.ndarray, effects: list[str]
) -> tuple[Prior, PriorColumns | None]:
    """Return the prior of the coefficients of all outcomes."""
    assert isinstance(prior, JointPrior)
    places = ColumnLookup(names, "exclude")
    out = [places.of(item) for item in prior.exclusions(len(names))]
    exclude = [effects[k] for k in np.flatnonzero(np.isin(source, out))]
    return prior_of_copies(prior, source, names, exclude, effects)


def _fold_label(parts: list[Problem]) -> np.ndarray | None:
    """Return the rarest outcome that each row has, so that folds share the events of all."""
    labels = [part.fold_label for part in parts]
    if any(label is None for label in labels):
        return None
    events = np.column_stack([
        (label > 0) & (part.weights > 0)
        for label, part in zip(labels, parts, strict=True)
        if label is not None
    ])  # fmt: skip
    by = np.argsort(events.sum(axis=0), kind="stable")
    return np.where(events.any(axis=1), 1 + events[:, by].argmax(axis=1), 0)


def _refuse_separated(joint: Problem, problems: dict[str, Problem], fit: Fit) -> None:
    """Refuse outcomes that unpenalised columns separate.

    Those of one outcome have no effect on others, so that each outcome is examined alone.
    """
    l1, l2 = joint.penalties(joint.prior)
    beta = joint.design.uncentered_coefficients(fit.beta)
    free, C = joint.n_free, len(problems)
    p = (joint.design.p - free) // C
    for c, (name, part) in enumerate(problems.items()):
        at = np.arange(free + c * p, free + (c + 1) * p)
        at = np.concatenate([[c], at]) if free else at
        try:
            refuse_separated(part.uncentered(), beta[at], l1[at], l2[at])
        except SeparationError as error:
            raise SeparationError(f"Outcome {name!r}: {error}", error.columns) from None


def _tables(
    model: PenalizedModel, joint: Problem, fit: Fit, outcomes: list[str], columns: list[str],
    level: float,
) -> tuple[dict[str, pd.DataFrame], str]:  # fmt: skip
    """Tabulate the coefficients of each outcome, with the reason why they have no errors."""
    free, p, design = joint.n_free, len(columns), joint.design
    beta = design.uncentered_coefficients(fit.beta)
    errors, note = _errors(joint, fit)
    tables = {}
    for c, name in enumerate(outcomes):
        at = np.arange(free + c * p, free + (c + 1) * p)
        names = columns
        if free:
            at, names = np.concatenate([[c], at]), ["intercept", *columns]
        tables[name] = coefficient_table(beta[at], errors[at], names, level, None, model._ratio)
    return tables, note


def _errors(joint: Problem, fit: Fit) -> tuple[np.ndarray, str]:
    """Compute the standard errors of all coefficients; NaN with a reason where there are none."""
    likelihood = joint.likelihood
    assert isinstance(likelihood, OutcomeChannelsLikelihood)
    l1, l2 = joint.penalties(joint.prior)
    none = np.full(joint.design.p, np.nan)
    if (l1 > 0).any():
        return none, "Under a Laplace prior there are no standard errors."
    if likelihood.quadratic:
        return none, "Linear models of several outcomes together have no standard errors."
    if has_fractions(likelihood.backend.to_host(likelihood.own)):
        return none, "Outcomes together have no robust errors, which fractional weights need."
    plain = joint.uncentered()
    beta: Any = joint.design.uncentered_coefficients(fit.beta)
    V = Information(plain, beta, l1, l2).vcov()
    return np.sqrt(np.diag(V)), ""
