"""Propensity score models and the scores of everybody in a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.designs.covariates.covariates_by_column import Covariates, IntoCovariates
from steropes.designs.covariates.preprocessing import Tidied, TidyRules, tidy
from steropes.designs.covariates.weighted_moments import CovariateMoments
from steropes.designs.propensity.fitted_propensity_model import (
    ScoredPeople,
    auc,
    preference_score,
    too_few,
)
from steropes.designs.propensity.tied_scores import tie_keys
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Count,
    CovariateIds,
    Folds,
    Positive,
    Repeats,
    Share,
)
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError
from steropes.select.crossvalidation import FOLDS

if TYPE_CHECKING:
    from steropes.models import LogisticRegression

__all__ = ["PropensityRules", "PropensityScores", "fit_scores", "fit_scores_of_rows"]

DIGITS = 10  # Scores are rounded to this many decimals, so that summation errors decide nothing.


class PropensityRules(Settings):
    """Settings of the propensity model.

    Parameters
    ----------
    variance : float, optional
        Variance of the Laplace prior. Default: chosen by cross-validation.
    folds, repeats : int, default 10 and 1
        Folds and repeats of that cross-validation.
    max_people : int, default 250000
        Largest number of people of an arm for the fit; larger arms are sampled, and the intercept
        is corrected (King and Zeng 2001, eq. 7). 0 means no limit.
    high_correlation : float, default 0.5
        Raise an error that names a covariate with a larger correlation with the arm: it is usually
        part of the definition of the exposure. 1 allows all.
    include, exclude : tuple of int
        The only covariate ids to use (if any are given), and those to leave out. Ids that no one
        in the comparison has are ignored, with a note.
    exempt : tuple of int
        Covariate ids without a prior.
    tidy : TidyRules
        Rules that filter and scale the covariates.
    seed : int, default 1
        Seed of the folds and of the sample.
    people : {"at risk", "all"}, default "at risk"
        Whether the model is fitted to those who have time at risk, whatever the outcome, or to all
        entries of the comparison (``refitPsForEveryStudyPopulation = FALSE`` of R's CohortMethod).

    References
    ----------
    King and Zeng (2001), Political Analysis 9:137–163.

    Examples
    --------
    >>> from steropes.designs import PropensityRules
    >>> PropensityRules(variance=0.01).folds
    10
    """

    variance: Positive | None = None
    folds: Folds = FOLDS
    repeats: Repeats = 1
    max_people: Count = 250_000
    high_correlation: Share = 0.5
    include: CovariateIds = ()
    exclude: CovariateIds = ()
    exempt: CovariateIds = ()
    tidy: TidyRules = field(default_factory=TidyRules)
    seed: Count = 1
    people: Literal["at risk", "all"] = "at risk"


@dataclass(frozen=True, repr=False, eq=False)
class PropensityScores(ScoredPeople):
    """Fitted propensity scores.

    Attributes
    ----------
    score, preference, logit : ndarray, shape (n,)
        Probability of the target, rounded to ten decimals; preference score; linear predictor.
    auc : float
        Area under the ROC curve.
    coefficients : DataFrame
        ``covariate_id`` (0 for the intercept), ``name`` and ``coefficient`` of the nonzero
        coefficients, largest first, for covariates divided by their largest value.
    tidied : Tidied
        Covariates of the people to whom the model was fitted.
    model : LogisticRegression
        The fitted model.
    sampled : bool
        Whether the model was fitted to a sample.

    See Also
    --------
    fit_scores : Fit them.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import PropensityRules, fit_scores
    >>> x = np.random.default_rng(1).integers(0, 2, (200, 5))
    >>> treated = np.random.default_rng(2).random(200) < 0.3 + 0.3 * x[:, 0]
    >>> scores = fit_scores(x, treated, PropensityRules(variance=0.1))
    >>> scores.converged, scores.sampled
    (True, False)
    """

    score: NDArray
    preference: NDArray
    logit: NDArray
    auc: float
    coefficients: pd.DataFrame
    tidied: Tidied
    model: LogisticRegression
    sampled: bool

    def __repr__(self) -> str:
        return f"PropensityScores(auc={self.auc:.3f}, {len(self.coefficients) - 1} covariates)"

    @property
    def folds(self) -> int:
        """Folds of the cross-validation that chose the variance; 0 if it was given."""
        from steropes.select import CrossValidation

        choice = self.model.cv
        if not isinstance(choice, CrossValidation):
            return 0
        return choice.folds if isinstance(choice.folds, int) else len(choice.folds)


def fit_scores(
    features: IntoCovariates,
    treated: ArrayLike,
    rules: PropensityRules | None = None,
    *,
    ids: ArrayLike | None = None,
) -> PropensityScores:
    """Fit the propensity model and compute everybody's score.

    Parameters
    ----------
    features : Covariates, data frame, sparse matrix or array_like, shape (n, p)
        Covariates of the n people.
    treated : array_like, shape (n,)
        1 for the target arm.
    rules : PropensityRules, optional
        Settings of the model. Default: those of ``PropensityRules()``.
    ids : array_like, shape (n,), optional
        Person ids, which determine the sample, unlike the order of rows. Default: row numbers.

    Returns
    -------
    PropensityScores
        Scores of all people.

    Raises
    ------
    DataError
        An arm has fewer than two people, no covariate is left, or one all but defines the arm.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import PropensityRules, fit_scores
    >>> x = np.random.default_rng(1).integers(0, 2, (200, 5))
    >>> treated = np.random.default_rng(2).random(200) < 0.3 + 0.3 * x[:, 0]
    >>> scores = fit_scores(x, treated, PropensityRules(variance=0.1))
    >>> scores.score.shape
    (200,)
    """
    features = Covariates.of(features, "propensity model")
    everybody = np.arange(features.n)
    who = everybody if ids is None else np.asarray(ids)
    return fit_scores_of_rows(features, everybody, treated, rules or PropensityRules(), who)


def fit_scores_of_rows(
    features: Covariates, rows: NDArray, treated: ArrayLike, rules: PropensityRules, ids: NDArray
) -> PropensityScores:
    """Fit the propensity scores of some of the people without a copy of all their covariates.

    Parameters
    ----------
    rows : ndarray of int, shape (n,)
        Rows of the people who get scores, ascending.
    treated, rules, ids
        As in `fit_scores`, of these people.

    Returns
    -------
    PropensityScores
        The same as of a copy of these rows.
    """
    t = require_arms(treated).astype(np.int64)
    if len(t) != len(rows):
        raise DataError(f"propensity model: {len(t)} arms for {len(rows)} people")
    if refusal := too_few(t):
        raise DataError(refusal)
    chosen = _sample(t, ids, rules)
    sampled = len(chosen) < len(t)
    fitted = tidy(
        features.take(rows[chosen]), rules.tidy, include=rules.include, exclude=rules.exclude
    )
    _refuse_definitions(fitted, t[chosen], rules.high_correlation)
    model = _fit(fitted, t[chosen], rules)
    coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    if sampled:
        intercept -= _log_odds(t[chosen]) - _log_odds(t)
    logit = _predict(features, fitted, coef)[rows] + intercept
    score = np.round(1 / (1 + np.exp(-np.clip(logit, -700, 700))), DIGITS)
    return PropensityScores(
        score,
        preference_score(logit, t),
        logit,
        auc(logit, t),
        _coefficients(fitted, coef, intercept),
        fitted,
        model,
        sampled,
    )


def _sample(treated: NDArray, ids: NDArray, rules: PropensityRules) -> NDArray:
    """Choose the rows for the fit, ascending: of a large arm those with the smallest keys."""
    if rules.max_people == 0 or np.bincount(treated, minlength=2).max() <= rules.max_people:
        return np.arange(len(treated))
    keys = tie_keys(ids, rules.seed)
    parts = []
    for arm in (0, 1):
        at = np.flatnonzero(treated == arm)
        parts.append(at[np.argsort(keys[at], kind="stable")[: rules.max_people]])
    return np.sort(np.concatenate(parts))


def _refuse_definitions(fitted: Tidied, treated: NDArray, limit: float) -> None:
    """Raise if a covariate all but defines the arm."""
    if limit >= 1:
        return
    f = fitted.features
    shares = np.column_stack((np.full(f.n, 1 / f.n), treated / treated.sum()))
    moments = CovariateMoments(f)(shares, None)
    mean, of_target = moments.mean.T
    share_t, spread = treated.mean(), np.sqrt(moments.variance[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        r = (of_target - mean) * np.sqrt(share_t / (1 - share_t)) / spread
    r = np.nan_to_num(r)
    worst = int(np.argmax(np.abs(r)))
    if abs(r[worst]) > limit:
        line = f.columns.iloc[worst]
        raise DataError(
            f"covariate {line['covariate_id']} ({line['name']}) has a correlation of "
            f"{r[worst]:.2f} with the arm; it is probably part of the exposure's definition: "
            "exclude it, or raise high_correlation"
        )


def _fit(fitted: Tidied, treated: NDArray, rules: PropensityRules) -> LogisticRegression:
    """Fit the logistic regression with a given or a cross-validated prior."""
    from steropes.models import LogisticRegression
    from steropes.priors import Laplace
    from steropes.select import CrossValidation

    free = np.isin(fitted.features.columns["covariate_id"].to_numpy(), rules.exempt)
    if rules.variance is not None:
        model = LogisticRegression(prior=Laplace(variance=rules.variance, exclude=free))
    else:
        folds = min(rules.folds, int(np.bincount(treated, minlength=2).min()))
        choice = CrossValidation(folds=folds, repeats=rules.repeats, random_state=rules.seed)
        prior = Laplace(exclude=free)
        model = LogisticRegression(prior=prior, cv=choice, random_state=rules.seed)
    return model.fit(fitted.design, treated)


def _predict(features: Covariates, fitted: Tidied, coef: NDArray) -> NDArray:
    """Compute the linear predictor without intercept for all people, sampled or not."""
    used = np.flatnonzero(coef)
    ids = fitted.features.columns["covariate_id"].to_numpy()[used]
    at = np.searchsorted(features.columns["covariate_id"].to_numpy(), ids)
    chosen = features.select(at)
    return np.asarray(chosen.matrix() @ (coef[used] / fitted.scale[used])).ravel()


def _coefficients(fitted: Tidied, coef: NDArray, intercept: float) -> pd.DataFrame:
    """Tabulate the intercept and the nonzero coefficients, largest first."""
    at = np.flatnonzero(coef)
    at = at[np.argsort(-np.abs(coef[at]), kind="stable")]
    lines = fitted.features.columns.iloc[at]
    return pd.DataFrame(
        {
            "covariate_id": np.concatenate(([0], lines["covariate_id"].to_numpy())).astype(
                np.int64
            ),
            "name": ["intercept", *lines["name"]],
            "coefficient": np.concatenate(([intercept], coef[at])),
        }
    )


def _log_odds(treated: NDArray) -> float:
    """Compute the log odds of the target arm."""
    share_t = float(np.mean(treated))
    return float(np.log(share_t / (1 - share_t)))
