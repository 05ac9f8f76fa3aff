"""What all estimators share: input, the choice of the prior, the fit, and its attributes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..backends import get_backend
from ..backends.blas import single_threaded_blas
from ..backends.face import Backend
from ..data import check_offset, check_weights
from ..design import Design, as_design, has_names, owned
from ..design.estimate import free_memory, least_memory, too_large
from ..design.face import DesignLike
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
from .display import FitDisplay
from .fit_inputs import FitInputs
from .fixed_coefficients import FixedCoefficients, read_fixed, read_start_at
from .formula_mixin import FormulaMixin
from .linear_prediction import LinearPrediction
from .pickling import PicklingWithoutData
from .progress import Progress
from .setting_types import Chooser, Device, Seed, Solver
from .settings import check_settings
from .sklearn_base import BaseEstimator
from .solver_runs import fit_by_coordinate_descent, fit_by_newton
from .together import Together

__all__ = ["PenalizedModel"]


class PenalizedModel(
    ConfidenceIntervals,
    LinearPrediction,
    FormulaMixin,
    Together,
    FitDisplay,
    PicklingWithoutData,
    BaseEstimator,
):
    """Base of the estimators: subclasses say how to read y and which likelihood they have.

    Attributes
    ----------
    coef_ : (p,) array
        Coefficients in the units of X's columns.
    log_likelihood_ : float
        Log-likelihood at the coefficients, without the prior, with all its constants.
    prior_ : Prior or None
        The prior in use, with its variance.
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
        Newton steps (sweeps for ``solver="ccd"``).
    trace_ : DataFrame
        How the fit went, a row a step: ``objective``, ``violation`` (the largest KKT violation
        in the working set), ``working_set``, ``nonzero``, ``hessians`` (computed so far) and
        ``penalty`` (how many times stronger than the prior's, on the way to it). The last row is
        where it ended, with the certificate over all columns. With ``cv`` the final fit's alone.
    n_features_in_, feature_names_in_
        As in scikit-learn; the names only where X had some.
    cv_results_ : DataFrame
        With ``cv``: ``variance``, ``mean`` (average over folds of the held-out log-likelihood),
        ``se``, ``nonzero``, ``slope`` (of the mean in log variance, where the search asked for
        it) and one column a fold; of an `InformationCriterion` ``variance``,
        ``criterion``, ``log_likelihood``, ``df``, ``nonzero``.
    variance_ : float
        With ``cv``: the variance chosen, one of those in ``cv_results_``.
    """

    _intercept = False  # whether the family can have one
    _has_intercept: bool  # whether the fit has one
    _offset_on_log_scale = True  # whether an offset is added to a logarithm
    _max_offset_range = np.inf  # largest difference between two offsets
    _fitted: frozenset[str]  # names of what a fit has set
    _names: list[str]  # of the columns whose coefficients are estimated
    _row_labels: pd.Index | None = None  # of the rows that were fitted to
    _fixed: FixedCoefficients | None  # those that are given
    _beta: np.ndarray  # as the solver has them
    _information: Any  # made when it is first asked for
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

    # -- what a family supplies --------------------------------------------------------------

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        """Read the outcome; return the likelihood and extras of the `Problem` (fold labels…).

        What the fitted model says of it later (classes, labels of strata) is noted. An ``offset``
        among the extras is added to the user's. A family whose rows of η are not those of X
        overrides `_make_problem` instead and has no need of this.
        """
        raise NotImplementedError(type(self).__name__)

    # -- fit -----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        strata: Any = None,
        start_at: Any = None,
        fixed: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or array, data frame, Design or ShardedDesign, (n, p)
            Covariates. Nothing passed in is modified.
        y : (n,) array
            Outcome; see the class.
        sample_weight : (n,) array, optional
            Row weights, at least zero; a weight of 2 is a row that is there twice.
        offset : (n,) array, optional
            Added to the linear predictor.
        exposure : (n,) array, optional
            Time at risk, > 0, where the family has one; its log is added to the offset.
        strata : (n,) labels, optional
            Any hashable labels, in any order, where the family has strata.
        start_at : (p,) array, or mapping or series of names or positions to numbers, optional
            Coefficients to start from, zero where a mapping names none. They change how long the
            fit takes and, of a loss that is convex, not where it ends.
        fixed : mapping or series of names or positions to numbers, optional
            Coefficients that are given and not estimated, as an offset is: those of an earlier
            study, or zero. They are in ``coef_`` and in all predictions, have no line in
            ``summary()`` and no penalty of their own. Positions still count all columns of X, here
            and in every other argument.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Input that cannot be used; the message names the column or row.
        SeparationError
            Coefficients without penalty that the data do not determine, by name.
        """
        draft = self._unfitted_copy()
        unfitted = set(draft.__dict__)
        inputs = FitInputs(y, sample_weight, offset, exposure, strata)
        draft._fit(X, inputs, start_at, fixed)
        draft._fitted = frozenset(draft.__dict__) - unfitted
        self.__dict__ = draft.__dict__  # one step, which nothing can interrupt half-way
        if not self.converged_:
            self._warn_not_converged()
        return self

    def _unfitted_copy(self) -> Self:
        """An estimator with the same settings that has no fit.

        A fit is made in one and then published whole: what is refused or interrupted leaves the
        last fit as it was.
        """
        draft = type(self).__new__(type(self))
        gone = {"_fitted", *self.__dict__.get("_fitted", ())}
        draft.__dict__ = {k: v for k, v in self.__dict__.items() if k not in gone}
        return draft

    def _fit(self, X: Any, inputs: FitInputs, start_at: Any, fixed: Any) -> None:
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

    def _copy_shared_arrays(self, X: Any) -> None:
        """Keep no array of X's: the user may change it."""
        self._problem = replace(self._problem, design=owned(self._problem.design, X))

    def _read_start_and_fixed(self, start_at: Any, fixed: Any, design: Design) -> np.ndarray | None:
        """Read what the user says of coefficients; return where those that are estimated begin."""
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
        """Whether a column of X has more than one coefficient."""
        return False

    def _refuse_weak_information(self, problem: Problem) -> None:
        l1, l2 = problem.penalties(self.prior_)
        refuse_weak_information(problem, self._beta, np.flatnonzero((l1 == 0) & (l2 == 0)))

    def _refuse_undetermined(
        self, problem: Problem, batch: Batch, l1: np.ndarray, l2: np.ndarray
    ) -> None:
        refuse_undetermined(problem, batch, l1, l2)

    def _check_settings(self) -> None:
        check_settings(self)

    def _prior_of_columns(self) -> tuple[Prior | None, PriorColumns | None]:
        """The prior as it is now, and how it is asked about the columns that are estimated.

        A copy: ``set_params`` may change the user's after the fit.
        """
        prior, fixed = copy.deepcopy(self.prior), self._fixed
        if fixed is None or not isinstance(prior, Prior):
            return prior, None
        fewer = prior.of_columns(fixed.kept, fixed.names)
        if fewer is not None:
            return fewer, None
        return prior, KeptColumns(fixed.names, fixed.kept, fixed.values)

    def _read_design(self, X: Any, y: Any) -> Any:
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
        """Refuse settings that have no meaning where rows are in blocks."""
        name = type(self).__name__
        if self.solver == "ccd":
            raise DataError(f"{name}(solver='ccd') works on columns; use solver='newton'.")
        if self.device != "cpu":
            raise DataError(f"{name}(device={self.device!r}) has no blocks of rows; use 'cpu'.")

    def _refuse_too_large(self, problem: Problem) -> None:
        """Refuse a fit that memory cannot hold, before it starts.

        What a prior that sets coefficients to zero leaves in the working set is not known: of
        that no more is counted than the vectors of the rows.
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
        """Read all that is given.

        Parameters
        ----------
        like : Problem, optional
            Of the same model and X with another outcome, whose columns and intercept these are.
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
        self, sample_weight: Any, offset: Any, n: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Weights and offset as copies: standard errors are computed from them later."""
        weights = check_weights(sample_weight, n)
        return weights, check_offset(
            offset, n, self._offset_on_log_scale, self._max_offset_range, weights
        )

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """Refuse an outcome without events among the rows that have a positive weight."""
        if not label.any():
            raise DataError("y has no events among the rows with a positive weight.")

    def _wants_intercept(self) -> bool:
        return self._intercept and bool(getattr(self, "fit_intercept", True))

    def _select(self, problem: Problem, progress: Progress) -> tuple[Prior | None, Any]:
        """Choose the prior's variance; return the prior in use and where to start.

        The start is None, coefficients (p,), or a `Batch` whose last fit is nearly the one wanted.
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

        A number of folds is a cross-validation with a fixed seed, as in scikit-learn: the same
        call gives the same answer. A `CrossValidation` without a seed takes the model's, and
        draws its folds anew where that has none either.
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
        """Where a fit without a path starts: of the scaled columns, or None for zero."""
        if begin is None:
            return None
        start = np.zeros(problem.design.p)
        start[problem.n_free :] = problem.design.scale[problem.n_free :] * begin
        return start

    def _fit_problem(
        self, problem: Problem, prior: Prior | None, start: Any, progress: Progress
    ) -> None:
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
        """Take a fit as the model's own."""
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
        likelihood = problem.likelihood
        w = likelihood.backend.asarray(problem.weights[:, None])
        constant = likelihood.log_likelihood_constant(w)
        self.log_likelihood_ = -loss + float(np.sum(likelihood.backend.to_host(constant)))

    def _effective_sample_size(self, problem: Problem) -> float:
        """Observations, as information criteria count them."""
        return float(problem.weights.sum())

    def _require_data(self, what: str) -> Problem:
        """The fit with its data, which are not in a pickle."""
        check_is_fitted(self, "coef_")
        problem = getattr(self, "_problem", None)
        if problem is None:
            raise DataError(
                f"The fit was unpickled without its data, which {what} needs; fit again."
            )
        return problem

    def __dir__(self) -> Iterable[str]:
        """List all attributes; scikit-learn's own computes each of them to see whether it can."""
        return object.__dir__(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _center_and_add_intercept(
    design: Any, likelihood: Likelihood, weights: np.ndarray, intercept: bool
) -> DesignLike:
    """The columns as a model has them: centred where that changes nothing, an intercept."""
    counted = None if weights.all() else weights > 0
    if intercept or likelihood.shift_invariant:
        design = design.centered(counted)
    elif counted is not None:
        design = design.scaled_by(counted)
    return design.with_intercept() if intercept else design
