"""The long way: one row for each person and interval, as the model is usually fitted."""

import numpy as np

import steropes


def expand(X, y, breaks, offset=None):
    """Rows (person, k, event, x …, offset) by looking at every person and interval in turn."""
    rows = []
    for i in range(len(y)):
        entry = y["entry"][i] if "entry" in y.dtype.names else 0.0
        for k in range(1, len(breaks)):
            start, end = breaks[k - 1], breaks[k]
            if entry <= start < y["time"][i]:
                event = y["event"][i] == 1 and y["time"][i] <= end
                rows.append([i, k, event, 0.0 if offset is None else offset[i], *X[i]])
    rows = np.array(rows, float)
    person, k, event, shift = rows[:, 0].astype(int), rows[:, 1], rows[:, 2], rows[:, 3]
    return person, k, event, shift, rows[:, 4:]


def simulate(n=300, seed=0, entry=False, ties=True):
    """A cohort with a normal, two binary and one small covariate; times up to 8."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(size=n), rng.random(n) < 0.4, rng.random(n) < 0.2, rng.normal(size=n) / 50]
    ).astype(float)
    time = rng.exponential(5 * np.exp(-0.4 * X[:, 0] + 0.5 * X[:, 1]))
    if ties:
        time = np.ceil(time * 4) / 4
    censored = rng.choice(np.arange(1, 33) / 4, n)
    observed = np.minimum(time, censored)
    start = np.where(rng.random(n) < 0.4, rng.choice([0.25, 0.5, 0.75], n) * observed, 0.0)
    return X, steropes.Surv(observed, time <= censored, start if entry else None)


def columns(k, X, baseline, changing):
    """Columns of the expanded model; ``changing`` lists (column, function of k)."""
    return np.column_stack([*(f(k) for f in baseline), X, *(X[:, j] * f(k) for j, f in changing)])


def power(d):
    return lambda k: k**d
