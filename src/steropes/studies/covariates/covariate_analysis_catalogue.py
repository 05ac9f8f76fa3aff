"""Catalogue of covariate analyses: source table, time window and analysis number of each.

An analysis defines a family of covariates. Its number is part of their ids; numbers and ids are
those of OHDSI's FeatureExtraction 3, so that covariates can be compared across studies. Of its
catalogue the following are not available: the care site (12), conditions as an inpatient's primary
diagnosis (105 to 108, and 102 of several windows) and the hospital frailty score (926). Times after
the index (9, 10) describe cohorts, and are no covariates of models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["ANALYSES", "DEFAULT", "DURING", "WINDOWED", "Analysis"]

Window = Literal["any", "long", "medium", "short", "overlap", ""]
WINDOWS: tuple[Window, ...] = ("any", "long", "medium", "short")
NAMES = {
    "any": "AnyTimePrior",
    "long": "LongTerm",
    "medium": "MediumTerm",
    "short": "ShortTerm",
    "overlap": "Overlapping",
    "": "",
}


@dataclass(frozen=True)
class Analysis:
    """A family of covariates.

    Attributes
    ----------
    kind : str
        How the covariates are computed: "demographic", "length" (years or days), "concept", "group"
        (each concept also counts for its ancestors), "range", "value", "value as concept",
        "count", "distinct", "by concept" or "score".
    domain : str
        Domain of the records, for display.
    table, concept, first, last : str
        The table and its columns of the concept, the first day and the last day.
    window : str
        Days before the start: "long", "medium", "short", "any", or "overlap" (the last day).
    """

    id: int
    name: str
    kind: str
    domain: str
    table: str = ""
    concept: str = ""
    first: str = ""
    last: str = ""
    window: Window = ""

    @property
    def binary(self) -> bool:
        """Whether all covariates are 0/1."""
        return self.kind in ("demographic", "concept", "group", "range", "value as concept")

    @property
    def begins(self) -> bool:
        """Whether an era counts only if it starts in the window."""
        return "EraStart" in self.name


DEMOGRAPHIC = {
    1: "DemographicsGender",
    3: "DemographicsAgeGroup",
    4: "DemographicsRace",
    5: "DemographicsEthnicity",
    6: "DemographicsIndexYear",
    7: "DemographicsIndexMonth",
    11: "DemographicsIndexYearMonth",
}
LENGTHS = {2: "DemographicsAge", 8: "DemographicsPriorObservationTime"}
LENGTHS_AFTER = {9: "DemographicsPostObservationTime", 10: "DemographicsTimeInCohort"}
SCORES = {901: "CharlsonIndex", 902: "Dcsi", 903: "Chads2", 904: "Chads2Vasc"}
OCCURRENCE = ("condition_occurrence", "condition_concept_id") + ("condition_start_date",) * 2
CONDITION = (
    "condition_era",
    "condition_concept_id",
    "condition_era_start_date",
    "condition_era_end_date",
)
EXPOSURE = ("drug_exposure", "drug_concept_id") + ("drug_exposure_start_date",) * 2
DRUG = ("drug_era", "drug_concept_id", "drug_era_start_date", "drug_era_end_date")
CONDITION_START, DRUG_START = ((*era[:3], era[2]) for era in (CONDITION, DRUG))
PROCEDURE = ("procedure_occurrence", "procedure_concept_id") + ("procedure_date",) * 2
DEVICE = ("device_exposure", "device_concept_id") + ("device_exposure_start_date",) * 2
MEASUREMENT = ("measurement", "measurement_concept_id") + ("measurement_date",) * 2
OBSERVATION = ("observation", "observation_concept_id") + ("observation_date",) * 2
VISIT = ("visit_occurrence", "visit_concept_id", "visit_start_date", "visit_end_date")

# Each line has the first id, name, kind, domain, columns and windows.
FAMILIES: tuple[tuple[int, str, str, str, tuple[str, ...], tuple[Window, ...]], ...] = (
    (101, "ConditionOccurrence", "concept", "Condition", OCCURRENCE, WINDOWS),
    (201, "ConditionEra", "concept", "Condition", CONDITION, (*WINDOWS, "overlap")),
    (206, "ConditionEraStart", "concept", "Condition", CONDITION_START, WINDOWS[1:]),
    (214, "ConditionGroupEraStart", "group", "Condition", CONDITION_START, WINDOWS[1:]),
    (209, "ConditionGroupEra", "group", "Condition", CONDITION, (*WINDOWS, "overlap")),
    (301, "DrugExposure", "concept", "Drug", EXPOSURE, WINDOWS),
    (401, "DrugEra", "concept", "Drug", DRUG, (*WINDOWS, "overlap")),
    (406, "DrugEraStart", "concept", "Drug", DRUG_START, WINDOWS[1:]),
    (414, "DrugGroupEraStart", "group", "Drug", DRUG_START, WINDOWS[1:]),
    (409, "DrugGroupEra", "group", "Drug", DRUG, (*WINDOWS, "overlap")),
    (501, "ProcedureOccurrence", "concept", "Procedure", PROCEDURE, WINDOWS),
    (601, "DeviceExposure", "concept", "Device", DEVICE, WINDOWS),
    (701, "Measurement", "concept", "Measurement", MEASUREMENT, WINDOWS),
    (705, "MeasurementValue", "value", "Measurement", MEASUREMENT, WINDOWS),
    (709, "MeasurementRangeGroup", "range", "Measurement", MEASUREMENT, WINDOWS),
    (713, "MeasurementValueAsConcept", "value as concept", "Measurement", MEASUREMENT, WINDOWS),
    (801, "Observation", "concept", "Observation", OBSERVATION, WINDOWS),
    (805, "ObservationValueAsConcept", "value as concept", "Observation", OBSERVATION, WINDOWS),
    (809, "ObservationValue", "value", "Observation", OBSERVATION, WINDOWS),
    (905, "DistinctConditionCount", "distinct", "Condition", CONDITION, WINDOWS[1:]),
    (908, "DistinctIngredientCount", "distinct", "Drug", DRUG, WINDOWS[1:]),
    (911, "DistinctProcedureCount", "distinct", "Procedure", PROCEDURE, WINDOWS[1:]),
    (914, "DistinctMeasurementCount", "distinct", "Measurement", MEASUREMENT, WINDOWS[1:]),
    (917, "DistinctObservationCount", "distinct", "Observation", OBSERVATION, WINDOWS[1:]),
    (920, "VisitCount", "count", "Visit", VISIT, WINDOWS[1:]),
    (923, "VisitConceptCount", "by concept", "Visit", VISIT, WINDOWS[1:]),
)
# Analyses of several windows, which the settings give: id, name, kind, domain and columns.
OF_WINDOWS: tuple[tuple[int, str, str, str, tuple[str, ...]], ...] = (
    (101, "ConditionOccurrence", "concept", "Condition", OCCURRENCE),
    (201, "ConditionEraStart", "concept", "Condition", CONDITION_START),
    (202, "ConditionEraOverlap", "concept", "Condition", CONDITION),
    (203, "ConditionEraGroupStart", "group", "Condition", CONDITION_START),
    (204, "ConditionEraGroupOverlap", "group", "Condition", CONDITION),
    (301, "DrugExposure", "concept", "Drug", EXPOSURE),
    (401, "DrugEraStart", "concept", "Drug", DRUG_START),
    (402, "DrugEraOverlap", "concept", "Drug", DRUG),
    (403, "DrugEraGroupStart", "group", "Drug", DRUG_START),
    (404, "DrugEraGroupOverlap", "group", "Drug", DRUG),
    (501, "ProcedureOccurrence", "concept", "Procedure", PROCEDURE),
    (601, "DeviceExposure", "concept", "Device", DEVICE),
    (701, "Measurement", "concept", "Measurement", MEASUREMENT),
    (702, "MeasurementValue", "value", "Measurement", MEASUREMENT),
    (703, "MeasurementRangeGroup", "range", "Measurement", MEASUREMENT),
    (704, "MeasurementValueAsConcept", "value as concept", "Measurement", MEASUREMENT),
    (801, "Observation", "concept", "Observation", OBSERVATION),
    (802, "ObservationValueAsConcept", "value as concept", "Observation", OBSERVATION),
    (803, "ObservationValue", "value", "Observation", OBSERVATION),
    (905, "DistinctConditionCount", "distinct", "Condition", CONDITION),
    (906, "DistinctIngredientCount", "distinct", "Drug", DRUG),
    (907, "DistinctProcedureCount", "distinct", "Procedure", PROCEDURE),
    (908, "DistinctMeasurementCount", "distinct", "Measurement", MEASUREMENT),
    (909, "DistinctObservationCount", "distinct", "Observation", OBSERVATION),
    (910, "VisitCount", "count", "Visit", VISIT),
    (911, "VisitConceptCount", "by concept", "Visit", VISIT),
)

# Analyses of spans of days, such as those between a target and an outcome, as Characterization
# numbers them. Conditions as an inpatient's primary diagnosis (110) are not available.
OF_SPANS: tuple[tuple[int, str, str, str, tuple[str, ...]], ...] = (
    (109, "ConditionOccurrenceDuring", "concept", "Condition", OCCURRENCE),
    (217, "ConditionEraDuring", "concept", "Condition", CONDITION_START),
    (218, "ConditionGroupEraDuring", "group", "Condition", CONDITION_START),
    (305, "DrugExposureDuring", "concept", "Drug", EXPOSURE),
    (417, "DrugEraDuring", "concept", "Drug", DRUG_START),
    (418, "DrugGroupEraDuring", "group", "Drug", DRUG_START),
    (505, "ProcedureOccurrenceDuring", "concept", "Procedure", PROCEDURE),
    (605, "DeviceExposureDuring", "concept", "Device", DEVICE),
    (713, "MeasurementDuring", "concept", "Measurement", MEASUREMENT),
    (805, "ObservationDuring", "concept", "Observation", OBSERVATION),
    (926, "VisitCountDuring", "count", "Visit", VISIT),
    (927, "VisitConceptCountDuring", "by concept", "Visit", VISIT),
)


def _without_windows() -> Iterator[Analysis]:
    """Yield the analyses of the index date itself."""
    for number, name in DEMOGRAPHIC.items():
        yield Analysis(number, name, "demographic", "Demographics")
    for number, name in LENGTHS.items():
        yield Analysis(number, name, "length", "Demographics")
    for number, name in SCORES.items():
        yield Analysis(number, name, "score", "Condition", *CONDITION)


def _of_windows() -> Iterator[Analysis]:
    """Yield all analyses of several windows, and those of the index date."""
    yield from _without_windows()
    for number, name in LENGTHS_AFTER.items():
        yield Analysis(number, name, "length", "Demographics")
    for number, name, kind, domain, columns in OF_WINDOWS:
        table, concept, start, end = columns
        yield Analysis(number, name, kind, domain, table, concept, start, end)


def _catalogue() -> Iterator[Analysis]:
    """Yield all analyses, numbering the windows of a family consecutively."""
    yield from _without_windows()
    for first, name, kind, domain, columns, windows in FAMILIES:
        for i, window in enumerate(windows):
            table, concept, start, end = columns
            yield Analysis(
                first + i, name + NAMES[window], kind, domain, table, concept, start, end, window
            )


ANALYSES: dict[int, Analysis] = {a.id: a for a in sorted(_catalogue(), key=lambda a: a.id)}
# The analyses of several windows, whose numbers have other meanings than those above.
WINDOWED: dict[int, Analysis] = {a.id: a for a in sorted(_of_windows(), key=lambda a: a.id)}
# The analyses of spans of days, with numbers of their own too.
DURING: dict[int, Analysis] = {
    number: Analysis(number, name, kind, domain, table, concept, start, end)
    for number, name, kind, domain, (table, concept, start, end) in OF_SPANS
}
# The analyses of FeatureExtraction's default settings.
DEFAULT: tuple[int, ...] = (
    *(1, 3, 4, 5, 6, 7),
    *(210, 212, 410, 412, 413),
    *(502, 504, 602, 604, 702, 704, 710, 712, 714, 716, 802, 804, 806, 808),
    *(901, 902, 903, 904),
)
