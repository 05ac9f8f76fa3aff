"""Rows of published and measured figures, their table and their record.

    python -m benchmarks paper tian2018
    python -m benchmarks paper li2022 --size full --data sgemm_product.csv --output li2022.json

Each experiment of a paper is a generator of `Row`s. The reduced size takes minutes; the full size
is the paper's and may take longer and gigabytes. Before an experiment is timed it runs once at a
tiny size, so that compilation does not count.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import json
import os
import platform
import resource
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAPERS = {
    "suchard2013": "Suchard, Simpson, Zorych, Ryan and Madigan (2013), self-controlled case series",
    "tian2018": "Tian (2018), logistic and conditional logistic regression",
    "li2022": "Li, Chen and Shepherd (2022), cumulative probability models",
    "yang2023": "Yang, Schuemie, Ji and Suchard (2023), Cox and Fine-Gray regression",
    "yang2023thesis": "Yang (2023), stratified and time-varying Cox, pooled logistic regression",
}
SIZES = ("tiny", "reduced", "full")
Number = float | int | str | None


@dataclass(frozen=True)
class Settings:
    """Size of the experiments, seed of the simulations and the file of public data, if any."""

    size: str = "reduced"
    seed: int = 1
    data: Path | None = None

    def pick(self, tiny: Any, reduced: Any, full: Any) -> Any:
        """Choose the setting of the size."""
        return {"tiny": tiny, "reduced": reduced, "full": full}[self.size]


@dataclass(frozen=True)
class Row:
    """A quantity of a paper and its reproduction.

    Attributes
    ----------
    quantity : str
    paper : number, text, None, or dict of numbers
        A dict has one published number for each machine or program. None if none was published.
    ours : number or text
    note : str
    """

    quantity: str
    paper: Number | dict[str, float]
    ours: Number
    note: str = ""
    experiment: str = ""

    def ratios(self) -> dict[str, float]:
        """Divide ours by each published number."""
        if isinstance(self.ours, str) or self.ours is None or not np.isfinite(self.ours):
            return {}
        paper = self.paper if isinstance(self.paper, dict) else {"": self.paper}
        return {k: self.ours / v for k, v in paper.items() if isinstance(v, int | float) and v}

    def markdown(self) -> str:
        """Format the row of the table."""
        paper = self.paper
        if isinstance(paper, dict):
            paper = ", ".join(f"{k} {digits(v)}" for k, v in paper.items())
        ratio = ", ".join(near_one(v) for v in self.ratios().values())
        cells = (self.quantity, digits(paper), digits(self.ours), ratio or "–", self.note)
        return "| " + " | ".join(cells) + " |"


def digits(x: Number) -> str:
    """Format a number with three significant digits, or all digits if it is whole."""
    if x is None:
        return "–"
    if isinstance(x, str):
        return x
    if float(x).is_integer() or abs(x) >= 1000:
        return f"{x:,.0f}"
    return f"{x:.3g}"


def near_one(ratio: float) -> str:
    """Format a ratio, with a fourth decimal if it would otherwise look like 1."""
    return f"{ratio:.4f}" if ratio != 1 and digits(ratio) == "1" else digits(ratio)


HEAD = "| quantity | paper | ours | ours / paper | note |\n|---|---:|---:|---:|---|"


def clocked(f: Callable[[], Any], times: int = 1) -> tuple[Any, float]:
    """Call f, and measure the processor seconds of all threads and child processes (smallest)."""
    best = np.inf
    for _ in range(times):
        start = processor()
        out = f()
        best = min(best, processor() - start)
    return out, best


def processor() -> float:
    """Processor seconds of this process and its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def experiments(paper: str) -> dict[str, Callable[[Settings], Iterator[Row]]]:
    """Import the module of a paper and return its experiments by name."""
    return importlib.import_module(f"benchmarks.papers.{paper}").EXPERIMENTS


def run(paper: str, settings: Settings, only: list[str] | None = None) -> Iterator[Row]:
    """Run the experiments of a paper, each once at the tiny size beforehand."""
    for name, experiment in experiments(paper).items():
        if only and name not in only:
            continue
        if settings.size != "tiny":
            list(experiment(dataclasses.replace(settings, size="tiny", data=None)))
        for row in experiment(settings):
            yield dataclasses.replace(row, experiment=name)


def record(paper: str, settings: Settings, command: str, rows: list[Row]) -> dict[str, Any]:
    """Collect the rows with the date, versions and machine."""
    import numba
    import scipy

    import steropes

    return {
        "paper": paper,
        "size": settings.size,
        "seed": settings.seed,
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "versions": {
            "python": platform.python_version(), "steropes": steropes.__version__,
            "numpy": np.__version__, "scipy": scipy.__version__, "numba": numba.__version__,
        },
        "machine": {
            "system": platform.platform(), "processor": processor_name(),
            "cores": len(os.sched_getaffinity(0)),
        },
        "rows": [{**dataclasses.asdict(row), "ratios": row.ratios()} for row in rows],
    }  # fmt: skip


def processor_name() -> str:
    """Read the processor's name from Linux, or ask Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.partition(": ")[2] for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main(arguments: list[str]) -> int:
    """Parse the command line, run a paper and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks paper",
        description="Reproduce the experiments of a paper.",
        epilog="; ".join(f"{name}: {text}" for name, text in PAPERS.items()),
    )
    parser.add_argument("name", choices=[*PAPERS])
    parser.add_argument("--size", choices=SIZES, default="reduced")
    parser.add_argument("--only", help="comma-separated names of experiments")
    parser.add_argument("--data", type=Path, help="file of public data (li2022: sgemm_product.csv)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file for the rows, versions and machine")
    given = parser.parse_args(arguments)
    only = given.only.split(",") if given.only else None
    unknown = set(only or ()) - set(experiments(given.name))
    if unknown:
        parser.error(f"{given.name} has {', '.join(experiments(given.name))}, not {unknown}")
    settings = Settings(given.size, given.seed, given.data)
    rows: list[Row] = []
    for row in run(given.name, settings, only):
        if not rows or rows[-1].experiment != row.experiment:
            print(f"\n**{row.experiment}**\n\n{HEAD}")
        print(row.markdown(), flush=True)
        rows.append(row)
    command = "python -m benchmarks paper " + shlex.join(arguments)
    out = record(given.name, settings, command, rows)
    versions = ", ".join(f"{k} {v}" for k, v in out["versions"].items())
    machine = f"{out['machine']['processor']}, {out['machine']['cores']} cores"
    print(f"\n`{command}`, {out['date']}, {versions}; {machine}.")
    if given.output:
        given.output.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
    return 0
