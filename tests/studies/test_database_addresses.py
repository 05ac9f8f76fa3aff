"""Addresses of databases and files with credentials, which no message quotes."""

import os

import pytest

from steropes.errors import DataError
from steropes.studies import (
    OmopDatabase,
)
from steropes.studies._optional_packages import MissingExtraError
from steropes.studies.cli.command_line import run
from steropes.studies.database.open_database import open_source
from steropes.studies.database.server_registry import connect
from steropes.studies.database.server_url import read_address


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch):
    for name in ("USER", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"STEROPES_DATABASE_{name}", raising=False)
    monkeypatch.delenv("STEROPES_CREDENTIALS", raising=False)


def test_an_address_is_read_and_shows_no_secret():
    found = read_address("postgres://ann:p%40ss@db.example:5433/omop?schema=cdm&sslmode=require")
    assert (found.scheme, found.host, found.port, found.path) == (
        "postgresql",
        "db.example",
        5433,
        "omop",
    )
    assert (found.schema, found.options) == ("cdm", {"sslmode": "require"})
    assert found.secrets == {"user": "ann", "password": "p@ss"}
    assert found.public == "postgresql://db.example:5433/omop"
    for shown in (repr(found), found.public, found.name):
        assert "p@ss" not in shown
        assert "ann" not in shown


def test_what_a_driver_says_is_cleaned(monkeypatch):
    monkeypatch.setenv("STEROPES_DATABASE_TOKEN", "t0k/en")
    found = read_address("databricks://host/sql/1.0?catalog=x&client_secret=hush")
    said = "no: t0k/en, t0k%2Fen, hush at https://ann:word@host/x\nDETAIL: row (1, Smith)"
    assert found.cleaned(said) == "no: ***, ***, *** at https://***@host/x"
    assert found.cleaned("\n") == "no reason"


def test_the_url_goes_before_the_environment_and_that_before_the_file(monkeypatch, tmp_path):
    path = tmp_path / "secret.toml"
    path.write_text('user = "file"\npassword = "file"\ntoken = "file"\n')
    path.chmod(0o600)
    monkeypatch.setenv("STEROPES_CREDENTIALS", str(path))
    monkeypatch.setenv("STEROPES_DATABASE_USER", "variable")
    monkeypatch.setenv("STEROPES_DATABASE_PASSWORD", "variable")
    found = read_address("mssql://url@host/omop").secrets
    assert found == {"user": "url", "password": "variable", "token": "file"}


@pytest.mark.skipif(os.name != "posix", reason="rights of files")
def test_a_credentials_file_that_others_can_read_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "secret.toml"
    path.write_text('password = "hush"\n')
    path.chmod(0o644)
    monkeypatch.setenv("STEROPES_CREDENTIALS", str(path))
    with pytest.raises(DataError, match=r"others can read the credentials file .*chmod 600"):
        read_address("postgresql://host/omop")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("password = hush\n", "is not a credentials file"),
        ('pasword = "hush"\n', "may contain user, password, token, each as text, not pasword"),
        ("password = 7\n", "may contain user, password, token, each as text, not password"),
    ],
)
def test_a_credentials_file_is_never_quoted(monkeypatch, tmp_path, text, said):
    path = tmp_path / "secret.toml"
    path.write_text(text)
    path.chmod(0o600)
    monkeypatch.setenv("STEROPES_CREDENTIALS", str(path))
    with pytest.raises(DataError, match=said) as caught:
        read_address("postgresql://host/omop")
    assert "hush" not in str(caught.value)


def test_a_credentials_file_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("STEROPES_CREDENTIALS", str(tmp_path / "none.toml"))
    with pytest.raises(DataError, match=r"cannot read the credentials file .*none.toml"):
        read_address("postgresql://host/omop")


def test_a_url_that_cannot_be_read_is_not_quoted():
    with pytest.raises(DataError, match="characters such as @") as caught:
        read_address("postgresql://ann:hu/sh:7@host:five/omop")
    assert "hu/sh" not in str(caught.value)


def test_an_unknown_kind_of_database_is_refused(capsys):
    with pytest.raises(DataError, match=r"oracle:// is not supported.*snowflake"):
        OmopDatabase("oracle://ann:hush@host/omop")
    assert run(["concepts", "oracle://ann:hush@host/omop", "x"]) == 2
    assert "hush" not in capsys.readouterr().err


def test_what_is_no_database_is_refused():
    with pytest.raises(DataError, match="an open connection of DuckDB or of an ADBC driver"):
        open_source(7)


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("snowflake://ann@account/omop", "snowflake"),
        ("bigquery://project?schema=cdm", "bigquery"),
        ("databricks://host/sql/1.0/warehouses/1", "databricks"),
        ("mssql://ann@host/omop", "sqlserver"),
        ("redshift://ann@host/omop", "postgresql"),
        ("trino://ann@host/catalog", "trino"),
    ],
)
def test_a_driver_that_is_missing_is_named_with_its_extra(url, extra, monkeypatch):
    import steropes.studies._optional_packages as extras

    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module.partition(".")[0])

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=rf'pip install "steropes\[{extra}\]"'):
        connect(read_address(url))
