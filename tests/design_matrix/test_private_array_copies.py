"""What a fit keeps of many row numbers is half as large, and the same when it is asked for."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from steropes import Laplace, LogisticRegression
from steropes.design_matrix import as_design, copy_shared_arrays
from steropes.design_matrix import private_array_copies as module
from steropes.design_matrix.column_storage import SparseBlock
from steropes.design_matrix.private_array_copies import BAND, PackedBlock
from tuning import tune


def block(rng, n, counts, values=False, dtype=np.int32):
    """Columns with so many entries each, the first and last rows of bands among them."""
    edges = np.unique(np.clip(np.arange(0, n + BAND, BAND)[:, None] + [-1, 0, 1], 0, n - 1))
    columns = [
        np.unique(np.concatenate([edges[: min(k, 4)], rng.integers(0, n, k)]))[:k] for k in counts
    ]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    indices = np.concatenate([*columns, np.empty(0)]).astype(dtype)
    if values:
        return SparseBlock.valued(n, indptr, indices, rng.normal(size=len(indices)))
    return SparseBlock.indicator(n, indptr, indices)


@pytest.mark.parametrize("n", [1, 100, BAND - 1, BAND, BAND + 1, 5 * BAND, 300_000])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("at_once", [1, 50, 1 << 20])
def test_row_numbers_come_back(n, values, at_once, rng, monkeypatch):
    tune(monkeypatch, module, "STORAGE", packed_at_once=at_once)
    b = block(rng, n, [3, 0, 1, 2000, 0, 700, 0], values)
    for made in (PackedBlock(b), pickle.loads(pickle.dumps(PackedBlock(b)))):
        assert made.entries == b.entries
        assert "_low" in made.__dict__
        assert made.__dict__["_whole"] is None  # how many there are is known without
        np.testing.assert_array_equal(made.indices, b.indices)
        assert made.indices.dtype == b.indices.dtype
        assert made.__dict__["_whole"] is None  # reading changes nothing
        some = np.array([1, 3])
        lines = made.taken(some)  # and who goes over the columns has them for good
        np.testing.assert_array_equal(lines.starts, b.indptr[some])
        assert made.indices is lines.indices
        assert made.__dict__["_low"] is None
        np.testing.assert_array_equal(made.indices, b.indices)
        np.testing.assert_array_equal(made.data, b.data)
        np.testing.assert_array_equal(made.scale, b.scale)


def test_it_takes_half_the_room(rng):
    b = block(rng, 400_000, [20_000] * 100)
    made = PackedBlock(b)
    room = sum(x.nbytes for x in made.__dict__.values() if isinstance(x, np.ndarray))
    assert room < 0.51 * b.indices.nbytes
    assert PackedBlock.is_for(b)
    assert not PackedBlock.is_for(block(rng, 400_000, [20_000]))  # few
    assert not PackedBlock.is_for(block(rng, 400_000, [20] * 60_000))  # many columns of few rows


def test_only_row_numbers_that_are_the_users_are_packed(rng):
    X = sparse.csc_array((rng.random((20_000, 60)) < 0.95).astype(float))
    shared, own = as_design(X, copy=False), as_design(X)
    assert isinstance(copy_shared_arrays(shared, X).blocks[0], PackedBlock)
    assert copy_shared_arrays(own, X) is own


def test_what_is_asked_of_a_fit_afterwards_is_the_same(rng, monkeypatch):
    n = BAND + 5000
    X = sparse.csc_array(rng.random((n, 6)) < [[0.3, 0.2, 0.5, 0.001, 0.4, 0.1]])
    y = (rng.random(n) < 0.2 + 0.1 * X.toarray()[:, 0]).astype(int)

    def asked(packed):
        model = LogisticRegression(prior=Laplace(0.1, exclude=["x0"])).fit(X.astype(float), y)
        assert any(isinstance(b, PackedBlock) for b in model._problem.design.blocks) == packed
        limits, draws = (
            model.confint(["x0"], method="profile"),
            model.inference.bootstrap(3, random_state=0),
        )
        return limits.to_numpy(), np.asarray(draws.coef)

    plain = asked(False)
    tune(monkeypatch, module, "STORAGE", min_packed_entries=1)
    for before, after in zip(plain, asked(True), strict=True):
        np.testing.assert_array_equal(before, after)
