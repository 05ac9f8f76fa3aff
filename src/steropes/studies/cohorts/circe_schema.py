"""The attributes of Circe's definitions, and a check that rejects unknown ones.

Circe silently ignores an attribute that it does not know. A misspelt restriction, or one that a
kind of criterion does not have, would define a different cohort from the intended one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from steropes.errors import DataError

__all__ = ["CRITERIA", "UNSUPPORTED", "check_definition"]

VISIT = "Age Gender GenderCS ProviderSpecialty ProviderSpecialtyCS VisitType VisitTypeCS"
ERA = "EraLength AgeAtStart AgeAtEnd Gender GenderCS"
PERIOD = "First PeriodStartDate PeriodEndDate UserDefinedPeriod PeriodLength AgeAtStart AgeAtEnd"
START = "CodesetId First OccurrenceStartDate"
BOTH = f"{START} OccurrenceEndDate"


def _typed(domain: str) -> str:
    """List the attributes of a record's type and source concept."""
    return f"{domain}Type {domain}TypeCS {domain}TypeExclude {domain}SourceConcept"


# Every kind of criterion also has CorrelatedCriteria and DateAdjustment.
CRITERIA: dict[str, frozenset[str]] = {
    kind: frozenset(f"{names} CorrelatedCriteria DateAdjustment".split())
    for kind, names in {
        "ConditionEra": f"CodesetId First EraStartDate EraEndDate OccurrenceCount {ERA}",
        "ConditionOccurrence": f"{BOTH} {_typed('Condition')} StopReason {VISIT} ConditionStatus "
        "ConditionStatusCS",
        "CustomEra": "CriteriaList First GapDays StartDate EndDate AgeAtStart GenderCS Duration",
        "Death": f"CodesetId OccurrenceStartDate {_typed('Death')} Age Gender GenderCS",
        "DeviceExposure": f"{BOTH} {_typed('Device')} UniqueDeviceId Quantity {VISIT}",
        "DoseEra": f"CodesetId First EraStartDate EraEndDate Unit UnitCS DoseValue {ERA}",
        "DrugEra": f"CodesetId First EraStartDate EraEndDate OccurrenceCount GapDays {ERA}",
        "DrugExposure": f"{BOTH} {_typed('Drug')} StopReason Refills Quantity DaysSupply "
        f"RouteConcept RouteConceptCS EffectiveDrugDose DoseUnit DoseUnitCS LotNumber {VISIT}",
        "Episode": "CodesetId First EpisodeStartDate EpisodeEndDate EpisodeNumber Age GenderCS "
        "EpisodeObjectConceptCS EpisodeTypeCS",
        "LocationRegion": "CodesetId StartDate EndDate",
        "Measurement": f"{START} {_typed('Measurement')} Operator OperatorCS ValueAsNumber "
        "ValueAsConcept ValueAsConceptCS Unit UnitCS RangeLow RangeHigh RangeLowRatio "
        f"RangeHighRatio Abnormal {VISIT}",
        "Observation": f"{START} {_typed('Observation')} ValueAsNumber ValueAsString "
        f"ValueAsConcept ValueAsConceptCS Qualifier QualifierCS Unit UnitCS {VISIT}",
        "ObservationPeriod": f"{PERIOD} PeriodType PeriodTypeCS",
        "PayerPlanPeriod": f"{PERIOD} Gender GenderCS PayerConcept PlanConcept SponsorConcept "
        "StopReasonConcept PayerSourceConcept PlanSourceConcept SponsorSourceConcept "
        "StopReasonSourceConcept",
        "ProcedureOccurrence": f"{START} {_typed('Procedure')} Modifier ModifierCS Quantity "
        f"{VISIT}",
        "Specimen": f"{START} {_typed('Specimen')} Quantity Unit UnitCS AnatomicSite "
        "AnatomicSiteCS DiseaseStatus DiseaseStatusCS SourceId Age Gender GenderCS",
        "VisitDetail": "CodesetId First VisitDetailStartDate VisitDetailEndDate VisitDetailTypeCS "
        "VisitDetailSourceConcept VisitDetailLength Age GenderCS ProviderSpecialtyCS "
        "PlaceOfServiceCS PlaceOfServiceLocation",
        "VisitOccurrence": f"{BOTH} VisitTypeExclude VisitSourceConcept VisitLength {VISIT} "
        "PlaceOfService PlaceOfServiceCS PlaceOfServiceLocation",
    }.items()
}
# Circe has these, but the SQL that duckcdm writes does not use them.
UNSUPPORTED = frozenset(
    {
        ("CustomEra", "CorrelatedCriteria"),
        ("DrugExposure", "EffectiveDrugDose"),
        ("LocationRegion", "DateAdjustment"),
        ("LocationRegion", "EndDate"),
        ("LocationRegion", "StartDate"),
        ("Specimen", "DateAdjustment"),
        ("Specimen", "SpecimenSourceConcept"),
    }
)
# The other tables of a definition: their attributes, and the kind of table that each contains.
TABLES: dict[str, dict[str, str]] = {
    "definition": {
        "id": "",
        "name": "",
        "description": "",
        "cdmVersionRange": "",
        "Title": "",
        "ConceptSets": "concept set",
        "PrimaryCriteria": "PrimaryCriteria",
        "AdditionalCriteria": "group",
        "QualifiedLimit": "limit",
        "ExpressionLimit": "limit",
        "InclusionRules": "inclusion rule",
        "EndStrategy": "end strategy",
        "CensoringCriteria": "criterion",
        "CollapseSettings": "CollapseSettings",
        "CensorWindow": "period",
    },
    "concept set": {"id": "", "name": "", "expression": "expression"},
    "expression": {"items": "item"},
    "item": {"concept": "", "isExcluded": "", "includeDescendants": "", "includeMapped": ""},
    "PrimaryCriteria": {
        "CriteriaList": "criterion",
        "ObservationWindow": "ObservationWindow",
        "PrimaryCriteriaLimit": "limit",
    },
    "ObservationWindow": {"PriorDays": "", "PostDays": ""},
    "limit": {"Type": ""},
    "inclusion rule": {"name": "", "description": "", "expression": "group"},
    "group": {
        "Type": "",
        "Count": "",
        "CriteriaList": "correlated criterion",
        "DemographicCriteriaList": "demographic criterion",
        "Groups": "group",
    },
    "correlated criterion": {
        "Criteria": "criterion",
        "StartWindow": "window",
        "EndWindow": "window",
        "Occurrence": "Occurrence",
        "RestrictVisit": "",
        "IgnoreObservationPeriod": "",
    },
    "demographic criterion": {
        "Age": "range",
        "Gender": "",
        "GenderCS": "selection",
        "Race": "",
        "RaceCS": "selection",
        "Ethnicity": "",
        "EthnicityCS": "selection",
        "OccurrenceStartDate": "range",
        "OccurrenceEndDate": "range",
    },
    "window": {"Start": "endpoint", "End": "endpoint", "UseIndexEnd": "", "UseEventEnd": ""},
    "endpoint": {"Days": "", "Coeff": ""},
    "Occurrence": {"Type": "", "Count": "", "IsDistinct": "", "CountColumn": ""},
    "DateOffset": {"DateField": "", "Offset": ""},
    "CustomEra strategy": {
        "DrugCodesetId": "",
        "GapDays": "",
        "Offset": "",
        "DaysSupplyOverride": "",
    },
    "CollapseSettings": {"CollapseType": "", "EraPad": ""},
    "DateAdjustment": {"StartWith": "", "StartOffset": "", "EndWith": "", "EndOffset": ""},
    "period": {"StartDate": "", "EndDate": ""},
    "range": {"Value": "", "Op": "", "Extent": ""},
    "text": {"Text": "", "Op": ""},
    "selection": {"CodesetId": "", "IsExclusion": ""},
}
STRATEGIES = {"DateOffset": "DateOffset", "CustomEra": "CustomEra strategy"}
TEXTS = ("StopReason", "UniqueDeviceId", "LotNumber", "ValueAsString", "SourceId")
LIMITS, GROUPS = ("all", "first", "last"), ("all", "any", "at_least", "at_most")


def check_definition(cohort: int, expression: object) -> None:
    """Reject a definition with unknown attributes or missing concept sets.

    Parameters
    ----------
    cohort : int
        The id of the cohort, for messages.
    expression : mapping
        The definition. Values that should be tables or lists and are not are left to the
        translation, which rejects them.

    Raises
    ------
    DataError
        Names the attribute and its place.
    """
    prefix = f"the definition of cohort {cohort} is not one that ATLAS exports"
    inner = expression.get("expression", expression) if isinstance(expression, Mapping) else None
    if not isinstance(expression, Mapping) or not isinstance(inner, Mapping):
        raise DataError(f"{prefix}: it must be an object with PrimaryCriteria")
    if "PrimaryCriteria" not in inner:
        raise DataError(f"{prefix}: PrimaryCriteria is missing")
    sets = [s.get("id") for s in _tables(expression.get("ConceptSets"))]
    for number, found in enumerate(sets, 1):
        if not isinstance(found, int) or isinstance(found, bool):
            place = f"ConceptSets[{number}].id"
            raise DataError(f"{prefix}: {place} must be a whole number, not {found!r}")
    twice = next((s for s, n in Counter(sets).items() if n > 1), None)
    if twice is not None:
        raise DataError(f"{prefix}: two concept sets have the id {twice}")
    for problem in _problems("definition", expression, "", {*sets}):
        raise DataError(f"{prefix}: {problem}")


def _problems(
    kind: str, table: Mapping[str, object], place: str, sets: set[object]
) -> Iterator[str]:
    """Yield the problems of a table and of its nested tables."""
    known = TABLES[kind]
    for name, value in table.items():
        at = f"{place}.{name}" if place else name
        if name not in known:
            yield _unknown(name, _owner(kind), place, {*known})
            continue
        yield from _value_problems(kind, name, value, at, sets)
        yield from _inner(known[name], value, at, sets)


def _inner(kind: str, value: object, place: str, sets: set[object]) -> Iterator[str]:
    """Yield the problems of the tables in an attribute."""
    if not kind:
        return
    several = isinstance(value, list)
    for i, table in enumerate(_tables(value if several else [value])):
        at = f"{place}[{i + 1}]" if several else place
        if kind == "criterion":
            yield from _criterion(table, at, sets)
        elif kind == "end strategy":
            for name, inner in table.items():
                if name in STRATEGIES:
                    yield from _inner(STRATEGIES[name], inner, f"{at}.{name}", sets)
        else:
            yield from _problems(kind, table, at, sets)


def _criterion(table: Mapping[str, object], place: str, sets: set[object]) -> Iterator[str]:
    """Yield the problems of a criterion, a table named by its kind."""
    for kind, attributes in table.items():
        if kind not in CRITERIA:
            yield _unknown_kind(kind, place)
            continue
        if not isinstance(attributes, Mapping):
            continue  # The translation rejects it.
        for name, value in attributes.items():
            at = f"{place}.{kind}.{name}"
            if name not in CRITERIA[kind]:
                yield _unknown(name, kind, f"{place}.{kind}", CRITERIA[kind])
            elif (kind, name) in UNSUPPORTED and value is not None:
                yield f"{at} is not supported and would be ignored; leave it out"
            yield from _value_problems(kind, name, value, at, sets)
            yield from _inner(_shape(name, value), value, at, sets)


def _unknown_kind(kind: str, place: str) -> str:
    """Describe an unknown kind of criterion, with the closest known one."""
    close = get_close_matches(kind, sorted(CRITERIA), 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return (
        f"{kind!r} ({place}) is no kind of criterion.{hint} Known kinds: "
        f"{', '.join(sorted(CRITERIA))}"
    )


def _shape(name: str, value: object) -> str:
    """Return the kind of table in an attribute of a criterion."""
    shapes = {
        "CorrelatedCriteria": "group",
        "CriteriaList": "criterion",
        "DateAdjustment": "DateAdjustment",
        "UserDefinedPeriod": "period",
    }
    if name in shapes:
        return shapes[name]
    if name in TEXTS:
        return "text"
    if name.endswith("CS"):
        return "selection"
    return "range" if isinstance(value, Mapping) else ""


def _value_problems(
    kind: str, name: str, value: object, place: str, sets: set[object]
) -> Iterator[str]:
    """Yield the problems of a value that Circe would misread."""
    of_set = name.endswith(("CodesetId", "SourceConcept")) or name == "PlaceOfServiceLocation"
    if of_set and value is not None and not (isinstance(value, int) and value in sets):
        yield f"{place} is {value!r}, and there is no concept set with that id"
    for of, allowed in (("limit", LIMITS), ("group", GROUPS)):
        if kind == of and name == "Type" and str(value).lower() not in allowed:
            yield f"{place} must be one of {', '.join(allowed)}, not {value!r}"
    if kind == "item" and name == "concept" and not _has_id(value):
        yield f"{place} has no CONCEPT_ID"


def _has_id(concept: object) -> bool:
    """Check that a concept has an integer id."""
    found = concept.get("CONCEPT_ID") if isinstance(concept, Mapping) else None
    return isinstance(found, int) and not isinstance(found, bool)


def _tables(values: object) -> list[Mapping[str, object]]:
    """Return the tables among the elements of a list."""
    return [v for v in values or () if isinstance(v, Mapping)] if isinstance(values, list) else []


def _owner(kind: str) -> str:
    """Name a kind of table with its article, as the subject of a sentence."""
    if kind[0].isupper():
        return kind
    return f"an {kind}" if kind[0] in "aei" else f"a {kind}"


def _unknown(name: str, owner: str, place: str, known: set[str] | frozenset[str]) -> str:
    """Describe an unknown attribute, with the closest known one."""
    close = get_close_matches(name, sorted(known), 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    where = f" ({place})" if place else ""
    return (
        f"{owner} has no attribute {name!r}{where}, and Circe would ignore it.{hint} Known "
        f"attributes: {', '.join(sorted(known))}"
    )
