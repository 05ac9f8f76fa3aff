"""Kinds of recorded events, such as drug exposures: the OMOP table and columns of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steropes.studies.database.omop import OmopDatabase

__all__ = ["EVENTS", "Event", "recorded_events"]


@dataclass(frozen=True)
class Event:
    """A kind of entry events in Circe's terms.

    Attributes
    ----------
    kind : str
        Circe's name.
    table, concept, start, source : str
        Its table, with the columns of the concept, the first day and the source concept ("" if
        there is none).
    """

    kind: str
    table: str
    concept: str
    start: str
    source: str = ""


EVENTS = (
    Event("DrugExposure", "drug_exposure", "drug_concept_id", "drug_exposure_start_date",
          "drug_source_concept_id"),
    Event("DrugEra", "drug_era", "drug_concept_id", "drug_era_start_date"),
    Event("ConditionOccurrence", "condition_occurrence", "condition_concept_id",
          "condition_start_date", "condition_source_concept_id"),
    Event("ConditionEra", "condition_era", "condition_concept_id", "condition_era_start_date"),
    Event("ProcedureOccurrence", "procedure_occurrence", "procedure_concept_id", "procedure_date",
          "procedure_source_concept_id"),
    Event("DeviceExposure", "device_exposure", "device_concept_id", "device_exposure_start_date",
          "device_source_concept_id"),
    Event("Measurement", "measurement", "measurement_concept_id", "measurement_date",
          "measurement_source_concept_id"),
    Event("Observation", "observation", "observation_concept_id", "observation_date",
          "observation_source_concept_id"),
    Event("VisitOccurrence", "visit_occurrence", "visit_concept_id", "visit_start_date",
          "visit_source_concept_id"),
)  # fmt: skip


def recorded_events(db: OmopDatabase, eras: bool = True) -> Iterator[tuple[Event, str]]:
    """Yield the kinds that a database records, with SQL of the source concept or NULL.

    Parameters
    ----------
    eras : bool
        Whether eras, which are made of other records, count too.
    """
    for event in EVENTS:
        have = db.columns(event.table)
        if not {"person_id", event.concept, event.start} <= {*have}:
            continue
        if eras or event.source:
            source = f"e.{event.source}::BIGINT" if event.source in have else "NULL::BIGINT"
            yield event, source
