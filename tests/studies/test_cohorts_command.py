"""The command ``steropes cohorts``: definitions from files, tables, page, findings and statuses."""

import json

import pandas as pd
import pytest
from tests.studies.strategus.small_specification import (
    BLEEDING,
    CELECOXIB,
    circe,
    new_specification,
    write_database,
)

from steropes.errors import DataError
from steropes.studies.cli.command_line import run
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.strategus_plans.definition_files import specification_of_definitions
from steropes.studies.strategus_plans.specification_plan import specification_plan
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views


def without_women(text):
    """Add a rule that nobody meets, because men and women are no person."""
    values = json.loads(text)
    nobody = [{"Gender": [{"CONCEPT_ID": c}]} for c in (8507, 8532)]
    group = {"Type": "ALL", "CriteriaList": [], "DemographicCriteriaList": nobody, "Groups": []}
    values["InclusionRules"] = [{"name": "both sexes", "expression": group}]
    return json.dumps(values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Definitions of celecoxib, of bleeding of nobody, and one that cannot run."""
    found = tmp_path_factory.mktemp("definitions")
    (found / "17_celecoxib.json").write_text(circe(CELECOXIB, "DrugEra"))
    (found / "bleeding.json").write_text(without_women(circe(BLEEDING, "ConditionOccurrence")))
    broken = json.loads(circe(BLEEDING, "ConditionOccurrence"))
    broken["PrimaryCriteria"]["CriteriaList"] = [{"Specimen": {"CodesetId": 0}}]
    (found / "specimen.json").write_text(json.dumps(broken))
    (found / "99.json").write_text('{"name": "no cohort"}')
    return found


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return write_database(tmp_path_factory.mktemp("data") / "database", 400)


@pytest.fixture(scope="module")
def output(database, folder, tmp_path_factory):
    """The folder of a run without characteristics by windows."""
    found = tmp_path_factory.mktemp("results")
    command = ["cohorts", database, str(folder), "--output", str(found), "--no-characteristics"]
    assert run([*command, "--database-id", "north"]) == 1
    return found


def test_definitions_are_numbered_by_their_content_their_file_or_their_order(tmp_path):
    text = circe(CELECOXIB, "DrugEra")
    for name in ("b.json", "a.json", "3 drug.json", "2.JSON"):
        (tmp_path / name).write_text(text)
    named = {"id": 9, "name": "named", "expression": json.loads(text)}
    (tmp_path / "5.json").write_text(json.dumps(named))
    [resource] = specification_of_definitions([tmp_path])["sharedResources"]
    found = {c["cohortId"]: c["cohortName"] for c in resource["cohortDefinitions"]}
    assert found == {1: "a", 2: "2", 3: "3 drug", 4: "b", 9: "named"}
    # Definitions with a name around them, as objects or texts, are those without it.
    (tmp_path / "7.json").write_text(json.dumps({"name": "text", "expression": text}))
    values = specification_of_definitions([tmp_path])
    assert not specification_plan(values).cohorts.faults
    (tmp_path / "7.json").unlink()
    with pytest.raises(DataError, match="another definition has the id 9 too"):
        specification_of_definitions([tmp_path, tmp_path / "5.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no JSON files"):
        specification_of_definitions([tmp_path / "empty"])


def test_the_cohorts_of_a_specification_are_examined_too(tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(new_specification([81151])))
    assert len(specification_of_definitions([path])["sharedResources"]) == 2


def test_findings_name_what_does_not_run_and_who_is_lost(output):
    release = output / "release" / "CohortDiagnosticsModule"
    found = pd.read_csv(release / "cohort_finding.csv").groupby("cohort_id")["finding"].agg(list)
    assert "Nobody meets the criterion 'both sexes'" in found[1][1]
    assert found[2][0].startswith("The definition does not run: ")
    assert "specimen" in found[2][0].lower()
    assert found[99][0].startswith("The definition does not run: the definition of cohort 99 ")
    counts = pd.read_csv(release / "cd_cohort_count.csv").set_index("cohort_id")
    assert counts.loc[17, "cohort_subjects"] > 0
    assert counts.loc[1, "cohort_subjects"] == 0
    stats = pd.read_csv(release / "cd_cohort_inc_stats.csv").query("mode_id == 1")
    assert stats[["cohort_id", "person_count"]].to_numpy().tolist() == [[1, 0]]


def test_the_page_has_the_views_of_cohorts(output):
    assert (output / "cohorts.html").stat().st_size > 100_000
    views = {v.name: v for v in results_views(read_sources([output]), DisclosureRules())}
    assert {"cohort-findings", "cohort-sizes", "cohort-rules", "cohort-incidence"} <= {*views}
    assert {*views["cohort-sizes"].table["cohort"]} >= {"17_celecoxib"}
    [rule] = views["cohort-rules"].data().to_dict("records")
    assert (rule["rule"], rule["share"]) == ("both sexes", 0)


def test_the_terminal_shows_findings_and_quiet_what_did_not_run(database, folder, tmp_path, capsys):
    command = ["cohorts", database, str(folder), "--output", str(tmp_path), "--no-characteristics"]
    assert run(command) == 1
    said = capsys.readouterr().out
    assert "cohort 1 (bleeding): Nobody meets the definition in this database." in said
    assert run([*command, "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "cohort 2" in captured.err
    assert run(["cohorts", database, str(tmp_path / "none.json"), "--output", str(tmp_path)]) == 2
