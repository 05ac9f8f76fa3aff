"""Fits of a site's rows alone: initial estimates for surrogates, and profile likelihoods."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..convergence_warning import NotConvergedWarning
from ..errors import DataError, MonotoneLikelihoodWarning, SeparationError
from ..models.estimators.penalized_model import PenalizedModel
from ..priors import Normal, Prior
from ..select import CrossValidation
from .federated_constants import CONVERGENCE
from .federated_plan import FederatedPlan
from .site_rows import SiteRows
from .site_sums import column_moments

__all__ = ["LocalEstimate", "local_estimate", "local_profiles"]

# The distances of further points beyond the ends of a profile, in half widths of the profile.
OUTER_DISTANCES = np.array([0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0])
# The points of a flat or monotone profile, as shares of the range on each side.
RANGE_SHARES = np.append(np.geomspace(0.001, 0.01, 4), np.arange(1, 41) / 40)


@dataclass(frozen=True)
class LocalEstimate:
    """The estimate of a site's rows alone.

    Attributes
    ----------
    estimate : (q,) array
        Coefficients, starting with the intercept at X = 0, if any.
    variance : (q,) array
        Variances of the coefficients.
    usable : bool
        Whether an estimate exists; otherwise both arrays are zero.
    note : str
        The reason if it does not.
    """

    estimate: np.ndarray
    variance: np.ndarray
    usable: bool = True
    note: str = ""


def _fitted(
    rows: SiteRows, plan: FederatedPlan, prior: Prior | None, cv: CrossValidation | None
) -> PenalizedModel:
    """Fit the site's rows with the estimator of the plan's model."""
    problem = rows.problem
    model: Any = plan.planned.estimator(plan, prior=prior, cv=cv)
    y = plan.planned.target(rows.y, rows.event, rows.entry, rows.codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        fitted: PenalizedModel = model.fit(
            rows.design, y, sample_weight=problem.weights, offset=problem.offset, strata=rows.strata
        )
        return fitted


def local_estimate(rows: SiteRows, plan: FederatedPlan) -> LocalEstimate:
    """Fit a site's rows alone; for a lasso surrogate with a lasso and its variance by folds."""
    q = len(plan.columns) + len(plan.intercepts)
    lasso = plan.method == "adap"
    prior = plan.coefficient_prior if lasso else None
    cv = CrossValidation(10, random_state=1) if lasso else None
    try:
        model = _fitted(rows, plan, prior, cv)
    except SeparationError as error:
        return LocalEstimate(np.zeros(q), np.zeros(q), False, str(error))
    except DataError:
        return LocalEstimate(np.zeros(q), np.zeros(q), False, "its rows alone allow no fit")
    estimate = np.append(model.intercept_, model.coef_) if plan.intercepts else model.coef_
    if lasso:
        return LocalEstimate(estimate, np.full(q, 1.0 / rows.problem.weights.sum()))
    return LocalEstimate(estimate, np.diag(model.vcov("model").to_numpy()).copy())


def local_profiles(rows: SiteRows, plan: FederatedPlan) -> tuple[dict[str, np.ndarray], list[str]]:
    """Compute the profile log-likelihoods of the plan's parameters.

    A site at which a parameter has no finite maximum contributes its likelihood as it is.

    Returns
    -------
    profiles : dict of str to (m, 3) array
        For each parameter the points, the log-likelihood minus its largest value, and the gradient.
    notes : list of str
    """
    out, notes = {}, []
    for name in plan.parameters:
        model, held = _for_profile(rows, plan, name)
        if held:
            notes.append(
                f"for the profile of {name!r}, {', '.join(map(repr, held))} had normal priors with "
                f"standard deviations of {CONVERGENCE.weak_variance**0.5:g} / the column's: the "
                "site's rows alone are separated"
            )
        most = (
            np.inf
            if plan.planned.quadratic
            else CONVERGENCE.max_predictor_change / _extent(rows, plan, name)
        )
        with warnings.catch_warnings():  # a flat side is covered as far as numbers have digits
            warnings.simplefilter("ignore", MonotoneLikelihoodWarning)
            warnings.simplefilter("ignore", NotConvergedWarning)
            near = model.inference.profile(name)
            near = near[near["point"].abs() <= most]
            if len(near) < 2:  # the profile is monotone or flat over the whole range
                near = model.inference.profile(
                    name, most * np.concatenate([-RANGE_SHARES[::-1], [0.0], RANGE_SHARES])
                )
        further = _further(near["point"].to_numpy(), most)
        table = near
        if len(further):
            table = pd.concat([near, model.inference.profile(name, further)]).sort_values("point")
        x = table[["point", "log_likelihood", "gradient"]].to_numpy()
        x = x[np.isfinite(x).all(axis=1)]
        x = x[np.concatenate([[True], np.diff(x[:, 0]) > 0])]
        x[:, 1] -= x[:, 1].max()
        out[name] = x
    return out, notes


def _extent(rows: SiteRows, plan: FederatedPlan, name: str) -> float:
    """Return the largest difference between two rows in a column."""
    j = plan.columns.index(name)
    D = np.zeros((rows.design.p, 1))
    D[j] = rows.design.scale[j]
    backend = rows.problem.likelihood.backend
    x = np.asarray(backend.to_host(rows.design.matmul(D, backend)))
    return float(np.ptp(x)) or 1.0


def _further(points: np.ndarray, most: float) -> np.ndarray:
    """Return points beyond the ends of a profile, which may be central at other sites."""
    low, high = float(points.min()), float(points.max())
    half = 0.5 * (high - low)
    out = np.concatenate([low - half * OUTER_DISTANCES, high + half * OUTER_DISTANCES])
    return out[np.abs(out) <= most]


def _for_profile(
    rows: SiteRows, plan: FederatedPlan, name: str
) -> tuple[PenalizedModel, tuple[str, ...]]:
    """Return the fit to be profiled, and the other columns that have a weak prior in it.

    If the maximum is not finite, a ridge makes it so: on the parameter alone, which its profile
    leaves out, or also on other columns if these separate the site's rows.
    """
    prior = plan.coefficient_prior
    try:
        return _fitted(rows, plan, prior, None), ()
    except SeparationError as error:
        others = tuple(c for c in error.columns if c != name and c in plan.columns)
    spread = np.sqrt(column_moments(rows)[1])
    variance = CONVERGENCE.weak_variance / np.where(spread > 0, spread, 1.0) ** 2
    for held in (others, tuple(c for c in plan.columns if c != name)):
        free = tuple(c for c in plan.columns if c != name and c not in held)
        try:
            weak = Normal(variance, exclude=free)
            return _fitted(rows, plan, weak, None), held
        except SeparationError:
            continue
    return _fitted(rows, plan, Normal(variance), None), tuple(plan.columns)
