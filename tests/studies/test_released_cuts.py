"""Released cuts of tree scans do not tell small counts, also not by differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from steropes.designs.surveillance import tree_scan, tree_scan_people, tree_temporal_scan
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.monitoring.tree_scan_release import released_cuts

TREE = pd.DataFrame({"node": ["a", "b", "c", "x", "y"], "parent": ["x", "x", "y", "top", "top"]})
OHDSI = DisclosureRules()


def released(hidden, controls=10, **options):
    """Release a scan in which one leaf has a small count."""
    counts = pd.DataFrame({"node": ["a", "b", "c"], "cases": [42, hidden, 40],
                           "controls": [12, controls, 40]})  # fmt: skip
    scan = tree_scan(
        counts, TREE, model="bernoulli", conditional=False, probability=0.5, replicates=999
    )
    return released_cuts(scan, disclosure=OHDSI, **options)


def test_a_hidden_count_changes_nothing():
    first = released(1)
    for hidden in (2, 3):
        pd.testing.assert_frame_equal(first, released(hidden))
    own = first.set_index("node")
    assert "b" not in own.index  # as without cases
    assert own.loc["a", ["cases", "events"]].tolist() == [40, 50]
    assert own.loc["a", "ratio"] == pytest.approx(1.6)
    assert own.loc["a", "signal"]
    assert not {"p", "statistic", "excess"} & {*first.columns}


def test_small_numbers_of_controls_are_hidden_too():
    tables = [released(30, controls).set_index("node") for controls in (1, 2)]
    pd.testing.assert_frame_equal(*tables)
    assert tables[0].loc["b", ["cases", "events"]].tolist() == [30, -5]
    assert np.isnan(tables[0].loc["b", "ratio"])


def test_the_verdict_of_a_cut_with_few_controls_is_the_same_for_all_numbers():
    """Ten cases and one control are a signal, and ten and four none, which told the controls."""
    tables = [released(10, controls) for controls in (1, 2, 3, 4)]
    for other in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], other)
    assert not tables[0].set_index("node").loc["b", "signal"]
    assert released(30, 4).set_index("node").loc["b", "signal"]  # Whatever the numbers are.


def test_windows_tell_no_numbers_outside_of_them():
    counts = pd.DataFrame({"node": ["a"] * 4 + ["b"] * 2, "time": [2, 3, 9, 4, 2, 8],
                           "cases": [12, 9, 2, 1, 2, 1]})  # fmt: skip
    scan = tree_temporal_scan(counts, TREE, times=(1, 10), replicates=99)
    found = released_cuts(scan, disclosure=OHDSI).set_index("node")
    assert found.columns.tolist() == ["cases", "first", "last", "signal"]
    assert found.loc["a", ["cases", "first", "last"]].tolist() == [20, 2, 3]
    assert "b" not in found.index


def test_other_scans_and_rules():
    counts = pd.DataFrame({"node": ["a", "b"], "cases": [31, 3], "expected": [12.34, 5.67]})
    scan = tree_scan(counts, TREE, conditional=False, names={"a": "Rash"}, replicates=99)
    found = released_cuts(scan, disclosure=OHDSI).set_index("node")
    assert found.loc["a", ["name", "cases", "expected", "ratio"]].tolist() == ["Rash", 30, 12, 2.4]
    rounded = released_cuts(scan, disclosure=DisclosureRules("opensafely", 8)).set_index("node")
    assert rounded.loc["a", "cases"] == 33
    exact = released_cuts(scan, disclosure=DisclosureRules("none", 0))
    assert exact["statistic"].equals(scan.table["statistic"])
    people = pd.DataFrame({"person": range(40), "node": ["a"] * 40, "exposed": [1] * 30 + [0] * 10})
    own = released_cuts(tree_scan_people(people, TREE, probability=0.5, replicates=99))
    assert set(own["cases"]) == {30}
