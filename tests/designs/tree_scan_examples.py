"""A tree of outcomes with cases, as tests of scans use it."""

from __future__ import annotations

import numpy as np
import pandas as pd

LEAVES = [f"Leaf{i}" for i in range(1, 13)]


TREE = pd.DataFrame(
    {
        "node": [*LEAVES, *(f"Node{i}" for i in range(1, 7))],
        "parent": ["Node1"] * 3 + ["Node2"] * 4 + ["Node3"] * 4 + ["Node4"]
        + ["Node5"] * 2 + ["Node6"] * 2 + ["Root"] * 2,
    }
)  # fmt: skip


# The examples that come with TreeScan (M. Kulldorff, treescan.org).
COUNTS = pd.DataFrame(
    {
        "node": LEAVES,
        "cases": [1, 2, 0, 6, 4, 2, 5, 9, 14, 7, 3, 2],
        "expected": [200, 300, 400, 200, 300, 200, 600, 400, 200, 200, 400, 700],
        "controls": [2, 3, 4, 2, 3, 2, 6, 4, 2, 2, 4, 7],
    }
)


DAYS = {  # cases by day of each leaf
    1: "6 16 23", 2: "7 7 24 25 27", 3: "12 17 22 28", 4: "1 2 4 6 7 7 23 27",
    5: "3 3 3 3 8 11 21", 6: "2 6 17 19", 7: "1 2 6 6 7 9 13 18 22 26 28",
    8: "1 3 3 4 4 4 5 6 6 15 16 22 24", 9: "1 2 3 4 4 4 4 5 5 5 5 5 6 7 7 21 26",
    10: "2 4 4 4 4 5 7 12 26", 11: "4 4 4 14 17 27 27", 12: "6 7 8 11 15 18 21 22 24",
}  # fmt: skip


TIMES = pd.DataFrame(
    [(f"Leaf{leaf}", int(day), 1) for leaf, days in DAYS.items() for day in days.split()],
    columns=["node", "time", "cases"],
)


def people(size=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"person": np.arange(size), "node": rng.choice(LEAVES, size),
                         "exposed": rng.integers(0, 2, size)})  # fmt: skip
