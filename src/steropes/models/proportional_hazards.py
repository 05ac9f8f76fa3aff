"""Base class of Cox and Fine–Gray models: strata, baseline hazards, quantiles and residuals."""

from __future__ import annotations

from typing import Any, Literal, get_args, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..data import refuse_other_order
from ..data.input_types import LabelsLike, VectorLike
from ..data.vector_checks import check_vector, label_strata, sort_labels
from ..design import Design
from ..errors import DataError
from ..fit import Problem
from ..infer.baseline_hazard import Baseline
from ..likelihoods import CoxLikelihood
from ..priors import Prior
from ..solve import Fit
from .base import PenalizedModel
from .computed_attributes import computed_attribute
from .formula_fits import outcome_of_table
from .late_entry_checks import refuse_unobserved_gap
from .residuals import Params, SurvivalResidualKind, survival_residuals
from .row_arguments import FitInputs
from .setting_types import MatrixLike
from .time_quantiles import TimeQuantile, hazards_before, quantile_limits, quantile_times

__all__ = ["ProportionalHazardsModel"]


class ProportionalHazardsModel(PenalizedModel):
    """Base of the models with a baseline hazard in each stratum."""

    # Name of the column of cumulative hazards.
    _cumulative_name = "cumulative_hazard"
    # Whether exp(−hazard) is survival, so that it can be conditional on survival so far.
    _survival_is_conditional = True
    _strata_labels: list | None
    _kept_baseline: Baseline | None
    # The last time at which anyone was under observation, for each stratum.
    _last_seen: np.ndarray
    # Defined by the subclasses.
    concordance: Any
    _survival_table: Any

    def _read_strata(self, strata: LabelsLike | None, n: int) -> np.ndarray | None:
        """Convert strata to codes and keep their labels for predictions."""
        self._strata_labels = None
        if strata is None:
            return None
        codes, self._strata_labels = sort_labels(*label_strata(strata, n))
        return codes

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        """Assemble the problem; refuse interrupted observation."""
        problem = super()._make_problem(design, inputs, like)
        assert isinstance(problem.likelihood, CoxLikelihood)
        refuse_unobserved_gap(problem.likelihood, problem.weights, self._strata_labels)
        return problem

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        """Set the fitted attributes and reset the cached baseline."""
        super()._store_fit(problem, prior, fit)
        assert isinstance(problem.likelihood, CoxLikelihood)
        self._last_seen = problem.likelihood.last_seen(problem.weights)
        self._kept_baseline = None

    # -- baseline and curves -------------------------------------------------------------------

    def _baseline(self) -> Baseline:
        """Return the baseline hazard, estimated at the first call."""
        check_is_fitted(self)
        if self._kept_baseline is None:
            self._kept_baseline = Baseline(self._require_data("the baseline"), self._beta)
        return self._kept_baseline

    @property
    @computed_attribute
    def baseline_hazard_(self) -> pd.DataFrame:
        """Steps of the baseline hazard at X = 0 and offset 0, and their cumulative sum.

        Strata are sorted by label if the labels can be ordered.
        """
        code, time, hazard, cumulative = self._baseline().steps()
        table: dict[str, np.ndarray] = {
            "time": time,
            "hazard": hazard,
            self._cumulative_name: cumulative,
        }
        if self._strata_labels is not None:
            labels = np.empty(len(self._strata_labels), object)
            labels[:] = self._strata_labels
            table = {"stratum": labels[code], **table}
        return pd.DataFrame(table)

    @property
    @computed_attribute
    def unique_times_(self) -> np.ndarray:
        """Distinct event times of the fit (of all strata), ascending."""
        return np.unique(self._baseline().steps()[1])

    def _known_times(self, times: np.ndarray) -> np.ndarray:
        """Return the times at which all strata of the fit were under observation."""
        if self._strata_labels is None:
            return times
        ends = self._last_seen[np.isfinite(self._last_seen)]
        return times[times <= ends.min()] if len(ends) else times

    def _linear_predictors(self, X: MatrixLike, offset: VectorLike | None) -> np.ndarray:
        """Compute η in each interval of time in which effects are constant, (n, Q)."""
        return self.linear_predictor(X, offset)[:, None]

    def _log_cumulative(
        self, X: MatrixLike, times: ArrayLike, strata: LabelsLike | None, offset: VectorLike | None
    ) -> np.ndarray:
        """Compute log cumulative hazards, (n, T); NaN after the last observed time."""
        refuse_other_order(X, strata=strata)
        eta = self._linear_predictors(X, offset)
        times = check_vector(np.atleast_1d(times), None, "times")
        codes = self._stratum_codes(X, strata, len(eta))
        out = self._baseline().log_cumulative_of(eta, codes, times)
        out[times > self._last_seen[codes][:, None]] = np.nan
        return out

    @overload
    def predict_quantile(
        self,
        X: MatrixLike,
        q: ArrayLike = 0.5,
        *,
        level: None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        after: ArrayLike | None = None,
    ) -> np.ndarray: ...
    @overload
    def predict_quantile(
        self,
        X: MatrixLike,
        q: ArrayLike = 0.5,
        *,
        level: float,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
    ) -> TimeQuantile: ...
    def predict_quantile(
        self,
        X: MatrixLike,
        q: ArrayLike = 0.5,
        *,
        level: float | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        after: ArrayLike | None = None,
    ) -> np.ndarray | TimeQuantile:
        """Predict the time by which a share q has had the event; by default the median.

        This is the first event time at which the event's probability is q or more, as in R's
        ``quantile(survfit(fit, newdata, conf.type="log-log"))``.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        q : number or (m,) array
            Between 0 and 1.
        level : float, optional
            Confidence level of intervals, whose ends are the times at which the limits of the
            curve reach q.
        strata : (n,) labels, optional
            Required if the model was fitted with strata.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        after : number or (n,) array, optional
            For Cox models and without ``level``: time that each person has already lived. The
            quantile is then that of the time of the event given survival to ``after``, counted
            from time 0.

        Returns
        -------
        (n, m) array, or (n,) for a single q
            NaN if the curve ends before q is reached. With ``level`` a named tuple of such
            arrays: ``estimate``, ``lower``, ``upper``. If the curve's lower limit never reaches
            q, the quantile's lower limit is the last time at which anyone of the row's stratum
            was under observation; if the upper limit never does, its upper limit is infinite.

        Raises
        ------
        DataError
            If q is not between 0 and 1, a stratum is unknown, or ``after`` does not apply.

        References
        ----------
        Brookmeyer and Crowley (1982), Biometrics 38:29–41.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
        >>> model.predict_quantile([[0.0], [1.0]], 0.25).tolist()
        [3.0, 3.0]
        """
        check_is_fitted(self)
        refuse_other_order(X, strata=strata)
        points = check_vector(np.atleast_1d(q), None, "q")
        if not ((points > 0) & (points < 1)).all():
            raise DataError("q must be between 0 and 1.")
        eta = self._linear_predictors(X, offset)
        codes = self._stratum_codes(X, strata, len(eta))
        single = np.ndim(q) == 0
        if after is not None and (level is not None or not self._survival_is_conditional):
            raise DataError(
                "after= is for quantiles of Cox models without limits: competing events or the "
                "limits of conditional curves are not available."
            )
        if level is None:
            baseline, past = self._baseline(), None
            if after is not None:
                past = hazards_before(baseline, eta, codes, after, self._last_seen)
            found = quantile_times(baseline, eta, codes, points, self._last_seen, past)
            return found[:, 0] if single else found
        table = self._survival_table(X, level, strata, offset)
        limits = quantile_limits(table, codes, points, self._last_seen)
        return TimeQuantile(*(x[:, 0] for x in limits)) if single else limits

    def score(
        self,
        X: MatrixLike,
        y: VectorLike | None = None,
        sample_weight: VectorLike | None = None,
        strata: LabelsLike | None = None,
        offset: VectorLike | None = None,
        **given: object,
    ) -> float:
        """Compute the concordance; higher is better.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Design, (n, p)
            Covariates, with the columns of the fit.
        y : structured array
            As in ``fit``.
            Default the outcome of the formula, of an estimator fitted by one.
        sample_weight : (n,) array, optional
            Nonnegative row weights. Default 1.
        strata : (n,) labels, optional
            Labels of strata, within which pairs are compared.
        offset : (n,) array, optional
            Known term of the linear predictor. Default 0.
        **given
            Further arguments of ``concordance``.

        Returns
        -------
        float
            The concordance.

        Notes
        -----
        The metadata routing of scikit-learn passes ``strata`` and ``offset`` after a call such as
        ``set_score_request(strata=True)``.
        """
        y = outcome_of_table(self, X, y)
        return self.concordance(
            X, y, sample_weight=sample_weight, strata=strata, offset=offset, **given
        )

    def _stratum_codes(self, X: MatrixLike, strata: LabelsLike | None, n: int) -> np.ndarray:
        """Convert strata of new rows to the codes of the fit."""
        strata = self._formula_vector("strata", X, strata)
        if self._strata_labels is None:
            if strata is not None:
                raise DataError("The model was fitted without strata; leave strata out.")
            return np.zeros(n, np.int64)
        if strata is None:
            raise DataError(
                "The model was fitted with strata; pass those of the new rows: strata=…"
            )
        codes, labels = label_strata(strata, n)
        known = {label: code for code, label in enumerate(self._strata_labels)}
        for i, label in enumerate(labels):
            if label not in known:
                row = int((codes == i).argmax())
                raise DataError(f"Stratum {label!r} of row {row} was not there in the fit.")
        return np.array([known[label] for label in labels], np.int64)[codes]

    # -- residuals -----------------------------------------------------------------------------

    _residual_kinds: tuple[str, ...] = get_args(SurvivalResidualKind)

    @overload
    def residuals(
        self, kind: Literal["martingale", "deviance"] = "martingale", params: Params = None
    ) -> np.ndarray: ...
    @overload
    def residuals(
        self,
        kind: Literal["score", "dfbeta", "dfbetas", "schoenfeld", "scaled_schoenfeld"],
        params: Params = None,
    ) -> pd.DataFrame: ...
    def residuals(
        self, kind: SurvivalResidualKind = "martingale", params: Params = None
    ) -> np.ndarray | pd.DataFrame:
        """Compute residuals of the rows of the fit, as R's ``residuals.coxph``.

        Parameters
        ----------
        kind : {"martingale", "deviance", "score", "dfbeta", "dfbetas", "schoenfeld", \
                "scaled_schoenfeld"}
            ``"martingale"``: events minus expected events. ``"deviance"``: martingale residuals
            transformed to be symmetric about zero (not for Fine–Gray models). ``"score"``: the
            row's contribution to the score, ∫ (x − x̄(t)) dM(t); for Fine–Gray models including
            the contribution of the censoring weights. ``"dfbeta"``: the approximate change of
            the coefficients if the row were removed, its score times the inverse information
            (the infinitesimal jackknife). ``"dfbetas"``: the same divided by the coefficients'
            standard errors. ``"schoenfeld"``: x − x̄(t) of each event.
            ``"scaled_schoenfeld"``: Schoenfeld residuals times the covariance matrix and the
            number of events, plus the coefficient, which estimates β(t) (Grambsch and Therneau
            1994). All but ``"dfbeta"`` and ``"dfbetas"`` refer to one copy of a row regardless of
            its weight; rows with a weight of zero have NaN.
        params : name, position, sequence of them, or mask, optional
            Coefficients to include; default all. Positions are those of `confint`.

        Returns
        -------
        (n,) array, or DataFrame
            ``"martingale"`` and ``"deviance"``: an array in the order of X's rows. ``"score"``,
            ``"dfbeta"`` and ``"dfbetas"``: n rows and a column for each coefficient. Schoenfeld
            residuals: a row for each event with a positive weight, indexed by time (and stratum);
            tied events are in the order of X's rows.

        Raises
        ------
        DataError
            For ``"dfbeta"``, ``"dfbetas"`` and ``"scaled_schoenfeld"`` under a Laplace prior, or
            if the model was unpickled without its data.

        References
        ----------
        Therneau, Grambsch and Fleming (1990), Biometrika 77:147–160. Schoenfeld (1982),
        Biometrika 69:239–241. Therneau and Grambsch (2000), §4 and §6.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
        >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
        >>> abs(round(float(model.residuals("martingale").sum()), 6))
        0.0
        >>> model.residuals("schoenfeld").index.tolist()
        [2.0, 3.0, 5.0]
        """
        problem = self._require_data("residuals")
        return survival_residuals(
            self, problem, kind, params, self._residual_kinds, self._events, self._strata_labels
        )

    def _events(self, problem: Problem) -> np.ndarray:
        """Return 1 for each row of X with the event and 0 for the others."""
        assert isinstance(problem.likelihood, CoxLikelihood)
        return problem.likelihood.outcome()[1]

    def _effective_sample_size(self, problem: Problem) -> float:
        """Return the total weight of the events."""
        return float(problem.weights[self._events(problem) != 0].sum())

    # -- state ---------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, object]:
        """Return the state without data but with the baseline."""
        if self.__sklearn_is_fitted__():
            self._baseline()  # predictions of an unpickled model need it
        return super().__getstate__()
