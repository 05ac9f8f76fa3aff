"""Methods, checklist and tables for a paper, which show what is released and nothing else."""

import io
import re
import zipfile

import pytest

import steropes
from steropes.data.formatted_tables_for_papers import latex_document, word_document
from steropes.studies import DEMO, StudySettings, synthetic_database
from steropes.studies.report.record_pe import AUTHORS, ITEMS, checklist, checklist_text
from steropes.studies.report.study_report import methods_text
from steropes.studies.report.study_tables_for_papers import paper_table, paper_tables
from steropes.studies.specifications import ControlSet

docx = pytest.importorskip("docx")


@pytest.fixture(scope="module")
def study():
    settings = StudySettings(
        **DEMO, folds=5, tie_orders=0, unblind=True, controls=ControlSet(concepts=(81151, 78272))
    )
    return steropes.comparative_study(synthetic_database(1500), settings)


def test_the_release_has_four_files_for_a_paper(study, tmp_path):
    study.write(tmp_path)
    paths = study.write_paper(tmp_path)
    assert [p.name for p in paths] == ["methods.md", "record_pe.md", "tables.tex", "tables.docx"]
    assert all(p.parent == tmp_path / "release" / "paper" for p in paths)
    before = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in study.write_paper(tmp_path)] == before
    manifest = (tmp_path / "release" / "manifest.json").read_text()
    assert "paper/tables.docx" in manifest
    assert "report.html" in manifest


def test_word_and_latex_have_the_same_tables(study):
    tables = paper_tables(study.release)
    assert [t.name for t in tables] == [
        "characteristics", "attrition", "rates", "estimates", "outcomes",
    ]  # fmt: skip
    document = docx.Document(io.BytesIO(word_document(tables)))
    for made, (_, _, table) in zip(document.tables, tables, strict=True):
        texts = [tuple(cell.text for cell in row.cells) for row in made.rows]
        assert texts == [tuple(table.columns), *table.itertuples(index=False, name=None)]
    text = latex_document(tables)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(tables)
    for line in text.splitlines():
        if line.endswith(r"\\"):
            assert re.search(r"(?<!\\)[%#_]", line) is None


def test_table_one_begins_with_demographics_and_has_the_page_s_numbers(study):
    table = paper_tables(study.release)[0].table
    first = table["Characteristic"].tolist()
    assert first[0].startswith(("Age", "Gender", "Index year"))
    assert any("osteoarthritis" in name.lower() for name in first)
    assert table.shape[1] == 7


def test_latex_escapes_what_vocabularies_contain():
    table = paper_table("x", "A & B", ("100%", "a_b"), [("$5 {\\x} ~ ^ #1", "<5")])
    text = latex_document([table])
    assert r"A \& B" in text
    assert r"100\% & a\_b \\" in text
    assert (
        r"\$5 \{\textbackslash{}x\} \textasciitilde{} \textasciicircum{} \#1 & \textless{}5 \\"
        in text
    )


def test_archives_hold_no_time_of_day(study):
    with zipfile.ZipFile(io.BytesIO(word_document(paper_tables(study.release)))) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_items_that_the_software_cannot_know_are_left_to_the_authors(study):
    rows = checklist(study.release)
    answers = {number: answer for number, _, answer in rows}
    assert [number for number, *_ in rows] == [number for number, _ in ITEMS]
    assert answers["6.2"] == answers["8.a"] == answers["19.1"] == AUTHORS
    assert "1118084 (celecoxib)" in answers["6.1"]
    assert "day after the start" in answers["7.1.c"]
    assert "2 negative controls" in answers["12.1.b"]
    text = checklist_text(study.release)
    assert "BMJ 2018;363:k3532" in text
    assert text.count("\n| ") == len(ITEMS) + 1


def test_methods_are_those_of_the_page(study):
    text = methods_text(study.release)
    assert text.startswith("# Methods\n\n**People.** Whoever used Celecoxib or Diclofenac")
    assert "<" not in text.replace("<5", "")
    assert f"steropes {steropes.__version__}" in text


def test_blinded_studies_have_blinded_tables():
    study = steropes.comparative_study(
        synthetic_database(400), StudySettings(**DEMO, folds=5, tie_orders=0)
    )
    assert not study.visible
    tables = {t.name: t.table for t in paper_tables(study.release)}
    assert tables["estimates"].columns[-1] == "Hazard ratio"
    assert {*tables["estimates"]["Hazard ratio"]} <= {"not shown", "none"}
    assert tables["rates"].columns.tolist() == ["Arm", "People"]
