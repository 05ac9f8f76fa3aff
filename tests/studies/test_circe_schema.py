"""Attributes that Circe would ignore are refused by name; those that it knows are all used."""

import json

import pytest

from steropes.errors import DataError
from steropes.studies.cohorts.circe_schema import CRITERIA, UNSUPPORTED, check_definition

duckcdm = pytest.importorskip("duckcdm.circe")


def definition(criterion, **more):
    return {
        "ConceptSets": [{"id": 0, "name": "s", "expression": {"items": []}}],
        "PrimaryCriteria": {
            "CriteriaList": [criterion],
            "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
            "PrimaryCriteriaLimit": {"Type": "All"},
        },
        "QualifiedLimit": {"Type": "All"},
        "ExpressionLimit": {"Type": "All"},
        "InclusionRules": [],
        "CollapseSettings": {"CollapseType": "ERA", "EraPad": 0},
        **more,
    }


def sql(kind, attributes):
    return duckcdm.build_cohort_query(
        json.dumps(definition({kind: attributes})), cdm_schema="c", vocabulary_schema="c",
        result_schema="c", target_table="t", cohort_id=1,
    )  # fmt: skip


def value_of(name):
    """A value that restricts something."""
    older = {"Age": {"Value": 8, "Op": "gt"}}
    special = {
        "CriteriaList": [{"DrugEra": {}}],
        "CorrelatedCriteria": {"Type": "ALL", "CriteriaList": [], "Groups": [],
                               "DemographicCriteriaList": [older]},
        "DateAdjustment": {"StartWith": "START_DATE", "StartOffset": 3, "EndWith": "END_DATE",
                           "EndOffset": 4},
        "UserDefinedPeriod": {"StartDate": "2001-01-01", "EndDate": "2002-01-01"},
        "First": True, "Abnormal": True, "CodesetId": 0, "PlaceOfServiceLocation": 0,
    }  # fmt: skip
    if name in special:
        return special[name]
    if name in ("StopReason", "UniqueDeviceId", "LotNumber", "ValueAsString", "SourceId"):
        return {"Text": "abc", "Op": "contains"}
    if name.endswith("CS"):
        return {"CodesetId": 0}
    if name.endswith("Exclude"):
        return True
    if name.endswith("Date"):
        return {"Value": "2001-01-01", "Op": "gt"}
    if name.endswith("SourceConcept") or name in (
        "PayerConcept", "PlanConcept", "SponsorConcept", "StopReasonConcept"
    ):  # fmt: skip
        return 0
    concepts = ("Type", "Gender", "Unit", "Operator", "Modifier", "Qualifier", "Specialty",
                "ValueAsConcept", "RouteConcept", "Status", "Site", "PlaceOfService")  # fmt: skip
    if name.endswith(concepts):
        return [{"CONCEPT_ID": 77}]
    return {"Value": 7, "Op": "gt"}


@pytest.mark.parametrize("kind", CRITERIA)
def test_every_attribute_that_is_allowed_changes_the_query(kind):
    needed = {"CriteriaList": [{"DrugEra": {}}]} if kind == "CustomEra" else {}
    for name in sorted(CRITERIA[kind] - {*needed}):
        given = dict(needed)
        if name.endswith("Exclude"):
            given[name.removesuffix("Exclude")] = [{"CONCEPT_ID": 77}]
        value = 5 if (kind, name) == ("CustomEra", "GapDays") else value_of(name)
        used = sql(kind, {**given, name: value}) != sql(kind, given)
        assert used != ((kind, name) in UNSUPPORTED), name
        if used:
            check_definition(1, definition({kind: {**given, name: value}}))
        else:
            with pytest.raises(DataError, match=f"{kind}.{name} is not supported"):
                check_definition(1, definition({kind: {**given, name: value}}))


@pytest.mark.parametrize("kind", CRITERIA)
def test_attributes_of_other_criteria_are_refused_by_name(kind):
    every = set().union(*CRITERIA.values())
    for name in sorted(every - CRITERIA[kind]):
        with pytest.raises(DataError, match=rf"{kind} has no attribute '{name}' \(Primary"):
            check_definition(1, definition({kind: {name: value_of(name)}}))


def changed(path, value):
    """A definition in which one thing is another."""
    group = {
        "Type": "ALL",
        "CriteriaList": [
            {
                "Criteria": {"DrugEra": {"CodesetId": 0}},
                "StartWindow": {"Start": {"Coeff": -1}, "End": {"Days": 0, "Coeff": -1}},
                "Occurrence": {"Type": 2, "Count": 1},
            }
        ],
        "DemographicCriteriaList": [{"Age": {"Value": 8, "Op": "gt"}}],
        "Groups": [],
    }
    made = definition(
        {"DrugEra": {"CodesetId": 0, "EraLength": {"Value": 1, "Op": "gt"}}},
        InclusionRules=[{"name": "rule", "expression": group}],
        EndStrategy={"DateOffset": {"DateField": "EndDate", "Offset": 0}},
        CensoringCriteria=[{"Death": {}}],
    )
    made["ConceptSets"][0]["expression"]["items"] = [{"concept": {"CONCEPT_ID": 7, "X": 1}}]
    check_definition(1, made)
    at = made
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return made


RULE = ("InclusionRules", 0, "expression")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("primaryCriteria",), {}, "no attribute 'primaryCriteria'.*Did you mean Prim"),
        (("ConceptSets", 0, "expression", "items", 0, "includeDescendant"), True,
         r"an item has no attribute 'includeDescendant' \(ConceptSets\[1\].expression.items"),
        (("ConceptSets", 0, "expression", "items", 0, "concept"), {}, "has no CONCEPT_ID"),
        (("ConceptSets",), [{"id": 0}, {"id": 0}], "two concept sets have the id 0"),
        (("ConceptSets",), [{"id": [0]}], r"ConceptSets\[1\].id must be a whole number, not \[0\]"),
        (("ConceptSets",), [{"name": "x"}], "must be a whole number, not None"),
        (("PrimaryCriteria", "CriteriaList", 0, "DrugEra", "codesetId"), 0, "no attribute 'codes"),
        (("PrimaryCriteria", "CriteriaList", 0, "DrugEra", "CodesetId"), [],
         r"CodesetId is \[\], and there is no concept set with that id"),
        (("PrimaryCriteria", "CriteriaList", 0, "DrugEra", "CodesetId"), 3,
         "CodesetId is 3, and there is no concept set with that id"),
        (("PrimaryCriteria", "CriteriaList", 0, "DrugEra", "EraLength", "Operator"), "gt",
         "a range has no attribute 'Operator'"),
        (("PrimaryCriteria", "ObservationWindow", "Prior"), 365, "no attribute 'Prior'"),
        (("PrimaryCriteria", "PrimaryCriteriaLimit", "Type"), "Earliest", "one of all, first"),
        (("CensoringCriteria", 0, "Death", "First"), True, "Death has no attribute 'First'"),
        (("EndStrategy", "DateOffset", "Days"), 3, "DateOffset has no attribute 'Days'"),
        ((*RULE, "Type"), "SOME", "one of all, any"),
        ((*RULE, "CriteriaList", 0, "Occurence"), {}, "'Occurence'.*Did you mean Occurrence"),
        ((*RULE, "CriteriaList", 0, "StartWindow", "Start", "Day"), 3, "no attribute 'Day'"),
        ((*RULE, "DemographicCriteriaList", 0, "AgeAtStart"), {}, "no attribute 'AgeAtStart'"),
        ((*RULE, "CriteriaList", 0, "Criteria", "DrugEra", "DrugType"), [], "'DrugType'"),
    ],
)  # fmt: skip
def test_whatever_would_be_ignored_is_refused(path, value, said):
    with pytest.raises(DataError, match=said) as caught:
        check_definition(5, changed(path, value))
    assert "the definition of cohort 5 is not one that ATLAS exports" in str(caught.value)
