"""Cox regression for hazard ratios."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...backends.backend_interface import Backend
from ...data import check_survival, refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...design_matrix import Design
from ...design_matrix.memory_estimate import free_memory
from ...design_matrix.piecewise_design import PiecewiseDesign, StepEffects
from ...errors import DataError
from ...fit import Problem
from ...fit.shards import ShardedDesign
from ...likelihoods import CoxLikelihood, Likelihood
from ...likelihoods.piecewise_cox_likelihood import PiecewiseCoxLikelihood
from ...priors import Prior
from ..checks.check_accessors import CoxChecks
from ..curves.curve_accessors import CoxCurves
from ..curves.step_functions import StepFunction
from ..curves.time_quantiles import hazards_before
from ..families.survival_families import COX
from ..fitting.accessor_base_class import accessor
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.row_arguments import FitInputs, OutcomeRows
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed, Solver, StepTimes, Ties
from ..fitting.time_varying_effects import prior_of_step_effects, read_step_effects
from ..validation.validation_accessors import CoxValidation
from .fits_with_row_arguments import fit_with_strata
from .penalized_model import PenalizedModel

__all__ = ["CoxRegression"]

# Memory of a person at an event time: row numbers, linear predictors of the kernels' lanes.
BYTES_PER_PIECE = 200


class CoxRegression(ProportionalHazardsModel, PenalizedModel):
    """Cox's proportional hazards model with a prior on the log hazard ratios.

    Maximises the log partial likelihood minus the penalty. There is no intercept.

    Parameters
    ----------
    ties : {"efron", "breslow"}
        Method for tied event times, default Efron's; with weights as in R's ``survival::coxph``.
    time_varying : mapping, optional
        Effects that are step functions of time: ``{"x": [90, 180]}`` gives the column named (or
        at position) ``x`` one coefficient on each of (0, 90], (90, 180] and (180, ∞), named
        ``x@(0,90]``, ``x@(90,180]`` and ``x@(180,inf)``. They replace the coefficient of x and
        each has x's prior; ``exclude`` accepts ``"x"`` for all of them or the name of one.
        ``{"x": "log"}`` gives x the effect β + γ log(t), with the coefficients ``x`` and
        ``x:log(t)``, and so does any function of the event times instead of "log". No row of X is
        repeated; a function needs a linear predictor for each person and event time.
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
    coef_ : (p,) array
        Log hazard ratios; longer than X has columns if effects vary with time.
    unique_times_ : (T,) array
        Distinct event times of the fit.
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
        If the partial likelihood is monotone in some unpenalised columns.

    See Also
    --------
    FineGrayRegression : Model of the incidence of an event that competes with others.
    PooledLogisticRegression : Model of the event in intervals of time.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    ``fit(X, y, strata=…)`` requires ``y = Surv(time, event[, entry])`` (or scikit-survival's
    structured array); a row is at risk on (entry, time]. With ``strata`` each stratum has a
    baseline hazard of its own.

    References
    ----------
    Cox (1972), JRSS B 34:187; Efron (1977), JASA 72:557; Therneau and Grambsch (2000).

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
    >>> m = steropes.CoxRegression().fit(X, y)
    >>> m.predict_survival(X, [2, 4]).shape
    (5, 2)
    """

    _batched_outcomes = "laplace"
    curves = accessor(CoxCurves)
    checks = accessor(CoxChecks)
    validation = accessor(CoxValidation)

    fit = fit_with_strata
    _family = COX
    # Times at which effects change, and the step functions; None if all effects are constant.
    _cuts: np.ndarray
    _effects: StepEffects | None

    def __init__(
        self,
        *,
        ties: Ties = "efron",
        time_varying: StepTimes | None = None,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
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
        self.ties = ties
        self.time_varying = time_varying

    # -- fit -----------------------------------------------------------------------------------

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Assemble the problem, with a piecewise design if effects vary with time."""
        self._cuts, self._effects = self._step_effects(design, inputs)
        problem, effects = super()._make_problem(design, inputs, like), self._effects
        if effects is None:
            return problem
        likelihood, X = problem.likelihood, problem.design
        assert isinstance(likelihood, PiecewiseCoxLikelihood)
        assert isinstance(X, Design | ShardedDesign)
        prior, columns = prior_of_step_effects(problem.prior, design.names, effects)
        return dataclasses.replace(
            problem,
            design=PiecewiseDesign(X, effects, likelihood.person, likelihood.piece_start),
            names=effects.names,
            prior=prior,
            columns=columns,
        )

    def _step_effects(
        self, design: Design, inputs: FitInputs
    ) -> tuple[np.ndarray, StepEffects | None]:
        """Read ``time_varying``: the times at which effects change, and the step functions."""
        if self._changing_effects() and self.solver == "ccd":
            raise DataError("time_varying needs solver='newton'.")

        def event_times() -> np.ndarray:
            """Return the event times; raise if their pairs with people exceed the memory."""
            outcome = check_survival(inputs.y, design.n)
            times = np.unique(outcome.time[outcome.event > 0])
            pieces = int(np.searchsorted(times, outcome.time, side="left").sum()) + design.n
            if pieces * BYTES_PER_PIECE > free_memory():
                raise DataError(
                    f"Effects that are functions of time need {pieces:,} pairs of people and "
                    "event times, which exceed the free memory: round the times, or use steps, "
                    "such as time_varying={'x': [90, 180]}."
                )
            return times

        cuts, effects = read_step_effects(self._changing_effects(), design.names, event_times)
        functions = effects is not None and effects.values is not None
        if functions and self.device not in ("cpu", "auto"):
            raise DataError(
                f"Effects that are functions of time are not computed on device={self.device!r}: "
                "use device='cpu', or steps, such as time_varying={'x': [90, 180]}."
            )
        return cuts, effects

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, OutcomeRows]:
        """Read the survival outcome and strata; see `PenalizedModel`."""
        inputs.refuse_extras(self, "exposure")
        if self.ties not in ("efron", "breslow"):
            raise DataError(f"ties must be 'efron' or 'breslow', not {self.ties!r}.")
        outcome = check_survival(inputs.y, design.n)
        if not outcome.event.any():
            raise DataError("y has no events; a Cox model needs at least one.")
        codes = self._read_strata(inputs.strata, design.n)
        rest = (outcome.entry, codes, self.ties)
        cuts, effects = self._step_effects(design, inputs)
        if effects is None:
            likelihood = CoxLikelihood(outcome.time, outcome.event, backend, *rest)
        else:
            likelihood = PiecewiseCoxLikelihood(outcome.time, outcome.event, backend, cuts, *rest)
        return likelihood, {"fold_label": outcome.event.astype(np.int8)}

    def _work(self, design: Design) -> float:
        """See `PenalizedModel`; zero for functions of time, which "auto" computes on the CPU."""
        effects = self._changing_effects()
        settings = effects.values() if isinstance(effects, Mapping) else ()
        if any(callable(setting) or isinstance(setting, str) for setting in settings):
            return 0.0
        return super()._work(design)

    def _has_varying_effects(self) -> bool:
        """Return whether some effects vary with time."""
        return bool(self._changing_effects())

    def _coefficient_names(self) -> list[str]:
        """Return the names of the coefficients, including steps of effects."""
        return list(self._names) if self._effects is None else list(self._effects.names)

    # -- prediction ----------------------------------------------------------------------------

    def linear_predictor(self, X: MatrixLike, offset: VectorLike | None = None) -> np.ndarray:
        """Compute the linear predictor η = X β + offset.

        Parameters
        ----------
        X : array, sparse matrix, data frame, Design or ShardedDesign, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        (n,) array
            The log hazard ratio relative to X = 0.

        Raises
        ------
        DataError
            If effects vary with time; use `predict` with a time.
        """
        if self._effects is not None:
            raise DataError("Effects are time-varying: use predict(X, time=…).")
        return super().linear_predictor(X, offset)

    def _linear_predictors(self, X: MatrixLike, offset: VectorLike | None) -> np.ndarray:
        """Compute η in each interval in which effects are constant, (n, Q)."""
        if self._effects is None:
            return super()._linear_predictors(X, offset)
        refuse_other_order(X, offset=offset)
        design = self._check_new(X)
        eta = self._effects.linear_predictors(design, self.coef_, host_backend(self.n_jobs))
        offset = self._new_offset(X, offset, design.n)
        return eta if offset is None else eta + offset[:, None]

    def predict(
        self, X: MatrixLike, offset: VectorLike | None = None, time: float | None = None
    ) -> np.ndarray:
        """Predict the log hazard ratio relative to X = 0.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        time : float, optional
            The time at which the effects are evaluated; required with ``time_varying`` and
            refused without.

        Returns
        -------
        (n,) array
            The linear predictor X β + offset.

        Raises
        ------
        DataError
            If ``time`` is missing, not a number or not applicable.
        """
        if self._effects is None:
            if time is not None:
                raise DataError("The hazard ratio is the same at all times; leave time out.")
            return self.linear_predictor(X, offset)
        if time is None:
            raise DataError("Effects are time-varying: give the time, predict(X, time=…).")
        if not isinstance(time, Real) or np.isnan(float(time)):
            raise DataError(f"time must be one number, the same for all rows, not {time!r}.")
        q, effects = int(np.searchsorted(self._cuts, time, side="left")), self._effects
        if effects.values is None:
            return self._linear_predictors(X, offset)[:, q]
        refuse_other_order(X, offset=offset)
        design = self._check_new(X)
        beta = effects.at_time(self.coef_, design.p, q, float(time)) * design.scale
        eta = design.matmul(beta[:, None], host_backend(self.n_jobs))[:, 0]
        offset = self._new_offset(X, offset, design.n)
        return eta if offset is None else eta + offset

    def predict_survival(
        self,
        X: MatrixLike,
        times: ArrayLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        *,
        after: ArrayLike | None = None,
    ) -> np.ndarray:
        """Predict the probability of no event up to each time.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        times : (T,) array, optional
            Times in any order. Default ``unique_times_``.
        strata : (n,) labels, optional
            Required if the model was fitted with strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        after : number or (n,) array, optional
            Time that each person has already lived; probabilities are then conditional on
            survival to it, S(t) / S(after), and 1 for earlier times. Default 0.

        Returns
        -------
        (n, T) array
            Equal to exp(−Λ₀(t) exp η), with a sum over intervals in the exponent if effects vary
            with time. Constant after the last event time, and NaN after the last time at which
            anyone (of the row's stratum) was under observation.

        Raises
        ------
        DataError
            If a time is missing, or strata are missing or unknown.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
        >>> model.predict_survival([[0.0], [1.0]], [2, 4]).round(2).tolist()
        [[0.79, 0.57], [0.87, 0.73]]
        """
        times = self.unique_times_ if times is None else times
        with np.errstate(over="ignore"):
            H = np.exp(self._log_cumulative(X, times, strata, offset))
        if after is None:
            return np.exp(-H)
        eta = self._linear_predictors(X, offset)
        codes = self._stratum_codes(X, strata, len(eta))
        past = hazards_before(self._baseline(), eta, codes, after, self._last_seen)
        with np.errstate(invalid="ignore"):  # beyond all survival
            return np.exp(-np.maximum(H - past[:, None], 0.0))

    def predict_survival_function(
        self, X: MatrixLike, strata: LabelsLike | None = None, offset: VectorLike | None = None
    ) -> list[StepFunction]:
        """Predict a survival function for each row, as scikit-survival does.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        strata : (n,) labels, optional
            Required if the model was fitted with strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        list of StepFunction
            Functions of time with steps at ``unique_times_``, known from 0 to the last time at
            which anyone (of the row's stratum) was under observation.

        See Also
        --------
        predict_survival : The values at given times, as an array.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
        >>> low, high = model.predict_survival_function([[0.0], [1.0]])
        >>> low([0, 2, 4]).round(2).tolist()
        [1.0, 0.79, 0.57]
        """
        return self._step_functions(self.predict_survival(X, None, strata, offset), X, strata, 1.0)

    def predict_cumulative_hazard_function(
        self, X: MatrixLike, strata: LabelsLike | None = None, offset: VectorLike | None = None
    ) -> list[StepFunction]:
        """Predict a cumulative hazard function for each row, as scikit-survival does.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        strata : (n,) labels, optional
            Required if the model was fitted with strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        list of StepFunction
            Functions of time with steps at ``unique_times_``, known from 0 to the last time at
            which anyone (of the row's stratum) was under observation.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
        >>> low, high = model.predict_cumulative_hazard_function([[0.0], [1.0]])
        >>> high([0, 2, 4]).round(2).tolist()
        [0.0, 0.14, 0.32]
        """
        with np.errstate(over="ignore"):
            H = np.exp(self._log_cumulative(X, self.unique_times_, strata, offset))
        return self._step_functions(H, X, strata, 0.0)

    def _step_functions(
        self, values: np.ndarray, X: MatrixLike, strata: LabelsLike | None, before: float
    ) -> list[StepFunction]:
        """Turn values at the event times (n, T) into functions; `before` is the value at 0."""
        times = self.unique_times_
        ends = self._last_seen[self._stratum_codes(X, strata, len(values))]
        functions = []
        for row, end in zip(values, ends, strict=True):
            known = times <= end
            functions.append(StepFunction(times[known], row[known], before, (0.0, float(end))))
        return functions
