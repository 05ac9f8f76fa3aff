"""Doubly robust risks of many outcomes of the same people, which share folds, scores and censoring.

The risk of an outcome by a day τ is that of Y = 1(T ≤ τ), which is known of people who had an event
by then or were observed until τ. They represent the others by 1 / P(C ≥ min(T, τ) | A, W), the
inverse of the probability that observation included that day.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit

from steropes.data.distinct_values import rank_values
from steropes.design_matrix import Design
from steropes.designs.comparative.doubly_robust_effect_table import covariance
from steropes.designs.comparative.effect_table_rows import contrasts
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.covariates.preprocessing import TidyRules, tidy
from steropes.designs.doubly_robust.censoring import Censoring, fit_censoring
from steropes.designs.doubly_robust.counterfactual_means import (
    Method,
    Nuisances,
    People,
    arm_means,
    truncation_bound,
)
from steropes.designs.doubly_robust.nuisance_model_lasso_settings import LassoSettings
from steropes.designs.doubly_robust.nuisance_models import GROUPS, folds_of_people
from steropes.designs.effects.absolute_effects import AbsoluteEffect, default_horizon
from steropes.designs.effects.e_values import is_common
from steropes.designs.effects.effect_estimate_result import Estimate
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.propensity.fitted_propensity_model import auc, preference_score
from steropes.designs.propensity.propensity_score_fit import (
    DIGITS,
    PropensityRules,
    PropensityScores,
)
from steropes.designs.values.estimands import AnyEstimand
from steropes.designs.values.normal_quantile import Z
from steropes.errors import DataError
from steropes.models.estimators.fractional_logistic_regression import FractionalLogisticRegression
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.repeated_fits.cross_fitting import cross_fit

__all__ = ["SharedNuisances"]

# Of those who leave before the horizon, the share that may have had the outcome or a competing one
# before, if outcomes share a model of censoring. It raises the hazard of censoring by this share.
LEFT_AFTER = 0.01


@dataclass(frozen=True, repr=False, eq=False)
class SharedNuisances:
    """Folds, cross-fitted scores, covariates and censoring, which all outcomes of people share.

    Attributes
    ----------
    scores : PropensityScores
        The propensity model with cross-fitted scores instead of those of the fit to everybody.
    design : Design, shape (n, p)
        Covariates of the outcome models.
    treated : ndarray of bool, shape (n,)
    days : ndarray, shape (n,)
        Days at risk, whatever the outcome.
    fold : ndarray of int, shape (n, 1)
    horizon : float
        The day τ of all outcomes.
    censoring : Censoring or None
        None if no one is censored before τ.
    model : OutcomeModel
        Of kind "aipw" or "tmle".
    """

    scores: PropensityScores
    design: Design
    treated: NDArray
    days: NDArray
    fold: NDArray
    horizon: float
    censoring: Censoring | None
    model: OutcomeModel

    @classmethod
    def of(
        cls, features: Covariates, people: pd.DataFrame, scores: PropensityScores,
        rules: PropensityRules, model: OutcomeModel,
    ) -> SharedNuisances:  # fmt: skip
        """Cross-fit the scores and the censoring of people.

        Parameters
        ----------
        features : Covariates
            Of the rows that ``people`` names.
        people : DataFrame
            ``row``, ``person_id``, ``treated`` and ``days_at_risk``; entries of a person share a
            fold.
        scores : PropensityScores
            Fitted to these people; the variance of the prior is kept.

        Raises
        ------
        DataError
            Too few people for the folds, no covariates, or no one observed until the horizon.
        """
        rows, days = people["row"].to_numpy(), people["days_at_risk"].to_numpy(dtype=float)
        treated = people["treated"].to_numpy() == 1
        horizon = _horizon(days, treated, model)
        person = rank_values(people["person_id"].to_numpy())[1]
        clusters = None if person.max(initial=-1) + 1 == len(people) else person
        fold = folds_of_people(
            treated.astype(np.int64), clusters, model.cross_fitting, 1, model.seed
        )
        assert fold is not None
        own = features.take(rows)
        of_scores = scores.tidied.design
        if scores.sampled:
            of_scores = tidy(own, rules.tidy, include=rules.include, exclude=rules.exclude).design
        same = rules.tidy == TidyRules() and (model.include, model.exclude) == (
            rules.include, rules.exclude,
        )  # fmt: skip
        design = of_scores if same else (
            tidy(own, TidyRules(), include=model.include, exclude=model.exclude).design
        )  # fmt: skip
        found = _cross_fitted(scores, of_scores, treated, fold)
        censoring = fit_censoring(design, days, treated, fold[:, 0], horizon, _lasso(model))
        return cls(found, design, treated, days, fold, horizon, censoring, model)

    def effect(
        self, people: pd.DataFrame, place: NDArray, estimand: AnyEstimand
    ) -> tuple[Estimate, AbsoluteEffect]:
        """Estimate the risks of an outcome by the horizon if all had each treatment.

        Parameters
        ----------
        people : DataFrame
            The people at risk of the outcome: ``person_id``, ``treated``, ``time``, ``event``,
            ``days_at_risk``.
        place : ndarray of int, shape (m,)
            Their positions among all.
        estimand : {"ate", "att", "atu"}

        Returns
        -------
        Estimate
            The log risk ratio; ``note`` gives the reason if there is none.
        AbsoluteEffect
            Both risks and their difference.
        """
        try:
            return self._effect(people, place, estimand)
        except DataError as error:
            return Estimate(note=str(error)), AbsoluteEffect()

    def _effect(
        self, people: pd.DataFrame, place: NDArray, estimand: AnyEstimand
    ) -> tuple[Estimate, AbsoluteEffect]:
        """Estimate the risks; raise if they cannot be estimated."""
        treated, tau = people["treated"].to_numpy() == 1, self.horizon
        time, days = (people[c].to_numpy(dtype=float) for c in ("time", "days_at_risk"))
        event = people["event"].to_numpy()
        _require_observed(days, treated, tau)
        happened = (event > 0) & (time <= tau)
        seen = happened | (days >= tau)
        y = (happened & (event == 1)).astype(float)
        bound, chance = truncation_bound(len(people)), np.ones(len(people))
        censoring = self._censoring(place, days, np.where(happened, time, np.inf))
        if censoring is not None:
            until = np.minimum(np.where(event > 0, time, days), tau)
            chance = np.maximum(censoring.uncensored(place, until), bound)
        person = rank_values(people["person_id"].to_numpy())[1]
        clusters = None if person.max() + 1 == len(people) else person
        values, V, converged = self._of_arms(place, treated, seen, y, chance, estimand, clusters)
        if not (values > 0).all():
            note = "an arm has an estimated risk of zero or less, so that there is no risk ratio"
            return Estimate(note=note), AbsoluteEffect()
        effects = {name: (value, se) for name, value, se in contrasts("risk", values, V)}
        log_rr, se = effects["risk ratio"]
        difference, of_difference = effects["risk difference"]
        converged &= censoring is None or censoring.converged
        estimate = Estimate(
            log_rr=log_rr, se=se, lower=log_rr - Z * se, upper=log_rr + Z * se,
            interval=self.model.interval_used, kind=self.model.kind, common=is_common(people),
            converged=converged,
        )  # fmt: skip
        absolute = AbsoluteEffect(
            horizon=tau, target_risk=float(values[0]), comparator_risk=float(values[1]),
            risk_difference=difference, risk_se=of_difference,
        )  # fmt: skip
        if self.model.restricted_means:
            # The share of the days until τ that come after the outcome.
            lost = np.where(y == 1, (tau - time) / tau, 0.0)
            shares, V, found = self._of_arms(place, treated, seen, lost, chance, estimand, clusters)
            ((_, change, se), *_) = contrasts("positive mean", shares, V)
            days = tau * (1 - shares)
            estimate = replace(estimate, converged=converged & found)
            absolute = replace(
                absolute, target_days=float(days[0]), comparator_days=float(days[1]),
                days_difference=-tau * change, days_se=tau * se,
            )  # fmt: skip
        return estimate, absolute

    def _of_arms(
        self, place: NDArray, treated: NDArray, seen: NDArray, y: NDArray, chance: NDArray,
        estimand: AnyEstimand, clusters: NDArray | None,
    ) -> tuple[NDArray, NDArray, bool]:  # fmt: skip
        """Estimate the means of y (m,) in both arms: values (2,), covariance, and convergence."""
        means, converged = self._means(place, treated, seen, y, chance)
        both = np.where(np.column_stack([treated, ~treated]), chance[:, None], 1.0)
        nuisances = Nuisances(self.scores.score[place], means, both)
        nuisances = nuisances.bounded(truncation_bound(len(y)))
        people, method = People(treated, y, seen, np.ones(len(y))), cast(Method, self.model.kind)
        try:
            found = arm_means(people, nuisances, estimand, method, "weight")
        except DataError as error:
            raise DataError(_too_few("target or comparator", self.horizon)) from error
        return found.values, covariance(found.influence, clusters), converged

    def _censoring(self, place: NDArray, days: NDArray, first: NDArray) -> Censoring | None:
        """Return the model of censoring of an outcome, given its days and those of first events.

        It is the shared one unless the outcome has other days at risk, or people leave after it.
        """
        left = days < self.horizon
        after = left & np.isfinite(first)
        same = np.array_equal(days, self.days[place])
        if same and after.sum() <= LEFT_AFTER * left.sum():
            return self.censoring
        # Events of a day come before its censoring, so that they leave those at risk of it.
        own, present = self.days.copy(), np.zeros(len(self.days), dtype=bool)
        own[place], present[place] = np.minimum(days, first - 0.5), True
        lost = np.zeros(len(present), dtype=bool)
        lost[place] = left & ~after
        return fit_censoring(
            self.design, own, self.treated, self.fold[:, 0], self.horizon, _lasso(self.model),
            present, lost,
        )  # fmt: skip

    def _means(
        self, place: NDArray, treated: NDArray, seen: NDArray, y: NDArray, chance: NDArray
    ) -> tuple[NDArray, bool]:
        """Cross-fit the means of each arm, (m, 2); return also whether the models converged.

        The outcome y, (m,), is 0 or 1, or a share that is 0 without the outcome.
        """
        n, means, converged = len(self.treated), [], True
        kind = LogisticRegression if np.isin(y, (0.0, 1.0)).all() else FractionalLogisticRegression
        outcome = np.zeros(n)
        outcome[place] = y
        for name, arm in zip(GROUPS, (treated, ~treated), strict=True):
            used = arm & seen
            cases = place[used & (y > 0)]
            settings = _lasso(self.model).of_model(min(len(cases), int(used.sum()) - len(cases)))
            if settings is None or len(np.unique(self.fold[cases, 0])) < 2:
                raise DataError(_too_few(name, self.horizon))
            part, weights = np.zeros(n, dtype=bool), np.ones(n)
            part[place[used]] = True
            weights[place[used]] = (1 / chance[used]) / (1 / chance[used]).mean()
            fit = cross_fit(
                kind(**settings), self.design, outcome, part, self.fold,
                f"model of the outcome of the {name}", weights,
            )  # fmt: skip
            means.append(fit.means[place, 0])
            converged &= bool(fit.whole.converged_)
        return np.column_stack(means), converged


def _too_few(arm: str, horizon: float) -> str:
    """Return the reason for no estimate, which is withheld where it discloses counts of an arm."""
    return (
        f"too few people in the {arm} arm had the outcome by day {horizon:g} for cross-fitted "
        "models of it"
    )


def _lasso(model: OutcomeModel) -> LassoSettings:
    """Return how the prior of covariates is chosen."""
    return LassoSettings(model.variance, model.folds, model.repeats, model.seed)


def _horizon(days: NDArray, treated: NDArray, model: OutcomeModel) -> float:
    """Return the horizon of all outcomes."""
    if model.horizon is not None:
        _require_observed(days, treated, model.horizon)
        return float(model.horizon)
    last = [float(days[arm].max(initial=0.0)) for arm in (treated, ~treated)]
    return float(np.floor(default_horizon(days, last)))


def _require_observed(days: NDArray, treated: NDArray, horizon: float) -> None:
    """Refuse a horizon until which no one of an arm is observed."""
    for name, arm in zip(GROUPS, (treated, ~treated), strict=True):
        if not (days[arm] >= horizon).any():
            raise DataError(
                f"nobody of the {name} is observed until day {horizon:g}; choose an earlier horizon"
            )


def _cross_fitted(
    scores: PropensityScores, design: Design, treated: NDArray, fold: NDArray
) -> PropensityScores:
    """Replace scores by those of models that have not seen a person's fold."""
    model = LogisticRegression(prior=scores.model.prior_)
    everybody = np.ones(len(treated), dtype=bool)
    fit = cross_fit(model, design, treated * 1.0, everybody, fold, "model of the treatment")
    score = np.round(fit.means[:, 0], DIGITS)
    eta = logit(np.clip(fit.means[:, 0], 1e-300, 1 - 1e-16))
    arm = treated.astype(np.int64)
    return replace(
        scores, score=score, logit=eta, preference=preference_score(eta, arm), auc=auc(eta, arm)
    )
