"""Directions that order rows like their outcomes are found exactly when they exist."""

import numpy as np
import pytest
from scipy import optimize, sparse

from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.solve.separation.cumulative_model_separation import ordering_direction


def rows_of(X):
    return as_design(X).by_rows(np.arange(X.shape[1]), None, get_backend("cpu", 1))


def around(rng, n, K, censored):
    """Thresholds around n outcomes of K + 1 levels, some of which cover several."""
    up = rng.integers(0, K + 1, n)
    low = up - 1
    if censored:
        wide = rng.random(n) < 0.4
        low = np.where(wide, np.maximum(low - rng.integers(0, K + 1, n), -1), low)
        up = np.where(wide, np.minimum(up + rng.integers(0, K + 1, n), K), up)
    return low, up


def best_by_all_pairs(X, low, up):
    """What pairs of rows gain along d, |d| ≤ 1, at most, if none is in the wrong order."""
    i, j = np.nonzero(up[:, None] <= low[None, :])
    D = X[j] - X[i]
    found = optimize.linprog(-D.sum(axis=0), -D, np.zeros(len(D)), bounds=[(-1, 1)] * X.shape[1])
    assert found.status == 0
    return -found.fun


@pytest.mark.sampled
@pytest.mark.parametrize("censored", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_a_direction_is_found_exactly_where_all_pairs_of_rows_allow_one(storage, censored):
    answers = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(5, 40)), int(rng.integers(1, 5))
        X = rng.normal(size=(n, k)) * (rng.random((n, k)) < 0.5)
        low, up = around(rng, n, 3, censored)
        if seed % 2:  # in order by a sum of columns, within its levels
            z = X.sum(axis=1)
            up = np.searchsorted(np.quantile(z, [0.3, 0.6]), z)
            low = up - 1
        d = ordering_direction(rows_of(storage(X)), low, up, np.ones(k))
        there = best_by_all_pairs(X, low, up) > 1e-6
        answers.add(there)
        assert (d is not None) == there
        if d is not None:
            i, j = np.nonzero(up[:, None] <= low[None, :])
            d = d / as_design(storage(X)).scale  # of the columns as they are
            gaps = (X[j] - X[i]) @ d
            assert gaps.min() > -1e-8 * np.abs(d).sum()
            assert gaps.max() > 0.1
    assert answers == {True, False}


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_rows_tied_but_for_rounding_are_in_order_and_nearly_tied_ones_are_not(unit):
    rng = np.random.default_rng(0)
    x = unit * (np.arange(30) >= 10)[:, None]
    up = np.where(np.arange(30) >= 10, np.arange(30), rng.permutation(30) % 10)
    up = np.minimum(up, 20)
    tied = x * (1 + 1e-13 * rng.normal(size=(30, 1)))
    assert ordering_direction(rows_of(tied), up - 1, up, np.ones(1)) is not None
    assert ordering_direction(rows_of(tied), up - 1, up, np.full(1, unit)) is not None
    apart = x + unit * 1e-6 * rng.normal(size=(30, 1))
    assert ordering_direction(rows_of(apart), up - 1, up, np.ones(1)) is None


def test_outliers_do_not_hide_rows_in_the_wrong_order():
    x = np.array([-1e12, 0.0, 2.0, 1.0, 3.0, 1e12])[:, None]
    up = np.arange(6)
    assert ordering_direction(rows_of(x), up - 1, up, np.ones(1)) is None
    x[2:4] = x[3:1:-1].copy()
    assert ordering_direction(rows_of(x), up - 1, up, np.ones(1)) is not None


def test_rows_without_thresholds_are_not_compared():
    x = np.array([0.0, 5.0, 1.0, 2.0])[:, None]
    low, up = np.array([-1, -1, 0, 1]), np.array([0, 2, 1, 2])
    assert ordering_direction(rows_of(x), low, up, np.ones(1)) is not None
    nothing = np.full(4, -1), np.full(4, 2)
    assert ordering_direction(rows_of(x), *nothing, np.ones(1)) is None
