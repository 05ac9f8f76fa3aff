"""Values of people on a PostgreSQL server: read, refused without being quoted, never rounded."""

import contextlib
import traceback

import pandas as pd
import pytest
from postgres_server import PASSWORD, address, tables_of

from steropes.errors import DataError
from steropes.studies import (
    OmopDatabase,
)
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import (
    condition_cohorts,
    drug_era_cohorts,
)
from steropes.studies.database.result_upload import write_results

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")


def test_a_query_that_fails_is_told_without_rows_or_password(url):
    with OmopDatabase(url) as db:
        db._source._cache.server.connection.close()
        with pytest.raises(DataError, match="postgres: cannot read the table concept") as caught:
            db.concept_name(1118084)
        assert PASSWORD not in str(caught.value)


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


@pytest.mark.sampled
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


@pytest.mark.sampled
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
