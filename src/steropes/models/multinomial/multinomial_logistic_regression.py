"""Multinomial logistic regression, for outcomes with several classes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import type_of_target

from ...data import check_classes
from ...data.column_lookup import ColumnLookup
from ...data.input_types import CoefficientsByColumn, VectorLike
from ...design_matrix import Design
from ...design_matrix.multinomial_design import ClassDesign
from ...errors import DataError, listed
from ...fit import Problem
from ...likelihoods.multinomial_likelihood import MultinomialLikelihood
from ...priors import BrokenAdaptiveRidge, LimitedPrior, Prior, PriorColumns
from ...solve import Fit
from ..estimators.logistic_regression import LogisticRegression
from ..families.multinomial_family import MULTINOMIAL
from ..fitting.accessor_base_class import accessor
from ..fitting.class_weights import weigh_classes
from ..fitting.multinomial_inputs import read_class_offset, read_class_start, read_fixed_of_classes
from ..fitting.row_arguments import FitInputs
from ..fitting.setting_types import Chooser, ClassWeight, Device, Seed, Solver
from ..fitting.time_varying_effects import prior_of_copies
from .multinomial_accessors import MultinomialChecks, MultinomialEffects, MultinomialInference
from .multinomial_predictions import MultinomialPredictions

__all__ = ["MultinomialLogisticRegression"]


class MultinomialLogisticRegression(MultinomialPredictions):
    """Logistic regression of an outcome with several classes, with a prior on the coefficients.

    Maximises Σ w [η_y − log Σ_c exp η_c] − penalty, where each class c has a linear predictor
    η_c = intercept_c + X β_c + offset_c. Probabilities depend on differences between classes
    only, so that coefficients without a penalty are relative to a reference class, which has
    coefficients of zero. Penalised coefficients are those of all classes (the symmetric
    parametrisation of glmnet and scikit-learn), unless ``reference`` is given.

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
    formula : str, optional
        Outcome and covariates, such as ``"y ~ drug + age"``, with which ``fit`` takes a table of
        data in place of X and y; see `from_formula`.
    trusted : bool
        Whether to evaluate any Python in the formula, default no; see `from_formula`.

    Attributes
    ----------
    classes_ : (K,) array
        Labels of y in the order of their categories, ordered or not, and otherwise sorted.
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
    Names of coefficients in tables are ``class:column`` and ``class:intercept``, also in ``fixed``
    and in mappings ``start_at``; an array ``start_at`` has the form of ``coef_``. An ``offset`` has
    the shape (n, K), with a column for each class in the order of ``classes_``, or is a table
    with columns named by the classes; a number that is the same for all classes of a row cancels.
    Limits of a prior apply to the coefficients of all classes. There are no rows in blocks.

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
    inference = accessor(MultinomialInference)
    effects = accessor(MultinomialEffects)
    checks = accessor(MultinomialChecks)

    _family = MULTINOMIAL

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
        formula: str | None = None,
        trusted: bool = False,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose, formula=formula,
            trusted=trusted,
        )  # fmt: skip
        self.reference = reference
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight

    def _weigh_classes(self, weights: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Multiply row weights by those of the rows' classes; store ``class_weight_``."""
        assert codes is not None
        self.class_weight_, weights = weigh_classes(
            self.class_weight, self.classes_.tolist(), codes, weights
        )
        return weights

    def _check_settings(self) -> None:
        """Refuse invalid settings and priors that the model does not have."""
        super()._check_settings()
        if self.solver != "newton":
            raise DataError(
                f"MultinomialLogisticRegression has solver='newton', not {self.solver!r}."
            )
        prior = self.prior
        if isinstance(prior, LimitedPrior) and prior.limited:
            unlimited: dict[str, Any] = {"lower": -np.inf, "upper": np.inf}
            prior = replace(prior, **unlimited)
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
        """Keep the arguments until `_make_problem` knows the classes."""
        self._fixed = None
        self._requested = start_at, fixed
        if start_at is not None and self.cv is not None:
            raise DataError("With cv a fit starts where its path ends; leave start_at out.")

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Read the classes and assemble the problem."""
        inputs.refuse_extras(self, "strata", "exposure")
        n = design.n
        weights, _ = self._check_weights_and_offset(inputs.sample_weight, None, n)
        codes = self._classes(inputs.y, n)
        weights = self._weigh_classes(weights, codes)
        self._refuse_absent_classes(codes[weights > 0])
        self._has_intercept = self._wants_intercept()
        offset = read_class_offset(inputs.offset, self.classes_.tolist(), n)
        source, channel, names = self._read_effects(design)
        if self._fixed is not None:
            part = self._linear_part(design, self._fixed_coefficients(design.p))
            offset = part if offset is None else offset + part
        own = np.setdiff1d(np.arange(len(self.classes_)), [self._reference()])
        own = own if self._has_intercept else own[:0]
        self._effect_names, self._names_by_class = names, [
            *(f"{self.classes_[c]}:intercept" for c in own), *names
        ]  # fmt: skip
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
        prior, columns = self._prior_of_coefficients(design.names, source, names)
        return Problem(
            design=whole,
            likelihood=MultinomialLikelihood(codes, len(self.classes_), self._backend(design)),
            weights=weights,
            offset=None if offset is None else (offset - offset[:, :1]).T.ravel(),
            prior=prior,
            columns=columns,
            names=names,
            n_free=M,
            n_constant=M,
            fold_label=codes,
        )

    def _read_effects(self, design: Design) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Read which coefficients are estimated, and at which values others are held.

        Returns
        -------
        source, channel : (q,) int arrays
            Column of X and class of each estimated coefficient.
        names : list of str
            Their names.
        """
        source, channel = self._columns(design.names)
        names = [
            f"{self.classes_[c]}:{design.names[j]}" for j, c in zip(source, channel, strict=True)
        ]
        taken = [*(f"{label}:intercept" for label in self.classes_ if self._has_intercept), *names]
        if len(set(taken)) < len(taken):
            twice = next(x for x in taken if taken.count(x) > 1)
            raise DataError(
                f"Two coefficients would be called {twice!r}; rename a column or class."
            )
        start_at, fixed = self.__dict__.pop("_requested", (None, None))
        reference, shape = self._reference(), (len(self.classes_), design.p)
        label = self.classes_.tolist()[reference]
        self._fixed = read_fixed_of_classes(fixed, names, label)
        self._begin = read_class_start(start_at, names, source, channel, shape, reference, label)
        self._all_effects = source, channel
        if self._fixed is not None:
            kept = self._fixed.kept
            source, channel, names = source[kept], channel[kept], [names[k] for k in kept]
            self._begin = None if self._begin is None else self._begin[kept]
        self._effects = source, channel
        return source, channel, names

    def _fixed_coefficients(self, p: int) -> np.ndarray:
        """Return the fixed coefficients of all classes, zero for the others, (K, p)."""
        out = np.zeros((len(self.classes_), p))
        if self._fixed is not None:
            source, channel = self._all_effects
            out[channel, source] = self._fixed.values
        return out

    def _complete_coefficients(self) -> None:
        """Do nothing, because `_store_fit` inserts the fixed coefficients."""

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
        self._reference_class = self._read_reference()
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

    def _read_reference(self) -> int:
        """Return the position of the class in the setting ``reference``, by default the first."""
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

    def _binary_model(self) -> LogisticRegression:
        """Return the model of one class against all others, for calibration curves."""
        return LogisticRegression(n_jobs=self.n_jobs)

    def _code_of_value(self, value: object) -> float:
        """Return the position of the class of which a calibration curve is computed."""
        classes = self.classes_.tolist()
        if value not in classes:
            raise DataError(f"value must be one of the classes {listed(classes)}, not {value!r}.")
        return float(classes.index(value))

    def _prior_of_coefficients(
        self, names: list[str], source: np.ndarray, effects: list[str]
    ) -> tuple[Prior | None, PriorColumns | None]:
        """Give each coefficient the prior of its column of X."""
        prior = copy.deepcopy(self.prior)  # the user may change it after the fit
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
            level = log_odds[problem.design.channel[:M]] + problem.class_starts
            start[:M] = problem.design.scale[:M] * level
        begin = self.__dict__.pop("_begin", None)
        if begin is not None:
            start[M:] = problem.design.scale[M:] * begin
        return start

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        """Set the fitted attributes, with a row of coefficients for each class."""
        super()._store_fit(problem, prior, fit)
        flat = problem.design.uncentered_coefficients(self._beta)
        self._uncentered_beta, M, K = flat, problem.n_free, len(self.classes_)
        design = problem.design
        assert isinstance(design, ClassDesign)
        self._parameters = design.source - int(self._has_intercept), design.channel
        self.intercept_ = np.zeros(K)
        self.intercept_[design.channel[:M]] = flat[:M]
        self.coef_ = self._fixed_coefficients(len(self._names))
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
    def _all_names(self) -> list[str]:
        """Names of all columns of X, which fixed coefficients of single classes leave in."""
        return self._names

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
