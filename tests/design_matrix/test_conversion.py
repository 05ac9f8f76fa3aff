"""Whatever X comes as, the design is the same matrix and the input is left alone."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from simulators import mixed_matrix
from steropes import DataError, Design, LogisticRegression, Normal, as_design
from steropes.backends import get_backend
from steropes.design_matrix import RowMatrix


def dense(design):
    """The matrix that a design stands for, in the user's units."""
    backend = get_backend("cpu", 1)
    columns = [design.matmul((e * design.scale)[:, None], backend)[:, 0] for e in np.eye(design.p)]
    return np.column_stack(columns) + design.center


FORMS = {
    "array": lambda X: X,
    "fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32).astype(np.float64),
    "list": lambda X: X.tolist(),
    "csr_matrix": sparse.csr_matrix,
    "csc_matrix": sparse.csc_matrix,
    "coo_matrix": sparse.coo_matrix,
    "csr_array": sparse.csr_array,
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "lil_array": sparse.lil_array,
    "pandas": lambda X: pd.DataFrame(X),
    "polars": lambda X: pytest.importorskip("polars").DataFrame(
        X, schema=[f"x{j}" for j in range(X.shape[1])]
    ),
    "pyarrow": lambda X: pytest.importorskip("pyarrow").table(
        {f"x{j}": X[:, j] for j in range(X.shape[1])}
    ),
    "design": lambda X: as_design(X),
}


def int64(X):
    X = sparse.csc_array(X)
    return sparse.csc_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    )


@pytest.mark.parametrize("form", [*FORMS, "int64"])
@pytest.mark.parametrize("kind", ["mixed", "indicators"])
def test_every_form_of_x_is_the_same_matrix(rng, form, kind):
    X = mixed_matrix(rng, 40, 7) if kind == "mixed" else (rng.random((40, 7)) < 0.3) * 1.0
    given_ = int64(X) if form == "int64" else FORMS[form](X)
    design = as_design(given_)
    np.testing.assert_allclose(
        dense(design), X.astype(np.float32) if form == "float32" else X, rtol=1e-13
    )


@pytest.mark.parametrize("form", [*FORMS, "int64"])
def test_every_form_of_x_gives_the_same_fit(rng, form):
    X = mixed_matrix(rng, 60, 5).astype(np.float32).astype(np.float64)
    y = rng.integers(0, 2, 60)
    given_ = int64(X) if form == "int64" else FORMS[form](X)
    a = LogisticRegression(prior=Normal()).fit(X, y)
    b = LogisticRegression(prior=Normal()).fit(given_, y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(given_), atol=1e-9)


def parts(X):
    """The arrays that an input is made of."""
    if sparse.issparse(X):
        return [X.row, X.col, X.data] if X.format == "coo" else [X.indptr, X.indices, X.data]
    return [X]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "form", ["array", "fortran", "csr_matrix", "csc_array", "coo_array", "int64"]
)
def test_nothing_passed_in_is_modified(rng, form):
    X = mixed_matrix(rng, 50, 6)
    X[:, 0] = 1.0 * (X[:, 0] > 0)
    X = int64(X) if form == "int64" else FORMS[form](X)
    y, w, o = rng.integers(0, 2, 50), rng.random(50), rng.normal(size=50)
    held = [*parts(X), y, w, o]
    before = [x.tobytes() for x in held]
    for x in held:
        x.flags.writeable = False
    LogisticRegression(prior=Normal(), cv=3, random_state=0).fit(X, y, sample_weight=w, offset=o)
    assert [x.tobytes() for x in held] == before


def test_duplicates_explicit_zeros_and_any_order_of_entries_are_one_matrix():
    rows = np.array([3, 1, 3, 0, 2, 1])
    columns = np.array([1, 0, 1, 1, 0, 1])
    values = np.array([1.0, 2.0, 0.5, -1.0, 0.0, 4.0])
    coo = sparse.coo_array((values, (rows, columns)), shape=(4, 2))
    before = values.copy(), rows.copy(), columns.copy()
    np.testing.assert_array_equal(dense(as_design(coo)), coo.toarray())
    csc = coo.tocsc()
    csc.indices[:2] = csc.indices[:2][::-1]  # unsorted
    csc.data[:2] = csc.data[:2][::-1]
    np.testing.assert_array_equal(dense(as_design(csc)), csc.toarray())
    for x, y in zip(before, (values, rows, columns), strict=True):
        np.testing.assert_array_equal(x, y)


def canonical_indicators(rng):
    X = sparse.csc_array((rng.random((50, 4)) < 0.3).astype(float))
    X.indices = X.indices.astype(np.int32)
    return X


def test_a_design_keeps_nothing_of_the_matrix_that_it_was_made_of(rng):
    X = canonical_indicators(rng)
    X.indptr = X.indptr.astype(np.int64)
    design, before = as_design(X), X.toarray()
    X.indices[:] = 0
    X.indptr[:] = 0
    np.testing.assert_array_equal(dense(design), before)


def test_a_canonical_indicator_matrix_is_not_copied_where_asked(rng):
    X = canonical_indicators(rng)
    design = as_design(X, copy=False)
    assert np.shares_memory(design.blocks[0].indices, X.indices)
    assert design.blocks[0].data.size == 0


def test_a_large_dense_input_that_is_mostly_zero_is_stored_sparse(rng):
    X = (rng.random((20_000, 60)) < 0.02).astype(float)
    design = as_design(X)
    assert design.nnz == np.count_nonzero(X)


def sparse_frame(**columns):
    return pd.DataFrame(
        {k: pd.arrays.SparseArray(v[0], fill_value=v[2]) for k, v in columns.items()}
    )


def test_sparse_columns_of_pandas_are_not_made_dense(rng):
    M = sparse.random(300, 40, density=0.02, random_state=1, format="csc")
    design = as_design(pd.DataFrame.sparse.from_spmatrix(M))
    assert design.nnz == M.nnz
    np.testing.assert_array_equal(dense(design), M.toarray())


def test_a_frame_may_mix_dense_columns_with_sparse_ones_of_any_fill(rng):
    x = np.where(rng.random((30, 4)) < 0.5, 0.0, np.round(rng.normal(size=(30, 4)), 1))
    frame = sparse_frame(
        a=(x[:, 0], None, 0.0), b=(x[:, 1], None, 1.5), c=(x[:, 2] > 0, None, False)
    )
    frame.insert(1, "dense", x[:, 3])
    before = frame.copy(deep=True)
    expected = np.column_stack([x[:, 0], x[:, 3], x[:, 1], x[:, 2] > 0])
    np.testing.assert_array_equal(dense(as_design(frame)), expected)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("fill", [0.0, np.nan])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_missing_value_of_a_sparse_column_is_named(fill, value):
    x = np.array([0.0, 0.0, value, 1.0])
    with pytest.raises(DataError, match="column 'a', row 2"):
        as_design(sparse_frame(a=(x, None, fill)))


def test_empty_columns_and_a_single_row_are_designs():
    X = sparse.csc_array((3, 5))
    np.testing.assert_array_equal(dense(as_design(X)), np.zeros((3, 5)))
    np.testing.assert_array_equal(dense(as_design([[1.0, 0.0, -2.0]])), [[1.0, 0.0, -2.0]])


@pytest.mark.parametrize("size", [1e-100, 1e-150, 1e100, 1e150])
@pytest.mark.parametrize("form", ["array", "csc_array"])
def test_columns_of_any_unit_are_stored_near_one(size, form):
    X = np.array([[1.0, 0.0], [2.0, 3.0], [0.0, -1.0]]) * [size, 1.0]
    design = as_design(FORMS[form](X))
    np.testing.assert_allclose(dense(design), X, rtol=1e-14)
    assert 1e-3 < np.abs(dense(design) / design.scale).max() < 1e3


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))
def test_products_are_those_of_the_dense_matrix(seed, n, p, B):
    rng = np.random.default_rng(seed)
    X = mixed_matrix(rng, n, p)
    X[:, rng.random(p) < 0.2] = 0
    backend = get_backend("cpu", 2)
    lanes = backend.lanes(B)
    D, R = rng.normal(size=(p, lanes)), rng.normal(size=(n, lanes))
    for x in (X, sparse.csc_array(X)):
        design = as_design(x)
        scaled = X / design.scale
        np.testing.assert_allclose(design.matmul(D, backend), scaled @ D, atol=1e-11)
        np.testing.assert_allclose(design.rmatmul(R, backend), scaled.T @ R, atol=1e-11)
        chosen = rng.permutation(p)[: rng.integers(1, p + 1)]
        order = rng.permutation(n)
        rows = RowMatrix(design, chosen, order, backend)
        part = scaled[np.ix_(order, chosen)]
        v = rng.random(n)
        k = len(chosen)
        np.testing.assert_allclose(rows.matmul(D[:k]), part @ D[:k], atol=1e-11)
        np.testing.assert_allclose(rows.rmatmul(R), part.T @ R, atol=1e-11)
        np.testing.assert_allclose(rows.gram(v), (part.T * v) @ part, atol=1e-11)
        np.testing.assert_allclose(rows.diagonal(v), (part**2).T @ v, atol=1e-11)
        cuts = np.sort(rng.integers(0, n + 1, 3))
        pointers = np.concatenate([[0], cuts, [n]])
        expected = [(part[a:b].T * v[a:b]).sum(axis=1) for a, b in itertools.pairwise(pointers)]
        np.testing.assert_allclose(rows.sums(v, pointers), expected, atol=1e-11)


def test_a_stream_of_entries_is_the_same_matrix(rng):
    X = (rng.random((30, 5)) < 0.3).astype(float)
    X[:, 2] = 0
    coo = sparse.coo_array(sparse.csc_array(X))
    by = np.lexsort((coo.row, coo.col))
    rows, columns = coo.row[by], coo.col[by]
    batches = [(rows[a : a + 7], columns[a : a + 7]) for a in range(0, len(rows), 7)]
    design = Design.from_entries(iter(batches), 30, list("abcde"))
    np.testing.assert_array_equal(dense(design), X)
    assert design.names == list("abcde")


def test_a_stream_of_entries_is_checked():
    for rows, columns, match in (
        ([0, 0], [1, 0], "sorted"),
        ([1, 1], [0, 0], "without duplicates"),
        ([9], [0], "row 9"),
        ([0], [7], "column 7"),
    ):
        with pytest.raises(DataError, match=match):
            Design.from_entries([(np.array(rows), np.array(columns))], 3, ["a", "b"])


def test_columns_with_the_same_name_are_refused():
    frame = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(DataError, match="'a'"):
        as_design(frame)


@pytest.mark.parametrize("kind", [sparse.csc_array, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("indices", [[0, 1, 9, 0, 2], [9, 1, 0, 0, 2], [0, 1, 2, -1, 2]])
def test_an_index_out_of_range_is_refused_whether_lines_ascend_or_not(kind, indices):
    X = kind((3, 3))
    X.data, X.indptr = np.ones(5), np.array([0, 3, 3, 5], np.int32)
    X.indices = np.array(indices, np.int32)
    minor = "column" if X.format == "csr" else "row"
    with pytest.raises(DataError, match=rf"{minor} number (9|-1), outside 0 … 2"):
        as_design(X)


@pytest.mark.parametrize("form", ["array", "list", "csr_array", "pandas"])
def test_a_matrix_is_not_the_blocks_of_a_design(form):
    with pytest.raises(DataError, match="as_design"):
        Design(FORMS[form](np.eye(3)))
