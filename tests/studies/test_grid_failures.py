"""What goes wrong with one cohort of a grid ends in a sentence, and the rest goes on."""

import dataclasses
import datetime as dt
import json

import duckdb
import numpy as np
import pytest

from steropes.designs import OutcomeModel, PropensityRules
from steropes.errors import DataError
from steropes.studies import GridSpec
from steropes.studies.cohorts import ConceptSet, TimeAtRisk
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.covariates import FeatureRules
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import grid_page
from steropes.studies.report.grid_page_data import View
from steropes.studies.specifications.demonstration import demo_database
from steropes.studies.specifications.grid_specification import CohortSources

pytest.importorskip("duckcdm")

CELECOXIB, DICLOFENAC, BLEEDING = 1118084, 1124300, 192671
AT_RISK = TimeAtRisk(end=500, end_anchor="cohort start")
CRUDE = StudyAnalysis(1, propensity=None, features=None, at_risk=AT_RISK)
SOURCES = CohortSources(
    drugs={11: ConceptSet((1,)), 12: ConceptSet((2,))}, conditions={13: ConceptSet((3,))}
)
QUESTION = Question(11, 12, (13,))


def drug_definition(concept, event="DrugEra"):
    """ATLAS's JSON of all eras of a drug, or of other events of its concepts."""
    items = [{"concept": {"CONCEPT_ID": concept}, "includeDescendants": True}]
    made = {
        "ConceptSets": [{"id": 0, "name": "drug", "expression": {"items": items}}],
        "PrimaryCriteria": {
            "CriteriaList": [{event: {"CodesetId": 0}}],
            "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
            "PrimaryCriteriaLimit": {"Type": "All"},
        },
        "QualifiedLimit": {"Type": "All"},
        "ExpressionLimit": {"Type": "All"},
        "InclusionRules": [],
        "CensoringCriteria": [],
        "CollapseSettings": {"CollapseType": "ERA", "EraPad": 0},
        "CensorWindow": {},
    }
    return json.dumps(made)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """100 people with a drug each, an outcome, and what is wrong: an era that ends too early,
    a cohort table with an entry that has no end."""
    from tests.studies.conftest import TinyOmop

    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    omop.concept(7, "drug that ends before it begins")
    for k in range(100):
        start = int(rng.integers(0, 100))
        person = omop.person(**{("target", "comparator")[k % 2]: start})
        if rng.random() < 0.4:
            omop.condition(person, 3, int(rng.integers(101, 500)))
        omop.drug(person, 7, start, start - 1)
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE cohort (cohort_definition_id BIGINT, subject_id BIGINT, "
            "cohort_start_date DATE, cohort_end_date DATE)"
        )
        con.execute(
            "INSERT INTO cohort SELECT 21, person_id, drug_era_start_date, drug_era_end_date "
            "FROM drug_era WHERE drug_concept_id = 1"
        )
        con.execute("INSERT INTO cohort VALUES (22, 1, $1, NULL)", [dt.date(2010, 1, 1)])
    return path


def notes(found):
    """What is said of each result, by target, outcome and analysis."""
    t = found.tables
    table = t["note"].merge(t["cm_target_comparator"], on="target_comparator_id")
    return table.set_index(["target_id", "outcome_id", "analysis_id"])["note"]


BROKEN = {
    31: ("{not json", "the definition of cohort 31 is not JSON: line 1"),
    32: ("{}", "the definition of cohort 32 is not one that ATLAS exports"),
    33: (drug_definition(CELECOXIB).replace("[{", "5, [{", 1), "cohort 33 is not JSON"),
    34: (json.dumps({"ConceptSets": 5, "PrimaryCriteria": []}), "the definition of cohort 34 "),
    35: (drug_definition(CELECOXIB, "Spaceship"), "the definition of cohort 35 "),
    36: (drug_definition(CELECOXIB, "PayerPlanPeriod"), "PayerPlanPeriod has no attribute"),
}


def test_a_definition_that_cannot_be_used_stops_its_own_results_alone(tmp_path):
    spec = GridSpec(
        CohortSources(
            drugs={12: ConceptSet((DICLOFENAC,))},
            conditions={13: ConceptSet((BLEEDING,))},
            definitions={11: drug_definition(CELECOXIB), **{c: t for c, (t, _) in BROKEN.items()}},
        ),
        (
            Question(11, 12, (13, *BROKEN)),
            *(Question(c, 12, (13,)) for c in BROKEN),
            Question(12, 11, (13,), nesting=31),
        ),
        (CRUDE,),
    )
    lines = []
    found = run_grid(demo_database(), spec, tmp_path, progress=lines.append)
    told, page = notes(found), grid_page(View(found))
    assert told[11, 13, 1] == ""
    assert BROKEN[31][1] in told[12, 13, 1]
    for cohort, (_, said) in BROKEN.items():
        assert said in told[11, cohort, 1]
        assert said in told[cohort, 13, 1]
        assert sum("left out" in line and said in line for line in lines) == 1
        assert said in page
    assert found.tables["cm_result"]["rr"].notna().sum() == 1


def test_nothing_is_written_where_no_question_can_be_asked(tmp_path):
    text = BROKEN[31][0]
    sources = CohortSources(drugs={12: ConceptSet((DICLOFENAC,))}, definitions={31: text})
    with pytest.raises(DataError, match="cohort 31 is not JSON"):
        run_grid(demo_database(), GridSpec(sources, (Question(31, 12, (13,)),), (CRUDE,)), tmp_path)


def test_dates_that_cannot_be_and_missing_tables_stop_their_own_results_alone(database, tmp_path):
    sources = dataclasses.replace(
        SOURCES, drugs={**SOURCES.drugs, 17: ConceptSet((7,))}, table="cohort"
    )
    questions = tuple(Question(t, 12, (13, 22) if t != 22 else (13,)) for t in (11, 17, 21, 22))
    told = notes(run_grid(database, GridSpec(sources, questions, (CRUDE,)), tmp_path))
    assert told[11, 13, 1] == told[21, 13, 1] == ""
    assert told[11, 22, 1] == "cohort 22: cohort table: <5 entries have no cohort_end_date"
    assert told[22, 13, 1] == told[11, 22, 1]
    # An era that ends before it starts is its first day, on which everybody of cohort 17 begins.
    assert told[17, 13, 1].startswith("nobody is left in the comparator arm")
    gone = dataclasses.replace(sources, table="nowhere")
    spec = GridSpec(gone, questions, (CRUDE,))
    told = notes(run_grid(database, spec, tmp_path / "gone"))
    assert told[11, 13, 1] == ""
    assert "cohort 21: there is no table main.nowhere in" in told[21, 13, 1]


def test_settings_of_one_analysis_or_question_stop_their_own_results_alone(database, tmp_path):
    def adjusted(number, **features):
        return StudyAnalysis(
            number,
            features=FeatureRules(analyses=(1, 3), **features),
            propensity=PropensityRules(variance=0.1),
            outcome_model=OutcomeModel(weighted=True),
            at_risk=AT_RISK,
        )

    analyses = (CRUDE, adjusted(2), adjusted(3, exclude=(999,)), adjusted(4, include=(998,)))
    fine_gray = StudyAnalysis(
        5, propensity=None, features=None, at_risk=AT_RISK, competing=97,
        outcome_model=OutcomeModel(kind="fine-gray"),
    )  # fmt: skip
    questions = (QUESTION, Question(12, 11, (13,), exclude=(999,)), Question(11, 12, (13,), 96))
    spec = GridSpec(SOURCES, questions, (*analyses, fine_gray))
    found = run_grid(database, spec, tmp_path)
    told = notes(found).sort_index()
    assert set(told[11, 13, 1]) == {"", "cohort 96 is not defined"}
    assert told.loc[[(12, 13, 1)]].tolist() == [""]
    for analysis, concept in ((3, 999), (4, 998)):
        assert f"concept {concept} is unknown" in max(told[11, 13, analysis])
    assert "concept 999 is unknown" in told.loc[[(12, 13, 2)]].iloc[0]
    assert "cohort 97 is not defined" in set(told[11, 13, 5])
    assert found.tables["cm_result"]["rr"].notna().sum() == 2


def test_two_questions_of_the_same_cohorts_are_refused():
    with pytest.raises(DataError, match="two questions compare cohorts 11 and 12"):
        GridSpec(SOURCES, (QUESTION, dataclasses.replace(QUESTION, exclude=(1,))), (CRUDE,))
