"""Check the PyTorch backend on a GPU and measure it, within a budget of seconds.

python -m benchmarks.gpu --budget 540 --resume gpu.jsonl
python -m benchmarks.gpu --device torch-cpu --small        # anywhere, to try the program itself

Kernels, families and tests are checked first, while other processes draw the data of the studies.
Then figures are measured, in one process with a limit for each; a process that exceeds its limit is
replaced. Each stage adds a line of JSON to the file of --resume, and a later run with the same file
does what is missing, and then what failed. A failed family is not measured. The exit status is 1 if
anything failed or is missing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from .data import data_folder
from .plan import STAGES, Stage
from .summary import table
from .workers import ROOT, Worker, Workers

__all__ = ["Benchmark", "known_records", "main", "read_options"]

# Seconds that must be left to start another stage.
LEAST = 8.0
# Factor of the limits on PyTorch's CPU device.
SLOWER = 4.0
# Seconds for drawing the data of a study.
DRAWING = 120.0


def read_options(arguments: list[str], stages: Mapping[str, Stage] = STAGES) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip

    def names(text: str) -> list[str]:
        if unknown := set(text.split(",")) - stages.keys():
            parser.error(f"no stage {', '.join(sorted(unknown))}; see --list")
        return text.split(",")

    parser.add_argument("--budget", type=float, default=540.0, help="seconds for all stages")
    parser.add_argument("--resume", type=Path, help="file of records, which is added to")
    parser.add_argument("--only", type=names, default=list(stages), metavar="STAGE,…")
    parser.add_argument("--skip", type=names, default=[], metavar="STAGE,…")
    parser.add_argument("--list", action="store_true", help="print the stages and their limits")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of records")
    parser.add_argument(
        "--split", action="store_true", help="fit once more and measure the phases of each fit"
    )
    parser.add_argument(
        "--strict", action="store_true", help="measure nothing after a failed check"
    )
    parser.add_argument("--device", choices=["cuda", "torch-cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for any machine")
    parser.add_argument("--folder", type=Path, default=data_folder(), help="for data and messages")
    parser.add_argument("--commit", default=_commit(), help="recorded with each figure")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args(arguments)


def _commit() -> str:
    """Return the commit of the working tree, with a plus sign if files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def known_records(file: Path | None) -> dict[str, dict[str, Any]]:
    """Read the latest record of each stage; an incomplete last line is left out."""
    out = {}
    for line in file.read_text().splitlines() if file is not None and file.exists() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        out[record["stage"]] = record
    return out


class Benchmark:
    """A run of stages within a budget; see the module.

    Parameters
    ----------
    options : argparse.Namespace
    stages : mapping of str to Stage
    warm_up : str
        A function, as in `Stage.run`, that runs in the process of the figures before them.

    Attributes
    ----------
    records : dict
        The latest record of each stage.
    """

    def __init__(
        self, options: argparse.Namespace, stages: Mapping[str, Stage] = STAGES,
        warm_up: str = "studies:warm_up",
    ) -> None:  # fmt: skip
        self.warm_up = warm_up
        self.options, self.stages, self.start = options, stages, time.monotonic()
        self.folder = options.folder / ("small" if options.small else "full")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.slower = SLOWER if options.device == "torch-cpu" else 1.0
        self.workers = Workers(self.folder)
        self.undrawn: dict[str, str] = {}  # Data that could not be drawn, with the reason.
        self.records = known_records(options.resume)
        self.chosen = [x for x in stages if x in options.only and x not in options.skip]
        missing = [name for name in self.chosen if not self.good(name)]
        self.missing = sorted(missing, key=lambda name: name in self.records)

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.options.budget - (time.monotonic() - self.start)

    def good(self, name: str) -> bool:
        """Return whether a stage has passed."""
        return bool(self.records.get(name, {}).get("ok"))

    def run(self) -> None:
        """Check and draw together, and then measure."""
        checks = [name for name in self.missing if self.stages[name].parts]
        figures = [name for name in self.missing if not self.stages[name].parts]
        data = {self.stages[name].data for name in figures} - {""}
        pool = ThreadPoolExecutor(max(2, self.options.threads))
        try:
            parts = {name: self._submit(pool, name) for name in checks}
            drawing = [pool.submit(self._draw, name) for name in sorted(data)]
            begun = pool.submit(self._first_worker, figures)
            for future in as_completed([x for futures in parts.values() for x in futures]):
                for name in [x for x, futures in parts.items() if future in futures]:
                    if all(x.done() for x in parts[name]):
                        self._record(name, _joined([x.result() for x in parts.pop(name)]))
            for task in drawing:
                task.result()
            worker = begun.result()
            if not (self.options.strict and any(not self.good(name) for name in checks)):
                self._measure(figures, worker)
        finally:
            self.workers.stop()
            pool.shutdown(cancel_futures=True)

    def _request(self, name: str, **more: Any) -> dict[str, Any]:
        """Return the request of a stage, for `worker`."""
        given, stage = self.options, self.stages.get(name)
        common = {
            "stage": name, "run": stage.run if stage else "", "data": stage.data if stage else "",
            "device": given.device, "small": given.small, "split": given.split,
            "folder": str(self.folder), "threads": given.threads, "records": self.records,
        }  # fmt: skip
        return common | more

    def _submit(self, pool: ThreadPoolExecutor, name: str) -> list[Future]:
        """Start the processes of a check, or as many as there are threads."""
        parts = min(self.stages[name].parts, max(2, self.options.threads))
        return [pool.submit(self._part, name, part, parts) for part in range(parts)]

    def _part(self, name: str, part: int, parts: int) -> dict[str, Any]:
        """Run a part of a check's cases."""
        limit = min(self.slower * self.stages[name].limit, self.left)
        request = self._request(name, part=part, parts=parts)
        return self.workers.once(f"{name}-{part}", request, limit)

    def _draw(self, data: str) -> None:
        """Draw data that are not in the folder yet."""
        if not (self.folder / f"{data}.npz").exists():
            request = self._request(f"draw {data}", run="data:draw", data=data)
            limit = min(self.slower * DRAWING, self.left)
            drawn = self.workers.once(f"draw-{data}", request, limit)
            if not drawn["ok"]:
                self.undrawn[data] = drawn["error"]

    def _first_worker(self, figures: list[str]) -> Worker | None:
        """Start the process of the figures and compile kernels while checks run."""
        if not figures:
            return None
        worker = self.workers.start("figures")
        worker.run(self._request("warm-up", run=self.warm_up), min(240.0, self.left))
        return worker

    def _measure(self, figures: list[str], worker: Worker | None) -> None:
        """Measure one figure after another, each within its limit."""
        for name in figures:
            stage, error = self.stages[name], ""
            if self.left < LEAST:
                print(f"{name}: no time left; run again with --resume", file=sys.stderr)
                return
            failed = self.records.get("families", {}).get("differences", [])
            if stage.family and any(line.startswith(f"{stage.family},") for line in failed):
                error = f"not measured, since {stage.family} failed among the families"
            elif stage.data in self.undrawn:
                error = f"its data were not drawn: {self.undrawn[stage.data]}"
            if error:
                self._record(name, {"stage": name, "ok": False, "error": error})
                continue
            if worker is None or not worker.alive:
                worker = self.workers.start("figures")
            limit = min(self.slower * stage.limit, self.left)
            self._record(name, worker.run(self._request(name), limit))

    def _record(self, name: str, record: dict[str, Any]) -> None:
        """Keep a record, print it, and add it to the file."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        at = round(time.monotonic() - self.start, 1)
        record |= {"commit": self.options.commit, "date": now, "at": at}
        self.records[name] = record
        line = json.dumps(record)
        print(line, flush=True)
        if self.options.resume:
            with self.options.resume.open("a+b") as file:
                if file.tell() and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
                    file.write(b"\n")  # The last run ended within a line.
                file.write(line.encode() + b"\n")


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the records of the processes of a check."""
    out = {**parts[0], "ok": all(part["ok"] for part in parts)}
    out["cases"] = sum(part.get("cases", 0) for part in parts)
    out["differences"] = [line for part in parts for line in part.get("differences", [])]
    if errors := [part["error"] for part in parts if "error" in part]:
        out["error"] = "; ".join(dict.fromkeys(errors))
    if "took" in out:
        out["took"] = max(part.get("took", 0.0) for part in parts)
    return out


def main(
    arguments: list[str] | None = None, stages: Mapping[str, Stage] = STAGES, **settings: str
) -> int:
    """Run the benchmark; 1 if any stage failed or is missing. ``settings`` are `Benchmark`'s."""
    options = read_options(sys.argv[1:] if arguments is None else arguments, stages)
    if options.list:
        for name, stage in stages.items():
            target = f", target {stage.target:g} s" if stage.target else ""
            print(f"{name}: at most {stage.limit:g} s{target}")
        return 0
    if options.table:
        print(table(known_records(options.table), stages))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    benchmark = Benchmark(options, stages, **settings)
    benchmark.run()
    print(table(benchmark.records, {name: stages[name] for name in benchmark.chosen}))
    return int(not all(benchmark.good(name) for name in benchmark.chosen))


if __name__ == "__main__":
    sys.exit(main())
