"""The command line as a user calls it: one clear line, an exit status, whole files or none."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
import warnings
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from steropes.studies import environment
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import TimeAtRisk
from steropes.studies.diagnostics import DiagnosticThresholds
from steropes.studies.specifications import ControlSet

ROOT = Path(__file__).resolve().parents[2]
STUDY = ["--target", "1", "--comparator", "2", "--outcome", "3"]


@pytest.fixture
def small(omop):
    """Sixty people with a covariate and events in both arms."""
    omop.concept(70, "thing")
    omop.concept(71, "rare thing")
    for i in range(60):
        arm = ("target", "comparator")[i % 2]
        person = omop.person(**{arm: 0}, outcome=10 + i if i % 3 else None, born=1950 + i % 20)
        if i % 4 == 0:
            omop.condition(person, 70, -5)
    return omop


def refused(capsys, *arguments):
    """The single line on stderr of a command that must fail with status 2."""
    assert run([str(a) for a in arguments]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("✓")]
    assert len(lines) == 1
    assert lines[0].startswith("steropes: ")
    assert "Traceback" not in out + err
    return lines[0]


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("steropes 0.")


def test_info_tells_versions_threads_and_extras(capsys, monkeypatch):
    assert run(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = dict(re.split(r"  +", line.rstrip(), maxsplit=1) for line in lines)
    assert said["numpy"] == np.__version__
    assert int(said["threads"]) >= 1
    assert said["GPU"].startswith(("usable", "not usable: "))
    assert "duckdb " in said["extra study"]
    assert not {"extra dev", "extra docs", "extra test"} & {*said}
    assert run(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == environment()

    def version(package):
        if package == "duckdb":
            raise metadata.PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    assert environment()["extra study"] == "lacks duckdb"

    def requires(package):
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "requires", requires)  # a source tree on the path
    assert {"steropes", "Python", "threads", "GPU"} == {*environment()} - {"system"}


def test_warm_fits_every_family(capsys):
    assert run(["warm"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("Cox", "Fine–Gray", "case series", "cumulative"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["info"], "numpy"),
        (["info", "--json"], '"numpy"'),
        (["--version"], "steropes 0."),
        (["--help"], 'pip install "steropes[study]"'),
        ([], 'pip install "steropes[study]"'),
    ],
)
def test_without_the_extra_some_commands_work(capsys, monkeypatch, arguments, expected):
    from steropes.studies.cli import core_commands

    found = core_commands.find_spec
    monkeypatch.setattr(
        core_commands, "find_spec", lambda name: None if name == "typer" else found(name)
    )
    assert run(arguments) == 0
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--help"], ["study", "--help"], ["demo", "-h"]])
def test_help(capsys, arguments):
    assert run(arguments) == 0
    assert "Usage: steropes" in capsys.readouterr().out


def test_every_command_that_reads_a_database_limits_its_memory(capsys, small, tmp_path):
    import typer

    from steropes.studies.cli.commands import command_app

    commands = typer.main.get_command(command_app()).commands
    options = {name: {p.name for p in c.params} for name, c in commands.items()}
    reading = {name for name, of in options.items() if "database" in of}
    assert {"study", "grid", "concepts", "sccs", "sccs-grid", "strategus"} <= reading
    assert all("memory" in options[name] for name in reading)
    output = tmp_path / "o"
    line = refused(capsys, "study", small.write(), *STUDY, "--memory", "much", "--output", output)
    assert "memory must be an amount" in line
    assert not output.exists()


def test_a_missing_file(capsys, tmp_path):
    line = refused(capsys, "study", tmp_path / "none.duckdb", *STUDY, "--output", tmp_path / "o")
    assert "there is no file" in line
    assert not (tmp_path / "o").exists()


def test_not_duckdb(capsys, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n" * 5000)
    line = refused(capsys, "study", tmp_path / "x.csv", *STUDY, "--output", tmp_path / "o")
    assert "cannot open" in line
    assert "DuckDB" in line


def test_not_omop(capsys, omop, tmp_path):
    path = omop.write(without=("person", "drug_era"))
    line = refused(capsys, "study", path, *STUDY, "--output", tmp_path / "o")
    assert "is not an OMOP database" in line
    assert "person, drug_era" in line


@pytest.mark.parametrize("role", ["target", "comparator", "outcome"])
def test_an_unknown_concept(capsys, small, tmp_path, role):
    arguments = dict(zip(STUDY[::2], STUDY[1::2], strict=True)) | {f"--{role}": "987"}
    flat = [x for pair in arguments.items() for x in pair]
    line = refused(capsys, "study", small.write(), *flat, "--output", tmp_path / "o")
    assert "concept 987 is unknown" in line


def test_an_unknown_excluded_concept(capsys, small, tmp_path):
    line = refused(
        capsys, "study", small.write(), *STUDY, "--exclude", 987, "--output", tmp_path / "o"
    )
    assert "concept 987 is unknown" in line
    assert not (tmp_path / "o").exists()


def test_concepts_without_a_name(capsys, small, tmp_path):
    small.rows["concept"] = [(c, None) for c in (1, 2, 3, 70)]
    assert run(["study", str(small.write()), *STUDY, "--output", str(tmp_path / "o")]) == 0
    assert "Unnamed concept 1 compared with Unnamed concept 2" in capsys.readouterr().out


def test_target_equal_to_comparator(capsys, small, tmp_path):
    line = refused(
        capsys, "study", small.write(), "--target", 1, "--comparator", 1, "--outcome", 3,
        "--output", tmp_path / "o",
    )  # fmt: skip
    assert "target and comparator are the same concept" in line


def test_nobody_in_one_arm(capsys, omop, tmp_path):
    omop.person(target=0, outcome=5)
    line = refused(capsys, "study", omop.write(), *STUDY, "--output", tmp_path / "o")
    assert "nobody has a drug era of the comparator 2 (olddrug)" in line


def test_no_events_in_one_arm_is_a_report_without_an_estimate(capsys, omop, tmp_path):
    for i in range(40):
        one, two = omop.person(target=0, outcome=5 + i), omop.person(comparator=0)
        if i % 2:
            omop.condition(one, 70, -5)
            omop.condition(two, 70, -5)
    assert run(["study", str(omop.write()), *STUDY, "--output", str(tmp_path / "o")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "within pairs: nobody in the comparator arm had the outcome" in out
    numbers = json.loads((tmp_path / "o" / "release" / "study.json").read_text())
    assert numbers["matching"]["pairs"] == 40
    assert {line["hr"] for line in numbers["hazard_ratios"]} == {None}
    assert "No estimate" in (tmp_path / "o" / "release" / "report.html").read_text()


def test_an_output_folder_that_cannot_be_written(capsys, small, tmp_path):
    (tmp_path / "file").write_text("in the way")
    line = refused(capsys, "study", small.write(), *STUDY, "--output", tmp_path / "file" / "o")
    assert "cannot write to the folder" in line


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["study"], "Missing argument"),
        (["study", "x", "--target", "aspirin"], "--target"),
        (["study", "x", *STUDY, "--risk-days", "0"], "--risk-days"),
        (["study", "x", *STUDY, "--caliper", "-1"], "--caliper"),
        (["study", "x", *STUDY, "--folds", "1"], "--folds"),
        (["study", "x", *STUDY, "--seed", "-1"], "--seed"),
        (["study", "x", *STUDY, "--min-cell", "-1"], "--min-cell"),
        (["study", "x", *STUDY, "--caliper", "inf"], "caliper must be a finite number"),
        (["study", "x", *STUDY, "--caliper", "nan"], "caliper"),
        (["study", "x", *STUDY, "--risk-days", "9" * 12], "risk_days must be a whole number"),
        (["study", "x", *STUDY, "--washout", "9" * 30], "washout_days must be a whole number"),
        (["study", "x", *STUDY, "--window", "9" * 12], "window_days must be a whole number"),
        (["study", "x", *STUDY, "--exclude", "9" * 30], "concept id"),
        (["study", "x", *STUDY[2:], "--target", "9" * 30], "target must be a concept id"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--grid", "--controls"], "choose one"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_wrong_arguments(capsys, arguments, words):
    assert words in refused(capsys, *arguments)


def test_a_broken_table_is_one_line(capsys, omop, tmp_path):
    omop.person(target=0)
    path = omop.write()
    import duckdb

    with duckdb.connect(str(path)) as con:
        con.execute("DROP TABLE drug_era")
        con.execute(
            "CREATE TABLE drug_era AS SELECT 1 AS person_id, 1 AS drug_concept_id, "
            "'yesterday' AS drug_era_start_date, 'today' AS drug_era_end_date"
        )
    line = refused(capsys, "study", path, *STUDY, "--output", tmp_path / "o")
    assert "drug_era: drug_era_start_date has values that cannot be read as dates" in line
    assert "yesterday" not in line


def test_a_study_writes_its_files_and_nothing_else(capsys, small, tmp_path):
    out = tmp_path / "deep" / "o"
    assert run(["study", str(small.write()), *STUDY, "--output", str(out)]) == 0
    assert [p.name for p in out.iterdir()] == ["release"]
    out /= "release"
    assert sorted(p.name for p in out.iterdir()) == [
        "figures",
        "manifest.json",
        "report.html",
        "study.json",
        "tables",
    ]
    assert {p.suffix for p in (out / "tables").iterdir()} == {".csv"}
    shown = capsys.readouterr()
    assert "Newdrug compared with Olddrug: Bleeding" in shown.out
    assert "Hazard ratio" in shown.out
    assert "Fitting the propensity model" in shown.err
    assert json.loads((out / "study.json").read_text())["names"]["target"] == "newdrug"


def test_quiet_prints_only_why_estimates_are_missing(capsys, small, tmp_path):
    out = tmp_path / "o"
    assert run(["study", str(small.write()), *STUDY, "--output", str(out), "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(line.startswith("steropes: No estimate for") for line in shown.err.splitlines())


def test_options_reach_the_study(capsys, small, tmp_path):
    options = ["--risk-days", "30", "--washout", "100", "--window", "50", "--caliper", "0.5",
               "--folds", "4", "--exclude", "70", "--exclude", "71", "--no-descendants",
               "--seed", "9", "--tie-orders", "3", "--min-cell", "7", "--unblind",
               "--time-zone", "Asia/Tokyo"]  # fmt: skip
    out = tmp_path / "o"
    assert run(["study", str(small.write()), *STUDY, *options, "--output", str(out)]) == 0
    settings = json.loads((out / "release" / "study.json").read_text())["settings"]
    assert settings == {
        "target": 1, "comparator": 2, "outcome": 3, "washout_days": 100, "risk_days": 30,
        "descendants": False, "window_days": 50, "min_people": 10, "min_share": 0.001,
        "exclude": [70, 71], "caliper": 0.5, "folds": 4, "seed": 9, "tie_orders": 3,
        "risk_model": "tmle", "risk_times": [], "selected_confounders": None,
        "min_cell": 7, "schema": "main", "unblind": True, "time_zone": "Asia/Tokyo",
        "observed_until": None,
        "thresholds": vars(DiagnosticThresholds()) | {"further": []},
        "further_outcomes": [], "nesting": None,
        "nesting_days": None, "cohorts": None, "controls": asdict(ControlSet()) | {
            "cohorts": [], "concepts": []},
        "at_risk": asdict(TimeAtRisk(end=30, end_anchor="cohort start")),
    }  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_leaves_nothing_behind(small, tmp_path):
    # a study that waits inside, so that the interrupt surely finds it at work
    script = textwrap.dedent("""
        import signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import steropes.studies.one_question.question_cohorts as comparative
        def wait(*_, **__):
            print("waiting", flush=True)
            time.sleep(60)
        comparative.study_specification = wait
        from steropes.studies.cli.command_line import main
        main(sys.argv[1:])
    """)
    out = tmp_path / "o"
    command = [sys.executable, "-c", script, "study", str(small.write()), *STUDY]
    process = subprocess.Popen(
        [*command, "--output", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "steropes: interrupted; nothing was written"
    assert "Traceback" not in err
    assert not out.exists()


def test_an_interrupt_during_imports_is_one_line():
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    module, function = entry["steropes"].split(":")
    script = textwrap.dedent(f"""
        import sys
        class Interrupt:
            def find_spec(self, name, *_):
                if name == "pandas":
                    raise KeyboardInterrupt
        sys.meta_path.insert(0, Interrupt())
        from {module} import {function}
        {function}(["info"])
    """)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stderr == "steropes: interrupted; nothing was written\n"


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["grid", "study.toml"], True),
        (["sccs-grid", "study.toml"], True),
        (["demo", "--output", "x", "--grid"], True),
        (["demo", "--controls"], True),
        (["demo"], False),
        (["sccs", "x.duckdb"], False),
    ],
)
def test_an_interrupted_command_says_whether_it_goes_on(capsys, monkeypatch, arguments, kept):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("steropes.studies.cli.command_line._call", interrupted)
    assert run(arguments) == 130
    said = "what is done is kept" if kept else "nothing was written"
    assert f"interrupted; {said}" in capsys.readouterr().err


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run(["demo"]) == 2
    assert 'pip install "steropes[study]"' in capsys.readouterr().err


def test_the_installed_command(tmp_path):
    command = os.path.join(os.path.dirname(sys.executable), "steropes")
    if not os.path.exists(command):
        pytest.skip("not installed beside this Python")
    done = subprocess.run(
        [command, "study", str(tmp_path / "none"), *STUDY],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"steropes: there is no file {tmp_path / 'none'}\n"


def test_a_warning_is_one_line(capsys, monkeypatch):
    import steropes.studies.cli.command_line as cli

    def warn(*_):
        warnings.warn("the fit stopped early")
        return 0

    monkeypatch.setattr(cli, "_call", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(["demo"]) == 0
    assert capsys.readouterr().err == "steropes: warning: the fit stopped early\n"


def test_a_command_needs_one_new_file(tmp_path, monkeypatch):
    """A module whose name ends with "command" is found, and its commands come after the others."""
    from steropes.studies import cli
    from steropes.studies.cli import commands

    source = 'def hello():\n    """Say hello."""\n\n\nCOMMANDS = (hello,)\n'
    (tmp_path / "hello_command.py").write_text(source)
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    found = commands._every_command()
    assert found["hello"]() is None
    assert {*commands.ORDER} == found.keys() - {"hello"}


def test_a_command_with_a_module_of_its_own_is_found_without_the_others():
    import typer

    from steropes.studies.cli.commands import command_app

    assert [*typer.main.get_command(command_app(["tree-scan"])).commands] == ["tree-scan"]
    every = {*typer.main.get_command(command_app(["study"])).commands}
    assert every == {*typer.main.get_command(command_app()).commands} > {"tree-scan", "info"}
