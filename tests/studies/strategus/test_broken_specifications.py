"""Broken specifications: every fault ends in a sentence that names its place."""

import copy
import json
import random

import pytest
from tests.studies.strategus.small_specification import (
    module,
    new_specification,
    old_specification,
)

from steropes.errors import DataError
from steropes.studies.strategus_plans.specification_plan import (
    read_specification_plan,
    specification_plan,
)

CM, SCCS = "CohortMethodModule", "SelfControlledCaseSeriesModule"


JUNK = (None, True, -1, 10**30, 1.5, "x", "", [], {}, [[1]], {"a": 1}, ["x", 2], "\x1b[31m")


def places(value, path=()):
    """Yield the path of every value below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def put(value, path, junk):
    """Replace the value at a path."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = copy.deepcopy(junk)


@pytest.mark.parametrize("make", [old_specification, new_specification])
def test_no_value_ends_in_anything_but_a_sentence(make):
    whole = make([81151])
    rng = random.Random(5)
    for path in places(whole):
        for junk in rng.sample(JUNK, 1):
            given = copy.deepcopy(whole)
            put(given, path, junk)
            try:
                lines = specification_plan(given).lines()
            except DataError as error:
                lines = [str(error)]
            assert all(line.strip() and "\x1b" not in line for line in lines)


def test_values_of_wrong_types_are_named_by_their_path():
    whole = new_specification([81151])
    names = ("riskWindowStart", "washoutPeriod", "caliper", "fold", "naivePeriod", "targetId")
    for path in places(whole):
        if path[-1] not in names:
            continue
        given = copy.deepcopy(whole)
        put(given, path, "many")
        said = " ".join(v.reason for v in specification_plan(given).verdicts)
        assert f"{path[-1]} must be a" in said, path


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [
        (CM, "fold", 1),
        (CM, "cvRepetitions", 0),
        (CM, "caliper", -1),
        (CM, "endDays", 5),
        (CM, "longTermStartDays", 365),
        (CM, "washoutPeriod", -1),
        (CM, "riskWindowEnd", -5),
        (CM, "trueEffectSize", -2),
        (CM, "equipoiseThreshold", -1),
        (CM, "comparatorId", 1),
        (SCCS, "naivePeriod", -1),
        (SCCS, "minAge", 300),
        (SCCS, "end", -90),
        (SCCS, "fold", 0),
        (SCCS, "timeTrendMaxRatio", 0.5),
    ],
)
def test_values_out_of_range_are_named_by_their_path(of, name, value):
    whole = new_specification([81151])
    root = module(whole, of)
    path = next(p for p in places(root) if p[-1] == name)
    put(root, path, value)
    refused = [v.reason for v in specification_plan(whole).verdicts if v.reason]
    assert len(refused) == 1
    assert refused[0].startswith("moduleSpecifications["), refused
    assert len(refused[0]) < 300


def test_unknown_names_are_refused_everywhere_in_modules_that_run():
    whole = new_specification([81151])
    for path in places(whole):
        found = whole
        for key in path:
            found = found[key]
        if not isinstance(found, dict) or "negativeControlOutcomeCohortSet" in path:
            continue
        if "covariateFilter" in path or path[-1] == "settings":
            continue
        given = copy.deepcopy(whole)
        put(given, path, {**found, "surprise": 1})
        try:
            said = " ".join(specification_plan(given).lines())
        except DataError as error:
            said = str(error)
        assert "surprise is not known" in said, path


def test_truncated_files_end_in_a_sentence(tmp_path):
    text = json.dumps(new_specification([81151]), indent=1)
    path = tmp_path / "specification.json"
    rng = random.Random(3)
    for end in [0, 1, 2, *(rng.randrange(len(text)) for _ in range(60))]:
        path.write_text(text[:end])
        with pytest.raises(DataError, match="specification\\.json"):
            read_specification_plan(path)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]", '"text"', "null", "12", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000,
        '{"moduleSpecifications": ' + "9" * 5000 + "}", '{"moduleSpecifications": 7}',
        '{"moduleSpecifications": [7]}', '{"moduleSpecifications": [], "x": 1}', "{}", "\ufeff{}",
        '{"moduleSpecifications": [], "sharedResources": 5}',
        '{"moduleSpecifications": [], "sharedResources": [{"weather": 1}]}',
    ],
)  # fmt: skip
def test_files_that_are_no_specification_are_refused(tmp_path, text):
    path = tmp_path / "specification.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="specification\\.json"):
        read_specification_plan(path)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("[]", "it must be an object with PrimaryCriteria"),
        ('{"expression": 5}', "it must be an object with PrimaryCriteria"),
        ("{}", "PrimaryCriteria is missing"),
        (
            '{"PrimaryCriteria": {"CriteriaList": [{"DrugEras": {}}]}}',
            "'DrugEras' (PrimaryCriteria.CriteriaList[1]) is no kind of criterion. Did you mean "
            "DrugEra?",
        ),
        (
            '{"PrimaryCriteria": {}, "InclusionRules": [{"expression": {"CriteriaList": '
            '[{"Criteria": {"Weather": {}}}]}}]}',
            "'Weather' (InclusionRules[1].expression.CriteriaList[1].Criteria) is no kind of",
        ),
    ],
)
def test_definitions_of_no_cohort_are_found_before_the_run(definition, reason):
    given = new_specification([81151])
    given["sharedResources"][0]["cohortDefinitions"][2]["cohortDefinition"] = definition
    [said] = [line for line in specification_plan(given).lines() if "cohort 3: does" in line]
    assert said.startswith("  cohort 3: does not run: the definition of cohort 3 is not one that")
    assert reason in said
