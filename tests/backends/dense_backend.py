"""A backend of a screenful: every operation by its definition, in dense NumPy on the host.

What a backend owes is `steropes.backends.backend_interface.Backend`; this is all of it. Sparse
matrices are the CPU backend's `Lines`, which any backend may use that leaves X on the host.
"""

from __future__ import annotations

import numpy as np

from steropes.backends.cpu import NO_DATA, Lines
from steropes.backends.thread_pool import ThreadPool

__all__ = ["DenseBackend"]


def dense(lines):
    """The matrix, (lines, width)."""
    out = np.zeros((len(lines.starts), lines.width))
    for i, (a, b) in enumerate(zip(lines.starts, lines.ends, strict=True)):
        out[i, lines.indices[a:b]] = lines.data[a:b] if len(lines.data) else 1.0
    return out


def pairs(pointers):
    return zip(pointers[:-1], pointers[1:], strict=True)


class DenseBackend:
    name, on_host, single_precision_sums, fused_risk_sweeps = "dense", True, False, False
    xp = np

    def __init__(self):
        self.pool = ThreadPool(1)

    # -- to and from the device

    def lanes(self, B):
        return B

    def asarray(self, x, dtype=None):
        return np.asarray(x, dtype=dtype)

    def lines(self, x):
        return x

    def resident(self, x):
        return x

    def lexsort(self, keys):
        return np.lexsort(keys)

    to_host = lines

    def device_matrix(self, G):
        return None

    def operator_minimiser(self, times):
        return None

    def conditional_sets(self, eta, w, case, pointers):
        return None

    # -- sparse products

    def gather(self, lines, D):
        return dense(lines) @ D

    def scatter(self, lines, R):
        return dense(lines).T @ R

    def gram(self, lines, v, G, first=0, rough=False):
        X = dense(lines)
        G[first:] += np.tril(X.T @ (v[:, None] * X))[first:]

    def gram_groups(self, lines, u, runs, flush, c, G):
        X = dense(lines) * u[:, None]
        for a, b in pairs(runs):
            m = np.cumsum(X[a:b], axis=0)[flush[a:b] != 0]
            G -= np.tril(m.T @ (c[a:b][flush[a:b] != 0, None] * m))

    def line_sums(self, lines, u, pointers):
        return self.segment_sum(dense(lines) * u[:, None], pointers)

    def to_rows(self, columns, position, n, width):
        X = np.zeros((n, width))
        kept = np.flatnonzero(position >= 0)
        for part, at in columns:
            X[np.ix_(position[kept], at)] = dense(part).T[kept]
        row, column = np.nonzero(X)
        ends = np.cumsum(np.bincount(row, minlength=n))
        values = X[row, column]
        data = NO_DATA if (values == 1.0).all() else values
        return Lines(np.append(0, ends[:-1]), ends, column.astype(np.int32), data, width)

    def append_columns(self, lines, new, first, width):
        X = np.zeros((len(lines.starts), width))
        X[:, :first], X[:, first:] = dense(lines)[:, :first], dense(new)
        columns = Lines(np.arange(width) * len(X), np.arange(1, width + 1) * len(X),
                        np.tile(np.arange(len(X)), width), X.T.ravel(), len(X))  # fmt: skip
        return self.to_rows([(columns, np.arange(width))], np.arange(len(X)), len(X), width)

    # -- scans and elementwise work

    def scan(self, x, pointers, reverse=False):
        step = -1 if reverse else 1
        out = np.zeros(np.shape(x))
        for a, b in pairs(pointers):
            out[a:b] = np.cumsum(x[a:b][::step], axis=0)[::step]
        return out

    def segment_sum(self, x, pointers):
        return self.range_sum(x, pointers[:-1], pointers[1:])

    def range_sum(self, x, starts, ends):
        parts = [x[a:b].sum(axis=0) for a, b in zip(starts, ends, strict=True)]
        return np.array(parts).reshape(len(starts), *np.shape(x)[1:])

    def segment_max(self, x, pointers):
        parts = [x[a:b].max(axis=0, initial=-np.inf) for a, b in pairs(pointers)]
        return np.array(parts).reshape(len(pointers) - 1, *np.shape(x)[1:])

    def segment_softmax(self, eta, w, pointers, scale, shares=True):
        out, part = np.zeros((len(pointers) - 1, eta.shape[1])), np.zeros(eta.shape)
        for s, (a, b) in enumerate(pairs(pointers)):
            top = np.where(w[a:b] > 0, eta[a:b], -np.inf).max(axis=0, initial=-np.inf)
            top = np.where(np.isfinite(top), top, 0.0)
            r = w[a:b] * np.exp(np.minimum(eta[a:b] - top, 0.0))
            total = r.sum(axis=0)
            some = (total > 0) & (scale[s] != 0)
            total = np.where(some, total, 1.0)
            out[s] = np.where(some, top + np.log(total), 0.0)
            part[a:b] = np.where(some, scale[s] * r / total, 0.0)
        return out, part if shares else np.empty((0, eta.shape[1]))

    def logistic(self, eta, w, y):
        p = 1 / (1 + np.exp(-eta))
        return (w * (np.logaddexp(0, eta) - y * eta)).sum(axis=0), w * (p - y)

    def risk_sweeps(self, n, strata, groups, tied, tied_end, place, shares):
        return None

    def column_sum(self, x):
        return None if x is None else x.sum(axis=0)

    def map_rows(self, function, *arrays):
        return list(function(*arrays))

    def sum_rows(self, function, *arrays):
        first, *rest = function(*arrays)
        return self.column_sum(first), rest
