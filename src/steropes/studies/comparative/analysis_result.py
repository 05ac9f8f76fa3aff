"""Results of an analysis: of one outcome, and those that all its outcomes share."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.designs.comparative.doubly_robust_outcomes import SharedNuisances
from steropes.designs.effects.absolute_effects import AbsoluteEffect
from steropes.designs.effects.effect_estimate_result import Estimate
from steropes.designs.propensity.covariate_balance import Balance
from steropes.designs.propensity.propensity_score_fit import PropensityScores
from steropes.studies.cohorts.study_populations import StudyPopulation
from steropes.studies.comparative.adjustment import AdjustedPopulation
from steropes.studies.comparative.grid_questions_and_analyses import Question, StudyAnalysis
from steropes.studies.covariates.feature_extraction import Features
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics

__all__ = ["AnalysisResult", "Shared"]


@dataclass(frozen=True, repr=False, eq=False)
class Shared:
    """Results that all outcomes of a question and an analysis share.

    Attributes
    ----------
    population : StudyPopulation
        All people who could be at risk, whatever the outcome.
    features : Features or None
        Covariates of all entries of the comparison.
    nuisances : SharedNuisances or None
        Folds, scores and censoring of doubly robust analyses.
    note : str
        Reason why scores or the adjustment are missing; empty otherwise.
    """

    population: StudyPopulation
    scores: PropensityScores | None
    adjusted: AdjustedPopulation | None
    balance: Balance | None
    features: Features | None
    note: str = ""
    nuisances: SharedNuisances | None = None


@dataclass(frozen=True, repr=False, eq=False)
class AnalysisResult(TextInHtml):
    """One question, one outcome, one analysis.

    Attributes
    ----------
    question : Question
        The question.
    outcome : int
        Id of the outcome's cohort.
    analysis : StudyAnalysis
        The analysis.
    names : dict of str
        Names of ``target``, ``comparator`` and ``outcome``.
    people : DataFrame
        The people who were compared, as in ``StudyPopulation.people``, with ``score``,
        ``preference``, ``set`` and ``weight`` if the analysis has them.
    attrition : DataFrame
        People that each rule leaves.
    estimand : str
        The population whose effect is estimated: "att", "atu", "ate" or "ato".
    estimate : Estimate
        The effect on the log scale.
    absolute : AbsoluteEffect
        Differences of risks and of restricted means.
    counts : dict
        Numbers of people, days and outcomes of each arm.
    informative : (int, int)
        Outcomes of target and comparator that contribute to the estimate.
    follow_up : dict
        Distribution of the days at risk.
    curves : DataFrame
        Kaplan–Meier curves; see `curve_table`.
    balance : Balance or None
        Balance of the people of this outcome.
    shared : Shared
        Scores, adjustment and balance that do not depend on the outcome.
    diagnostics : Diagnostics
        Diagnostics of the estimate.

    See Also
    --------
    Workbench.run : Run an analysis.

    Examples
    --------
    >>> from steropes.studies.comparative import Question, StudyAnalysis, Workbench
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import condition_cohorts, read_cohorts
    >>> db = synthetic_database(200)
    >>> cohorts = read_cohorts(db) + condition_cohorts(db, {3: 192671})
    >>> crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    >>> result = Workbench(db, cohorts).run(Question(1, 2, (3,)), 3, crude)
    >>> result.names["outcome"], result.estimand
    ('Gastrointestinal hemorrhage', 'ate')
    """

    question: Question
    outcome: int
    analysis: StudyAnalysis
    names: dict[str, str]
    people: pd.DataFrame
    attrition: pd.DataFrame
    estimand: str
    estimate: Estimate
    absolute: AbsoluteEffect
    counts: dict[str, int]
    informative: tuple[int, int]
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
