"""Questions about two cohorts, and the analyses that answer them, as settings of a grid."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_adjustment import ScoreAdjustment
from steropes.designs.propensity.score_matching import Match
from steropes.designs.propensity.score_strata import Stratify
from steropes.designs.propensity.score_trimming import Trim
from steropes.designs.propensity.weights_by_estimand import Estimand, EstimandOfStudies
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Count,
    CovariateIds,
    Days,
    Listed,
    Offset,
    OneOrMore,
    Positive,
    TrueRatio,
    YesNo,
)
from steropes.designs.settings.value_checks import Before
from steropes.errors import DataError
from steropes.studies.cohorts.study_populations import PopulationRules
from steropes.studies.cohorts.time_at_risk import Anchor, TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.comparative.confounder_selection_settings import SelectedConfounders
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["BalanceFilter", "Outcome", "Question", "StudyAnalysis"]


class Outcome(Settings):
    """An outcome of a question.

    Parameters
    ----------
    id : int
        Its cohort.
    true_ratio : float, optional
        The effect that is known: 1 for a negative control, more for a positive one. Without it
        the outcome is one of interest.
    start, end : int, optional
        First and last day at risk of this outcome, instead of those of the analysis.
    start_anchor, end_anchor : str, optional
        The anchors of these days, instead of those of the analysis.
    look_back : int, optional
        As in `TimeAtRisk`, for this outcome only.

    Examples
    --------
    >>> from steropes.studies.comparative import Outcome
    >>> Outcome(3).of_interest, Outcome(4, true_ratio=1.0).of_interest
    (True, False)
    """

    id: Count
    true_ratio: TrueRatio | None = None
    start: Offset | None = None
    end: Offset | None = None
    start_anchor: Literal["cohort start", "cohort end"] | None = None
    end_anchor: Anchor | None = None
    look_back: Days | None = None

    def at_risk(self, analysis: TimeAtRisk) -> TimeAtRisk:
        """Return the time at risk of an analysis with the settings of this outcome.

        Parameters
        ----------
        analysis : TimeAtRisk
            The time at risk of the analysis.

        Returns
        -------
        TimeAtRisk
            The time at risk of the outcome.
        """
        names = ("start", "end", "start_anchor", "end_anchor", "look_back")
        own = {name: getattr(self, name) for name in names}
        return replace(analysis, **{name: v for name, v in own.items() if v is not None})

    @property
    def of_interest(self) -> bool:
        """Whether its effect is the question."""
        return self.true_ratio is None


def _outcome(value: object) -> object:
    """Accept the id of an outcome of interest instead of an outcome."""
    return Outcome(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Question(Settings):
    """Two cohorts to compare, and the outcomes to compare them on.

    Parameters
    ----------
    target, comparator : int
        Ids of the cohorts.
    outcomes : tuple of Outcome or int
        Outcomes of interest and controls.
    nesting : int, optional
        A cohort that people must be in on the day they start.
    exclude : tuple of int
        Concepts that are no covariates, with their descendants; the study drugs above all.

    Examples
    --------
    >>> from steropes.studies.comparative import Question
    >>> [outcome.id for outcome in Question(1, 2, (3, 4)).outcomes]
    [3, 4]
    """

    target: Count
    comparator: Count
    outcomes: OneOrMore[Annotated[Outcome, Before(_outcome)]]
    nesting: Count | None = None
    exclude: Listed[ConceptId] = ()

    def __post_init__(self) -> None:
        """Refuse equal cohorts, and outcomes that are absent, repeated or compared."""
        if self.target == self.comparator:
            raise DataError(f"target and comparator are the same cohort, {self.target}")
        if not self.outcomes:
            raise DataError("a question needs an outcome")
        ids = [o.id for o in self.outcomes]
        twice = next((i for i, n in Counter(ids).items() if n > 1), None)
        if twice is not None:
            raise DataError(f"outcome {twice} is listed twice in a question")
        if {self.target, self.comparator} & {*ids}:
            compared = min({self.target, self.comparator} & {*ids})
            raise DataError(f"cohort {compared} is compared and is an outcome of the same question")


class BalanceFilter(Settings):
    """Covariates to keep in a table of balance.

    Parameters
    ----------
    analyses : tuple of int
        Covariate analyses of which all covariates are kept.
    covariates : tuple of int
        Further covariate ids to keep.

    Examples
    --------
    >>> from steropes.studies.comparative import BalanceFilter
    >>> BalanceFilter(analyses=(3,), covariates=(8532001,)).keeps([3003, 8532001, 8507001])
    array([ True,  True, False])
    """

    analyses: CovariateIds = ()
    covariates: CovariateIds = ()

    def keeps(self, covariate_ids: ArrayLike) -> NDArray:
        """Return whether each covariate is kept.

        Parameters
        ----------
        covariate_ids : array_like of int
            The covariates; the last three digits of an id are its analysis.

        Returns
        -------
        ndarray of bool
            A value for each covariate.
        """
        ids = np.asarray(covariate_ids, dtype=np.int64)
        return np.isin(ids % 1000, self.analyses) | np.isin(ids, self.covariates)


class StudyAnalysis(Settings):
    """How a question is answered, from the cohorts to the estimate.

    Parameters
    ----------
    id : int
        Number of the analysis in result tables.
    description : str
        Description in result tables.
    cohorts : ComparisonRules
        Who is compared.
    at_risk : TimeAtRisk
        Time at risk of the outcome.
    population : PopulationRules, optional
        Further rules for the entries of the study population, as CohortMethod 5 has them.
    nesting : int, optional
        A cohort that people must be in on the day they start, unless the question has its own.
    features : FeatureRules, optional
        The covariates; none makes an analysis without.
    propensity : PropensityRules, optional
        The propensity model; none makes an analysis without one.
    selection : SelectedConfounders, optional
        Select the covariates of the propensity model for each outcome (hdPS), whose scores are then
        its own. Default: all covariates, with scores that outcomes share.
    estimand : str, default "att"
        Of the weights: "att", "ate", "atu" or "ato".
    trim : Trim, optional
        Who is left out for the score.
    truncate : float, optional
        Largest weight, after stabilisation; larger ones are set to it.
    match : Match, optional
        Rules of matching; None does not match.
    stratify : Stratify, optional
        Only one of matching and stratification.
    outcome_model : OutcomeModel
        Model of the outcome.
    competing : int, optional
        Cohort of a competing outcome, for Fine–Gray models and for doubly robust risks, which are
        then those of the outcome before the competing one (the total effect).
    unadjusted : bool, default False
        Whether a crude comparison is intended. Otherwise the estimate of an analysis that adjusts
        for nothing is not shown, because confounding alone may explain it.
    balance_shown : BalanceFilter, optional
        The only covariates whose balance by outcome is written to the result tables. Diagnostics
        always use all covariates.

    Examples
    --------
    >>> from steropes.designs import Match, OutcomeModel
    >>> from steropes.studies.comparative import StudyAnalysis
    >>> analysis = StudyAnalysis(1, match=Match(), outcome_model=OutcomeModel(stratified=True))
    >>> analysis.adjusts, analysis.estimates()
    (True, 'att')
    """

    id: Count
    description: str = ""
    cohorts: ComparisonRules = field(default_factory=ComparisonRules)
    at_risk: TimeAtRisk = field(default_factory=TimeAtRisk)
    population: PopulationRules | None = None
    nesting: Count | None = None
    features: FeatureRules | None = field(default_factory=FeatureRules)
    propensity: PropensityRules | None = field(default_factory=PropensityRules)
    estimand: EstimandOfStudies = "att"
    trim: Trim | None = None
    truncate: Positive | None = None
    match: Match | None = None
    stratify: Stratify | None = None
    outcome_model: OutcomeModel = field(default_factory=OutcomeModel)
    competing: Count | None = None
    unadjusted: YesNo = False
    balance_shown: BalanceFilter | None = None
    selection: SelectedConfounders | None = None

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        model, where = self.outcome_model, f"analysis {self.id}"
        if self.match and self.stratify:
            raise DataError(f"{where}: people are either matched or put into strata, not both")
        if self.propensity is None and (
            self.match or self.stratify or self.trim or model.weighted or self.truncate
        ):
            raise DataError(f"{where}: without a propensity model there is nothing to adjust by")
        if model.family.doubly_robust:
            self._require_doubly_robust()
        if self.selection is not None:
            self._require_selection()
        if self.truncate is not None and not model.weighted:
            raise DataError(
                f"{where}: truncate limits weights, and the outcome model uses none; set "
                "weighted of the outcome model, or leave truncate out"
            )
        if self.propensity is not None and self.features is None:
            raise DataError(f"{where}: a propensity model needs covariates (features)")
        if model.stratified and not (self.match or self.stratify):
            raise DataError(f"{where}: a stratified outcome model needs matching or strata")
        if model.weighted and model.stratified:
            raise DataError(
                f"{where}: compare within sets (stratified), or weight by them (weighted), not both"
            )
        if (model.covariates or model.interactions) and self.features is None:
            raise DataError(f"{where}: covariates in the outcome model need features")
        if self.unadjusted and not self.crude:
            raise DataError(
                f"{where}: unadjusted asks for a crude comparison, but the analysis adjusts; leave "
                "one of the two out"
            )
        if model.family.competes and self.competing is None:
            raise DataError(f"{where}: a Fine-Gray model needs a competing outcome")
        if self.competing is not None and not (model.family.competes or model.family.doubly_robust):
            raise DataError(
                f"{where}: a competing outcome belongs to Fine-Gray and doubly robust models, not "
                f"to {model.family.name} ones"
            )

    def _require_doubly_robust(self) -> None:
        """Refuse rules that a doubly robust effect does not have."""
        where = f"analysis {self.id}: a doubly robust analysis"
        if self.match or self.stratify:
            raise DataError(
                f"{where} adjusts everybody by their scores; leave match and stratify out"
            )
        if self.truncate is not None:
            raise DataError(
                f"{where} bounds scores, not weights, by 5 / (√n log n); leave truncate out"
            )
        if self.estimand == "ato":
            raise DataError(f'{where} has the estimands "att", "atu" and "ate", not "ato"')

    def _require_selection(self) -> None:
        """Refuse rules that scores of selected covariates do not have."""
        where = f"analysis {self.id}: selection of covariates for each outcome"
        if self.propensity is None:
            raise DataError(f"{where} needs a propensity model")
        if self.propensity.people == "all":
            raise DataError(f"{where} has scores of people at risk; leave people = 'all' out")
        if self.outcome_model.family.doubly_robust:
            raise DataError(f"{where} does not combine with doubly robust effects; leave one out")

    @property
    def adjusts(self) -> bool:
        """Whether matching, strata or weights make the arms comparable."""
        return bool(self.match or self.stratify or self.outcome_model.weighted)

    @property
    def judges_balance(self) -> bool:
        """Whether balance is evaluated: after matching, strata or weights, or after trimming alone.

        A doubly robust effect adjusts people by models that weights or sets do not show.
        """
        trimmed = self.trim is not None and not self.outcome_model.family.doubly_robust
        return self.adjusts or trimmed

    @property
    def crude(self) -> bool:
        """Whether nothing adjusts: neither sets or weights nor covariates of the outcome model."""
        return not (self.adjusts or self.outcome_model.covariates)

    @property
    def stabilizes(self) -> bool:
        """Whether people are weighted by the propensity score, with stabilised weights."""
        by_score = self.outcome_model.weighted and not (self.match or self.stratify)
        return by_score and self.estimand != "ato"

    @property
    def adjustment(self) -> ScoreAdjustment:
        """How people are adjusted by their scores."""
        weighted = self.outcome_model.weighted
        return ScoreAdjustment(
            self.trim, self.match, self.stratify, weighted, self.estimand, self.truncate
        )

    def estimates(self, reversed_match: bool = False) -> Estimand:
        """Return the estimand, the population whose effect is estimated.

        Parameters
        ----------
        reversed_match : bool, default False
            Whether target people were matched to comparator people.

        Returns
        -------
        str
            "att", "atu", "ate" or "ato".
        """
        return self.adjustment.population(reversed_match)
