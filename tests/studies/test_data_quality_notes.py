"""Notes on the database reach the page, the terminal and the tables of every kind of study."""

import json
import zipfile

import pandas as pd
import pytest
from tests.studies.conftest import COMPARATOR, FEW, OUTCOME, TARGET

from steropes.studies import StudySettings, case_series, case_series_settings, comparative_study
from steropes.studies.cli.command_line import run
from steropes.studies.database.data_quality_notes import (
    DataNote,
    distinct,
    note_rows,
    published_notes,
    released_notes,
    table_sentences,
)
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.report.study_report import study_page
from steropes.studies.series_report.sccs_terminal import print_series
from steropes.studies.single_studies.study_terminal import print_study

JOINED = "Observation periods that overlap or touch were joined"
GRID = """
database_id = "tiny"
min_cell = {least}
[cohorts.drugs]
11 = {{ include = [1], descendants = false }}
12 = {{ include = [2], descendants = false }}
[cohorts.conditions]
13 = {{ include = [3], descendants = false }}
[[question]]
target = 11
comparator = 12
outcomes = [13]
[[analysis]]
id = 1
propensity = false
features = false
"""
SERIES = """
database_id = "tiny"
min_cell = {least}
[[question]]
exposure = 1
outcome = 3
[[analysis]]
id = 1
descendants = false
"""


@pytest.fixture
def database(omop):
    """Thirty people of each arm; seven of either have two periods that overlap."""
    for k in range(60):
        person = omop.person(
            **{"target" if k % 2 else "comparator": k}, outcome=60 + 3 * k, observed=(-500, 300)
        )
        omop.condition(person, OUTCOME, k + 5)
        if k < 14:
            omop.observed(person, 250, 400)
    return omop.write()


def settings(least):
    return StudySettings(TARGET, COMPARATOR, OUTCOME, min_cell=least, descendants=False, **FEW)


@pytest.mark.parametrize(("least", "count"), [(5, "15"), (20, "<20")])
def test_a_comparative_study_says_them(database, capsys, least, count):
    study = comparative_study(database, settings(least))
    assert [n.count for n in study.data_notes] == [14]
    said = f"(people: {count})"
    assert f"{said.replace('<', '&lt;')}." in study_page(study.release)
    print_study(study, [])
    told = " ".join(capsys.readouterr().out.split())
    assert JOINED in told
    assert said in told
    [note] = json.loads(json.dumps(study.to_dict()))["data_notes"]
    assert note["topic"] == "joined_periods"
    assert note["count"] == (15 if least == 5 else count)
    assert said in note["note"]


@pytest.mark.parametrize(("least", "count"), [(5, "15"), (20, "<20")])
def test_a_case_series_says_them(database, capsys, least, count):
    asked = case_series_settings(OUTCOME, TARGET, min_cell=least, descendants=False)
    study = case_series(database, asked)
    said = f"(people: {count})"
    assert said.replace("<", "&lt;") in study.page()
    table = study.tables()["data_note"]
    assert table["count"].tolist() == [15 if least == 5 else -20]
    print_series(study, [])
    told = " ".join(capsys.readouterr().out.split())
    assert JOINED in told
    assert said in told


@pytest.mark.parametrize(
    ("command", "text", "least", "count"),
    [
        ("grid", GRID, 5, "15"),
        ("sccs-grid", SERIES, 20, "<20"),
        pytest.param("grid", GRID, 20, "<20", marks=pytest.mark.slow),
        pytest.param("sccs-grid", SERIES, 5, "15", marks=pytest.mark.slow),
    ],
)
def test_a_grid_says_them(database, tmp_path, capsys, command, text, least, count):
    path, folder = tmp_path / "grid.toml", tmp_path / "out"
    path.write_text(text.format(least=least))
    assert run([command, str(path), "--database", str(database), "--output", str(folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"(people: {count})" in told
    page = next(folder.rglob("report.html")).read_text()
    assert f"(people: {count.replace('<', '&lt;')})" in page
    with zipfile.ZipFile(next(folder.rglob("results.zip"))) as archive:
        table = pd.read_csv(archive.open("data_note.csv"))
    assert table["count"].tolist() == [15 if least == 5 else -20]


def test_a_note_that_analyses_share_is_listed_once_with_its_largest_count():
    notes = [DataNote("a", "Much was joined", n) for n in (3, 40, 7)]
    notes += [DataNote("b", "Nothing is known", warning=True)] * 2
    assert [n.topic for n in distinct(notes)] == ["b", "a", "a", "a"]
    rows = pd.DataFrame(note_rows(notes, {"analysis_id": 1}))
    table = released_notes(rows, DisclosureRules("ohdsi", 5))
    assert table["count"].tolist()[:3] == [-5, 40, 5]
    assert table_sentences(table) == [
        ("Nothing is known.", True),
        ("Much was joined (people: 40).", False),
    ]


def test_a_suppressed_count_is_not_that_of_all_records_less_the_others():
    counts = {"target": 3, "comparator": 5, "all": 8}
    notes = [DataNote("reversed_eras", f"Eras of {of}", n, "records") for of, n in counts.items()]
    rules = DisclosureRules("ohdsi", 5)
    found = [note["count"] for note in published_notes(notes, rules)]
    assert [str(n) for n in found] == ["<5", "5", "10"]
    table = released_notes(pd.DataFrame(note_rows(notes, {})), rules)
    assert table["count"].tolist() == [-5, 5, 10]
