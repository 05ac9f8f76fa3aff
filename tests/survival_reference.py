"""The same likelihoods by their definitions: loops over events and everybody at risk."""

from __future__ import annotations

import numpy as np


def cox_loss(eta, time, event, weight=None, entry=None, strata=None, ties="efron"):
    """Negative log partial likelihood, as Therneau and Grambsch (2000, §3.3) define it."""
    n = len(time)
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    entry = np.full(n, -np.inf) if entry is None else entry
    strata = np.zeros(n, int) if strata is None else np.asarray(strata)
    event = (np.asarray(event) == 1) & (w > 0)
    total = 0.0
    for s in np.unique(strata):
        for t in np.unique(time[event & (strata == s)]):
            risk = (strata == s) & (entry < t) & (time >= t)
            tied = risk & event & (time == t)
            d = tied.sum()
            shift = eta[risk].max()
            r = w * np.exp(np.minimum(eta - shift, 0.0))
            total -= (w[tied] * (eta[tied] - shift)).sum()
            for ell in range(d):
                share = ell / d if ties == "efron" else 0.0
                total += w[tied].mean() * np.log(r[risk].sum() - share * r[tied].sum())
    return total


def censoring_survival(time, code, weight, at):
    """G(at−): nobody with an event at a time can be censored at that time."""
    g = 1.0
    for s in np.unique(time[code == 0]):
        if s < at:
            left = weight[(code == 0) & (time == s)].sum()
            n = left + weight[time > s].sum()
            g *= 1 - left / n if n > 0 else 1.0
    return g


def fine_gray_loss(eta, time, code, cause=1, weight=None, strata=None):
    """Negative log partial likelihood of Fine and Gray (1999, eq. 7–8), O(n²)."""
    n = len(time)
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    strata = np.zeros(n, int) if strata is None else np.asarray(strata)
    total = 0.0
    for s in np.unique(strata):
        here = strata == s
        T, e, v, h = time[here], np.asarray(code)[here], w[here], eta[here]
        other = (e != 0) & (e != cause)
        G = np.array([censoring_survival(T, e, v, t) for t in T])
        for i in np.flatnonzero((e == cause) & (v > 0)):
            stays = other & (T[i] > T)
            omega = np.where(T[i] <= T, 1.0, np.where(stays, G[i] / np.where(G > 0, G, 1.0), 0.0))
            shift = h[(omega * v) > 0].max()
            S = (v * omega * np.exp(np.minimum(h - shift, 0.0)))[(omega * v) > 0].sum()
            total -= v[i] * (h[i] - shift - np.log(S))
    return total


def numeric_gradient(f, x, step=1e-5):
    """Central differences, of fourth order."""
    g = np.empty(len(x))
    for j in range(len(x)):
        d = np.zeros(len(x))
        d[j] = step
        g[j] = (8 * (f(x + d) - f(x - d)) - (f(x + 2 * d) - f(x - 2 * d))) / (12 * step)
    return g
