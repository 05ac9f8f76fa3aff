"""The steps from cohorts to an estimate, each done once for all analyses that share it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.adjust.comparability import Balance, covariate_balance
from steropes.studies.adjust.scores import PropensityScores, fit_scores
from steropes.studies.cohorts.comparison import Comparison, compare_cohorts
from steropes.studies.cohorts.entries import CohortTable
from steropes.studies.cohorts.population import StudyPopulation, study_population
from steropes.studies.covariates.features import FeatureRules, Features, extract_features
from steropes.studies.grid.adjustment import Adjusted, adjust
from steropes.studies.grid.diagnostics import Diagnostics, DiagnosticThresholds
from steropes.studies.grid.settings import Question, StudyAnalysis
from steropes.studies.omop import OmopDatabase
from steropes.studies.outcomes.estimate import Estimate, estimate_effect
from steropes.studies.outcomes.summaries import arm_counts, curve_table, detectable_ratio, follow_up
from steropes.studies.people import People
from steropes.studies.ties import tied_share

__all__ = ["AnalysisResult", "Shared", "Workbench"]

T = TypeVar("T")


@dataclass(frozen=True, repr=False, eq=False)
class Shared:
    """What all outcomes of a question and an analysis have in common.

    Attributes
    ----------
    population : StudyPopulation
        Who could be at risk, whatever the outcome.
    scores : PropensityScores or None
    adjusted : Adjusted or None
    balance : Balance or None
    features : Features or None
        Covariates of all entries of the comparison.
    note : str
        Why there are no scores or no adjustment, where there should be; empty otherwise.
    """

    population: StudyPopulation
    scores: PropensityScores | None
    adjusted: Adjusted | None
    balance: Balance | None
    features: Features | None
    note: str = ""


@dataclass(frozen=True, repr=False, eq=False)
class AnalysisResult:
    """One question, one outcome, one analysis.

    Attributes
    ----------
    question : Question
    outcome : int
    analysis : StudyAnalysis
    names : dict of str
        Of ``target``, ``comparator`` and ``outcome``.
    people : DataFrame
        Who was compared, as in ``StudyPopulation.people``, with ``score``, ``preference``,
        ``set`` and ``weight`` where there are such.
    attrition : DataFrame
    estimand : str
    estimate : Estimate
    counts, follow_up : dict
        Subjects, days, outcomes; distribution of follow-up.
    curves : DataFrame
        Kaplan–Meier curves, as ``curve_table`` makes them.
    balance : Balance or None
        Of the people of this outcome.
    shared : Shared
    diagnostics : Diagnostics
    """

    question: Question
    outcome: int
    analysis: StudyAnalysis
    names: dict[str, str]
    people: pd.DataFrame
    attrition: pd.DataFrame
    estimand: str
    estimate: Estimate
    counts: dict[str, int]
    follow_up: dict[str, object]
    curves: pd.DataFrame
    balance: Balance | None
    shared: Shared
    diagnostics: Diagnostics

    def __repr__(self) -> str:
        return (
            f"AnalysisResult({self.names['target']} against {self.names['comparator']}, "
            f"{self.names['outcome']}, analysis {self.analysis.id}: {self.estimate!r})"
        )


class Workbench:
    """Runs analyses on the cohorts of one database, and remembers what they share.

    Parameters
    ----------
    db : OmopDatabase
    cohorts : CohortTable
        Targets, comparators, outcomes and nesting cohorts.
    thresholds : DiagnosticThresholds, optional
    """

    def __init__(
        self, db: OmopDatabase, cohorts: CohortTable, thresholds: DiagnosticThresholds | None = None
    ) -> None:
        self.db, self.cohorts = db, cohorts
        self.thresholds = thresholds or DiagnosticThresholds()
        self._known: dict[Hashable, Any] = {}

    def forget(self) -> None:
        """Let go of everything remembered."""
        self._known.clear()

    def comparison(self, question: Question, analysis: StudyAnalysis) -> Comparison:
        """The two cohorts after the rules that hold whatever the outcome."""
        q = question
        return self._once(
            ("comparison", q.target, q.comparator, q.nesting, analysis.cohorts),
            lambda: compare_cohorts(
                self.db, self.cohorts, q.target, q.comparator, analysis.cohorts, nesting=q.nesting
            ),
        )

    def features(self, question: Question, analysis: StudyAnalysis) -> Features | None:
        """Covariates of all entries; None if the analysis uses none."""
        if analysis.features is None or not self._uses_features(analysis):
            return None
        return self.all_features(question, analysis)

    def all_features(self, question: Question, analysis: StudyAnalysis) -> Features:
        """Covariates of all entries, whether the analysis uses any or not."""
        rules = analysis.features or FeatureRules()
        exclude = tuple(sorted({*rules.exclude, *question.exclude}))
        made = replace(rules, exclude=exclude)
        comparison = self.comparison(question, analysis)
        return self._once(
            ("features", id(comparison), made),
            lambda: extract_features(self.db, comparison.entries, made),
        )

    def shared(self, question: Question, analysis: StudyAnalysis) -> Shared:
        """Population, scores, adjustment and balance that do not depend on the outcome."""
        a = analysis
        asked = (question.target, question.comparator, question.nesting, question.exclude)
        made = (a.cohorts, a.at_risk, a.features, a.propensity, self._uses_features(a))
        done = (a.estimand, a.trim, a.truncate, a.match, a.stratify, a.outcome_model.weighted)
        return self._once(("shared", asked, made, done), lambda: self._shared(question, analysis))

    def run(self, question: Question, outcome: int, analysis: StudyAnalysis) -> AnalysisResult:
        """Answer a question for one outcome by one analysis.

        What cannot be estimated is told in ``estimate.note``.

        Raises
        ------
        DataError
            Cohorts or settings that cannot be used.
        """
        comparison, shared = self.comparison(question, analysis), self.shared(question, analysis)
        population = study_population(
            comparison, self.cohorts, outcome, analysis.at_risk, competing=analysis.competing
        )
        people = pd.DataFrame(population.people)
        adjusted, note = self._adjust(people, population.attrition, shared, analysis)
        compared = people.iloc[adjusted.kept].reset_index(drop=True)
        note = shared.note or note
        features = shared.features
        of_compared = None
        if features is not None and (
            analysis.adjusts
            or analysis.outcome_model.covariates
            or analysis.outcome_model.interactions
        ):
            of_compared = features.take(compared["row"].to_numpy())
        estimate = Estimate(note=note)
        if not note:
            estimate = estimate_effect(
                compared,
                analysis.outcome_model,
                weights=adjusted.weights,
                sets=adjusted.sets,
                features=of_compared,
            )
        balance = None
        if features is not None and analysis.adjusts and not note:
            balance = _balance(features, people, adjusted)
        return AnalysisResult(
            question=question,
            outcome=outcome,
            analysis=analysis,
            names={**comparison.names, "outcome": population.name},
            people=People(_annotated(compared, people, adjusted, shared)),
            attrition=adjusted.attrition,
            estimand=adjusted.estimand,
            estimate=estimate,
            counts=arm_counts(compared),
            follow_up=follow_up(compared),
            curves=curve_table(compared, _curve_weights(compared, adjusted, analysis)),
            balance=balance,
            shared=shared,
            diagnostics=self._diagnose(analysis, people, compared, adjusted, shared, balance),
        )

    # -- parts -----------------------------------------------------------------------------------

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    @staticmethod
    def _uses_features(analysis: StudyAnalysis) -> bool:
        model = analysis.outcome_model
        return bool(analysis.propensity or model.covariates or model.interactions)

    def _shared(self, question: Question, analysis: StudyAnalysis) -> Shared:
        comparison = self.comparison(question, analysis)
        population = study_population(comparison, self.cohorts, None, analysis.at_risk)
        features = None
        if len(comparison.entries) and self._uses_features(analysis):
            features = self.features(question, analysis)
        if analysis.propensity is None:
            return Shared(population, None, None, None, features)
        people = pd.DataFrame(population.people)
        try:
            if features is None:
                raise DataError("nobody is left to fit a propensity model to")
            scores = self._scores(people, features, analysis)
            known = Shared(population, scores, None, None, features)
            adjusted, note = self._adjust(people, population.attrition, known, analysis)
        except DataError as error:
            return Shared(population, None, None, None, features, str(error))
        balance = None
        if analysis.adjusts and not note:
            balance = _balance(features, people, adjusted)
        return Shared(population, scores, adjusted, balance, features)

    def _scores(
        self, people: pd.DataFrame, features: Features, analysis: StudyAnalysis
    ) -> PropensityScores:
        rows = people["row"].to_numpy()
        key = ("scores", id(features), rows.tobytes(), analysis.propensity)
        return self._once(
            key,
            lambda: fit_scores(
                features.take(rows),
                people["treated"].to_numpy(),
                analysis.propensity,
                ids=people["person_id"].to_numpy(),
            ),
        )

    def _adjust(
        self, people: pd.DataFrame, attrition: pd.DataFrame, shared: Shared, analysis: StudyAnalysis
    ) -> tuple[Adjusted, str]:
        """The adjusted population, and why it could not be adjusted."""
        rows = shared.population.people["row"].to_numpy()
        place = np.searchsorted(rows, people["row"].to_numpy())
        plain = Adjusted(np.arange(len(people)), None, None, attrition, analysis.estimates())
        try:
            return adjust(people, attrition, shared.scores, place, shared.features, analysis), ""
        except DataError as error:
            return plain, str(error)

    def _diagnose(
        self,
        analysis: StudyAnalysis,
        people: pd.DataFrame,
        compared: pd.DataFrame,
        adjusted: Adjusted,
        shared: Shared,
        balance: Balance | None,
    ) -> Diagnostics:
        def of(found: Balance | None, what: str) -> float:
            return float("nan") if found is None else getattr(found, what)

        before = int((people["treated"] == 1).sum())
        left = int((compared["treated"] == 1).sum())
        nan = float("nan")
        tied = nan
        if analysis.match and shared.scores is not None and len(compared):
            rows = shared.population.people["row"].to_numpy()
            place = np.searchsorted(rows, compared["row"].to_numpy())
            tied = tied_share(shared.scores.score[place])[1]
        wide = shared.balance
        return Diagnostics(
            largest_difference=of(balance, "largest"),
            difference_p=of(balance, "smallest_p"),
            shared_difference=of(wide, "largest"),
            shared_p=of(wide, "smallest_p"),
            worst_covariate=wide.worst()[0] if wide else "",
            equipoise=nan if shared.scores is None else shared.scores.equipoise(),
            detectable=detectable_ratio(compared, analysis.outcome_model.kind),
            generalizability=nan if wide is None else wide.generalizability(adjusted.estimand),
            attrition=1 - left / before if before and analysis.adjusts else nan,
            tied=tied,
            thresholds=self.thresholds,
        )


def _balance(features: Features, people: pd.DataFrame, adjusted: Adjusted) -> Balance | None:
    """Balance among the people of a population before and after it was adjusted."""
    treated = people["treated"].to_numpy()
    weights = adjusted.balancing(treated[adjusted.kept])
    if weights is None:
        return None
    after = np.zeros(len(people))
    after[adjusted.kept] = weights
    if not (after[treated == 1].any() and after[treated == 0].any()):
        return None
    return covariate_balance(features.take(people["row"].to_numpy()), treated, after)


def _curve_weights(
    compared: pd.DataFrame, adjusted: Adjusted, analysis: StudyAnalysis
) -> np.ndarray | None:
    """Weights of the curves: those of the analysis, or each arm's say in a matched set."""
    if adjusted.weights is not None or adjusted.sets is None or not len(compared):
        return adjusted.weights
    treated = compared["treated"].to_numpy() == 1
    sizes = [
        np.bincount(adjusted.sets[a], minlength=int(adjusted.sets.max()) + 1)
        for a in (treated, ~treated)
    ]
    # as many comparator people for each set as it has of the target
    ratio = sizes[0] / np.maximum(sizes[1], 1)
    weights = np.where(treated, 1.0, ratio[adjusted.sets])
    return None if (weights == 1).all() else weights


def _annotated(
    compared: pd.DataFrame, people: pd.DataFrame, adjusted: Adjusted, shared: Shared
) -> pd.DataFrame:
    """The people with what adjustment made of them."""
    if shared.scores is not None:
        rows = shared.population.people["row"].to_numpy()
        place = np.searchsorted(rows, compared["row"].to_numpy())
        compared = compared.assign(
            score=shared.scores.score[place], preference=shared.scores.preference[place]
        )
    if adjusted.sets is not None:
        compared = compared.assign(set=adjusted.sets)
    if adjusted.weights is not None:
        compared = compared.assign(weight=adjusted.weights)
    return compared
