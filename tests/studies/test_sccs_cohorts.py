"""Case series of cohorts that ATLAS defines, beside those of the same concepts."""

import json

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import OUTCOME, TARGET, TinyOmop
from tests.studies.test_circe import definition

from steropes import DataError
from steropes.studies import case_series, case_series_settings
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.grids.sccs_grid import read_case_series_grid, run_case_series_grid
from steropes.studies.sccs.specification.sccs_cohorts import cohort_settings

pytest.importorskip("duckcdm")
# What definitions read of a CDM and other tests do not.
MORE = {
    "concept": "invalid_reason VARCHAR",
    "drug_era": "drug_era_id BIGINT, drug_exposure_count BIGINT, gap_days BIGINT",
    "condition_occurrence": "condition_occurrence_id BIGINT, condition_end_date DATE, "
    "visit_occurrence_id BIGINT",
}
FAST = {"end_of_observation_days": 0, "pre_exposure_days": 0}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A database, and the definitions of its exposure (cohort 71) and outcome (72)."""
    folder = tmp_path_factory.mktemp("omop")
    omop = TinyOmop(folder)
    rng = np.random.default_rng(5)
    for k in range(40):
        person = omop.person(observed=(0, 400))
        start = int(rng.integers(20, 350))
        omop.drug(person, TARGET, start, start + 40)
        omop.condition(person, OUTCOME, start + 5 if k < 15 else int(rng.integers(0, 401)))
    ends = {"EndStrategy": {"DateOffset": {"DateField": "EndDate", "Offset": 0}}}
    for name, kind, concept in (("71", "DrugEra", TARGET), ("72", "ConditionOccurrence", OUTCOME)):
        text = json.dumps({"name": f"cohort of {concept}"} | definition(kind, concept, **ends))
        (folder / f"{name}.json").write_text(text)
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        for table, columns in MORE.items():
            for column in columns.split(", "):
                con.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        con.execute("UPDATE drug_era SET drug_era_id = rowid")
        con.execute("UPDATE condition_occurrence SET condition_occurrence_id = rowid")
    return path, folder


@pytest.fixture(scope="module")
def expected(files):
    return case_series(files[0], case_series_settings(OUTCOME, TARGET, **FAST)).estimates


def test_the_command_takes_definitions(files, tmp_path, expected, capsys):
    database, folder = files
    shared = ["--pre-exposure", 0, "--probe", 0, "--output", tmp_path / "out"]
    shared += ["--disclosure", "none", "--unblind"]  # the outcome is not rare
    for exposure, given in ((71, (71, 72)), (TARGET, (72,))):
        defined = [a for i in given for a in ("--definition", f"{i}={folder / str(i)}.json")]
        arguments = ["sccs", database, "--outcome", 72, "--exposure", exposure, *defined, *shared]
        assert run([str(a) for a in arguments]) == 0
        said = capsys.readouterr().out
        assert "cohort of" in said
        rr = f"{expected.loc['exposure', 'rr']:.2f}"
        page = tmp_path / "out" / "release" / "report.html"
        assert f">{rr}</td>" in page.read_text(encoding="utf-8")


def test_a_grid_takes_definitions_beside_its_specification(files, tmp_path, expected):
    database, folder = files
    spec = folder / "grid.toml"
    spec.write_text(
        f"[[question]]\nexposure = {TARGET}\noutcome = 72\n"
        "[[question]]\nexposure = 71\noutcome = 72\n"
        "[[analysis]]\nid = 1\nend_of_observation_days = 0\npre_exposure_days = 0\n"
        '[cohorts.definitions]\n71 = "71.json"\n72 = "72.json"\n'
    )
    results = run_case_series_grid(database, read_case_series_grid(spec), tmp_path)
    found = results.tables["sccs_result"]["rr"]
    np.testing.assert_allclose(found, [expected.loc["exposure", "rr"]] * 2, rtol=1e-9)


def test_ids_that_are_defined_are_cohorts_and_with_a_table_all_are():
    drugs = CohortSources(drugs={1: ConceptSet((TARGET,))})
    assert cohort_settings(drugs, 3, 1) == {"exposures_from": "cohort"}
    assert cohort_settings(drugs, 1, None) == {"outcomes_from": "cohort"}
    table = CohortSources("cohort")
    both = {"outcomes_from": "cohort", "exposures_from": "cohort"}
    assert cohort_settings(table, 3, 1) == both
    assert cohort_settings(table, 3, 1, table=False) == {}
    assert cohort_settings(None, 3, 1) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("72", "ID=FILE"),
        ("x=72.json", "ID=FILE"),
        ("72=nowhere.json", "nowhere.json"),
        ("72={}", "cohort 72"),
    ],
)
def test_definitions_that_cannot_be_used_are_named(files, tmp_path, text, why, capsys):
    arguments = [
        "sccs",
        files[0],
        "--outcome",
        72,
        "--definition",
        text,
        "--output",
        tmp_path / "o",
    ]
    assert run([str(a) for a in arguments]) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_a_cohort_that_is_not_defined_is_named_in_the_grid(files, tmp_path):
    spec = files[1] / "wrong.toml"
    spec.write_text(
        f"[[question]]\nexposure = {TARGET}\noutcome = 3\n[[analysis]]\nid = 1\n"
        "[cohorts.drugs]\n3 = 987654321\n"
    )
    with pytest.raises(DataError, match=r"cohort 3.*987654321"):
        run_case_series_grid(files[0], read_case_series_grid(spec), tmp_path)


def test_a_cohort_that_cannot_be_made_stops_its_questions_alone(files, tmp_path, expected):
    database, folder = files
    spec = folder / "one_wrong.toml"
    spec.write_text(
        f"[[question]]\nexposure = {TARGET}\noutcome = 73\n"
        f"[[question]]\nexposure = {TARGET}\noutcome = 72\n"
        "[[analysis]]\nid = 1\nend_of_observation_days = 0\npre_exposure_days = 0\n"
        "[[analysis]]\nid = 2\nend_of_observation_days = 0\npre_exposure_days = 0\n"
        "nesting_cohort = 73\n"
        '[cohorts.definitions]\n72 = "72.json"\n73 = "{}"\n'
    )
    said = []
    results = run_case_series_grid(
        database, read_case_series_grid(spec), tmp_path, progress=said.append
    )
    assert any("left out: the definition of cohort 73" in line for line in said)
    found = results.tables["sccs_result"].sort_values(["exposures_outcome_set_id", "analysis_id"])
    assert found["rr"].dropna().tolist() == pytest.approx([expected.loc["exposure", "rr"]])
    notes = results.tables["note"]["note"]
    assert notes.str.contains("cohort 73").sum() == 3
    assert len(results.estimates()) == 4


def test_a_defined_cohort_without_entries_is_not_called_undefined(tmp_path):
    from steropes.studies import CaseSeriesGrid
    from steropes.studies.cohorts import CohortTable
    from steropes.studies.sccs import SeriesAnalysis, SeriesQuestion

    omop = TinyOmop(tmp_path)
    omop.person(target=3, outcome=9)
    day = ["2010-01-01"]
    cohorts = CohortTable([1], [1], day, day, names={1: "users", 2: "bleeding"})
    analysis = SeriesAnalysis(
        1, "series", {"outcomes_from": "cohort", "exposures_from": "cohort", **FAST}
    )
    with pytest.raises(DataError, match=r"cohort 2 \(bleeding\) has no entries: nobody"):
        run_case_series_grid(
            omop.write(),
            CaseSeriesGrid((SeriesQuestion(1, 2),), (analysis,)),
            tmp_path / "out",
            cohorts=cohorts,
        )
