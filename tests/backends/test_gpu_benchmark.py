"""The benchmark for GPUs: its order, limits and file with fake stages, and all real ones."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from benchmarks.gpu import checks
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.plan import STAGES, Stage

PASSES = "tests.backends.fake_gpu_stages:passes"
HALF = '{"stage": "a", "ok": fal'  # a line within which a run was ended
ROOT = Path(__file__).resolve().parents[2]


def fake(name, **settings):
    return Stage(f"tests.backends.fake_gpu_stages:{name}", settings.pop("limit", 60), **settings)


def records_of(file):
    lines = file.read_text().splitlines()
    return [json.loads(line) for line in lines if not line.endswith(HALF)]


def run(stages, folder, *options):
    """The exit status and the records of this run and earlier ones."""
    file = folder / "records.jsonl"
    fixed = ["--device", "torch-cpu", "--resume", str(file), "--folder", str(folder)]
    status = main([*fixed, "--commit", "abc", *options], stages, warm_up=PASSES)
    return status, records_of(file)


def test_failures_and_limits_end_their_stages_alone(tmp_path):
    stages = {
        "check": fake("passes", parts=2), "first": fake("passes"), "slip": fake("fails"),
        "second": fake("passes"), "long": fake("sleeps", limit=0.5), "third": fake("passes"),
        "crash": fake("dies"), "last": fake("passes"),
    }  # fmt: skip
    status, records = run(stages, tmp_path)
    assert status == 1
    assert [record["stage"] for record in records] == list(stages)
    by = {record["stage"]: record for record in records}
    assert [x for x in stages if not by[x]["ok"]] == ["slip", "long", "crash"]
    assert by["slip"]["error"] == "ValueError: a slip"
    assert by["long"]["error"] == "more than 2 s"  # four times as long on the CPU
    assert by["long"]["first seconds"] == 1.5  # what it had measured
    assert "the process ended" in by["crash"]["error"]
    # One process as long as it lasts.
    assert by["first"]["process"] == by["second"]["process"] != by["third"]["process"]
    assert by["last"]["process"] != by["third"]["process"]
    assert by["last"]["commit"] == "abc"


def test_a_resumed_benchmark_does_what_is_missing_and_then_what_failed(tmp_path):
    stages = {"a": fake("passes"), "b": fake("fails"), "c": fake("passes")}
    assert run(stages, tmp_path, "--skip", "c")[0] == 1
    file = tmp_path / "records.jsonl"
    with file.open("a") as lines:
        lines.write(HALF)
    stages["b"] = fake("passes")
    status, records = run(stages, tmp_path)
    assert status == 0
    assert [record["stage"] for record in records] == ["a", "b", "c", "b"]


@pytest.mark.slow
def test_a_family_that_failed_is_not_measured(tmp_path):
    stages = {
        "families": fake("one_family_differs", parts=2),
        "cox": fake("measures", family="cox breslow"), "strata": fake("measures", family="cox"),
        "undrawn": fake("measures", data="absent"),
    }  # fmt: skip
    status, records = run(stages, tmp_path)
    assert status == 1
    assert records[0]["cases"] == 8
    assert records[0]["differences"] == ["cox breslow, lasso, sparse | 1e-2"]
    assert [record["ok"] for record in records] == [False, False, True, False]
    assert "cox breslow failed" in records[1]["error"]
    assert "not drawn: KeyError" in records[3]["error"]
    (tmp_path / "records.jsonl").unlink()
    status, records = run(stages, tmp_path, "--strict")
    assert (status, [record["stage"] for record in records]) == (1, ["families"])


def test_no_stage_starts_without_time(tmp_path, capsys):
    options = ["--budget", "5", "--folder", str(tmp_path)]
    assert main(options, {"a": fake("passes")}, warm_up=PASSES) == 1
    assert "no time left" in capsys.readouterr().err


def test_a_table_is_made_of_the_records_alone(tmp_path, capsys):
    stages = {"cox": fake("measures", target=0.5), "check": fake("passes", parts=1)}
    run(stages, tmp_path)
    capsys.readouterr()
    stages["other"] = fake("passes")
    assert main(["--table", str(tmp_path / "records.jsonl")], stages) == 0
    text = capsys.readouterr().out
    assert "| cox | 0.5 | 1.25 | 2 | 12 |" in text
    assert "check: passed, 0 cases" in text
    assert "other: missing" in text
    assert "cox: upload 0.50 s" in text


def test_an_ended_benchmark_leaves_no_process(tmp_path):
    code = (
        "from benchmarks.gpu.__main__ import main; from benchmarks.gpu.plan import Stage\n"
        "at = 'tests.backends.fake_gpu_stages:'\n"
        f"main(['--folder', {str(tmp_path)!r}], {{'a': Stage(at + 'sleeps', 60, parts=1)}})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    log = tmp_path / "full" / "a-0.log"
    while not log.exists():
        time.sleep(0.05)
    time.sleep(0.5)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    known = children.read_text().split() if children.exists() else []
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 1
    for pid in known:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


@pytest.mark.parametrize("several", [True, False])
def test_tests_are_counted_and_failures_are_listed(several, tmp_path, monkeypatch):
    file = tmp_path / "test_numbers.py"
    file.write_text("def test_one():\n    pass\ndef test_two():\n    assert 1 == 2, 'a slip'\n")
    monkeypatch.setattr(checks, "TESTS", (str(file),) * 2)
    monkeypatch.setattr(checks, "find_spec", lambda name: several or name == "pytest" or None)
    said = []
    options = Namespace(device="torch-cpu", small=True, threads=2)
    record = checks.suite(options, lambda **now: said.append(now))
    assert (record["ok"], record["cases"], said[-1]["cases"]) == (False, 2, 2)
    (failure,) = record["differences"]
    assert "test_two - AssertionError: a slip" in failure
    assert sum("last failure" in now for now in said) == 1


def test_every_stage_has_a_function_and_its_data():
    from benchmarks.gpu import data

    for stage in STAGES.values():
        module, name = stage.run.split(":")
        assert f"def {name}(" in (ROOT / "benchmarks" / "gpu" / f"{module}.py").read_text()
    assert {stage.data for stage in STAGES.values()} - {""} == set(data.DATA)


def test_the_work_of_a_fit_is_counted_and_its_time_is_split(monkeypatch):
    pytest.importorskip("torch")
    from benchmarks.gpu.fit_costs import COUNTED, PHASES, FitCosts

    from steropes import CrossValidation, Laplace, LogisticRegression
    from steropes.solve.proximal_newton.newton_batch import Batch
    from tuning import tune_solver

    tune_solver(monkeypatch, "subproblem", min_device_columns=1)
    rng = np.random.default_rng(0)
    X = (rng.random((300, 30)) < 0.2).astype(float)
    y = (rng.random(300) < 1 / (1 + np.exp(1 - X[:, :5].sum(1)))).astype(int)
    cv = CrossValidation(3, search=[0.02, 0.2], random_state=0)
    own, before = LogisticRegression(prior=Laplace(), cv=cv, device="torch-cpu"), Batch._step
    with FitCosts(split=True) as costs:
        own.fit(X, y)
    assert Batch._step is before
    rare = {"Hessians of one replicate", "Triton launches"}
    assert all(costs.counts[name] > 0 for name in set(COUNTED.values()) - rare)
    assert costs.counts["models of replicates"] > costs.counts["models"]
    assert costs.counts["host reads"] > costs.counts["steps"]
    assert set(costs.seconds) == {*PHASES.values(), "other"} - {"draws"}
    assert min(costs.seconds.values()) > 0
    assert Counter(costs.counts)["allocations"] == 0


@pytest.mark.slow
def test_every_stage_passes_on_the_cpu_device(tmp_path):
    pytest.importorskip("torch")
    options = ["--device", "torch-cpu", "--small", "--budget", "3000", "--folder", str(tmp_path)]
    assert main(options) == 0
