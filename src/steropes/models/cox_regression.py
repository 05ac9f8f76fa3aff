"""Cox regression for hazard ratios."""

from __future__ import annotations

import dataclasses
from numbers import Real
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..backends import get_backend
from ..backends.protocols import Backend
from ..data import (
    check_strata,
    check_survival,
    check_weights,
    refuse_other_order,
)
from ..data.input_types import LabelsLike, VectorLike
from ..design import Design
from ..design.piecewise_design import PiecewiseDesign, StepEffects
from ..errors import DataError
from ..fit.shards import ShardedDesign
from ..infer.proportional_hazards_test import proportionality_test
from ..likelihoods import CoxLikelihood, Likelihood
from ..likelihoods.piecewise_cox_likelihood import PiecewiseCoxLikelihood, cut_at
from ..priors import Prior
from .base import Problem
from .cox_curves import CoxCurves
from .discrimination import auc_table, concordance_with_se, pair_weights
from .fit_inputs import FitInputs
from .proportional_hazards import ProportionalHazardsModel
from .setting_types import Chooser, Device, MatrixLike, Seed, Solver, StepTimes, Ties
from .step_effects import prior_of_step_effects, read_step_effects

__all__ = ["CoxRegression"]


class CoxRegression(CoxCurves, ProportionalHazardsModel):
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
        each has x's prior; ``exclude`` accepts ``"x"`` for all of them or the name of one. No
        row of X is repeated.
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
        Log hazard ratios; longer than X has columns if effects vary with time.
    baseline_hazard_ : DataFrame
        Breslow's or Efron's estimate (according to ``ties``) at X = 0 and offset 0: ``time``,
        ``hazard`` (the step at each event time) and ``cumulative_hazard``, preceded by
        ``stratum`` if there are strata.
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
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.ties = ties
        self.time_varying = time_varying

    # -- fit -----------------------------------------------------------------------------------

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Assemble the problem, with a piecewise design if effects vary with time."""
        self._cuts, self._effects = self._step_effects(design)
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

    def _step_effects(self, design: Design) -> tuple[np.ndarray, StepEffects | None]:
        """Read ``time_varying``: the times at which effects change, and the step functions."""
        if self.time_varying and self.solver == "ccd":
            raise DataError("time_varying needs solver='newton'.")
        if self.time_varying and self.device == "cuda":
            raise DataError("time_varying runs on device='cpu' (or 'auto').")
        return read_step_effects(self.time_varying, design.names)

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        """Read the survival outcome and strata; see `PenalizedModel`."""
        inputs.refuse_extras(self, "exposure")
        if self.ties not in ("efron", "breslow"):
            raise DataError(f"ties must be 'efron' or 'breslow', not {self.ties!r}.")
        outcome = check_survival(inputs.y, design.n)
        if not outcome.event.any():
            raise DataError("y has no events; a Cox model needs at least one.")
        codes = self._read_strata(inputs.strata, design.n)
        rest = (outcome.entry, codes, self.ties)
        cuts, effects = self._step_effects(design)
        if effects is None:
            likelihood = CoxLikelihood(outcome.time, outcome.event, backend, *rest)
        else:
            likelihood = PiecewiseCoxLikelihood(
                outcome.time, outcome.event, get_backend("cpu", self.n_jobs), cuts, *rest
            )
        return likelihood, {"fold_label": outcome.event.astype(np.int8)}

    def _has_varying_effects(self) -> bool:
        """Return whether some effects vary with time."""
        return bool(self.time_varying)

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
        eta = self._effects.linear_predictors(design, self.coef_, get_backend("cpu", self.n_jobs))
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
        q = int(np.searchsorted(self._cuts, time, side="left"))
        return self._linear_predictors(X, offset)[:, q]

    def predict_survival(
        self,
        X: MatrixLike,
        times: ArrayLike,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
    ) -> np.ndarray:
        """Predict the probability of no event up to each time.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        times : (T,) array
            Times in any order.
        strata : (n,) labels, optional
            Required if the model was fitted with strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.

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
        with np.errstate(over="ignore"):
            return np.exp(-np.exp(self._log_cumulative(X, times, strata, offset)))

    # -- discrimination and tests --------------------------------------------------------------

    @overload
    def concordance(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        return_se: Literal[False] = False,
        cluster: LabelsLike | None = None,
        *,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> float: ...
    @overload
    def concordance(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        *,
        return_se: Literal[True],
        cluster: LabelsLike | None = None,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> tuple[float, float]: ...
    def concordance(
        self,
        X: MatrixLike,
        y: VectorLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        return_se: bool = False,
        cluster: LabelsLike | None = None,
        *,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> float | tuple[float, float]:
        """Compute the share of comparable pairs that fail in the order of their risks (Harrell).

        Equal risks count one half. With entry times two rows are compared at an event of one
        if the other is at risk then, with ``strata`` only within strata, and with time-varying
        effects by their risks at the time of the event. As R's ``survival::concordance``.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : structured array
            As in ``fit``.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        strata : (n,) labels, optional
            Labels of strata. Default none.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        return_se : bool
            Whether to return the standard error too, from the infinitesimal jackknife with the
            weights of pairs as given, as in R's ``survival::concordance``.
        cluster : (n,) labels, optional
            With ``return_se``: rows that belong together, such as those of one person.
        ipcw : bool
            Whether to compute Uno's concordance, which does not depend on the distribution of
            censoring: pairs are weighted by the inverse square of the probability of being
            uncensored just before the event, from the Kaplan–Meier curve of censoring in y (of
            each stratum). As R's ``survival::concordance(timewt="n/G2")``; not with entry times.
        tau : float, optional
            Only events before this time count; useful with ``ipcw`` if few have a long follow-up.

        Returns
        -------
        float, or a pair of floats with ``return_se``
            The concordance, 0.5 without discrimination and 1 at best, and its standard error.

        Raises
        ------
        DataError
            If y has no comparable pairs, or ``ipcw`` is combined with entry times.

        References
        ----------
        Harrell, Califf, Pryor, Lee and Rosati (1982), JAMA 247:2543–2546. Uno, Cai, Pencina,
        D'Agostino and Wei (2011), Statistics in Medicine 30:1105–1117.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> X = [[0.0], [1.0], [0.0], [0.0], [1.0]]
        >>> steropes.CoxRegression().fit(X, y).concordance(X, y)
        0.5625
        """
        refuse_other_order(X, sample_weight=sample_weight, strata=strata, cluster=cluster)
        eta = self._linear_predictors(X, offset)
        n = len(eta)
        outcome = check_survival(y, n)
        weight = check_weights(sample_weight, n)
        codes = check_strata(self._formula_vector("strata", X, strata), n)
        share = pair_weights(*outcome, codes, weight, ipcw, tau)
        if self._effects is None:
            time, event, entry = outcome
            rest = entry, codes, weight, return_se, cluster
            return concordance_with_se(eta[:, 0], time, event, *rest, share=share)
        row, interval, time, event, entry = cut_at(*outcome, self._cuts)
        code = interval if codes is None else interval + self._effects.Q * codes[row]
        pieces = entry, code, weight[row], return_se, cluster, row
        share = None if share is None else share[row]
        return concordance_with_se(eta[row, interval], time, event, *pieces, share)

    def time_dependent_auc(
        self,
        X: MatrixLike,
        y: VectorLike,
        times: ArrayLike,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Compute the AUC for the event by each time against later events.

        To account for censoring, cases are weighted by the inverse probability of being
        uncensored, from the Kaplan–Meier curve of censoring in y.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : structured array
            As in ``fit``; without entry times.
        times : (T,) array
            Times at which cases (events so far) are compared with later events.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        strata : (n,) labels, optional
            Required if the model was fitted with strata; risks include the baseline and are
            compared across strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        level : float
            Confidence level of the intervals, which are symmetric on the logit scale.

        Returns
        -------
        DataFrame
            Indexed by time; columns ``auc``, ``se``, ``lower``, ``upper``. Standard errors are
            from the infinitesimal jackknife, which accounts for the estimation of the censoring
            curve and not of the coefficients.

        Raises
        ------
        DataError
            If y has entry times, or a time precedes all events or follows all observation.

        References
        ----------
        Uno, Cai, Tian and Wei (2007), JASA 102:527–537. Hung and Chiang (2010), Can J Stat
        38:8–26.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> X = [[0.2], [1.0], [0.1], [0.5], [0.9]]
        >>> table = steropes.CoxRegression().fit(X, y).time_dependent_auc(X, y, [3.5])
        >>> table["auc"].round(2).tolist()
        [0.83]
        """
        refuse_other_order(X, sample_weight=sample_weight, strata=strata)
        plain = self._effects is None and self._strata_labels is None
        if plain and strata is None:
            eta = self._linear_predictors(X, offset)
            risk = np.repeat(eta, np.size(times), axis=1)
        else:
            risk = self._log_cumulative(X, times, strata, offset)
        n = len(risk)
        time, event, entry = check_survival(y, n)
        if entry is not None:
            raise DataError("The AUC at a time is not defined with entry times; leave entry out.")
        weight = check_weights(sample_weight, n)
        unknown = ~np.isfinite(risk) & (risk != -np.inf)
        bad = unknown & (weight > 0)[:, None]
        if bad.any():
            i, k = np.argwhere(bad)[0]
            raise DataError(
                f"Row {i} has no risk at time {np.atleast_1d(times)[k]:g}: in the fit nobody of "
                "its stratum was seen that long. Leave such times out."
            )
        risk = np.where(unknown, -np.inf, risk)  # only rows without weight, which form no pairs
        return auc_table(risk, time, event, weight, times, level)

    def test_proportionality(self, transform: Any = "km") -> pd.DataFrame:
        """Test proportional hazards by score tests of effects β + θ g(t), singly and jointly.

        Parameters
        ----------
        transform : {"km", "identity", "log", "rank"} or callable
            g(t): one minus the Kaplan–Meier curve just before t (default), t, log t, the rank of
            t among all times, or a function of an array of times. The curve and the ranks count
            rows without their weights, as in R.

        Returns
        -------
        DataFrame
            One row for each coefficient and ``GLOBAL``; columns ``chisq``, ``df``, ``p``. A small
            p indicates that the hazard ratio changes with time. The numbers equal those of R's
            ``survival::cox.zph(fit, transform, terms=FALSE)``, version 3.0 or later. With a
            normal prior the effect of the shrinkage on the score is removed (Neyman's C(α)
            test), so that the numbers equal those of an unpenalised fit to first order.

        Raises
        ------
        DataError
            If the model has no covariates or a Laplace prior, or was unpickled without its data.

        See Also
        --------
        steropes.plots.schoenfeld_residuals : Draw an effect against time.

        References
        ----------
        Grambsch and Therneau (1994), Biometrika 81:515–526. Neyman (1959), Optimal asymptotic
        tests of composite statistical hypotheses, in Probability and Statistics (ed. Grenander).

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((100, 2))
        >>> y = steropes.Surv(rng.exponential(np.exp(-X[:, 0])), np.ones(100, int))
        >>> table = steropes.CoxRegression().fit(X, y).test_proportionality()
        >>> table.index.tolist(), table.columns.tolist()
        (['x0', 'x1', 'GLOBAL'], ['chisq', 'df', 'p'])
        """
        problem = self._require_data("the test")
        if not problem.design.p:
            raise DataError("The model has no covariates, so there is no effect to test.")
        if self._has_sparse_prior():
            raise DataError(
                "Under a Laplace prior an estimate has no distribution that a test could go by; "
                "fit with prior=None or a Normal prior (on the columns that matter) to use it."
            )
        time, event, entry = problem.likelihood.outcome()
        names = self._coefficient_names()
        return proportionality_test(problem, self._beta, names, time, event, entry, transform)
