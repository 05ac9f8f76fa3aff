"""Surrogate likelihoods in plain NumPy, by the papers' formulas, row by row and dense.

ODAL: Duan and others (2020), JAMIA 27:376, equation 4. ODAC: Duan and others (2020), JAMIA 27:1028;
stratified by site: Luo and others (2022), JAMIA 29:1366. ADAP: the same surrogate of logistic
likelihoods with a lasso.
"""

from __future__ import annotations

import numpy as np


def logistic(beta, d):
    """Negative log-likelihood, gradient and Hessian; the intercept first."""
    Z = np.column_stack([np.ones(len(d["y"])), d["X"]])
    eta = Z @ beta + d["o"]
    p = 1 / (1 + np.exp(-eta))
    loss = d["w"] @ (np.logaddexp(0, eta) - d["y"] * eta)
    v = d["w"] * p * (1 - p)
    return loss, Z.T @ (d["w"] * (p - d["y"])), Z.T @ (v[:, None] * Z)


def cox(beta, d, ties="efron"):
    """The same of a partial likelihood: each event time, each event tied at it."""
    X, w, eta = d["X"], d["w"], d["X"] @ beta + d["o"]
    r = w * np.exp(eta)
    loss, g, H = 0.0, np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
    for t in np.unique(d["t"][d["y"] > 0]):
        risk, case = (d["e"] < t) & (d["t"] >= t), (d["t"] == t) & (d["y"] > 0)
        n = case.sum()
        loss -= w[case] @ eta[case]
        g -= w[case] @ X[case]
        for tie in range(n):
            a = r * (risk - (tie / n if ties == "efron" else 0.0) * case)
            S, mean = a.sum(), a @ X / a.sum()
            share = w[case].mean()
            loss += share * np.log(S)
            g += share * mean
            H += share * (X.T @ (a[:, None] * X) / S - np.outer(mean, mean))
    return loss, g, H


def newton(f, beta):
    """The minimum of f, halving steps that rise."""
    for _ in range(200):
        loss, g, H = f(beta)
        step, t = np.linalg.solve(H, g), 1.0
        while not f(beta - t * step)[0] <= loss + 1e-12 * abs(loss) and t > 1e-6:
            t /= 2
        beta = beta - t * step
        if np.abs(t * step).max() < 1e-13 * (1 + np.abs(beta).max()):
            break
    return beta


def surrogate(sites, own, q, lead, order=2, pooled=None, start=None):
    """The surrogate of one lead site: value, gradient and Hessian as a function, and b̄.

    Parameters
    ----------
    sites : dict of dict of arrays
    own : callable
        A site's negative log-likelihood.
    pooled : dict of arrays, optional
        Where risk sets are shared: all rows.
    start : (q,) array, optional
        b̄; by default the sites' own estimates weighted by inverse variances.
    """
    if start is None:
        found = []
        for d in sites.values():
            if (d["X"].std(axis=0) == 0).any():
                continue  # a site without an estimate
            b = newton(lambda beta, d=d: own(beta, d), np.zeros(q))
            found.append((b, np.diag(np.linalg.inv(own(b, d)[2]))))
        start = sum(b / v for b, v in found) / sum(1 / v for _, v in found)
    if pooled is None:
        parts = [own(start, d) for d in sites.values()]
        g, H = sum(x[1] for x in parts), sum(x[2] for x in parts)
    else:
        _, g, H = own(start, pooled)
    ratio = sum(d["w"].sum() for d in sites.values()) / sites[lead]["w"].sum()
    _, g1, H1 = own(start, sites[lead])
    M = (H - ratio * H1) * (order == 2)

    def f(beta):
        loss, slope, curve = own(beta, sites[lead])
        step = beta - start
        value = ratio * loss + (g - ratio * g1) @ beta + step @ M @ step / 2
        return value, ratio * slope + g - ratio * g1 + M @ step, ratio * curve + M

    return f, start


def lasso(f, beta, penalty):
    """The minimum of f + Σ penalty |β| by proximal steps."""
    H = f(beta)[2]
    length = 0.5 / np.linalg.eigvalsh(H).max()
    for _ in range(200_000):
        z = beta - length * f(beta)[1]
        new = np.sign(z) * np.maximum(np.abs(z) - length * penalty, 0)
        done = np.abs(new - beta).max() < 1e-13
        beta = new
        if done:
            break
    return beta
