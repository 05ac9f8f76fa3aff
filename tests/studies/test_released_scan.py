"""Tree scans of releases use what was released, and nothing that is hidden."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from steropes import DataError
from steropes.designs.surveillance import (
    sequential_tree_scan,
    tree_scan,
    tree_temporal_scan,
)
from steropes.studies.cli.commands import command_app
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.monitoring.tree_scan_of_a_table import TableScan, scan_table
from steropes.studies.monitoring.tree_scan_of_released_counts import scan_release

OUTCOMES = [11, 12, 13, 14, 15, 16]
TREE = pd.DataFrame({"node": [*OUTCOMES[:5], 1, 2], "parent": [1, 1, 1, 2, 2, 9, 9],
                     "name": [None] * 5 + ["bleeding", "other"]})  # fmt: skip


@pytest.fixture
def release(tmp_path):
    """Six outcomes: 13 has a hidden number, 15 fails a diagnostic, 16 is not in the tree."""
    key = {"target_comparator_id": 12, "analysis_id": 1, "database_id": "north"}
    cases, controls = [30, 25, -5, 10, 90, 8], [10, 12, 9, 11, 10, 9]
    rows = [
        {**key, "outcome_id": o, "log_rr": 0.1, "se_log_rr": 0.2, "ci_95_lb": 0.8, "ci_95_ub": 1.5,
         "target_days": 1000, "comparator_days": 1500, "target_outcomes": a,
         "comparator_outcomes": b}
        for o, a, b in zip(OUTCOMES, cases, controls, strict=True)
    ]  # fmt: skip
    checks = [{**key, "outcome_id": o, "unblind": int(o != 15),
               "unblind_for_evidence_synthesis": int(o != 15)} for o in OUTCOMES]  # fmt: skip
    tables = {
        "cm_result": rows,
        "cm_diagnostics_summary": checks,
        "cm_target_comparator": [{"target_comparator_id": 12, "target_id": 1, "comparator_id": 2}],
        "cm_analysis": [{"analysis_id": 1, "description": "crude",
                         "definition": json.dumps({"outcome_model": {"weighted": False}})}],
        "cohort": [{"cohort_id": i, "name": n}
                   for i, n in ((1, "new drug"), (2, "old drug"), (11, "ulcer"))],
    }  # fmt: skip
    for name, found in tables.items():
        pd.DataFrame(found).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_released_numbers_are_scanned_by_person_time(release):
    (found,) = scan_release(release, TREE)
    assert (found.comparison, found.analysis) == ("New drug against Old drug", "Crude")
    assert found.note == (
        "left out: 1 not in the tree, 1 fail a diagnostic, 1 hidden by disclosure control"
    )
    counts = pd.DataFrame({"node": [11, 12, 14], "cases": [30, 25, 10], "controls": [10, 12, 11]})
    expected = tree_scan(
        counts, TREE, model="bernoulli", conditional=False, probability=0.4,
        names={11: "Ulcer", 1: "bleeding", 2: "other"},
    )  # fmt: skip
    own = found.scan.table.set_index("node")
    assert own["statistic"].to_dict() == expected.table.set_index("node")["statistic"].to_dict()
    assert own.loc[[11, 1], "name"].tolist() == ["Ulcer", "bleeding"]
    assert own.loc[1, "cases"] == 55
    (shown,) = scan_release(release, TREE, unblind=True)
    assert shown.scan.table.set_index("node").loc[2, "cases"] == 100


def test_hidden_numbers_do_not_change_the_result(release):
    before = scan_release(release, TREE)[0].scan.table
    results = pd.read_csv(release / "cm_result.csv")
    results.loc[results["outcome_id"] == 15, ["target_outcomes", "comparator_outcomes"]] = 40
    results.to_csv(release / "cm_result.csv", index=False)
    pd.testing.assert_frame_equal(before, scan_release(release, TREE)[0].scan.table)


def test_the_command_writes_a_table(release, tmp_path):
    TREE.to_csv(tmp_path / "tree.csv", index=False)
    arguments = ["tree-scan", str(release), str(tmp_path / "tree.csv"), "--output",
                 str(tmp_path / "out"), "--replicates", "999"]  # fmt: skip
    result = CliRunner().invoke(command_app(), arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "bleeding" in result.output
    assert "1 fail a diagnostic" in " ".join(result.output.split())
    table = pd.read_csv(tmp_path / "out" / "tree_scan.csv")
    assert table.columns[:2].tolist() == ["comparison", "analysis"]
    assert table.loc[table["node"] == 1, "signal"].all()
    assert np.isfinite(table["p"]).all()
    quiet = CliRunner().invoke(command_app(), [*arguments, "--quiet"], catch_exceptions=False)
    assert "fail a diagnostic" not in quiet.output


def test_what_cannot_be_scanned_is_refused(release, tmp_path):
    with pytest.raises(DataError, match="no outcome to scan"):
        scan_release(release, pd.DataFrame({"node": [99], "parent": [98]}))
    with pytest.raises(DataError, match="needs the columns"):
        scan_release(release, pd.DataFrame({"child": [99], "parent": [98]}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no released results"):
        scan_release(tmp_path / "empty", TREE)
    arguments = ["tree-scan", str(release), str(tmp_path / "none.csv")]
    missing = CliRunner().invoke(command_app(), arguments)
    assert missing.exit_code != 0
    assert isinstance(missing.exception, DataError)
    definition = json.dumps({"outcome_model": {"weighted": True}})
    analysis = pd.DataFrame([{"analysis_id": 1, "description": "w", "definition": definition}])
    analysis.to_csv(release / "cm_analysis.csv", index=False)
    with pytest.raises(DataError, match="no unweighted analysis"):
        scan_release(release, TREE)


COUNTS = pd.DataFrame(
    {"node": [11, 12, 13, 14, 15], "cases": [30, 12, 9, 10, 8], "expected": [14, 13, 10, 9, 8],
     "controls": [14, 13, 10, 9, 8], "time": [1, 2, 30, 60, 90], "look": [1, 1, 1, 2, 2]}
)  # fmt: skip


@pytest.mark.parametrize(
    ("without", "options", "scan"),
    [
        (["controls"], {}, lambda c, o: tree_scan(c, TREE, conditional=False, **o)),
        (["expected"], {"conditional": True},
         lambda c, o: tree_scan(c, TREE, model="bernoulli", **o)),
        ([], {"times": (1, 90), "window": (2, 60), "fixed": "node and time"},
         lambda c, o: tree_temporal_scan(c, TREE, times=(1, 90), window=(2, 60),
                                         fixed="node and time", **o)),
        (["controls"], {"looks": 3},
         lambda c, o: sequential_tree_scan(c, TREE, looks=3, conditional=False, **o)),
    ],
)  # fmt: skip
def test_a_table_of_counts_is_scanned_as_in_python(without, options, scan):
    counts = COUNTS.drop(columns=without)
    question = TableScan(**options, replicates=99)
    found = scan_table(counts, TREE, question, DisclosureRules())
    own = scan(counts, {"replicates": 99, "names": {1: "bleeding", 2: "other"}}).table
    pd.testing.assert_frame_equal(found[own.columns], own)
    assert "signal" in found


def test_the_command_scans_a_table_by_a_frozen_protocol(tmp_path):
    COUNTS.drop(columns="controls").to_csv(tmp_path / "counts.csv", index=False)
    tree = tmp_path / "tree.csv"
    TREE.to_csv(tree, index=False)
    arguments = ["tree-scan", str(tmp_path / "counts.csv"), str(tree), "--replicates", "99",
                 "--output", str(tmp_path / "out"), "--times", "1:90",
                 "--protocol", str(tmp_path / "protocol.json")]  # fmt: skip
    app = command_app()
    frozen = CliRunner().invoke(app, [*arguments, "--freeze"], catch_exceptions=False)
    assert "SHA-256" in frozen.output
    assert not (tmp_path / "out").exists()
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "Settings and code of this run are those that were frozen" in result.output
    assert {"first", "last", "signal"} <= {*pd.read_csv(tmp_path / "out" / "tree_scan.csv")}
    tree.write_text(tree.read_text() + "15,9,\n")
    changed = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "Deviation: tree is" in changed.output


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"cases": [3, 12, 9, 10, 8]}, {}, "1 rows have cases between 1 and 4"),
        ({}, {"window": (2, 5)}, "window belongs to a scan of time; give times"),
        ({}, {"power": 2.0}, "power belongs to several looks; give looks"),
        ({}, {"times": (1, 90), "looks": 2}, "times and looks cannot be combined"),
        ({}, {"times": (1, 90), "conditional": True}, "belongs to a scan without times"),
    ],
)
def test_wrong_tables_and_options_are_refused(change, options, message):
    counts = COUNTS.assign(**change).drop(columns="controls")
    with pytest.raises(DataError, match=message):
        scan_table(counts, TREE, TableScan(**options), DisclosureRules())
    with pytest.raises(DataError, match="rules round counts"):
        scan_table(counts, TREE, TableScan(), DisclosureRules("opensafely", 8))


@pytest.mark.parametrize(
    ("table", "option", "message"),
    [
        (False, ["--looks", "3"], "--looks belongs to tables of counts"),
        (True, ["--unblind"], "a table has no diagnostics"),
        (True, ["--times", "1-90"], "a window is FIRST:LAST"),
        (True, ["--alpha", "0"], "alpha must be between 0 and 1"),
    ],
)
def test_options_of_the_other_input_are_refused(release, tmp_path, table, option, message):
    TREE.to_csv(tmp_path / "tree.csv", index=False)
    COUNTS.to_csv(tmp_path / "counts.csv", index=False)
    given = tmp_path / "counts.csv" if table else release
    result = CliRunner().invoke(
        command_app(), ["tree-scan", str(given), str(tmp_path / "tree.csv"), *option]
    )
    assert message in str(result.exception)
