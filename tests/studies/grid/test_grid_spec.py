"""Specifications of grids, and their errors."""

import json
import tomllib

import pytest
from tests.studies.grid.tiny_spec import SPEC

from steropes.designs import OutcomeModel
from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.comparative import Outcome, Question, StudyAnalysis
from steropes.studies.database.concept_search import find_concepts
from steropes.studies.specifications.grid_specification import GridSpec
from steropes.studies.specifications.grid_specification_file import grid_schema, read_spec


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("target = 11", "target = 11\ncolour = 2", "colour", "there is no setting 'colour'"),
        ("target = 11", "target = 'x'", "target", "must be a whole number, not 'x'"),
        ("end = 500\n", "end = 1.5\n", "end = 1.5", "must be a whole number, not 1.5"),
        ('"cohort start"', '"start"', 'end_anchor = "start"', "must be one of 'cohort start'"),
        (
            "variance = 0.1",
            "variance = -1",
            "variance = -1",
            "variance.: must be a finite number",
        ),
        ("comparator = 12", "comparator = 11", "[[question]]", "the same cohort, 11"),
        ("comparator = 12\n", "", "[[question]]", "comparator is missing"),
        ("include = [2]", "include = []", "12 = { include = []", "must include a concept"),
        ('description = "crude"', 'preset = "x"', 'preset = "x"', "there is no preset 'x'"),
    ],
)
def test_errors_name_the_line(tmp_path, old, new, at, message):
    path = tmp_path / "grid.toml"
    text = SPEC.replace(old, new, 1)
    path.write_text(text)
    line = text[: text.index(at)].count("\n") + 1
    with pytest.raises(DataError, match=message) as caught:
        read_spec(path)
    assert f"grid.toml, line {line} " in str(caught.value)


def test_errors_in_json_name_the_line(tmp_path):
    path = tmp_path / "grid.json"
    text = json.dumps(tomllib.loads(SPEC), indent=2, default=str)
    path.write_text(text)
    assert read_spec(path) == read_spec(tomllib.loads(SPEC))
    wrong = text.replace('"end": 500', '"end": [["}, {", 1.5], {"a": "\\"]"}]', 1)
    path.write_text(wrong)
    line = wrong[: wrong.index('"end": [')].count("\n") + 1
    with pytest.raises(DataError, match=rf"grid.json, line {line} \(.*\.end\): must be a whole"):
        read_spec(path)


def test_a_missing_definition_file_names_the_line_that_names_it(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC + "[cohorts.definitions]\n31 = 'none.json'\n")
    line = path.read_text().count("\n")
    with pytest.raises(DataError, match=rf"grid.toml, line {line} .*cannot read .*none\.json"):
        read_spec(path)


def test_what_is_no_toml_or_no_file_is_refused(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC.replace("[[question]]", "[[question", 1))
    with pytest.raises(DataError, match=r"grid.toml: .*line \d+"):
        read_spec(path)
    with pytest.raises(DataError, match=r"is a .toml or a .json file"):
        read_spec(tmp_path / "grid.yaml")
    with pytest.raises(DataError, match="No such file"):
        read_spec(tmp_path / "none.toml")
    path.write_text(SPEC.replace("id = 2", "id = 1", 1))
    with pytest.raises(DataError, match="two analyses have the id 1"):
        read_spec(path)


def test_a_file_is_read_with_a_mark_before_it_and_refused_in_another_encoding(spec, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC, encoding="utf-8-sig")
    assert read_spec(path) == spec
    path.write_bytes(b"schema = 'main'\ndatabase_id = 'caf\xe9'\n")
    with pytest.raises(DataError, match=r"grid.toml, line 2: not UTF-8"):
        read_spec(path)
    deep = tmp_path / "grid.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"grid.json: lists are nested too deeply"):
        read_spec(deep)


def test_json_and_toml_and_objects_are_one_specification(spec, tmp_path):
    path = tmp_path / "grid.json"
    path.write_text(spec.to_json())
    assert read_spec(path) == spec
    assert read_spec(json.loads(spec.to_json())) == spec
    assert spec.analysis[0].propensity is None
    assert [o.true_ratio for o in spec.questions[0].outcomes] == [None] * 2 + [1.0] * 5


def test_the_schema_knows_every_setting():
    schema = grid_schema()
    assert set(schema["properties"]) == set(GridSpec.__dataclass_fields__)
    day = schema["$defs"]["TimeAtRisk"]["properties"]["end"]
    assert day.pop("description").startswith("First and last day at risk")
    assert day == {"type": "integer", "default": 0, "minimum": -100_000, "maximum": 100_000}
    assert schema["$defs"]["Question"]["required"] == ["target", "comparator", "outcomes"]
    json.dumps(schema)


def test_questions_and_analyses_that_cannot_be_are_refused():
    with pytest.raises(DataError, match="listed twice"):
        Question(1, 2, (Outcome(3), Outcome(3, 1.0)))
    with pytest.raises(DataError, match="analysis 1: a stratified outcome model needs matching"):
        StudyAnalysis(1, outcome_model=OutcomeModel(stratified=True))
    with pytest.raises(DataError, match="a Fine-Gray model needs a competing outcome"):
        StudyAnalysis(1, outcome_model=OutcomeModel("fine-gray"))
    with pytest.raises(DataError, match="belongs to Fine-Gray and doubly robust models"):
        StudyAnalysis(1, competing=4)
    with pytest.raises(DataError, match="without a propensity model there is nothing"):
        StudyAnalysis(1, propensity=None, outcome_model=OutcomeModel(weighted=True))


def test_concepts_are_found_by_words_and_number(database):
    with OmopDatabase(database) as db:
        found = find_concepts(db, "COND 7")
        assert found["concept_id"].tolist() == [7]
        assert int(found["people"][0]) > 50
        assert find_concepts(db, "3")["name"].tolist() == ["bleeding"]
        assert find_concepts(db, "nothing like it").empty
        with pytest.raises(DataError, match="give a word"):
            find_concepts(db, " ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[question]\ntarget = 1\n", r"write \[\[question\]\], with two pairs"),
        (
            "[[question]]\ntarget = 1\ncomparator = 2\n[question.outcomes]\nid = 3\n",
            r"write \[\[question.outcomes\]\]",
        ),
        (
            "[[question]]\ntarget = 1\ncomparator = 2\noutcomes = 3\nexclude = {a = 1}\n",
            r"exclude\): must be a list, not a table: write exclude = \[1, 2\]",
        ),
    ],
)
def test_a_table_in_place_of_a_list_is_refused_with_what_to_write(tmp_path, text, words):
    path = tmp_path / "grid.toml"
    path.write_text(f"[cohorts]\ntable = 'c'\n[[analysis]]\nid = 1\n{text}")
    with pytest.raises(DataError, match=words):
        read_spec(path)
