"""Base class of Cox and Fine–Gray models: strata and baseline hazards."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...data import refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.vector_checks import check_vector, label_strata, sort_labels
from ...design_matrix import Design
from ...errors import DataError
from ...fit import Problem
from ...infer.baseline_hazard import Baseline
from ...likelihoods import CoxLikelihood
from ...priors import Prior
from ...solve import Fit
from .fit_inputs_from_tables import outcome_of_table
from .fit_steps import Estimator
from .row_arguments import FitInputs
from .setting_types import MatrixLike
from .time_varying_effects import StepEffects
from .unavailable_attributes import computed_attribute

__all__ = ["ProportionalHazardsModel"]


def refuse_unobserved_gap(
    likelihood: CoxLikelihood, weights: np.ndarray, labels: list | None
) -> None:
    """Refuse competing events with infinite weights in later risk sets.

    Parameters
    ----------
    weights : (n,) array
        Row weights in the order of X.
    labels : list or None
        Labels of the strata by code.

    Raises
    ------
    DataError
        If no one is under observation at some time between a competing event and a later event
        of interest; the message names the stratum and time.
    """
    found = likelihood.cut_off(weights)
    if found is None:
        return
    stratum, time = found
    where = "" if labels is None else f" in stratum {labels[stratum]}"
    remedy = "" if labels is None else " Strata may be merged, too."
    raise DataError(
        f"Nobody, or hardly anyone, was under observation{where} at some time between competing "
        f"events up to time {time:g} and later events of interest: what the former weigh in later "
        f"risk sets is unknown. Leave out the rows whose time is at most {time:g} (the model is "
        f"then of people without an event until then).{remedy}"
    )


class ProportionalHazardsModel(Estimator):
    """Base of the models with a baseline hazard in each stratum."""

    # Name of the column of cumulative hazards.
    _cumulative_name = "cumulative_hazard"
    # Whether exp(−hazard) is survival, so that it can be conditional on survival so far.
    _survival_is_conditional = True
    _strata_labels: list | None
    _kept_baseline: Baseline | None
    # The last time at which anyone was under observation, for each stratum.
    _last_seen: np.ndarray
    # Effects that change with time, and the times at which they change.
    _effects: StepEffects | None = None
    _cuts: np.ndarray
    # The event of interest of Fine–Gray models.
    _cause: int | None = None

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

    def _baseline_steps(self) -> pd.DataFrame:
        """Tabulate the steps of the baseline hazard, for `curves.baseline_hazard`."""
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
            Further arguments of ``validation.concordance``.

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
        return self._accessor("validation").concordance(
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

    # Kinds of residuals; Fine–Gray models have fewer.
    _residual_kinds: tuple[str, ...] = (
        "martingale", "deviance", "score", "dfbeta", "dfbetas", "schoenfeld", "scaled_schoenfeld",
    )  # fmt: skip

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
