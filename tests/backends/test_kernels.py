"""The CPU's kernels against dense NumPy, and the same digits from any number of threads."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import check, random_case
from numba.core.registry import CPUDispatcher as Dispatcher
from scipy import sparse

from steropes.backends import get_backend, thread_pool
from steropes.backends.cpu import CHUNKS, CpuBackend, CpuPolicy, Lines
from steropes.backends.cpu.sparse import sparse_lines
from steropes.backends.thread_pool import balanced_chunks, count_threads
from steropes.errors import DataError

cases = st.builds(
    random_case,
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 70),
    k=st.integers(1, 30),
    density=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    valued=st.booleans(),
    wide=st.booleans(),
)


@given(
    case=cases,
    B=st.sampled_from([1, 4, 8, 12, 16]),
    n_jobs=st.sampled_from([1, 2]),
    small=st.booleans(),
)
@settings(max_examples=90, deadline=None)
def test_every_kernel_is_its_definition(case, B, n_jobs, small):
    policy = CpuPolicy() if small else CpuPolicy(max_dense_gram_values=0)  # no Gram matrix is small
    check(CpuBackend(n_jobs, policy), case, B)


@pytest.mark.parametrize("B", [2, 3, 5, 7, 9, 13])
def test_a_product_of_a_width_that_no_register_has_is_refused(B):
    """The kernels would read and write beyond the arrays."""
    backend, case = CpuBackend(1), random_case(0, 30, 10, 0.4, True, False)
    with pytest.raises(ValueError, match=rf"need {backend.lanes(B)} columns in place of {B}"):
        backend.gather(case.lines, np.ones((10, B)))
    with pytest.raises(ValueError, match=rf"need {backend.lanes(B)} columns in place of {B}"):
        backend.scatter(case.lines, np.ones((30, B)))


def refuses_wrong_shapes(backend, case):
    """Kernels would read and write beyond the arrays."""
    lines, asarray = backend.lines(case.lines), backend.asarray
    n, k = case.dense.shape
    ones, G, runs = asarray(np.ones(n)), asarray(np.zeros((k, k))), np.array([0, n])
    last, short, small = np.arange(n) == n - 1, asarray(np.ones(n - 1)), G[1:, 1:]
    for call in (
        lambda: backend.gram(lines, short, G),
        lambda: backend.gram(lines, ones, small),
        lambda: backend.gram_groups(lines, short, runs, last, ones, G),
        lambda: backend.gram_groups(lines, ones, runs, last, ones, small),
        lambda: backend.line_sums(lines, short, runs),
        lambda: backend.line_sums(lines, ones, np.array([0, n + 1])),
        lambda: backend.gather(lines, asarray(np.ones((k - 1, 4)))),
        lambda: backend.scatter(lines, asarray(np.ones((n - 1, 4)))),
    ):
        with pytest.raises(ValueError, match=r"Sums over|A Gram matrix|This product needs"):
            call()


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_sums_of_lines_refuse_arrays_of_other_shapes(device):
    if device != "cpu":
        pytest.importorskip("torch")
    refuses_wrong_shapes(get_backend(device, 1), random_case(0, 30, 10, 0.4, True, False))


@pytest.mark.sampled
@pytest.mark.parametrize("B", [1, 8, 12, 16])
def test_few_entries_in_one_chunk_give_the_digits_of_many_chunks(B, monkeypatch):
    rng = np.random.default_rng(B)
    n, k = 400, 30
    X = sparse.random_array((n, k), density=0.1, format="csr", rng=rng)
    lines = Lines(X.indptr[:-1], X.indptr[1:], X.indices, X.data, k)
    R, D, v = rng.normal(size=(n, B)), rng.normal(size=(k, B)), rng.random(n)
    pointers = np.sort(np.append(rng.integers(0, n, 50), [0, n]))
    backend = CpuBackend(1)
    numbers = []

    def everything(few):
        monkeypatch.setattr(thread_pool, "FEW", few)
        numbers.append(thread_pool.number_of_chunks(n * B))
        return [
            backend.gather(lines, D),
            backend.line_sums(lines, v, pointers),
            backend.scan(R, pointers),
            backend.segment_sum(R, pointers),
            *backend.segment_softmax(R, np.abs(R), pointers, np.ones((len(pointers) - 1, B))),
        ]

    for one, many in zip(everything(1 << 16), everything(0), strict=True):
        np.testing.assert_array_equal(one, many)
    assert numbers == [1, CHUNKS]


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.sampled
@pytest.mark.parametrize("B", [1, 4, 8, 12, 16])
def test_two_threads_give_the_digits_of_one(B):
    """Large enough for many chunks of every kind."""
    rng = np.random.default_rng(B)
    n, k = 3 * CpuPolicy().chunk_rows, 60
    X = sparse.random_array((n, k), density=0.05, format="csr", rng=rng)
    sparse_lines = Lines(X.indptr[:-1], X.indptr[1:], X.indices, X.data, k)
    R, D = rng.normal(size=(n, B)), rng.normal(size=(k, B))
    v, c = rng.random(n), rng.random(n) * (rng.random(n) < 0.01)
    pointers = np.sort(np.append(rng.integers(0, n, 3 * CHUNKS), [0, n]))

    def everything(backend):
        G, H = np.zeros((k, k)), np.zeros((k, k))
        backend.gram(sparse_lines, v, G)
        backend.gram_groups(sparse_lines, v, pointers, c != 0, c, H)
        return [
            backend.gather(sparse_lines, D),
            backend.scatter(sparse_lines, R),
            G,
            H,
            backend.line_sums(sparse_lines, v, pointers),
            backend.scan(R, pointers),
            backend.scan(R, pointers, True),
            backend.segment_sum(R, pointers),
            *backend.segment_softmax(R, np.abs(R), pointers, np.ones((len(pointers) - 1, B))),
            backend.sum_rows(lambda x: (x, np.exp(x)), R)[0],
            backend.map_rows(lambda x: (np.exp(x),), R)[0],
        ]

    one, two = everything(CpuBackend(1)), everything(CpuBackend(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("B", [1, 8, 12])
def test_a_long_product_goes_by_bands_of_its_rows(valued, n_jobs, B):
    policy = CpuPolicy(max_partial_bytes=0, max_band_rows=64)
    rng = np.random.default_rng(3)
    X = sparse.random_array((1_000, 5), density=0.4, format="csc", rng=rng)
    X.sort_indices()
    if not valued:
        X.data[:] = 1.0
    data = X.data if valued else np.empty(0)
    columns = Lines(X.indptr[:-1], X.indptr[1:], X.indices, data, 1_000)
    d = rng.normal(size=(5, B))
    product = CpuBackend(n_jobs, policy).scatter(columns, d)
    np.testing.assert_allclose(product, X.toarray() @ d, rtol=1e-12, atol=1e-15)
    assert not product[np.diff(X.tocsr().indptr) == 0].any()


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("B", [12, 16, 20])
def test_many_replicates_have_the_numbers_of_each_alone(B, dtype, rng):
    X = sparse.random_array((300, 40), density=0.2, format="csr", rng=rng)
    rows = Lines(X.indptr[:-1], X.indptr[1:], X.indices, X.data, 40)
    D, R = rng.normal(size=(40, B)).astype(dtype), rng.normal(size=(300, B)).astype(dtype)
    backend = CpuBackend(1)
    four = [slice(a, a + 4) for a in range(0, B, 4)]
    apart = [np.hstack([f(rows, x[:, at]) for at in four])
             for f, x in ((backend.gather, D), (backend.scatter, R))]  # fmt: skip
    np.testing.assert_array_equal(backend.gather(rows, D), apart[0])
    np.testing.assert_array_equal(backend.scatter(rows, R), apart[1])


def test_many_columns_need_wider_numbers(monkeypatch):
    """The local numbers of rows are 16-bit up to 65,535 columns and 32-bit beyond."""
    monkeypatch.setattr(sparse_lines, "FEW", 0)
    for width in (65_535, 65_536):
        columns = Lines(np.arange(width), np.arange(1, width + 1), np.arange(width) % 3,
                        np.empty(0), 3)  # fmt: skip
        rows = CpuBackend(1).to_rows([(columns, np.arange(width))], np.arange(3), 3, width)
        np.testing.assert_array_equal(rows.indices[rows.starts[2] : rows.ends[2]].astype(int),
                                      np.arange(2, width, 3))  # fmt: skip


@given(
    work=st.lists(st.integers(0, 50), max_size=40),
    n_chunks=st.integers(1, 20),
)
def test_chunks_cover_all_items_once(work, n_chunks):
    cumulative = np.concatenate([[0], np.cumsum(work, dtype=np.int64)])
    chunks = balanced_chunks(cumulative, n_chunks)
    covered = [i for a, b in chunks for i in range(a, b)]
    assert covered == list(range(len(work)))
    assert all(a < b for a, b in chunks)


def test_settings_are_checked():
    assert count_threads(3) == 3
    assert count_threads(None) == count_threads(-1) >= 1
    with pytest.raises(DataError, match="n_jobs"):
        count_threads(0)
    with pytest.raises(DataError, match="device"):
        get_backend("tpu")


@pytest.mark.parametrize(
    "name",
    [
        "likelihoods.conditional_bernoulli",
        "likelihoods.conditional_third_derivative",
        "sparse.sparse_group_sums",
        "likelihoods.pooled_logistic_kernels",
        "likelihoods.interval_weight_kernels",
        "likelihoods.person_interval_terms",
    ],
)
def test_sums_of_small_strata_are_added_in_one_order(name):
    """With reassociation the order hung on where the heap had room for a stratum's arrays."""
    module = importlib.import_module(f"steropes.backends.cpu.{name}")
    kernels = [x for x in vars(module).values() if isinstance(x, Dispatcher)]
    assert kernels
    for kernel in kernels:
        if kernel.py_func.__module__ == module.__name__:
            assert "reassoc" not in kernel.targetoptions["fastmath"]


@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("first", [0, 30, 299])
def test_gram_of_rare_columns_has_the_bits_of_any_stripes(first, valued, rng):
    """Entries are put in the order of the stripes where most rows have none in each."""
    n, k = 4000, 300
    X = sparse.random_array((n, k), density=0.004, format="csr", rng=rng)
    X = sparse.hstack([X[:, :-1], np.ones((n, 1))], format="csr")
    X.sort_indices()
    rows = Lines(X.indptr[:-1], X.indptr[1:], X.indices, X.data if valued else np.empty(0), k)
    dense = X.toarray() if valued else (X.toarray() != 0).astype(float)
    v = rng.random(n) * (rng.random(n) < 0.8)
    found = []
    for stripe, entries in ((1 << 30, 1 << 20), (512, 1 << 20), (512, 1), (4096, 700)):
        backend = CpuBackend(2, CpuPolicy(gram_stripe_bytes=stripe, gram_entries=entries))
        G = np.zeros((k, k))
        backend.gram(rows, v, G, first)
        found.append(np.tril(G)[first:])
    expected = np.tril(dense.T @ (dense * v[:, None]))[first:]
    np.testing.assert_allclose(found[0], expected, atol=1e-10)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
