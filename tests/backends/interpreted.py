"""Cases for the kernels as plain Python, where an index out of bounds is an error.

`test_bounds.py` runs them with Numba's compiler off. What `numpy.empty` gives is filled with noise:
a result that depends on it has read what nobody wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import close, random_case
from numba import config

from steropes.backends.cpu import CpuBackend

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import device_check

assert config.DISABLE_JIT, "these cases need NUMBA_DISABLE_JIT=1 before Numba is imported"


@pytest.fixture
def noise(monkeypatch):
    """A switch: which noise new memory is filled with; None leaves it as it is."""
    kind = [None]

    def filled(make):
        def made(*args, **kwargs):
            x = make(*args, **kwargs)
            if kind[0] is not None and x.dtype.kind in "fc":
                x.fill(kind[0])
            return x

        return made

    monkeypatch.setattr(np, "empty", filled(np.empty))
    monkeypatch.setattr(np, "empty_like", filled(np.empty_like))
    return kind


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("valued", [False, True])
@pytest.mark.parametrize("B", [1, 4, 8])
@pytest.mark.parametrize("order", ["C", "F"])
def test_nothing_is_too_small(noise, n, k, valued, B, order):
    """No rows, no columns, empty segments; and arrays that are not contiguous."""
    noise[0] = np.nan
    backend = CpuBackend(1)
    case = random_case(3, n, k, 0.5, valued, False)
    x, rng = case.dense, case.rng
    D, R = np.array(rng.random((k, B)), order=order), np.array(rng.random((n, B)), order=order)
    close(backend.gather(case.lines, D), x @ D)
    close(backend.gather(case.columns, R), x.T @ R)
    close(backend.scatter(case.lines, R), x.T @ R)
    for rough in (False, True):
        G = np.zeros((k, k))
        backend.gram(case.lines, np.ones(n), G, 0, rough)
        close(G, np.tril(x.T @ x))
    runs = np.array([0, 0, n, n])
    sums = np.stack([np.zeros(k), x.sum(axis=0), np.zeros(k)])
    close(backend.line_sums(case.lines, np.ones(n), runs), sums)
    G = np.zeros((k, k))
    backend.gram_groups(case.lines, np.ones(n), runs, np.arange(n) == n - 1, np.ones(n), G)
    close(G, -np.tril(np.outer(sums[1], sums[1])))
    close(backend.scan(R, runs), np.cumsum(R, axis=0))
    close(backend.scan(R, runs, True), np.cumsum(R[::-1], axis=0)[::-1])
    whole = np.stack([np.zeros(B), R.sum(axis=0), np.zeros(B)])
    close(backend.segment_sum(R, runs), whole)
    close(backend.range_sum(R, runs[:-1], runs[1:]), whole)
    scale = np.zeros((3, B))
    scale[1] = n > 0
    close(backend.segment_softmax(R, np.ones((n, B)), runs, scale)[1].sum(axis=0), scale[1])
    close(backend.sum_rows(lambda r: (r, r), R)[0], whole[1])
    for position, m in ((np.arange(n), n), (np.full(n, -1), 0)):
        rows = backend.to_rows([(case.columns, np.arange(k))], position, m, k)
        close(backend.gather(rows, D), x[:m] @ D)
    none = case.columns.take(np.empty(0, np.int64))
    assert backend.to_rows([(none, np.empty(0, np.int64))], np.arange(n), n, 0).nnz == 0


@pytest.mark.parametrize("case", device_check.cases(None)[::29], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_fits_read_only_what_was_written(noise, case):
    X, y, data = device_check.simulate(case, 30, 3, 0.4)
    digits = []
    for noise[0] in (None, np.nan, 1e3):
        m = device_check.model(case, "cpu").set_params(n_jobs=1, max_iter=10)
        m.fit(X, y, **data)
        digits.append((np.asarray(m.coef_).tobytes(), m.log_likelihood_))
    assert digits[0] == digits[1] == digits[2]
