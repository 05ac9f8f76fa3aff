"""Cox regression: hazard ratios."""

from __future__ import annotations

import dataclasses
from numbers import Real
from typing import Any, Literal, overload

import numpy as np
import pandas as pd

from ..backends import get_backend
from ..backends.face import Backend
from ..data import (
    check_strata,
    check_survival,
    check_weights,
    refuse_other_order,
)
from ..design import Design
from ..design.piecewise import PiecewiseDesign, StepEffects
from ..errors import DataError
from ..fit.shards import ShardedDesign
from ..infer.proportional_hazards_test import proportionality_test
from ..likelihoods import CoxLikelihood, Likelihood
from ..likelihoods.time_varying import PiecewiseCoxLikelihood, cut_at
from ..priors import Prior
from .base import Problem
from .cox_curves import CoxCurves
from .discrimination import auc_table, concordance_with_se, pair_weights
from .fit_inputs import FitInputs
from .proportional_hazards import ProportionalHazardsModel
from .setting_types import Chooser, Device, Seed, Solver, StepTimes, Ties
from .step_effects import prior_of_step_effects, read_step_effects

__all__ = ["CoxRegression"]


class CoxRegression(CoxCurves, ProportionalHazardsModel):
    """Cox's proportional hazards model with a prior on the log hazard ratios.

    Maximises the log partial likelihood minus the penalty. There is no intercept.

    Parameters
    ----------
    ties : {"efron", "breslow"}
        How tied event times are treated, default Efron's method; with weights as in R's
        ``survival::coxph``.
    time_varying : mapping, optional
        Effects that are step functions of time: ``{"x": [90, 180]}`` gives the column named (or
        at position) ``x`` one coefficient on each of (0, 90], (90, 180] and (180, ∞), called
        ``x@(0,90]``, ``x@(90,180]`` and ``x@(180,inf)``. They stand in x's place among the
        coefficients and each has x's prior; ``exclude`` takes ``"x"`` for all of them or a
        name for one. No row of X is repeated.
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
    baseline_hazard_ : DataFrame
        At X = 0 and offset 0: ``time``, ``hazard`` (the step at each event time) and
        ``cumulative_hazard``, with ``stratum`` in front where there are strata. Breslow's or
        Efron's estimate, as ``ties`` says.

    Notes
    -----
    ``fit(X, y, strata=…)`` takes ``y = Surv(time, event[, entry])`` (or scikit-survival's
    structured array): a row is at risk on (entry, time]. ``strata`` gives each stratum its own
    baseline hazard.

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
    _cuts: np.ndarray  # times at which effects change
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
        """Times at which effects change, and whose do."""
        if self.time_varying and self.solver == "ccd":
            raise DataError("time_varying needs solver='newton'.")
        if self.time_varying and self.device == "cuda":
            raise DataError("time_varying runs on device='cpu' (or 'auto').")
        return read_step_effects(self.time_varying, design.names)

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
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
        return bool(self.time_varying)

    def _coefficient_names(self) -> list[str]:
        return list(self._names) if self._effects is None else list(self._effects.names)

    # -- prediction ----------------------------------------------------------------------------

    def linear_predictor(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return η = X β (+ offset), (n,); of ``time_varying`` effects `predict` has a time."""
        if self._effects is not None:
            raise DataError("Effects are time-varying: predict(X, time=…) says when.")
        return super().linear_predictor(X, offset)

    def _linear_predictors(self, X: Any, offset: Any) -> np.ndarray:
        if self._effects is None:
            return super()._linear_predictors(X, offset)
        refuse_other_order(X, offset=offset)
        design = self._check_new(X)
        eta = self._effects.linear_predictors(design, self.coef_, get_backend("cpu", self.n_jobs))
        offset = self._new_offset(X, offset, design.n)
        return eta if offset is None else eta + offset[:, None]

    def predict(self, X: Any, offset: Any = None, time: float | None = None) -> np.ndarray:
        """Return the log hazard ratio against X = 0, (n,).

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        offset : (n,) array, optional
        time : float, optional
            With ``time_varying`` effects, and only then: the time at which they are meant.
        """
        if self._effects is None:
            if time is not None:
                raise DataError("The hazard ratio is the same at all times; leave time out.")
            return self.linear_predictor(X, offset)
        if time is None:
            raise DataError("Effects are time-varying: say with time=… when.")
        if not isinstance(time, Real) or np.isnan(float(time)):
            raise DataError(f"time must be one number, the same for all rows, not {time!r}.")
        q = int(np.searchsorted(self._cuts, time, side="left"))
        return self._linear_predictors(X, offset)[:, q]

    def predict_survival(
        self, X: Any, times: Any, strata: Any = None, offset: Any = None
    ) -> np.ndarray:
        """Probability of no event up to each time.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        times : (T,) array
        strata : (n,) labels, optional
            Where the fit had strata.
        offset : (n,) array, optional

        Returns
        -------
        (n, T) array
            exp(−Λ₀(t) exp η), and with time-varying effects the sum of such terms over the
            intervals in the exponent; constant after the last event time and NaN after the last
            time at which anyone was seen, in the row's stratum where there are strata.
        """
        with np.errstate(over="ignore"):
            return np.exp(-np.exp(self._log_cumulative(X, times, strata, offset)))

    # -- how good, and whether at all ------------------------------------------------------------

    @overload
    def concordance(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        strata: Any = None,
        offset: Any = None,
        return_se: Literal[False] = False,
        cluster: Any = None,
        *,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> float: ...
    @overload
    def concordance(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        strata: Any = None,
        offset: Any = None,
        *,
        return_se: Literal[True],
        cluster: Any = None,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> tuple[float, float]: ...
    def concordance(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        strata: Any = None,
        offset: Any = None,
        return_se: bool = False,
        cluster: Any = None,
        *,
        ipcw: bool = False,
        tau: float | None = None,
    ) -> float | tuple[float, float]:
        """Concordance: of comparable pairs, how many fail in the order of their risks (Harrell).

        Equal risks count one half. With entry times two rows are compared at an event of one
        if the other is at risk then; with ``strata`` within strata; with time-varying effects by
        their risks at the time of the event. As R's ``survival::concordance``.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        y : structured array
            As in ``fit``.
        sample_weight : (n,) array, optional
        strata : (n,) labels, optional
        offset : (n,) array, optional
        return_se : bool
            Whether the standard error is wanted too: the infinitesimal jackknife's, as R's
            ``survival::concordance`` has it, weights of pairs taken as given.
        cluster : (n,) labels, optional
            With the standard error: rows that belong together, such as those of one person.
        ipcw : bool
            Uno's concordance: pairs weigh the inverse square of the probability of not having
            been censored just before their event, by the Kaplan–Meier curve of censoring in y
            (of each stratum its own), so that who is censored when has no say. As R's
            ``survival::concordance(timewt="n/G2")``; not with entry times.
        tau : float, optional
            Only events before it count; with ``ipcw`` where few are followed long.

        Returns
        -------
        float, or two of them with ``return_se``

        References
        ----------
        Harrell, Califf, Pryor, Lee and Rosati (1982), JAMA 247:2543–2546. Uno, Cai, Pencina,
        D'Agostino and Wei (2011), Statistics in Medicine 30:1105–1117.
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
        X: Any,
        y: Any,
        times: Any,
        sample_weight: Any = None,
        strata: Any = None,
        offset: Any = None,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """How well the risk tells those with the event by a time from those still free of it.

        Those who left before are made up for by the others: cases weigh the inverse of the
        probability of not having been censored, by the Kaplan–Meier curve of censoring in y.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
        y : structured array
            As in ``fit``; without entry times.
        times : (T,) array
        sample_weight : (n,) array, optional
        strata : (n,) labels, optional
            Where the fit had strata: risks are compared across them, baseline included.
        offset : (n,) array, optional
        level : float
            Of the intervals, symmetric on the logit scale.

        Returns
        -------
        DataFrame
            Indexed by time; columns ``auc``, ``se`` (the infinitesimal jackknife's, the
            estimation of the censoring curve included, the coefficients taken as given),
            ``lower``, ``upper``.

        Raises
        ------
        DataError
            Entry times; a time by which nobody had the event or after which nobody was seen.

        References
        ----------
        Uno, Cai, Tian and Wei (2007), JASA 102:527–537. Hung and Chiang (2010), Can J Stat
        38:8–26.
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
        risk = np.where(unknown, -np.inf, risk)  # rows without weight are in no pair
        return auc_table(risk, time, event, weight, times, level)

    def test_proportionality(self, transform: Any = "km") -> pd.DataFrame:
        """Score test of each effect against one that changes as β + θ g(t), and of all together.

        Parameters
        ----------
        transform : {"km", "identity", "log", "rank"} or callable
            g(t): one minus the Kaplan–Meier curve just before t (default), t, log t, the rank of
            t among all times, or a function of an array of times. The curve and the ranks count
            rows, whatever their weights, as R's do.

        Returns
        -------
        DataFrame
            One row a coefficient and ``GLOBAL``; columns ``chisq``, ``df``, ``p``. A small p says
            that the hazard ratio changes with time. The same numbers as R's
            ``survival::cox.zph(fit, transform, terms=FALSE)`` from version 3.0 on. With a normal
            prior, what its pull on the estimates does to the score is taken out (Neyman's C(α)
            test): to first order the numbers are those of a fit without it.

        References
        ----------
        Grambsch and Therneau (1994), Biometrika 81:515–526. Neyman (1959), Optimal asymptotic
        tests of composite statistical hypotheses, in Probability and Statistics (ed. Grenander).
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
