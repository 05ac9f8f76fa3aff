"""Logistic regression, for example for propensity scores and case-control studies."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import type_of_target

from ..backends.protocols import Backend
from ..data import check_classes, refuse_other_order
from ..data.input_types import VectorLike
from ..design import Design
from ..errors import DataError
from ..likelihoods import Likelihood, LogisticLikelihood
from ..priors import Prior
from .base import PenalizedModel
from .fit_inputs import FitInputs
from .residuals import GeneralizedResiduals
from .setting_types import Chooser, Device, MatrixLike, Seed, Solver
from .sklearn_base import ClassifierMixin

__all__ = ["LogisticRegression"]


class LogisticRegression(ClassifierMixin, GeneralizedResiduals, PenalizedModel):
    """Logistic regression with a prior on the coefficients.

    Maximises Σ w [y η − log(1 + exp η)] − penalty over η = intercept + X β + offset, for an
    outcome with two classes. The intercept is not penalised.

    Parameters
    ----------
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised. Default True.
    solver : {"newton", "ccd"}
        Proximal Newton method (default), or the cyclic coordinate descent of Suchard and others
        (2013) as published.
    tol : float
        Largest ``optimality_`` of a converged fit, default 1e-8.
    max_iter : int
        Maximum number of Newton steps, default 200.
    n_jobs : int, optional
        Number of threads, default all cores. Results do not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where to compute; "auto" uses a GPU if there is one. Default "cpu".
    random_state : int, Generator or None
        Seed of the folds if ``cv`` has none. Without either, an integer ``cv`` uses the same folds
        in every fit and a `CrossValidation` draws new ones.
    verbose : int
        Whether to show progress on standard error (1) or not (0, default).

    Attributes
    ----------
    classes_ : (2,) array
        Labels of y, sorted, or in the order of ordered categories (a pandas ``Categorical`` with
        ``ordered=True``, a polars ``Enum``). The model is for the probability of the second.
    intercept_ : float
    coef_ : (p,) array
        Log odds ratios.
    log_likelihood_, optimality_, converged_, n_iter_, prior_, cv_results_, variance_
        See `PenalizedModel`.

    Raises
    ------
    SeparationError
        If the data are separated, so that the maximum likelihood estimate does not exist; the
        message names the columns (Albert and Anderson 1984).

    References
    ----------
    Albert and Anderson (1984), Biometrika 71:1–10. Suchard, Simpson, Zorych, Ryan and Madigan
    (2013), ACM TOMACS 23:10.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> m = steropes.LogisticRegression(prior=steropes.Normal(1.0)).fit(X, [0, 1, 0, 1])
    >>> m.predict_proba(X).shape
    (4, 2)
    """

    _intercept = True
    _batched_outcomes = "laplace"
    _family = "logistic"

    classes_: np.ndarray

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        fit_intercept: bool = True,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.fit_intercept = fit_intercept

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        """Read the classes; see `PenalizedModel`."""
        inputs.refuse_extras(self, "strata", "exposure")
        codes = self._classes(inputs.y, design.n)
        return LogisticLikelihood(codes, backend), {"fold_label": codes.astype(np.int64)}

    def _classes(self, y: VectorLike, n: int) -> np.ndarray:
        """Read an outcome of two classes; return 1 for the second class and 0 for the first."""
        classes, codes = check_classes(y, n)
        if type_of_target(classes) in ("continuous", "continuous-multioutput"):
            raise DataError(
                "Unknown label type: continuous. y must have two classes; for a continuous "
                "outcome use LinearRegression."
            )
        if len(classes) == 1:
            only = classes.tolist()[0]
            raise DataError(f"y has one class only, {only!r}; two classes are needed.")
        if len(classes) > 2:
            raise DataError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(classes)}: y has {len(classes)} classes."
            )
        self.classes_ = classes
        return codes.astype(np.float64)

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """Refuse rows with positive weight that have one class only."""
        if len(np.unique(label)) == 1:
            raise DataError(
                f"The rows with a positive weight have one class only, "
                f"{self.classes_.tolist()[label[0]]!r}; two classes are needed."
            )

    def decision_function(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Return the linear predictor η, (n,)."""
        return self.linear_predictor(X, offset)

    def predict_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Return the probabilities of the two classes, (n, 2)."""
        eta = self.linear_predictor(X, offset)
        e = np.exp(-np.abs(eta))
        p = np.where(eta >= 0, 1.0, e) / (1.0 + e)
        q = np.where(eta >= 0, e, 1.0) / (1.0 + e)
        return np.stack([q, p], axis=1)

    def predict_log_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Return the logarithms of the probabilities of the two classes, (n, 2)."""
        eta = self.linear_predictor(X, offset)
        return -np.logaddexp(0.0, np.stack([eta, -eta], axis=1))

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Return the more probable class, (n,)."""
        second = self.linear_predictor(X, offset) > 0
        return self.classes_[second.astype(np.int64)]

    def score(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        *,
        offset: VectorLike | None = None,
    ) -> float:
        """Compute the share of correct predictions, as scikit-learn's classifiers do.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : (n,) array
            Labels.
        sample_weight, offset : (n,) arrays, optional
            scikit-learn routes an offset after ``set_score_request(offset=True)``.

        Returns
        -------
        float
        """
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
