"""The choice of one prior for many outcomes, by the sum of their held-out log-likelihoods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from sklearn.base import clone

from ...backends.blas_threads import single_threaded_blas
from ...design_matrix import Design
from ...errors import DataError, SeparationError
from ...fit.shards import ShardedDesign
from ...priors import Prior
from ...select.fold_fits_along_path import FoldsPath
from ...select.variance_for_several_outcomes import SharedPath, check_shared
from ..estimators.penalized_model import PenalizedModel
from ..fitting.prior_variance_choice import chooser_of
from ..fitting.progress_messages import Progress
from ..fitting.row_arguments import FitInputs

__all__ = ["SharedPrior", "choose_shared_prior"]


@dataclass(frozen=True)
class SharedPrior:
    """One prior for several outcomes.

    Attributes
    ----------
    prior : Prior
        The prior with the chosen variance.
    results : DataFrame
        Scores of the variances, as ``cv_results_``.
    left_out : dict
        Reasons why outcomes took no part in the choice.
    """

    prior: Prior
    variance: float
    results: pd.DataFrame
    left_out: dict[str, str]


def choose_shared_prior(
    estimator: PenalizedModel, design: Design | ShardedDesign, own: Mapping[str, Mapping[str, Any]]
) -> SharedPrior:
    """Choose the variance of the estimator's prior for several outcomes.

    Parameters
    ----------
    estimator : PenalizedModel
        With a prior and a cross-validation.
    own : mapping
        The arguments of ``fit`` for each outcome.

    Raises
    ------
    DataError
        The settings do not choose a variance alone, or no outcome can be cross-validated.
    """
    if isinstance(design, ShardedDesign):
        raise DataError("shared_prior=True needs X as one table or matrix, not in blocks.")
    if estimator.cv is None:
        raise DataError("shared_prior=True needs cv, by which the variance is chosen.")
    prior = estimator.prior
    if prior is None or len(prior.candidates()) > 1:
        raise DataError("shared_prior=True needs a prior with one variance to choose.")
    cv = check_shared(chooser_of(clone(estimator)))
    if prior.adaptive and isinstance(cv.search, str):
        raise DataError(
            f"A {type(prior).__name__} prior has no path of variances to walk: list those to try "
            "in CrossValidation(search=[…])."
        )
    paths: list[FoldsPath] = []
    left_out: dict[str, str] = {}
    with single_threaded_blas(), Progress(estimator.verbose) as progress:
        for name, given in own.items():
            model = clone(estimator)
            try:
                rest = {key: value for key, value in given.items() if key != "y"}
                problem = model._make_problem(
                    model._read_design(design, given["y"]), FitInputs(given["y"], **rest)
                )
                model._refuse_undetermined(
                    problem, problem.batch(), *problem.penalties(problem.prior)
                )
                paths.append(SharedPath.path(cv, problem, len(own)))
            except (DataError, SeparationError) as error:
                left_out[name] = str(error)
        if not paths:
            raise DataError(
                "No outcome can be cross-validated. The first one: " + next(iter(left_out.values()))
            )
        selection = SharedPath(cv, paths, progress.report).search()
    chosen = selection.variance
    return SharedPrior(prior.with_variance(chosen), chosen, selection.results, left_out)
