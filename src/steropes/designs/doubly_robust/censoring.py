"""The probability to be still under observation on a day, by a cross-fitted model of each arm.

A Cox model of censoring before a horizon in each arm gives P(C ≥ t | A, W), by which people whose
outcome is known represent others (Robins and Rotnitzky 1992). The end of a person's follow-up C is
often known although the person had the outcome before, so that outcomes can share a model. It is
not that of people without the outcome if many leave because of it, as all do by a fatal one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.data import Surv
from steropes.design_matrix import Design, null_design
from steropes.designs.doubly_robust.nuisance_model_lasso_settings import LassoSettings
from steropes.models.estimators.cox_regression import CoxRegression

__all__ = ["Censoring", "fit_censoring"]


@dataclass(frozen=True, repr=False, eq=False)
class Censoring:
    """Cumulative hazards of censoring of people in their own arm.

    Attributes
    ----------
    relative : ndarray, shape (n,)
        Everybody's hazard relative to the baseline of the person's group.
    group : ndarray of int, shape (n,)
        The number of the person's baseline: one for each arm and fold.
    baselines : tuple of (days, cumulative hazards)
        Steps of each baseline.
    converged : bool
        Whether all models converged.
    """

    relative: NDArray
    group: NDArray
    baselines: tuple[tuple[NDArray, NDArray], ...]
    converged: bool = True

    def uncensored(self, rows: NDArray, days: NDArray) -> NDArray:
        """Compute the probability of some people that observation includes their day, (m,).

        Parameters
        ----------
        rows : ndarray of int, shape (m,)
        days : ndarray, shape (m,)
            Days counted from 1; those censored on a day were observed on it.
        """
        out = np.ones(len(rows))
        own = self.group[rows]
        for g, (times, cumulative) in enumerate(self.baselines):
            at = own == g
            steps = np.concatenate(([0.0], cumulative))
            before = steps[np.searchsorted(times, days[at], side="left")]
            out[at] = np.exp(-before * self.relative[rows[at]])
        return out


def fit_censoring(
    design: Design,
    days: NDArray,
    treated: NDArray,
    fold: NDArray,
    horizon: float,
    lasso: LassoSettings,
    present: NDArray | None = None,
    lost: NDArray | None = None,
) -> Censoring | None:
    """Fit the models of censoring of both arms without each fold; None if no one is censored.

    Parameters
    ----------
    design : Design, shape (n, p)
    days : ndarray, shape (n,)
        Days under observation, whatever the outcome.
    treated : ndarray of bool, shape (n,)
    fold : ndarray of int, shape (n,)
    horizon : float
        Censoring from this day on does not matter.
    lasso : LassoSettings
        The prior of the covariates. With fewer than two censored people to choose its variance by,
        the model of an arm has no covariates.
    present : ndarray of bool, shape (n,), optional
        The people to fit to. Default: everybody.
    lost : ndarray of bool, shape (n,), optional
        Who is censored at the end of ``days`` if not all who are observed for less than the horizon
        are, because days end with an outcome.
    """
    early = days < horizon if lost is None else lost
    if present is not None:
        early &= present
    if not early.any():
        return None
    y = Surv(np.minimum(days, horizon), early.astype(int))
    relative, group = np.ones(len(days)), np.zeros(len(days), dtype=np.int64)
    baselines: list[tuple[NDArray, NDArray]] = []
    converged = True
    for arm in (treated, ~treated):
        arm = arm if present is None else arm & present
        X, model, ended = _model_of_arm(design, y, arm, early, lasso)
        converged &= ended
        for f in range(int(fold.max()) + 1):
            train, held = arm & (fold != f), arm & (fold == f)
            group[held] = len(baselines)
            if not (train & early).any():
                baselines.append((np.zeros(0), np.zeros(0)))
                continue
            fit = clone(model).fit(X, y, sample_weight=train * 1.0)
            steps = fit.curves.baseline_hazard(level=None)
            baselines.append((steps["time"].to_numpy(), steps["cumulative_hazard"].to_numpy()))
            relative[held] = np.exp(fit.linear_predictor(X)[held])
            converged &= bool(fit.converged_)
    return Censoring(relative, group, tuple(baselines), converged)


def _model_of_arm(
    design: Design, y: NDArray, arm: NDArray, early: NDArray, lasso: LassoSettings
) -> tuple[Design, CoxRegression, bool]:
    """Return covariates and the unfitted model of an arm, and whether its choice converged."""
    settings = lasso.of_model(int((early & arm).sum()))
    if settings is None:
        return null_design(len(arm)), CoxRegression(ties="breslow"), True
    model = CoxRegression(ties="breslow", **settings)
    if model.cv is None:
        return design, model, True
    whole = model.fit(design, y, sample_weight=arm * 1.0)
    return design, CoxRegression(ties="breslow", prior=whole.prior_), bool(whole.converged_)
