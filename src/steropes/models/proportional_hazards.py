"""What Cox's and Fine and Gray's models share: strata by label, baseline, robust covariance."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..data import refuse_other_order
from ..data.vector_checks import check_vector, label_strata, sort_labels
from ..design import Design
from ..errors import DataError
from ..infer.baseline_hazard import Baseline
from ..likelihoods import CoxLikelihood
from ..priors import Prior
from ..solve import Fit
from .base import PenalizedModel, Problem
from .computed_attributes import computed_attribute
from .fit_inputs import FitInputs
from .late_entry_checks import refuse_unobserved_gap
from .residuals import Params, SurvivalResidualKind, survival_residuals
from .time_quantiles import TimeQuantiles

__all__ = ["ProportionalHazardsModel"]


class ProportionalHazardsModel(TimeQuantiles, PenalizedModel):
    """Base of the models with a baseline hazard in each stratum."""

    _cumulative_name = "cumulative_hazard"
    _strata_labels: list | None
    _kept_baseline: Baseline | None
    _last_seen: np.ndarray  # the last time at which anyone was seen, by stratum
    concordance: Any

    def _read_strata(self, strata: Any, n: int) -> np.ndarray | None:
        """Codes of the strata, whose labels are kept for prediction."""
        self._strata_labels = None
        if strata is None:
            return None
        codes, self._strata_labels = sort_labels(*label_strata(strata, n))
        return codes

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        problem = super()._make_problem(design, inputs, like)
        assert isinstance(problem.likelihood, CoxLikelihood)
        refuse_unobserved_gap(problem.likelihood, problem.weights, self._strata_labels)
        return problem

    def _store_fit(self, problem: Problem, prior: Prior | None, fit: Fit) -> None:
        super()._store_fit(problem, prior, fit)
        assert isinstance(problem.likelihood, CoxLikelihood)
        self._last_seen = problem.likelihood.last_seen(problem.weights)
        self._kept_baseline = None

    # -- baseline and curves -------------------------------------------------------------------

    def _baseline(self) -> Baseline:
        check_is_fitted(self, "coef_")
        if self._kept_baseline is None:
            self._kept_baseline = Baseline(self._require_data("the baseline"), self._beta)
        return self._kept_baseline

    @property
    @computed_attribute
    def baseline_hazard_(self) -> pd.DataFrame:
        """Steps of the baseline hazard at X = 0 and offset 0, and their running sum.

        Strata are in the order of their labels, where these have one.
        """
        code, time, hazard, cumulative = self._baseline().steps()
        table: dict[str, Any] = {"time": time, "hazard": hazard, self._cumulative_name: cumulative}
        if self._strata_labels is not None:
            labels = np.empty(len(self._strata_labels), object)
            labels[:] = self._strata_labels
            table = {"stratum": labels[code], **table}
        return pd.DataFrame(table)

    def _linear_predictors(self, X: Any, offset: Any) -> np.ndarray:
        """η in each interval of time in which effects are constant, (n, Q)."""
        return self.linear_predictor(X, offset)[:, None]

    def _log_cumulative(self, X: Any, times: Any, strata: Any, offset: Any) -> np.ndarray:
        """Log cumulative hazard of each row at each time, (n, T); NaN where no one was seen."""
        refuse_other_order(X, strata=strata)
        eta = self._linear_predictors(X, offset)
        times = check_vector(np.atleast_1d(times), None, "times")
        codes = self._stratum_codes(X, strata, len(eta))
        out = self._baseline().log_cumulative_of(eta, codes, times)
        out[times > self._last_seen[codes][:, None]] = np.nan
        return out

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        strata: Any = None,
        offset: Any = None,
        **given: Any,
    ) -> float:
        """Concordance, the higher the better, as searches over settings want it.

        Parameters
        ----------
        X, y, sample_weight, strata, offset, **given
            As of ``concordance``. scikit-learn routes those that it sees by name, as
            ``set_score_request(strata=True)`` asks it to.
        """
        return self.concordance(
            X, y, sample_weight=sample_weight, strata=strata, offset=offset, **given
        )

    def _stratum_codes(self, X: Any, strata: Any, n: int) -> np.ndarray:
        """Codes of strata that the fit has seen."""
        strata = self._formula_vector("strata", X, strata)
        if self._strata_labels is None:
            if strata is not None:
                raise DataError("The model was fitted without strata; leave strata out.")
            return np.zeros(n, np.int64)
        if strata is None:
            raise DataError("The model was fitted with strata: say with strata=… which is whose.")
        codes, labels = label_strata(strata, n)
        known = {label: code for code, label in enumerate(self._strata_labels)}
        for i, label in enumerate(labels):
            if label not in known:
                row = int((codes == i).argmax())
                raise DataError(f"Stratum {label!r} of row {row} was not there in the fit.")
        return np.array([known[label] for label in labels], np.int64)[codes]

    # -- residuals -----------------------------------------------------------------------------

    _residual_kinds: tuple[str, ...] = get_args(SurvivalResidualKind)

    def residuals(self, kind: SurvivalResidualKind = "martingale", params: Params = None) -> Any:
        """Residuals of the rows that the model was fitted to, as R's ``residuals.coxph``.

        Parameters
        ----------
        kind : str
            ``"martingale"``: events minus expected events. ``"deviance"``: the same, made
            symmetric about zero (not of Fine–Gray models). ``"score"``: the row's part of the
            score, ∫ (x − x̄(t)) dM(t); of Fine–Gray models with the part of the censoring
            weights. ``"dfbeta"``: about how much the coefficients would change without the row,
            its score times the inverse information (the infinitesimal jackknife).
            ``"schoenfeld"``: x − x̄(t) of each event. ``"scaled_schoenfeld"``: the same times the
            covariance matrix and the number of events, plus the coefficient: about β(t) (Grambsch
            and Therneau 1994). All but ``"dfbeta"`` are of one copy of a row, whatever its
            weight; rows whose weight is zero have no part in the fit and NaN.
        params : name, position, sequence of them, or mask, optional
            Coefficients whose residuals are wanted; default all. Positions are those of `confint`.

        Returns
        -------
        (n,) array, or DataFrame
            ``"martingale"`` and ``"deviance"``: in the rows of X. ``"score"`` and ``"dfbeta"``:
            n rows, a column a coefficient. Schoenfeld residuals: a row an event (whose weight is
            not zero) by time, which is the index, with the stratum before it where there are
            strata; tied events in the order of X's rows.

        Raises
        ------
        DataError
            ``"dfbeta"`` or ``"scaled_schoenfeld"`` under a Laplace prior; a fit that was
            unpickled, without its data.

        References
        ----------
        Therneau, Grambsch and Fleming (1990), Biometrika 77:147–160. Schoenfeld (1982),
        Biometrika 69:239–241. Therneau and Grambsch (2000), §4 and §6.
        """
        problem = self._require_data("residuals")
        return survival_residuals(self, problem, kind, params, self._residual_kinds)

    def _events(self, problem: Any) -> np.ndarray:
        """1 for each row of X with the event."""
        return problem.likelihood.outcome()[1]

    def _effective_sample_size(self, problem: Problem) -> float:
        return float(problem.weights[self._events(problem) != 0].sum())

    # -- state ---------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "coef_"):
            self._baseline()  # what predictions need of the data goes into a pickle
        return super().__getstate__()
