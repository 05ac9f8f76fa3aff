"""Protocols: what was frozen, whether a run follows it, and who first saw estimates."""

import json
from dataclasses import replace

import pytest

import steropes
from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    GridSpec,
    StudySettings,
    comparative_study,
    freeze_protocol,
    read_protocol,
    run_grid,
    synthetic_database,
)
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.comparative_grid_page import write_grid_report
from steropes.studies.report.study_json_and_csv import study_numbers
from steropes.studies.report.study_report import study_page

SETTINGS = StudySettings(**DEMO, folds=5, tie_orders=0)


@pytest.fixture(scope="module")
def database():
    return synthetic_database(800)


def test_a_protocol_is_frozen_before_the_database_is_opened(tmp_path):
    path = tmp_path / "protocol.json"
    with pytest.raises(DataError):
        comparative_study(tmp_path / "nothing.duckdb", SETTINGS, protocol=path, by="Ada")
    protocol = read_protocol(path)
    assert protocol.frozen["by"] == "Ada"
    assert protocol.frozen["software"]["version"] == steropes.__version__
    assert protocol.frozen["settings"]["target"] == DEMO["target"]
    assert protocol.runs == ()


def test_a_study_states_that_it_follows_its_protocol_and_who_saw_it_first(tmp_path, database):
    path = tmp_path / "protocol.json"
    frozen = freeze_protocol(path, SETTINGS, "Ada")
    open_ = replace(SETTINGS, unblind=True)
    blind = comparative_study(database, SETTINGS, protocol=path, by="Bob")
    assert blind.protocol.deviations == ()
    assert blind.protocol.hash == frozen.hash
    first = comparative_study(database, open_, protocol=path, by="Carla")
    again = comparative_study(database, open_, protocol=path, by="Dora")
    if not blind.visible:
        assert blind.protocol.unblinded is None
        assert "No run by this protocol has shown" in study_page(blind.release)
        assert first.protocol.unblinded["by"] == "Carla"
        assert first.protocol.unblinded["why"] == "on request (unblind)"
    assert again.protocol.unblinded == first.protocol.unblinded
    assert [r["by"] for r in read_protocol(path).runs] == ["Bob", "Carla", "Dora"]
    numbers = study_numbers(publish(first))
    assert numbers["protocol"]["hash"] == frozen.hash
    assert "those that were frozen" in study_page(first.release)
    assert study_page(again.release) == study_page(first.release)


def test_deviations_are_named_with_both_values(tmp_path, database):
    path = tmp_path / "protocol.json"
    freeze_protocol(path, SETTINGS, "Ada")
    changed = replace(
        SETTINGS, caliper=0.1, risk_days=30, at_risk=steropes.studies.cohorts.TimeAtRisk()
    )
    study = comparative_study(database, changed, protocol=path)
    names = {name: (a, b) for name, a, b in study.protocol.deviations}
    assert names["caliper"] == ("0.2", "0.1")
    assert names["at_risk.end"] == ("0", "30")
    assert "Deviation: caliper is 0.1; the protocol has 0.2." in study_page(study.release)


def test_other_code_is_a_deviation(tmp_path):
    path = tmp_path / "protocol.json"
    protocol = freeze_protocol(path, SETTINGS, "Ada")
    software = {**protocol.frozen["software"], "code": "0" * 16}
    older = replace(protocol, frozen={**protocol.frozen, "software": software})
    assert [name for name, *_ in older.deviations(SETTINGS)] == ["software code"]


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v["frozen"]["settings"].update(caliper=0.5),
        lambda v: v.update(hash="0"),
        lambda v: v["runs"].pop(0),
        lambda v: v["runs"][0].update(by="Somebody else"),
    ],
)
def test_a_changed_protocol_is_refused(tmp_path, change):
    path = tmp_path / "protocol.json"
    protocol = freeze_protocol(path, SETTINGS, "Ada")
    protocol.recorded(SETTINGS, "Bob", "").recorded(SETTINGS, "Carla", "").write(path)
    assert len(read_protocol(path).runs) == 2
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(DataError, match="changed after it was frozen"):
        read_protocol(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"frozen": 1}', "not JSON"])
def test_a_file_that_is_no_protocol_is_refused(tmp_path, text):
    path = tmp_path / "protocol.json"
    path.write_text(text)
    with pytest.raises(DataError, match="is not a protocol of steropes"):
        read_protocol(path)


def test_a_frozen_file_is_not_frozen_again(tmp_path, capsys):
    path = tmp_path / "protocol.json"
    command = ["study", "nothing", "--target", "1", "--comparator", "2", "--outcome", "3"]
    assert run([*command, "--freeze"]) == 2
    assert "give its file" in capsys.readouterr().err
    assert run([*command, "--protocol", str(path), "--by", "Ada", "--freeze"]) == 0
    assert "frozen by Ada" in capsys.readouterr().out
    assert run([*command, "--protocol", str(path), "--freeze"]) == 2
    assert "is frozen already" in capsys.readouterr().err


def test_a_grid_follows_a_protocol(tmp_path, database):
    sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,))
    path = tmp_path / "protocol.json"
    freeze_protocol(path, spec, "Ada")
    elsewhere = replace(spec, database_id="another database", min_cell=10)
    results = run_grid(database, elsewhere, tmp_path / "a", protocol=path, by="Bob")
    assert results.protocol.deviations == ()
    assert "frozen by Ada" in write_grid_report(results, tmp_path / "a").read_text()
    more = replace(spec, analysis=(crude, replace(crude, id=2)))
    results = run_grid(database, more, tmp_path / "b", protocol=path, by="Bob")
    assert {name.split(".")[0] for name, *_ in results.protocol.deviations} == {"analysis"}
