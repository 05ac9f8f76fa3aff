"""Random inputs of the kernels and what dense NumPy makes of them, for every backend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steropes.backends.cpu import NO_DATA, Lines

__all__ = ["Case", "check", "random_case"]


@dataclass
class Case:
    """A sparse matrix by lines with its dense form, and everything that goes with it."""

    dense: np.ndarray  # (n, k)
    lines: Lines  # by rows
    columns: Lines
    rng: np.random.Generator


def random_case(seed: int, n: int, k: int, density: float, valued: bool, wide: bool) -> Case:
    rng = np.random.default_rng(seed)
    dense = (rng.random((n, k)) < density).astype(float)
    if valued:
        dense *= rng.normal(size=(n, k))
    index = np.int64 if wide else np.int32
    return Case(dense, _lines(dense, valued, index), _lines(dense.T, valued, index), rng)


def _lines(x: np.ndarray, valued: bool, index) -> Lines:
    line, at = np.nonzero(x)
    count = np.bincount(line, minlength=len(x))
    ends = np.cumsum(count)
    starts = ends - count
    return Lines(starts, ends, at.astype(index), x[line, at] if valued else NO_DATA, x.shape[1])


def pointers_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """Segments of 0 … n rows that cover all rows, some of them empty."""
    inner = np.sort(rng.integers(0, n + 1, rng.integers(0, 6)))
    return np.concatenate([[0], inner, [n]])


def close(got, wanted):
    scale = 1.0 + (np.abs(wanted).max(initial=0.0) if wanted.size else 0.0)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * scale)


def check(backend, case: Case, B: int) -> None:
    """Every operation of the face against its definition."""
    check_products(backend, case, B)
    check_grams(backend, case)
    check_rows(backend, case)
    check_segments(backend, case, B)
    check_elementwise(backend, case, B)


def check_products(backend, case: Case, B: int) -> None:
    send, host = backend.asarray, backend.to_host
    n, k = case.dense.shape
    D, R = case.rng.normal(size=(k, B)), case.rng.normal(size=(n, B))
    rows, columns = backend.lines(case.lines), backend.lines(case.columns)
    close(host(backend.gather(rows, send(D))), case.dense @ D)
    close(host(backend.gather(columns, send(R))), case.dense.T @ R)
    close(host(backend.scatter(rows, send(R))), case.dense.T @ R)
    close(host(backend.scatter(columns, send(D))), case.dense @ D)
    chosen = case.rng.integers(0, n, 5)  # lines in any order, some twice
    taken = backend.lines(case.lines).take(chosen)
    close(host(backend.gather(taken, send(D))), case.dense[chosen] @ D)
    R = case.rng.normal(size=(5, B))
    close(host(backend.scatter(taken, send(R))), case.dense[chosen].T @ R)


def check_grams(backend, case: Case) -> None:
    send, host = backend.asarray, backend.to_host
    n, k = case.dense.shape
    rows = backend.lines(case.lines)
    v, u = case.rng.random(n) * (case.rng.random(n) < 0.8), case.rng.normal(size=n)
    for first in (0, k // 2):
        G = send(np.zeros((k, k)))
        backend.gram(rows, send(v), G, first)
        wanted = np.tril(case.dense.T @ (v[:, None] * case.dense))
        close(host(G)[first:], wanted[first:])
    runs = pointers_of(case.rng, n)
    c = case.rng.random(n) * (case.rng.random(n) < 0.4)
    G = send(np.zeros((k, k)))
    backend.gram_groups(rows, send(u), runs, c != 0, c, G)
    wanted = np.zeros((k, k))
    for a, b in zip(runs[:-1], runs[1:], strict=True):
        m = np.cumsum(u[a:b, None] * case.dense[a:b], axis=0)
        wanted -= m.T @ (c[a:b, None] * m)
    close(host(G), np.tril(wanted))
    sums = backend.line_sums(rows, send(u), runs)
    wanted = [(u[a:b, None] * case.dense[a:b]).sum(axis=0) for a, b in _pairs(runs)]
    close(host(sums), np.array(wanted))


def check_rows(backend, case: Case) -> None:
    """Columns of two blocks, out of order and interleaved, to rows in another order."""
    host = backend.to_host
    n, k = case.dense.shape
    order = case.rng.permutation(n)[: max(1, n - 2)]  # two rows are left out
    position = np.full(n, -1)
    position[order] = np.arange(len(order))
    numbers = np.arange(k)
    if k > 2:
        parts = [numbers[numbers % 3 != 1], numbers[numbers % 3 == 1]]
    else:
        parts = [numbers]
    columns = [(case.columns.take(part), part) for part in parts]
    rows = backend.to_rows(columns, position, len(order), k)
    D = case.rng.normal(size=(k, 8))
    close(host(backend.gather(rows, backend.asarray(D))), case.dense[order] @ D)
    starts, ends, indices = host(rows.starts), host(rows.ends), host(rows.indices)
    for a, b in zip(starts, ends, strict=True):
        assert (np.diff(indices[a:b].astype(int)) > 0).all()  # what `gram` relies on
    first = k // 2
    some, others = (
        backend.to_rows(
            [(case.columns.take(numbers[part]), np.arange(len(numbers[part])))],
            position, len(order), len(numbers[part]),
        )
        for part in (slice(0, first), slice(first, k))
    )  # fmt: skip
    both = backend.append_columns(some, others, first, k)
    close(host(backend.gather(both, backend.asarray(D))), case.dense[order] @ D)
    R = case.rng.normal(size=(len(order), 8))
    close(host(backend.scatter(both, backend.asarray(R))), case.dense[order].T @ R)
    assert rows.nnz == np.count_nonzero(case.dense[order])


def check_segments(backend, case: Case, B: int) -> None:
    send, host = backend.asarray, backend.to_host
    n = len(case.dense)
    x, pointers = case.rng.normal(size=(n, B)), pointers_of(case.rng, n)
    parts = [x[a:b] for a, b in _pairs(pointers)]
    forward = np.concatenate([np.cumsum(p, axis=0) for p in parts])
    backward = np.concatenate([np.cumsum(p[::-1], axis=0)[::-1] for p in parts])
    close(host(backend.scan(send(x), pointers)), forward)
    close(host(backend.scan(send(x), pointers, True)), backward)
    sums = np.array([p.sum(axis=0) for p in parts])
    close(host(backend.segment_sum(send(x), pointers)), sums)
    top = np.array([p.max(axis=0, initial=-np.inf) for p in parts])
    np.testing.assert_array_equal(host(backend.segment_max(send(x), pointers)), top)
    w = case.rng.random((n, B)) * (case.rng.random((n, B)) < 0.7)
    eta, scale = 300.0 * x, case.rng.random((len(parts), B))  # exp(η) overflows by itself
    empty = np.array([w[a:b].max(axis=0, initial=0.0) == 0 for a, b in _pairs(pointers)])
    scale[empty] = 0.0
    lse, shares = backend.segment_softmax(send(eta), send(w), pointers, send(scale))
    lse, shares = host(lse), host(shares)
    for s, (a, b) in enumerate(_pairs(pointers)):
        for q in range(B):
            if empty[s, q]:
                assert lse[s, q] == 0
                assert not shares[a:b, q].any()
                continue
            there = w[a:b, q] > 0
            e = eta[a:b, q][there]
            rate = w[a:b, q][there] * np.exp(e - e.max())
            close(lse[s, q], np.asarray(e.max() + np.log(rate.sum())))
            close(shares[a:b, q][there], scale[s, q] * rate / rate.sum())
            assert not shares[a:b, q][~there].any()
    close(
        host(backend.segment_softmax(send(eta), send(w), pointers, send(scale), False)[0]),
        lse,
    )


def check_elementwise(backend, case: Case, B: int) -> None:
    send, host, xp = backend.asarray, backend.to_host, backend.xp
    n = len(case.dense)
    x, y = case.rng.normal(size=(n, B)), case.rng.normal(size=(n, 1))
    total, (a, b) = backend.sum_rows(lambda x, y: (x * y, xp.exp(x), x > y), send(x), send(y))
    close(host(total), (x * y).sum(axis=0))
    close(host(a), np.exp(x))
    np.testing.assert_array_equal(host(b), x > y)
    (c,) = backend.map_rows(lambda x: (x * 2.0,), send(x))
    close(host(c), 2.0 * x)
    close(host(backend.column_sum(send(x))), x.sum(axis=0))
    eta, w, outcome = 30 * x, case.rng.random((n, B)), (x > 0.3) * 1.0
    loss, slope = backend.logistic(send(eta), send(w), send(outcome))
    p = np.where(eta > 0, 1.0, np.exp(-np.abs(eta))) / (1 + np.exp(-np.abs(eta)))
    close(host(loss), (w * (np.logaddexp(0, eta) - outcome * eta)).sum(axis=0))
    close(host(slope), w * (p - outcome))


def _pairs(pointers):
    return list(zip(pointers[:-1], pointers[1:], strict=True))
