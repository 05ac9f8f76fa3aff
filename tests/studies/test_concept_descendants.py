"""A vocabulary without the links that a study asks of it is refused, or the study says so."""

import json

import duckdb
import pandas as pd
import pytest
from tests.studies.conftest import COMPARATOR, FEW, OUTCOME, TARGET, day
from tests.studies.new_users import covariates, new_users

from steropes.designs.surveillance import tree_scan
from steropes.errors import DataError
from steropes.studies import (
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
    concept_hierarchy,
)
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import ConceptSet, condition_cohorts, drug_era_cohorts
from steropes.studies.covariates import FeatureRules, extract_features
from steropes.studies.database.concept_search import find_concepts
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study

ULCER, CLASS, OTHER, HEADACHE = 30, 50, 51, 70
BROKEN = ["no table", "no rows", "only each concept itself"]
# Cohorts of concepts are refused by the same code in all of these cases.
DEAR = ["no table", pytest.param("no rows", marks=pytest.mark.slow), "only each concept itself"]
REFUSED = r"omop\d*.duckdb has no (table|links in) concept_ancestor.*load the vocabulary"


@pytest.fixture
def people(omop):
    """Half of the outcomes are recorded as ULCER, which is below OUTCOME; OTHER is a drug."""
    for concept, name in ((ULCER, "ulcer"), (CLASS, "class"), (OTHER, "x"), (HEADACHE, "ache")):
        omop.concept(concept, name)
    omop.ancestor(OUTCOME, ULCER)
    omop.ancestor(CLASS, TARGET)
    for k in range(60):
        person = omop.person(**{"target" if k % 2 else "comparator": k}, observed=(-500, 900))
        omop.condition(person, ULCER if k % 4 < 2 else OUTCOME, 100 + 7 * k)
        omop.condition(person, HEADACHE, k - 40)
        if k % 3 == 0:
            omop.drug(person, OTHER, -30, 400)
    return omop


def written(omop, broken):
    if broken == "no table":
        return omop.write(without=("concept_ancestor",))
    omop.rows["concept_ancestor"] = []
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        keep = "FALSE" if broken == "no rows" else "ancestor_concept_id = descendant_concept_id"
        con.execute(f"DELETE FROM concept_ancestor WHERE NOT ({keep})")
    return path


@pytest.mark.parametrize("broken", DEAR)
def test_a_new_user_cohort_is_refused_unless_concepts_stand_for_themselves(people, broken):
    with OmopDatabase(written(people, broken)) as db:
        for target in (TARGET, CLASS):
            with pytest.raises(DataError, match=REFUSED + r".*descendants=False"):
                new_users(db, target)
        alone = new_users(db, descendants=False)
    assert alone.people["event"].sum() == 30
    with OmopDatabase(people.write()) as db:
        if broken == "no table":
            whole = new_users(db)
            assert whole.people["event"].sum() == 60
            assert whole.notes == ()


@pytest.mark.parametrize("broken", DEAR)
def test_studies_and_commands_are_refused_with_the_option_that_helps(
    people, broken, tmp_path, capsys
):
    path = written(people, broken)
    with pytest.raises(DataError, match=REFUSED):
        comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME))
    with pytest.raises(DataError, match=REFUSED):
        case_series(path, case_series_settings(OUTCOME, OTHER))
    asked = [str(path), "--outcome", str(OUTCOME), "--output", str(tmp_path / "out"), "-q"]
    for command in (
        ["study", *asked, "--target", str(TARGET), "--comparator", str(COMPARATOR)],
        ["sccs", *asked, "--exposure", str(OTHER)],
    ):
        assert run(command) == 2
        assert "--no-descendants" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
    assert run(["sccs", *asked, "--exposure", str(OTHER), "--no-descendants"]) == 0


@pytest.mark.parametrize("broken", BROKEN)
def test_cohorts_of_concepts_are_refused_and_name_the_cohort(people, broken):
    with OmopDatabase(written(people, broken)) as db:
        with pytest.raises(DataError, match="cohort 8: concept 3 .*" + REFUSED):
            condition_cohorts(db, {8: OUTCOME})
        with pytest.raises(DataError, match="cohort 7: concept 50 .*" + REFUSED):
            drug_era_cohorts(db, {7: CLASS})
        with pytest.raises(DataError, match=REFUSED):
            ConceptSet((OUTCOME,)).resolve(db)
        with pytest.raises(DataError, match=REFUSED):  # to leave out again
            drug_era_cohorts(db, {7: ConceptSet((TARGET, OTHER), exclude=(CLASS,))})
        found = condition_cohorts(db, {8: ConceptSet((OUTCOME,), descendants=False)})
    assert len(found) == 30
    assert found.notes == ()


@pytest.mark.parametrize("broken", DEAR)
def test_covariates_to_exclude_or_include_need_the_links(people, broken):
    entries = pd.DataFrame({"person_id": range(1, 9), "start": [pd.Timestamp(day(500))] * 8})
    alone = {"exclude": [ULCER, HEADACHE], "include": [OUTCOME]}
    with OmopDatabase(written(people, broken)) as db:
        names = covariates(db, exclude=(HEADACHE,), descendants=False).columns["name"]
        assert not names.str.contains("ache").any()
        for name, left in alone.items():
            asked = {"analyses": (101,), name: (OUTCOME,)}
            with pytest.raises(DataError, match=f"the concepts to {name}: .*" + REFUSED):
                extract_features(db, entries, FeatureRules(**asked))
            found = extract_features(db, entries, FeatureRules(**asked, descendants=False))
            assert found.columns["concept_id"].tolist() == left


@pytest.mark.sampled
@pytest.mark.parametrize("broken", DEAR)
@pytest.mark.parametrize("kind", ["controls", "conditions", "drugs"])
def test_a_grid_is_refused_or_says_which_cohorts_are_left_out(
    people, broken, kind, tmp_path, capsys
):
    own = {k: "" if k == kind else ", descendants = false" for k in ("conditions", "drugs")}
    text = f"""
    database_id = "tiny"
    [cohorts.drugs]
    11 = {{ include = [1]{own["drugs"]} }}
    12 = {{ include = [2]{own["drugs"]} }}
    [cohorts.conditions]
    13 = {{ include = [3]{own["conditions"]} }}
    [controls]
    concepts = [{HEADACHE if kind == "controls" else ""}]
    [[question]]
    target = 11
    comparator = 12
    outcomes = [13]
    [[analysis]]
    id = 1
    propensity = false
    features = false
    """
    path, folder = tmp_path / "grid.toml", tmp_path / "out"
    path.write_text(text)
    done = run(["grid", str(path), "--database", str(written(people, broken)),
                "--output", str(folder)])  # fmt: skip
    told = capsys.readouterr()
    said = " ".join((told.out + told.err).split())
    assert "concept_ancestor" in said
    assert done == (0 if kind == "controls" else 2)
    if done == 0:  # the outcome of interest is there
        assert "Left out: cohort 70: concept 70 (ache) is requested" in said
        assert "Left out: cohort 70: concept 70" in next(folder.rglob("report.html")).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("broken", DEAR)
def test_a_grid_of_case_series_is_refused_if_no_question_can_be_answered(
    people, broken, tmp_path, capsys
):
    path, folder = tmp_path / "grid.toml", tmp_path / "out"
    database = str(written(people, broken))
    questions = "".join(
        f"[[question]]\nexposure = {OTHER}\noutcome = {outcome}\n{known}\n"
        for outcome, known in ((OUTCOME, ""), (HEADACHE, "true_ratio = 1.0"))
    )
    for alone in ("", "descendants = false"):
        path.write_text(f'database_id = "tiny"\n{questions}[[analysis]]\nid = 1\n{alone}\n')
        done = run(["sccs-grid", str(path), "--database", database, "--output", str(folder)])
        assert done == (0 if alone else 2)
        refused = "concept 3 (bleeding) is requested with its descendants"
        told = capsys.readouterr()
        assert (refused in " ".join((told.out + told.err).split())) == (not alone)


@pytest.mark.parametrize("broken", DEAR)
def test_groups_and_scores_are_refused_rather_than_empty(people, broken):
    entries = pd.DataFrame({"person_id": [1], "start": [pd.Timestamp(day(500))]})
    people.rows["condition_era"] = [(1, ULCER, day(0), day(9))]
    path = written(people, broken)
    with OmopDatabase(path) as db:
        for analyses in ((210,), (412,), (901,), (210, 414, 903, 904)):
            said = r"concept_ancestor, and omop\d*.duckdb has none.*leave these analyses out"
            with pytest.raises(DataError, match=said):
                extract_features(db, entries, FeatureRules(analyses=analyses))
        assert len(extract_features(db, entries, FeatureRules(analyses=(1, 102))).columns) > 0
    with duckdb.connect(str(path)) as con:  # nothing is recorded of which groups could be made
        con.execute("DELETE FROM condition_era")
    with OmopDatabase(path) as db:
        rules = FeatureRules(analyses=(901, 903))
        assert extract_features(db, entries, rules).notes == ()


def test_recorded_concepts_that_are_in_no_group_are_counted(people):
    entries = pd.DataFrame({"person_id": [1], "start": [pd.Timestamp(day(500))]})
    people.rows["condition_era"] = [(1, ULCER, day(0), day(9)), (1, 71, day(0), day(9))]
    people.ancestor(441840, ULCER)
    path = people.write()
    with OmopDatabase(path) as db:
        found = extract_features(db, entries, FeatureRules(analyses=(901, 903)))
    assert "has no row of 1 of the 2 concepts recorded in condition_era" in found.notes[0].text
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM concept_ancestor WHERE ancestor_concept_id = 441840")
    said = (
        r"descendants of concept 441840 \(clinical finding\), and concept_ancestor of .* has none"
    )
    with OmopDatabase(path) as db, pytest.raises(DataError, match=said):
        extract_features(db, entries, FeatureRules(analyses=(210,)))


def test_nothing_is_refused_where_nothing_can_be_lost(omop):
    omop.links = False
    omop.person(target=0, outcome=50)
    omop.person(comparator=0)
    for without in ((), ("concept_ancestor",)):
        with OmopDatabase(omop.write(without=without)) as db:
            drugs = drug_era_cohorts(db, {1: TARGET, 2: COMPARATOR})
            outcomes = condition_cohorts(db, {3: OUTCOME})
        assert [len(drugs), len(outcomes)] == [2, 1]
        assert drugs.notes == outcomes.notes == ()


def test_a_study_says_that_a_concept_has_no_links(people, capsys):
    people.rows["concept_ancestor"].remove((OUTCOME, ULCER))
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute(f"DELETE FROM concept_ancestor WHERE ancestor_concept_id = {OUTCOME}")
    study = comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME, unblind=True, **FEW))
    said = "The outcome: concept_ancestor has no row of concept 3 (bleeding)"
    assert said in study_page(study.release)
    print_study(study, [])
    assert said in " ".join(capsys.readouterr().out.split())
    [note] = json.loads(json.dumps(study.to_dict()))["data_notes"]
    assert note["topic"] == "missing_links"
    assert note["warning"] is True
    assert said in note["note"]
    series = case_series(path, case_series_settings(OUTCOME, OTHER))
    assert "concept_ancestor has no row of concept 3 (bleeding)" in series.page()
    assert series.tables()["data_note"]["topic"].tolist() == ["missing_links"]


def test_a_class_without_links_is_not_said_to_have_no_eras_alone(people):
    people.rows["concept_ancestor"].remove((CLASS, TARGET))
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute(f"DELETE FROM concept_ancestor WHERE ancestor_concept_id = {CLASS}")
    said = "nobody has a drug era of the target 50 .*concept_ancestor has no row of concept 50"
    with pytest.raises(DataError, match=said):
        comparative_study(path, StudySettings(CLASS, COMPARATOR, OUTCOME))
    with pytest.raises(DataError, match=r"no case has an era.*concept_ancestor has no row of"):
        case_series(path, case_series_settings(OUTCOME, CLASS))
    with OmopDatabase(path) as db:
        found = drug_era_cohorts(db, {7: CLASS, 8: OTHER})
    assert found.ids == (8,)
    assert [n.topic for n in found.notes] == ["missing_links"]
    assert (found + condition_cohorts_of(path, {9: ULCER})).notes == found.notes


def condition_cohorts_of(path, sets):
    with OmopDatabase(path) as db:
        return condition_cohorts(db, sets)


def test_children_that_concept_relationship_alone_knows_are_said(people):
    people.rows["concept_ancestor"].remove((OUTCOME, ULCER))
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE concept_relationship "
            "(concept_id_1 BIGINT, concept_id_2 BIGINT, relationship_id VARCHAR)"
        )
        con.execute(
            f"INSERT INTO concept_relationship VALUES ({OUTCOME}, {ULCER}, 'Subsumes'), "
            f"({OUTCOME}, 999, 'Subsumes'), ({OUTCOME}, {HEADACHE}, 'Maps to')"
        )
    with OmopDatabase(path) as db:
        cohort = new_users(db)
    [note] = cohort.notes
    assert "has concept 30 (ulcer) below concept 3 (bleeding), but concept_ancestor" in note.text


def test_looking_concepts_up_says_whose_descendants_are_not_counted(people, capsys):
    with OmopDatabase(people.write()) as db:
        found = find_concepts(db, "bleeding")
    assert found["people"].tolist() == ["60"]
    assert found.attrs == {}
    for broken in BROKEN:
        path = written(people, broken)
        with OmopDatabase(path) as db:
            found = find_concepts(db, "bleeding")
        assert found["people"].tolist() == ["30"]
        assert "has no links in concept_ancestor" in found.attrs["note"]
        assert run(["concepts", str(path), "bleeding"]) == 0
        assert "has no links in concept_ancestor" in capsys.readouterr().out
    path = people.write()
    with duckdb.connect(str(path)) as con:
        con.execute(f"DELETE FROM concept_ancestor WHERE ancestor_concept_id = {OUTCOME}")
    with OmopDatabase(path) as db:
        assert "concept_ancestor has no row of 3" in find_concepts(db, "bleeding").attrs["note"]


def test_no_study_finds_descendants_without_the_checks():
    from importlib.resources import files

    studies = files("steropes.studies")
    allowed = {"omop.py", "concept_search.py", "circe_cohort_definitions.py"}
    callers = {p.name for p in studies.rglob("*.py") if ".descendants(" in p.read_text("utf-8")}
    assert callers <= allowed


def test_the_hierarchy_of_concepts_is_that_of_the_vocabulary(people):
    with OmopDatabase(people.write()) as db:
        found = concept_hierarchy(db, [ULCER, TARGET, OTHER])
        pairs = {*found[["descendant_concept_id", "ancestor_concept_id"]].itertuples(index=False)}
        assert pairs >= {(ULCER, OUTCOME), (ULCER, ULCER), (TARGET, CLASS), (OTHER, OTHER)}
        assert all(below in (ULCER, TARGET, OTHER) for below, _ in pairs)
        counts = pd.DataFrame({"node": [ULCER, OTHER], "cases": [5, 2], "controls": [1, 2]})
        scan = tree_scan(counts, found, model="bernoulli", replicates=9)
        assert scan.table.set_index("node").loc[OUTCOME, "cases"] == 5
        with pytest.raises(DataError, match="concepts is empty"):
            concept_hierarchy(db, [])
