"""Which files a page of results reads, and under which names."""

import json
import shutil
import zipfile
from typing import get_args

import pandas as pd
import pytest
from tests.studies.viewer.small_archives import small_archive

from steropes.designs.effects.outcome_families import Kind, outcome_family
from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    StudySettings,
    case_series,
    case_series_settings,
    combine_archives,
    comparative_study,
    synthetic_database,
)
from steropes.studies.diagnostics.archive_blinding import blinded_archive
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.released_numbers import title_case
from steropes.studies.viewer.result_names import ResultNames, database_labels
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

RESULTS = [(3, 1, 1.5, 1, 1)]


@pytest.fixture
def archive(tmp_path):
    return small_archive(tmp_path, "north", RESULTS)


def test_an_archive_its_folder_and_the_folder_above_are_the_same_results(archive):
    for path in (archive, archive.parent, archive.parent.parent):
        (source,) = read_sources([path])
        assert source.name == "north"
        assert source.tables["cm_result"]["rr"].tolist() == [1.5]


def test_a_folder_of_results_folders_is_one_source_each(archive, tmp_path):
    small_archive(tmp_path, "south", RESULTS)
    assert [s.name for s in read_sources([tmp_path])] == ["north", "south"]


def test_rules_come_from_the_manifest_and_only_for_unchanged_files(archive, tmp_path):
    rules = DisclosureRules("ohdsi", 10)
    write_release(tmp_path / "own", {"results.zip": archive.read_bytes()}, rules)
    assert read_sources([archive])[0].rules == "not known"
    assert read_sources([tmp_path / "own"])[0].rules == "ohdsi, smallest count 10"
    with zipfile.ZipFile(tmp_path / "own" / "release" / "results.zip", "a") as changed:
        changed.writestr("more.csv", "x\n1\n")
    assert read_sources([tmp_path / "own"])[0].rules == "not known"


def test_rules_of_module_folders_come_from_the_manifest_above_them(archive, tmp_path):
    with zipfile.ZipFile(archive) as read:
        texts = {f"CohortMethodModule/{n}": read.read(n) for n in read.namelist() if n[:3] == "cm_"}
    write_release(tmp_path / "own", texts, DisclosureRules())
    (source,) = read_sources([tmp_path / "own"])
    assert source.rules == "ohdsi, smallest count 5"
    assert len(source.tables["cm_result"]) == 1


def test_exact_results_and_people_are_never_read(tmp_path):
    (tmp_path / "results.duckdb").write_text("exact")
    with pytest.raises(DataError, match="exact numbers"):
        read_sources([tmp_path / "results.duckdb"])
    (tmp_path / "EXACT-DO-NOT-RELEASE.txt").write_text("exact")
    (tmp_path / "cm_result.csv").write_text("target_comparator_id,outcome_id,analysis_id\n1,3,1\n")
    with pytest.raises(DataError, match="no released results"):
        read_sources([tmp_path])
    people = tmp_path / "omop"
    people.mkdir()
    (people / "cohort.csv").write_text("cohort_definition_id,subject_id\n1,12345\n")
    with pytest.raises(DataError, match="no released results"):
        read_sources([people])


def test_unknown_columns_are_not_read(archive):
    with zipfile.ZipFile(archive) as read:
        texts = {name: read.read(name).decode() for name in read.namelist()}
    header, line = texts["cohort.csv"].split("\n")[:2]
    texts["cohort.csv"] = f"{header},subject_id\n{line},12345\n"
    with zipfile.ZipFile(archive, "w") as write:
        for name, text in texts.items():
            write.writestr(name, text)
    assert list(read_sources([archive])[0].tables["cohort"]) == ["cohort_id", "name"]


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("missing", None, "does not exist"),
        ("a.zip", "no archive", "not an archive"),
        ("study.json", "[1]", "not the file of a study"),
        ("study.json", "{", "not the file of a study"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, match):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=match):
        read_sources([tmp_path / name])


def test_a_table_without_its_ids_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("cm_result.csv", "rr\n2.0\n")
    with pytest.raises(
        DataError, match=r"cm_result.csv lacks the columns analysis_id, target_comparator_id"
    ):
        read_sources([tmp_path / "a.zip"])


def test_databases_are_labelled_apart_only_if_several_sources_have_results_of_one(
    archive, tmp_path
):
    small_archive(tmp_path, "south", RESULTS)
    again = tmp_path / "again" / "release"
    again.mkdir(parents=True)
    shutil.copy(archive, again)
    apart = database_labels(read_sources([archive, tmp_path / "south"]))
    assert apart == [{"north": "north"}, {"south": "south"}]
    same = database_labels(read_sources([archive, again]))
    assert same == [{"north": "north (north)"}, {"north": "north (again)"}]


def test_a_study_of_one_question_has_the_tables_of_a_grid(tmp_path):
    study = comparative_study(synthetic_database(2000), StudySettings(**DEMO, folds=3))
    study.write(tmp_path)
    (source,) = read_sources([tmp_path])
    numbers = json.loads((tmp_path / "release" / "study.json").read_text())
    results = source.tables["cm_result"].set_index("analysis_id")["rr"].tolist()
    lines = [*numbers["hazard_ratios"], *numbers["other_adjustments"]]
    assert [None if x != x else x for x in results] == [line["hr"] for line in lines]
    steps = source.tables["cm_attrition"].query("exposure_id == 1118084")["subjects"].tolist()
    assert steps[0] == numbers["attrition"][0]["target"]
    assert len(source.tables["cm_shared_covariate_balance"]) == len(
        numbers["balance"]["covariates"]
    )
    shown = source.tables["cm_diagnostics_summary"]["unblind"].unique().tolist()
    assert shown == [int(not numbers["blinded"])]


def test_bounds_follow_up_and_curves_of_a_study_are_those_of_a_grid(omop, tmp_path):
    """Shares of few people are bounds in the file, and its curves have their steps alone."""
    omop.concept(70, "rare thing")
    for k in range(200):
        arm = {"target" if k % 2 else "comparator": 0}
        person = omop.person(**arm, outcome=10 + k if k < 100 else None)
        if k < 7 or k > 180:
            omop.condition(person, 70, -5)
    settings = StudySettings(1, 2, 3, unblind=True, tie_orders=0, caliper=1.0)
    study = comparative_study(omop.write(), settings)
    study.write(tmp_path)
    (source,) = read_sources([tmp_path])
    views = {view.name: view.table for view in results_views([source], DisclosureRules())}
    numbers = study.to_dict()
    (rare,) = (c for c in numbers["balance"]["covariates"] if "rare thing" in c["covariate"])
    balance = views["balance"].set_index("covariate").filter(like="rare", axis=0).iloc[0]
    for arm in ("target", "comparator"):
        assert balance[f"{arm}_mean_before"] == pytest.approx(rare[f"{arm}_before"])
    curves = source.tables["cm_kaplan_meier_dist"].set_index("time_day")
    released = study.release.survival.set_index("time_day")
    for arm in ("target", "comparator"):
        known = curves[f"{arm}_survival"].dropna()
        assert known.index[0] == 0
        assert known.iloc[0] == 1
        assert known.is_monotonic_decreasing
        assert known.to_dict() == pytest.approx(
            released[f"{arm}_survival"].loc[known.index].to_dict()
        )
    follow_up = source.tables["cm_follow_up_dist"]
    assert len(follow_up) == len({line["analysis"] for line in numbers["follow_up"]}) > 0


def test_a_case_series_has_the_names_of_its_exposure_and_outcome(tmp_path):
    database = synthetic_database(1500)
    study = case_series(database, case_series_settings(DEMO["outcome"], DEMO["target"]))
    study.write(tmp_path)
    sources = read_sources([tmp_path])
    assert sources[0].rules == "ohdsi, smallest count 5"
    views = results_views(sources, DisclosureRules(), unblind=True)
    table = next(view for view in views if view.name == "series-estimates").table
    assert table[["exposure", "outcome"]].to_numpy().tolist() == [
        ["Celecoxib", "Gastrointestinal hemorrhage"]
    ]
    assert table["rr"].tolist() == study.release.tables["sccs_result"]["rr"].tolist()


def test_further_outcomes_of_a_study_are_hidden_one_by_one(tmp_path):
    """An outcome that fails is hidden although the study was run with its estimates shown."""
    line = {"outcome": "other", "role": "outcome", "hr": 1.7, "lower": 1.5, "upper": 1.9, "p": 0.1}
    line |= {f"calibrated_{name}": None for name in ("hr", "lower", "upper", "p")}
    line |= {f"{arm}_{c}": 50 for arm in ("target", "comparator") for c in ("subjects", "outcomes")}
    line |= {"note": "", "passes": False}
    control = line | {"outcome": "control", "role": "negative control", "hr": 0.9}
    settings = {"target": 1, "comparator": 2, "outcome": 3}
    check = {"key": "balance", "value": 0.2, "verdict": "FAIL", "hides": True}
    numbers = {
        "settings": settings, "names": {"target": "a", "comparator": "b", "outcome": "c"},
        "hazard_ratios": [{"analysis": "crude", "estimand": "ate", "hr": 2.0, "lower": 1.0,
                           "upper": 3.0, "p": 0.1, "note": ""}],
        "other_adjustments": [], "outcomes": [line, control], "database": "d", "source": {},
        "rates": [], "diagnostics": [check], "blinded": False, "attrition": [], "data_notes": [],
        "balance": None, "propensity": None, "survival": {},
    }  # fmt: skip
    path = tmp_path / "study.json"
    path.write_text(json.dumps(numbers))
    found = blinded_archive(read_sources([path])[0].tables)["cm_result"]
    assert dict(zip(found["outcome_id"], found["rr"].fillna(0), strict=True)) == {
        3: 0.0, -1: 0.0, -2: 0.9,
    }  # fmt: skip
    assert found["target_outcomes"].isna().tolist() == [True, True, False]


def test_outcomes_of_interest_come_before_controls_in_cohort_studies(tmp_path):
    results = [(3, 1, 1.5, 1, 1), (4, 1, 1.2, 1, 1)]
    small_archive(tmp_path, "north", results, truth={3: 1.0})
    found = results_views(read_sources([tmp_path]), DisclosureRules())
    for name in ("estimates", "follow-up", "curves"):
        (table,) = [v.table for v in found if v.name == name]
        assert table["outcome_id"].drop_duplicates().tolist() == [4, 3], name


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["NA", "null", "None", "nan", "N/A", "NULL", '"NA"', ',"NA",', "n/a"]
)
def test_names_that_mean_missing_elsewhere_are_kept(tmp_path, name):
    archive = small_archive(tmp_path, "NA", RESULTS, cohorts={3: name})
    sources = read_sources([archive])
    views = {view.name: view.table for view in results_views(sources, DisclosureRules())}
    assert views["estimates"]["outcome"].tolist() == [title_case(name)]
    assert views["estimates"]["database"].tolist() == ["NA"]


def test_databases_that_are_named_as_missing_values_are_combined(tmp_path):
    paths = [small_archive(tmp_path / name, name, RESULTS) for name in ("NA", "null")]
    table = combine_archives(paths)
    assert set(table["databases"]) == {2}
    assert not table["note"].fillna("").any()


def test_files_of_r_have_na_without_quotes_for_missing_values(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "cg_cohort_definition.csv").write_text(
        'cohort_definition_id,cohort_name,description,json\n1,"NA",NA,"x\n""NA""\n"\n2,NA,,null\n'
    )
    (source,) = read_sources([folder])
    table = source.tables["cg_cohort_definition"].astype(object)
    table = table.where(table.notna(), None)
    assert table["cohort_name"].tolist() == ["NA", None]
    assert table["description"].tolist() == [None, None]
    assert table["json"].tolist() == ['x\n"NA"\n', "null"]


@pytest.mark.parametrize(
    "kind",
    [k if k in ("cox", "logistic", "tmle") else pytest.param(k, marks=pytest.mark.slow)
     for k in get_args(Kind)],
)  # fmt: skip
def test_the_kind_of_ratio_is_named_as_on_the_page_of_a_grid(tmp_path, kind):
    definition = json.dumps({"outcome_model": {"kind": kind}})
    archive = small_archive(tmp_path, "north", RESULTS, definition=definition)
    other = small_archive(tmp_path, "south", RESULTS, definition=definition)
    sources = read_sources([archive, other])
    views = {view.name: view.table for view in results_views(sources, DisclosureRules())}
    for name in ("estimates", "synthesis"):
        assert set(views[name]["kind"]) == {outcome_family(kind).ratio}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("definition", "stated"),
    [
        ({"outcome_model": {"kind": "cox", "weighted": True, "interval": "profile"}}, True),
        ({"outcome_model": {"kind": "cox", "weighted": True, "interval": "auto"}}, False),
        ({"outcome_model": {"kind": "cox", "weighted": False, "interval": "profile"}}, False),
        ({"fitOutcomeModelArgs": {"modelType": "cox", "inversePtWeighting": True}}, True),
        (
            {
                "fitOutcomeModelArgs": {
                    "modelType": "cox", "inversePtWeighting": True, "bootstrapCi": True
                }
            },
            False,
        ),
    ],
)  # fmt: skip
def test_errors_of_weighted_models_that_are_not_robust_are_named_beside_the_ratio(
    tmp_path, definition, stated
):
    archive = small_archive(tmp_path, "north", RESULTS, definition=json.dumps(definition))
    views = {v.name: v.table for v in results_views(read_sources([archive]), DisclosureRules())}
    (kind,) = views["estimates"]["kind"]
    assert kind.startswith("hazard ratio")
    assert ("not robust" in kind) == stated


def test_analyses_of_one_name_are_told_apart_by_their_ids():
    analyses = pd.DataFrame(
        {"analysis_id": [1, 2, 3], "description": ["On drug", "On drug", "All"]}
    )
    names = ResultNames({"cm_analysis": analyses}).analyses([1, 2.0, 3], "cm")
    assert names == ["1: On drug", "2: On drug", "All"]
