"""Check the PyTorch backend on a GPU and measure it, within a budget of seconds.

python -m benchmarks.gpu --budget 540 --resume gpu.jsonl
python -m benchmarks.gpu --device torch-cpu --small        # anywhere, to try the program itself

Each stage runs in a process of its own with a limit of its own and adds one line of JSON to the
file. With the same file, a later run does only what is missing or failed. Meanwhile, other
processes draw the data of the studies and compile the host's kernels. A failure of the versions,
the kernels or the families ends the benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .stages import COMPILERS, STAGES
from .studies import DATA

__all__ = ["main", "run_stages"]

ROOT = Path(__file__).resolve().parents[2]
# Seconds that must be left to start another stage.
LEAST = 15.0
# Factor of the limits on PyTorch's CPU device.
SLOWER = 4.0
# Seconds for which timed stages wait until no data at all are drawn; then for their own only.
QUIET = 150.0


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--budget", type=float, default=540.0, help="seconds for all stages")
    parser.add_argument("--resume", type=Path, help="file of records, which is added to")
    parser.add_argument("--device", choices=["cuda", "torch-cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for any machine")
    parser.add_argument("--only", help="comma-separated stages")
    parser.add_argument(
        "--folder", type=Path, help="for the data and messages; temporary by default"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args(arguments)


def known_records(file: Path | None) -> dict[str, dict[str, Any]]:
    """Read the latest record of each stage."""
    if file is None or not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text().splitlines() if line.strip())
    return {record["stage"]: record for record in lines}


def run_stages(
    options: argparse.Namespace, run: Callable[[str, float, dict], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Run the stages that are missing or failed, in order, while the budget lasts.

    ``run`` takes a stage's name, its limit in seconds and the records so far.
    """
    end = time.monotonic() + options.budget
    records = known_records(options.resume)
    names = options.only.split(",") if options.only else list(STAGES)
    for name in names:
        if records.get(name, {}).get("ok"):
            continue
        left = end - time.monotonic()
        if left < LEAST:
            print(f"{name}: no time left; run again with --resume", file=sys.stderr)
            break
        limit = STAGES[name].limit * (SLOWER if options.device == "torch-cpu" else 1.0)
        records[name] = record = run(name, min(limit, left), records)
        line = json.dumps(record)
        print(line, flush=True)
        if options.resume:
            with options.resume.open("a") as file:
                file.write(line + "\n")
        if STAGES[name].decisive and not record["ok"]:
            print(f"{name} failed: nothing further is measured", file=sys.stderr)
            break
    return records


class Processes:
    """The processes of stages, and those that draw data and compile in the background."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.start = options, folder, time.monotonic()
        self.end = self.start + options.budget
        # Half of the threads are left to the stage that runs.
        self.background = ThreadPoolExecutor(max(1, options.threads // 2))
        self.running: set[subprocess.Popen] = set()
        self.stopped = False
        self.compiling: list[Future] = []
        self.drawing: dict[str, Future] = {}
        self.environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        }  # fmt: skip

    def command(self, name: str, records: dict) -> list[str]:
        given = {
            "device": self.options.device, "small": self.options.small,
            "folder": str(self.folder), "threads": self.options.threads, "records": records,
        }  # fmt: skip
        return [sys.executable, "-m", "benchmarks.gpu.stages", name, json.dumps(given)]

    def _in_background(self, name: str) -> None:
        """Run one task with a single thread, unless the benchmark has ended."""
        if self.stopped:
            return
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            self.command(name, {}), cwd=ROOT, env={**self.environment, **one}
        )
        self.running.add(process)
        process.wait()
        self.running.discard(process)

    def begin(self, data: list[str], compile_host: bool) -> None:
        """Begin to compile the host's kernels, and to draw data that are not in the folder yet."""
        if compile_host:
            self.compiling = [
                self.background.submit(self._in_background, f"compile {i}")
                for i in range(COMPILERS)
            ]
        for name in data:
            if not (self.folder / f"{name}.npz").exists():
                task = self.background.submit(self._in_background, f"prepare {name}")
                self.drawing[name] = task

    def wait(self, name: str) -> None:
        """Wait for the tasks that a stage needs, and, up to a time, until no others run."""
        own = STAGES[name].data
        for task in self.compiling if name == "families" else ():
            self._until(task, self.end)
        if own or name == "operations":
            for data, task in self.drawing.items():
                self._until(task, self.end if data == own else min(self.end, self.start + QUIET))

    @staticmethod
    def _until(task: Future, last: float) -> None:
        """Wait for a task, but not beyond a time."""
        with contextlib.suppress(TimeoutError):
            task.result(max(0.1, last - time.monotonic()))

    def run(self, name: str, limit: float, records: dict) -> dict[str, Any]:
        """Run a stage in a process of its own."""
        self.wait(name)
        left = max(1.0, min(limit, self.end - time.monotonic()))
        try:
            done = subprocess.run(
                self.command(name, records), cwd=ROOT, env=self.environment, timeout=left,
                capture_output=True, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            text = (error.stderr or b"").decode(errors="replace").strip().splitlines()
            said = {"so far": text[-1]} if text else {}
            return {"stage": name, "ok": False, "error": f"more than {left:.0f} s", **said}
        (self.folder / f"{name}.log").write_text(done.stderr)
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            text = done.stderr.strip().splitlines()
            return {"stage": name, "ok": False, "error": " | ".join(text[-3:])[-500:]}
        return json.loads(lines[-1])

    def stop(self) -> None:
        """End the processes in the background."""
        self.stopped = True
        self.background.shutdown(wait=False, cancel_futures=True)
        for process in list(self.running):
            process.kill()
        self.background.shutdown()


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; 1 if any stage failed or is missing."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        processes = Processes(options, folder)
        known = known_records(options.resume)
        names = options.only.split(",") if options.only else list(STAGES)
        needed = {STAGES[name].data for name in names if not known.get(name, {}).get("ok")}
        checked = "families" in names and not known.get("families", {}).get("ok")
        processes.begin([name for name in DATA if name in needed], checked)
        try:
            records = run_stages(options, processes.run)
        finally:
            processes.stop()
    return int(not all(records.get(name, {}).get("ok") for name in names))


if __name__ == "__main__":
    sys.exit(main())
