"""Each analysis without an estimate gives its reason in the release, on pages and on terminals."""

import csv
import html
import io
import re
import zipfile

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, TinyOmop

from steropes import LogisticRegression
from steropes.studies import case_series, case_series_settings
from steropes.studies.cli.command_line import run
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

WORD = re.compile(r"[\w.]*\w")
KEY = ("target_comparator_id", "outcome_id", "analysis_id")
COHORTS = """
database_id = "tiny"
[cohorts.drugs]
11 = { include = [1] }
12 = { include = [2] }
15 = { include = [8] }
16 = { include = [9] }
[cohorts.conditions]
13 = { include = [3] }
14 = { include = [4] }
17 = { include = [5] }
18 = { include = [6] }
[[question]]
target = 11
comparator = 12
outcomes = [13, 14, 17, 18]
[[question]]
target = 11
comparator = 15
outcomes = [13]
[[question]]
target = 11
comparator = 16
outcomes = [13]
"""
ANALYSIS = """
[[analysis]]
id = {id}
description = "{name}"
{first}
[analysis.at_risk]
end = 500
end_anchor = "cohort start"
"""
MATCH = "[analysis.match]\ncaliper = 0.01\n"
CRUDE = "propensity = false\nfeatures = false\nunadjusted = true"
FEATURES = "[analysis.features]\nanalyses = [{}]\n[analysis.propensity]\nvariance = {}\n{}\n"
ANALYSES = (
    (1, "crude", CRUDE, ""),
    (2, "without covariates", "", FEATURES.format(1, 0.1, "include = [8507001]")),
    (3, "apart", "", FEATURES.format(102, 10, "")),
    (4, "no overlap", "", FEATURES.format(102, 100, "high_correlation = 1.0") + MATCH),
    (5, "equipoise", "", FEATURES.format(102, 100, "high_correlation = 1.0")),
)
REASONS = (
    WITHHELD,
    "no covariate is left",
    "has a correlation of 1.00 with the arm",
    "nobody is left in the comparator arm (there are no entries of the comparator",
    "propensity model: the comparator arm has fewer than two people",
    "nobody had the outcome during the time at risk (there are no entries of the outcome",
    "nobody in the comparator arm had the outcome during the time at risk",
    "is left after the rule “Matched on propensity",
    NOT_SHOWN,
)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """300 people with two drugs; drug 8 has three users and drug 9 has none."""
    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    for concept in range(4, 10):
        omop.concept(concept, f"concept {concept}")
    for k in range(300):
        arm = "target" if k % 2 else "comparator"
        person = omop.person(**{arm: int(rng.integers(0, 100))}, born=int(rng.integers(1930, 1990)))
        if k < 3:
            omop.drug(person, 8, 50)
        if k % 2:
            omop.condition(person, 77, -20)
        for concept, having in ((3, k % 4 < 2), (5, k % 6 == 1), (6, k in (0, 1, 3))):
            if having:
                omop.condition(person, concept, int(rng.integers(101, 600)))
    return omop.write()


def archive(folder):
    with zipfile.ZipFile(folder / "release" / "results.zip") as files:
        return {
            name.removesuffix(".csv"): list(csv.DictReader(io.StringIO(files.read(name).decode())))
            for name in files.namelist()
        }


def plain(text):
    return " ".join(html.unescape(text).split())


def viewed(folder):
    rules = DisclosureRules()
    return {view.name: view.data() for view in results_views(read_sources([folder]), rules)}


def texts_of(command, out, capsys):
    """What a command says with and without --quiet, its page and its viewer."""
    assert run([*command, "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert run(command) == 0
    printed = capsys.readouterr().out
    page = (out / "release" / "report.html").read_text()
    return said.err, printed, page


def assert_told(reason, quiet, printed, page, statuses):
    """The reason is in all places; tables of terminals break its lines."""
    assert reason in plain(quiet)
    assert {*WORD.findall(reason)} <= {*WORD.findall(printed)}, reason
    assert reason in plain(page)
    assert statuses.str.contains(reason, regex=False).any(), reason


@pytest.mark.slow
def test_a_grid_of_comparisons_tells_why_estimates_are_missing(database, tmp_path, capsys):
    spec, out = tmp_path / "spec.toml", tmp_path / "o"
    spec.write_text(
        COHORTS + "".join(ANALYSIS.format(id=i, name=n, first=f) + m for i, n, f, m in ANALYSES)
    )
    command = ["grid", str(spec), "--database", str(database), "--output", str(out)]
    quiet, printed, page = texts_of(command, out, capsys)
    estimates = viewed(out)["estimates"]
    for reason in REASONS:
        assert_told(reason, quiet, printed, page, estimates["status"])
    assert (estimates["status"] != "").all()
    tables = archive(out)
    notes = {tuple(line[k] for k in KEY): line["note"] for line in tables["note"]}
    assert all(notes[tuple(n[k] for k in KEY)] for n in tables["cm_result"] if not n["log_rr"])


MODELS = """
database_id = "tiny"
[cohorts.drugs]
11 = { include = [1] }
12 = { include = [2] }
[cohorts.conditions]
13 = { include = [3] }
[[question]]
target = 11
comparator = 12
outcomes = [13]
[[analysis]]
id = 1
description = "separation"
propensity = false
unadjusted = true
[analysis.features]
analyses = [102]
[analysis.outcome_model]
kind = "cox"
interval = "wald"
interactions = [78102]
[[analysis]]
id = 2
description = "not converged"
propensity = false
features = false
unadjusted = true
[analysis.outcome_model]
kind = "logistic"
interval = "wald"
"""
STOPPED = "not shown: a diagnostic failed (convergence of the fits)"


@pytest.fixture
def stopped(monkeypatch):
    """Let logistic regressions stop after their first step."""
    fit = LogisticRegression.fit

    def short(self, *args, **kwargs):
        self.max_iter, self.tol = 1, 1e-300
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(LogisticRegression, "fit", short)


def test_a_model_without_maximum_and_one_that_did_not_converge_tell_why(
    omop, tmp_path, capsys, stopped
):
    for k in range(200):
        person = omop.person(**{"target" if k % 2 else "comparator": 0})
        omop.condition(person, *((3, 101 + k) if k % 4 < 2 and k % 10 else (78, -20)))
    database = omop.write()
    spec, out = tmp_path / "spec.toml", tmp_path / "o"
    spec.write_text(MODELS)
    command = ["grid", str(spec), "--database", str(database), "--output", str(out)]
    quiet, printed, page = texts_of(command, out, capsys)
    statuses = viewed(out)["estimates"]["status"]
    for reason in ("no finite maximum", STOPPED):
        assert_told(reason, quiet, printed, page, statuses)
    tables = archive(out)
    separated, unconverged = sorted(tables["note"], key=lambda line: line["analysis_id"])
    assert "no finite maximum" in separated["note"]
    assert unconverged["convergence_diagnostic"] == "FAIL"


SERIES_REASONS = (
    "nobody has the outcome 4 (concept 4) during an observation period",
    "no case has an era of the exposure 9 (concept 9) while observed",
    "no case of the outcome 3 (bleeding) is left after the rule: at age 10 or younger",
    WITHHELD,
    NOT_SHOWN,
)
SERIES = """
database_id = "tiny"
[[question]]
exposure = 1
outcome = 3
[[question]]
exposure = 8
outcome = 3
[[question]]
exposure = 1
outcome = 4
[[question]]
exposure = 9
outcome = 3
[[analysis]]
id = 1
description = "usual"
descendants = false
pre_exposure_days = 0
end_of_observation_days = 0
[[analysis]]
id = 2
description = "youth"
descendants = false
pre_exposure_days = 0
end_of_observation_days = 0
max_age = 10
"""


def test_a_grid_of_case_series_tells_why_estimates_are_missing(database, tmp_path, capsys):
    spec, out = tmp_path / "spec.toml", tmp_path / "o"
    spec.write_text(SERIES)
    command = ["sccs-grid", str(spec), "--database", str(database), "--output", str(out)]
    quiet, printed, page = texts_of(command, out, capsys)
    statuses = viewed(out)["series-estimates"]["status"]
    for reason in SERIES_REASONS:
        assert_told(reason, quiet, printed, page, statuses)
    assert (statuses != "").all()
    assert all(line["note"] for line in archive(out)["note"])


@pytest.mark.parametrize("rules", ["none", "ohdsi", "opensafely"])
def test_series_without_an_estimate_show_the_cases_that_rules_leave(database, tmp_path, rules):
    spec, out = tmp_path / "spec.toml", tmp_path / "o"
    spec.write_text(SERIES)
    command = ["sccs-grid", str(spec), "--database", str(database), "--output", str(out)]
    assert run([*command, "--quiet", "--disclosure", rules]) == 0
    tables = archive(out)
    sets = {line["era_id"]: line["exposures_outcome_set_id"] for line in tables["sccs_exposure"]}
    usual, young = (
        [line for line in tables["sccs_attrition"]
         if (line["exposures_outcome_set_id"], line["analysis_id"]) == (sets["9"], analysis)]
        for analysis in "12"
    )  # fmt: skip
    counted = ("outcome_subjects", "outcome_events", "outcome_observation_periods")
    cases = 147 if rules == "opensafely" else 150  # rounded
    everybody, nobody = dict.fromkeys(counted, cases), dict.fromkeys(counted, 0)
    for lines, expected in ((usual, [everybody]), (young, [everybody, nobody])):
        assert [{c: int(line[c]) for c in counted} for line in lines] == expected
    results = {(line["exposures_outcome_set_id"], line["analysis_id"]): line
               for line in tables["sccs_result"]}  # fmt: skip
    for analysis, expected, exposed in (("1", everybody, {""}), ("2", nobody, {"0", "0.0"})):
        line = results[sets["9"], analysis]
        assert {c: int(line[c]) for c in counted} == expected
        assert line["covariate_subjects"] in exposed
        assert line["log_rr"] == ""


def test_one_case_series_tells_why_its_estimate_is_missing(database, tmp_path, capsys):
    out = tmp_path / "o"
    command = ["sccs", str(database), "--exposure", "8", "--outcome", "3", "--no-descendants",
               "--unblind", "--output", str(out)]  # fmt: skip
    quiet, printed, page = texts_of(command, out, capsys)
    assert f"No estimate for Exposure: {WITHHELD}." in plain(quiet)
    assert f"Exposure; Pre-exposure: {WITHHELD}." in plain(printed)
    assert "Pre-exposure: no event" not in plain(printed) + plain(page)  # nor a suppressed count
    assert WITHHELD in plain(page)
    series = case_series(database, case_series_settings(OUTCOME, 8, descendants=False))
    assert series.tables()["note"]["note"].tolist() == [WITHHELD]
    assert viewed(out)["series-estimates"]["status"].tolist() == [WITHHELD]


def test_one_comparison_tells_why_its_estimate_is_missing(database, tmp_path, capsys):
    out = tmp_path / "o"
    command = ["study", str(database), "--target", "1", "--comparator", "2", "--outcome", "4",
               "--further-outcome", "5", "--no-descendants", "--output", str(out)]  # fmt: skip
    quiet, printed, page = texts_of(command, out, capsys)
    statuses = viewed(out)["estimates"]["status"]
    for reason in (
        "nobody had the outcome during the time at risk",
        "has a correlation of 1.00 with the",
    ):
        assert_told(reason, quiet, printed, page, statuses)
    assert "No estimate for Concept 5: covariate 77102" in plain(printed)


def test_an_error_of_the_database_is_told_with_quiet_too(database, tmp_path, capsys):
    with duckdb.connect(str(database)) as con:
        con.execute(f"ATTACH '{tmp_path / 'b.duckdb'}' AS b; COPY FROM DATABASE omop0 TO b")
        con.execute("DROP TABLE b.condition_occurrence")
    command = ["sccs", str(tmp_path / "b.duckdb"), "--exposure", "1", "--outcome", "3", "--quiet"]
    assert run([*command, "--output", str(tmp_path / "o")]) == 2
    assert "condition_occurrence" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
