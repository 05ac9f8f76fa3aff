"""Damaged and hostile results: a sentence or a page, never a crash, a file outside, or a script."""

import csv
import io
import zipfile

import pytest
from tests.studies.viewer.prediction_folder import write_incidence, write_predictions
from tests.studies.viewer.small_archives import HOSTILE, small_archive

from steropes.errors import DataError
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.viewer.page_data import view_record
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_page, results_views


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The files of an archive by name."""
    path = small_archive(tmp_path_factory.mktemp("plain"), "north", [(3, 1, 1.2, 1, 1)])
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def records(tmp_path, files):
    """The records of the page of an archive with these files."""
    path = tmp_path / "results.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files:
            archive.writestr(name, text)
    views = results_views(read_sources([path]), DisclosureRules())
    return {view.name: view_record(view) for view in views}


def changed(texts, table, column, value):
    """The files, with one value in all rows of a column."""
    rows = list(csv.DictReader(io.StringIO(texts[f"{table}.csv"])))
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows({**row, column: value} for row in rows)
    return {**texts, f"{table}.csv": file.getvalue()}.items()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "gone",
    ["cm_target_comparator", "cm_analysis", "cohort", "cm_diagnostics_summary", "cm_result",
     "cm_target_comparator_outcome", "cm_covariate", "note", "database"],
)  # fmt: skip
def test_a_table_can_be_missing(tmp_path, texts, gone):
    found = records(tmp_path, [(n, x) for n, x in texts.items() if n != f"{gone}.csv"])
    assert "attrition" in found
    if gone in ("cm_diagnostics_summary", "cm_result"):
        assert "curves" not in found


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("cm_result", "rr", "1e308"), ("cm_result", "rr", "-Inf"), ("cm_result", "rr", "NaN"),
        ("cm_result", "target_subjects", "-1e18"), ("cm_diagnostics_summary", "unblind", ""),
        ("cm_kaplan_meier_dist", "target_survival", "1e-320"),
        ("cm_analysis", "definition", "[" * 100_000), ("cohort", "name", HOSTILE * 1000),
    ],
)  # fmt: skip
def test_extreme_values_are_shown_or_missing(tmp_path, texts, table, column, value):
    found = records(tmp_path, changed(texts, table, column, value))
    assert {"estimates", "diagnostics"} <= {*found}


@pytest.mark.parametrize(
    ("table", "column", "value", "match"),
    [
        ("cm_result", "rr", "1e400", "not a table of results"),
        ("cm_result", "rr", HOSTILE, "not a table of results"),
        ("cm_result", "outcome_id", "9" * 25, "not a table of results"),
        ("cm_target_comparator", "target_id", "Inf", "target_id has a number of 9e"),
        ("cm_result", "outcome_id", "1e30", "outcome_id has a number of 9e"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path, texts, table, column, value, match):
    with pytest.raises(DataError, match=match):
        records(tmp_path, changed(texts, table, column, value))


@pytest.mark.parametrize("content", [b'"open quote', b"cohort_id,name\n1,\xff\xfe\n"])
def test_files_that_are_no_tables_are_refused(tmp_path, texts, content):
    with pytest.raises(DataError, match=r"cohort\.csv is not a table of results"):
        records(tmp_path, {**texts, "cohort.csv": content}.items())


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b""])
def test_files_that_only_share_the_name_of_a_table_are_not_used(tmp_path, texts, content):
    assert "estimates" in records(tmp_path, {**texts, "cohort.csv": content}.items())


def test_names_of_entries_lead_nowhere(tmp_path, texts):
    before = {*tmp_path.parent.rglob("*")}
    found = records(tmp_path, [(f"../../../evil/{n}", x) for n, x in texts.items()])
    assert "estimates" in found
    assert {*tmp_path.parent.rglob("*")} - before == {tmp_path / "results.zip"}


def test_an_entry_that_is_larger_than_it_claims_is_refused(tmp_path, texts):
    path = tmp_path / "results.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cm_result.csv", texts["cm_result.csv"] + "x" * 1_000_000)
    size = (len(texts["cm_result.csv"]) + 1_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (100).to_bytes(4, "little")))
    with pytest.raises(DataError):
        read_sources([path])


def test_prediction_models_without_statistics_and_rates_without_days_are_shown(tmp_path):
    folder = write_predictions(tmp_path, "north", 1, 3)
    path = folder / "evaluation_statistics.csv"
    text = path.read_text(encoding="utf-8-sig")
    path.write_text(
        "\n".join(line.replace(",Test,", ",Test,unknown ") for line in text.split("\n"))
    )
    rates = write_incidence(tmp_path, "north", 1, 3)
    (rates / "ci_tar_def.csv").write_text(
        "ref_id,tar_id,tar_start_with,tar_start_offset,tar_end_with,tar_end_offset\n"
        "1,1,start,,end,30\n"
    )
    views = {v.name: v for v in results_views(read_sources([tmp_path]), DisclosureRules())}
    assert "prediction" not in views
    assert "prediction-thresholds" in views
    assert {*views["incidence"].table["period"]} == {"start to end + 30 days"}


def test_hostile_names_of_prediction_models_are_no_markup(tmp_path):
    folder = write_predictions(tmp_path, "north", 1, 3)
    for name in ("cohorts", "covariate_summary", "population_settings", "evaluation_statistics"):
        text = (folder / f"{name}.csv").read_text(encoding="utf-8-sig")
        for plain in ("new users", "age in years", '{""x"": 1}', "Test"):
            text = text.replace(plain, HOSTILE.replace('"', "'"))
        (folder / f"{name}.csv").write_text(text)
    page = results_page(results_views(read_sources([folder]), DisclosureRules()), DisclosureRules())
    assert "hacked" not in page
