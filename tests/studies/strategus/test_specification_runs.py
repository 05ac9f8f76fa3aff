"""Specifications run from cohorts to folders of results that a database accepts."""

import csv
import io
import shutil
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.strategus.small_modules import CHARACTERIZATION, INCIDENCE, PATHWAYS, PREDICTION
from tests.studies.strategus.small_specification import (
    COHORT_DIAGNOSTICS,
    module,
    new_specification,
    old_specification,
    write_database,
)

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.monitoring.released_estimates_by_look import monitor_releases
from steropes.studies.strategus.database_description import _digest2int, database_identifier
from steropes.studies.strategus.results_model import FILE_PREFIXES, module_files, results_model
from steropes.studies.strategus.specification_run import run_specification
from steropes.studies.strategus_plans.specification_plan import specification_plan
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

CM, SCCS = "CohortMethodModule", "SelfControlledCaseSeriesModule"
CONTROLS = [81151, 78272, 4112343, 40481087, 260139, 80180]
MORE_MODULES = [CHARACTERIZATION, INCIDENCE, PREDICTION, COHORT_DIAGNOSTICS, PATHWAYS]
PATHS = "tp_treatment_pathways"
SQLITE = {"int": "INTEGER", "bigint": "INTEGER", "float": "REAL"}


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    folder = write_database(tmp_path_factory.mktemp("data") / "database", 600)
    with OmopDatabase(folder) as found:
        yield found


@pytest.fixture(scope="module")
def new(db, tmp_path_factory):
    given = new_specification(CONTROLS)
    given["moduleSpecifications"] += MORE_MODULES
    plan = specification_plan(given)
    return run_specification(db, plan, tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def old(db, tmp_path_factory):
    given = old_specification(CONTROLS)
    module(given, CM)["analysesToExclude"] = {"outcomeId": 10002, "analysisId": 1}
    plan = specification_plan(given)
    return run_specification(db, plan, tmp_path_factory.mktemp("old"), database_id="demo")


@pytest.fixture(scope="module")
def open_(db, new, tmp_path_factory):
    """The same run, continued after its analyses without disclosure control."""
    folder = tmp_path_factory.mktemp("open")
    shutil.copytree(new.folder.parent, folder, dirs_exist_ok=True)
    given = new_specification(CONTROLS)
    given["moduleSpecifications"] += MORE_MODULES
    return run_specification(db, specification_plan(given), folder, disclosure="none")


def test_looks_at_a_run_are_monitored(new):
    found = monitor_releases(new.folder, planned=2, unblind=True)
    assert set(found["design"]) == {"cm", "sccs"}
    tested = found[found["bound"].notna()]
    assert set(tested["design"]) == {"cm", "sccs"}
    pd.testing.assert_frame_equal(
        found, monitor_releases([new.folder.parent], planned=2, unblind=True)
    )


def loaded(release: Path) -> sqlite3.Connection:
    """Load all modules into SQLite tables with the declared columns, types and keys."""
    found = sqlite3.connect(":memory:")
    for path in sorted(release.glob("*/resultsDataModelSpecification.csv")):
        with path.open() as file:
            columns = list(csv.DictReader(file))
        for name in dict.fromkeys(c["table_name"] for c in columns):
            own = [c for c in columns if c["table_name"] == name]
            lines = []
            for c in own:
                kind = SQLITE.get(c["data_type"], "TEXT")
                column, required = c["column_name"], c["is_required"] == "Yes"
                line = f"{column} {kind}{' NOT NULL' if required else ''}"
                if kind != "TEXT":
                    numbers = "('integer')" if kind == "INTEGER" else "('integer', 'real')"
                    line += f" CHECK ({column} IS NULL OR typeof({column}) IN {numbers})"
                lines.append(line)
            key = [c["column_name"] for c in own if c["primary_key"] == "Yes"]
            lines += [f"PRIMARY KEY ({', '.join(key)})"] if key else []
            found.execute(f"CREATE TABLE {name} ({', '.join(lines)})")
            with (path.parent / f"{name.removeprefix('plp_')}.csv").open() as file:
                rows = csv.reader(file)
                assert next(rows) == [c["column_name"] for c in own]
                marks = ", ".join("?" * len(own))
                kinds = [c["data_type"] for c in own]
                for row in rows:
                    values = [_value(v, k) for v, k in zip(row, kinds, strict=True)]
                    found.execute(f"INSERT INTO {name} VALUES ({marks})", values)
    return found


def _value(text: str, kind: str) -> object:
    """Convert a cell as a loader of the results does."""
    if text == "":
        return None
    return float(text) if kind == "float" else text


@pytest.fixture(scope="module")
def tables(new):
    return loaded(new.folder)


def test_results_fit_into_the_declared_tables(tables):
    def count(table):
        return tables.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    assert count("cm_result") == count("cm_diagnostics_summary") == 1 + len(CONTROLS)
    assert count("sccs_result") == 1 + len(CONTROLS)
    assert count("sccs_covariate_analysis") == 3
    assert count("cg_cohort_definition") == 5
    assert count("cg_cohort_definition_neg_ctrl") == len(CONTROLS)
    assert count("database_meta_data") == 1
    # Everybody, two ages, two sexes, and their combinations.
    assert 10 <= count("ci_incidence_summary") <= 18
    assert count("ci_target_outcome_ref") == 2
    # Two targets, their cases and those with an earlier outcome, and the days around the cases.
    assert count("c_settings") == 3
    assert 2 + 2 * 2 + 2 * 2 <= count("c_cohort_details") <= 2 + 2 * 2 + 2 * 5
    assert count("c_covariates") > 2
    assert count("c_time_to_event") > 0
    assert count("c_dechallenge_rechallenge") == 2
    assert count("c_rechallenge_fail_case_series") == 0  # Its rows would be of single people.
    assert count("plp_models") == count("plp_performances") == count("plp_tars") == 1
    assert count("plp_cohorts") == 2
    assert count("plp_evaluation_statistics") == 3 * 19
    assert count("plp_threshold_summary") > 5
    assert count("cd_cohort") == count("cd_cohort_count") == 3
    assert count("cd_index_event_breakdown") >= 3
    assert count("cd_incidence_rate") > 20
    assert count("cd_time_series") > 500
    assert count("cd_temporal_time_ref") == 3
    assert count("cd_temporal_covariate_value") > 20
    assert count("plp_demographic_summary") > 5
    assert count("tp_treatment_pathways") >= 1
    assert count("tp_summary_event_duration") >= 4
    assert count("tp_attrition") == 8


# Columns that R requires and that may be blank without disclosure control, with the reason.
BLANK = {
    "cd_cohort": "SQL, which depends on the database",
    "cd_concept_sets": "SQL, which depends on the database",
    "cd_concept": "columns that this database lacks",
    "cd_time_series": "strata of everybody, which are missing in R too",
    "cd_incidence_rate": "strata of everybody, which are missing in R too",
    "database_meta_data": "dates that this database lacks",
    "c_dechallenge_rechallenge": "shares of nobody, which are missing in R too",
    "c_analysis_ref": "windows of demographics, which are missing in R too",
    "c_settings": "settings of cases or of targets, of which R too has one",
    "plp_models": "the model object",
    "plp_performances": "the time of the run, which differs between equal runs",
    "plp_covariate_summary": "coefficients of covariates that the model leaves out",
    "plp_calibration_summary": "standard deviations of one person",
    "plp_demographic_summary": "standard deviations of one person",
    "tp_attrition": "the time of the run, which differs between equal runs",
    "tp_metadata": "the time of the run and the version of R",
    "tp_cdm_source_info": "values that this database lacks",
    "tp_summary_event_duration": "standard deviations of one event, which are missing in R too",
}


@pytest.mark.parametrize("rules", ["none", "ohdsi"])
def test_released_tables_have_the_columns_types_keys_and_values_of_rs_results_model(
    new, open_, rules
):
    release = {"none": open_, "ohdsi": new}[rules].folder
    checked = set()
    for (module_, name), model in results_model().groupby(["module", "table_name"], sort=False):
        path = release / module_ / f"{name.removeprefix(FILE_PREFIXES.get(module_, '-'))}.csv"
        if not path.exists():
            continue
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert [*table] == model["column_name"].tolist()
        key = model.loc[model["primary_key"] == "Yes", "column_name"].tolist()
        assert not (key and table.duplicated(key).any()), name
        for column in model.itertuples():
            values = table[column.column_name]
            given = values[values != ""]
            if column.data_type in SQLITE:
                numbers = pd.to_numeric(given)
                assert column.data_type == "float" or (numbers % 1 == 0).all()
            elif column.data_type.lower() == "date":
                pd.to_datetime(given, format="%Y-%m-%d")
            may = column.may_be_blank == "Yes" and (rules == "ohdsi" or name in BLANK)
            if not may and "Yes" in (column.is_required, column.primary_key):
                assert len(given) == len(values), f"{name}.{column.column_name} is blank"
        checked.add(name)
    assert {"cm_result", "sccs_result", "c_covariates", "ci_incidence_summary"} <= checked
    assert {"cg_cohort_count", "plp_models", "database_meta_data"} <= checked


def test_columns_of_the_results_model_have_no_spaces(new):
    names = results_model()["column_name"]
    assert (names == names.str.strip()).all()
    table = pd.read_csv(new.folder / CM / "cm_diagnostics_summary.csv")
    assert table["generalizability_max_sdm"].notna().any()


def test_slopes_of_rounded_profiles_are_those_of_the_released_points():
    x = np.linspace(-1, 1, 41)
    key = {"target_comparator_id": 1, "analysis_id": 1, "database_id": "x"}
    profiles = pd.concat(
        [
            pd.DataFrame({**key, "outcome_id": 3, "log_rr": x, "log_likelihood": -5 * x**2}),
            pd.DataFrame({**key, "outcome_id": 4, "log_rr": x[::-1], "log_likelihood": -x[::-1]}),
        ],
        ignore_index=True,
    ).assign(gradient=np.nan)
    written = module_files(CM, {"cm_likelihood_profile": profiles})[
        f"{CM}/cm_likelihood_profile.csv"
    ]
    table = pd.read_csv(io.StringIO(written))
    curved, straight = (table[table["outcome_id"] == i] for i in (3, 4))
    np.testing.assert_allclose(curved["gradient"][3:-3], -10 * curved["log_rr"][3:-3], atol=0.02)
    np.testing.assert_allclose(straight["gradient"], -1)
    assert profiles["gradient"].isna().all()


@pytest.mark.parametrize(
    ("table", "column", "other", "key"),
    [
        ("cm_target_comparator", "target_id", "cg_cohort_definition", "cohort_definition_id"),
        ("cm_target_comparator", "comparator_id", "cg_cohort_definition", "cohort_definition_id"),
        ("cm_result", "target_comparator_id", "cm_target_comparator", "target_comparator_id"),
        ("cm_result", "analysis_id", "cm_analysis", "analysis_id"),
        ("cm_result", "database_id", "database_meta_data", "database_id"),
        ("cm_covariate_balance", "covariate_id", "cm_covariate", "covariate_id"),
        ("sccs_exposure", "era_id", "cg_cohort_definition", "cohort_definition_id"),
        (
            "sccs_result",
            "exposures_outcome_set_id",
            "sccs_exposures_outcome_set",
            "exposures_outcome_set_id",
        ),
        ("sccs_result", "database_id", "database_meta_data", "database_id"),
        (
            "sccs_covariate",
            "covariate_analysis_id",
            "sccs_covariate_analysis",
            "covariate_analysis_id",
        ),
        ("c_covariates", "covariate_id", "c_covariate_ref", "covariate_id"),
        ("c_covariates_continuous", "covariate_id", "c_covariate_ref", "covariate_id"),
        ("c_covariates", "setting_id", "c_settings", "setting_id"),
        ("c_covariate_ref", "analysis_id", "c_analysis_ref", "analysis_id"),
        ("cg_cohort_count", "cohort_id", "cg_cohort_definition", "cohort_definition_id"),
        ("cd_resolved_concepts", "cohort_id", "cd_cohort", "cohort_id"),
        (
            "cd_temporal_covariate_value",
            "covariate_id",
            "cd_temporal_covariate_ref",
            "covariate_id",
        ),
        ("cd_temporal_covariate_ref", "analysis_id", "cd_temporal_analysis_ref", "analysis_id"),
    ],
)
def test_references_have_their_rows(tables, table, column, other, key):
    missing = tables.execute(
        f"SELECT count(*) FROM {table} WHERE {column} IS NOT NULL "
        f"AND {column} NOT IN (SELECT {key} FROM {other})"
    ).fetchone()[0]
    assert missing == 0


def test_outcomes_are_cohorts_or_negative_controls(tables):
    known = {i for (i,) in tables.execute("SELECT cohort_definition_id FROM cg_cohort_definition")}
    known |= {i for (i,) in tables.execute("SELECT cohort_id FROM cg_cohort_definition_neg_ctrl")}
    for table in ("cm_result", "sccs_exposures_outcome_set"):
        assert {i for (i,) in tables.execute(f"SELECT outcome_id FROM {table}")} <= known


def test_identifiers_fit_into_32_bits(new):
    for of, column in ((CM, "target_comparator_id"), (SCCS, "exposures_outcome_set_id")):
        name = "cm_result" if of == CM else "sccs_result"
        ids = new.tables[of][name][column]
        assert ids.between(-(2**31), 2**31 - 1).all()


def test_cohorts_are_in_a_table_for_other_tools(db, new):
    with duckdb.connect(str(new.folder.parent / "cohorts.duckdb"), read_only=True) as found:
        ids = {
            i
            for (i,) in found.execute("SELECT DISTINCT cohort_definition_id FROM cohort").fetchall()
        }
    assert {1, 2, 3, 1001, 2001, 10001} <= ids


def test_a_concept_that_the_vocabulary_lacks_is_a_note(new):
    with duckdb.connect(str(new.folder.parent / CM / "results.duckdb"), read_only=True) as found:
        notes = [n for (n,) in found.execute("SELECT note FROM data_note").fetchall()]
    assert any("lacks 1 of the 3 concepts to exclude" in n for n in notes)


def test_old_specifications_leave_out_what_they_exclude(old):
    results = old.tables[CM]["cm_result"]
    assert 10002 not in results["outcome_id"].tolist()
    assert len(results) == len(CONTROLS)
    assert {*old.tables[CM]["cm_result"]["database_id"]} == {"demo"}
    # Its only case series has no time outside of the risk window.
    gone = [v.text for v in old.verdicts if v.reason]
    assert len(gone) == 2
    assert all(text.startswith("1 of 1 estimates are missing: Main covers") for text in gone)
    shown = old.tables[CM]["cm_covariate_balance"]["covariate_id"]
    assert {*(shown % 1000)} <= {3, 1, 210}


def test_a_run_is_repeated_to_the_byte_and_another_one_refused(db, tmp_path):
    given = new_specification([81151])
    given["moduleSpecifications"] = given["moduleSpecifications"][:2]
    plan = specification_plan(given)

    def contents():
        release = run_specification(db, plan, tmp_path).folder
        return {p.name: p.read_bytes() for p in release.rglob("*.csv")}

    assert contents() == contents()
    module(given, CM)["cmAnalysisList"][0]["description"] = "another"
    with pytest.raises(DataError, match="holds results of another specification"):
        run_specification(db, specification_plan(given), tmp_path)


def test_the_database_has_the_identifier_of_strategus():
    # Values of Jenkins's one-at-a-time hash with seed 0.
    assert _digest2int("a") == np.uint32(0xCA2E9442).astype(np.int32)
    text = "The quick brown fox jumps over the lazy dog"
    assert _digest2int(text) == np.uint32(0x519E91F5).astype(np.int32)
    source = {"cdm_source_name": "x", "cdm_release_date": "2019-05-25", "cdm_holder": None}
    assert database_identifier(source) == str(_digest2int("x 2019-05-25 NA"))


def test_all_modules_are_on_the_page_of_results(new):
    views = results_views(read_sources([new.folder.parent]), DisclosureRules())
    found = {view.name: view.table for view in views}
    assert {"estimates", "series-estimates", "incidence", "cohorts", "balance"} <= {*found}
    assert {"cohort-characteristics", "cohort-comparison", "cohort-overlap"} <= {*found}
    assert {"characteristics", "times-to-events", "challenges"} <= {*found}
    assert {"target", "cases, at the target"} <= {*found["characteristics-sizes"]["group"]}
    # Bleeding is hidden, so that no count of it is shown.
    of_cases = found["characteristics"].query("outcome == 'Bleeding'")
    assert len(of_cases)
    assert of_cases[["sum_value", "average_value"]].isna().all(axis=None)
    assert found["challenges"]["num_cases"].isna().all()
    of_targets = found["characteristics"].query("group == 'target'")
    assert of_targets["sum_value"].notna().any()
    pair = found["cohort-comparison"]
    spread = (pair["mean"] * (1 - pair["mean"]) + pair["other_mean"] * (1 - pair["other_mean"])) / 2
    differences = (pair["mean"] - pair["other_mean"]) / np.sqrt(spread)
    np.testing.assert_allclose(pair["std_diff"].dropna(), differences[spread > 0])
    assert found["databases"]["disclosure"].tolist() == ["ohdsi, smallest count 5"]
    shown = found["estimates"].query("role == 'of interest'").set_index("outcome")["rr"]
    assert set(shown.index) == {"Bleeding"}
    assert {*found["cohorts"]["kind"]} == {"cohort", "negative control"}
    assert found["incidence"]["period"].unique().tolist() == ["start + 1 days to start + 365 days"]
    checks = found["diagnostics"].query("may_be_read == 'no'")[["outcome_id", "analysis_id"]]
    hidden = found["estimates"].merge(checks).query("role == 'of interest'")
    assert hidden["rr"].isna().all()


def test_the_release_and_the_viewer_tell_why_estimates_are_missing(new):
    asked = {CM: ["target_comparator_id", "outcome_id"], SCCS: ["exposures_outcome_set_id"]}
    for module_name, prefix in ((CM, "cm"), (SCCS, "sccs")):
        folder = new.folder / module_name
        assert (folder / "note.csv").is_file()
        assert (folder / "data_note.csv").is_file()
        listed = (folder / "resultsDataModelSpecification.csv").read_text()
        assert "data_note" not in listed  # R uploads what this file lists
        key = [*asked[module_name], "analysis_id"]
        results = new.tables[module_name][f"{prefix}_result"]
        merged = results.merge(pd.read_csv(folder / "note.csv"), on=key)
        assert len(merged) == len(results)
        assert merged.loc[merged["log_rr"].isna(), "note"].notna().all()
    views = {v.name: v for v in results_views(read_sources([new.folder]), DisclosureRules())}
    for name in ("estimates", "series-estimates"):
        assert (views[name].data()["status"] != "").all()
        assert (views[name].data()["status"] != "shown").any()
    assert len(views["data-notes"].table)
    assert len(views["pathways"].table) == len(new.tables["TreatmentPatternsModule"][PATHS])
