"""Propensity scores that leave out covariates without an effect on the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from steropes.data import refuse_other_order
from steropes.design_matrix import Design
from steropes.design_matrix.design_from_sparse_matrices import blocks_of_sparse
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.doubly_robust_inputs import Outcome, default_model, read_outcomes
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.doubly_robust.counterfactual_means import (
    Nuisances,
    probabilities,
    truncation_bound,
)
from steropes.designs.doubly_robust.nuisance_models import CrossFitting, folds_of_people
from steropes.designs.doubly_robust.targeting import targeted_means
from steropes.designs.propensity.weights_by_estimand import propensity_weights
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.estimators.penalized_model import PenalizedModel
from steropes.models.fitting.sklearn_base_types import BaseEstimator
from steropes.priors import Laplace

__all__ = ["OutcomeAdaptiveLasso"]

# Exponents δ of the penalty n^δ (Shortreed and Ertefaie 2017).
EXPONENTS = (-10.0, -5.0, -2.0, -1.0, -0.75, -0.5, -0.25, 0.25, 0.49)
# γ = 2 (CONVERGENCE − δ + 1), so that n^δ n^(γ/2 − 1) = n^CONVERGENCE.
CONVERGENCE = 2.0
# Penalties of standardised columns, which below the first are none; above n times the second no
# coefficient differs from zero.
LEAST_PENALTY, MOST_PENALTY = 1e-6, 10.0


class OutcomeAdaptiveLasso(BaseEstimator):
    """Propensity scores under a lasso whose penalties depend on effects on the outcome.

    An outcome model with the treatment and all covariates gives coefficients β. The model of the
    treatment has the penalty n^δ |β_j|^−γ on the standardised column j, with γ = 2 (3 − δ), so that
    predictors of the outcome stay and instruments, which only make weights vary, leave.

    Parameters
    ----------
    select : {"balance", "targeted"}, default "balance"
        How δ is chosen: by the sum over columns of |β_j| times the absolute weighted difference of
        means, or by the cross-validated loss of the outcome means after targeting with the scores
        (collaborative selection). The latter may leave out confounders that the outcome model
        has accounted for, and is meant for doubly robust estimates alone.
    exponents : sequence of float, default (−10, −5, −2, −1, −0.75, −0.5, −0.25, 0.25, 0.49)
        Values of δ.
    outcome_model : estimator of steropes, optional
        Unfitted model of the outcome by treatment and covariates. Default: maximum likelihood,
        logistic for an outcome of 0 and 1 and linear for others; with more columns than people
        give one with a prior.
    folds : int, default 5
        Folds of the cross-validation for "targeted".
    random_state : int, default 0
        Seed of the folds.

    Attributes
    ----------
    score_ : ndarray, shape (n,)
        Scores at the chosen δ.
    path_ : DataFrame
        ``exponent``, ``criterion`` (the smallest is chosen), ``nonzero`` and ``largest_weight``.
    exponent_ : float
        The chosen δ.
    coef_ : Series, shape (p,)
        Coefficients of the chosen model of the treatment, in X's units.
    outcome_coef_ : Series, shape (p,)
        β of the standardised columns.
    model_ : LogisticRegression
        The chosen model of the treatment.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    DoublyRobust : Takes the scores by ``fit(score=…)``.
    PropensityWeights : Takes the scores by ``fit(score=…)``.

    Notes
    -----
    Errors that take the score as given do not include the selection; take a bootstrap that repeats
    it where this matters.

    References
    ----------
    Shortreed and Ertefaie (2017), Biometrics 73:1111–1122. van der Laan and Gruber (2010),
    International Journal of Biostatistics 6(1):17 (collaborative targeting).

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import OutcomeAdaptiveLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> treatment = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0] - X[:, 1]))).astype(int)
    >>> y = treatment + X[:, 0] + X[:, 2] + rng.standard_normal(500)
    >>> found = OutcomeAdaptiveLasso().fit(X, treatment, y)
    >>> (found.coef_ != 0).tolist()
    [True, False, True]
    """

    def __init__(
        self,
        *,
        select: str = "balance",
        exponents: Sequence[float] = EXPONENTS,
        outcome_model: Any = None,
        folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.select = select
        self.exponents = exponents
        self.outcome_model = outcome_model
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, treatment: ArrayLike, y: ArrayLike) -> Self:
        """Fit the outcome model and the path of models of the treatment.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Design, shape (n, p)
            Covariates.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator.
        y : array_like, shape (n,)
            Outcome.

        Returns
        -------
        self
            The fitted object.

        Raises
        ------
        DataError
            A setting or input cannot be used.
        """
        refuse_other_order(X, treatment=treatment, y=y)
        draft = unfitted_copy(self)
        draft._fit(X, treatment, y)
        self.__dict__ = draft.__dict__
        return self

    def _fit(self, X: Any, treatment: ArrayLike, y: ArrayLike) -> None:
        """Set the fitted attributes."""
        if self.select not in ("balance", "targeted"):
            raise DataError(f"select must be 'balance' or 'targeted', not {self.select!r}.")
        exponents = np.asarray(self.exponents, dtype=float)
        if exponents.ndim != 1 or not exponents.size or not (exponents < CONVERGENCE + 1).all():
            raise DataError("exponents must be one number or more, each below 3.")
        coded = CovariateColumns(X).coded
        # The columns of the models: without the coding, by which balance has all levels of labels.
        design = Design(coded.blocks, coded.names)
        target = require_arms(treatment, "treatment") == 1
        outcome = read_outcomes(y)[""]
        outcome.check("", design.n)
        if len(target) != design.n or not outcome.observed.all():
            raise DataError("treatment and y need a value for each row of X.")
        spread = _spread(design)
        beta = self._outcome_coefficients(design, target, outcome) * spread
        found = []
        criterion = (
            _Balance(CovariateColumns(design), target, beta, spread)
            if self.select == "balance"
            else _Targeted(design, target, outcome, self.folds, self.random_state)
        )
        for delta in exponents:
            prior = _prior(float(delta), beta, spread, design.n)
            model = LogisticRegression(prior=prior)
            fit = model.fit(design, target.astype(float))
            score = fit.predict_proba(design)[:, 1]
            value = criterion(score, model)
            weights = propensity_weights(score, target, "ate", stabilized=False)
            found.append((value, fit, score, int((fit.coef_ != 0).sum()), float(weights.max())))
        best = int(np.argmin([x[0] for x in found]))
        _, self.model_, self.score_, *_ = found[best]
        self.exponent_ = float(exponents[best])
        self.path_ = pd.DataFrame({
            "exponent": exponents, "criterion": [x[0] for x in found],
            "nonzero": [x[3] for x in found], "largest_weight": [x[4] for x in found],
        })  # fmt: skip
        self.coef_ = pd.Series(self.model_.coef_, design.names)
        self.outcome_coef_ = pd.Series(beta, design.names)
        self.n_features_in_ = design.p

    def _outcome_coefficients(self, design: Design, target: NDArray, outcome: Outcome) -> NDArray:
        """Fit the outcome by treatment and covariates; return the coefficients of the latter."""
        model = default_model(self.outcome_model, binary=outcome.binary)
        if not isinstance(model, PenalizedModel):
            raise DataError(
                f"outcome_model must be a model of steropes, not {type(model).__name__}."
            )
        name = "treatment"
        while name in design.names:
            name += " (group)"
        own = blocks_of_sparse(sp.csc_array(target[:, None] * 1.0), [name])
        both = Design([*design.blocks, *own], [*design.names, name])
        return np.asarray(model.fit(both, outcome.y).coef_)[:-1]


@dataclass(frozen=True, repr=False)
class _Balance:
    """Σ |β_j| |difference of weighted means of the standardised column j|."""

    columns: CovariateColumns
    target: NDArray
    beta: NDArray
    spread: NDArray

    def __call__(self, score: NDArray, model: Any) -> float:
        """Compute the sum under the weights of scores."""
        weights = propensity_weights(score, self.target, "ate", stabilized=False)
        shares = np.column_stack([
            np.where(group, weights, 0.0) / weights[group].sum()
            for group in (self.target, ~self.target)
        ])  # fmt: skip
        means = self.columns.moments(shares).mean
        return float(np.abs(self.beta) @ np.abs((means[:, 0] - means[:, 1]) / self.spread))


class _Targeted:
    """The loss of targeted means in each fold, after a step in the other folds."""

    def __init__(
        self, design: Design, target: NDArray, outcome: Outcome, folds: int, seed: int
    ) -> None:
        self.target, self.outcome = target, outcome
        fold = folds_of_people(target.astype(np.int64), None, folds, 1, seed)
        if fold is None:
            raise DataError("select='targeted' needs folds above 1.")
        self.fold = fold[:, 0]
        self.fits = CrossFitting(design, design, target, fold, None)
        own = default_model(None, binary=outcome.binary)
        rows = np.ones(design.n, dtype=bool)
        self.means = self.fits.by_group(own, outcome.y, rows, "model of the outcome")[:, :, 0]

    def __call__(self, score: NDArray, model: Any) -> float:
        """Compute the mean logistic loss with cross-fitted scores of a model."""
        y, n = self.outcome.y, len(self.target)
        nuisances = Nuisances(self.fits.score(model)[0][:, 0], self.means)
        factor = 1 / probabilities(nuisances.bounded(truncation_bound(n)))
        arms = np.column_stack([self.target, ~self.target])
        low, high, loss = float(y.min()), float(y.max()), 0.0
        for f in range(int(self.fold.max()) + 1):
            held = self.fold == f
            train = arms & ~held[:, None]
            means = targeted_means(y, train, np.ones(n), self.means, factor, "covariate")
            own = np.where(self.target, means[:, 0], means[:, 1])[held]
            m = np.clip((own - low) / (high - low), 0.0, 1.0)
            share = (y[held] - low) / (high - low)
            loss -= float((xlogy(share, m) + xlogy(1 - share, 1 - m)).sum())
        return loss / n


def _prior(delta: float, beta: NDArray, spread: NDArray, n: int) -> Laplace:
    """Return the prior with the penalty n^δ |β_j|^−γ on standardised columns."""
    gamma = 2 * (CONVERGENCE - delta + 1)
    with np.errstate(divide="ignore"):
        log_penalty = delta * np.log(n) - gamma * np.log(np.abs(beta))
    limits = np.log(LEAST_PENALTY), np.log(MOST_PENALTY * n)
    penalty = np.exp(np.clip(log_penalty, *limits)) * spread
    return Laplace(variance=2 / penalty**2)


def _spread(design: Design) -> NDArray:
    """Return the standard deviations of the columns, (p,); one of constant columns."""
    whole = np.full((design.n, 1), 1 / design.n)
    spread = np.sqrt(CovariateColumns(design).moments(whole).variance[:, 0])
    return np.where(spread > 0, spread, 1.0)
