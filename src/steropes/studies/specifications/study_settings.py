"""The settings of a study of one comparison and one outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from steropes.designs.covariates.preprocessing import TidyRules
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import (
    Count,
    Day,
    Days,
    Folds,
    Listed,
    Name,
    Positive,
    RiskDays,
    Share,
    TimeZone,
    Whole,
    YesNo,
)
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.cohorts.design_settings_reader import read_settings
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.settings.concept_id_type import ConceptId
from steropes.studies.settings.schema_generation import schema_of
from steropes.studies.specifications.grid_specification import ControlSet

__all__ = ["StudySettings", "read_study", "study_schema"]


class StudySettings(Settings):
    """Everything that decides the result of a study, besides the database.

    Parameters
    ----------
    target : int
        Concept id of the drug of interest: an ingredient, or a class of them.
    comparator : int
        Concept id of the drug to compare it with.
    outcome : int
        Concept id of the outcome, a condition.
    further_outcomes : tuple of int
        Further outcomes of the main analysis, each among its own matched people.
    controls : ControlSet
        Negative controls, from whose estimates the systematic error is computed.
    nesting : int, optional
        Concept id of an indication: people must have had a record of the condition by the start.
    nesting_days : int, optional
        Days for which such a record counts. Default: without limit.
    cohorts : CohortSources, optional
        Sources of cohorts. If given, ``target``, ``comparator``, ``outcome``,
        ``further_outcomes``, ``nesting`` and ``controls.cohorts`` are ids of cohorts, not concepts,
        and ``exclude`` must list the study drugs.
    washout_days : int, optional
        Days of observation required before the start. Default: those of `ComparisonRules`.
    risk_days : int, optional
        Last day at risk, counted from the start. Default: the end of observation.
    at_risk : TimeAtRisk
        The time at risk in full, instead of ``risk_days``; on treatment, for example.
    descendants : bool, default True
        Also include the descendants of all these concepts and of those in ``exclude``. A vocabulary
        without the links for it is refused.
    window_days : int, default 365
        Covariates are records from this many days before the start up to the start.
    min_people : int, default 10
        Covariates of fewer people are dropped.
    min_share : float, optional
        Covariates of a smaller share of people are dropped. Default: that of `TidyRules`.
    exclude : tuple of int
        Concepts to leave out of the covariates.
    caliper : float, optional
        Distances within a matched pair are below it, in standard deviations of the logit of the
        propensity score. Default: that of `Match`.
    folds : int, optional
        Folds of the cross-validation that chooses the prior's variance. Default: those of
        `PropensityRules`.
    seed : int, default 1
        Seed of the folds and of the choice among people with equal scores.
    selected_confounders : int, optional
        Also match by scores of this many covariates that could confound the outcome most (hdPS);
        see `SelectedConfounders`.
    risk_times : tuple of int
        Days at risk by which the risks under both drugs are estimated, doubly robust, if everybody
        at risk had taken each of them.
    risk_model : {"tmle", "aipw"}, default "tmle"
        How; see `OutcomeModel`.
    tie_orders : int, default 20
        Number of other orders of people with equal scores under which matching is repeated.
    min_cell : int, optional
        Smallest count to publish, if larger than that of the disclosure rules (5 by default).
    thresholds : DiagnosticThresholds
        Thresholds of the diagnostics, which decide whether the estimate is shown.
    unblind : bool, default False
        Show the estimate and the outcomes of the arms even if a diagnostic fails.
    schema : str, default "main"
        Schema of the CDM tables.
    time_zone : str, default "UTC"
        Time zone that determines the dates of stored instants.
    observed_until : date, optional
        End observation on this day at the latest, such as the day on which the data were extracted
        if observation periods end later, on placeholder dates. Default: with the observation
        periods.

    Examples
    --------
    >>> import steropes
    >>> settings = steropes.StudySettings(target=1118084, comparator=1124300, outcome=192671)
    >>> settings.washout_days, settings.caliper
    (365, 0.2)
    """

    target: ConceptId
    comparator: ConceptId
    outcome: ConceptId
    further_outcomes: Listed[ConceptId] = ()
    controls: ControlSet = field(default_factory=ControlSet)
    nesting: ConceptId | None = None
    nesting_days: Days | None = None
    cohorts: CohortSources | None = None
    washout_days: Days = ComparisonRules.washout_days
    risk_days: RiskDays | None = None
    at_risk: TimeAtRisk = field(default_factory=TimeAtRisk)
    descendants: YesNo = True
    window_days: Days = 365
    min_people: Count = 10
    min_share: Share = TidyRules.min_share
    exclude: Listed[ConceptId] = ()
    caliper: Positive = Match.caliper
    folds: Folds = PropensityRules.folds
    seed: Count = 1
    selected_confounders: Annotated[int, Whole(1)] | None = None
    risk_times: Listed[RiskDays] = ()
    risk_model: Literal["tmle", "aipw"] = "tmle"
    tie_orders: Annotated[int, Whole(0, 10_000)] = 20
    min_cell: Count | None = None
    thresholds: DiagnosticThresholds = field(default_factory=DiagnosticThresholds)
    unblind: YesNo = False
    schema: Name = "main"
    time_zone: TimeZone = "UTC"
    observed_until: Day | None = None

    def __post_init__(self) -> None:
        """Convert ``risk_days``, and refuse settings that contradict each other."""
        if self.target == self.comparator:
            raise DataError(f"target and comparator are the same concept, {self.target}")
        if self.risk_days is not None:
            ends = TimeAtRisk(end=self.risk_days, end_anchor="cohort start")
            if self.at_risk not in (TimeAtRisk(), ends):
                raise DataError("give the time at risk once, as risk_days or as at_risk")
            object.__setattr__(self, "at_risk", ends)
        if self.controls.positive is not None:
            raise DataError("positive controls belong to grids; leave controls.positive out")
        if self.controls.cohorts and self.cohorts is None:
            raise DataError(
                "controls.cohorts are ids of cohorts, and the study has no cohorts; give concepts"
            )
        if [*self.risk_times] != sorted({*self.risk_times}):
            raise DataError(f"risk_times must increase, not {list(self.risk_times)}")
        if self.risk_model != "tmle" and not self.risk_times:
            raise DataError(
                f"risk_model={self.risk_model!r} estimates risks by days; give risk_times too"
            )
        ids = [*self.roles]
        twice = next((i for i in ids if ids.count(i) > 1), None)
        if twice is not None:
            raise DataError(f"{twice} has two roles among outcomes, controls and compared cohorts")

    @property
    def roles(self) -> tuple[int, ...]:
        """Ids of all cohorts or concepts: target, comparator, outcomes, controls and nesting."""
        controls = (*self.controls.cohorts, *self.controls.concepts)
        nesting = () if self.nesting is None else (self.nesting,)
        outcomes = (self.outcome, *self.further_outcomes)
        return (self.target, self.comparator, *outcomes, *controls, *nesting)


def study_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file of settings.

    Returns
    -------
    dict
        A JSON Schema, for editors and for validation outside of Python.

    Examples
    --------
    >>> from steropes.studies import study_schema
    >>> study_schema()["required"]
    ['target', 'comparator', 'outcome']
    """
    return schema_of(StudySettings)


def read_study(
    source: str | Path | Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> StudySettings:
    """Read the settings of a study.

    Parameters
    ----------
    source : path or mapping
        A ``.toml`` or ``.json`` file, or its values.
    given : mapping, optional
        Values that take precedence; tables are merged.

    Returns
    -------
    StudySettings
        The settings.

    Raises
    ------
    DataError
        A name is unknown, or a value is missing or invalid; the message has the line.

    Examples
    --------
    >>> from steropes.studies import read_study
    >>> question = {"target": 1118084, "comparator": 1124300, "outcome": 192671}
    >>> on_treatment = {"end": 30, "end_anchor": "cohort end"}
    >>> read_study({**question, "at_risk": on_treatment}).at_risk.end_anchor
    'cohort end'
    """
    return read_settings(StudySettings, source, given)
