"""The PyTorch backend on PyTorch's CPU device, and messages where there is no GPU."""

import gc

import numpy as np
import pytest
import torch
from kernel_cases import check, check_grams, random_case

import steropes
from steropes.backends import MIN_GPU_WORK, get_backend, pytorch
from steropes.backends.cpu import NO_DATA, Lines
from steropes.backends.pytorch import device_segment_sums, torch_backend
from steropes.backends.pytorch import device_sparse_matrices as device_sparse_lines
from steropes.backends.pytorch.host_device_transfers import TRANSFERS

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU")


@pytest.fixture
def backend():
    return get_backend("torch-cpu", 1)


@pytest.fixture(params=[256, 3])
def piece(request, monkeypatch):
    """Small data have lines and segments of several pieces if pieces have three rows."""
    monkeypatch.setattr(device_segment_sums, "PIECE", request.param)
    monkeypatch.setattr(device_sparse_lines, "PIECE", request.param)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("seed", range(8))
def test_every_kernel_is_its_definition(backend, seed):
    rng = np.random.default_rng(seed)
    n, density = int(rng.integers(1, 60)), rng.choice([0.0, 0.3, 1.0])
    check(backend, random_case(seed, n, 9, density, seed % 2 > 0, seed % 3 > 0), 1 + seed % 5)


def test_gram_matrices_are_sums_over_panels(backend, monkeypatch):
    monkeypatch.setattr(torch_backend, "PANEL", 40)
    check_grams(backend, random_case(6, 40, 9, 0.4, True, False))


@pytest.mark.parametrize("sizes", [[5000], [3, 1, 0, 700, 2], [1] * 50, [300, 300, 70], [0, 0], []])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("B", [0, 3])
def test_running_sums_restart_in_each_segment(backend, sizes, reverse, B, rng):
    x = rng.normal(size=(sum(sizes), B))
    pointers = np.concatenate([[0], np.cumsum(np.array(sizes, int))])
    got = backend.to_host(backend.scan(backend.asarray(x), pointers, reverse))
    step = -1 if reverse else 1
    for a, b in zip(pointers[:-1], pointers[1:], strict=True):
        np.testing.assert_allclose(got[a:b], np.cumsum(x[a:b][::step], 0)[::step], atol=1e-12)


def test_a_small_segment_does_not_inherit_the_rounding_of_a_large_one(backend):
    x = np.r_[np.full(1000, 1e16), np.full(5, 0.1)][:, None]
    got = backend.to_host(backend.scan(backend.asarray(x), np.array([0, 1000, 1005])))
    np.testing.assert_allclose(got[1000:, 0], 0.1 * np.arange(1, 6), rtol=1e-15)


def test_ranges_may_overlap_and_leave_gaps(backend, rng):
    x = rng.normal(size=(900, 2))
    starts, ends = np.array([0, 10, 5, 500]), np.array([700, 10, 9, 900])
    got = backend.to_host(backend.range_sum(backend.asarray(x), starts, ends))
    for s, (a, b) in enumerate(zip(starts, ends, strict=True)):
        np.testing.assert_allclose(got[s], x[a:b].sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_a_segment_without_weight_has_no_share_of_its_scale(device):
    backend, eta = get_backend(device, 1), np.zeros((5, 1))
    w, pointers = np.array([[1.0], [1.0], [0.0], [0.0], [0.0]]), np.array([0, 2, 4, 4, 5])
    scale = np.array([[1.0], [2.0], [1.0], [0.0]])
    sent = map(backend.asarray, (eta, w))
    found = backend.segment_softmax(*sent, pointers, backend.asarray(scale))
    logs, shares = map(backend.to_host, found)
    np.testing.assert_allclose(logs[:, 0], [np.log(2.0), -np.inf, -np.inf, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(shares[:, 0], [0.5, 0.5, 0.0, 0.0, 0.0])


def test_sets_are_prepared_for_their_cases_not_only_for_their_boundaries(backend):
    pointers, eta = np.array([0, 3, 5]), np.log([[1.0], [2.0], [5.0], [1.0], [3.0]])
    for case, likelihood in (([1, 0, 0, 1, 0], 1 / 32), ([0, 0, 1, 0, 1], 15 / 32)):
        sent = backend.asarray(eta), backend.asarray(np.ones((5, 1)))
        loss, _ = backend.conditional_sets(*sent, np.array(case), pointers)
        np.testing.assert_allclose(backend.to_host(loss), -np.log(likelihood), rtol=1e-12)


def test_host_and_device_never_mix_silently(backend):
    x, y = backend.asarray(np.ones(3)), np.ones(3)
    for mixed in (lambda: x + y, lambda: y + x, lambda: np.exp(x), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"host|[Dd]evice"):
            mixed()
    with pytest.raises(TypeError, match="host"):
        x[:] = y


def test_integers_become_double_precision_as_in_numpy(backend):
    i = backend.asarray(np.array([1, 2, 4]))
    for x in (i / 2, 1 / i, i * 0.5, 1.0 - i, (i > 1) * 2.0, i / i):
        assert x.dtype == np.float64


def test_indexing_is_numpy_s(backend, rng):
    x = rng.normal(size=(40, 5))
    d, mask, at = backend.asarray(x), rng.random(40) < 0.4, rng.integers(0, 40, 30)
    run, host = np.arange(3, 9), backend.to_host
    for key in (mask, at, run, np.ix_(run, np.array([0, 2])), (slice(None), np.array([3, 1])),
                slice(None, None, -1), (slice(2, 9), None), 3, (at, 1)):  # fmt: skip
        np.testing.assert_array_equal(host(d[key]), x[key])
    taken = d[run]
    taken += 1.0  # a copy, as in NumPy
    np.testing.assert_array_equal(host(d), x)
    d[mask] = 0.0
    d[run] += 2.0
    x[mask] = 0.0
    x[run] += 2.0
    np.testing.assert_array_equal(host(d), x)


def test_an_index_array_is_sent_once_and_cannot_change_afterwards(backend):
    d, at = backend.asarray(np.arange(50.0)), np.arange(49, -1, -1)
    d[at]
    sent = TRANSFERS.uploads
    d[at]
    assert TRANSFERS.uploads == sent
    with pytest.raises(ValueError, match="read-only"):
        at[0] = 1


def test_copies_on_the_device_live_as_long_as_their_originals(backend):
    case = random_case(7, 40, 9, 0.4, True, False)
    lines = backend.lines(case.lines)
    sent = TRANSFERS.bytes_up
    assert backend.lines(case.lines) is lines
    some = backend.lines(case.lines.take(np.array([1, 2])))
    assert TRANSFERS.bytes_up == sent
    assert some.indices.tensor is lines.indices.tensor
    pointers = np.array([0, 3, 40])
    backend.segment_sum(backend.asarray(np.ones((40, 1))), pointers)
    before = len(backend._kept)
    del case, pointers, lines, some
    gc.collect()
    assert len(backend._kept) <= before - 4


def test_more_places_than_32_bits_count(backend):
    """n × width is beyond 2³¹, with few entries: the rows are sorted all the same."""
    n, width = 70_000, 40_000
    rows = np.array([0, 5, 53_687, 53_688, n - 1])
    numbers = np.array([0, 7, width // 2, width - 2, width - 1])  # one in each row, from late on
    lines = Lines(np.arange(5), np.arange(1, 6), rows[::-1].astype(np.int32), NO_DATA, n)
    got = backend.to_rows([(lines, numbers)], np.arange(n, dtype=np.int32), n, width)
    starts, ends, indices = (backend.to_host(x) for x in (got.starts, got.ends, got.indices))
    np.testing.assert_array_equal(np.flatnonzero(ends > starts), rows)
    np.testing.assert_array_equal(indices[starts[rows]], numbers[::-1])


@without_gpu
def test_missing_gpu_is_named_with_the_remedy():
    with pytest.raises(steropes.DataError, match=r"GPU, and PyTorch.*pip install 'steropes\[gpu\]"):
        steropes.LogisticRegression(device="cuda").fit([[0.0], [1.0], [2.0]], [0, 1, 0])


@without_gpu
def test_auto_takes_the_cpu_where_there_is_no_gpu():
    assert get_backend("auto", 1).name == "cpu"


def test_auto_takes_a_gpu_for_much_work(monkeypatch):
    monkeypatch.setattr(pytorch, "why_not", lambda device: "")
    assert get_backend("auto", 1, MIN_GPU_WORK).name == "torch"
    assert get_backend("auto", 1, 0.99 * MIN_GPU_WORK).name == "cpu"
    own = steropes.LogisticRegression(prior=steropes.Laplace(), cv=10)
    X = steropes.as_design(np.ones((20, 3)))
    assert own._work(X) == 10 * X.nnz


def test_missing_pytorch_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "PyTorch, which is not installed" in pytorch.why_not("cuda")


def test_devices_without_double_precision_are_refused():
    with pytest.raises(steropes.DataError, match="64 bits; use device='cpu'"):
        steropes.LogisticRegression(device="mps").fit([[0.0], [1.0], [2.0]], [0, 1, 0])


def test_coordinate_descent_is_refused_on_a_device():
    with pytest.raises(steropes.DataError, match="device='cpu'"):
        steropes.LogisticRegression(device="torch-cpu", solver="ccd", prior=steropes.Normal()).fit(
            [[0.0], [1.0], [2.0]], [0, 1, 0]
        )
