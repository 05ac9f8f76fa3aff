"""Observation beyond the end of the data or death, and people without a row in ``person``."""

import datetime as dt

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import COMPARATOR, FEW, OUTCOME, TARGET, day

from steropes.errors import DataError
from steropes.studies import (
    CaseSeriesGrid,
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
    run_case_series_grid,
)
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import ComparisonRules, compare_cohorts, drug_era_cohorts
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.sccs import SeriesAnalysis, SeriesQuestion

FAR = (dt.date(9999, 12, 31) - day(0)).days
SERIES = {"pre_exposure_days": 0, "end_of_observation_days": 0, "descendants": False}


def database(omop, last):
    """60 people, half of whom are observed until a placeholder date."""
    rng = np.random.default_rng(1)
    for k in range(60):
        drug = {"target" if k % 2 else "comparator": int(rng.integers(0, 200))}
        omop.person(**drug, observed=(-500, last if k % 4 < 2 else 500), outcome=210 + 4 * k)
    return omop.write()


def with_source(path, extracted):
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE OR REPLACE TABLE cdm_source AS SELECT 'tiny' AS cdm_source_name, "
                    f"DATE '{extracted}' AS source_release_date")  # fmt: skip
    return path


def found(notes):
    return {note.topic: note.count for note in notes if note.topic.startswith("observed_after")}


@pytest.mark.parametrize("known", [True, False])
def test_people_who_are_observed_after_the_data_end_are_counted_and_can_be_cut(
    omop, tmp_path, known
):
    path = database(omop, FAR)
    if known:
        with_source(path, day(500))
    asked = case_series_settings(OUTCOME, TARGET, **SERIES)
    study = case_series(path, asked)
    assert found(study.data_notes) == {"observed_after_data": 30}
    assert "observed_until" in study.page()
    until = day(500) if known else day(446)
    cut = case_series(path, case_series_settings(OUTCOME, TARGET, observed_until=until, **SERIES))
    assert found(cut.data_notes) == {}
    assert cut.population.end.max() <= 1000 < study.population.end.max()
    settings = StudySettings(TARGET, COMPARATOR, OUTCOME, descendants=False, unblind=True, **FEW)
    compared = comparative_study(path, settings)
    assert found(compared.data_notes) == {"observed_after_data": 30}
    ends = StudySettings(
        TARGET, COMPARATOR, OUTCOME, descendants=False, unblind=True, observed_until=until, **FEW
    )
    if known:  # what a comparison cuts does not depend on why
        assert found(comparative_study(path, ends).data_notes) == {}
        other = tmp_path / "other"
        other.mkdir()
        plain = case_series(database(type(omop)(other), 500), asked)
        assert cut.estimates.equals(plain.estimates)


@pytest.mark.slow
def test_the_data_end_with_the_last_plausible_record_of_any_table(omop):
    path = database(omop, FAR)
    asked = case_series_settings(OUTCOME, TARGET, **SERIES)
    with duckdb.connect(str(path)) as con:
        # A day of extraction in the future is none, and neither is a record of the future. Other
        # tables may hold later records than the two that a case series reads, and broken ones.
        con.execute("CREATE TABLE cdm_source AS SELECT 'tiny' AS cdm_source_name, "
                    "DATE '9999-12-31' AS source_release_date")  # fmt: skip
        con.execute("CREATE TABLE death AS SELECT 1 AS person_id, DATE '9000-01-01' AS death_date")
        con.execute("CREATE TABLE visit_occurrence (person_id BIGINT, visit_start_date VARCHAR)")
        con.execute("INSERT INTO visit_occurrence VALUES (1, '2013-05-06'), (1, 'tomorrow')")
        con.execute("ALTER TABLE measurement ALTER measurement_date TYPE TIMESTAMPTZ")
        con.execute("INSERT INTO measurement VALUES (1, 7, '2014-02-03 23:30:00-05')")
    [note] = [n for n in case_series(path, asked).data_notes if n.topic == "observed_after_data"]
    assert note.count == 30
    assert "the last record of the database, 2014-02-04, by more than 1,096 days" in note.text
    assert "observed_until = 2014-02-04 ends" in note.text
    with duckdb.connect(str(path)) as con:
        three_years = "SET observation_period_end_date = DATE '2017-02-04'"
        con.execute(f"UPDATE observation_period {three_years} "
                    "WHERE observation_period_end_date > DATE '2100-01-01'")  # fmt: skip
    assert found(case_series(path, asked).data_notes) == {}
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE observation_period SET observation_period_end_date = DATE '2017-02-05' "
                    "WHERE person_id = 1")  # fmt: skip
    assert found(case_series(path, asked).data_notes) == {"observed_after_data": 1}


@pytest.mark.slow
def test_the_commands_cut_observation(omop, tmp_path, capsys):
    path = with_source(database(omop, FAR), day(500))
    said = "People are observed after the source_release_date of cdm_source"
    for command in (
        ["study", str(path), "--target", "1", "--comparator", "2", "--outcome", "3"],
        ["sccs", str(path), "--exposure", "1", "--outcome", "3"],
    ):
        for k, more in enumerate(([], ["--observed-until", str(day(500))])):
            out = tmp_path / f"{command[0]}{k}"
            assert run([*command, "--no-descendants", "--output", str(out), *more]) == 0
            assert (said in " ".join(capsys.readouterr().out.split())) == (not more)


def test_people_who_are_observed_after_their_death_are_counted(omop):
    path = database(omop, 500)
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE death AS SELECT person_id, DATE '2010-06-01' AS death_date "
                    "FROM person WHERE person_id <= 20")  # fmt: skip
    study = case_series(path, case_series_settings(OUTCOME, TARGET, **SERIES))
    assert found(study.data_notes) == {"observed_after_death": 20}
    compared = comparative_study(
        path, StudySettings(TARGET, COMPARATOR, OUTCOME, descendants=False, unblind=True, **FEW)
    )
    assert found(compared.data_notes) == {"observed_after_death": 20}


def test_people_without_a_row_in_person_leave_both_kinds_of_study_by_a_rule(omop):
    path = database(omop, 500)
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM person WHERE person_id <= 10")
    rule = "has a row in the table person"
    study = case_series(path, case_series_settings(OUTCOME, TARGET, **SERIES))
    attrition = study.population.attrition.set_index("rule")
    assert attrition.loc["any outcome in an observation period", "subjects"] == 60
    assert attrition.loc[rule].tolist()[:3] == [50, 50, 50]
    assert attrition.loc[rule, "days"] == 50 * 1001
    with OmopDatabase(path) as db:
        cohorts = drug_era_cohorts(db, {1: TARGET, 2: COMPARATOR})
        compared = compare_cohorts(db, cohorts, 1, 2, ComparisonRules(common_period=False))
    lines = compared.attrition.set_index("rule")
    assert lines.loc[rule, ["target_people", "comparator_people"]].tolist() == [25, 25]
    assert not set(compared.entries["person_id"]) & {*range(1, 11)}
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM person")
    with pytest.raises(DataError, match=f"is left after the rule: {rule}"):
        case_series(path, case_series_settings(OUTCOME, TARGET, **SERIES))


def test_a_withheld_estimate_of_a_grid_of_case_series_has_a_note(omop, tmp_path):
    for k in range(40):
        person = omop.person(observed=(-500, 500))
        omop.drug(person, TARGET, 10 * k - 200, 10 * k - 180)
        omop.condition(person, OUTCOME, 10 * k - 195 if k < 2 else 300 - 11 * k)
    analysis = SeriesAnalysis(1, "plain", SERIES)
    grid = CaseSeriesGrid((SeriesQuestion(TARGET, OUTCOME),), (analysis,), min_cell=20)
    found = run_case_series_grid(omop.write(), grid, tmp_path / "grid")
    assert found.tables["sccs_result"]["rr"].isna().all()
    assert found.tables["note"]["note"].tolist() == [WITHHELD]
