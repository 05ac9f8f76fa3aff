"""Tables of person-time that tests of target trials share."""

import numpy as np
import pandas as pd
from scipy.special import expit

ROLES = {"id": "id", "period": "period", "treatment": "treatment", "outcome": "outcome"}
WEIGHTS = {
    "treatment_weights": (["age"], ["age", "x"]),
    "censored": "censored",
    "censoring_weights": (["age"], ["age", "x"]),
}


def simulate(n=250, K=6, seed=0):
    """Person-time with a confounder x that treatment changes, losses, and late eligibility."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        age, x, a = rng.normal(), rng.normal(), 0
        for t in range(K):
            x = 0.5 * x - 0.4 * a + rng.normal()
            a = int(rng.random() < expit(-0.8 + 1.8 * a + 0.5 * x))
            y = int(rng.random() < expit(-2.6 + 0.5 * x + 0.3 * age - 0.4 * a))
            c = int(not y and rng.random() < expit(-3 + 0.4 * x))
            rows.append((i, t, a, y, c, int(t > 0 or i % 5 > 0), age, x))
            if y or c:
                break
    names = ["id", "period", "treatment", "outcome", "censored", "eligible", "age", "x"]
    return pd.DataFrame(rows, columns=names)
