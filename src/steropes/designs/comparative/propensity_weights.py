"""Propensity weights of two or more groups as one object: scores, weights and balance."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data import check_classes
from steropes.data.vector_checks import check_weights
from steropes.designs.comparative.balance_on_demand import BalanceOnDemand
from steropes.designs.comparative.balance_table import balance_table
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.effective_sample_size import effective_sample_sizes
from steropes.designs.comparative.treatment_model import (
    fit_treatment_model,
    given_scores,
    refuse_model_beside_scores,
)
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.propensity.estimated_propensity_weights import EstimatedWeights
from steropes.designs.propensity.score_trimming import Trim, trim
from steropes.designs.propensity.weights_by_estimand import (
    STABILISED,
    focal_arm,
    weights_of_arms,
)
from steropes.designs.values.argument_checks import check_flag, check_real
from steropes.designs.values.estimands import AnyEstimand, check_estimand
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError, listed
from steropes.models.cumulative.cumulative_probability_model import CumulativeProbabilityModel
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.multinomial.multinomial_logistic_regression import (
    MultinomialLogisticRegression,
)

__all__ = ["PropensityWeights", "weights_of_scores"]


class PropensityWeights(BalanceOnDemand):
    """Weights by propensity scores for several populations, and for two or more groups.

    A person in group a with the scores e_k has the weight h(e) / e_a (Li and Li 2019), where h is

    ==========  ======================  =========================================================
    estimand    h                       population
    ==========  ======================  =========================================================
    "ate"       1                       everybody
    "att"       e of the treated        the treated, or with several groups those of ``focal``
    "atc"       1 − e                   the untreated; "atu" is the same
    "ato"       1 / Σ 1/e_k             overlap: people who might have had any treatment
    "atm"       min e_k                 people like those of matched pairs
    "entropy"   −Σ e_k log e_k          people whose treatment was uncertain
    ==========  ======================  =========================================================

    Parameters
    ----------
    estimand : str, default "ate"
        Population of the effect.
    model : estimator, optional
        Unfitted model of the treatment with ``predict_proba``, which is cloned, such as
        ``LogisticRegression(prior=Laplace(), cv=10)``. Default: `LogisticRegression` or, for
        several groups, `MultinomialLogisticRegression`, both by maximum likelihood. Probit scores
        of two groups are those of ``CumulativeProbabilityModel(link="probit")``.
    stabilized : bool, default False
        Multiply the weights of each group by its share of the people; under "ate", "att" and
        "atc". Means of groups do not change, but weighted hazard ratios do.
    trim : float or Trim, default 0.0
        Leave out people of whom any score is below this number (weight 0), or of two groups by the
        rules of `Trim`: asymmetric, by preference scores, or by weights. Scores are not estimated
        again.
    truncate : float, optional
        Quantile of the weights, such as 0.99, to which larger weights are reduced.
    focal : label, optional
        The group in whose people effects are estimated, with several groups and "att".

    Attributes
    ----------
    weights_ : ndarray, shape (n,)
        Weights of all people, times ``sample_weight`` if given.
    score_ : ndarray, shape (n,) or (n, K)
        Scores of group 1, or of each group in the order of ``classes_``.
    classes_ : ndarray, shape (K,)
        Codes or labels of the groups.
    model_ : estimator or None
        The fitted model; None if scores were given.
    balance_ : DataFrame
        Balance before and after weighting; see `balance_table`. With several groups each pair has
        its rows, named by the column ``groups``.
    effective_sample_size_ : dict of str to float
        (Σw)² / Σw² of the target and of the comparator, or of each of several groups.

    See Also
    --------
    EntropyBalancing : Weights that balance covariates without a model of the treatment.

    References
    ----------
    Li and Li (2019), Annals of Applied Statistics 13:2389–2415. Crump, Hotz, Imbens and Mitnik
    (2009), Biometrika 96:187–199 (trimming). Lee, Lessler and Stuart (2011), PLoS ONE 6:e18174
    (truncation).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> from steropes.designs import PropensityWeights
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> treatment = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> y = treatment + X[:, 0] + rng.standard_normal(500)
    >>> weights = PropensityWeights(estimand="ato").fit(X, treatment)
    >>> float(weights.balance_["smd_after"].abs().max()) < 1e-8
    True
    >>> outcome = steropes.LinearRegression()
    >>> outcome = outcome.fit(treatment[:, None], y, sample_weight=weights.weights_)
    >>> outcome.summary(weight_model=weights)[["coef", "se"]].round(3).to_numpy()[-1].tolist()
    [1.064, 0.101]
    """

    def __init__(
        self,
        *,
        estimand: str = "ate",
        model: Any = None,
        stabilized: bool = False,
        trim: float | Trim = 0.0,
        truncate: float | None = None,
        focal: object = None,
    ) -> None:
        self.estimand = estimand
        self.model = model
        self.stabilized = stabilized
        self.trim = trim
        self.truncate = truncate
        self.focal = focal

    def fit(
        self,
        X: Any,
        treatment: ArrayLike,
        *,
        score: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Estimate the scores and compute the weights.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Design, shape (n, p)
            Covariates of the model, whose balance is reported.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator, or labels of three or more groups.
        score : array_like, shape (n,) or (n, K), optional
            Scores from elsewhere instead of a model, of group 1 or of all groups in the order of
            their sorted labels.
        sample_weight : array_like, shape (n,), optional
            Weights of people, such as those of a survey.

        Returns
        -------
        self
            The fitted weights.

        Raises
        ------
        DataError
            A group is missing, or a score makes a weight infinite.
        """
        draft = unfitted_copy(self)
        draft._fit(X, treatment, score=score, sample_weight=sample_weight)
        self.__dict__ = draft.__dict__
        return self

    def _fit(
        self,
        X: Any,
        treatment: ArrayLike,
        *,
        score: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        """Set the fitted attributes."""
        estimand = check_estimand(self.estimand)
        columns = CovariateColumns.of(X)
        design = columns.coded
        classes, arm = _groups(treatment, design.n)
        before = check_weights(sample_weight, design.n)
        refuse_model_beside_scores(self.model, score)
        self._check_settings(estimand, len(classes))
        model = None
        if score is None:
            model, scores = fit_treatment_model(
                self._unfitted(len(classes)), columns,
                arm if len(classes) == 2 else classes[arm],
                None if sample_weight is None else before,
            )  # fmt: skip
        else:
            scores = given_scores(score, design.n, len(classes))
        weights, largest = weights_of_scores(
            self, scores, arm, before > 0, focal_arm(estimand, list(classes), self.focal)
        )
        self._estimated, self._reason = self._weight_model(model, estimand, largest)
        self.model_, self.classes_ = model, classes
        self.score_ = scores[:, 1] if len(classes) == 2 else scores
        self.weights_ = weights * before
        self.n_features_in_ = design.p
        names = ["comparator", "target"] if len(classes) == 2 else [str(c) for c in classes]
        self.effective_sample_size_ = effective_sample_sizes(self.weights_, arm, names)
        given = None if sample_weight is None else before
        if len(classes) == 2:
            self._balance_later(columns, arm, self.weights_, estimand, given)
        else:
            self._balance = _balance_of_pairs(columns, arm, classes, self.weights_, given)

    def _check_settings(self, estimand: AnyEstimand, groups: int) -> None:
        """Refuse settings that are no values of their kind, or have no effect."""
        if check_flag("stabilized", self.stabilized) and estimand not in STABILISED:
            raise DataError(
                f"stabilized=True has no effect with estimand={self.estimand!r}, but only with "
                f"{listed(list(STABILISED))}; leave it out."
            )
        if self.focal is not None and (groups == 2 or estimand != "att"):
            raise DataError(
                "focal is for three or more groups and estimand='att'; leave it out. The effect "
                "in the untreated of two groups is estimand='atu'."
            )
        if not isinstance(self.trim, Trim):
            wanted = f"0 or more and below {1 / groups:g}"
            check_real("trim", self.trim, lambda x: 0 <= x < 1 / groups, wanted)
        elif groups > 2:
            raise DataError("trim=Trim(…) is for two groups; give the smallest score of each.")
        if self.truncate is not None:
            wanted = "a quantile between 0.5 and 1, such as 0.99"
            check_real("truncate", self.truncate, lambda x: 0.5 < x < 1, wanted)

    def _unfitted(self, groups: int) -> Any:
        """Return the model to fit."""
        if self.model is not None:
            return self.model
        return LogisticRegression() if groups == 2 else MultinomialLogisticRegression()

    def _weight_model(
        self, model: Any, estimand: AnyEstimand, largest: float | None
    ) -> tuple[EstimatedWeights | None, str]:
        """Return the weights with their dependence on the model, or the reason for None."""
        if model is None:
            return None, "the scores were given"
        known = isinstance(model, LogisticRegression | MultinomialLogisticRegression)
        probit = isinstance(model, CumulativeProbabilityModel) and model.link == "probit"
        if not (known or probit):
            return None, f"{type(model).__name__} has no score contributions"
        if model.prior_ is not None:
            return None, "the model has a prior"
        return (
            EstimatedWeights(
                model, estimand, stabilized=self.stabilized, largest=largest, focal=self.focal
            ),
            "",
        )

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has computed weights."""
        return "weights_" in vars(self)

    @property
    def values(self) -> NDArray:
        """The weights, as ``weight_model`` of outcome models needs them, (n,)."""
        return self.weights_.copy()

    @property
    def estimation_left_out(self) -> str:
        """Why errors cannot include the estimation of the weights; empty if they can."""
        return self._reason if self._estimated is None else ""

    def influences(self, outcome: ArrayLike) -> NDArray:
        """Compute the influence of people on other coefficients through the weights.

        A fitted object can be passed as ``weight_model`` to ``summary``, ``confint`` and ``vcov``
        of an outcome model, whose errors then include the estimation of the scores.

        Parameters
        ----------
        outcome : array_like, shape (n, k)
            Derivatives of the other coefficients in the logarithm of each person's weight.

        Returns
        -------
        ndarray, shape (n, k)
            To be added to the influences with known weights.

        Raises
        ------
        DataError
            If the scores do not come from a model by maximum likelihood.
        """
        if self._estimated is None:
            raise DataError(
                f"Errors cannot include the estimation of the scores, since {self._reason}. Take "
                "robust errors with the weights as known (kind='robust'), or a bootstrap in which "
                "the model is fitted in each draw."
            )
        return self._estimated.influences(np.asarray(outcome, dtype=float))


def weights_of_scores(
    settings: PropensityWeights,
    scores: NDArray,
    arm: NDArray,
    counted: NDArray | None = None,
    focal: int | None = None,
) -> tuple[NDArray, float | None]:
    """Compute weights with trimming and truncation.

    Parameters
    ----------
    settings : PropensityWeights
    scores : ndarray, shape (n, K)
    arm : ndarray of int, shape (n,)
    counted : ndarray of bool, shape (n,), optional
        People of whom the quantile is taken. Default: all.
    focal : int, optional
        As in `weights_of_arms`.

    Returns
    -------
    weights : ndarray, shape (n,)
    largest : float or None
        The weight to which larger ones are reduced.
    """
    estimand = check_estimand(settings.estimand)
    plain = weights_of_arms(scores, arm, estimand, stabilized=settings.stabilized, focal=focal)
    everybody = np.ones(len(arm), dtype=bool) if counted is None else counted
    kept = _kept(settings.trim, scores, arm, plain, everybody)
    if settings.truncate is None:
        return np.where(kept, plain, 0.0), None
    used = kept & everybody
    largest = float(np.quantile(plain[used], settings.truncate))
    return np.where(kept, np.minimum(plain, largest), 0.0), largest


def _kept(
    rule: float | Trim, scores: NDArray, arm: NDArray, weights: NDArray, counted: NDArray
) -> NDArray:
    """Return who is left after trimming, (n,) bool; quantiles are those of people who count."""
    if not isinstance(rule, Trim):
        return np.asarray((scores >= rule).all(axis=1))
    kept = np.zeros(len(arm), dtype=bool)
    kept[counted] = trim(scores[counted, 1], arm[counted], rule, weights[counted])[-1][1]
    if len(np.unique(arm[kept])) < 2:
        raise DataError("trim leaves nobody of a group; take a weaker rule.")
    return kept


def _groups(treatment: ArrayLike, n: int) -> tuple[NDArray, NDArray]:
    """Return the groups, (K,), and the position of each person's group, (n,)."""
    if len(np.asarray(treatment)) != n:
        raise DataError(
            f"treatment has {len(np.asarray(treatment))} rows and X {n}; they must agree."
        )
    classes, arm = check_classes(treatment, n, "treatment")
    if len(classes) < 2:
        raise DataError("treatment has one value only; two or more groups are needed.")
    if len(classes) == 2 and not np.array_equal(require_numbers("treatment", classes), [0, 1]):
        raise DataError(
            f"treatment must be 1 for the target and 0 for the comparator; it has the values "
            f"{listed([str(c) for c in classes])}."
        )
    return np.asarray(classes), np.asarray(arm)


def _balance_of_pairs(
    X: CovariateColumns, arm: NDArray, classes: NDArray, weights: NDArray, before: NDArray | None
) -> pd.DataFrame:
    """Return the balance of each pair of several groups."""
    tables = []
    own = np.ones(len(arm)) if before is None else before
    for k, j in combinations(range(len(classes)), 2):
        inside = (arm == j) | (arm == k)
        table = balance_table(
            X, (arm == j) * 1, np.where(inside, weights, 0.0), before=np.where(inside, own, 0.0)
        )
        table.insert(0, "groups", f"{classes[j]} − {classes[k]}")
        tables.append(table)
    return pd.concat(tables, ignore_index=True)
