"""Logistic regression: propensity scores, case-control studies."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import type_of_target

from ..backends.face import Backend
from ..data import check_classes, refuse_other_order
from ..design import Design
from ..errors import DataError
from ..likelihoods import Likelihood, LogisticLikelihood
from ..priors import Prior
from .base import PenalizedModel
from .fit_inputs import FitInputs
from .residuals import GeneralizedResiduals
from .setting_types import Chooser, Device, Seed, Solver
from .sklearn_base import ClassifierMixin

__all__ = ["LogisticRegression"]


class LogisticRegression(ClassifierMixin, GeneralizedResiduals, PenalizedModel):
    """Logistic regression with a prior on the coefficients.

    Maximises Σ w [y η − log(1 + exp η)] − penalty over η = intercept + X β + offset, for y of
    two classes. The intercept is not penalised.

    Parameters
    ----------
    prior : Prior, optional
        `Laplace`, `Normal`, `ElasticNet`, …; None (default) is maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Choose the prior's variance. An int is a number of folds that are the same in each fit.
    fit_intercept : bool
        Default True.
    solver : {"newton", "ccd"}
        Proximal Newton (default), or the cyclic coordinate descent of Suchard and others
        (2013), literally.
    tol : float
        Largest ``optimality_`` at which the fit counts as converged, default 1e-8.
    max_iter : int
        Newton steps, default 200.
    n_jobs : int, optional
        Threads, default all cores; no result depends on it.
    device : {"cpu", "cuda", "auto"}
    random_state : int, Generator or None
        Seed of the folds where ``cv`` has none of its own. Without either, an integer ``cv``
        cuts the same folds each time and a `CrossValidation` draws new ones.
    verbose : int
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : (2,) array
        Labels of y, sorted, or in their own order where y is ordered categories (a pandas
        ``Categorical`` with ``ordered=True``, a polars ``Enum``); the model is of the second.
    intercept_ : float

    Notes
    -----
    See `PenalizedModel` for the other attributes. With separated data the maximum likelihood
    estimate does not exist and `SeparationError` names the columns (Albert and Anderson 1984).

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
        inputs.refuse_extras(self, "strata", "exposure")
        codes = self._classes(inputs.y, design.n)
        return LogisticLikelihood(codes, backend), {"fold_label": codes.astype(np.int64)}

    def _classes(self, y: Any, n: int) -> np.ndarray:
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
        if len(np.unique(label)) == 1:
            raise DataError(
                f"The rows with a positive weight have one class only, "
                f"{self.classes_.tolist()[label[0]]!r}; two classes are needed."
            )

    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the linear predictor η, (n,)."""
        return self.linear_predictor(X, offset)

    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the probabilities of the two classes, (n, 2)."""
        eta = self.linear_predictor(X, offset)
        e = np.exp(-np.abs(eta))
        p = np.where(eta >= 0, 1.0, e) / (1.0 + e)
        q = np.where(eta >= 0, e, 1.0) / (1.0 + e)
        return np.stack([q, p], axis=1)

    def predict_log_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the logarithms of the probabilities of the two classes, (n, 2)."""
        eta = self.linear_predictor(X, offset)
        return -np.logaddexp(0.0, np.stack([eta, -eta], axis=1))

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the more probable class, (n,)."""
        second = self.linear_predictor(X, offset) > 0
        return self.classes_[second.astype(np.int64)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Share of right predictions, as of scikit-learn's classifiers.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        y, sample_weight, offset : (n,) arrays
            As in ``fit``; scikit-learn routes an offset as ``set_score_request(offset=True)``
            asks it to.
        """
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
