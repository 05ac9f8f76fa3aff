"""A database that was received reads nothing of the machine that opens it."""

import duckdb
import pytest

from steropes.errors import DataError
from steropes.studies import OmopDatabase, demo_database


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text("12345")
    return path


TABLES = ("person", "observation_period", "drug_era", "condition_occurrence", "concept")


@pytest.fixture(scope="module")
def demo_file():
    return demo_database()


def received(tmp_path, demo_file, secret):
    """A copy of the demonstration in which a table is a view of a local file."""
    path = tmp_path / "received.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(f"ATTACH '{demo_file}' AS demo (READ_ONLY)")
        names = db.execute(
            "SELECT DISTINCT table_name FROM information_schema.tables WHERE table_catalog = 'demo'"
        ).fetchall()
        for (name,) in names:
            if name != "concept":
                db.execute(f"CREATE TABLE {name} AS FROM demo.main.{name}")
        db.execute("CREATE TABLE concept_rows AS FROM demo.main.concept")
        db.execute(
            "CREATE VIEW concept AS SELECT * REPLACE ("
            f"(SELECT content FROM read_text('{secret}')) AS concept_name) FROM concept_rows"
        )
    return path


def test_a_view_cannot_read_a_local_file(tmp_path, demo_file, secret):
    with (
        OmopDatabase(received(tmp_path, demo_file, secret)) as database,
        database.workspace() as work,
        pytest.raises(duckdb.Error, match="disabled by configuration") as error,
    ):
        work.rows(f"SELECT concept_name FROM {database.table('concept')} LIMIT 1")
    assert "12345" not in str(error.value)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "sql",
    [
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "INSTALL httpfs",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "ATTACH '{folder}/new.duckdb'",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM glob('{folder}/*')",
    ],
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_open_stays_confined(kind, sql, tmp_path, demo_file, secret):
    source = demo_file
    if kind == "folder":
        source = tmp_path / "parquet"
        source.mkdir()
        with duckdb.connect(str(demo_file), read_only=True) as db:
            for name in TABLES:
                db.execute(f"COPY {name} TO '{source}/{name}.parquet'")
    with OmopDatabase(source, memory="500MB") as database, database.workspace() as work:
        assert work.rows(f"SELECT count(*) FROM {database.table('person')}") == [(2694,)]
        with pytest.raises(duckdb.Error):
            work.rows(sql.format(folder=tmp_path, secret=secret))


def test_a_link_out_of_a_folder_is_refused(tmp_path, demo_file, secret):
    source = tmp_path / "parquet"
    source.mkdir()
    (source / "person.parquet").symlink_to(secret)
    with pytest.raises(DataError, match="symbolic link to a target outside"):
        OmopDatabase(source)


def test_a_connection_of_the_users_keeps_its_settings(demo_file):
    with duckdb.connect(str(demo_file), read_only=True) as connection:
        with OmopDatabase(connection):
            pass
        assert connection.execute("SELECT current_setting('enable_external_access')").fetchone()[0]
