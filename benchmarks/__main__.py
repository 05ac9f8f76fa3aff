"""Simulate, fit with steropes and its peers side by side, compare, append to history/runs.md.

python -m benchmarks cox-fit
python -m benchmarks cox-cv --n 20000 --p 500 --peers adelie,glmnet
python -m benchmarks logistic-fit --peer-python /path/to/other/venv/bin/python
python -m benchmarks paper tian2018         # the experiments of a paper (benchmarks/papers)
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from .papers import comparison as papers
from .run import run_cold_start, run_task
from .table import append, show
from .tasks import TASKS


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run one benchmark."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["paper"]:
        return papers.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument("name", choices=[*TASKS], help="what to measure")
    parser.add_argument("--n", type=int, help="rows")
    parser.add_argument("--p", type=int, help="columns")
    parser.add_argument("--density", type=float, help="mean share of ones")
    parser.add_argument("--lam", type=float, help="λ of the total log-likelihood")
    parser.add_argument("--tol", type=float, help="KKT violation asked of steropes, in λ")
    parser.add_argument("--folds", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--n-jobs", type=int, default=None, help="threads of all programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", help="comma-separated, 'none', or all of the task's (default)")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="PATH",
        help="another interpreter to look for peers in; may be repeated",
    )
    parser.add_argument(
        "--peer-tol",
        type=float,
        default=1e-7,
        help="adelie's, coxnet's and glmnet's tol to begin with",
    )
    parser.add_argument(
        "--peer-penalties", type=int, default=30, help="on the path of adelie's cross-validation"
    )
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for each peer")
    parser.add_argument(
        "--no-record", action="store_true", help="do not add the table to history/runs.md"
    )
    given = parser.parse_args(arguments)  # fmt: skip
    fields = ("n", "p", "density", "lam", "tol", "folds", "repeats")
    changes = {f: getattr(given, f) for f in fields if getattr(given, f) is not None}
    task = replace(TASKS[given.name], **changes)
    peers = task.peers
    if given.peers is not None:
        peers = tuple(p for p in given.peers.split(",") if p and p != "none")
    with tempfile.TemporaryDirectory(prefix="steropes-bench-") as folder:
        if task.name == "cold-start":
            result = run_cold_start(task, Path(folder), given)
        else:
            result = run_task(task, peers, Path(folder), given)
    command = "python -m benchmarks " + shlex.join(arguments)
    text = show(task, result, command)
    print(text)
    if not given.no_record:
        append(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
