"""Draws of the federated simulations: kept as lines of JSON, and tables over them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

TRUTH = 0.5


@dataclass(frozen=True)
class Found:
    """An estimate of the treatment's coefficient."""

    coef: float
    se: float
    lower: float
    upper: float
    rounds: int = 0
    bytes: int = 0


Draw = dict[str, Found]
Stored = dict[tuple[str, str, int], tuple[bool, Draw]]


def stored(store: Path | None) -> Stored:
    """Draws that a file has, by model, scenario and seed, and whether they were profiled."""
    if store is None or not store.exists():
        return {}
    out: Stored = {}
    for text in store.read_text().splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue  # the run was stopped within it
        found = {name: Found(**x) for name, x in line["found"].items()}
        out[line["model"], line["scenario"], line["seed"]] = line["profiled"], found
    return out


def keep(store: Path, model: str, scenario: str, seed: int, profiled: bool, found: Draw) -> None:
    """Add a draw to a file."""
    line = {"model": model, "scenario": scenario, "seed": seed, "profiled": profiled}
    with store.open("a") as file:
        text = json.dumps(line | {"found": {name: asdict(x) for name, x in found.items()}})
        file.write(text + "\n")


def table(runs: list[Draw]) -> pd.DataFrame:
    """A row a method over the draws."""
    lines = []
    for name in dict.fromkeys(n for run in runs for n in run):
        all_ = [(run[name], run["pooled, stratified by site"]) for run in runs
                if name in run and np.isfinite(run[name].coef)]  # fmt: skip
        b = np.array([f.coef for f, _ in all_])
        off = np.array([abs(f.coef - p.coef) for f, p in all_])
        covered = np.array([f.lower <= TRUTH <= f.upper for f, _ in all_], float)
        sd, m = b.std(ddof=1), len(all_)
        lines.append({
            "method": name, "draws": m,
            "bias": _with_error(b.mean() - TRUTH, sd / np.sqrt(m)),
            "sd": _with_error(sd, sd / np.sqrt(2 * (m - 1))),
            "mean se": np.mean([f.se for f, _ in all_ if np.isfinite(f.se)]),
            "coverage": _with_error(
                covered.mean(), np.sqrt(max(covered.mean() * (1 - covered.mean()), 1 / m) / m)
            ),
            "|off pooled|": off.mean(),
            "rounds": np.mean([f.rounds for f, _ in all_]),
            "kB": np.mean([f.bytes for f, _ in all_]) / 1000,
        })  # fmt: skip
    return pd.DataFrame(lines)


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} ±{error:.3f}"
