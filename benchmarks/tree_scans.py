"""Processor seconds of tree scans with 9,999 replicates of about 5,000 nodes.

Run ``python -m benchmarks.tree_scans`` (``--cases 200000`` for more cases). TreeScan 2.4 takes 13
to 19 s for Poisson scans of such a tree. Kernels are loaded before the clock starts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.surveillance import tree_scan, tree_temporal_scan

# Nodes of each level, of which the last are leaves with cases: 5,064 in all.
LEVELS = (4, 60, 1_000, 4_000)
DAYS = 28


def random_tree(rng: np.random.Generator) -> tuple[pd.DataFrame, list[str]]:
    """Return a tree with nodes below random ones of the level above, and its leaves."""
    rows, above = [], ["all"]
    for level, size in enumerate(LEVELS):
        own = [f"{level}.{i}" for i in range(size)]
        rows += list(zip(own, rng.choice(above, size), strict=True))
        above = own
    return pd.DataFrame(rows, columns=["node", "parent"]), above


def scans(cases: int, seed: int) -> dict[str, Callable[[int], Any]]:
    """Return the scans as functions of the number of replicates."""
    rng = np.random.default_rng(seed)
    tree, leaves = random_tree(rng)
    expected = rng.gamma(0.5, size=len(leaves))
    counts = pd.DataFrame({"node": leaves, "expected": expected * cases / expected.sum()})
    counts["cases"] = rng.poisson(counts["expected"])
    counts["controls"] = rng.poisson(counts["expected"])
    days = pd.DataFrame({"node": counts["node"].repeat(counts["cases"]), "cases": 1})
    days["time"] = rng.integers(1, DAYS + 1, len(days))
    plain = counts[["node", "cases", "expected"]]
    pairs = counts[["node", "cases", "controls"]]

    def poisson(conditional: bool) -> Callable[[int], Any]:
        return lambda n: tree_scan(plain, tree, conditional=conditional, replicates=n)

    def bernoulli(**options: Any) -> Callable[[int], Any]:
        return lambda n: tree_scan(pairs, tree, model="bernoulli", replicates=n, **options)

    def temporal(fixed: Any) -> Callable[[int], Any]:
        return lambda n: tree_temporal_scan(days, tree, times=(1, DAYS), fixed=fixed, replicates=n)

    return {
        "Poisson, unconditional": poisson(False),
        "Poisson, conditional": poisson(True),
        "Bernoulli, probability 1/2": bernoulli(conditional=False, probability=0.5),
        "Bernoulli, conditional": bernoulli(),
        "tree-temporal, fixed node": temporal("node"),
        "tree-temporal, fixed node and time": temporal("node and time"),
    }


def main() -> None:
    """Print the processor seconds of each scan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--replicates", type=int, default=9_999)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name, scan in scans(given.cases, given.seed).items():
        scan(9)
        start = time.process_time()
        scan(given.replicates)
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
