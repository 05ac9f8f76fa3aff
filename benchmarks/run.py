"""Run the programs in processes of their own, so that each has its own peak memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from .exchange import save
from .objective import kkt, objective
from .passes import time_pass
from .simulate import simulate
from .tasks import LIMITS, Task

__all__ = ["run_cold_start", "run_task"]

HERE = Path(__file__).resolve().parent
R_PEERS = ("glmnet", "survival", "cyclops")
EARLY = 1e-6  # of the deviance explained: a larger gap to the best objective is an early stop
TIGHTER = 0.1  # of its tolerance, with which a program that stopped early is run again,
TRIES = 5  # so often in all
WITH_TOLERANCE = ("adelie", "scikit-survival", "glmnet")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_task(task: Task, peers: tuple[str, ...], folder: Path, given) -> dict:
    """Simulate, time a pass, fit with everyone, and compare."""
    say(f"simulating n={task.n} p={task.p}")
    data = simulate(task.family, task.kind, task.n, task.p, task.density, task.rate, given.seed)
    save(folder, data)
    a_pass = time_pass(data["X"])
    n_jobs = given.n_jobs or len(os.sched_getaffinity(0))
    options = {
        "family": task.family, "lam": task.lam, "tol": task.tol, "folds": task.folds,
        "repeats": task.repeats, "n_jobs": n_jobs, "peer_tol": given.peer_tol, "warm": True,
        "penalties": given.peer_penalties,
    }  # fmt: skip
    say("steropes")
    rows = [_ours(folder, options)]
    _describe_grid(rows[0], options, data)
    judge = Judge(task.family, data, folder, options)
    judge.look(rows[0])
    for name in peers:
        if task.n * task.p > LIMITS[name]:
            say(f"{name}: left out at this size (hours, or dense X)")
            continue
        say(name)
        rows += _until_there(name, folder, options, judge, given)
    # A peer's gap to ours is below zero where it went further than we did.
    rows[0]["early"] = any(row.get("gap", 0.0) < -EARLY for row in rows)
    X = data["X"]
    return {
        "rows": rows, "pass": a_pass, "n": X.shape[0], "p": X.shape[1], "nnz": X.nnz,
        "events": float(data["y"].mean()), "source": data["source"], "n_jobs": n_jobs,
        "task": task,
    }  # fmt: skip


def _process(command: list[str], timeout: float, environment: dict | None = None) -> dict | None:
    """The JSON object on the last line that a program prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, cwd=HERE.parent,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {timeout:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["failed"])[-1][:100]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _ours(folder: Path, options: dict, environment: dict | None = None) -> dict:
    command = [sys.executable, "-m", "benchmarks.ours", str(folder), json.dumps(options)]
    row = _process(command, 1e5, environment)
    if "failed" in row:
        raise SystemExit(f"steropes failed: {row['failed']}")
    return row


def _describe_grid(row: dict, options: dict, data: dict) -> None:
    """Peers that cross-validate walk over the same range of penalties."""
    variances = row.get("variances")
    if variances:
        lams = np.sqrt(2 / np.array(variances))
        options["variances"] = len(lams)
        options["ratio"] = float(lams.min() / lams.max())
        options["C"] = float(1 / lams.min())


def _peer(name: str, folder: Path, options: dict, shape, given) -> dict | None:
    if name in R_PEERS:
        rscript = shutil.which("Rscript")
        script = [rscript, str(HERE / "peers.R"), name] if rscript else None
        if script is None or not _there([*script, "--probe"]):
            say("  not installed")
            return None
        o = options
        settings = [o["family"], o["lam"], o["folds"], o["repeats"]]
        settings += [o["penalties"], o.get("ratio", 0), o["peer_tol"]]
        words = [str(folder), *map(str, shape), ",".join(map(str, settings))]
        row = _process([*script, *words], given.timeout)
    else:
        for python in [sys.executable, *given.peer_python]:
            script = [python, str(HERE / "peers.py"), name]
            if _there([*script, "--probe"]):
                break
        else:
            say("  not installed")
            return None
        row = _process([*script, str(folder), json.dumps(options)], given.timeout)
    return {"peer": name, **row}


def _there(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, cwd=HERE.parent).returncode == 0
    except OSError:
        return False


def _until_there(name: str, folder: Path, options: dict, judge: Judge, given) -> list[dict]:
    """Runs of a peer: with tighter tolerances until its objective is no worse than ours."""
    rows: list[dict] = []
    tol = given.peer_tol
    for _ in range(TRIES):
        row = _peer(name, folder, {**options, "peer_tol": tol}, judge.data["X"].shape, given)
        if row is None:
            break
        if not options["folds"]:
            row.setdefault("lam", options["lam"])
        judge.look(row)
        rows.append(row)
        if name in WITH_TOLERANCE:
            row["peer_tol"] = tol
        if not row.get("early") or name not in WITH_TOLERANCE:
            break
        tol *= TIGHTER
    return rows


class Judge:
    """Objectives and KKT violations of everyone's coefficients, by one piece of code.

    A cross-validation's are those of its last fit, at the penalty that it chose itself.
    """

    def __init__(self, family: str, data: dict, folder: Path, options: dict) -> None:
        self.family, self.data, self.folder, self.options = family, data, folder, options
        y, p = data["y"], data["X"].shape[1]
        null = np.log(y.mean() / (1 - y.mean())) if family == "logistic" else 0.0
        self.nothing = np.zeros(p), float(null)
        self.best: dict[float, float] = {}  # objective of each penalty, as far as we go

    def look(self, row: dict) -> None:
        """Add the gap to our objective, whether it was an early stop, and the KKT violation."""
        found = None if "failed" in row else _coefficients(self.folder, row["peer"])
        lam = row.get("lam")
        if found is None or lam is None:
            return
        value = self._objective(found[1:], found[0], lam)
        if lam not in self.best:
            self.best[lam] = value if row["peer"] == "steropes" else self._ours_at(lam)
        worst = self._objective(*self.nothing, lam)
        row["gap"] = (value - self.best[lam]) / max(worst - self.best[lam], 1e-300)
        row["early"] = row["gap"] > EARLY
        row["kkt"] = kkt(self.family, self.data, found[1:], found[0], lam)

    def _objective(self, beta: np.ndarray, intercept: float, lam: float) -> float:
        return objective(self.family, self.data, beta, intercept, lam)

    def _ours_at(self, lam: float) -> float:
        say(f"steropes at the λ = {lam:.4g} of a peer's own choice")
        _ours(self.folder, {**self.options, "lam": lam, "folds": 0})
        found = _coefficients(self.folder, "steropes")
        assert found is not None
        return self._objective(found[1:], found[0], lam)


def _coefficients(folder: Path, name: str) -> np.ndarray | None:
    if (folder / f"{name}.npz").exists():
        with np.load(folder / f"{name}.npz") as f:
            return np.append(float(f["intercept"]), f["beta"])
    if (folder / f"{name}.beta.bin").exists():
        return np.fromfile(folder / f"{name}.beta.bin")
    return None


def run_cold_start(task: Task, folder: Path, given) -> dict:
    """Time the first fit with an empty cache of kernels, the next process, and a fit when warm."""
    data = simulate(task.family, task.kind, task.n, task.p, task.density, task.rate, given.seed)
    save(folder, data)
    cache = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    options = {
        "family": task.family, "lam": task.lam, "tol": task.tol, "folds": 0, "repeats": 1,
        "n_jobs": given.n_jobs or len(os.sched_getaffinity(0)),
    }  # fmt: skip
    rows = []
    for label, warm in (("fresh machine", False), ("later process", False), ("warm", True)):
        row = _ours(folder, {**options, "warm": warm}, cache)
        rows.append({**row, "peer": f"steropes, {label}"})
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import steropes"], check=True)
    rows.append(
        {"peer": "import steropes (whole process)", "seconds": time.perf_counter() - started}
    )
    X = data["X"]
    return {
        "rows": rows, "pass": time_pass(X), "n": X.shape[0], "p": X.shape[1], "nnz": X.nnz,
        "events": float(data["y"].mean()), "source": data["source"], "task": task,
        "n_jobs": options["n_jobs"],
    }  # fmt: skip
