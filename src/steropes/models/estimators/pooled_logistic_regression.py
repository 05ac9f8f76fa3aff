"""Pooled logistic regression of discrete hazards, without expanding rows to person-intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...data import check_survival
from ...data.column_lookup import ColumnLookup
from ...data.discrete_time_intervals import IntervalsAtRisk, TimeIntervals
from ...data.input_types import VectorLike
from ...data.interval_weights import IntervalWeights
from ...design_matrix import Design
from ...errors import DataError
from ...fit import Problem
from ...likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood, baseline_alone
from ...priors import Prior, PriorColumns
from ...solve import Fit
from ..checks.check_accessors import GroupedChecks
from ..families.survival_families import POOLED
from ..fitting.accessor_base_class import accessor
from ..fitting.fit_inputs_from_tables import outcome_of_table
from ..fitting.interval_event_checks import refuse_empty_intervals, refuse_empty_splits
from ..fitting.progress_messages import Progress
from ..fitting.row_arguments import FitInputs
from ..fitting.setting_types import Chooser, Device, MatrixLike, Seed, TimeFunctions, VaryingEffects
from ..fitting.solver_runs import Start
from ..fitting.time_varying_effects import prior_of_copies
from .fits_with_row_arguments import fit_with_interval_weights
from .penalized_model import PenalizedModel
from .pooled_logistic_predictions import PooledPredictions
from .pooled_logistic_time_effects import DiscreteTime
from .pooled_logistic_validation_accessor import PooledValidation

__all__ = ["PooledLogisticRegression"]


class PooledLogisticRegression(PooledPredictions, PenalizedModel):
    """Logistic regression of the event in each interval at whose start a person is at risk.

    Time is divided into intervals (t_{k−1}, t_k], k = 1 … K. A person contributes every interval
    at whose start they are at risk (entry ≤ t_{k−1} < time), with y_ik = 1 in the interval that
    contains the time of their event, and

        logit P(y_ik = 1) = b(k) + x_i β + Σ_q f_q(k) x_i γ_q + offset_i.

    Rows are never expanded to person-intervals: X remains (n, p), and the likelihood loops over
    time.

    Parameters
    ----------
    interval : float, optional
        Width of all intervals, which start at 0 and cover the longest time.
    breaks : sequence of float, optional
        Ends of the intervals t_0 < t_1 < … < t_K, in place of ``interval``. If the first is
        positive and someone is at risk from 0 or before, 0 is prepended, so that all time at risk
        is included. A person still at risk at the last break is censored there.
    baseline : int, "interval", callable or sequence of callables
        The function b(k): a polynomial of this degree in t = k, counted from 1 (default 2; 0 is a
        constant), a free intercept for every interval, or a constant and functions of t.
        A function takes the array of t = 1 … K and returns as many values, or rows of values
        (a spline basis).
    time_varying : mapping, int, callable or sequence of callables, optional
        Changes of effects with time: ``{"x": 1}`` adds x · t for the column named (or at
        position) x, ``{"x": 2}`` x · t and x · t²; functions of t as for ``baseline``, without
        the constant. A value without a mapping applies to all columns. The coefficients γ have
        the prior of their column's β.
    prior : Prior, optional
        Prior on the coefficients, such as `Laplace`, `Normal` or `ElasticNet`. None (default) is
        maximum likelihood.
        The baseline is never penalised. ``exclude`` takes names of columns (``"x"``) and of
        changes (``"x:t"``), each separately.
    cv : CrossValidation, InformationCriterion or int, optional
        Method that chooses the prior's variance. An integer is a number of folds, which are the
        same in every fit.
    solver : {"newton"}
        Proximal Newton method.
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
    coef_ : (p + number of changing effects,) array
        β in the order of X's columns, then γ, by column and then function.
    baseline_coef_ : Series
        The parameters of b(k) by name.
    intercept_ : float
        The constant of b(k); absent with ``baseline="interval"``.
    breaks_ : (K + 1,) array
        t_0 … t_K.
    n_person_intervals_ : int
        Person-intervals contributed by people with a positive weight.
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
        With ``baseline="interval"``, if an interval has no one at risk, or no one or everyone at
        risk has the event in it.

    See Also
    --------
    CoxRegression : The model in continuous time.
    PenalizedModel : Methods and attributes of all models.

    Notes
    -----
    Names of coefficients: ``intercept``, ``t``, ``t^2``, … or ``t=1``, ``t=2``, … of the
    baseline (``log(t)`` for a function called ``log``, ``spline(t)[1]``, … for one with several
    values, ``f(t)`` for a lambda), then the columns of X, then ``x:t``, ``x:t^2``, ….
    With ``interval``, a time within a relative distance of 1e-9 of the end of an interval counts
    as lying on it.

    References
    ----------
    D'Agostino, Lee, Belanger, Cupples, Anderson and Kannel (1990), Statistics in Medicine
    9:1501–1515. Cox (1972), JRSS B 34:187, §6 is the discrete model.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]])
    >>> y = steropes.Surv([3, 1, 2, 2, 3, 1], [1, 1, 0, 1, 0, 0])
    >>> m = steropes.PooledLogisticRegression(interval=1, baseline=0).fit(X, y)
    >>> m.predict_survival(X[:1], [1, 2, 3]).shape
    (1, 3)
    """

    _intercept = True

    fit = fit_with_interval_weights

    n_person_intervals_: int
    baseline_coef_: pd.Series

    checks = accessor(GroupedChecks)
    validation = accessor(PooledValidation)

    _family = POOLED

    def __init__(
        self,
        *,
        interval: float | None = None,
        breaks: Sequence[float] | np.ndarray | None = None,
        baseline: TimeFunctions | Literal["interval"] = 2,
        time_varying: VaryingEffects | None = None,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        solver: Literal["newton"] = "newton",
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
        self.interval = interval
        self.breaks = breaks
        self.baseline = baseline
        self.time_varying = time_varying

    def _wants_intercept(self) -> bool:
        """Return whether the baseline has a constant."""
        return not isinstance(self.baseline, str)

    def _check_settings(self) -> None:
        """Refuse invalid settings."""
        super()._check_settings()
        if self.solver != "newton":
            raise DataError(f"PooledLogisticRegression has solver='newton', not {self.solver!r}.")
        if (self.interval is None) == (self.breaks is None):
            raise DataError("Give either interval, the width of all intervals, or breaks.")

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Divide time into intervals and assemble the problem."""
        inputs.refuse_extras(self, "strata", "exposure")
        n = design.n
        weights, offset = self._check_weights_and_offset(inputs.sample_weight, inputs.offset, n)
        self._has_intercept = self._wants_intercept()
        outcome = check_survival(inputs.y, n)
        used = weights > 0
        seen = outcome if used.all() else outcome.at(used)  # rows without weight are ignored
        if self.interval is not None:
            intervals = TimeIntervals.of_width(self.interval, seen)
        else:
            assert self.breaks is not None  # checked with the settings
            intervals = TimeIntervals.at(self.breaks, seen)
        self._time = time = DiscreteTime.of(
            intervals, self.baseline, self._changing_effects(), design.names
        )
        whole = time.design(design).centered(None if used.all() else used)
        at_risk = intervals.cut(outcome, used)
        likelihood = PooledLogisticLikelihood(
            at_risk.first, at_risk.last, at_risk.event, whole.scaled, self._backend(design),
            _weights_of(inputs.interval_weights, at_risk, used),
        )  # fmt: skip
        if not at_risk.event.any():
            raise DataError(
                "y has no event in an interval that a person begins at risk; the hazard has no "
                "finite logarithm."
            )
        label = at_risk.event.astype(np.int32)
        self._refuse_without_events(label[used])
        if isinstance(self.baseline, str):
            refuse_empty_intervals(likelihood, weights, intervals, self.cv is not None)
            # Folds are stratified by interval, so that none loses all events of an interval.
            label = np.where(at_risk.event, at_risk.last, 0).astype(np.int32)
        self.breaks_ = intervals.breaks
        self._end = float(intervals.breaks[at_risk.last[used].max()])
        self.n_person_intervals_ = int((at_risk.last - at_risk.first)[used].sum(dtype=np.int64))
        prior, columns = self._prior_of_columns()
        if columns is None:
            prior, columns = _prior_of_changes(prior, whole.source, design.names, time.effect_names)
        return Problem(
            design=whole,
            likelihood=likelihood,
            weights=weights,
            offset=offset,
            prior=prior,
            columns=columns,
            names=time.effect_names,
            n_free=len(time.baseline_names),
            n_constant=1 if self._has_intercept else len(time.baseline_names),
            fold_label=label,
        )

    def _select(self, problem: Problem, progress: Progress) -> tuple[Prior | None, Start | None]:
        """Choose the prior's variance, after a check of the splits."""
        cv = getattr(self.cv, "folds", None)
        if isinstance(self.baseline, str) and isinstance(cv, Sequence):
            refuse_empty_splits(problem, cv, self._time.intervals)
        return super()._select(problem, progress)

    def _start(self, problem: Problem, begin: np.ndarray | None) -> np.ndarray:
        """Return initial coefficients, with the baseline fitted alone.

        Events are rare in an interval, so that with a baseline of zero the gradients of all
        columns of X would be large.
        """
        start, M = super()._start(problem, begin), problem.n_free
        start = np.zeros(problem.design.p) if start is None else start
        assert isinstance(problem.likelihood, PooledLogisticLikelihood)
        start[:M] = problem.design.scale[:M] * baseline_alone(
            problem.likelihood, problem.weights, self._time.basis, problem.offset
        )
        return start

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        """Set the fitted attributes, with the baseline's coefficients apart."""
        super()._store_fit(problem, prior, fit)
        M = problem.n_free
        self._uncentered_beta = problem.design.uncentered_coefficients(self._beta)
        self.baseline_coef_ = pd.Series(self._uncentered_beta[:M], self._time.baseline_names)
        self.coef_ = self._uncentered_beta[M:].copy()
        if self._has_intercept:
            self.intercept_ = float(self._uncentered_beta[0])
        else:
            del self.intercept_  # each interval has an intercept in baseline_coef_

    def _has_varying_effects(self) -> bool:
        """Return whether some effects vary with time."""
        return self._changing_effects() is not None

    def _coefficient_names(self) -> list[str]:
        """Return the names of all coefficients, the baseline's first."""
        return self._time.names

    def _coefficients(self) -> np.ndarray:
        """Return all coefficients, the baseline's first."""
        return self._uncentered_beta

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        offset: VectorLike | None = None,
    ) -> float:
        """Compute the concordance; higher is better.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : structured array
            As in ``fit``. Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

        Returns
        -------
        float
            The concordance.
        """
        y = outcome_of_table(self, X, y)
        return self.validation.concordance(X, y, sample_weight, offset)


def _weights_of(
    given: IntervalWeights | ArrayLike | None, at_risk: IntervalsAtRisk, used: np.ndarray
) -> IntervalWeights | None:
    """Read weights of intervals and check those in which rows with weight are at risk."""
    if given is None:
        return None
    first, last = at_risk.first[used], at_risk.last[used]
    weights = IntervalWeights.of(given, len(used), int(last.max(initial=0)))
    weights.rows(used).check(first, last)
    return weights


def _prior_of_changes(
    prior: Prior | None, source: np.ndarray, names: list[str], effects: list[str]
) -> tuple[Prior | None, PriorColumns | None]:
    """Give each γ the prior of its column, but let ``exclude`` refer to each separately."""
    if not isinstance(prior, Prior) or len(source) == len(names):
        return prior, None
    # Positions refer to the columns of X, which precede the changes.
    places = ColumnLookup(names, "exclude")
    exclude = [
        item if isinstance(item, str) else names[places.of(item)]
        for item in prior.exclusions(len(names))
    ]
    return prior_of_copies(prior, source, names, exclude, effects)
