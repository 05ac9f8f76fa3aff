"""Logistic regression, for example for propensity scores and case-control studies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.multiclass import type_of_target

from ...backends.backend_interface import Backend
from ...data import check_classes, refuse_other_order
from ...data.input_types import VectorLike
from ...design_matrix import Design
from ...errors import DataError
from ...infer.response_distributions import BinaryResponse
from ...likelihoods import Likelihood, LogisticLikelihood
from ...priors import Prior
from ..checks.check_accessors import GeneralizedChecks
from ..effects.effect_accessors import MeanEffects
from ..families.performance_measures import share_correct
from ..families.response_families import LOGISTIC
from ..fitting.accessor_base_class import accessor
from ..fitting.class_weights import weigh_classes
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import Chooser, ClassWeight, Device, MatrixLike, Seed, Solver
from ..fitting.sklearn_base_types import ClassifierMixin
from .penalized_model import PenalizedModel

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["LogisticRegression"]


class LogisticRegression(ClassifierMixin, PenalizedModel):
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
    class_weight : {"balanced"} or mapping from labels to numbers, optional
        Weights of the classes, by which ``sample_weight`` is multiplied. "balanced" gives all
        classes the same total weight, n / (K n_c), where n_c is the sum of ``sample_weight`` in
        class c and n that of all rows. Classes that a mapping omits have weight 1. Computed once
        from all rows of the fit, also for folds and bootstrap draws. See Notes.
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
        Where to compute; "auto" uses a GPU for large fits if there is one. Default "cpu".
    random_state : int, Generator or None
        Seed of the folds if ``cv`` has none. Without either, an integer ``cv`` uses the same folds
        in every fit and a `CrossValidation` draws new ones.
    verbose : int
        Whether to show progress on standard error (1) or not (0, default).
    formula : str, optional
        Outcome and covariates, such as ``"y ~ drug + age"``, with which ``fit`` takes a table of
        data in place of X and y; see `from_formula`.
    trusted : bool
        Whether to evaluate any Python in the formula, default no; see `from_formula`.

    Attributes
    ----------
    classes_ : (2,) array
        Labels of y in the order of their categories (a pandas ``Categorical``, ordered or not, a
        polars ``Enum``), and otherwise sorted. The model is for the probability of the second.
    class_weight_ : (2,) array
        Weights of the classes, 1 without ``class_weight``.
    intercept_ : float
        Intercept, 0 without ``fit_intercept``.
    coef_ : (p,) array
        Log odds ratios.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, with all its constants.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        Certificate: the largest violation of the optimality conditions over all columns, computed
        from X at the final coefficients; see `PenalizedModel`.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps, or of sweeps with ``solver="ccd"``.
    trace_ : DataFrame
        Progress of the fit, with a row for each step; see `PenalizedModel`.
    variance_ : float
        Variance of the prior that ``cv`` has chosen; only with ``cv``.
    cv_results_ : DataFrame
        Scores of the variances; only with ``cv``, see `PenalizedModel`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (p,) array of str
        Names of the columns; only if X had names.

    Raises
    ------
    SeparationError
        If the data are separated, so that the maximum likelihood estimate does not exist; the
        message names the columns (Albert and Anderson 1984).

    See Also
    --------
    MultinomialLogisticRegression : Model of several classes.
    ConditionalLogisticRegression : Model for matched sets.
    PooledLogisticRegression : Model of the time to an event in intervals.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    With ``class_weight``, every result equals that of a fit with the products as ``sample_weight``,
    as in scikit-learn. The probabilities are those of a population with these shares of the
    classes, and standard errors that take weights as numbers of people are not valid: use
    ``kind="robust"`` or the bootstrap.

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

    Three rows of one class and one of the other, weighted to the same total:

    >>> m = steropes.LogisticRegression(class_weight="balanced")
    >>> m.fit([[0.0], [1.0], [2.0], [1.0]], [0, 0, 0, 1]).class_weight_.round(3).tolist()
    [0.667, 2.0]
    """

    _batched_outcomes = "laplace"
    _intercept = True
    _distribution = BinaryResponse()
    effects = accessor(MeanEffects)
    checks = accessor(GeneralizedChecks)
    _family = LOGISTIC

    classes_: np.ndarray

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
        formula: str | None = None,
        trusted: bool = False,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose, formula=formula,
            trusted=trusted,
        )  # fmt: skip
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
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
                f"{type_of_target(classes)}: y has {len(classes)} classes. Use "
                "MultinomialLogisticRegression."
            )
        self.classes_ = classes
        return codes.astype(np.float64)

    def _weigh_classes(self, weights: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Multiply row weights by those of the rows' classes; store ``class_weight_``."""
        assert codes is not None
        self.class_weight_, weights = weigh_classes(
            self.class_weight, self.classes_.tolist(), codes, weights
        )
        return weights

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """Refuse rows with positive weight that have one class only."""
        if len(np.unique(label)) == 1:
            raise DataError(
                f"The rows with a positive weight have one class only, "
                f"{self.classes_.tolist()[label[0]]!r}; two classes are needed."
            )

    def decision_function(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Compute the linear predictor, the log odds of the second class.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n,) array
            The linear predictor η.
        """
        return self.linear_predictor(X, offset)

    def predict_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the probabilities of the two classes.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n, 2) array
            Probabilities, in the order of ``classes_``.
        """
        eta = self.linear_predictor(X, offset)
        e = np.exp(-np.abs(eta))
        p = np.where(eta >= 0, 1.0, e) / (1.0 + e)
        q = np.where(eta >= 0, e, 1.0) / (1.0 + e)
        return np.stack([q, p], axis=1)

    def predict_log_proba(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the logarithms of the probabilities of the two classes.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n, 2) array
            Log probabilities, in the order of ``classes_``.
        """
        eta = self.linear_predictor(X, offset)
        return -np.logaddexp(0.0, np.stack([eta, -eta], axis=1))

    def predict(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Predict the more probable class.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n,) array
            Labels from ``classes_``.
        """
        second = self.linear_predictor(X, offset) > 0
        return self.classes_[second.astype(np.int64)]

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
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
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. The metadata routing of scikit-learn passes it after
            ``set_score_request(offset=True)``.

        Returns
        -------
        float
            Share of correct predictions.
        """
        y = outcome_of_table(self, X, y)
        refuse_other_order(X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X, offset)
        return share_correct(y, predicted, sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
