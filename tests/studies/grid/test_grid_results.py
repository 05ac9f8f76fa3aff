"""Tables of grids, the page and the commands."""

import html.parser
import math
import shutil
import zipfile

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.grid.tiny_spec import SPEC

from steropes.designs.controls import ErrorModel
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import combine_archives
from steropes.studies.cli.command_line import run as command
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import write_grid_report
from steropes.studies.result_files.table_layouts import KEYS, TABLES
from steropes.studies.results.calibrated_results import _fill
from steropes.studies.specifications.grid_specification_file import read_spec


def test_every_result_is_there_and_calibrated(results):
    found = results.tables["cm_result"]
    assert len(found) == 7 * 2
    of = found[found["outcome_id"] == 13].set_index("analysis_id")
    assert of["rr"].notna().all()
    assert of["calibrated_rr"].notna().all()
    assert of["target_estimator"].tolist() == ["ate", "att"]
    nothing = results.tables["note"].query("outcome_id == 14")
    why = "(there are no entries of the outcome, cohort 14)"
    assert nothing["note"].tolist() == [f"nobody had the outcome during the time at risk {why}"] * 2
    checks = results.tables["cm_diagnostics_summary"]
    assert checks["ease"].notna().all()
    assert checks.loc[checks["outcome_id"] == 14, "mdrr_diagnostic"].tolist() == ["FAIL"] * 2


def test_tables_have_their_columns_and_keys(results):
    for name, table in results.tables.items():
        assert list(table.columns) == list(TABLES[name])
        assert not table.duplicated(list(KEYS[name])).any(), name
    assert len(results.tables["cm_covariate_balance"]) > 0


def test_families_scores_after_and_absolute_effects_are_told(results):
    t = results.tables
    families = t["covariate_family"]
    assert families["covariates"].sum() == len(t["cm_shared_covariate_balance"])
    largest = t["cm_shared_covariate_balance"]["std_diff_after"].abs().max()
    assert families["largest_after"].max() == largest
    before, after = (
        t[name][["target_density", "comparator_density"]].min(axis=1).sum()
        for name in ("cm_preference_score_dist", "preference_score_after")
    )
    assert after > before
    effects = t["absolute_effect"].query("outcome_id == 13").set_index("analysis_id")
    assert effects.index.tolist() == [1, 2]
    of = t["cm_result"].query("outcome_id == 13 and analysis_id == 1").iloc[0]
    assert effects.loc[1, "target_risk"] >= of["target_outcomes"] / of["target_subjects"] - 0.01
    notes = t["note"].query("outcome_id == 13").set_index("analysis_id")
    assert notes["precision_diagnostic"].tolist() == ["PASS", "PASS"]
    assert notes.loc[2, "target_lost"] == notes.loc[2, "comparator_lost"] == 0
    assert (notes["e_value_limit"] <= notes["e_value"]).all()


def test_a_calibrated_limit_without_end_is_infinite_and_not_missing():
    columns = [c for c in TABLES["cm_result"] if c.startswith("calibrated_")]
    table = pd.DataFrame({"log_rr": [1.0, np.nan], "se_log_rr": [0.1, np.nan]})
    table[columns] = np.nan
    _fill(table, table.index, ErrorModel(0.0, 0.5, 0.05, 0.6, 20))  # spread outgrows the mean
    assert table.loc[0, "calibrated_ci_95_lb"] > 1
    assert table.loc[0, "calibrated_ci_95_ub"] == math.inf
    assert table.loc[1, columns].isna().all()
    _fill(table, table.index[:1], ErrorModel(0.0, -0.2, 0.1, 0.0, 20))  # estimates say nothing
    assert table.loc[0, ["calibrated_ci_95_lb", "calibrated_ci_95_ub"]].tolist() == [0, math.inf]
    assert math.isnan(table.loc[0, "calibrated_rr"])


class Checker(html.parser.HTMLParser):
    """Counts what is open, and what would load something."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.labels = [], [], 0

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag != "meta":
            self.open.append(tag)
        # Links within the page load nothing.
        links = [v for k, v in attributes if k in ("src", "href")]
        self.loads += [v for v in links if not v.startswith("#")]
        self.labels += tag == "svg" and bool(values.get("aria-label"))

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_the_page_is_whole_by_itself_and_says_what_its_pictures_show(results, tmp_path):
    path = write_grid_report(results, tmp_path)
    text = path.read_text()
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.loads == []
    assert "<script" not in text
    assert checker.labels == text.count("<svg") >= 4
    assert "prefers-color-scheme: dark" in text
    assert "Newdrug against Olddrug" in text
    figures = sorted(f.stem for f in (tmp_path / "release" / "figures").iterdir())
    kinds = {f.split("-")[0] for f in figures}
    assert kinds == {"attrition", "balance", "controls", "forest", "love", "scores", "survival"}
    characteristics = pd.read_csv(next((tmp_path / "release" / "tables").glob("characteristics-*")))
    assert {"Age group", "Gender"} <= {*characteristics["section"]}
    assert pd.read_csv(tmp_path / "release" / "tables" / "estimates.csv")["rr"].notna().any()


def test_several_times_at_risk_are_analyses_of_their_own(database, spec, tmp_path):
    path = tmp_path / "grid.toml"
    text = (
        SPEC.replace('end = 500\nend_anchor = "cohort start"', "", 2)
        + """
[[window]]
id = 1
description = "a year"
at_risk = { end = 365, end_anchor = "cohort start" }
[[window]]
id = 2
description = "longer"
analyses = [1]
[window.at_risk]
end = 500
end_anchor = "cohort start"
"""
    )
    path.write_text(text)
    both = read_spec(path)
    assert [a.id for a in both.analyses] == [101, 102, 201]
    assert [a.description for a in both.analyses] == ["crude, a year", "crude, longer",
                                                      "weighted, a year"]  # fmt: skip
    assert both.analyses[1].at_risk == spec.analysis[0].at_risk
    found = run_grid(database, both, tmp_path).tables["cm_result"].query("outcome_id == 13")
    events = found.set_index("analysis_id")["target_outcomes"]
    assert events[102] > events[101] == events[201]
    for wrong, message in (
        ("analyses = [7]", "there is no analysis 7"),
        ("id = 1\ndescription", "two windows have the id 1"),
    ):
        old = "analyses = [1]" if "7" in wrong else 'id = 2\ndescription = "longer"'
        path.write_text(text.replace(old, wrong if "7" in wrong else 'id = 1\ndescription = "b"'))
        with pytest.raises(DataError, match=message):
            read_spec(path)
    path.write_text(SPEC + "[[window]]\nid = 1\n")
    with pytest.raises(DataError, match="analysis 1 has a time at risk and window 1"):
        read_spec(path)


def test_an_archive_combined_alone_gives_the_numbers_of_its_grid(results):
    path = results.path.parent / "release" / "results.zip"
    found = combine_archives([path], unblind=True)
    with zipfile.ZipFile(path) as archive, archive.open("cm_result.csv") as file:
        own = pd.read_csv(file)
    columns = ["rr", "ci_95_lb", "ci_95_ub", "log_rr", "se_log_rr"]
    for method in ("fixed, profile", "fixed, normal", "random, normal"):
        line = found[found["method"] == method].set_index(["outcome_id", "analysis_id"])
        wanted = own.set_index(["outcome_id", "analysis_id"])[columns]
        assert len(line) == len(wanted)
        pd.testing.assert_frame_equal(line[columns], wanted.loc[line.index], rtol=1e-12)
    assert set(found["target"]) == {"Newdrug"}
    assert set(found["analysis"]) == {"Crude", "Weighted"}


def test_the_commands(database, tmp_path, capsys):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC)
    folder = tmp_path / "out"
    assert (
        command(["grid", str(path), "--database", str(database), "--output", str(folder), "-q"])
        == 0
    )
    found = {f.name for f in folder.iterdir()}
    assert found == {"results.duckdb", "release", "EXACT-DO-NOT-RELEASE.txt"}
    folder /= "release"
    found = {f.name for f in folder.iterdir()}
    assert found == {"report.html", "manifest.json", "results.zip", "figures", "tables"}
    assert command(["concepts", str(database), "bleed"]) == 0
    assert "bleeding" in capsys.readouterr().out
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(folder / "results.zip") as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"tiny", b"huge"))
    table = tmp_path / "combined.csv"
    assert (
        command(
            [
                "combine",
                str(folder / "results.zip"),
                str(other),
                "--unblind",
                "--output",
                str(table),
            ]
        )
        == 0
    )
    combined = pd.read_csv(table)
    assert set(combined["databases"]) <= {0, 2}
    fixed = combined.query("method == 'fixed, profile' and outcome_id == 13").set_index("analysis")
    assert fixed["note"].isna()["Crude"]
    assert "normal approximation with the robust standard error" in fixed.loc["Weighted", "note"]
    assert command(["grid", "--schema"]) == 0
    assert '"GridSpec"' in capsys.readouterr().out
    assert command(["grid", str(path)]) == 2


@pytest.mark.parametrize("centuries", [-4, pytest.param(4, marks=pytest.mark.slow)])
def test_dates_beyond_nanoseconds_give_the_same_grid(database, spec, results, tmp_path, centuries):
    """The calendar repeats after 400 years, and NumPy's nanoseconds end in 1678 and 2262."""
    days = centuries // 4 * 146_097
    moved = shutil.copy(database, tmp_path / "moved.duckdb")
    with duckdb.connect(str(moved)) as con:
        columns = con.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE data_type = 'DATE'"
        ).fetchall()
        for table, column in columns:
            con.execute(f"UPDATE {table} SET {column} = {column} + ({days})::INTEGER")
        con.execute(f"UPDATE person SET year_of_birth = year_of_birth + ({100 * centuries})")
    found = run_grid(moved, spec, tmp_path / "out")
    for name in ("cm_result", "cm_attrition", "cm_diagnostics_summary"):
        pd.testing.assert_frame_equal(found.tables[name], results.tables[name])
