"""Small data with ties, shared by this room's tests."""

import numpy as np
import pytest


@pytest.fixture
def data():
    rng = np.random.default_rng(11)
    n = 120
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n), rng.normal(20, 2, n)])
    y = np.round(np.exp(X @ [0.8, -0.6, 0.1] + rng.logistic(size=n)), 0)
    return X, y
