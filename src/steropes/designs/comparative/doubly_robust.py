"""Doubly robust effects of a treatment: augmented inverse probabilities and targeted means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data import refuse_other_order
from steropes.data.plottable_result_tables import ResultTable
from steropes.data.vector_checks import check_level, check_weights
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.doubly_robust_effect_table import (
    Repeats,
    estimate_outcome,
    with_covariances,
)
from steropes.designs.comparative.doubly_robust_inputs import (
    Given,
    Outcome,
    check_settings,
    check_weight_model,
    default_model,
    labels_of_folds,
    read_clusters,
    read_folds,
    read_outcomes,
    read_probabilities,
    refuse_missing_outcome,
)
from steropes.designs.comparative.doubly_robust_nuisances import nuisances_of_outcome
from steropes.designs.comparative.doubly_robust_results import DoublyRobustResults
from steropes.designs.comparative.effect_table_rows import effects_table
from steropes.designs.comparative.effective_sample_size import effective_sample_sizes
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.comparative.stacked_arm_means import Stacked, stacked_arm_means
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.doubly_robust.counterfactual_means import (
    ArmMeans,
    Nuisances,
    People,
    truncation_bound,
)
from steropes.designs.doubly_robust.nuisance_models import CrossFitting, folds_of_people
from steropes.designs.doubly_robust.overlap import overlap_table
from steropes.designs.propensity.weights_by_estimand import propensity_weights
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError

__all__ = ["DoublyRobust"]


class DoublyRobust(DoublyRobustResults):
    """Effects of a treatment that are consistent if one of two models is right.

    A model of the treatment gives scores e, and models of the outcome in each group give means m
    of everybody under both treatments. "aipw" adds inverse-probability-weighted residuals to these
    means; "tmle" changes the means by a logistic model until such residuals sum to zero, so that
    means stay within the range of the outcome. With cross-fitting the models may be penalised and
    have many columns: each person's predictions come from other people.

    Parameters
    ----------
    method : {"tmle", "aipw", "ipwra"}, default "tmle"
        Targeted means, augmented inverse probability weights, or outcome models that are fitted
        with the weights, whose predictions are averaged ("ipwra", with stacked errors alone).
    estimand : {"ate", "att", "atc"}, default "ate"
        The effect in everybody, in the target group, or in the comparator.
    treatment_model, outcome_model, missingness_model : estimator, optional
        Unfitted models, which are cloned: of steropes, such as
        ``LogisticRegression(prior=Laplace(), cv=10)``, or of scikit-learn. Outcome and missingness
        models are fitted in each group. Default: maximum likelihood, logistic for an outcome of 0
        and 1 and linear for others; give `PoissonRegression` for counts. Outcomes that are missing
        (NaN) need a missingness model.
    folds : int, default 5
        Folds of the cross-fitting; 1 fits and predicts the same people.
    repeats : int, default 1
        Divisions into folds. Estimates are medians over them, and variances the medians of the
        variance plus the squared distance to the median estimate.
    bound : float, optional
        Scores and probabilities to be observed are bounded from below by this number, and scores
        also from above by one minus it. Default: 5 / (√n log n).
    targeting : {"covariate", "weight"}, default "covariate"
        How "tmle" uses inverse probabilities: as the covariate of the logistic model, or as its
        weights, which vary less under poor overlap.
    errors : {"influence", "stacked"}, default "influence"
        Those of the influence function, or of the stacked estimating equations of score, outcome
        models and means, which also hold if one of the models is wrong. Stacked errors are for
        "aipw" and "ipwra" with ``folds=1``, models by maximum likelihood and observed outcomes;
        scores have no bound then.
    level : float, default 0.95
        Confidence level.
    random_state : int, default 0
        Seed of the folds.

    Attributes
    ----------
    effects_ : DataFrame
        A row per measure, as in `GroupComparison`, with ``outcome`` first if several were given:
        differences, and ratios of risks, odds, or of means that are not negative.
    score_ : ndarray, shape (n,)
        Scores of the target group before the bound, averaged over repeats.
    means_ : ndarray, shape (n, 2), or dict of them
        Means under the target's treatment and the comparator's before targeting, averaged over
        repeats; by name if several outcomes were given.
    weights_ : ndarray, shape (n,)
        Inverse probability weights of the bounded scores, times ``sample_weight``.
    influence_ : DataFrame, shape (n, K)
        Everybody's influence on the difference of each outcome; squares sum to its variance.
    contributions_ : DataFrame, shape (n, K)
        Pseudo-outcomes D₁ − D₀, whose mean in the population is the difference.
    bound_ : float
        The bound in use.
    overlap_ : DataFrame
        Scores, weights, effective sample sizes and how many scores the bound has changed.
    balance_ : DataFrame
        Balance before and after weighting by the scores; see `balance_table`.
    model_ : estimator or None
        The model of the treatment, fitted to everybody; None if scores were given.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    PropensityWeights : Weights alone, with errors that include the scores.
    compare_groups : Comparison of two groups from a table, with ``adjust="tmle"`` or "aipw".

    Notes
    -----
    Errors are those of the influence function. They are valid if both models converge fast enough,
    or both are parametric and right; if one is wrong the estimate is still consistent, but errors
    may be too small or too large, unless they are stacked. A penalised outcome model alone is
    biased; the residuals repair this to first order. The estimate assumes, as all adjustments do,
    that the covariates are all that confounds the comparison and that everybody could have had
    either treatment.

    References
    ----------
    Robins, Rotnitzky and Zhao (1994), JASA 89:846–866. van der Laan and Rubin (2006), International
    Journal of Biostatistics 2(1):11. Chernozhukov and others (2018), Econometrics Journal
    21:C1–C68 (cross-fitting, medians). Gruber, Phillips, Lee and van der Laan (2022), American
    Journal of Epidemiology 191:1640–1651 (bound). Stefanski and Boos (2002), The
    American Statistician 56:29–38 (stacked errors). Wooldridge (2007), Journal of Econometrics
    141:1281–1301 ("ipwra").

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import DoublyRobust
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3))
    >>> treatment = (rng.random(600) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> y = treatment + X[:, 0] + rng.standard_normal(600)
    >>> found = DoublyRobust(method="aipw").fit(X, treatment, y)
    >>> found.effects_[["measure", "estimate", "se"]].round(2).to_numpy().tolist()
    [['mean difference', 1.09, 0.09]]
    """

    def __init__(
        self,
        *,
        method: str = "tmle",
        estimand: str = "ate",
        treatment_model: Any = None,
        outcome_model: Any = None,
        missingness_model: Any = None,
        folds: int = 5,
        repeats: int = 1,
        bound: float | None = None,
        targeting: str = "covariate",
        errors: str = "influence",
        level: float = 0.95,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.estimand = estimand
        self.treatment_model = treatment_model
        self.outcome_model = outcome_model
        self.missingness_model = missingness_model
        self.folds = folds
        self.repeats = repeats
        self.bound = bound
        self.targeting = targeting
        self.errors = errors
        self.level = level
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        treatment: ArrayLike,
        y: ArrayLike | Mapping[str, ArrayLike] | pd.DataFrame,
        *,
        score: ArrayLike | None = None,
        means: ArrayLike | Mapping[str, ArrayLike] | None = None,
        observed_probability: ArrayLike | Mapping[str, ArrayLike] | None = None,
        fold: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        weight_model: PropensityWeights | None = None,
    ) -> Self:
        """Fit the models and estimate the effects.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Design, shape (n, p)
            Covariates of all models.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator.
        y : array_like, shape (n,), or mapping or data frame of them
            Outcome, or outcomes by name, which share folds and scores. NaN is not observed.
        score : array_like, shape (n,), optional
            Probabilities of the target group from elsewhere instead of a model.
        means : array_like, shape (n, 2), or mapping of them, optional
            Means of the outcome under the target's treatment and under the comparator's, from
            elsewhere instead of a model.
        observed_probability : array_like, shape (n, 2), or mapping of them, optional
            Probabilities that the outcome is observed under both treatments, instead of a model.
        fold : array_like of int, shape (n,) or (n, repeats), optional
            Folds of people, counted from 0, instead of random ones.
        clusters : array_like, shape (n,), optional
            Labels of people who belong together, such as families. They share folds, and their
            influences are summed before they are squared.
        sample_weight : array_like, shape (n,), optional
            Weights of people, such as those of a survey.
        weight_model : PropensityWeights, optional
            With stacked errors: fitted weights of the same people, whose model may have other
            covariates, or a probit link. Default: those of ``treatment_model`` and X.

        Returns
        -------
        self
            The fitted object.

        Raises
        ------
        DataError
            A setting or input cannot be used, a model cannot be fitted without a fold, or outcomes
            are missing without a model of it; the message gives the remedy.
        """
        given_y = y if isinstance(y, Mapping) else {"y": y}
        refuse_other_order(
            X, treatment=treatment, score=score, clusters=clusters, sample_weight=sample_weight,
            **given_y,
        )  # fmt: skip
        draft = unfitted_copy(self)
        draft._fit(
            X, treatment, read_outcomes(y),
            Given(score, means, observed_probability, fold, clusters, sample_weight, weight_model),
        )  # fmt: skip
        self.__dict__ = draft.__dict__
        return self

    def _fit(
        self, X: Any, treatment: ArrayLike, outcomes: dict[str, Outcome], given: Given
    ) -> None:
        """Set the fitted attributes."""
        self._settings = settings = check_settings(self)
        given.refuse_unused_models(self)
        given.check_stacked(self)
        check_level(self.level)
        columns = CovariateColumns.of(X)
        n = columns.n
        target = require_arms(treatment, "treatment") == 1
        if len(target) != n:
            raise DataError(f"treatment has {len(target)} rows and X {n}; they must agree.")
        if target.all() or not target.any():
            raise DataError("treatment has one value only; both 1 and 0 are needed.")
        for name, outcome in outcomes.items():
            outcome.check(name, n)
        weights = check_weights(given.sample_weight, n)
        self._clusters = clusters = read_clusters(given.clusters, n)
        fold = read_folds(given.fold, n, clusters)
        if fold is None:
            labels = labels_of_folds(target, outcomes)
            fold = folds_of_people(labels, clusters, self.folds, self.repeats, self.random_state)
        self._stacked: dict[str, ArmMeans] = {}
        self._crossed = fold is not None and (given.score is None or given.means is None)
        fits = CrossFitting(
            columns.source,
            columns.coded,
            target,
            fold,
            None if given.sample_weight is None else weights,
        )
        if self.errors == "stacked":
            return self._fit_stacked(columns, target, outcomes, weights, given)
        if given.score is None:
            scores, self.model_ = fits.score(default_model(self.treatment_model, binary=True))
        else:
            scores, self.model_ = read_probabilities("score", given.score, (n,))[:, None], None
        self.bound_ = truncation_bound(n) if self.bound is None else float(self.bound)
        self.n_features_in_ = columns.coded.p
        self._repeats = {
            name: nuisances_of_outcome(self, name, outcome, weights, scores, fits, given)
            for name, outcome in outcomes.items()
        }
        self._publish_effects()
        self.score_ = scores.mean(axis=1)
        means = {
            name: np.mean([x.means for x in own.nuisances], axis=0)
            for name, own in self._repeats.items()
        }
        self.means_ = means if any(means) else means[""]
        bounded = np.clip(self.score_, self.bound_, 1 - self.bound_)
        plain = propensity_weights(bounded, target, settings.estimand, stabilized=False)
        self._describe(columns, target, scores, plain * weights, weights, given)

    def _fit_stacked(
        self, columns: CovariateColumns, target: NDArray, outcomes: dict[str, Outcome],
        weights: NDArray, given: Given,
    ) -> None:  # fmt: skip
        """Set the fitted attributes with errors that include all models."""
        estimand, method = self._settings.estimand, cast(Stacked, self._settings.method)
        model = given.weight_model
        if model is None:
            model = PropensityWeights(estimand=estimand, model=self.treatment_model)
            model.fit(columns, target.astype(int), sample_weight=given.sample_weight)
        check_weight_model(model, estimand, target)
        self.model_, self.bound_, self.n_features_in_ = model.model_, 0.0, columns.coded.p
        self._repeats, self._stacked, means = {}, {}, {}
        for name, outcome in outcomes.items():
            label = f"outcome {name!r}" if name else "outcome"
            refuse_missing_outcome(outcome, label)
            people = People(target, outcome.filled, outcome.observed, weights)
            unfitted = default_model(self.outcome_model, binary=outcome.binary)
            self._stacked[name], means[name] = stacked_arm_means(
                columns.coded, people, model, unfitted, estimand, method, f"model of the {label}"
            )
            self._repeats[name] = Repeats(people, [Nuisances(model.score_, means[name])])
        self._publish_effects()
        self.score_, self.means_ = model.score_.copy(), means if any(means) else means[""]
        self._describe(columns, target, self.score_[:, None], model.weights_, weights, given)

    def _describe(
        self, columns: CovariateColumns, target: NDArray, scores: NDArray, own: NDArray,
        weights: NDArray, given: Given,
    ) -> None:  # fmt: skip
        """Set the weights, and the tables about them."""
        self.weights_ = own.copy()
        self.effective_sample_size_ = effective_sample_sizes(
            self.weights_, target.astype(int), ["comparator", "target"]
        )
        self.overlap_ = overlap_table(scores, target, self.bound_, self.weights_)
        self._balance_later(
            columns, target, self.weights_, self._settings.estimand,
            None if given.sample_weight is None else weights,
        )  # fmt: skip

    def _publish_effects(self) -> None:
        """Estimate the effects of all outcomes; influences are means over repeats."""
        influence: dict[str, NDArray] = {}
        pseudo: dict[str, NDArray] = {}
        self._estimates = estimates = {}
        for name, repeats in self._repeats.items():
            stacked = self._stacked.get(name)
            found = (
                estimate_outcome(repeats, self._settings, self.bound_)
                if stacked is None
                else [stacked]
            )
            estimates[name] = with_covariances(found, self._clusters)
            for kept, parts in (
                (influence, [x.influence for x in found]),
                (pseudo, [x.contributions for x in found]),
            ):
                kept[name or "outcome"] = np.mean([x[:, 0] - x[:, 1] for x in parts], axis=0)
        rows = self._rows_by_outcome(self.level, self._settings.method)
        table = effects_table([row for _, row in rows], self._settings.estimand, self.level)
        if any(self._repeats):
            table.insert(0, "outcome", [name for name, _ in rows])
        self.effects_: ResultTable = table
        self.influence_ = pd.DataFrame(influence)
        self.contributions_ = pd.DataFrame(pseudo)
