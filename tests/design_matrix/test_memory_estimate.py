"""What a fit will take is told before it starts, and what is too large is refused."""

from functools import partial
from itertools import count

import numpy as np
import pytest
from scipy import sparse

import steropes
from steropes import DataError, Laplace, ShardedDesign
from steropes.backends import get_backend
from steropes.design_matrix import memory_estimate


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    few = sparse.csc_array(rng.random((5000, 40)) < 0.1)
    return sparse.hstack([few, sparse.csc_array(rng.normal(size=(5000, 2)))]).tocsc()


def test_memory_is_that_of_the_arrays(X):
    design = steropes.as_design(X)
    told = design.estimate(sparse=False)
    rows = design.by_rows(np.arange(42), None, get_backend("cpu", 1))
    lines = rows.lines
    held = sum(a.nbytes for a in (lines.starts, lines.ends, lines.indices, lines.data, rows.dense))
    assert told.parts["rows"] == pytest.approx(held, rel=0.25)
    assert told.parts["hessian"] == 16 * 42**2
    assert told.x == pytest.approx(4 * X[:, :40].nnz + 16 * 5000)
    assert told.memory == sum(told.parts.values())
    assert told.working_set == 42
    assert "in addition to X" in str(told)


def test_folds_and_columns_cost_more(X, monkeypatch):
    # Each trial of the machine takes a second by this clock.
    ticks = partial(memory_estimate.estimate, clock=count().__next__)
    monkeypatch.setattr(memory_estimate, "estimate", ticks)
    design = steropes.as_design(X)
    one, folds = design.estimate(), design.estimate(folds=10)
    assert folds.memory > one.memory
    assert folds.seconds > one.seconds
    assert design.estimate(working_set=5).memory < one.memory
    draws = design.estimate(draws=1000)
    assert draws.seconds > one.seconds
    assert draws.parts["vectors"] < 9 * one.parts["vectors"]  # some at a time, however many
    with pytest.raises(DataError, match="draws must be"):
        design.estimate(draws=-1)


def test_dense_columns_are_held_more_than_once():
    X = np.random.default_rng(0).normal(size=(1000, 20))
    told = steropes.as_design(X).estimate()
    assert told.x == X.nbytes
    assert told.parts["dense"] == 3 * X.nbytes


def test_blocks_are_estimated_as_the_whole(X):
    whole = steropes.as_design(X).estimate()
    blocks = ShardedDesign.from_blocks([X[:2000], X[2000:]]).estimate()
    assert blocks.parts == whole.parts


def test_a_fit_that_memory_cannot_hold_is_refused_with_three_ways_out(X, monkeypatch):
    y = np.arange(5000) % 2
    monkeypatch.setattr("steropes.models.fitting.fit_steps.free_memory", lambda: 4e5)
    with pytest.raises(DataError, match=r"sample of rows .* client=client.* folder=folder"):
        steropes.LogisticRegression().fit(X, y)
    monkeypatch.setattr("steropes.models.fitting.fit_steps.free_memory", lambda: 1e9)
    assert steropes.LogisticRegression(prior=Laplace(0.01)).fit(X, y).converged_
