"""A table of people, whose columns formulas name."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    n = 240
    table = pd.DataFrame(
        {
            "time": np.ceil(rng.exponential(10, n)),
            "code": rng.integers(0, 3, n),
            "start": 0.0,
            "drug": rng.integers(0, 2, n),
            "age": rng.uniform(20, 80, n),
            "site": rng.choice(["north", "south", "west"], n),
            "dose level": rng.choice(["a", "b", "c"], n),
            "w": rng.integers(0, 3, n) * 1.0,
            "years": rng.uniform(1, 3, n),
        }
    )
    table["start"] = table["time"] - rng.uniform(0.1, 5, n)
    table["dead"] = (table["code"] == 1).astype(int)
    table["y"] = 0.02 * table["age"] + table["drug"] + rng.normal(size=n)
    table["count"] = rng.poisson(table["years"])
    table["sick"] = np.where(rng.random(n) < 0.4, "yes", "no")
    return table
