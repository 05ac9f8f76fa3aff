"""Base class of the estimators: input, choice of the prior, fit and fitted attributes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..backends import get_backend
from ..backends.blas_threads import single_threaded_blas
from ..backends.protocols import Backend
from ..data import check_offset, check_weights
from ..data.input_types import CoefficientsByColumn, LabelsLike, VectorLike
from ..design import Design, as_design, copy_shared_arrays, has_names
from ..design.memory_estimate import free_memory, least_memory, too_large
from ..design.protocols import DesignLike
from ..errors import DataError, NotConvergedWarning
from ..fit import Problem
from ..fit.shards import ShardedDesign, sharded_problem
from ..infer import refuse_separated, refuse_undetermined
from ..infer.weak_information import refuse_weak_information
from ..likelihoods import Likelihood
from ..priors import KeptColumns, Prior, PriorColumns
from ..select import CrossValidation, InformationCriterion
from ..solve import Batch, Fit
from ..solve.separation.extreme_offsets import extreme_offsets
from .confidence_intervals import ConfidenceIntervals
from .display import fit_html, fit_mimebundle, fit_text
from .fit_inputs import FitInputs
from .fixed_coefficients import FixedCoefficients, read_fixed, read_start_at
from .formula_mixin import FormulaMixin
from .linear_prediction import LinearPrediction
from .pickling import DATA_ATTRIBUTES, deep_copy_sharing_data, shallow_copy
from .progress import Progress
from .setting_types import Chooser, Device, MatrixLike, Seed, Solver
from .settings import check_settings
from .sklearn_base import BaseEstimator
from .solver_runs import fit_by_coordinate_descent, fit_by_newton

__all__ = ["PenalizedModel"]

BatchedOutcomes = Literal["never", "laplace", "always"]


class PenalizedModel(ConfidenceIntervals, LinearPrediction, FormulaMixin, BaseEstimator):
    """Base class of the estimators, with the arguments, attributes and methods that all have.

    A subclass reads y and returns its likelihood; users work with subclasses only.

    Parameters
    ----------
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
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
    coef_ : (p,) array
        Coefficients in the units of X's columns.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, with all its constants.
    prior_ : Prior or None
        Prior in use, with its variance.
    optimality_ : float
        The certificate: the largest violation of the optimality (KKT) conditions over all
        columns at ``coef_``, computed from X. The unit is the column's λ where it has a Laplace
        prior, otherwise the standard error of its score, √H_jj with the information H at
        ``coef_`` (dense columns centred): a number without a unit, about the distance to the
        optimum in the coefficient's standard errors. A linear model's score has the residual
        standard deviation in it: there the unit is √H_jj times √(Σ w (y − η)² / Σ w). Zero is
        an exact optimum.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps, or of sweeps with ``solver="ccd"``.
    trace_ : DataFrame
        Progress of the (final) fit, with a row for each step: ``objective``, ``violation`` (the
        largest KKT violation in the working set), ``working_set`` and ``nonzero`` (numbers of
        columns), ``hessians`` (computed so far) and ``penalty`` (the multiple of the prior's
        penalty under which the step was taken). The last row has the certificate over all columns.
    variance_ : float
        Variance of the prior that ``cv`` has chosen, one of those in ``cv_results_``; only with
        ``cv``.
    cv_results_ : DataFrame
        Scores of the variances; only with ``cv``. With a cross-validation: ``variance``, ``mean``
        (average over folds of the held-out log-likelihood), ``se``, ``nonzero``, ``slope``
        (derivative of the mean in log variance, if the search computed it) and one column for each
        fold. With an `InformationCriterion`: ``variance``, ``criterion``, ``log_likelihood``,
        ``df``, ``nonzero``.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : (p,) array of str
        Names of the columns; only if X had names.

    See Also
    --------
    LogisticRegression : Model of an outcome with two classes.
    CoxRegression : Model of the time to an event.

    Notes
    -----
    The page on extending steropes shows how to write a subclass with another likelihood.

    References
    ----------
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10 (models and priors).

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0.0, 2.0, 3.0, 5.0]
    >>> model = steropes.LinearRegression(prior=steropes.Normal(variance=4.0)).fit(X, y)
    >>> isinstance(model, steropes.PenalizedModel), model.converged_
    (True, True)
    >>> model.trace_.columns.tolist()
    ['objective', 'violation', 'working_set', 'nonzero', 'hessians', 'penalty']
    """

    # Whether the family can have an intercept, and whether the fit has one.
    _intercept = False
    _has_intercept: bool
    # Whether an offset is added to a logarithm, and the largest allowed difference of two offsets.
    _offset_on_log_scale = True
    _max_offset_range = np.inf
    # When `fit_many` may fit several outcomes as one batch: with "laplace" under such a prior,
    # where replicates share a Hessian; with "always" also without a prior, where curvature does
    # not depend on y. Subclasses do not inherit the value.
    _batched_outcomes: ClassVar[BatchedOutcomes] = "never"
    # Attributes that hold data, which pickles omit and deep copies share.
    _data: ClassVar[frozenset[str]] = DATA_ATTRIBUTES
    # Names of the attributes that the fit has set.
    _fitted: frozenset[str]
    # Names of the columns with estimated coefficients.
    _names: list[str]
    # Index of the rows of the fit, if X or y had one.
    _row_labels: pd.Index | None = None
    # Coefficients that the user has fixed.
    _fixed: FixedCoefficients | None
    # Coefficients in the solver's parametrisation.
    _beta: np.ndarray
    # Inverse information, computed at the first request.
    _information: Any
    _problem: Problem
    log_likelihood_: float
    optimality_: float
    converged_: bool
    n_iter_: int
    trace_: pd.DataFrame
    n_features_in_: int
    feature_names_in_: np.ndarray
    cv_results_: pd.DataFrame
    variance_: float

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        self.prior = prior
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # -- to be defined by each family --------------------------------------------------------

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        """Read the outcome and construct the likelihood.

        Implementations also store attributes of the outcome that predictions need, such as
        classes or labels of strata. A family in which the rows of η are not the rows of X
        overrides `_make_problem` instead.

        Returns
        -------
        likelihood : Likelihood
        extras : dict
            Further arguments of `Problem`, such as ``fold_label``. An ``offset`` is added to the
            user's offset.
        """
        raise NotImplementedError(type(self).__name__)

    # -- fit -----------------------------------------------------------------------------------

    def fit(
        self,
        X: MatrixLike,
        y: VectorLike,
        *,
        sample_weight: VectorLike | None = None,
        offset: VectorLike | None = None,
        exposure: VectorLike | None = None,
        strata: LabelsLike | None = None,
        start_at: ArrayLike | CoefficientsByColumn | None = None,
        fixed: CoefficientsByColumn | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
            Covariates. Inputs are never modified.
        y : (n,) array
            Outcome; see the class.
        sample_weight : (n,) array, optional
            Nonnegative row weights; a weight of 2 equals the row given twice. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        exposure : (n,) array, optional
            Positive time at risk, for Poisson models and case series; its logarithm is added to
            the offset.
        strata : (n,) labels, optional
            Hashable labels in any order, for conditional, Cox and Fine–Gray models.
        start_at : (p,) array, or mapping or series from names or positions to numbers, optional
            Initial coefficients; columns that a mapping omits start at zero. With a convex loss
            they affect the duration of the fit and not its result.
        fixed : mapping or series from names or positions to numbers, optional
            Coefficients that are held at given values, for example zero or the estimates of an
            earlier study. They are part of ``coef_`` and of all predictions, have no line in
            ``summary()`` and are not penalised. Positions count all columns of X, here and in
            every other argument.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        DataError
            If the input cannot be used; the message names the column or row.
        SeparationError
            If the data do not determine the coefficients of some unpenalised columns, which the
            message names.

        See Also
        --------
        PenalizedModel.from_formula : Fit the model that a formula describes.
        fit_many : Fit the same model to many outcomes.

        Examples
        --------
        >>> import steropes
        >>> X, y = [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], [1.0, 0.0, 3.0, 4.0]
        >>> steropes.LinearRegression().fit(X, y).coef_.round(6).tolist()
        [3.0, 1.0]
        >>> steropes.LinearRegression().fit(X, y, fixed={1: 2.0}).coef_.round(6).tolist()
        [3.0, 2.0]
        """
        draft = self._unfitted_copy()
        unfitted = set(draft.__dict__)
        inputs = FitInputs(y, sample_weight, offset, exposure, strata)
        draft._fit(X, inputs, start_at, fixed)
        draft._fitted = frozenset(draft.__dict__) - unfitted
        self.__dict__ = draft.__dict__  # a single step, which an interrupt cannot split
        if not self.converged_:
            self._warn_not_converged()
        return self

    def _unfitted_copy(self) -> Self:
        """Copy the settings into an estimator without a fit.

        `fit` works on this copy and publishes it at the end, so that an error or an interrupt
        leaves the previous fit intact.
        """
        draft = type(self).__new__(type(self))
        gone = {"_fitted", *self.__dict__.get("_fitted", ())}
        draft.__dict__ = {k: v for k, v in self.__dict__.items() if k not in gone}
        return draft

    def _fit(
        self,
        X: MatrixLike,
        inputs: FitInputs,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
    ) -> None:
        """Read all input, choose the prior's variance, fit, and release what refers to X."""
        self._check_settings()
        inputs.refuse_other_order(X)
        design = self._read_design(X, inputs.y)
        begin = self._read_start_and_fixed(start_at, fixed, design)
        if self._fixed is not None:
            if isinstance(design, ShardedDesign):
                raise DataError("fixed has no rows in blocks; give X as one table or matrix.")
            own = check_offset(
                inputs.offset, design.n, self._offset_on_log_scale
            )  # the sum is seen later
            part = self._fixed.part(design, get_backend("cpu", self.n_jobs))
            inputs = replace(inputs, offset=part if own is None else own + part)
            design = design.only(self._fixed.kept)
            self._names = design.names
        problem = self._make_problem(design, inputs)
        del design, inputs  # which may be replaced
        if isinstance(problem.design, Design):
            self._refuse_too_large(problem)
        else:
            problem = sharded_problem(problem)
        with single_threaded_blas(), Progress(self.verbose) as progress:
            prior, start = self._select(problem, progress)
            start = self._start(problem, begin) if start is None else start
            self._fit_problem(problem, prior, start, progress)
            self._refuse_weak_information(problem)
        if self._fixed is not None:
            self.coef_ = self._fixed.whole(self.coef_)
        del problem, start  # and with them all that the fit has made of X
        self._copy_shared_arrays(X)

    def _copy_shared_arrays(self, X: MatrixLike) -> None:
        """Replace arrays that belong to X by copies, because the user may change X."""
        self._problem = replace(self._problem, design=copy_shared_arrays(self._problem.design, X))

    def _read_start_and_fixed(
        self,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
        design: Design,
    ) -> np.ndarray | None:
        """Read ``start_at`` and ``fixed``; return the initial values of estimated coefficients."""
        self._fixed = read_fixed(fixed, design.names)
        begin = read_start_at(start_at, design.names)
        if self._has_varying_effects() and not (self._fixed is None and begin is None):
            raise DataError(
                "start_at and fixed are not there for effects that change with time, which have "
                "several coefficients a column. Where a constant effect b of a column x is known, "
                "leave x out of X and give offset=b * x; a start changes no optimum."
            )
        if begin is not None and self.cv is not None:
            raise DataError("With cv a fit starts where its path ends; leave start_at out.")
        if begin is not None and self.solver == "ccd":
            raise DataError("solver='ccd' starts from zero; leave start_at out.")
        if begin is not None and self._fixed is not None:
            begin = begin[self._fixed.kept]
        return begin

    def _has_varying_effects(self) -> bool:
        """Return whether a column of X can have several coefficients."""
        return False

    def _refuse_weak_information(self, problem: Problem) -> None:
        """Refuse unpenalised columns with almost no information."""
        l1, l2 = problem.penalties(self.prior_)
        refuse_weak_information(problem, self._beta, np.flatnonzero((l1 == 0) & (l2 == 0)))

    def _refuse_undetermined(
        self, problem: Problem, batch: Batch, l1: np.ndarray, l2: np.ndarray
    ) -> None:
        """Refuse unpenalised columns that the data do not determine."""
        refuse_undetermined(problem, batch, l1, l2)

    def _check_settings(self) -> None:
        """Refuse invalid settings."""
        check_settings(self)

    def _prior_of_columns(self) -> tuple[Prior | None, PriorColumns | None]:
        """Return the prior of the estimated columns, or the prior with an adapter to them.

        The prior is copied because ``set_params`` may change the user's object after the fit.
        """
        prior, fixed = copy.deepcopy(self.prior), self._fixed
        if fixed is None or not isinstance(prior, Prior):
            return prior, None
        fewer = prior.of_columns(fixed.kept, fixed.names)
        if fewer is not None:
            return fewer, None
        return prior, KeptColumns(fixed.names, fixed.kept, fixed.values)

    def _read_design(self, X: MatrixLike, y: VectorLike) -> Any:
        """Convert X to a design and store the names of its columns and the labels of rows."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if isinstance(X, ShardedDesign):
            self._check_sharded()
        design = X if isinstance(X, ShardedDesign) else as_design(X, copy=False)
        self.n_features_in_ = design.p
        self._names = design.names
        indexed = (x for x in (X, y) if isinstance(x, pd.DataFrame | pd.Series))
        first = next(indexed, None)
        self._row_labels = None if first is None else first.index.copy()
        if isinstance(X, ShardedDesign) or has_names(X):
            self.feature_names_in_ = np.array(design.names, dtype=object)
        return design

    def _check_sharded(self) -> None:
        """Refuse settings that a `ShardedDesign` does not support."""
        name = type(self).__name__
        if self.solver == "ccd":
            raise DataError(f"{name}(solver='ccd') works on columns; use solver='newton'.")
        if self.device != "cpu":
            raise DataError(f"{name}(device={self.device!r}) has no blocks of rows; use 'cpu'.")

    def _refuse_too_large(self, problem: Problem) -> None:
        """Refuse a fit that exceeds the free memory before it starts.

        The working set under a prior that sets coefficients to zero is unknown in advance, so
        that only vectors over rows are counted then.
        """
        design, free = problem.design, free_memory()
        assert isinstance(design, Design)
        if problem.prior is None:
            sparse = False
        else:
            first = problem.prior.candidates()[0] if self.cv is not None else problem.prior
            sparse = bool(problem.separable(first)[0].any())
        needed = least_memory(design, sparse)
        if needed > free:
            raise DataError(too_large(needed, free, design.n))

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Validate the inputs and assemble the problem for the solver.

        Parameters
        ----------
        design : Design
            Columns with estimated coefficients.
        inputs : FitInputs
        like : Problem, optional
            A problem of the same model and X with another outcome, to share columns with.
        """
        weights, offset = self._check_weights_and_offset(
            inputs.sample_weight, inputs.offset, design.n
        )
        backend = get_backend(self.device, self.n_jobs)
        likelihood, extras = self._likelihood(inputs, design, backend)
        if extras.get("fold_label") is not None and not weights.all():
            self._refuse_without_events(extras["fold_label"][weights > 0])
        log_exposure = extras.pop("offset", None)
        if log_exposure is not None:
            offset = log_exposure if offset is None else offset + log_exposure
        names, (prior, columns) = design.names, self._prior_of_columns()
        self._has_intercept = intercept = (
            self._wants_intercept() if like is None else bool(like.n_free)
        )
        return Problem(
            design=_center_and_add_intercept(design, likelihood, weights, intercept)
            if like is None
            else like.design,
            likelihood=likelihood,
            weights=weights,
            offset=offset,
            prior=prior,
            columns=columns,
            names=names,
            n_free=int(intercept),
            **extras,
        )

    def _check_weights_and_offset(
        self, sample_weight: VectorLike | None, offset: VectorLike | None, n: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Validate and copy weights and offset, which standard errors need later."""
        weights = check_weights(sample_weight, n)
        return weights, check_offset(
            offset, n, self._offset_on_log_scale, self._max_offset_range, weights
        )

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """Refuse an outcome without events in the rows with a positive weight."""
        if not label.any():
            raise DataError("y has no events among the rows with a positive weight.")

    def _wants_intercept(self) -> bool:
        """Return whether the settings ask for an intercept."""
        return self._intercept and bool(getattr(self, "fit_intercept", True))

    def _select(self, problem: Problem, progress: Progress) -> tuple[Prior | None, Any]:
        """Choose the prior's variance.

        Returns
        -------
        prior : Prior or None
            The prior in use.
        start : None, (p,) array or Batch
            Initial coefficients, or a batch whose last fit is close to the final one.
        """
        if self.cv is None:
            return problem.prior, None
        chooser = self._chooser()
        if problem.prior is not None:
            first = replace(problem, prior=problem.prior.candidates()[0])
            self._refuse_undetermined(first, first.batch(), *first.penalties(first.prior))
        if isinstance(chooser, InformationCriterion):
            selection = chooser.run(problem, self._criterion_terms, progress.report)
        else:
            selection = chooser.run(problem, progress.report)
        self.cv_results_ = selection.results
        self.variance_ = selection.variance
        return selection.prior, selection.beta if selection.batch is None else selection.batch

    def _chooser(self) -> Chooser:
        """Return the object that chooses the variance.

        An integer becomes a cross-validation with a fixed seed, as in scikit-learn, so that equal
        calls give equal results. A `CrossValidation` without a seed uses the model's
        ``random_state``; if that is None too, it draws new folds.
        """
        assert self.cv is not None
        if isinstance(self.cv, InformationCriterion):
            return self.cv
        if not isinstance(self.cv, CrossValidation):
            return CrossValidation(
                self.cv, random_state=0 if self.random_state is None else self.random_state
            )
        cv = self.cv
        if cv.random_state is None and self.random_state is not None:
            cv = copy.copy(cv)
            object.__setattr__(cv, "random_state", self.random_state)
        return cv

    def _start(self, problem: Problem, begin: np.ndarray | None) -> np.ndarray | None:
        """Return the initial coefficients of the scaled columns, or None for zero."""
        if begin is None:
            return None
        start = np.zeros(problem.design.p)
        start[problem.n_free :] = problem.design.scale[problem.n_free :] * begin
        return start

    def _fit_problem(
        self, problem: Problem, prior: Prior | None, start: Any, progress: Progress
    ) -> None:
        """Fit under the prior in use, check for separation and store the fit."""
        problem = replace(problem, prior=prior)
        if self.solver == "ccd":
            fit, trace = fit_by_coordinate_descent(problem, self.tol, self.max_iter)
        else:
            fit, problem, trace = fit_by_newton(
                problem, start, self.tol, self.max_iter, progress.step
            )
        del start  # with its copy of the active columns
        if prior is None or not prior.bounds_all:
            refuse_separated(problem, fit.beta, *problem.penalties(prior), fit.eta)
        self._store_fit(problem, prior, fit)
        self.trace_ = trace.table()

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        """Set the fitted attributes."""
        self._problem = problem
        self._information = None
        self._beta = fit.beta
        self.prior_ = prior
        beta = problem.design.uncentered_coefficients(fit.beta)
        if problem.n_free:
            self.intercept_, self.coef_ = float(beta[0]), beta[1:].copy()
        else:
            self.coef_ = beta
            if self._intercept:
                self.intercept_ = 0.0
        self.optimality_ = fit.optimality
        self.converged_ = fit.converged
        self.n_iter_ = fit.n_iter
        self._set_likelihood(fit.loss, problem)

    def _warn_not_converged(self) -> None:
        """Warn that the certificate is above ``tol``, with the likely causes."""
        apart = extreme_offsets(self._problem)
        warnings.warn(
            f"{type(self).__name__} stopped after {self.n_iter_} steps with a KKT violation of "
            f"{self.optimality_:.2g}, above tol={self.tol:g}. Raise max_iter or tol, or look for "
            "nearly collinear columns."
            + (f" The offsets are far apart ({apart}): check their unit." if apart else ""),
            NotConvergedWarning,
            stacklevel=3,
        )

    def _set_likelihood(self, loss: float, problem: Problem) -> None:
        """Set ``log_likelihood_`` from the loss and the constants that it omits."""
        likelihood = problem.likelihood
        w = likelihood.backend.asarray(problem.weights[:, None])
        constant = likelihood.log_likelihood_constant(w)
        self.log_likelihood_ = -loss + float(np.sum(likelihood.backend.to_host(constant)))

    def _effective_sample_size(self, problem: Problem) -> float:
        """Return the number of observations for information criteria."""
        return float(problem.weights.sum())

    def _require_data(self, what: str) -> Problem:
        """Return the problem of the fit; refuse if unpickling has lost the data."""
        check_is_fitted(self, "coef_")
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise DataError(
                f"The fit was unpickled without its data, which {what} needs; fit again."
            )
        return problem

    # -- display, copies and pickles -----------------------------------------------------------

    def __str__(self) -> str:
        """Format the settings, and after a fit also its results."""
        return fit_text(self) if hasattr(self, "coef_") else repr(self)

    def _html_repr(self) -> str:
        """Format the model as HTML."""
        return fit_html(self)

    def _repr_html_inner(self) -> str:
        """Format the model as HTML; called by scikit-learn within pipelines."""
        return fit_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the representations for notebooks."""
        return fit_mimebundle(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the data of the fit."""
        state: dict[str, Any] = super().__getstate__()
        if hasattr(self, "coef_"):
            state = {**state, "_shrinks": self._has_sparse_prior()}  # which needs the data
        return {name: value for name, value in state.items() if name not in self._data}

    def __copy__(self) -> Self:
        return shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return deep_copy_sharing_data(self, self._data, memo)

    def __dir__(self) -> Iterable[str]:
        """List all attributes without computing them, unlike scikit-learn's method."""
        return object.__dir__(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _center_and_add_intercept(
    design: Any, likelihood: Likelihood, weights: np.ndarray, intercept: bool
) -> DesignLike:
    """Centre the columns if that leaves the model unchanged, and add an intercept."""
    counted = None if weights.all() else weights > 0
    if intercept or likelihood.shift_invariant:
        design = design.centered(counted)
    elif counted is not None:
        design = design.scaled_by(counted)
    return design.with_intercept() if intercept else design
