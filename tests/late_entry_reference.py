"""Fine and Gray's model with late entry by its definitions, and by expanding the data as R."""

import numpy as np


def censoring_and_entry(time, code, entry, weight, at):
    """G(at−) and H(at−) of Geskus (2011, eq. 5–6): events, then censorings, then entries."""
    G = H = 1.0
    for u in np.unique(time[code == 0]):
        if u < at:
            c = weight[(code == 0) & (time == u)].sum()
            n = weight[(entry < u) & ((time > u) | ((time == u) & (code == 0)))].sum()
            G *= 1 - c / n if n > 0 else 1.0
    for u in np.unique(entry):
        if u >= at:
            e, n = weight[entry == u].sum(), weight[(entry <= u) & (time > u)].sum()
            H *= 1 - e / n if n > 0 else 1.0
    return G, H


def staying_weights(time, code, entry, weight):
    """ω_i(t) after a competing event at ``time[i]``, as a function of i and t."""
    product = {t: np.prod(censoring_and_entry(time, code, entry, weight, t)) for t in time}

    def omega(i, t):
        return product[t] / product[time[i]]

    return omega


def late_fine_gray_loss(eta, time, code, entry, cause=1, weight=None, strata=None):
    """Negative log partial likelihood with Geskus's weights (2011, eq. 11–13), by loops."""
    n = len(time)
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    strata = np.zeros(n, int) if strata is None else strata
    total = 0.0
    for s in np.unique(strata):
        here = strata == s
        T, e, start, v, h = time[here], code[here], entry[here], w[here], eta[here]
        omega = staying_weights(T, e, start, v)
        for k in np.flatnonzero((e == cause) & (v > 0)):
            t, S = T[k], 0.0
            for i in np.flatnonzero(v > 0):
                if start[i] < t <= T[i]:
                    S += v[i] * np.exp(h[i])
                elif e[i] not in (0, cause) and T[i] < t:
                    S += v[i] * omega(i, t) * np.exp(h[i])
            total -= v[k] * (h[k] - np.log(S))
    return total


def expanded(time, code, entry, cause=1, weight=None, strata=None):
    """The data as weighted rows at risk on (start, stop], a row for each weight a row has.

    Returns
    -------
    row, start, stop, event, weight : arrays
        Of which row of the data each is, and what it is.
    """
    n = len(time)
    w = np.ones(n) if weight is None else np.asarray(weight, float)
    strata = np.zeros(n, int) if strata is None else strata
    out = [(i, entry[i], time[i], code[i] == cause, w[i]) for i in np.flatnonzero(w > 0)]
    for s in np.unique(strata):
        rows = np.flatnonzero((strata == s) & (w > 0))
        omega = staying_weights(time[rows], code[rows], entry[rows], w[rows])
        cases = np.unique(time[rows][code[rows] == cause])
        for k, i in enumerate(rows):
            if code[i] not in (0, cause):
                before = time[i]
                for t in cases[cases > time[i]]:
                    out.append((i, before, t, False, w[i] * omega(k, t)))
                    before = t
    row, start, stop, event, wt = (np.array(x) for x in zip(*out, strict=True))
    some = wt > 0
    return row[some], start[some], stop[some], event[some], wt[some]
