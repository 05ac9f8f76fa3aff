"""The choice of a prior's variance by the setting ``cv`` of an estimator."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ...data.plottable_result_tables import present
from ...fit import Problem
from ...priors import Prior
from ...select import CrossValidation, InformationCriterion
from ...select.crossvalidation import LIKELIHOOD_SCORES
from ..families.family import Family
from ..families.held_out_scores import HeldOutScore
from .progress_messages import Progress
from .setting_types import Chooser
from .solver_runs import Start

__all__ = ["choose_variance", "chooser_of", "held_out_score"]


def choose_variance(
    model: Any, problem: Problem, progress: Progress
) -> tuple[Prior | None, Start | None]:
    """Choose the variance of a problem's prior; without ``cv``, keep the prior.

    Stores ``cv_results_`` and ``variance_``.

    Returns
    -------
    prior : Prior or None
        The prior of the final fit.
    start : None, (p,) array or Batch
        Initial coefficients, or a batch whose last fit is close to the final one.
    """
    if model.cv is None:
        return problem.prior, None
    chooser = chooser_of(model)
    if problem.prior is not None:
        first = replace(problem, prior=problem.prior.candidates()[0])
        model._refuse_undetermined(first, first.batch(), *first.penalties(first.prior))
    if isinstance(chooser, InformationCriterion):
        selection = chooser.run(problem, model._criterion_terms, progress.report)
    else:
        selection = chooser.run(problem, progress.report, held_out_score(model, chooser))
    shown: dict[str, Any] = {"chosen": selection.variance, **chooser._figure_options}
    model.cv_results_ = present(selection.results, "cross_validation_curve", **shown)
    model.variance_ = selection.variance
    return selection.prior, selection.beta if selection.batch is None else selection.batch


def held_out_score(model: Any, cv: CrossValidation) -> HeldOutScore | None:
    """Return the score by which a cross-validation chooses; None for log-likelihoods."""
    cv.check()
    if isinstance(cv.scoring, str) and cv.scoring in LIKELIHOOD_SCORES:
        return None
    family = model._family
    if model._has_varying_effects() and not family.scores_changing_effects:
        family = Family()
    return HeldOutScore(family, type(model).__name__, cv.scoring)


def chooser_of(model: Any) -> Chooser:
    """Return the object that chooses the variance.

    An integer becomes a cross-validation with a fixed seed, as in scikit-learn, so that equal
    calls give equal results. A `CrossValidation` without a seed uses the model's
    ``random_state``; if that is None too, it draws new folds.
    """
    cv: Chooser | int = model.cv
    if isinstance(cv, InformationCriterion):
        return cv
    if not isinstance(cv, CrossValidation):
        return CrossValidation(
            cv, random_state=0 if model.random_state is None else model.random_state
        )
    if cv.random_state is None and model.random_state is not None:
        cv = copy.copy(cv)
        object.__setattr__(cv, "random_state", model.random_state)
    return cv
