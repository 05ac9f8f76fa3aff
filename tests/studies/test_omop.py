"""What counts as an OMOP database, and that it is never changed."""

import hashlib

import duckdb
import pytest

from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    OmopDatabase,
    StudySettings,
    comparative_study,
    demo_database,
)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        OmopDatabase(tmp_path / "none.duckdb")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="a folder without Parquet files"):
        OmopDatabase(tmp_path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 1000)
    with pytest.raises(DataError, match=r"cannot open .*notes.txt as a DuckDB database"):
        OmopDatabase(path)


def test_missing_tables_are_named(omop):
    path = omop.write(without=("drug_era", "concept"))
    with pytest.raises(
        DataError, match=r"not an OMOP database.*lacks the tables drug_era, concept"
    ):
        OmopDatabase(path)


def test_missing_columns_are_named(omop):
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE drug_era DROP drug_era_end_date")
    with pytest.raises(DataError, match=r"drug_era lacks the columns drug_era_end_date"):
        OmopDatabase(path)


def test_a_missing_schema_is_refused_with_those_there(omop):
    path = omop.write()
    with pytest.raises(DataError, match=r"no tables in schema 'cdm' \(it has: main\)"):
        OmopDatabase(path, schema="cdm")


def test_the_schema_that_holds_the_tables_is_pointed_out(omop):
    path = omop.write(schema="cdm")
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE main.notes (x INT)")
    with pytest.raises(DataError, match="schema 'cdm' has them"):
        OmopDatabase(path)


def test_views_serve_as_tables(omop):
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE person RENAME TO people")
        con.execute("CREATE VIEW person AS SELECT * FROM people")
    with OmopDatabase(path) as db:
        assert "person" in db.tables


def test_a_path_with_quotes_opens(omop, tmp_path):
    path = omop.write()
    odd = path.rename(tmp_path / 'it\'s "odd".duckdb')
    with OmopDatabase(odd) as db:
        assert db.concept_name(1) == "newdrug"


def test_the_file_is_not_changed(omop):
    omop.person(target=0)
    path = omop.write()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with OmopDatabase(path) as db:
        db.descendants([1])
        db.concept_names([1, 2])
        with pytest.raises(duckdb.Error, match="read-only"):
            db.rows("CREATE TABLE cdm.main.mine (x INT)")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_sex_has_a_name_even_where_the_vocabulary_lacks_it(omop):
    with OmopDatabase(omop.write()) as db:
        assert db.concept_names([8507, 8532, 77]) == {8507: "Male", 8532: "Female"}


def test_descendants_hold_the_concept_itself(omop):
    omop.ancestor(1, 12)
    omop.ancestor(1, 11)
    with OmopDatabase(omop.write()) as db:
        assert db.descendants([1]) == [1, 11, 12]
        assert db.descendants([2]) == [2]
        assert db.descendants([]) == []


def test_a_stream_comes_in_batches_and_in_order(omop):
    with OmopDatabase(omop.write()) as db, db.workspace() as work:
        batches = list(work.stream("SELECT range AS x FROM range(10000) ORDER BY x", 3000))
    values = [x for batch in batches for x in batch.column(0).to_pylist()]
    assert len(batches) > 1
    assert values == list(range(10000))


def test_a_closed_database_says_so(omop):
    with OmopDatabase(omop.write()) as db:
        pass
    db.close()
    with pytest.raises(DataError, match="is closed; open it again"):
        db.concept_name(1)
    assert "closed" in repr(db)


def test_workspaces_do_not_see_each_other(omop):
    with OmopDatabase(omop.write()) as db, db.workspace() as one, db.workspace() as two:
        one.run("CREATE TEMP TABLE mine AS SELECT 1 AS x")
        two.run("CREATE TEMP TABLE mine AS SELECT 2 AS x")
        assert (one.rows("FROM mine"), two.rows("FROM mine")) == ([(1,)], [(2,)])


@pytest.mark.parametrize("schema", ["", None, 3])
def test_a_schema_is_a_name(omop, schema):
    with pytest.raises(DataError, match="schema must be the name"):
        OmopDatabase(omop.write(), schema)


def test_the_memory_of_the_database_can_be_limited(omop):
    path = omop.write()
    with OmopDatabase(path, memory="300MB") as db:
        [(limit,)] = db.rows("SELECT current_setting('memory_limit')")
        assert float(limit.split()[0]) < 301
    none = (".KB", "1.2.3GB", "0GB", "2KB", "9999999TB")
    for wrong in ("much", "5", "1GB'; DROP TABLE x", 3, *none):
        with pytest.raises(DataError, match="memory must be an amount"):
            OmopDatabase(path, memory=wrong)
    con = duckdb.connect(str(path), read_only=True)
    with con, pytest.raises(DataError, match="where it is opened"):
        OmopDatabase(con, memory="1GB")


def test_a_study_closes_the_database_before_its_fits(monkeypatch):
    steps, close = [], OmopDatabase.close

    def closed(database):
        steps.append("closed")
        close(database)

    monkeypatch.setattr(OmopDatabase, "close", closed)
    settings = StudySettings(**DEMO, folds=5, tie_orders=0)
    comparative_study(demo_database(), settings, progress=steps.append, memory="500MB")
    assert steps.index("closed") < steps.index("fitting the propensity model and matching")
