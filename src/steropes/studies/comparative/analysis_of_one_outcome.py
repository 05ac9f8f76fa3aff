"""One outcome of a question by one analysis, from the steps that outcomes share to the estimate.

Nothing here queries the database, so that several processes can analyse outcomes at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.covariates.weighted_moments import CovariateMoments
from steropes.designs.effects.absolute_effects import (
    AbsoluteEffect,
    absolute_effect,
    events_by_day,
)
from steropes.designs.effects.effect_estimate import estimate_effect, reason_without_estimate
from steropes.designs.effects.effect_estimate_result import Estimate
from steropes.designs.effects.outcome_regression import clusters_of
from steropes.designs.effects.outcome_summaries import (
    arm_counts,
    curve_table,
    detectable_ratio,
    follow_up,
    informative_events,
)
from steropes.designs.propensity.covariate_balance import Balance, balance_of_rows
from steropes.designs.propensity.tied_scores import tied_share
from steropes.designs.propensity.weights_by_estimand import set_weights
from steropes.errors import DataError
from steropes.studies.cohorts.attrition import Attrition
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.cohorts.study_populations import StudyPopulation, study_population
from steropes.studies.cohorts.two_cohort_entry import Comparison
from steropes.studies.comparative.adjustment import AdjustedPopulation, adjust, unadjusted
from steropes.studies.comparative.analysis_result import AnalysisResult, Shared
from steropes.studies.comparative.grid_questions_and_analyses import Question, StudyAnalysis
from steropes.studies.comparative.outcome_specific_propensity_scores import scores_of_outcome
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics, DiagnosticThresholds
from steropes.studies.diagnostics.convergence_diagnostic import convergence, quiet_fits
from steropes.studies.diagnostics.diagnostic import ComparedPeople
from steropes.studies.diagnostics.diagnostic_catalogue import further_diagnostics

__all__ = ["Prepared", "adjusted_people_at_risk", "balance_of"]


@dataclass(frozen=True, repr=False, eq=False)
class Prepared:
    """A question and an analysis, with the results that its outcomes share.

    Attributes
    ----------
    analysis : StudyAnalysis
        The analysis, without interactions and exact matching on covariates that no one has.
    notes : tuple of DataNote
        Irregularities of the data of the comparison and its covariates.
    """

    question: Question
    analysis: StudyAnalysis
    cohorts: CohortTable
    comparison: Comparison
    shared: Shared
    thresholds: DiagnosticThresholds
    notes: tuple[DataNote, ...] = ()

    @cached_property
    def _covariates(self) -> CovariateMoments | None:
        """Moments of the covariates, which the balance of all outcomes uses."""
        features = self.shared.features
        return None if features is None else CovariateMoments(features)

    def packed(self) -> Prepared:
        """Return a copy with the cohorts of its outcomes only, for other processes."""
        needed = {o.id for o in self.question.outcomes}
        if self.analysis.competing is not None:
            needed.add(self.analysis.competing)
        return replace(self, cohorts=self.cohorts.only(sorted(needed)))

    def at_risk(self, outcome: int) -> StudyPopulation:
        """Determine the people at risk of an outcome, whether they have a score or not.

        Raises
        ------
        DataError
            Cohorts or settings that cannot be used.
        """
        analysis = self.analysis
        own = {o.id: o for o in self.question.outcomes}.get(outcome)
        return study_population(
            self.comparison,
            self.cohorts,
            outcome,
            analysis.at_risk if own is None else own.at_risk(analysis.at_risk),
            competing=analysis.competing,
            rules=analysis.population,
        )

    def answer(self, outcome: int, population: StudyPopulation | None = None) -> AnalysisResult:
        """Answer the question for one outcome.

        ``estimate.note`` contains the reason if there is no estimate.

        Parameters
        ----------
        outcome : int
            Id of the outcome's cohort.
        population : StudyPopulation, optional
            The result of `at_risk`, if it is known from an analysis with the same rules.

        Raises
        ------
        DataError
            Cohorts or settings that cannot be used.
        """
        if population is None:
            population = self.at_risk(outcome)
        if self.analysis.selection is None:
            return self._answered(outcome, population)
        shared = scores_of_outcome(population, self.shared, self.analysis)
        own = replace(self, shared=shared)
        vars(own)["_covariates"] = self._covariates  # Those of all outcomes.
        return own._answered(outcome, population)

    def _answered(self, outcome: int, population: StudyPopulation) -> AnalysisResult:
        """Answer the question for one outcome with the scores at hand."""
        shared, analysis = self.shared, self.analysis
        if shared.scores is not None:
            population = _scored(population, shared)
        people = pd.DataFrame(population.people)
        adjusted, note = adjusted_people(people, population.attrition, shared, analysis)
        compared = people
        if len(adjusted.kept) < len(people):
            compared = people.iloc[adjusted.kept].reset_index(drop=True)
        note = shared.note or note or reason_without_estimate(compared)
        counts = arm_counts(compared, analysis.outcome_model.family.days)
        weights = _curve_weights(compared, adjusted)
        estimate, absolute = self._estimate(compared, adjusted, outcome, note, weights)
        balance = None
        if analysis.judges_balance and not note and self._covariates is not None:
            balance = balance_of(self._covariates, people, adjusted, self.thresholds)
        annotated = People(_annotated(compared, adjusted, shared))
        return AnalysisResult(
            question=self.question,
            outcome=outcome,
            analysis=analysis,
            names={**self.comparison.names, "outcome": population.name},
            people=annotated,
            attrition=adjusted.attrition,
            estimand=adjusted.estimand,
            estimate=estimate,
            absolute=absolute,
            counts=counts,
            informative=_informative(compared, adjusted, analysis, absolute),
            follow_up=follow_up(compared),
            curves=curve_table(compared, weights),
            balance=balance,
            shared=shared,
            diagnostics=self._diagnose(people, annotated, counts, adjusted, balance, estimate),
        )

    def _estimate(
        self,
        compared: pd.DataFrame,
        adjusted: AdjustedPopulation,
        outcome: int,
        note: str,
        weights: NDArray | None,
    ) -> tuple[Estimate, AbsoluteEffect]:
        """Estimate the effects, unless a note gives the reason why they cannot be estimated."""
        if note:
            return Estimate(note=self._explained(note, outcome, adjusted)), AbsoluteEffect()
        nuisances, model = self.shared.nuisances, self.analysis.outcome_model
        with quiet_fits():
            if nuisances is not None:
                estimate, absolute = nuisances.effect(
                    compared, _place(self.shared, compared), adjusted.estimand
                )
            else:
                estimate = self._ratio(compared, adjusted)
                absolute = absolute_effect(
                    compared,
                    weights=weights,
                    clusters=clusters_of(compared, adjusted.sets),
                    horizon=model.horizon,
                )
        if estimate.note:
            why = self._explained(estimate.note, outcome, adjusted)
            return replace(estimate, note=why), absolute
        return estimate, absolute

    def _ratio(self, compared: pd.DataFrame, adjusted: AdjustedPopulation) -> Estimate:
        """Estimate the effect by an outcome model."""
        features, model = self.shared.features, self.analysis.outcome_model
        if features is not None and (model.covariates or model.interactions):
            features = features.take(compared["row"].to_numpy())
        else:
            features = None
        return estimate_effect(
            compared, model, weights=adjusted.weights, sets=adjusted.sets, features=features
        )

    def _explained(self, note: str, outcome: int, adjusted: AdjustedPopulation) -> str:
        """Add to a reason without estimate the rule or the cohort that causes it."""
        reasons = []
        for arm in ("target", "comparator"):
            left = adjusted.attrition[f"{arm}_people"].to_numpy()
            if len(left) and left[-1] == 0:
                first = int(np.argmax(left == 0))
                rule = adjusted.attrition["rule"].iloc[first]
                of = f"the {arm}, {self.comparison.names[arm]}"
                reasons.append(
                    f"nobody of {of}, is left after the rule “{rule}”"
                    if first
                    else f"there are no entries of {of}"
                )
        if outcome not in self.cohorts.ids:
            reasons.append(f"there are no entries of the outcome, cohort {outcome}")
        return f"{note} ({'; '.join(reasons)})" if reasons else note

    def _diagnose(
        self,
        people: pd.DataFrame,
        compared: pd.DataFrame,
        counts: dict[str, int],
        adjusted: AdjustedPopulation,
        balance: Balance | None,
        estimate: Estimate,
    ) -> Diagnostics:
        """Evaluate the diagnostics of the estimate, except the systematic error."""
        analysis, scores, wide = self.analysis, self.shared.scores, self.shared.balance
        converged, unconverged = convergence(
            propensity_model=None if scores is None else scores.converged,
            outcome_model=estimate.converged if math.isfinite(estimate.log_rr) else None,
        )
        nan = float("nan")
        lost = _shares_lost(people, compared) if analysis.adjusts else [nan, nan]
        measured = ComparedPeople(compared, balance, scores)
        return Diagnostics(
            largest_difference=balance.largest if balance else nan,
            difference_p=balance.smallest_p if balance else nan,
            shared_difference=wide.largest if wide else nan,
            shared_p=wide.smallest_p if wide else nan,
            worst_covariate=wide.worst()[0] if wide else "",
            equipoise=nan if scores is None else scores.equipoise(),
            detectable=detectable_ratio(compared, analysis.outcome_model.kind),
            generalizability=nan if wide is None else wide.generalizability(adjusted.estimand),
            attrition=lost[0],
            comparator_attrition=lost[1],
            tied=self._share_tied(compared),
            fewest=float(min(v for k, v in counts.items() if k.endswith("outcomes"))),
            converged=converged,
            unconverged=unconverged,
            adjusted=None if analysis.unadjusted else not analysis.crude,
            thresholds=self.thresholds,
            further={
                d.key: float(d.measure(measured))
                for d in further_diagnostics(self.thresholds)
                if d.measure is not None
            },
        )

    def _share_tied(self, compared: pd.DataFrame) -> float:
        """Compute the share of matched people with a tied score; NaN without matching."""
        scores = self.shared.scores
        if not self.analysis.match or scores is None or not len(compared):
            return float("nan")
        return tied_share(scores.score[_place(self.shared, compared)])[1]


def _informative(
    compared: pd.DataFrame,
    adjusted: AdjustedPopulation,
    analysis: StudyAnalysis,
    absolute: AbsoluteEffect,
) -> tuple[int, int]:
    """Count the outcomes of both arms that the estimate depends on."""
    model = analysis.outcome_model
    if model.family.doubly_robust and len(compared):
        by = absolute.horizon if math.isfinite(absolute.horizon) else model.horizon
        return events_by_day(compared, math.inf if by is None else by)
    return informative_events(
        compared["time"],
        compared["event"],
        compared["treated"],
        adjusted.sets if model.stratified else None,
    )


def _place(shared: Shared, people: pd.DataFrame) -> NDArray:
    """Return the positions of people among those who could be at risk, whatever the outcome."""
    rows = shared.population.people["row"].to_numpy()
    return np.searchsorted(rows, people["row"].to_numpy())


def _shares_lost(people: pd.DataFrame, compared: pd.DataFrame) -> list[float]:
    """Compute the share of the target and of the comparator that the adjustment drops."""
    lost = []
    for arm in (1, 0):
        before, left = (int((table["treated"] == arm).sum()) for table in (people, compared))
        lost.append(1 - left / before if before else float("nan"))
    return lost


def _scored(population: StudyPopulation, shared: Shared) -> StudyPopulation:
    """Keep the people who have a score; the outcome's own time at risk may include others."""
    has = np.isin(population.people["row"], shared.population.people["row"])
    if has.all():
        return population
    people = pd.DataFrame(population.people)[has].reset_index(drop=True)
    counts = Attrition(population.attrition.to_dict("records"))
    counts.count(
        "Have a propensity score", people["person_id"].to_numpy(), people["treated"].to_numpy()
    )
    return replace(population, people=People(people), attrition=counts.frame())


def adjusted_people(
    people: pd.DataFrame, attrition: pd.DataFrame, shared: Shared, analysis: StudyAnalysis
) -> tuple[AdjustedPopulation, str]:
    """Adjust a population; return it and the reason if it could not be adjusted."""
    place = _place(shared, people)
    try:
        return adjust(people, attrition, shared.scores, place, shared.features, analysis), ""
    except DataError as error:
        return unadjusted(people, attrition, analysis), str(error)


def adjusted_people_at_risk(
    at_risk: StudyPopulation, shared: Shared, analysis: StudyAnalysis
) -> tuple[AdjustedPopulation, str]:
    """Adjust those people of a shared population who are at risk; see `adjusted_people`.

    The scores may be those of everybody, with or without time at risk. ``kept`` refers to them.
    """
    people = pd.DataFrame(at_risk.people)
    adjusted, note = adjusted_people(people, at_risk.attrition, shared, analysis)
    return replace(adjusted, kept=_place(shared, people)[adjusted.kept]), note


def balance_of(
    covariates: CovariateMoments,
    people: pd.DataFrame,
    adjusted: AdjustedPopulation,
    thresholds: DiagnosticThresholds,
) -> Balance | None:
    """Compute the covariate balance of a population before and after its adjustment."""
    treated = people["treated"].to_numpy()
    weights = adjusted.balancing(treated[adjusted.kept])
    if weights is None and not adjusted.steps:
        return None
    after = np.zeros(len(people))
    after[adjusted.kept] = 1.0 if weights is None else weights  # trimming alone does not weight
    if not (after[treated == 1].any() and after[treated == 0].any()):
        return None
    sets = None
    if adjusted.sets is not None:
        sets = np.full(len(people), -1)
        sets[adjusted.kept] = adjusted.sets
    return balance_of_rows(
        covariates, people["row"].to_numpy(), treated, after, thresholds.shown_balance, sets
    )


def _curve_weights(compared: pd.DataFrame, adjusted: AdjustedPopulation) -> NDArray | None:
    """Return the weights of curves and differences: the analysis's or those of matched sets."""
    if adjusted.weights is not None or adjusted.sets is None or not len(compared):
        return adjusted.weights
    treated = compared["treated"].to_numpy()
    weights = set_weights(adjusted.sets, treated, adjusted.estimand)
    return None if (weights == 1).all() else weights


def _annotated(
    compared: pd.DataFrame, adjusted: AdjustedPopulation, shared: Shared
) -> pd.DataFrame:
    """Add scores, matched sets and weights to the table of people."""
    added: dict[str, NDArray] = {}
    if shared.scores is not None:
        place = _place(shared, compared)
        added["score"] = shared.scores.score[place]
        added["preference"] = shared.scores.preference[place]
    if adjusted.sets is not None:
        added["set"] = adjusted.sets
    if adjusted.weights is not None:
        added["weight"] = adjusted.weights
    return pd.DataFrame({**compared, **added}, copy=False)
