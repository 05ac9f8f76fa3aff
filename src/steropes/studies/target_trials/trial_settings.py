"""The specification of a target trial in an OMOP database."""

from __future__ import annotations

from dataclasses import field

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Age,
    Count,
    CovariateIds,
    Day,
    Days,
    Listed,
    RiskDays,
    Share,
    YesNo,
)
from steropes.designs.target_trials.sequential_trial_rows import Effect
from steropes.designs.values.dates_and_ages import AgeRule
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["OmopTrial"]


class OmopTrial(Settings):
    """A target trial of starting a treatment, emulated as a sequence of trials.

    A trial starts on the first day of every period. Who is eligible on that day enters it, as a
    person who starts the treatment or as one who does not.

    Parameters
    ----------
    cohorts : CohortSources
        Sources of the cohorts.
    treatment : int
        Id of the cohort of people who are treated, such as eras of a drug. Treated in a period are
        those who are in it on the period's first day.
    outcome : int
        Id of the outcome's cohort. Follow-up ends with its first entry, and no one with an earlier
        one is eligible.
    study_start : date
        The first day of the first trial.
    study_end : date
        The last day of follow-up.
    period_days : int, default 30
        Length of a period. The last one is complete.
    washout_days : int, default 365
        Days of observation that people must have before a trial, in all of which they are
        untreated. The starters of a trial begin in the period before it or on its first day.
    nesting : int, optional
        Id of a cohort, such as an indication: people must have entered it by the start.
    min_age, max_age : int, optional
        Limits of completed years of age at the start, both inclusive.
    sexes : tuple of int, default ()
        Gender concepts to keep; empty keeps all.
    age_rule : {"birthdays", "365.25 days"}, default "birthdays"
        Whether a year of age is completed on the birthday, or after 365.25 days.
    features : FeatureRules
        How covariates are made from records up to the day before each period, without the treatment
        itself. Default: sex, age and groups of conditions.
    covariates : tuple of int
        Ids of the covariates in use. They are measured anew in every period.
    effect : {"intention-to-treat", "per-protocol", "as-treated"}, default "intention-to-treat"
        The effect to estimate: of starting the treatment whatever follows, of continuing as
        assigned, or of the treatment that people have in each period. The last two have stabilised
        weights of treatment given the covariates of each period.
    censoring_weights : bool, default False
        Also weight by the probability to remain observed given the covariates of each period.
    truncate : float, optional
        Quantile at which weights are truncated.
    follow_up : int, optional
        Largest number of periods of follow-up. Default: until the end of the study.
    bootstrap : int, default 0
        Number of draws of people, in each of which all models are fitted again. With 0 errors are
        clustered by person and take weights as known.
    seed : int, default 1
        Seed of the draws.

    Examples
    --------
    >>> from datetime import date
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.target_trials import OmopTrial
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> trial = OmopTrial(sources, 1, 3, date(2008, 1, 1), date(2009, 12, 31))
    >>> trial.period_days, trial.effect
    (30, 'intention-to-treat')
    """

    cohorts: CohortSources
    treatment: Count
    outcome: Count
    study_start: Day
    study_end: Day
    period_days: RiskDays = 30
    washout_days: Days = 365
    nesting: Count | None = None
    min_age: Age | None = None
    max_age: Age | None = None
    sexes: Listed[ConceptId] = ()
    age_rule: AgeRule = "birthdays"
    features: FeatureRules = field(
        default_factory=lambda: FeatureRules(analyses=(1, 2, 210), end_day=-1)
    )
    covariates: CovariateIds = ()
    effect: Effect = "intention-to-treat"
    censoring_weights: YesNo = False
    truncate: Share | None = None
    follow_up: RiskDays | None = None
    bootstrap: Count = 0
    seed: Count = 1

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        roles = [self.treatment, self.outcome, *(() if self.nesting is None else (self.nesting,))]
        if len({*roles}) < len(roles):
            raise DataError(f"cohort {max(roles, key=roles.count)} has two roles in the trial")
        if self.periods < 1:
            raise DataError(
                f"from {self.study_start} to {self.study_end} there is no whole period of "
                f"{self.period_days} days"
            )
        if self.features.end_day > -1:
            raise DataError(
                "covariates of the first day of a period may follow the treatment; set end_day of "
                "the features to -1 or less"
            )
        weighted = self.effect != "intention-to-treat" or self.censoring_weights
        if weighted and not self.covariates:
            raise DataError("weights need covariates; list their ids")
        if self.truncate is not None and not weighted:
            raise DataError("truncate has no effect without weights; leave it out")

    @property
    def periods(self) -> int:
        """Number of whole periods of the study."""
        return ((self.study_end - self.study_start).days + 1) // self.period_days

    @property
    def roles(self) -> set[int]:
        """Ids of all cohorts."""
        found = {self.treatment, self.outcome}
        return found if self.nesting is None else found | {self.nesting}
