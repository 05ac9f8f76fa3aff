"""Slow, obvious mathematics to check the engine against: dense X, double loops, no shortcuts.

Nothing here imports the engine, so an error in it cannot hide itself.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln


def linear(eta, y, w):
    """½ Σ w (y − η)² and its derivative."""
    return 0.5 * np.sum(w * (y - eta) ** 2), w * (eta - y)


def logistic(eta, y, w):
    """Σ w [log(1 + exp η) − y η] and its derivative."""
    p = np.where(eta >= 0, 1 / (1 + np.exp(-abs(eta))), np.exp(-abs(eta)) / (1 + np.exp(-abs(eta))))
    return np.sum(w * (np.logaddexp(0, eta) - y * eta)), w * (p - y)


def poisson(eta, y, w):
    """Σ w [exp η − y η + log y!] and its derivative."""
    return np.sum(w * (np.exp(eta) - y * eta + gammaln(y + 1))), w * (np.exp(eta) - y)


def cox(eta, y, w, ties="efron", strata=None, entry=None):
    """Negative log partial likelihood and its derivative, one event time at a time.

    Weighted ties as in R's survival: Efron's l-th share of d tied events leaves out l/d of their
    sum and has the mean of their weights; events of weight zero are not there.
    """
    time, event = y
    n = len(eta)
    strata = np.zeros(n, int) if strata is None else np.asarray(strata)
    entry = np.full(n, -np.inf) if entry is None else entry
    loss, g = 0.0, np.zeros(n)
    for s in np.unique(strata):
        inside = (strata == s) & (w > 0)
        if not inside.any():
            continue
        top = eta[inside].max()
        r = np.where(inside, w * np.exp(np.minimum(eta - top, 700)), 0.0)
        for t in np.unique(time[inside & (event == 1)]):
            risk = inside & (time >= t) & (entry < t)
            tied = inside & (time == t) & (event == 1)
            d, total = tied.sum(), w[tied].sum()
            shares = [(0.0, total)] if ties == "breslow" else [(k / d, total / d) for k in range(d)]
            loss -= np.sum(w[tied] * (eta[tied] - top))
            g[tied] -= w[tied]
            for fraction, weight in shares:
                in_risk = risk - fraction * tied
                S = np.sum(in_risk * r)
                loss += weight * np.log(S)
                g += weight * in_risk * r / S
    return loss, g


def loss(family, eta, y, w, **cox_options):
    """(loss, derivative in η) of a family by name."""
    if family == "cox":
        return cox(eta, y, w, **cox_options)
    return {"linear": linear, "logistic": logistic, "poisson": poisson}[family](eta, y, w)


def kkt(g, beta, l1, l2):
    """Distance of zero from the subdifferential of the objective, for each coefficient."""
    slope = g + l2 * beta
    return np.where(beta != 0, abs(slope + l1 * np.sign(beta)), np.maximum(abs(slope) - l1, 0))


def certificate(family, X, y, model, w=None, offset=None, l1=None, l2=None, **cox_options):
    """The largest KKT violation of a fitted model, intercept included, from dense X.

    In units of λ, or where there is none of the score's standard error (lower bound: see units).
    """
    n, p = X.shape
    w = np.ones(n) if w is None else w
    eta = X @ model.coef_ + getattr(model, "intercept_", 0.0)
    eta = eta if offset is None else eta + offset
    _, r = loss(family, eta, y, w, **cox_options)
    l1 = np.zeros(p) if l1 is None else np.broadcast_to(l1, p)
    l2 = np.zeros(p) if l2 is None else np.broadcast_to(l2, p)
    violation = kkt(X.T @ r, model.coef_, l1, l2)
    if hasattr(model, "intercept_"):
        # With an intercept at its optimum a column and the column minus its mean have the same
        # conditions; what is left of the intercept's counts as its own violation, not as theirs.
        centred = kkt((X - X.mean(axis=0)).T @ r, model.coef_, l1, l2)
        violation = np.minimum(violation, centred)
    size = np.sqrt(np.maximum((X**2).T @ abs(curvature_bound(family, eta, w, r)), 1e-30))
    size = np.where(size > 1e-6 * np.sqrt((X**2).sum(axis=0)), size, 1.0)  # no data at all
    out = violation / np.where(l1 > 0, np.maximum(l1, 1e-3 * size), size)
    if family != "cox" and getattr(model, "fit_intercept", True):
        top = abs(r.sum()) / np.sqrt(max(curvature_bound(family, eta, w, r).sum(), 1e-30))
        return max(out.max(initial=0.0), top)
    return out.max(initial=0.0)


def curvature_bound(family, eta, w, r):
    """A diagonal of the Hessian in η, or for Cox's model an upper bound of its size."""
    if family == "linear":
        return w
    if family == "poisson":
        return w * np.exp(eta)
    if family == "logistic":
        e = np.exp(-abs(eta))
        return w * e / (1 + e) ** 2
    return w + abs(r)
