"""Settings of R's CohortIncidence as a specification has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    LowerCase,
    MaybeInteger,
    Objects,
    RDate,
    RModel,
    Text,
)

__all__ = ["IncidenceDesign", "IncidenceSettings", "OutcomeDef", "StrataSettings"]


class TargetDef(RModel):
    """A cohort with time at risk."""

    id: Identifier
    name: Text = ""


class OutcomeDef(RModel):
    """An outcome, and the days after its end in which it cannot occur again."""

    id: Identifier
    name: Text = ""
    cohort_id: Identifier
    clean_window: Integer = 0
    exclude_cohort_id: MaybeInteger = None


class RiskDay(RModel):
    """A day relative to the start or the end of the cohort."""

    date_field: Annotated[Literal["start", "end"], LowerCase]
    offset: Integer = 0


class RiskDef(RModel):
    """A time at risk."""

    id: Identifier
    start: RiskDay
    end: RiskDay


class IncidenceAnalysis(RModel):
    """Targets, outcomes and times at risk that are combined."""

    targets: Items[Identifier]
    outcomes: Items[Identifier]
    tars: Items[Identifier]


class StrataSettings(RModel):
    """Characteristics by which rates are also computed."""

    by_age: Flag = False
    by_gender: Flag = False
    by_year: Flag = False
    age_breaks: Items[Integer] = ()
    age_break_list: Items[Any] = ()


class StudyWindow(RModel):
    """First and last day of the study."""

    start_date: RDate = None
    end_date: RDate = None


class IncidenceDesign(RModel):
    """Definitions and analyses."""

    cohort_defs: Items[Any] = ()
    target_defs: Objects[TargetDef]
    outcome_defs: Objects[OutcomeDef]
    time_at_risk_defs: Objects[RiskDef]
    analysis_list: Objects[IncidenceAnalysis]
    concept_sets: Items[Any] = ()
    subgroups: Items[Any] = ()
    strata_settings: StrataSettings | None = None
    study_window: StudyWindow | None = None


class IncidenceSettings(RModel):
    """The settings of CohortIncidenceModule."""

    ir_design: IncidenceDesign
