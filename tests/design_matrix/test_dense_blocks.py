"""Several dense blocks, whose columns are chosen in any order."""

import pickle

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes.backends import get_backend
from steropes.design_matrix import Design, RowMatrix, as_design
from steropes.design_matrix.column_storage import DenseBlock
from steropes.fit import Problem
from steropes.likelihoods.cumulative import CumulativeLikelihood, Interval


def two_blocks(X, k):
    return Design([*as_design(X[:, :k].copy()).blocks, *as_design(X[:, k:].copy()).blocks])


def test_dense_columns_are_in_the_order_they_were_chosen_in(rng):
    X = rng.normal(size=(50, 7))
    design = two_blocks(X, 3)
    chosen = np.array([5, 0, 4, 2, 6, 1])
    for order in (None, rng.permutation(50)[:40]):
        rows = RowMatrix(design, chosen, order, get_backend("cpu", 1))
        expected = (X / design.scale)[slice(None) if order is None else order][:, chosen]
        np.testing.assert_array_equal(rows.dense_at, np.arange(6))
        np.testing.assert_allclose(rows.between(0, rows.n), expected)
        v = rng.random(rows.n)
        np.testing.assert_allclose(rows.gram(v), (expected.T * v) @ expected)


@pytest.mark.parametrize("first", [0, 3])
def test_thresholds_are_eliminated_from_the_same_columns(rng, first):
    X, y = rng.normal(size=(80, 6)), rng.integers(0, 9, 80).astype(float)
    chosen = np.array([0, 1, 4, 5, 2])  # as where a column of the first block joins later
    found = []
    for design in (as_design(X), two_blocks(X, 3)):
        used, backend = np.ones(80, bool), get_backend("cpu", 1)
        likelihood = CumulativeLikelihood(Interval(y, None), "cloglog", used, backend)
        problem = Problem(design, likelihood, np.ones(80), None, None, design.names)
        term = problem.term()
        for j in chosen:
            term.join(np.array([j]))
        found.append(term.curvature(0).matrix(first)[first:])
    np.testing.assert_allclose(*found, rtol=1e-10)


def test_fits_of_tables_centre_their_own_copy_alone():
    """A table is copied once and centred in place; a design of the user stays as it is."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(50, 2, 300), "b": rng.normal(size=300)})
    y = (rng.random(300) < 0.4).astype(int)
    before, design = table.copy(), as_design(table)
    values = design.blocks[0].values.copy()
    fits = [steropes.LogisticRegression().fit(X, y) for X in (table, design, table.to_numpy())]
    pd.testing.assert_frame_equal(table, before)
    np.testing.assert_array_equal(design.blocks[0].values, values)
    assert not design.fresh
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, rtol=1e-10)


def test_all_columns_of_a_block_are_not_copied():
    block = as_design(np.eye(3) + 1.0).blocks[0]
    assert block.taken(np.arange(3)) is block.values
    assert block.taken(np.arange(2)).base is block.values


def test_columns_behind_an_intercept_are_stored_by_row_once(rng):
    design = as_design(rng.normal(size=(50, 3)) + 5)
    led = design.centered(led=True).with_intercept()
    plain = design.centered().with_intercept()
    backend, every = get_backend("cpu", 1), np.arange(4)
    rows = led.by_rows(every, None, backend)
    np.testing.assert_array_equal(rows.dense, plain.by_rows(every, None, backend).dense)
    assert np.shares_memory(rows.dense, led.blocks[1].values)
    assert not np.shares_memory(led.by_rows(every[:3], None, backend).dense, rows.dense)
    order = np.arange(50)[::-1].copy()
    np.testing.assert_array_equal(led.by_rows(every, order, backend).dense, rows.dense[::-1])
    again = led.uncentered().by_rows(every, None, backend).dense
    np.testing.assert_allclose(again, plain.uncentered().by_rows(every, None, backend).dense)
    assert len(pickle.dumps(led)) < 1.2 * len(pickle.dumps(plain))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("counted", [None, np.arange(700) % 3 > 0])
def test_columns_are_scaled_as_by_numpy_in_any_order_of_memory(rng, order, counted):
    """Far from zero, near the limits of floats, constant in the rows that count, and zero."""
    X = rng.normal(size=(700, 6)) * [1, 1e-305, 1e300, 1, 0, 1] + [0, 0, 0, 1e6, 0, 5]
    used = np.ones(700, bool) if counted is None else counted
    X[used, 5] = 3.1
    X = np.asarray(X, order=order)
    before = X.copy()
    block = DenseBlock.standardized(X, True, counted, led=True)
    np.testing.assert_array_equal(X, before)
    assert (np.log2(block.scale) % 1 == 0).all()
    np.testing.assert_allclose(block.center, X[used].mean(axis=0), rtol=1e-12, atol=1e284)
    z = X / block.scale - block.center / block.scale
    np.testing.assert_allclose(block.values[:, :5], z[:, :5], rtol=1e-6, atol=1e-9)
    sizes = np.sqrt((block.values[used] ** 2).mean(axis=0))
    assert ((sizes[:4] > 0.7) & (sizes[:4] < 1.42)).all()
    assert not block.values[used, 4:].any()
    np.testing.assert_array_equal(block.led[:, 0], 1)


def test_weighted_products_of_many_columns_allow_negative_weights(rng):
    X, v = rng.normal(size=(3000, 40)), rng.normal(size=3000)
    rows = as_design(X).by_rows(np.arange(40), None, get_backend("cpu", 1))
    Z = rows.between(0, 3000)
    for w in (v, abs(v)):
        np.testing.assert_allclose(rows.gram(w), (Z.T * w) @ Z, rtol=1e-10, atol=1e-10)
