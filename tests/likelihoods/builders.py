"""Likelihood objects of the four families, with the rows' order taken care of."""

from __future__ import annotations

import numpy as np

from steropes.backends import get_backend
from steropes.likelihoods import (
    CoxLikelihood,
    LinearLikelihood,
    LogisticLikelihood,
    PoissonLikelihood,
)


def build(family, y, strata=None, entry=None, ties="efron", n_jobs=1):
    backend = get_backend("cpu", n_jobs)
    if family == "cox":
        time, event = y
        return CoxLikelihood(time, event, backend, entry, strata, ties)
    kinds = {"linear": LinearLikelihood, "logistic": LogisticLikelihood}
    return {**kinds, "poisson": PoissonLikelihood}[family](y, backend)


def evaluate(likelihood, eta, w):
    """(loss, gradient) in the user's order for one replicate."""
    order = slice(None) if likelihood.order is None else likelihood.order
    bound = likelihood.weigh(np.ascontiguousarray(w[order][:, None]))
    value, r = likelihood.evaluate(np.ascontiguousarray(eta[order][:, None]), bound)
    out = np.zeros_like(eta)
    out[order] = r[:, 0]
    return float(value[0]), out


def dense_curvature(likelihood, eta, w, exact=True):
    """The Hessian in η as a dense matrix, in the user's order, from its compact form."""
    order = np.arange(len(eta)) if likelihood.order is None else likelihood.order
    bound = likelihood.weigh(np.ascontiguousarray(w[order][:, None]))
    c = likelihood.curvature(np.ascontiguousarray(eta[order][:, None]), bound, exact=exact)
    n = len(order)
    H = np.diag(c.v.astype(float))
    if c.u is not None:
        rows = np.arange(n) if c.rows is None else c.rows
        for s in range(len(c.runs) - 1):
            m = np.zeros(n)
            for line in range(c.runs[s], c.runs[s + 1]):
                m[rows[line]] += c.u[line]
                if c.c[line] != 0:
                    H -= c.c[line] * np.outer(m, m)
    out = np.zeros((len(eta), len(eta)))
    out[np.ix_(order, order)] = H
    return out
