"""Small data sets of each family, drawn with a seed."""

from __future__ import annotations

import numpy as np
from scipy import sparse

FAMILIES = ("linear", "logistic", "poisson", "cox")


def mixed_matrix(rng, n, p, density=0.3):
    """Indicator, sparse-valued and dense columns side by side, as a dense array."""
    X = np.zeros((n, p))
    for j in range(p):
        kind = j % 3
        if kind == 0:
            X[:, j] = rng.random(n) < density
        elif kind == 1:
            X[:, j] = (rng.random(n) < density) * rng.normal(size=n)
        else:
            X[:, j] = rng.normal(size=n)
    return X


def indicators(rng, n, p, density=0.1):
    """A CSC matrix of zeros and ones."""
    return sparse.csc_array((rng.random((n, p)) < density).astype(float))


def outcome(family, eta, rng, ties=True):
    """An outcome of the family; Cox's as (time, event), with ties unless told otherwise."""
    n = len(eta)
    if family == "linear":
        return eta + rng.normal(size=n)
    if family == "logistic":
        return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int64)
    if family == "poisson":
        return rng.poisson(np.exp(np.clip(eta, -5, 3))).astype(float)
    time = rng.exponential(np.exp(-eta))
    censor = rng.exponential(2.0, n)
    event = (time <= censor).astype(np.int64)
    time = np.minimum(time, censor)
    if ties:
        time = np.ceil(5 * time)
    event[np.argmin(time)] = 1
    return time, event


def problem(family, rng, n=120, p=7, ties=True, effect=0.6):
    """(X dense, y) with some coefficients at zero."""
    X = mixed_matrix(rng, n, p)
    beta = rng.normal(size=p) * effect * (rng.random(p) < 0.6)
    return X, outcome(family, X @ beta, rng, ties)
