"""Sparse covariates of two groups that differ in the first ones."""

import numpy as np
import scipy.sparse as sp


def confounded(n, p, seed=0, density=0.05):
    """Sparse 0/1 covariates and a treatment that depends on the first ones."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, p), density=density, rng=rng, format="csc")
    X.data[:] = 1.0
    eta = -0.5 + X[:, :5] @ np.array([1.0, -1.0, 0.8, -0.6, 0.5])
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
