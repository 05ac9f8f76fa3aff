"""The steps of a fit: reading of X, assembly of the problem, choice of the prior, and results."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...backends import get_backend, host_backend
from ...backends.backend_interface import Backend
from ...backends.blas_threads import single_threaded_blas
from ...convergence_warning import NotConvergedWarning
from ...data import check_offset, check_weights
from ...data.input_types import CoefficientsByColumn, VectorLike
from ...data.vector_checks import check_vector
from ...design_matrix import Design, as_design, copy_shared_arrays, has_names
from ...design_matrix.design_interfaces import DesignLike
from ...design_matrix.memory_estimate import free_memory, least_memory, too_large
from ...errors import DataError
from ...fit import Problem
from ...fit.shards import ShardedDesign, sharded_problem
from ...infer import refuse_separated, refuse_undetermined
from ...infer.degrees_of_freedom import degrees_of_freedom
from ...infer.negligible_information_errors import refuse_weak_information
from ...infer.profile_fits import FromObjective
from ...likelihoods import Likelihood
from ...priors import INFINITE_PENALTY, KeptColumns, LimitedPenalty, Prior, PriorColumns
from ...select import Measured
from ...solve import Batch, Fit
from ...solve.separation.extreme_offsets import extreme_offsets
from ..formulas.formula_data_types import FormulaVariable
from .fitted_model import FittedModel
from .fixed_and_initial_coefficients import read_fixed, read_start_at
from .prior_variance_choice import choose_variance
from .progress_messages import Progress
from .row_arguments import FitInputs, OutcomeRows
from .separation_advice import advice_on_smooth_terms
from .setting_checks import check_settings
from .setting_types import MatrixLike
from .solver_runs import Start, fit_by_coordinate_descent, fit_by_newton

__all__ = ["BatchedOutcomes", "Estimator"]

BatchedOutcomes = Literal["never", "laplace", "always"]


class Estimator(FittedModel):
    """The steps of `PenalizedModel.fit`, which families override where they differ."""

    # The largest allowed difference of two offsets.
    _max_offset_range = np.inf
    # When `fit_many` may fit several outcomes as one batch: with "laplace" under such a prior,
    # where replicates share a Hessian; with "always" also without a prior, where curvature does
    # not depend on y. Subclasses do not inherit the value.
    _batched_outcomes: ClassVar[BatchedOutcomes] = "never"
    trace_: pd.DataFrame
    cv_results_: pd.DataFrame
    variance_: float

    # The distribution of y in generalised linear models.
    _distribution: Any = None
    # Typical values of the columns of a fit without a formula, computed at the first request.
    _column_variables: Mapping[str, FormulaVariable] | None = None

    def _accessor(self, name: str) -> Any:
        """Return an accessor of the model, whose class differs between families."""
        return getattr(self, name)

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
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

    def _fit(
        self,
        X: MatrixLike,
        inputs: FitInputs,
        start_at: ArrayLike | CoefficientsByColumn | None,
        fixed: CoefficientsByColumn | None,
    ) -> None:
        """Read all input, choose the prior's variance, fit, and release references to X."""
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
            part = self._fixed.part(design, host_backend(self.n_jobs))
            inputs = replace(inputs, offset=part if own is None else own + part)
            design = design.only(self._fixed.kept)
            self._names = design.names
        problem = self._make_problem(design, inputs)
        del design, inputs  # which may be replaced
        if isinstance(problem.design, Design):
            self._refuse_too_large(problem)
        else:
            problem = sharded_problem(problem, self.device)
        advice = advice_on_smooth_terms(problem)
        with advice, single_threaded_blas(), Progress(self.verbose) as progress:
            prior, start = self._select(problem, progress)
            start = self._start(problem, begin) if start is None else start
            self._fit_problem(problem, prior, start, progress)
            self._refuse_weak_information(problem)
        self._complete_coefficients()
        del problem, start, advice  # and with them all that the fit has made of X
        self._copy_shared_arrays(X)

    def _complete_coefficients(self) -> None:
        """Insert the fixed coefficients into ``coef_``."""
        if self._fixed is not None:
            self.coef_ = self._fixed.whole(self.coef_)

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
                "start_at and fixed cannot be combined with time_varying, as a column then has "
                "several coefficients. If a column x has a known, constant effect b, "
                "leave x out of X and give offset=b * x. A start does not change the optimum."
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
        if isinstance(design, Design) and not isinstance(X, Design):
            design.fresh = True
        self._names, self._column_variables = design.names, None
        self._coding = coding = None if isinstance(design, ShardedDesign) else design.coding
        columns = design.names if coding is None or isinstance(X, Design) else coding.columns
        self.n_features_in_ = len(columns)
        indexed = (x for x in (X, y) if isinstance(x, pd.DataFrame | pd.Series))
        first = next(indexed, None)
        self._row_labels = None if first is None else first.index.copy()
        if isinstance(X, ShardedDesign) or has_names(X):
            self.feature_names_in_ = np.array(columns, dtype=object)
        return design

    def _check_sharded(self) -> None:
        """Refuse settings that a `ShardedDesign` does not support."""
        name = type(self).__name__
        if self.solver == "ccd":
            raise DataError(f"{name}(solver='ccd') works on columns; use solver='newton'.")

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
        like : Problem, optional
            A problem of the same model and X with another outcome, to share columns with.
        """
        weights, offset = self._check_weights_and_offset(
            inputs.sample_weight, inputs.offset, design.n
        )
        likelihood, extras = self._likelihood(inputs, design, self._backend(design))
        weights = self._weigh_classes(weights, extras.get("fold_label"))
        if extras.get("fold_label") is not None and not weights.all():
            self._refuse_without_events(extras["fold_label"][weights > 0])
        log_exposure = extras.get("offset")
        if log_exposure is not None:
            offset = log_exposure if offset is None else offset + log_exposure
        extras = {**extras, "offset": offset}
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
            prior=prior,
            columns=columns,
            names=names,
            n_free=int(intercept),
            **extras,
        )

    def _backend(self, design: Design) -> Backend:
        """Return the backend of the likelihood.

        Blocks of rows multiply on their devices, and their likelihood is computed on the host.
        """
        if isinstance(design, ShardedDesign):
            return host_backend(self.n_jobs)
        return get_backend(self.device, self.n_jobs, self._work(design))

    def _work(self, design: Design) -> float:
        """Return the stored entries of X times the folds, by which "auto" chooses a device."""
        folds = getattr(self.cv, "folds", self.cv)
        count = folds if isinstance(folds, int) else len(folds) if isinstance(folds, list) else 1
        return float(design.nnz) * max(1, count)

    def _check_weights_and_offset(
        self, sample_weight: VectorLike | None, offset: VectorLike | None, n: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Validate and copy weights and offset, which standard errors need later."""
        weights = check_weights(sample_weight, n)
        return weights, check_offset(
            offset, n, self._offset_on_log_scale, self._max_offset_range, weights
        )

    def _weigh_classes(self, weights: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return the weights of the rows; models of classes multiply them by ``class_weight``."""
        return weights

    def _refuse_without_events(self, label: np.ndarray) -> None:
        """Refuse an outcome without events in the rows with a positive weight."""
        if not label.any():
            raise DataError("y has no events among the rows with a positive weight.")

    def _wants_intercept(self) -> bool:
        """Return whether the settings ask for an intercept."""
        formula = getattr(self, "_formula", None)
        left_out = formula is not None and not formula.has_intercept
        return self._intercept and bool(getattr(self, "fit_intercept", True)) and not left_out

    def _select(self, problem: Problem, progress: Progress) -> tuple[Prior | None, Start | None]:
        """Choose the prior's variance by ``cv``; without it, keep the prior."""
        return choose_variance(self, problem, progress)

    def _start(self, problem: Problem, begin: np.ndarray | None) -> np.ndarray | None:
        """Return the initial coefficients of the scaled columns, or None for zero."""
        if begin is None:
            return None
        start = np.zeros(problem.design.p)
        start[problem.n_free :] = problem.design.scale[problem.n_free :] * begin
        return start

    def _fit_problem(
        self, problem: Problem, prior: Prior | None, start: Start | None, progress: Progress
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
        l1, l2 = problem.penalties(prior)
        joined = problem.group_penalty(prior)
        if isinstance(joined, LimitedPenalty):  # A limit holds a coefficient as a prior does.
            l1 = np.where(joined.moves(fit.beta), l1, INFINITE_PENALTY)
        if prior is not None and prior.bounds_all:
            l1 = np.full(len(l1), INFINITE_PENALTY)
            l1[problem.unbounded(prior)] = 0.0
        refuse_separated(problem, fit.beta, l1, l2, fit.eta)
        self._store_fit(problem, prior, fit)
        self.trace_ = trace.table()

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        """Set the fitted attributes."""
        self._problem = problem
        self._information = self._robust_by_default = None
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

    def _objective_to_likelihood(self, problem: Problem) -> FromObjective:
        """Return the penalised log-likelihood as a function of the solver's objective."""
        likelihood = problem.likelihood
        w = likelihood.backend.asarray(problem.weights[:, None])
        constant = float(np.sum(likelihood.backend.to_host(likelihood.log_likelihood_constant(w))))
        return lambda objective: (constant - objective, -1.0)

    def _degrees_of_freedom(self) -> float:
        """Compute the effective number of all parameters."""
        extra = float(self._n_extra_parameters())
        if self.prior_ is None:
            return extra + len(self._coefficients())
        problem = self._require_replicable("degrees of freedom under a prior")
        return extra + degrees_of_freedom(problem, self._beta)

    def _n_extra_parameters(self) -> int:
        """Return the number of fitted parameters without a line in ``summary()``."""
        return int(self._residual_df() is not None)  # a linear model's residual variance

    def _criterion_terms(self, problem: Problem, fit: Fit) -> Measured:
        """Compute the terms of an information criterion at a fit under the problem's prior."""
        df = degrees_of_freedom(problem, fit.beta)
        free = float(len(problem.unbounded(problem.prior)))
        extra = problem.likelihood.dispersion_parameters + (fit.nuisance.K if fit.nuisance else 0)
        return Measured(
            self._objective_to_likelihood(problem)(fit.loss)[0],
            df + extra,
            df - free,
            self._effective_sample_size(problem),
        )

    def _binary_model(self) -> object:
        """Return a model of whether a value is exceeded, for calibration; None if not needed."""
        return None

    def _code_of_value(self, value: object) -> float:
        """Convert the argument ``value`` of a calibration curve to the outcome's code."""
        return float(check_vector(np.atleast_1d(np.asarray(value)), 1, "value")[0])


def _center_and_add_intercept(
    design: Design, likelihood: Likelihood, weights: np.ndarray, intercept: bool
) -> DesignLike:
    """Centre the columns if that leaves the model unchanged, and add an intercept."""
    counted = None if weights.all() else weights > 0
    if intercept or likelihood.shift_invariant:
        if isinstance(design, Design) and intercept and likelihood.backend.on_host:
            design = design.centered(counted, led=True)
        else:
            design = design.centered(counted)
    elif counted is not None:
        design = design.scaled_by(counted)
    return design.with_intercept() if intercept else design
