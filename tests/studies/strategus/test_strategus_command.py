"""The command ``steropes strategus``: verdicts and exit statuses."""

import json

import pytest
from tests.studies.strategus.small_specification import module, new_specification, write_database

from steropes.studies.cli.command_line import run


@pytest.fixture
def specification(tmp_path):
    path = tmp_path / "study.json"

    def write(change=lambda s: None):
        given = new_specification([81151])
        change(given)
        path.write_text(json.dumps(given))
        return str(path)

    return write


def test_a_complete_specification_has_status_0(specification, capsys):
    assert run(["strategus", specification(), "--check"]) == 0
    said = capsys.readouterr().out
    assert "CohortMethodModule\n  analysis 1 (matched): runs with a difference" in said
    assert "  question 1 (1 against 2): runs\n" in said
    assert "  2 questions, of which 1 with a known ratio: runs\n" in said


def test_a_part_that_does_not_run_has_status_1(specification, capsys):
    def change(given):
        module(given, "CohortMethodModule")["cmAnalysisList"][0]["speed"] = 9

    assert run(["strategus", specification(change), "--check"]) == 1
    assert "cmAnalysisList[0].speed is not known" in capsys.readouterr().out


def test_no_specification_has_status_2(tmp_path, capsys):
    path = tmp_path / "study.json"
    path.write_text('{"moduleSpecifications": [')
    assert run(["strategus", str(path), "--check"]) == 2
    assert "the text ends too early" in capsys.readouterr().err
    assert run(["strategus", str(tmp_path / "none.json"), "--check"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_concepts_are_looked_up_in_a_database(specification, tmp_path, capsys):
    folder = write_database(tmp_path / "database", 50)
    assert run(["strategus", specification(), "--check", "--database", folder]) == 0
    said = capsys.readouterr().out
    assert "covariates excluded from 1 against 2: 1 of 3 are not in the vocabulary" in said
    assert "(99999999)" in said
