"""Posteriors by quadrature, bias-corrected intervals by definition, and blocks on a cluster."""

from __future__ import annotations

import atexit
from functools import cache

import numpy as np
from scipy import stats
from scipy.special import logsumexp

import steropes

from .uses_of_formulas import differs, maximum

__all__ = ["bca_bootstrap", "dask_blocks", "posterior"]


def _marginal_prior(kind, beta, scale):
    """Log density of coefficients (…, 2) over a half-Cauchy prior on the standard deviation."""
    log_s = np.linspace(-12.0, 12.0, 2001)
    s = np.exp(log_s)
    hyper = log_s - np.log1p((s / scale) ** 2)
    size = abs(beta).sum(axis=-1) if kind == "laplace" else np.sqrt((beta**2).sum(axis=-1))
    # The density is infinite at zero, like the reciprocal of the size.
    table = np.geomspace(size.min(), size.max(), 400)
    terms = -2 * log_s + hyper
    if kind == "laplace":
        terms = terms - table[:, None] * np.sqrt(2) / s
    else:
        terms = terms - 0.5 * table[:, None] ** 2 / s**2
    return np.interp(np.log(size), np.log(table), logsumexp(terms, axis=1))


def posterior(rng, wrong):
    """Means, deviations and the correlation of two coefficients against quadrature."""
    n, kind = int(rng.integers(40, 90)), str(rng.choice(["normal", "laplace"]))
    family = str(rng.choice(["logistic", "poisson"]))
    X = rng.normal(size=(n, 2)) @ np.array([[1.0, rng.choice([0.0, 0.6])], [0.0, 1.0]])
    eta = X @ rng.normal(0, 0.6, 2)
    if family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1.0
    else:
        y = rng.poisson(np.exp(np.clip(eta, -3, 2))) * 1.0
    scale = float(rng.choice([0.3, 1.0, 3.0]))
    prior = steropes.Normal(1.0) if kind == "normal" else steropes.Laplace(1.0)
    cls = steropes.LogisticRegression if family == "logistic" else steropes.PoissonRegression
    model = cls(prior=prior, fit_intercept=False, n_jobs=1).fit(X, y)
    seed = int(rng.integers(2**31))
    found = model.inference.posterior(
        [0, 1], scale=scale, n=300, warmup=300, chains=4, random_state=seed
    )
    draws = np.asarray(found.draws).reshape(-1, 2)
    b, H = _two(X, y, family)
    width = 7 * np.sqrt(np.diag(np.linalg.inv(H)))
    near = np.geomspace(1e-5, 1.0, 60)
    axes = [
        np.unique(np.concatenate([m + w * np.linspace(-1, 1, 120), -w * near, w * near]))
        for m, w in zip(b, width, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    cells = np.multiply.outer(*(np.gradient(axis) for axis in axes)).ravel()
    e = grid @ X.T
    value = e @ y - (np.logaddexp(0, e) if family == "logistic" else np.exp(e)).sum(axis=1)
    value = value + _marginal_prior(kind, grid, scale)
    p = cells * np.exp(value - value.max())
    p /= p.sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    # Errors of means of 50 consecutive draws, which include the draws' autocorrelation.
    batches = draws.reshape(-1, 50, 2).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    z = (draws.mean(axis=0) - mean) / np.maximum(error, sd / np.sqrt(len(draws)))
    if abs(z).max() > 6:
        wrong(f"posterior means {draws.mean(axis=0)}, by quadrature {mean}, {abs(z).max():.1f} se")
    if not (abs(draws.std(axis=0) / sd - 1) < 0.25).all():
        wrong(f"posterior deviations {draws.std(axis=0)}, by quadrature {sd}")
    r = p @ ((grid - mean) / sd).prod(axis=1)
    if abs(np.corrcoef(draws.T)[0, 1] - r) > 0.2:
        wrong(f"posterior correlation {np.corrcoef(draws.T)[0, 1]:.3f}, by quadrature {r:.3f}")
    return f"{family} {kind} n={n} scale={scale}"


def _two(X, y, family):
    """The maximum of two coefficients without an intercept, by Newton's method."""
    b = np.zeros(2)
    for _ in range(60):
        m = 1 / (1 + np.exp(-(X @ b))) if family == "logistic" else np.exp(X @ b)
        v = m * (1 - m) if family == "logistic" else m
        H = (X * v[:, None]).T @ X + 1e-3 * np.eye(2)
        b = b + np.clip(np.linalg.solve(H, X.T @ (y - m) - 1e-3 * b), -1, 1)
    return b, H


def bca_bootstrap(rng, wrong):
    """Draws are weighted fits, and bias-corrected intervals follow Efron's (1987) definition."""
    family = str(rng.choice(["linear", "logistic", "poisson"]))
    groups, p = int(rng.integers(30, 60)), int(rng.integers(1, 4))
    clustered = bool(rng.random() < 0.6)
    each = rng.integers(1, 4, groups) if clustered else np.ones(groups, int) * 2
    cluster = np.repeat(np.arange(groups), each)
    n = len(cluster)
    X = rng.normal(size=(n, p)) + (rng.normal(size=(groups, p)))[cluster]
    eta = X @ rng.normal(0, 0.3, p)
    y = {
        "linear": lambda: eta + rng.exponential(size=n) + rng.normal(size=groups)[cluster],
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1.0,
        "poisson": lambda: rng.poisson(np.exp(np.clip(eta, -3, 2))) * 1.0,
    }[family]()
    ridge = float(rng.choice([0.5, 4.0]))
    cls = {
        "linear": steropes.LinearRegression,
        "logistic": steropes.LogisticRegression,
        "poisson": steropes.PoissonRegression,
    }[family]
    model = cls(prior=steropes.Normal(1 / ridge), n_jobs=1).fit(X, y)
    seed = int(rng.integers(2**31))
    labels = cluster if clustered else None
    drawn = model.inference.bootstrap(60, cluster=labels, random_state=seed)
    D = np.column_stack([np.ones(n), X])
    b = maximum(D, y, family, ridge)[0]
    if off := differs(drawn.estimate, b):
        wrong(f"the estimate: {off:.1e}")
    units = cluster if clustered else np.arange(n)
    # The spread of draws is that of fits to units drawn by another generator.
    own = np.random.default_rng(seed)
    names, counts = np.unique(units), []
    for _ in range(60):
        w = np.bincount(own.integers(0, len(names), len(names)), minlength=len(names))
        counts.append(maximum(D, y, family, ridge, w[units].astype(float))[0])
    ratio = drawn.coef.std(axis=0) / np.std(counts, axis=0)
    if not ((ratio > 0.45) & (ratio < 2.2)).all():
        wrong(f"standard deviations of draws / those of refits: {ratio}")
    # The influence of a unit is the derivative of the estimate in its weight (Efron 1987, §7).
    step = 1e-4
    own = np.array(
        [
            maximum(D, y, family, ridge, 1 + step * (units == u))[0]
            - maximum(D, y, family, ridge, 1 - step * (units == u))[0]
            for u in names
        ]
    ) / (2 * step)
    infinitesimal = (own**3).sum(axis=0) / (6 * (own**2).sum(axis=0) ** 1.5)
    if not (abs(drawn.acceleration - infinitesimal) < 1e-4).all():
        wrong(f"acceleration {drawn.acceleration}, by derivatives {infinitesimal}")
    z0 = stats.norm.ppf(((drawn.coef < drawn.estimate).sum(axis=0) + 0.5) / 61)
    limits = drawn.confint(0.9, method="bca").to_numpy()
    for j, a in enumerate(drawn.acceleration):
        z = z0[j] + stats.norm.ppf([0.05, 0.95])
        at = stats.norm.cdf(z0[j] + z / (1 - a * z))
        if off := differs(limits[j], np.quantile(drawn.coef[:, j], at), 1e-9):
            wrong(f"bca limits of coefficient {j}: {off:.1e}")
    return f"{family} n={n} p={p} clusters={clustered} ridge={ridge}"


@cache
def _client():
    """A cluster of two threads in this process, closed at its end."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    )
    client = distributed.Client(cluster)
    atexit.register(cluster.close)
    atexit.register(client.close)
    return client


def dask_blocks(rng, wrong):
    """Blocks of rows on a Dask cluster, of uneven sizes, against Newton's method on all rows."""
    family = str(rng.choice(["linear", "logistic", "poisson", "cox"]))
    n, p = int(rng.integers(60, 200)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, p)) + rng.choice([0.0, 20.0])
    eta = (X - X.mean(axis=0)) @ rng.normal(0, 0.4, p)
    cuts = np.unique([0, n, *rng.integers(1, n, int(rng.integers(1, 5)))])
    blocks = [X[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    design = steropes.ShardedDesign.from_blocks(blocks, client=_client())
    ridge = float(rng.choice([0.5, 5.0]))
    prior = steropes.Normal(1 / ridge)
    w = rng.integers(0, 3, n) * 1.0 if rng.random() < 0.5 else None
    if family == "cox":
        time, event = np.ceil(10 * rng.exponential(np.exp(-eta))), rng.integers(0, 2, n)
        y = steropes.Surv(time, event)
        model = steropes.CoxRegression(ties="breslow", prior=prior).fit(design, y, sample_weight=w)
        v = np.ones(n) if w is None else w
        score = np.zeros(p)
        risk = v * np.exp(X @ model.coef_ - (X @ model.coef_).max())
        for i in np.flatnonzero(event * v):
            at = time >= time[i]
            score += v[i] * (X[i] - risk[at] @ X[at] / risk[at].sum())
        score -= ridge * model.coef_
        size = np.sqrt((v[:, None] * (X - X.mean(axis=0)) ** 2).sum(axis=0) + ridge)
        if (abs(score) / size).max() > 1e-6:
            wrong(f"score of the Cox model {(abs(score) / size).max():.1e}")
        return f"cox n={n} p={p} blocks={len(blocks)} weights={w is not None}"
    y = {
        "linear": lambda: eta + rng.normal(size=n),
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1.0,
        "poisson": lambda: rng.poisson(np.exp(np.clip(eta, -3, 2))) * 1.0,
    }[family]()
    cls = {
        "linear": steropes.LinearRegression,
        "logistic": steropes.LogisticRegression,
        "poisson": steropes.PoissonRegression,
    }[family]
    model = cls(prior=prior).fit(design, y, sample_weight=w)
    b, H = maximum(np.column_stack([np.ones(n), X]), y, family, ridge, w)
    if off := differs(np.append(model.intercept_, model.coef_), b):
        wrong(f"coefficients: {off:.1e}")
    if family != "linear":
        ours = model.summary(kind="model")["se"].to_numpy()
        if off := differs(ours, np.sqrt(np.diag(np.linalg.inv(H)))[-len(ours) :], 1e-5):
            wrong(f"standard errors: {off:.1e}")
    return f"{family} n={n} p={p} blocks={len(blocks)} weights={w is not None}"
