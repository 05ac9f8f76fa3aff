"""The benchmark for GPUs: its order, its file, and, on PyTorch's CPU device, all of its stages."""

import json

import pytest

pytest.importorskip("torch")

from benchmarks.gpu.__main__ import main, read_options, run_stages
from benchmarks.gpu.stages import STAGES


def runs(options, ok):
    """The names of the stages that run; those in ``ok`` succeed."""
    seen = []

    def run(name, limit, records):
        seen.append(name)
        assert limit <= STAGES[name].limit
        return {"stage": name, "ok": name in ok}

    run_stages(options, run)
    return seen


def test_a_stage_that_decides_ends_the_benchmark_and_others_do_not():
    options = read_options([])
    assert runs(options, set(STAGES)) == list(STAGES)
    assert runs(options, {"versions", "ceilings"}) == ["versions", "ceilings", "kernels"]
    assert runs(options, set(STAGES) - {"ceilings", "cox-10x10"}) == list(STAGES)


def test_a_resumed_benchmark_runs_what_is_missing_or_failed(tmp_path):
    file = tmp_path / "records.jsonl"
    options = read_options(["--resume", str(file)])
    runs(options, set(STAGES) - {"cox-million"})
    assert runs(options, set(STAGES)) == ["cox-million"]
    assert runs(options, set(STAGES)) == []
    assert len(file.read_text().splitlines()) == len(STAGES) + 1
    assert json.loads(file.read_text().splitlines()[-1]) == {"stage": "cox-million", "ok": True}


def test_no_stage_starts_without_time():
    assert runs(read_options(["--budget", "5"]), set(STAGES)) == []


@pytest.mark.slow
def test_one_study_runs_on_the_device_and_the_host(tmp_path, capfd):
    chosen = ["versions", "conditional-exact"]
    options = ["--device", "torch-cpu", "--small", "--only", ",".join(chosen)]
    assert main([*options, "--folder", str(tmp_path), "--budget", "300"]) == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [record["stage"] for record in records] == chosen
    assert records[1]["device seconds"] > 0
    assert records[1]["log-likelihood gap"] < 1e-9


@pytest.mark.slow
def test_every_stage_passes_on_the_cpu_device():
    assert main(["--device", "torch-cpu", "--small", "--budget", "3000"]) == 0
