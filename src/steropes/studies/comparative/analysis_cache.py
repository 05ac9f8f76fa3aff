"""A cache of cohorts, covariates, scores and balance, which outcomes and analyses share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.designs.comparative.doubly_robust_outcomes import SharedNuisances
from steropes.designs.covariates.weighted_moments import CovariateMoments
from steropes.designs.propensity.propensity_score_fit import (
    PropensityRules,
    PropensityScores,
    fit_scores_of_rows,
)
from steropes.errors import DataError, SeparationError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.study_populations import everyone, study_population
from steropes.studies.cohorts.two_cohort_entry import Comparison, compare_cohorts
from steropes.studies.comparative.absent_covariates import absent_covariates, without_absent
from steropes.studies.comparative.analysis_of_one_outcome import (
    Prepared,
    adjusted_people_at_risk,
    balance_of,
)
from steropes.studies.comparative.analysis_result import AnalysisResult, Shared
from steropes.studies.comparative.grid_questions_and_analyses import Question, StudyAnalysis
from steropes.studies.covariates.feature_extraction import FeatureRules, Features, extract_features
from steropes.studies.database.data_quality_notes import distinct
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.convergence_diagnostic import quiet_fits

__all__ = ["Workbench"]

T = TypeVar("T")


class Workbench(TextInHtml):
    """Analyses on the cohorts of one database, with a cache of the parts that they share.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    cohorts : CohortTable
        Targets, comparators, outcomes and nesting cohorts.
    thresholds : DiagnosticThresholds, optional
        Thresholds of the diagnostics. Default: those of ``DiagnosticThresholds()``.

    See Also
    --------
    run_grid : Run many questions and analyses, and store their results.

    Examples
    --------
    >>> from steropes.studies.comparative import Question, StudyAnalysis, Workbench
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import condition_cohorts, read_cohorts
    >>> db = synthetic_database(200)
    >>> bench = Workbench(db, read_cohorts(db) + condition_cohorts(db, {3: 192671}))
    >>> crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    >>> result = bench.run(Question(1, 2, (3,)), 3, crude)
    >>> result.estimate.interval
    'profile'
    """

    def __init__(
        self, db: OmopDatabase, cohorts: CohortTable, thresholds: DiagnosticThresholds | None = None
    ) -> None:
        self.db, self.cohorts = db, cohorts
        self.thresholds = thresholds or DiagnosticThresholds()
        self._known: dict[Hashable, Any] = {}
        self._question: Question | None = None

    def __repr__(self) -> str:
        return f"Workbench({self.db!r})"

    def forget(self) -> None:
        """Empty the cache."""
        self._known.clear()

    def turn_to(self, question: Question) -> None:
        """Empty the cache if it is that of another question.

        Parameters
        ----------
        question : Question
            The question that follows.
        """
        if self._question is not question:
            self.forget()
        self._question = question

    def comparison(self, question: Question, analysis: StudyAnalysis) -> Comparison:
        """Return both cohorts after the rules that do not depend on the outcome.

        Parameters
        ----------
        question : Question
            The question.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        Comparison
            Entries of target and comparator.
        """
        q = question
        nesting = analysis.nesting if q.nesting is None else q.nesting
        return self._once(
            ("comparison", q.target, q.comparator, nesting, analysis.cohorts),
            lambda: compare_cohorts(
                self.db, self.cohorts, q.target, q.comparator, analysis.cohorts, nesting=nesting
            ),
        )

    def features(self, question: Question, analysis: StudyAnalysis) -> Features | None:
        """Return the covariates of all entries; None if there are none or the analysis uses none.

        Parameters
        ----------
        question : Question
            The question.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        Features or None
            Covariates; None without entries, or if the analysis uses none.
        """
        if analysis.features is None or not self._uses_features(analysis):
            return None
        if not len(self.comparison(question, analysis).entries):
            return None
        return self.all_features(question, analysis)

    def all_features(self, question: Question, analysis: StudyAnalysis) -> Features:
        """Return the covariates of all entries, even if the analysis uses none.

        Parameters
        ----------
        question : Question
            The question.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        Features
            Covariates.
        """
        rules = analysis.features or FeatureRules()
        exclude = tuple(sorted({*rules.exclude, *question.exclude}))
        made = replace(rules, exclude=exclude)
        comparison = self.comparison(question, analysis)
        return self._once(
            ("features", id(comparison), made),
            lambda: extract_features(self.db, comparison.entries, made),
        )

    def shared(self, question: Question, analysis: StudyAnalysis) -> Shared:
        """Return population, scores, adjustment and balance, which do not depend on the outcome.

        Parameters
        ----------
        question : Question
            The question.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        Shared
            The shared results.
        """
        a = analysis
        asked = (question.target, question.comparator, question.nesting, question.exclude)
        people = (a.cohorts, a.at_risk, a.population, a.nesting)
        selects = a.selection is not None
        made = (people, a.features, a.propensity, self._uses_features(a), selects)
        model = a.outcome_model
        nuisances = model if model.family.doubly_robust else None
        done = (a.estimand, a.trim, a.truncate, a.match, a.stratify, model.weighted, nuisances)
        return self._once(("shared", asked, made, done), lambda: self._shared(question, analysis))

    def prepared(self, question: Question, analysis: StudyAnalysis) -> Prepared:
        """Return a question and an analysis with everything that its outcomes share.

        Parameters
        ----------
        question : Question
            The question.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        Prepared
            An object that answers the question for each outcome.

        Raises
        ------
        DataError
            Cohorts or settings cannot be used.
        """
        comparison = self.comparison(question, analysis)
        features = self.features(question, analysis)
        known = without_absent(analysis, features)
        of_features = () if features is None else features.notes
        return Prepared(
            question,
            known,
            self.cohorts,
            comparison,
            self.shared(question, known),
            self.thresholds,
            distinct((*comparison.notes, *of_features, *absent_covariates(analysis, features))),
        )

    def run(self, question: Question, outcome: int, analysis: StudyAnalysis) -> AnalysisResult:
        """Answer a question for one outcome by one analysis.

        If nothing can be estimated, ``estimate.note`` gives the reason.

        Parameters
        ----------
        question : Question
            The question.
        outcome : int
            Id of the outcome's cohort.
        analysis : StudyAnalysis
            The analysis.

        Returns
        -------
        AnalysisResult
            The result. If there is no estimate, ``estimate.note`` gives the reason.

        Raises
        ------
        DataError
            Cohorts or settings cannot be used.
        """
        return self.prepared(question, analysis).answer(outcome)

    # -- parts -----------------------------------------------------------------------------------

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached value of a key, or make it."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    @staticmethod
    def _uses_features(analysis: StudyAnalysis) -> bool:
        """Check whether an analysis uses covariates."""
        model = analysis.outcome_model
        return bool(analysis.propensity or model.covariates or model.interactions)

    def _shared(self, question: Question, analysis: StudyAnalysis) -> Shared:
        """Make the population, scores, adjustment and balance; a failure becomes a note."""
        comparison = self.comparison(question, analysis)
        at_risk = population = study_population(
            comparison, self.cohorts, None, analysis.at_risk, rules=analysis.population
        )
        if analysis.propensity is not None and analysis.propensity.people == "all":
            population = everyone(comparison)
        features = self.features(question, analysis)
        if analysis.propensity is None or analysis.selection is not None:
            return Shared(population, None, None, None, features)
        people = pd.DataFrame(population.people)
        try:
            if features is None:
                raise DataError("nobody is left to fit a propensity model to")
            scores, nuisances = self._scores(people, features, analysis), None
            if analysis.outcome_model.family.doubly_robust:
                nuisances = self._nuisances(people, features, scores, analysis)
                scores = nuisances.scores
            known = Shared(population, scores, None, None, features)
            adjusted, note = adjusted_people_at_risk(at_risk, known, analysis)
        except (DataError, SeparationError, np.linalg.LinAlgError) as error:
            return Shared(population, None, None, None, features, str(error))
        balance = None
        if analysis.judges_balance and not note:
            balance = balance_of(CovariateMoments(features), people, adjusted, self.thresholds)
        return Shared(population, scores, adjusted, balance, features, nuisances=nuisances)

    def _nuisances(
        self,
        people: pd.DataFrame,
        features: Features,
        scores: PropensityScores,
        analysis: StudyAnalysis,
    ) -> SharedNuisances:
        """Cross-fit scores and censoring, which do not depend on the estimand."""
        rules, model = analysis.propensity or PropensityRules(), analysis.outcome_model
        days = people["days_at_risk"].to_numpy()
        key = ("nuisances", id(scores), days.tobytes(), rules, model)
        with quiet_fits():
            return self._once(
                key, lambda: SharedNuisances.of(features, people, scores, rules, model)
            )

    def _scores(
        self, people: pd.DataFrame, features: Features, analysis: StudyAnalysis
    ) -> PropensityScores:
        """Fit the propensity scores of some people."""
        rows = people["row"].to_numpy()
        key = ("scores", id(features), rows.tobytes(), analysis.propensity)
        with quiet_fits():
            return self._once(
                key,
                lambda: fit_scores_of_rows(
                    features,
                    rows,
                    people["treated"].to_numpy(),
                    analysis.propensity or PropensityRules(),
                    people["person_id"].to_numpy(),
                ),
            )
