"""A problem as a dense objective: rows without weight gone, all products and sums written out."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dense
from .cumulative import Cumulative
from .draw import Problem

__all__ = ["dense_problem"]


def penalties(problem: Problem, variances: dict[str, Any] | None = None):
    """λ and κ of each column of X, as if none were excluded, and a mask of those that are."""
    p, given = problem.X.shape[1], problem.variances if variances is None else variances
    l1, l2 = np.zeros(p), np.zeros(p)
    if "laplace" in given:
        l1 = np.sqrt(2.0 / np.broadcast_to(given["laplace"], p)) * 1.0
    if "normal" in given:
        l2 = 1.0 / np.broadcast_to(given["normal"], p) * 1.0
    return l1, l2, np.isin(np.arange(p), problem.excluded)


def dense_problem(problem: Problem, variances: dict[str, Any] | None = None, rows=None):
    """The objective of some rows (default all) with a positive weight, in dense NumPy."""
    n = problem.n
    w = np.ones(n) if problem.weights is None else problem.weights
    used = w > 0 if rows is None else (w > 0) & rows
    offset = np.zeros(n) if problem.offset is None else problem.offset
    if problem.exposure is not None:
        offset = offset + np.log(problem.exposure)
    X, w, offset = problem.X[used], w[used], offset[used]
    data = {k: v[used] for k, v in problem.data.items()}
    strata = np.zeros(len(w), int) if problem.strata is None else problem.strata[used]
    l1, l2, excluded = penalties(problem, variances)
    if problem.family == "pooled":  # the changes of an excluded column keep its penalty
        return _pooled(problem, X, w, offset, data, l1, l2, excluded)
    l1[excluded] = l2[excluded] = 0.0
    return _BUILD[problem.family](problem, X, w, offset, data, strata, l1, l2)


def _glm(problem, X, w, offset, data, strata, l1, l2):
    kind = {"linear": dense.Gaussian, "logistic": dense.Binomial, "poisson": dense.Counts}
    top = int(problem.settings["fit_intercept"])
    A = np.column_stack([np.ones((len(X), top)), X])
    zero = np.zeros(top)
    loss = kind[problem.family](data["y"], w)
    return dense.Linked(A, offset, loss, np.append(zero, l1), np.append(zero, l2), top == 1, top)


def _cox(problem, X, w, offset, data, strata, l1, l2):
    entry = data.get("entry", np.full(len(w), -np.inf))
    rest = (w, entry, strata, problem.settings["ties"])
    M, C = dense.cox(data["time"], data["event"], *rest)
    return dense.Linked(X, offset, dense.Shares(M, C), l1, l2, True)


def _cox_steps(problem, X, w, offset, data, strata, l1, l2):
    """Every row once for each interval of time; a risk set takes those of its own interval."""
    n, steps = len(X), problem.settings["time_varying"]
    cuts = np.unique(np.concatenate(list(steps.values())))
    Q = len(cuts) + 1
    centre, centred = X.mean(axis=0), []
    blocks, source = [], []
    for j in range(X.shape[1]):
        edges = np.concatenate([[-np.inf], steps.get(j, []), [np.inf]])
        ends = np.append(cuts, np.inf)
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            active = (ends > a) & (ends <= b)
            blocks.append((active[:, None] * X[:, j]).ravel())
            centred.append((active[:, None] * (X[:, j] - centre[j])).ravel())
            source.append(j)
    A = np.column_stack(blocks)
    entry = data.get("entry", np.full(n, -np.inf))
    M, C = dense.cox(data["time"], data["event"], w, entry, strata, problem.settings["ties"])
    M_all, C_all = np.zeros((len(M), Q * n)), np.zeros((len(M), Q * n))
    for k in range(len(M)):
        q = int(np.searchsorted(cuts, data["time"][C[k] > 0][0], side="left"))
        M_all[k, q * n : (q + 1) * n], C_all[k, q * n : (q + 1) * n] = M[k], C[k]
    loss = dense.Shares(M_all, C_all)
    rest = (l1[source], l2[source], False, 0, np.column_stack(centred))
    return dense.Linked(A, np.tile(offset, Q), loss, *rest)


def _fine_gray(problem, X, w, offset, data, strata, l1, l2):
    entry = data.get("entry", np.full(len(w), -np.inf))
    M, C, interrupted = dense.fine_gray(data["time"], data["event"], 1, w, strata, entry)
    out = dense.Linked(X, offset, dense.Shares(M, C), l1, l2, True)
    out.interrupted = interrupted
    return out


def _conditional_logistic(problem, X, w, offset, data, strata, l1, l2):
    y, method = data["y"], problem.settings["method"]
    if method == "exact":
        B, M, C = dense.subsets(y, w, strata)
        centred = B @ (X - X.mean(axis=0))
        return dense.Linked(B @ X, B @ offset, dense.Shares(M, C), l1, l2, False, 0, centred)
    one, early = np.ones(len(y)), np.full(len(y), -np.inf)
    M, C = dense.cox(one, y, w, early, strata, method)
    return dense.Linked(X, offset, dense.Shares(M, C), l1, l2, True)


def _conditional_poisson(problem, X, w, offset, data, strata, l1, l2):
    inside = strata == np.unique(strata)[:, None]
    loss = dense.Shares(inside * w, inside * (w * data["y"]))
    return dense.Linked(X, offset, loss, l1, l2, True)


def _pooled(problem, X, w, offset, data, full1, full2, excluded):
    """A row for each interval that a person begins at risk."""
    settings, time = problem.settings, problem.data["time"]
    if "breaks" in settings:
        ends = np.array(settings["breaks"])
    else:
        K = max(1, int(np.ceil(time.max() / settings["interval"] - 1e-9)))
        ends = settings["interval"] * np.arange(K + 1)
    K, own = len(ends) - 1, data["time"]
    entry = data.get("entry", np.zeros(len(own)))
    person, k = np.nonzero(
        (entry[:, None] <= ends[:-1] + 1e-12) & (ends[:-1] < own[:, None] - 1e-12)
    )
    y = (data["event"][person] == 1) & (own[person] <= ends[k + 1] + 1e-9)
    t = k + 1.0
    if settings["baseline"] == "interval":
        basis = (k[:, None] == np.arange(K)).astype(float)
    else:
        basis = t[:, None] ** np.arange(settings["baseline"] + 1)
    A, source = [basis, X[person]], list(range(X.shape[1]))
    for j, degree in sorted(settings.get("time_varying", {}).items()):
        for d in range(1, degree + 1):
            A.append((X[person, j] * t**d)[:, None])
            source.append(j)
    M = basis.shape[1]
    l1 = np.append(np.zeros(M), np.where(excluded, 0.0, full1))
    l2 = np.append(np.zeros(M), np.where(excluded, 0.0, full2))
    changes = source[X.shape[1] :]
    l1, l2 = np.append(l1, full1[changes]), np.append(l2, full2[changes])
    loss = dense.Binomial(y.astype(float), w[person])
    return dense.Linked(np.column_stack(A), offset[person], loss, l1, l2, True, M)


def _cumulative(problem, X, w, offset, data, strata, l1, l2):
    return Cumulative(X, offset, data["y"], w, problem.settings["link"], l1, l2)


_BUILD = {
    "linear": _glm,
    "logistic": _glm,
    "poisson": _glm,
    "cox": _cox,
    "cox_steps": _cox_steps,
    "fine_gray": _fine_gray,
    "conditional_logistic": _conditional_logistic,
    "conditional_poisson": _conditional_poisson,
    "sccs": _conditional_poisson,
    "cumulative": _cumulative,
}
