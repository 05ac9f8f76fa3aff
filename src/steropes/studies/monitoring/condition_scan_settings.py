"""The specification of a tree scan of all conditions in an OMOP database."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Literal

from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Age,
    Count,
    Day,
    Days,
    Listed,
    Offset,
    Positive,
    Share,
    YesNo,
)
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["OmopTreeScan"]

# Sex, age group, year of the start, and each concept that is recorded in the long window.
COVARIATES = (1, 3, 6, 102, 402, 502, 702, 802)


class OmopTreeScan(Settings):
    """A tree scan of the conditions that people have for the first time after an exposure.

    With a ``comparator`` new users of two drugs are compared, matched by or given their propensity
    scores; with ``control_days`` a window of the same people without exposure is the comparison.

    Parameters
    ----------
    cohorts : CohortSources
        Sources of the cohorts.
    target : int
        Id of the cohort of the exposure; its first entry of a person counts.
    comparator : int, optional
        Id of the cohort with which it is compared.
    days : (int, int), default (1, 365)
        First and last day of the window after the start, in which everybody is observed.
    control_days : (int, int), optional
        The window without exposure of a self-controlled scan, such as (-365, -1).
    washout_days : int, default 365
        Days of observation before the start, or before the first window if that is earlier, without
        a record of the same condition.
    nesting : int, optional
        Id of a cohort, such as an indication, that people must be in at the start.
    study_start : date, optional
        Keep those who start on this day or later.
    study_end : date, optional
        Keep those who start on this day or before.
    min_age : int, optional
        Smallest completed age in years at the start.
    max_age : int, optional
        Largest completed age in years at the start.
    sexes : tuple of int, default ()
        Gender concepts to keep; empty keeps all.
    adjust : {"match", "score"}, default "match"
        Whether pairs are matched by their scores, or the score is the probability of exposure of
        each person with an outcome.
    caliper : float, default 0.2
        Distances within a pair are below it, in standard deviations of the score's logit.
    exclude : tuple of int
        Concepts to leave out of the covariates, besides compared drugs that are concepts.
    features : FeatureRules
        How covariates are made. Default: sex, age group, year and all concepts of a year before.
    propensity : PropensityRules
        Settings of the propensity model.
    conditional : bool, default False
        Compare conditions with each other instead of with the probability of exposure.
    alpha : float, default 0.05
        Probability of any signal without an effect.
    replicates : int, default 9999
        Number of replicates without an effect.
    seed : int, default 1
        Seed of the replicates and of matching.

    Examples
    --------
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.monitoring import OmopTreeScan
    >>> drugs = CohortSources(drugs={1: ConceptSet((1118084,)), 2: ConceptSet((1124300,))})
    >>> OmopTreeScan(drugs, target=1, comparator=2).days
    (1, 365)
    """

    cohorts: CohortSources
    target: Count
    comparator: Count | None = None
    days: Listed[Offset] = (1, 365)
    control_days: Listed[Offset] | None = None
    washout_days: Days = 365
    nesting: Count | None = None
    study_start: Day | None = None
    study_end: Day | None = None
    min_age: Age | None = None
    max_age: Age | None = None
    sexes: Listed[ConceptId] = ()
    adjust: Literal["match", "score"] = "match"
    caliper: Positive = Match.caliper
    exclude: Listed[ConceptId] = ()
    features: FeatureRules = field(default_factory=lambda: FeatureRules(COVARIATES))
    propensity: PropensityRules = field(default_factory=PropensityRules)
    conditional: YesNo = False
    alpha: Share = 0.05
    replicates: Count = 9999
    seed: Count = 1

    def __post_init__(self) -> None:
        """Refuse contradictions, and settings that have no effect."""
        given = [x for x in (self.target, self.comparator, self.nesting) if x is not None]
        if len({*given}) < len(given):
            raise DataError(f"cohort {max(given, key=given.count)} has two roles in the scan")
        if (self.comparator is None) == (self.control_days is None):
            raise DataError(
                "give a comparator, or control_days of the same people without exposure; not both"
            )
        windows = [self.days, *([] if self.control_days is None else [self.control_days])]
        for name, window in zip(("days", "control_days"), windows, strict=False):
            if len(window) != 2 or window[0] > window[1]:
                raise DataError(f"{name} must be the first and last day, such as 1 and 365")
        if self.comparator is None:
            usual = OmopTreeScan(self.cohorts, self.target, self.target + 1)
            for name in ("adjust", "caliper", "exclude", "features", "propensity"):
                if getattr(self, name) != getattr(usual, name):
                    raise DataError(f"{name} has no effect in a self-controlled scan; leave it out")
        if not 0 < self.alpha < 1:
            raise DataError(f"alpha must be between 0 and 1, not {self.alpha:g}")

    @property
    def roles(self) -> set[int]:
        """Ids of all cohorts."""
        return {x for x in (self.target, self.comparator, self.nesting) if x is not None}

    @property
    def rules(self) -> ComparisonRules:
        """The rules that select people."""
        first = min(0, self.days[0], *(self.control_days or ()))
        return ComparisonRules(
            both="keep all" if self.comparator is None else "keep first",
            washout_days=self.washout_days - first, common_period=False,
            min_age=self.min_age, max_age=self.max_age, sexes=self.sexes,
            study_start=self.study_start, study_end=self.study_end,
        )  # fmt: skip

    @property
    def covariates(self) -> FeatureRules:
        """The rules of covariates, without the compared drugs."""
        sets = [self.cohorts.drugs.get(i) for i in (self.target, self.comparator) if i is not None]
        drugs = [c for s in sets if s is not None for c in s.include]
        return replace(
            self.features,
            exclude=(*dict.fromkeys((*self.features.exclude, *self.exclude, *drugs)),),
        )
