"""Protocols of case series, and their methods, checklist and tables for a paper."""

import io
import json
import re
from dataclasses import fields, replace

import pytest

import steropes
from steropes.studies import (
    CaseSeriesGrid,
    StudySettings,
    case_series,
    case_series_settings,
    freeze_protocol,
    read_protocol,
    run_case_series_grid,
    study_schema,
    synthetic_database,
)
from steropes.studies.cli.command_line import run
from steropes.studies.report.record_pe import AUTHORS, ITEMS, filled
from steropes.studies.sccs import SeriesAnalysis, SeriesQuestion
from steropes.studies.series_report.sccs_grid_page import case_series_grid_page
from steropes.studies.series_report.series_paper import (
    series_answers,
    series_methods,
    series_tables,
)

QUESTION = {"exposure": 1118084, "outcome": 192671}
SETTINGS = case_series_settings(**QUESTION)


@pytest.fixture(scope="module")
def database():
    return synthetic_database(1500)


@pytest.fixture(scope="module")
def shown(database, tmp_path_factory):
    """A series with its estimate on request, and the file of its protocol."""
    path = tmp_path_factory.mktemp("frozen") / "protocol.json"
    freeze_protocol(path, SETTINGS, "Ada")
    settings = replace(SETTINGS, unblind=True)
    return case_series(database, settings, protocol=path, by="Bob"), path


def test_a_series_states_that_it_follows_its_protocol_and_who_saw_it_first(shown):
    study, path = shown
    assert study.protocol.deviations == ()
    assert study.protocol.frozen_by == "Ada"
    assert study.protocol.unblinded["by"] == "Bob"
    assert study.protocol.hash == read_protocol(path).hash
    for sentence in study.protocol.sentences():
        assert sentence in study.page()
        assert sentence in series_methods(study)


def test_deviations_are_named_with_both_values(database, tmp_path):
    path = tmp_path / "protocol.json"
    freeze_protocol(path, SETTINGS, "Ada")
    other = replace(SETTINGS, end_of_observation_days=60)
    study = case_series(database, other, protocol=path)
    assert study.protocol.deviations == (("end_of_observation_days", "30", "60"),)
    assert "end_of_observation_days is 60; the protocol has 30" in study.page()


def test_a_blinded_series_shows_nobody_an_estimate(database, tmp_path):
    path = tmp_path / "protocol.json"
    strict = replace(SETTINGS.thresholds, detectable=1.0001)
    study = case_series(database, replace(SETTINGS, thresholds=strict), protocol=path)
    assert not any(d.unblind for d in study.diagnostics)
    assert study.protocol.unblinded is None
    table = series_tables(study)[1]
    assert table.table.iloc[0, 2:5].tolist() == ["–", "not shown (detectable ratio)", "–"]


def test_the_paper_has_the_page_s_numbers(shown, tmp_path):
    docx = pytest.importorskip("docx")
    study, _ = shown
    study.write(tmp_path)
    paths = study.write_paper(tmp_path)
    assert [p.name for p in paths] == ["methods.md", "record_pe.md", "tables.tex", "tables.docx"]
    assert "paper/tables.docx" in (tmp_path / "release" / "manifest.json").read_text()
    before = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in study.write_paper(tmp_path)] == before
    attrition, estimates = tables = [table for _, _, table in series_tables(study)]
    document = docx.Document(io.BytesIO(paths[3].read_bytes()))
    for made, table in zip(document.tables, tables, strict=True):
        assert [tuple(cell.text for cell in row.cells) for row in made.rows] == [
            tuple(table.columns),
            *table.itertuples(index=False, name=None),
        ]
    page = study.page()
    firsts = [*attrition.to_numpy()[:, :2].ravel(), *estimates.to_numpy()[:, :2].ravel()]
    assert all(cell in page for cell in firsts)
    assert all(ratio in page for ratio in estimates["Rate ratio"])


def test_items_that_the_software_cannot_know_are_left_to_the_authors(shown):
    study, _ = shown
    answers = {number: answer for number, _, answer in filled(series_answers(study))}
    assert list(answers) == [number for number, _ in ITEMS]
    assert answers["6.2"] == answers["8.a"] == answers["19.1"] == AUTHORS
    assert "Self-controlled case series" in answers["4.a"]
    assert "celecoxib (1118084)" in answers["7.1"]
    assert "to day 0 after its end" in answers["7.1.c"]
    assert study.protocol.hash in answers["22.1"]
    assert f"steropes {steropes.__version__}" in series_methods(study)


def test_the_command_freezes_and_writes_for_a_paper(omop, tmp_path, capsys, monkeypatch):
    for k in range(40):
        person = omop.person(observed=(0, 900), born=1950 + k)
        omop.drug(person, 1, 300, 340)
        omop.condition(person, 3, 320 if k % 4 == 0 else 20 * k + 5)
    path = str(omop.write())
    monkeypatch.chdir(tmp_path)
    command = ["sccs", path, "--outcome=3", "--exposure=1", "--output=out"]
    protocol = ["--protocol=protocol.json", "--by=Ada"]
    assert run([*command, *protocol, "--freeze"]) == 0
    assert "SHA-256" in capsys.readouterr().out
    assert read_protocol("protocol.json").frozen["design"] == "CaseSeriesSettings"
    assert run([*command, *protocol, "--freeze"]) == 2
    assert "is frozen already" in capsys.readouterr().err
    assert run([*command, *protocol, "--paper"]) == 0
    printed = capsys.readouterr().out
    paper = tmp_path / "out" / "release" / "paper"
    files = ["methods.md", "record_pe.md", "tables.docx", "tables.tex"]
    assert sorted(p.name for p in paper.iterdir()) == files
    assert all(f"paper/{name}" in printed for name in files)
    assert read_protocol("protocol.json").hash in (paper / "methods.md").read_text()


def test_a_grid_follows_a_protocol(database, tmp_path):
    path = tmp_path / "protocol.json"
    grid = CaseSeriesGrid((SeriesQuestion(1118084, 192671),), (SeriesAnalysis(1, "simple", {}),))
    freeze_protocol(path, grid, "Ada")
    results = run_case_series_grid(database, grid, tmp_path / "grid", protocol=path, by="Bob")
    assert results.protocol.deviations == ()
    for sentence in results.protocol.sentences():
        assert sentence in case_series_grid_page(results)
    other = replace(grid, analyses=(SeriesAnalysis(1, "simple", {"age": True}),))
    assert [d[0] for d in read_protocol(path).deviations(other)] == ["analyses.1.settings.age"]


def test_the_schema_of_a_study_has_all_settings(capsys):
    assert run(["study", "--specification-schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == study_schema()
    assert set(printed["properties"]) == {f.name for f in fields(StudySettings)}
    assert printed["additionalProperties"] is False
    assert printed["properties"]["further_outcomes"]["description"]
    references = set(re.findall(r"#/\$defs/(\w+)", json.dumps(printed)))
    assert references <= set(printed["$defs"])
    assert {"TimeAtRisk", "ControlSet"} <= references
