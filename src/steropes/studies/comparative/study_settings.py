"""The settings of a one-question study."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from steropes.errors import DataError
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.execution.setting_types import (
    ConceptId,
    Count,
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
from steropes.studies.execution.settings_classes import Settings

__all__ = ["StudySettings"]


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
    washout_days : int, default 365
        Days of observation required before the start.
    risk_days : int, optional
        Last day at risk, counted from the start. Default: the end of observation.
    descendants : bool, default True
        Also include the descendants of all these concepts and of those in ``exclude``. A vocabulary
        without the links for it is refused.
    window_days : int, default 365
        Covariates are records from this many days before the start up to the start.
    min_people : int, default 10
        Covariates of fewer people are dropped.
    min_share : float, default 0.001
        Covariates of a smaller share of people are dropped.
    exclude : tuple of int
        Concepts to leave out of the covariates.
    caliper : float, default 0.2
        Distances within a matched pair are below it, in standard deviations of the logit of the
        propensity score.
    folds : int, default 10
        Folds of the cross-validation that chooses the prior's variance.
    seed : int, default 1
        Seed of the folds and of the choice among people with equal scores.
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
    washout_days: Days = 365
    risk_days: RiskDays | None = None
    descendants: YesNo = True
    window_days: Days = 365
    min_people: Count = 10
    min_share: Share = 0.001
    exclude: Listed[ConceptId] = ()
    caliper: Positive = 0.2
    folds: Folds = 10
    seed: Count = 1
    tie_orders: Annotated[int, Whole(0, 10_000)] = 20
    min_cell: Count | None = None
    thresholds: DiagnosticThresholds = field(default_factory=DiagnosticThresholds)
    unblind: YesNo = False
    schema: Name = "main"
    time_zone: TimeZone = "UTC"

    def __post_init__(self) -> None:
        if self.target == self.comparator:
            raise DataError(f"target and comparator are the same concept, {self.target}")
