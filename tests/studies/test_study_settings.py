"""Studies of one question with several outcomes, controls, an indication, or cohorts by id."""

import ast
import dataclasses
import inspect
import json
import textwrap

import duckdb
import joblib
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import FEW

import steropes
from steropes.designs.covariates.preprocessing import TidyRules
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.errors import DataError
from steropes.studies import DEMO, StudySettings, read_study, synthetic_database
from steropes.studies.cli.cohort_source_options import listed_concepts
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import (
    CohortSources,
    ComparisonRules,
    ConceptSet,
    Indication,
    TimeAtRisk,
    condition_cohorts,
)
from steropes.studies.comparative import Outcome
from steropes.studies.one_question.question_cohorts import make_question_cohorts
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.study_page_tables import risk_period
from steropes.studies.report.study_report import study_page
from steropes.studies.specifications import ControlSet

CONTROLS = (81151, 78272, 4113008, 4155034)


def saved(database, path):
    """Write the tables of a database to a DuckDB file."""
    with duckdb.connect(str(path)) as file:
        for table in database.tables:
            with database.workspace() as work:
                rows = work.frame(f"SELECT * FROM {table}")
            file.register("rows", rows)
            file.execute(f"CREATE TABLE {table} AS SELECT * FROM rows")
            file.unregister("rows")
    return path


@pytest.fixture(scope="module")
def database():
    return synthetic_database(3000)


@pytest.fixture(scope="module")
def study(database):
    """A study on treatment with an indication, a further outcome and negative controls."""
    settings = StudySettings(
        **DEMO,
        **FEW,
        at_risk=TimeAtRisk(end=30, end_anchor="cohort end"),
        further_outcomes=(4182210,),
        controls=ControlSet(concepts=CONTROLS),
        nesting=320128,
        nesting_days=365,
    )
    return steropes.comparative_study(database, settings)


def test_the_main_analysis_answers_all_outcomes_like_a_grid(database, study):
    made = make_question_cohorts(database, study.settings)
    (question,), analysis = made.spec.questions, made.spec.analyses[0]
    assert study.outcomes.index[0] == study.names["outcome"]
    assert study.outcomes["role"].tolist() == ["outcome"] * 2 + ["negative control"] * 4
    for (_, line), outcome in zip(study.outcomes.iterrows(), question.outcomes, strict=True):
        alone = made.bench.run(question, outcome.id, analysis)
        assert line["hr"] == np.exp(alone.estimate.log_rr) or alone.estimate.note == line["note"]
        assert line["target_subjects"] == alone.counts["target_subjects"]


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(database, study):
    settings = dataclasses.replace(study.settings, tie_orders=3)
    one = steropes.comparative_study(database, settings)
    with joblib.parallel_config(backend="threading"):
        several = steropes.comparative_study(database, settings, jobs=3)
    for name, table in one.exact.items():
        pd.testing.assert_frame_equal(several.exact[name], table, check_exact=True)
    assert several.ties == one.ties
    with pytest.raises(DataError, match="jobs must be"):
        steropes.comparative_study(database, settings, jobs=0)


def test_an_indication_is_a_record_by_the_start_and_no_older_than_its_days(database, study):
    within = condition_cohorts(database, {9: 320128})
    days = dict(zip(within.subject, within.start, strict=True))
    people = study.people
    assert 0 < len(people) < 2000
    for person, start in zip(people["person_id"], people["start"], strict=True):
        assert 0 <= (np.datetime64(start, "D") - days[person]).astype(int) <= 365


def test_an_indication_without_days_lasts():
    found = condition_cohorts(synthetic_database(100), {5: Indication((320128,))})
    assert set(found.end.astype(str)) == {"9999-12-31"}


def test_everyone_is_at_risk_until_30_days_after_the_end_of_exposure(database, study):
    eras = pd.DataFrame(
        database.rows("SELECT person_id, drug_era_end_date - drug_era_start_date FROM drug_era"),
        columns=["person_id", "days"],
    )
    people = study.people.merge(eras, on="person_id")
    assert (people["time"] <= people["days"] + 30).all()
    censored = people[people["event"] == 0]
    assert (censored["time"] == censored["days"] + 30).any()
    assert "no longer than to 30 days after the end of exposure" in risk_period(study.settings)


@pytest.mark.slow
def test_cohorts_by_id_are_the_same_people_as_concepts(database):
    by_concept = steropes.comparative_study(database, StudySettings(**DEMO, **FEW))
    sources = CohortSources(
        "cohort", conditions={7: ConceptSet((DEMO["outcome"],))}, names={1: "coxib", 2: "other"}
    )
    excluded = (DEMO["target"], DEMO["comparator"])
    asked = StudySettings(1, 2, 7, cohorts=sources, exclude=excluded, **FEW)
    by_id = steropes.comparative_study(database, asked)
    assert by_id.names["target"] == "coxib"
    pd.testing.assert_frame_equal(by_id.hazard_ratios, by_concept.hazard_ratios)
    pd.testing.assert_frame_equal(pd.DataFrame(by_id.people), pd.DataFrame(by_concept.people))
    page = study_page(by_id.release)
    assert "entered the cohort Coxib or Other" in page


@pytest.mark.slow
def test_ids_of_cohorts_may_be_in_any_order(database):
    sources = CohortSources("cohort", conditions={7: ConceptSet((DEMO["outcome"],))})
    excluded = (DEMO["target"], DEMO["comparator"])
    one, other = (
        steropes.comparative_study(
            database, StudySettings(a, b, 7, cohorts=sources, exclude=excluded, **FEW)
        ).hazard_ratios["log_hr"]["crude"]
        for a, b in ((1, 2), (2, 1))
    )
    assert one == pytest.approx(-other, abs=1e-9)


def test_further_outcomes_that_cannot_be_made_have_a_reason_and_the_rest_goes_on(database):
    sources = CohortSources(
        drugs={1: ConceptSet((DEMO["target"],)), 2: ConceptSet((DEMO["comparator"],))},
        conditions={3: ConceptSet((DEMO["outcome"],)), 4: ConceptSet((999_999_999,))},
    )
    drugs = (DEMO["target"], DEMO["comparator"])
    asked = StudySettings(1, 2, 3, (4, 5), cohorts=sources, exclude=drugs, **FEW)
    study = steropes.comparative_study(database, asked)
    notes = study.outcomes["note"].tolist()
    assert notes[0] == ""
    assert "999999999" in notes[1]
    assert "not defined" in notes[2]


def test_hidden_outcomes_are_hidden_everywhere_and_controls_are_not(study):
    strict = steropes.studies.diagnostics.DiagnosticThresholds(balance=1e-6)
    import dataclasses

    checks = study.exact["cm_diagnostics_summary"]
    failing = {**study.exact, "cm_diagnostics_summary": checks.assign(unblind=0)}
    settings = dataclasses.replace(study.settings, thresholds=strict)
    public = publish(dataclasses.replace(study, exact=failing, settings=settings))
    lines = {line["outcome"]: line for line in public.outcomes}
    hidden = [x for x in public.outcomes if x["role"] == "outcome"]
    assert len(lines) == 6
    for line in hidden:
        assert line["note"]
        assert np.isnan(line["hr"])
        assert line["target_outcomes"] is None
    assert any(np.isfinite(x["hr"]) for x in public.outcomes if x["role"] != "outcome")


def test_calibration_uses_five_controls_or_more():
    from steropes.data.diagnostic_limits import LEAST_CONTROLS

    database = synthetic_database(4000)
    more = (*CONTROLS, 313217, 255573)[: max(LEAST_CONTROLS, 4)]
    settings = StudySettings(**DEMO, **FEW, controls=ControlSet(concepts=more))
    study = steropes.comparative_study(database, settings)
    estimated = study.outcomes["hr"].notna() & study.outcomes["role"].eq("negative control")
    known = study.outcomes["calibrated_hr"].notna().any()
    assert known == (estimated.sum() >= LEAST_CONTROLS)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"further_outcomes": (DEMO["outcome"],)}, "has two roles"),
        ({"controls": ControlSet(cohorts=(5,))}, "controls.cohorts are ids of cohorts"),
        ({"risk_days": 30, "at_risk": TimeAtRisk(end=60, end_anchor="cohort start")}, "once"),
        (
            {
                "controls": ControlSet(
                    concepts=(1,), positive=steropes.studies.specifications.PositiveControls()
                )
            },
            "positive controls belong to grids",
        ),
    ],
)
def test_contradictory_settings_are_refused(more, words):
    with pytest.raises(DataError, match=words):
        StudySettings(**DEMO, **more)


def test_a_file_of_settings_and_options_that_take_precedence(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        "target = 1118084\ncomparator = 1124300\noutcome = 192671\nfolds = 5\n"
        "[at_risk]\nend = 30\nend_anchor = 'cohort end'\n"
        "[controls]\nconcepts = [81151, 78272]\n"
    )
    settings = read_study(path, {"folds": 7, "at_risk": {"end": 60}})
    assert settings.at_risk == TimeAtRisk(end=60, end_anchor="cohort end")
    assert settings.folds == 7
    assert settings.controls.concepts == (81151, 78272)
    path.write_text("target = 1\ncomparator = 2\noutcome = 3\nfold = 5\n")
    with pytest.raises(DataError, match=r"study.toml, line 4.*did you mean 'folds'"):
        read_study(path)


def test_the_command_runs_a_file_with_controls_listed_in_a_csv(tmp_path, capsys):
    listed = tmp_path / "controls.csv"
    listed.write_text("outcomeName,outcomeConceptId\nsprain,81151\nwrist,78272\ncut,4113008\n")
    database = saved(synthetic_database(600), tmp_path / "cdm.duckdb")
    settings = tmp_path / "study.toml"
    settings.write_text(
        "target = 1118084\ncomparator = 1124300\noutcome = 192671\ntie_orders = 0\n"
    )
    out = tmp_path / "out"
    command = ["study", str(database), "--specification", str(settings), "--folds", "5"]
    assert run([*command, "--control", str(listed), "--output", str(out)]) == 0
    assert "(control)" in capsys.readouterr().out
    numbers = json.loads((out / "release" / "study.json").read_text())
    assert [line["role"] for line in numbers["outcomes"]].count("negative control") == 3
    assert "negative controls" in (out / "release" / "report.html").read_text()
    header = (out / "release" / "tables" / "outcomes.csv").read_text().splitlines()[0]
    assert header.startswith("outcome,role,target_subjects")


def test_of_a_list_that_repeats_controls_the_rows_of_the_comparison_are_read(tmp_path):
    listed = tmp_path / "NegativeControls.csv"
    listed.write_text(
        "outcomeId,targetId,comparatorId,type\n"
        "81151,1,2,Outcome\n81151,1,9,Outcome\n78272,1,9,Outcome\n"
        "4113008,1,2,Outcome\n4113008,1,2,Outcome\n77,1,2,Exposure\n"
    )
    assert listed_concepts(["5", str(listed)], 1, 2) == (5, 81151, 4113008)
    assert listed_concepts([str(listed)], 1, 9) == (81151, 78272)
    with pytest.raises(DataError, match=r"no row lists an outcome for 2 against 1"):
        listed_concepts([str(listed)], 2, 1)


def test_the_comparison_of_a_list_of_controls_may_be_in_the_file_of_settings(tmp_path, capsys):
    listed = tmp_path / "controls.csv"
    listed.write_text("outcomeId,target_id,comparator_id\n5,1,9\n")
    settings = tmp_path / "study.toml"
    settings.write_text("target = 1\ncomparator = 2\noutcome = 3\n")
    command = ["study", "x", "--specification", str(settings), "--control", str(listed)]
    assert run(command) != 0
    assert "no row lists an outcome for 1 against 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name\nsprain\n", "no column is named"),
        ("concept_id\nsprain\n", "row 2: 'sprain' is not a concept id"),
        ("concept_id\n", "lists no concepts"),
    ],
)
def test_a_list_of_controls_that_cannot_be_read_is_refused(tmp_path, capsys, text, words):
    listed = tmp_path / "controls.csv"
    listed.write_text(text)
    options = ["--target", "1", "--comparator", "2", "--outcome", "3", "--control", str(listed)]
    assert run(["study", "x", *options]) != 0
    assert words in capsys.readouterr().err


def test_the_command_asks_for_the_question(capsys):
    assert run(["study", "x", "--target", "1"]) != 0
    assert "give --comparator, --outcome" in capsys.readouterr().err


def test_the_default_time_at_risk_is_one():
    window = TimeAtRisk()
    assert StudySettings(1, 2, 3).at_risk == window
    assert Outcome(3).at_risk(window) == window
    assert steropes.studies.comparative.StudyAnalysis(1).at_risk == window
    assert steropes.studies.specifications.RiskWindow(1).at_risk == window


@pytest.mark.slow
def test_dropped_people_are_whole_numbers_in_the_table_of_attrition(database):
    from steropes.studies.report.study_json_and_csv import study_tables

    study = steropes.comparative_study(
        database, StudySettings(**DEMO, **FEW), disclosure="ohdsi:60"
    )
    text = study_tables(study.to_dict())["attrition"]
    assert ".0" not in text
    assert ",0," in text


def test_an_id_that_no_database_has_is_named_by_its_argument():
    for name in ("exposure", "indication"):
        given = {"outcome": 1, "exposure": 2, name: 10**20}
        with pytest.raises(DataError, match=f"^{name} must be a concept id"):
            steropes.studies.case_series_settings(**given)


def test_defaults_that_rules_have_too_are_those_of_the_rules():
    """A default is written once: a change of the rule's class changes every study."""
    rules = {
        "caliper": Match, "folds": PropensityRules, "min_share": TidyRules,
        "washout_days": ComparisonRules,
    }  # fmt: skip
    body = ast.parse(textwrap.dedent(inspect.getsource(StudySettings))).body[0].body
    fields = (s for s in body if isinstance(s, ast.AnnAssign) and s.value)
    written = {s.target.id: ast.unparse(s.value) for s in fields}
    for name, rule in rules.items():
        assert written[name] == f"{rule.__name__}.{name}"
        assert getattr(StudySettings(1, 2, 3), name) == getattr(rule(), name)
