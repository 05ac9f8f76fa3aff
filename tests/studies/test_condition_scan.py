"""Scans of all conditions of a database: who is compared, what is found, what is released."""

import re

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import COMPARATOR, START, TARGET, TinyOmop

from steropes.designs import PropensityRules
from steropes.designs.surveillance import tree_scan_people
from steropes.designs.values.html_page import table_html
from steropes.errors import DataError
from steropes.studies import OmopDatabase, concept_hierarchy
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortSources, ConceptSet, incident_conditions
from steropes.studies.covariates import FeatureRules
from steropes.studies.monitoring import OmopTreeScan, scan_conditions
from steropes.studies.monitoring.condition_scan import _named

ROOT, SKIN, RASH, HIVES, FEVER, OLD = 100, 110, 111, 112, 120, 130
BOTH = CohortSources(drugs={1: ConceptSet((TARGET,)), 2: ConceptSet((COMPARATOR,))})
FAST = {"features": FeatureRules((1,)), "propensity": PropensityRules(variance=1.0),
        "replicates": 199}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """People in two arms, of whom those with the target have skin disease more often."""
    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(2)
    names = {ROOT: "finding", SKIN: "skin", RASH: "rash", HIVES: "hives", FEVER: "fever"}
    for concept, name in {**names, OLD: "scar"}.items():
        omop.concept(concept, name)
    for above, below in ((ROOT, (SKIN, RASH, HIVES, FEVER, OLD)), (SKIN, (RASH, HIVES, OLD))):
        for concept in below:
            omop.ancestor(above, concept)
    for k in range(300):
        arm = "target" if k % 2 else "comparator"
        end = 1000 if k > 9 else 50
        person = omop.person(
            **{arm: 0}, sex=int(rng.choice([8507, 8532])), observed=(-1000, end)
        )  # fmt: skip
        if rng.random() < (0.3 if k % 2 else 0.08):
            omop.condition(person, int(rng.choice([RASH, HIVES])), int(rng.integers(1, 90)))
        if rng.random() < 0.1:
            omop.condition(person, FEVER, int(rng.integers(-90, 90)))
        omop.condition(person, OLD, -20 if k % 3 else 30)
    return omop.write()


@pytest.fixture(scope="module")
def db(path):
    with OmopDatabase(path) as opened:
        yield opened


def asked(**settings):
    return OmopTreeScan(BOTH, 1, **{"comparator": 2, "days": (1, 90), **FAST, **settings})


def test_the_scan_is_that_of_matched_people(db):
    found = scan_conditions(db, asked(), disclosure="none")
    people = found.attrition.set_index("rule")
    assert people.loc["365 days of prior observation", "target"] == 150
    assert people.loc["Observed until day 90", "target"] == 145
    pairs = people.iloc[-1]
    assert pairs["target"] == pairs["comparator"] > 100
    own = found.scan.table.set_index("node")
    assert own.loc[SKIN, "expected"] == pytest.approx(own.loc[SKIN, "events"] / 2)
    # Two thirds had the condition before the start.
    assert own.loc[OLD, "events"] == pytest.approx(2 * pairs["target"] / 3, abs=9)
    shown = found.release["condition_scan"].set_index("node")
    assert shown["signal"].loc[[SKIN, RASH, HIVES]].any()
    assert not shown["signal"].loc[FEVER]


def test_scores_are_probabilities_of_exposure(db):
    found = scan_conditions(db, asked(adjust="score"), disclosure="none")
    assert found.attrition["rule"].iloc[-1] == "Propensity score between 0 and 1"
    assert found.attrition["target"].iloc[-1] == 145
    own = found.scan.table.set_index("node")
    share = own.loc[SKIN, "expected"] / own.loc[SKIN, "events"]
    assert share == pytest.approx(0.5, abs=0.05)
    assert share != 0.5
    same = scan_conditions(db, asked(adjust="score", conditional=True), disclosure="none")
    table = same.scan.table.set_index("node")
    assert table.loc[ROOT, "expected"] == pytest.approx(table.loc[ROOT, "cases"])


def test_self_controlled_windows_need_no_comparator(db):
    alone = {"features": FeatureRules((1,)), "propensity": PropensityRules(variance=1.0)}
    with pytest.raises(DataError, match="features has no effect in a self-controlled scan"):
        OmopTreeScan(BOTH, 1, control_days=(-90, -1), features=alone["features"])
    question = OmopTreeScan(BOTH, 1, days=(1, 90), control_days=(-90, -1), replicates=99)
    found = scan_conditions(db, question, disclosure="none")
    assert found.attrition.columns.tolist() == ["rule", "target"]
    # The washout is before the first window.
    assert "455 days of prior observation" in found.attrition["rule"].tolist()
    assert "condition_scan_diagnostics" not in found.release
    # Every second person has the drug, and all but the first ten are observed for long enough.
    people = pd.DataFrame({"person_id": range(12, 301, 2), "start": START})
    records = incident_conditions(db, people, days=(1, 90), control_days=(-90, -1))
    same = tree_scan_people(
        records, concept_hierarchy(db, records["node"]), unit="event", replicates=99, seed=1
    )
    columns = ["node", "cases", "events", "expected", "statistic", "p"]
    pd.testing.assert_frame_equal(
        pd.DataFrame(found.scan.table[columns]), pd.DataFrame(same.table[columns])
    )


def test_the_release_has_no_small_counts(db, tmp_path):
    found = scan_conditions(db, asked(), disclosure="ohdsi")
    assert {p.name for p in found.write(tmp_path)} == {
        "condition_scan.csv", "condition_scan_people.csv", "condition_scan_diagnostics.csv",
        "report.html",
    }  # fmt: skip
    table = found.release["condition_scan"]
    assert (table["cases"] % 5 == 0).all()
    assert table["cases"].min() >= 5
    people = found.release["condition_scan_people"]
    assert all(int(n) % 5 == 0 for n in people["target"])
    checks = found.release["condition_scan_diagnostics"].set_index("diagnostic")
    assert checks.loc["share of people in equipoise", "passed"] == "yes"
    assert "rash" in repr(found)


def test_tables_of_pages_are_readable():
    table = pd.DataFrame(
        {"node": [7, 8000], "name": ["rash", "8000"], "log_rr": [0.5, -np.inf], "cases": [20, 3000],
         "events": [-5, 40], "note": ["", ""], "signal": [True, False], "p": [np.nan, 1e-9]}
    )  # fmt: skip
    html = table_html(_named(table))
    assert re.findall(r"<th(?: [^>]*)?>([^<]*)<", html) == [
        "Name", "Concept", "Log ratio", "Cases", "Events", "Signal", "p",
    ]  # fmt: skip
    cells = re.findall(r"<td[^>]*>([^<]*)<", html)
    assert cells == [
        "rash", "7", "0.5", "20", "&lt;5", "yes", "",
        "", "8000", "−∞", "3,000", "40", "no", "1e-09",
    ]  # fmt: skip
    assert html.count('class="number"') == 5 * 3


def test_the_command_takes_concepts_or_a_file(path, tmp_path, capsys):
    file = tmp_path / "scan.toml"
    file.write_text(
        "target = 1\ncomparator = 2\ndays = [1, 90]\nreplicates = 99\n"
        "features = [1]\npropensity = 1.0\n"
    )
    command = ["condition-scan", str(path), "--output", str(tmp_path / "a")]
    assert run([*command, "--specification", str(file), "--alpha", "0.01"]) == 0
    assert "after the start of newdrug, compared with olddrug" in capsys.readouterr().out
    assert (tmp_path / "a" / "release" / "condition_scan.csv").exists()
    options = ["--target", "1", "--days", "1:90", "--control-days", "-90:-1", "--replicates", "99"]
    assert run([*command[:3], str(tmp_path / "b"), *options]) == 0
    assert "their own days -90 to -1" in capsys.readouterr().out
    frozen = [*command[:3], str(tmp_path / "c"), *options, "--protocol", str(tmp_path / "p.json")]
    assert run([*frozen, "--freeze", "--by", "Ada"]) == 0
    assert "frozen by Ada" in capsys.readouterr().out
    assert not (tmp_path / "c").exists()
    assert run([*frozen, "--days", "1:60"]) == 0
    page = (tmp_path / "c" / "release" / "report.html").read_text("utf-8")
    assert "The protocol was frozen by Ada" in page
    assert "Deviation: days is [1, 60]; the protocol has [1, 90]" in page
    assert run([*command, "--target", "1"]) == 2
    assert "give a comparator, or control_days" in capsys.readouterr().err


def test_bad_questions_are_refused(db):
    for settings, message in (
        ({"comparator": 1}, "cohort 1 has two roles in the scan"),
        ({"days": (9, 1)}, "days must be the first and last day"),
        ({"alpha": 0.0}, "alpha must be between 0 and 1"),
        ({"control_days": (-9, -1)}, "not both"),
    ):
        with pytest.raises(DataError, match=message):
            asked(**settings)
    with pytest.raises(DataError, match="nobody in newdrug is observed in the windows"):
        scan_conditions(db, asked(days=(1, 5000)))
