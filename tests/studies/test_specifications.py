"""Specifications that would run as something else than what was meant are refused."""

import json
import tomllib

import pytest
from tests.studies.conftest import COMPARATOR, TARGET
from tests.studies.grid.tiny_spec import SPEC

from steropes.errors import DataError
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import ConceptSet
from steropes.studies.comparative import Outcome, Question, StudyAnalysis
from steropes.studies.sccs.specification.sccs_specification import read_case_series_grid
from steropes.studies.specifications import ControlSet
from steropes.studies.specifications.grid_specification_file import read_spec

SERIES = """
database_id = "tiny"
controls = [61, 62]

[[question]]
exposure = 1
outcome = 3

[[analysis]]
id = 1
description = "a"
risk_end = 20
"""
CRUDE = 'id = 1\ndescription = "crude"'


def refused(tmp_path, read, text, said, ending="toml"):
    path = tmp_path / f"spec.{ending}"
    path.write_text(text)
    with pytest.raises(DataError, match=said) as caught:
        read(path)
    assert str(caught.value).startswith(path.name)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("outcomes = [13, 14]", "outcomes = [13, 99]",
         r"line 18 \(question.\[1\].outcomes\): outcome 99 is not defined; define cohort 99 in"),
        ("target = 11", "target = 98", r"line 16 .*target 98 is not defined"),
        ("comparator = 12", "comparator = 12\nnesting = 97", "line 18 .*nesting cohort 97 is not"),
        (CRUDE, f'{CRUDE}\ncompeting = 96\noutcome_model = "fine-gray"',
         "competing outcome 96 is not defined"),
        ("concepts = [5,", "cohorts = [95]\nconcepts = [5,", "negative control 95 is not defined"),
        ("[controls]", '[cohorts.names]\n94 = "x"\n[controls]', "cohort 94 is not defined"),
        ("outcomes = [13, 14]", "outcomes = [13, 5]",
         "negative control 5 is also an outcome of interest of the question of 11 against 12"),
        ("outcomes = [13, 14]", "outcomes = [13, { id = 5, true_ratio = 2.0 }]",
         "negative control 5 is also an outcome .* with a true ratio of 2"),
        ("outcomes = [13, 14]", "outcomes = [13, 11]", "cohort 11 is compared and is an outcome"),
        ("concepts = [5,", "concepts = [3, 5,",
         "concept 3 of negative control 3 is also one of outcome 13, an outcome of interest"),
        ("13 = { include = [3] }\n14 = { include = [4] }\n[controls]",
         "13 = { include = [3] }\n14 = { include = [4] }\n15 = { include = [3] }\n[controls]\n"
         "cohorts = [15]", "concept 3 of negative control 15 is also one of outcome 13"),
        ("concepts = [5,", "cohorts = [12]\nconcepts = [5,", "12 is also the comparator of"),
        ("concepts = [5,", "concepts = [5, 5,", "line 9 .*negative control 5 is listed twice"),
        ("concepts = [5,", "cohorts = [5]\nconcepts = [5,", "control 5 is listed twice"),
        ("concepts = [5, 6, 7, 8, 9]", "positive = [2.0]", "none are listed"),
        ("11 = { include = [1] }", "11 = { include = [1] }\n011 = { include = [2] }",
         "line 5 .*11 is defined twice"),
        ("include = [1]", "include = [1], exclude = [1]", "line 4 .*all concepts are excluded"),
        ("truncate = 10", "truncate = 10\n[analysis.trim]\nfraction = 0.05\n[analysis.x]", "'x'"),
        (CRUDE, f"{CRUDE}\ntruncate = 10", "without a propensity model"),
        ("weighted = true", "weighted = false", "truncate limits weights, and the outcome model"),
    ],
)  # fmt: skip
def test_what_a_grid_would_leave_out_or_take_twice_is_refused(tmp_path, old, new, said):
    refused(tmp_path, read_spec, SPEC.replace(old, new, 1), said)


def test_every_cohort_may_be_in_a_cohort_table(tmp_path):
    path = tmp_path / "grid.toml"
    text = SPEC.replace("[cohorts.drugs]", '[cohorts]\ntable = "cohort"\n[cohorts.drugs]')
    path.write_text(text.replace("outcomes = [13, 14]", "outcomes = [13, 99]"))
    assert [o.id for o in read_spec(path).question[0].outcomes] == [13, 99]
    path.write_text(SPEC.replace("outcomes = [13, 14]", "outcomes = [{ id = 5, true_ratio = 1 }]"))
    assert len(read_spec(path).questions[0].outcomes) == 5  # a control that is listed twice alike


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[61, 62]", "[3, 62]",
         r"line 3 \(controls\): negative control 3 is also an outcome of interest of exposure 1"),
        ("[61, 62]", "[62, 62]", r"line 3 \(controls\): negative control 62 is listed twice"),
        ("outcome = 3", "outcome = 1", r"line 5 .*exposure and outcome are the same, 1"),
        ("controls = [61, 62]", "positive = [2.0]", "none are listed"),
        ("risk_end = 20", "risk_end = '20'", "must be a whole number, not '20'"),
        ("risk_end = 20", "risk_ends = 20", "there is no setting 'risk_ends'"),
    ],
)  # fmt: skip
def test_what_a_grid_of_case_series_would_leave_out_is_refused(tmp_path, old, new, said):
    refused(tmp_path, read_case_series_grid, SERIES.replace(old, new, 1), said)


GRIDS = [(read_spec, SPEC), (read_case_series_grid, SERIES)]
BRACKETS = r"write \[\[question\]\], with two pairs of brackets"


@pytest.mark.parametrize(("read", "text"), GRIDS)
def test_brackets_that_make_one_table_of_several_are_said(tmp_path, read, text):
    one = text.replace("[[question]]", "[question]")
    refused(tmp_path, read, one, r"line \d+ \(question\): must be a list of tables: " + BRACKETS)
    refused(tmp_path, read, f"{one}\n[question]\nx = 1\n", r"twice.*line \d+.*" + BRACKETS)
    refused(tmp_path, read, f"{one}\n[[question]]\nx = 1\n", r"line \d+.*" + BRACKETS)
    refused(tmp_path, read, text.split("[[analysis]]")[0] + "[analysis]\nid = 1\n",
            r"write \[\[analysis\]\], with two pairs")  # fmt: skip
    refused(tmp_path, read, f"{text}\n[[thresholds]]\n" if "thresholds" not in text else
            text.replace("[thresholds]", "[[thresholds]]"),
            r"write \[thresholds\], with one pair of brackets")  # fmt: skip
    values = tomllib.loads(text)
    values["question"] = values["question"][0]
    refused(tmp_path, read, json.dumps(values, indent=1), "in JSON a list of objects", "json")


@pytest.mark.parametrize("word", ["null", "None", "nil", "NULL"])
def test_the_word_for_nothing_is_said(tmp_path, word):
    text = SPEC.replace("propensity = false", f"propensity = {word}")
    refused(tmp_path, read_spec, text, f"line 24.*{word} is not a value here, write false for none")
    inner = text.replace(f"propensity = {word}", f"propensity = {{ variance = {word} }}")
    refused(tmp_path, read_spec, inner, "write false for none")
    as_json = json.dumps(tomllib.loads(SPEC), indent=1)
    if word != "null":
        wrong = as_json.replace('"propensity": false', f'"propensity": {word}')
        refused(tmp_path, read_spec, wrong, f"{word} is not a value here, write null", "json")
    text = SERIES + f"age = {word}\n"
    refused(tmp_path, read_case_series_grid, text, "write false for none")


def test_other_words_and_types_are_said(tmp_path):
    yes = SPEC.replace("weighted = true", "weighted = True")
    refused(tmp_path, read_spec, yes, "True is not a value here, write true")
    for value in ('"none"', '"null"', "true"):
        text = SPEC.replace("propensity = false", f"propensity = {value}")
        refused(tmp_path, read_spec, text, "propensity may be a table of settings, variance alone")
    text = SPEC.replace("outcomes = [13, 14]", 'outcomes = ["13", 14]')
    refused(tmp_path, read_spec, text, "must be a whole number, not '13'")
    as_json = json.dumps(tomllib.loads(SPEC), indent=1)
    twice = as_json.replace('"target": 11', '"target": 11, "target": 12')
    refused(tmp_path, read_spec, twice, "the name 'target' occurs twice", "json")


def test_commands_need_the_name_of_the_database(omop, tmp_path, capsys):
    database, path = str(omop.write()), tmp_path / "spec.toml"
    for command, text in (("grid", SPEC), ("sccs-grid", SERIES)):
        path.write_text(text.replace('database_id = "tiny"', ""))
        assert run([command, str(path), "--database", database, "--output", str(tmp_path)]) == 2
        assert "spec.toml: database_id is missing" in capsys.readouterr().err


def test_case_series_of_cohorts_that_nothing_defines_are_refused(omop, tmp_path, capsys):
    omop.person(target=3, outcome=9)
    database, path = str(omop.write()), tmp_path / "spec.toml"
    asked = ["sccs-grid", str(path), "--database", database, "--output", str(tmp_path / "out")]
    for setting in ('outcomes_from = "cohort"', 'exposures_from = "cohort"', "nesting_cohort = 77"):
        path.write_text(f"{SERIES}{setting}\n")
        assert run(asked) == 2
        assert "is not defined and has no entries" in capsys.readouterr().err
    path.write_text(SERIES.replace("outcome = 3", "outcome = 999"))
    assert run(asked) == 2
    assert "concept 999 is unknown" in capsys.readouterr().err


def test_a_cohort_that_is_defined_and_not_used_is_said(omop, tmp_path, capsys):
    for k in range(20):
        omop.person(**{"target" if k % 2 else "comparator": k}, outcome=50 + k)
    path = tmp_path / "spec.toml"
    text = SPEC.split("[[analysis]]")
    path.write_text(
        "[[analysis]]".join(text[:2])
        .replace("concepts = [5, 6, 7, 8, 9]", "")
        .replace("[13, 14]", "[13]")
    )
    arguments = ["grid", str(path), "--database", str(omop.write()), "--output", str(tmp_path)]
    assert run(arguments) == 0
    assert "Not used: cohort 14" in " ".join(capsys.readouterr().err.split())


def test_objects_made_in_python_are_refused_alike():
    with pytest.raises(DataError, match="negative control 5 is listed twice"):
        ControlSet((5,), (5,))
    with pytest.raises(DataError, match="cohort 1 is compared and is an outcome"):
        Question(TARGET, COMPARATOR, (Outcome(TARGET),))
    with pytest.raises(DataError, match="all concepts are excluded"):
        ConceptSet((1, 2), (2, 1))
    with pytest.raises(DataError, match="truncate limits weights"):
        StudyAnalysis(1, truncate=5.0)
