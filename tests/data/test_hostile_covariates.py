"""Covariates in any form: the numbers of plain float64 columns, or a DataError."""

import datetime

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    DataError,
    Design,
    LogisticRegression,
    Normal,
    Surv,
    as_design,
    fit_many,
    kaplan_meier,
    logrank_test,
)

pl = pytest.importorskip("polars")


pa = pytest.importorskip("pyarrow")


N = 12


WHOLE = np.array([1, 0, 2, 1, 3, 0, 1, 2, 0, 1, 4, 1])  # fits into every type of number


DAY = np.timedelta64(1, "D")


FORMS_OF_X = {
    "list": lambda X: X.tolist(),
    "tuples": lambda X: tuple(map(tuple, X.tolist())),
    "matrix": np.asmatrix,
    "fortran": np.asfortranarray,
    "every other": lambda X: np.repeat(X, 2, axis=0)[::2],
    "big endian": lambda X: X.astype(">f8"),
    "objects": lambda X: X.astype(object),
    "int8": lambda X: X.astype(np.int8),
    "uint64": lambda X: X.astype(np.uint64),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "unmasked": lambda X: np.ma.MaskedArray(X),
    "Int64": lambda X: pd.DataFrame(X.astype(int), columns=["a", "b"]).astype("Int64"),
    "boolean": lambda X: pd.DataFrame({"a": X[:, 0], "b": X[:, 1] == 1}).astype({"b": "boolean"}),
    "arrow-backed": lambda X: pd.DataFrame(X, columns=["a", "b"]).astype("double[pyarrow]"),
    "objects in a frame": lambda X: pd.DataFrame(X, columns=["a", "b"]).astype(object),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]),
    "polars decimal": lambda X: pl.DataFrame(X, schema=["a", "b"]).cast(pl.Decimal(10, 2)),
    "arrow": lambda X: pa.table({"a": pa.chunked_array([X[:3, 0], X[3:, 0]]), "b": X[:, 1]}),
    **{
        f"{kind} {dtype.__name__}": (
            lambda X, kind=kind, dtype=dtype: getattr(sparse, f"{kind}_array")(X.astype(dtype))
        )
        for kind in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
        for dtype in (np.float64, np.float32, np.int8, np.uint64, np.longdouble)
    },
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("form", FORMS_OF_X)
def test_x_in_any_form_gives_the_same_numbers_in_fit_and_predict(form):
    X = np.column_stack([WHOLE, WHOLE[::-1] % 2]).astype(float)
    y = [0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0]
    expected = LogisticRegression(prior=Normal()).fit(X, y)
    model = LogisticRegression(prior=Normal()).fit(FORMS_OF_X[form](X), y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)
    np.testing.assert_allclose(
        expected.predict_proba(FORMS_OF_X[form](X)), expected.predict_proba(X), atol=1e-12
    )


def frame(column):
    return pd.DataFrame({"age": np.arange(N) * 1.0, "bad": column})


REFUSED_X = {
    "masked": lambda: np.ma.MaskedArray(np.ones((N, 2)), np.eye(N, 2, dtype=bool)),
    "dates": lambda: np.full((N, 2), np.datetime64("2020-01-01")),
    "durations": lambda: np.full((N, 2), DAY),
    "objects of dates": lambda: np.full((N, 2), datetime.date(2020, 1, 1), object),
    "text": lambda: np.full((N, 2), "1.5"),
    "None": lambda: np.full((N, 2), None),
    "complex": lambda: np.ones((N, 2)) * 1j,
    "ragged": lambda: [[1.0, 2.0]] * (N - 1) + [[1.0]],
    "structured": lambda: np.ones(N, [("a", float), ("b", float)]),
    "one string": lambda: "x",
    "a dictionary": lambda: {"a": [1.0] * N},
    "None itself": lambda: None,
    "vector": lambda: np.ones(N),
    "three-dimensional": lambda: np.ones((N, 2, 2)),
    "no rows": lambda: np.ones((0, 2)),
    "no columns": lambda: np.ones((N, 0)),
    "no rows, sparse": lambda: sparse.csr_array((0, 2)),
    "no columns, sparse": lambda: sparse.csc_array((N, 0)),
    "a sparse vector": lambda: sparse.coo_array(np.ones(N)),
    "complex, sparse": lambda: sparse.csr_array(np.eye(N, 2) * 1j),
    "nan, sparse": lambda: sparse.csr_array(np.eye(N, 2) * np.nan),
    "denormal": lambda: np.full((N, 2), 1e-310),
    "denormal, sparse": lambda: sparse.csr_array(np.eye(N, 2) * 1e-310),
    "huge": lambda: np.full((N, 2), 1e300),
    "frame of dates": lambda: frame(pd.date_range("2020", periods=N)),
    "frame of durations": lambda: frame(pd.to_timedelta(np.arange(N), unit="D")),
    "frame of numbers as text": lambda: frame(list("123456789000")),
    "frame of identifiers": lambda: pd.DataFrame({"bad": [f"id {k}" for k in range(30)]}),
    "frame of one label": lambda: frame(["a"] * N),
    "frame of categories with NA": lambda: frame(pd.Categorical([*"abcdefabcde", None])),
    "frame of text with NA": lambda: frame([*"abcdefabcde", None]),
    "frame with NA": lambda: frame(pd.Series([1, None] * 6, dtype="Int64")),
    "frame with boolean NA": lambda: frame(pd.Series([True, None] * 6, dtype="boolean")),
    "frame with None": lambda: frame([1, None] * 6),
    "frame of objects": lambda: frame(pd.Series([1, None] * 6, dtype=object)),
    "polars dates": lambda: pl.DataFrame({"bad": [datetime.date(2020, 1, 1)] * N}),
    "polars durations": lambda: pl.DataFrame({"bad": [datetime.timedelta(1)] * N}),
    "polars null": lambda: pl.DataFrame({"bad": [1, None] * 6}),
    "polars query": lambda: pl.DataFrame(np.ones((N, 2))).lazy(),
    "arrow null": lambda: pa.table({"bad": [1, None] * 6}),
    "arrow dictionary": lambda: pa.table({"bad": pa.array(["a", None] * 6).dictionary_encode()}),
    "arrow twice": lambda: pa.table([pa.array([1.0] * N)] * 2, names=["bad", "bad"]),
    "pandas twice": lambda: pd.DataFrame(np.ones((N, 2)), columns=["bad", "bad"]),
}


@pytest.mark.parametrize("form", REFUSED_X)
def test_x_that_is_not_of_numbers_is_refused_in_fit_and_predict(form):
    match = "'bad'" if any(w in form for w in ("frame", "polars", "arrow", "twice")) else None
    match = r"collect\(\) it" if "query" in form else match
    y = [0, 1] * 6
    with pytest.raises(DataError, match=match):
        LogisticRegression(prior=Normal()).fit(REFUSED_X[form](), y)
    model = LogisticRegression(prior=Normal()).fit(np.eye(N, 2), y)
    with pytest.raises(DataError):
        model.predict(REFUSED_X[form]())


def test_a_query_is_to_be_collected_wherever_it_is_given():
    y = [0, 1] * 6
    table = pd.DataFrame({"y": y, "g": [0, 0, 1, 1] * 3})
    query, groups = pl.DataFrame(table).lazy(), pl.DataFrame(table[["g"]]).lazy()
    times = Surv(np.arange(1, N + 1), y)
    model = LogisticRegression(prior=Normal())
    for asked in (
        lambda: CoxRegression().fit(np.eye(N, 2), times, strata=groups),
        lambda: CoxRegression().fit(np.eye(N, 2), query),
        lambda: ConditionalLogisticRegression().fit(np.eye(N, 2), y, strata=groups),
        lambda: LogisticRegression.from_formula("y ~ g", query),
        lambda: fit_many(model, np.eye(N, 2), query),
        lambda: Design.from_long(query, rows=y),
        lambda: kaplan_meier(query),
        lambda: kaplan_meier(times, groups=groups),
        lambda: logrank_test(times, groups),
    ):
        with pytest.raises(DataError, match=r"query that has not been run; collect\(\) it"):
            asked()


def broken(kind, attribute, at, value, dtype=np.int32):
    X = getattr(sparse, f"{kind}_array")((np.arange(2 * N).reshape(N, 2) % 3 == 0) * 2.0)
    for name in ("indices", "indptr"):
        if hasattr(X, name):
            setattr(X, name, getattr(X, name).astype(dtype))
    if kind == "coo":
        X.coords = tuple(c.astype(dtype) for c in X.coords)
        X.coords[attribute][at] = value
    else:
        getattr(X, attribute)[at] = value
    return X


@pytest.mark.parametrize("use", ["as_design", "fit", "predict"])
@pytest.mark.parametrize(
    ("kind", "attribute", "at", "value", "dtype"),
    [
        ("csc", "indices", 3, N, np.int32),
        ("csc", "indices", 3, 200, np.int32),
        ("csc", "indices", 3, -1, np.int32),
        ("csc", "indices", 3, 2**31 + 7, np.int64),
        ("csr", "indices", 3, 2, np.int32),
        ("csr", "indices", 0, -7, np.int64),
        ("csr", "indices", 0, 2**31 + 7, np.int64),
        ("coo", 0, 0, N, np.int32),
        ("coo", 0, 2, -1, np.int64),
        ("coo", 1, 2, 2**31 + 7, np.int64),
        ("csc", "indptr", 1, 10**6, np.int64),
        ("csc", "indptr", 2, 10**6, np.int32),
        ("csc", "indptr", 0, 1, np.int32),
        ("csr", "indptr", 4, 0, np.int32),
        ("csr", "indptr", -1, 2**40, np.int64),
        ("csr", "indptr", 2, -5, np.int32),
        ("bsr", "indices", 0, 50, np.int32),
    ],
)
def test_sparse_indices_out_of_range_are_never_read(use, kind, attribute, at, value, dtype):
    X = broken(kind, attribute, at, value, dtype)
    y = [0, 1] * 6
    model = LogisticRegression(prior=Normal()).fit(np.eye(N, 2), y)
    with pytest.raises(DataError, match="not a valid sparse matrix"):
        {"as_design": as_design, "fit": lambda X: model.fit(X, y), "predict": model.predict}[use](X)


def test_a_design_of_blocks_with_indices_out_of_range_is_refused():
    from steropes.design_matrix.column_storage import SparseBlock

    with pytest.raises(DataError, match=r"row number 80, outside 0 … 79"):
        SparseBlock.indicator(80, np.array([0, 1]), np.array([80]))


def test_repeated_entries_of_small_integers_add_up():
    X = sparse.coo_array((np.array([100, 100, 1], np.int8), ([0, 0, 1], [0, 0, 0])), shape=(3, 1))
    assert as_design(X).uncentered().blocks[0].scale[0] >= 64  # 200, which an int8 cannot hold
