"""Families of models of the time to an event, and of cases and controls within strata."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from ...data import check_survival
from ...data.survival_outcome import Surv, SurvivalOutcome
from ...data.weighted_quantiles import weighted_quantiles
from ...errors import DataError
from ...fit import Problem
from ...infer.baseline_hazard import Baseline
from ...infer.brier_score import brier_table
from ...infer.concordance import concordance_index
from ...infer.rounding_ties import merge_rounding_ties
from ...likelihoods import CoxLikelihood, FineGrayLikelihood
from ...likelihoods.conditional_logistic_likelihood import ConditionalLogisticLikelihood
from ...likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood
from ...solve.linear_predictor import linear_predictor
from .family import CAUSE, COMPETING, Family, ValidationData
from .links import HAZARD, LOG, LOGIT
from .performance_measures import (
    auc,
    concordance_of_times,
    recalibration,
)

__all__ = ["CONDITIONAL", "COUNTS_WITHIN_STRATA", "COX", "FINE_GRAY", "POOLED"]

# Quantiles of the event times over which the Brier score of a survival model is integrated.
EVENT_TIME_QUANTILES = np.linspace(0.05, 0.9, 18)


class CoxFamily(Family):
    """Times to an event with the log hazard ratio as linear predictor.

    The link is that of a log cumulative hazard and the risk of the event by a time.
    """

    link = HAZARD
    ratio = "hazard ratio"
    scores = ("deviance", "concordance", "brier")
    outcome_settings = ("ties",)
    takes_callables = has_measures = has_times = True

    def outcome_of_fit(self, problem: Problem) -> tuple[Any, np.ndarray | None]:
        """Return times, events and entry times, and the strata if there are several."""
        likelihood = problem.likelihood
        assert isinstance(likelihood, CoxLikelihood)
        time, event, entry = likelihood.outcome()
        strata = np.zeros(len(time), np.int64)
        strata[likelihood.row_of_x] = likelihood.stratum
        code = (event == 1).astype(np.int64) * CAUSE
        return SurvivalOutcome(time, code, entry), strata if strata.any() else None

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the concordance, Nagelkerke's R² and the recalibrated slope."""
        r2, _, slope = recalibration(data, eta, weight)
        return {"concordance": self.concordance(data, eta, weight), "r2": r2, "slope": slope}

    def concordance(self, data: ValidationData, eta: np.ndarray, weight: np.ndarray) -> float:
        """Compute the share of comparable pairs that η orders; NaN if there are none."""
        return concordance_of_times(data, eta, data.y.time, data.y.event, weight)

    def held_out_concordance(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the concordance of the held-out rows."""
        used, (y, strata) = np.flatnonzero(held > 0), self.outcome_of_fit(part)
        own = None if strata is None else strata[used]
        data = ValidationData(self, None, y.at(used), own)
        return self.concordance(data, self.predictors_of_fit(part, beta)[used], held[used])

    def held_out_brier(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the Brier score, integrated over time."""
        used = np.flatnonzero(held > 0)
        time, event, entry = self.outcome_of_fit(part)[0]
        if entry is not None:
            raise DataError("The Brier score is not defined with entry times; leave entry out.")
        likelihood = part.likelihood
        assert isinstance(likelihood, CoxLikelihood)
        codes = np.zeros(len(time), np.int64)
        codes[likelihood.row_of_x] = likelihood.stratum
        weight = np.maximum(part.weights, held)
        counted = weight > 0
        seen = min(time[used].max(), likelihood.last_seen(part.weights)[codes[used]].min())
        if not np.isfinite(seen):
            raise DataError("A fold holds out a whole stratum, of which there is no baseline.")
        own = counted & (event == 1)
        times = weighted_quantiles(time[own], weight[own], EVENT_TIME_QUANTILES)
        times = np.unique(times[times < seen])
        if len(times) == 0:
            raise DataError("A fold holds out nobody who is observed until the first events.")
        hazards = Baseline(part, beta)
        # Baselines are those at X = 0, and linear predictors are relative to the columns' centres.
        eta = self.predictors_of_fit(part, beta)[used] - Baseline._at_zero(part, beta)[0]
        risk = -np.expm1(-np.exp(hazards.log_cumulative_of(eta[:, None], codes[used], times)))
        everyone, here = Surv(time[counted], event[counted]), Surv(time[used], event[used])
        table = brier_table(risk, here, times, 1, held[used], everyone, weight[counted])
        score = table["brier"].to_numpy()
        if len(times) == 1:
            return -float(score[0])
        return -float(np.trapezoid(score, times) / (times[-1] - times[0]))

    def read_outcome(self, model: Any, y: Any) -> Any:
        """Read a survival outcome."""
        return check_survival(y, len(y))

    def risk(self, fit: Any, new: np.ndarray, at: float | None) -> np.ndarray:
        """Predict the risk of the event by the time ``at``."""
        return np.asarray(1.0 - fit.predict_survival(new, [at])[:, 0])


class FineGrayFamily(CoxFamily):
    """Times to an event of interest or a competing one."""

    ratio = "subdistribution hazard ratio"

    def outcome_of_fit(self, problem: Problem) -> tuple[Any, np.ndarray | None]:
        """Return times, events with the code of competing ones, entry times, and strata."""
        likelihood = problem.likelihood
        assert isinstance(likelihood, FineGrayLikelihood)
        y, strata = super().outcome_of_fit(problem)
        y.event[likelihood.row_of_x[likelihood.competing]] = COMPETING
        return y, strata

    def concordance(self, data: ValidationData, eta: np.ndarray, weight: np.ndarray) -> float:
        """Compute the concordance, with people with a competing event outliving everyone.

        References
        ----------
        Wolbers and others (2009), Epidemiology 20:555–561.
        """
        time, event, _ = data.y
        time = np.where(event == COMPETING, np.nextafter(time.max(), np.inf), time)
        return concordance_of_times(data, eta, time, (event == CAUSE).astype(np.int64), weight)

    def read_outcome(self, model: Any, y: Any) -> Any:
        """Read a survival outcome, with the code 1 for the model's cause."""
        time, event, entry = check_survival(y, len(y), competing=True)
        code = np.where(event == model._cause, CAUSE, np.where(event > 0, COMPETING, 0))
        return SurvivalOutcome(time, code, entry)

    def risk(self, fit: Any, new: np.ndarray, at: float | None) -> np.ndarray:
        """Predict the cumulative incidence at the time ``at``."""
        return np.asarray(fit.predict_cumulative_incidence(new, [at])[:, 0])


class PooledFamily(Family):
    """Events in intervals of time, each with log odds as linear predictor."""

    link = LOGIT
    ratio = "odds ratio"
    scores = ("deviance", "auc", "brier")
    scores_changing_effects = True

    def held_out_auc(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the area under the curve that separates intervals with the event from others."""
        return auc(*person_intervals(part, beta, held))

    def held_out_brier(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute minus the mean over the intervals that people begin at risk."""
        y, eta, weight = person_intervals(part, beta, held)
        return -float(np.average((y - expit(eta)) ** 2, weights=weight))


class ConditionalFamily(Family):
    """Cases and controls of strata."""

    link = LOGIT
    ratio = "odds ratio"
    scores = ("deviance", "concordance")

    def held_out_concordance(self, part: Problem, beta: np.ndarray, held: np.ndarray) -> float:
        """Compute the concordance of cases and controls of the same stratum."""
        return concordance_within_strata(part, beta, held)


class CountsWithinStrata(Family):
    """Counts within sets of rows or people, whose sums are given."""

    link = LOG
    ratio = "rate ratio"


COX, FINE_GRAY = CoxFamily(), FineGrayFamily()
POOLED, CONDITIONAL = PooledFamily(), ConditionalFamily()
COUNTS_WITHIN_STRATA = CountsWithinStrata()


def person_intervals(
    problem: Problem, beta: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return event, linear predictor and weight of each interval that someone begins at risk.

    Parameters
    ----------
    problem : Problem
        The problem of a pooled logistic model.
    beta : (p,) array
        Coefficients in the columns' units.
    weight : (n,) array
        Weights of people; those without weight are left out.
    """
    likelihood = problem.likelihood
    assert isinstance(likelihood, PooledLogisticLikelihood)
    to_host = likelihood.backend.to_host
    stacked = linear_predictor(problem, beta * problem.design.scale)
    found = []
    for at, eta, at_risk in likelihood.intervals.predictors(*likelihood.split(stacked)):
        used = to_host(at_risk)[:, :, 0] & (weight[at] > 0)[:, None]
        person, k = np.nonzero(used)
        row = np.arange(at.start, at.stop)[person]
        event = (likelihood.event[row] != 0) & (likelihood.last[row] - 1 == k)
        share = np.broadcast_to(to_host(likelihood.intervals.shares(at)), (*used.shape, 1))
        w = weight[row] * share[person, k, 0]
        found.append((event.astype(np.int64), to_host(eta)[person, k, 0], w))
    event, eta, w = (np.concatenate(x) for x in zip(*found, strict=True))
    return event, eta, w


def concordance_within_strata(problem: Problem, beta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the share of pairs of a case and a control of a stratum that η orders; NaN if none.

    Pairs have the product of the rows' weights, or in exact models the weight of the stratum.

    Parameters
    ----------
    problem : Problem
        The problem of a conditional logistic model.
    beta : (p,) array
        Coefficients in X's units.
    weight : (n,) array
    """
    likelihood, rows = problem.likelihood, problem.likelihood.row_of_x
    if isinstance(likelihood, ConditionalLogisticLikelihood):
        case = likelihood.case
        strata = np.repeat(np.arange(len(likelihood.pointers) - 1), np.diff(likelihood.pointers))
        w = np.sqrt(weight[rows])
    else:
        assert isinstance(likelihood, CoxLikelihood)
        case, strata, w = likelihood.event, likelihood.stratum, weight[rows]
    used = w > 0
    case = case[used].astype(np.int64)
    eta = merge_rounding_ties(CONDITIONAL.predictors_of_fit(problem, beta)[rows][used])
    try:
        return concordance_index(eta, 2.0 - case, case, None, strata[used], w[used])
    except DataError:  # no pairs
        return np.nan
