"""Multinomial logistic regression, for outcomes with several classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from ..backends import get_backend, host_backend
from ..data import check_classes
from ..data.column_lookup import ColumnLookup
from ..data.input_types import CoefficientsByColumn, LabelsLike, VectorLike
from ..design import Design
from ..design.class_design import ClassDesign
from ..errors import DataError
from ..fit import Problem
from ..likelihoods.multinomial_likelihood import MultinomialLikelihood
from ..priors import BrokenAdaptiveRidge, LimitedPrior, Prior, PriorColumns
from ..solve import Fit
from .base import PenalizedModel
from .class_weights import ClassWeights
from .fit_inputs import FitInputs
from .hypothesis_tests import Test
from .model_terms import columns_of_terms
from .multinomial_predictions import MultinomialPredictions
from .setting_types import Chooser, ClassWeight, Device, Kind, Seed, Solver
from .sklearn_base import ClassifierMixin
from .step_effects import prior_of_copies

__all__ = ["MultinomialLogisticRegression"]


class MultinomialLogisticRegression(
    ClassWeights, MultinomialPredictions, ClassifierMixin, PenalizedModel
):
    """Logistic regression of an outcome with several classes, with a prior on the coefficients.

    Maximises Σ w [η_y − log Σ_c exp η_c] − penalty, where each class c has a linear predictor
    η_c = intercept_c + X β_c. Probabilities depend on differences between classes only, so that
    coefficients without a penalty are relative to a reference class, whose own are zero.
    Penalised coefficients are those of all classes (the symmetric parametrisation of glmnet and
    scikit-learn), unless ``reference`` is given.

    Parameters
    ----------
    reference : label, optional
        Class whose coefficients are zero. None (default) is the first class for intercepts and
        other coefficients without a penalty, and no class for penalised ones.
    prior : Prior, optional
        Prior on the coefficients: `Laplace`, `Normal`, `ElasticNet` or `BrokenAdaptiveRidge`. None
        (default) is maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
    fit_intercept : bool
        Whether to fit an intercept of each class, which is not penalised. Default True.
    class_weight : {"balanced"} or mapping from labels to numbers, optional
        Weights of the classes, by which ``sample_weight`` is multiplied. "balanced" gives all
        classes the same total weight, n / (K n_c), where n_c is the sum of ``sample_weight`` in
        class c and n that of all rows. Classes that a mapping omits have weight 1. Computed once
        from all rows of the fit, also for folds and bootstrap draws. See Notes.
    solver : {"newton"}
        Proximal Newton method. There is no coordinate descent for this model.
    tol : float
        Largest ``optimality_`` of a converged fit, default 1e-8.
    max_iter : int
        Maximum number of Newton steps, default 200.
    n_jobs : int, optional
        Number of threads, default all cores. Results do not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where to compute products with X; the likelihood is computed on the host. Default "cpu".
    random_state : int, Generator or None
        Seed of the folds if ``cv`` has none. Without either, an integer ``cv`` uses the same folds
        in every fit and a `CrossValidation` draws new ones.
    verbose : int
        Whether to show progress on standard error (1) or not (0, default).

    Attributes
    ----------
    classes_ : (K,) array
        Labels of y, sorted, or in the order of ordered categories.
    class_weight_ : (K,) array
        Weights of the classes, 1 without ``class_weight``.
    coef_ : (K, p) array
        Coefficients of each class, in the units of X's columns: log odds ratios relative to the
        reference class, where there is one.
    intercept_ : (K,) array
        Intercepts, 0 for the reference class and without ``fit_intercept``.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        Certificate: the largest violation of the optimality conditions over all columns and
        classes, computed from X at the final coefficients; see `PenalizedModel`.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps.
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
        If the data do not determine coefficients without a prior; the message names them.

    See Also
    --------
    LogisticRegression : Model of two classes.
    CumulativeProbabilityModel : Model of ordered classes.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    Names of coefficients in tables are ``class:column`` and ``class:intercept``. There are no
    offsets, fixed coefficients or rows in blocks, and no prediction tables or residuals.

    With ``class_weight``, every result equals that of a fit with the products as ``sample_weight``,
    as in scikit-learn. The probabilities are those of a population with these shares of the
    classes, and standard errors that take weights as numbers of people are not valid: use
    ``kind="robust"`` or the bootstrap.

    Under a symmetric Laplace prior, the coefficients of a column can be shifted by a constant
    between their two middle values if the number of classes is even; all such points have the
    same probabilities and the same penalty.

    References
    ----------
    Agresti (2013), Categorical Data Analysis, §8.1. Friedman, Hastie and Tibshirani (2010),
    Journal of Statistical Software 33(1), §4 (symmetric parametrisation).

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    >>> y = ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> m = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> m.summary()["coef"].round(3).to_dict()
    {'b:intercept': -0.693, 'c:intercept': -0.693, 'b:x0': 1.386, 'c:x0': 0.693}
    >>> m.predict_proba([[0.0]]).round(3).tolist()
    [[0.5, 0.25, 0.25]]
    """

    _intercept = True

    classes_: np.ndarray
    intercept_: Any

    def __init__(
        self,
        *,
        reference: object = None,
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
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.reference = reference
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight

    def _check_settings(self) -> None:
        """Refuse invalid settings and priors that the model does not have."""
        super()._check_settings()
        if self.solver != "newton":
            raise DataError(
                f"MultinomialLogisticRegression has solver='newton', not {self.solver!r}."
            )
        prior = self.prior
        if isinstance(prior, LimitedPrior) and prior.limited:
            raise DataError("MultinomialLogisticRegression has no limits of coefficients.")
        if isinstance(prior, Prior) and not (prior.plain or isinstance(prior, BrokenAdaptiveRidge)):
            raise DataError(
                f"MultinomialLogisticRegression has no {type(prior).__name__} prior, because it "
                "couples coefficients, of which each column has several. Use Laplace, Normal, "
                "ElasticNet or BrokenAdaptiveRidge."
            )

    def _read_start_and_fixed(
        self,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
        design: Design,
    ) -> None:
        """Refuse initial and fixed coefficients, of which each column has several."""
        self._fixed = None
        if start_at is not None or fixed is not None:
            raise DataError(
                "start_at and fixed cannot be used in multinomial models, in which a column has "
                "several coefficients."
            )

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Read the classes and assemble the problem."""
        inputs.refuse_extras(self, "strata", "exposure")
        if inputs.offset is not None:
            raise DataError(
                "A multinomial model has no offset: one of a row would be the same for all classes "
                "and would cancel. Leave offset out."
            )
        n = design.n
        weights, _ = self._check_weights_and_offset(inputs.sample_weight, None, n)
        codes = self._classes(inputs.y, n)
        weights = self._weigh_classes(weights, codes)
        self._refuse_absent_classes(codes[weights > 0])
        self._has_intercept = self._wants_intercept()
        source, channel = self._columns(design.names)
        self._effects = source, channel
        names = [
            f"{self.classes_[c]}:{design.names[j]}" for j, c in zip(source, channel, strict=True)
        ]
        own = np.setdiff1d(np.arange(len(self.classes_)), [self._reference()])
        own = own if self._has_intercept else own[:0]
        self._effect_names, self._names_by_class = names, [
            *(f"{self.classes_[c]}:intercept" for c in own), *names
        ]  # fmt: skip
        if len(set(self._names_by_class)) < len(self._names_by_class):
            twice = next(x for x in self._names_by_class if self._names_by_class.count(x) > 1)
            raise DataError(
                f"Two coefficients would be called {twice!r}; rename a column or class."
            )
        counted = None if weights.all() else weights > 0
        X = design
        if self._has_intercept:
            X = design.centered(counted).with_intercept()
        elif counted is not None:
            X = design.scaled_by(counted)
        M = len(own)
        whole = ClassDesign(
            X,
            np.concatenate([np.zeros(M, np.int64), source + int(self._has_intercept)]),
            np.concatenate([own, channel]),
            len(self.classes_),
            self._names_by_class,
            self._has_intercept,
        )
        whole = whole.with_x_on(get_backend(self.device, self.n_jobs, self._work(design)))
        prior, columns = self._prior_of_coefficients(design.names, source, names)
        return Problem(
            design=whole,
            likelihood=MultinomialLikelihood(codes, len(self.classes_), host_backend(self.n_jobs)),
            weights=weights,
            offset=None,
            prior=prior,
            columns=columns,
            names=names,
            n_free=M,
            n_constant=M,
            fold_label=codes,
        )

    def _classes(self, y: VectorLike, n: int) -> np.ndarray:
        """Read the outcome; return the position of each row's class."""
        classes, codes = check_classes(y, n)
        if type_of_target(classes) in ("continuous", "continuous-multioutput"):
            raise DataError(
                "Unknown label type: continuous. y must have classes; for a continuous outcome "
                "use LinearRegression."
            )
        if len(classes) == 1:
            raise DataError(f"y has one class only, {classes.tolist()[0]!r}; two are needed.")
        self.classes_ = classes
        return np.asarray(codes, np.int64)

    def _refuse_absent_classes(self, codes: np.ndarray) -> None:
        """Refuse classes without rows with a positive weight."""
        absent = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if len(absent):
            raise DataError(
                f"The class {self.classes_.tolist()[absent[0]]!r} of y has no rows with a positive "
                "weight. Leave its rows out."
            )

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """See `_refuse_absent_classes`."""
        self._refuse_absent_classes(label)

    def _reference(self) -> int:
        """Return the position of the class to which unpenalised coefficients are relative."""
        if self.reference is None:
            return 0
        at = [k for k, label in enumerate(self.classes_.tolist()) if label == self.reference]
        if not at:
            raise DataError(
                f"reference must be one of the classes {self.classes_.tolist()}, not "
                f"{self.reference!r}."
            )
        return at[0]

    def _columns(self, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the column of X and the class of each coefficient, class by class."""
        p, K, reference = len(names), len(self.classes_), self._reference()
        symmetric = np.zeros(p, bool)
        if isinstance(self.prior, Prior) and self.reference is None:
            penalty = self.prior.candidates()[0].separable(names)
            symmetric = (np.asarray(penalty.l1) > 0) | (np.asarray(penalty.l2) > 0)
        here = np.ones((K, p), bool)
        here[reference] = symmetric
        channel, source = np.nonzero(here)
        return source, channel

    def _prior_of_coefficients(
        self, names: list[str], source: np.ndarray, effects: list[str]
    ) -> tuple[Prior | None, PriorColumns | None]:
        """Give each coefficient the prior of its column of X."""
        prior, _ = self._prior_of_columns()
        if not isinstance(prior, Prior):
            return prior, None
        places = ColumnLookup(names, "exclude")
        out = [places.of(item) for item in prior.exclusions(len(names))]
        exclude = [effects[k] for k in np.flatnonzero(np.isin(source, out))]
        return prior_of_copies(prior, source, names, exclude, effects)

    def _start(self, problem: Problem, begin: np.ndarray | None) -> np.ndarray:
        """Return initial coefficients, with the intercepts of the shares of the classes."""
        start, M = np.zeros(problem.design.p), problem.n_free
        if M:
            assert isinstance(problem.likelihood, MultinomialLikelihood)
            share = np.bincount(problem.likelihood.codes, problem.weights)
            log_odds = np.log(share) - np.log(share[self._reference()])
            assert isinstance(problem.design, ClassDesign)
            start[:M] = problem.design.scale[:M] * log_odds[problem.design.channel[:M]]
        return start

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        """Set the fitted attributes, with a row of coefficients for each class."""
        super()._store_fit(problem, prior, fit)
        flat = problem.design.uncentered_coefficients(self._beta)
        self._uncentered_beta, M, K = flat, problem.n_free, len(self.classes_)
        design = problem.design
        assert isinstance(design, ClassDesign)
        self.intercept_ = np.zeros(K)
        self.intercept_[design.channel[:M]] = flat[:M]
        self.coef_ = np.zeros((K, len(self._names)))
        source, channel = self._effects
        self.coef_[channel, source] = flat[M:]

    @property
    def _estimated(self) -> np.ndarray:
        """Estimated coefficients of columns of X, class by class."""
        flat: np.ndarray = self._uncentered_beta
        return flat[len(self._names_by_class) - len(self._effect_names) :]

    def _has_varying_effects(self) -> bool:
        """Return true, because a column of X has a coefficient for each class."""
        return True

    @property
    def coef_names_(self) -> list[str]:
        """Names of the columns of ``coef_``."""
        return list(self._names)

    def _coefficient_names(self) -> list[str]:
        """Return the names of all estimated coefficients, the intercepts first."""
        return self._names_by_class

    def _coefficients(self) -> np.ndarray:
        """Return all estimated coefficients, the intercepts first."""
        return self._uncentered_beta

    def term_tests(
        self,
        test: Test = "wald",
        kind: Kind = "model",
        cluster: LabelsLike | None = None,
    ) -> pd.DataFrame:
        """Test each variable in all classes together, as R's ``car::Anova`` of ``multinom`` fits.

        Parameters
        ----------
        test : {"wald", "score", "likelihood ratio"}
            As in `linear_hypothesis`.
        kind : {"model", "robust"}
            Covariance matrix of Wald tests; see `vcov`.
        cluster : (n,) labels, optional
            As in `vcov`.

        Returns
        -------
        DataFrame
            Indexed by ``term`` and ``part`` (``"all"``); columns ``chisq``, ``df`` and ``p``. A
            row for each variable of the formula, or each column without one, with all terms that
            contain it, and ``TOTAL``.

        Raises
        ------
        DataError
            As `linear_hypothesis`, for example for variables with a prior.

        Examples
        --------
        >>> import numpy as np, steropes
        >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
        >>> y = ["a", "a", "b", "c", "c", "b", "b", "a"]
        >>> model = steropes.MultinomialLogisticRegression().fit(X, y)
        >>> model.term_tests("likelihood ratio").loc["x0"].round(3).to_numpy().tolist()
        [[0.68, 2.0, 0.712]]
        """
        check_is_fitted(self, "coef_")
        source, first = self._effects[0], len(self._names_by_class) - len(self._effect_names)
        places: dict[str, list[np.ndarray]] = {}
        for _, variables, columns in columns_of_terms(self):
            for name in variables:
                places.setdefault(name, []).append(np.flatnonzero(np.isin(source, columns)))
        names = [*places, "TOTAL"]
        chosen = [*(np.unique(np.concatenate(x)) for x in places.values()), np.arange(len(source))]
        R = np.eye(len(self._names_by_class))[first:]
        rows = [self.linear_hypothesis(R[at], test=test, kind=kind, cluster=cluster)
                for at in chosen]  # fmt: skip
        index = pd.MultiIndex.from_tuples([(x, "all") for x in names], names=["term", "part"])
        return pd.DataFrame(rows, index)
