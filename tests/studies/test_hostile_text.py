"""Files and names from somebody else cannot act on terminals, spreadsheets, memory or the disk."""

import json
import re
import zipfile

import pandas as pd
import pytest

from steropes.errors import DataError
from steropes.studies import combine_archives
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts.circe_cohort_definitions import definition_text
from steropes.studies.formatting.text_safety import csv_text, plain_text, without_credentials
from steropes.studies.settings.settings_reader import Source


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\t=", "＝"])
def test_no_cell_of_a_csv_file_is_a_formula(start):
    text = csv_text(pd.DataFrame({"name": [f"{start}cmd|' /C calc'!A0"], "@n": [-1.5]}))
    header, line, _ = text.split("\n")
    assert header == "name,'@n"
    assert line.lstrip('"').startswith("'")
    assert line.endswith("-1.5")


@pytest.mark.parametrize("value", ["-0.35", "+1", "-inf", "<5", "1e-5", "plain", ""])
def test_numbers_and_plain_text_stay_as_they_are(value):
    frame = pd.DataFrame({"x": [value, "other"]}, dtype=object)
    assert csv_text(frame) == frame.to_csv(index=False, lineterminator="\n")
    assert list(frame["x"]) == [value, "other"]


def test_terminal_escapes_are_spaces():
    assert plain_text("a\x1b[2Jb\x07\x9bc\u00e9\n") == "a [2Jb  cé\n"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:s3cret@host/db",
        "postgresql:/ann:s3cret@host/db",
        "no file mysql://ann:s3cret@host",
        "postgresql://host/db?password=s3cret&x=1",
        "password: s3cret",
        "postgresql://ann:s3c@ret@host/db",
    ],
)
def test_messages_hold_no_password(text):
    hidden = without_credentials(text)
    assert "s3c" not in hidden.replace("***", "")


def test_the_command_line_shows_no_password_and_warns_of_one(capsys, tmp_path):
    for url in ("postgresql:/ann:s3cret@nowhere/db", "mysql://ann:s3cret@nowhere/db"):
        assert run(["concepts", url, "aspirin"]) == 2
        assert "s3cret" not in "".join(capsys.readouterr())
    assert run(["concepts", "postgresql://ann:s3cret@127.0.0.1:1/db", "aspirin"]) == 2
    err = capsys.readouterr().err
    assert "STEROPES_DATABASE_PASSWORD" in err
    assert "s3cret" not in err


@pytest.mark.parametrize(
    ("kind", "text", "match"),
    [
        ("toml", f"[{'a.' * 20_000}a]\nx = 1", "more than 20 parts"),
        ("toml", f"{'a.' * 20_000}a = 1", "more than 20 parts"),
        ("toml", f"x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
        ("toml", f"x = {'9' * 5000}", "too many digits"),
        ("json", '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("json", '{"x": ' + "9" * 5000 + "}", "too many digits"),
        ("json", '{"x": 9223372036854775808}', "64 bits"),
        ("json", '{"name":\n "\\u001b[2J"}', r"line 1 \(name\): .*control characters"),
        ("toml", 'name = "a\\u009bb"', "control characters"),
    ],
)
def test_a_specification_that_would_exhaust_something_is_refused(kind, text, match):
    with pytest.raises(DataError, match=match):
        Source(text, "spec", kind)


def test_a_long_list_of_decimals_is_no_name():
    numbers = ", ".join(["0.5"] * 40)
    assert len(Source(f"x = [\n{numbers}\n]", "spec", "toml").values["x"]) == 40


def test_a_large_file_is_no_specification(tmp_path, monkeypatch):
    monkeypatch.setattr("steropes.studies.settings.settings_reader.MOST_BYTES", 10)
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"questions": []}))
    with pytest.raises(DataError, match="more than 10 bytes"):
        Source.read(path)


@pytest.mark.parametrize("how", ["parent", "absolute", "link"])
def test_files_of_a_specification_are_in_its_folder(tmp_path, how):
    (tmp_path / "secret.json").write_text("{}")
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "own.json").write_text("{}")
    named = {
        "parent": "../secret.json", "absolute": str(tmp_path / "secret.json"), "link": "link.json",
    }  # fmt: skip
    with pytest.raises(DataError, match="outside of the specification's folder"):
        definition_text(named[how], folder, confined=True)
    assert definition_text("own.json", folder, confined=True) == "{}"


def test_an_archive_that_grows_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("steropes.studies.archives.archive_synthesis.MOST_BYTES", 1000)
    path = tmp_path / "results.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cm_result.csv", "x" * 100_000)
    with pytest.raises(DataError, match="100,000 bytes once decompressed"):
        combine_archives([path])


@pytest.mark.parametrize(
    "text",
    [
        "\u00a0=1+1",
        "\ufeff=1+1",
        "\u200b\u3000@SUM(1)",
        "name;=cmd()",
        "name; \uff1dcmd()",
        "name\t=cmd()",
        "name;-cmd()",
    ],
)
def test_no_cell_is_a_formula_after_invisible_characters_or_other_separators(text):
    written = csv_text(pd.DataFrame({"name": [text], text: ["a"]}))
    assert not re.search(r"(^|[,;\t])[\s\ufeff\u200b]*[=+@\uff1d-]", written, re.M)
    assert written.replace("'", "").splitlines()[1] == f"{text},a"


@pytest.mark.parametrize("text", ["from 1; -2 days", "a;b", "-2", "+1e5", "x = 1", "\u00a0name"])
def test_text_that_is_no_formula_is_unchanged(text):
    assert csv_text(pd.DataFrame({"name": [text]})) == f"name\n{text}\n"
