"""Censored and coarsened cumulative outcomes, and Fine–Gray curves with late entry, by loops."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import steropes

from .cumulative import Cumulative, Link
from .uses_of_formulas import differs

__all__ = ["interval_censored", "late_fine_gray", "reductions"]

LINKS = ("logit", "probit", "loglog", "cloglog")


def _latent(rng):
    n, p = int(rng.integers(40, 80)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, p))
    return X, X @ rng.normal(0, 0.7, p) + rng.logistic(size=n)


def interval_censored(rng, wrong):
    """The likelihood of intervals, its slope in β, and no better maximum by L-BFGS."""
    X, z = _latent(rng)
    n, link = len(z), str(rng.choice(LINKS))
    width = float(rng.choice([0.5, 1.0, 2.0]))
    low = np.floor((z - rng.uniform(0, width, n)) / 0.25) * 0.25
    high = low + np.ceil((z - low) / 0.25) * 0.25 + 0.25 * rng.integers(0, 3, n)
    exact = rng.random(n) < rng.choice([0.0, 0.3])
    low, high = np.where(exact, np.round(z, 1), low), np.where(exact, np.round(z, 1), high)
    kind = rng.random(n)
    low = np.where((kind < 0.15) & ~exact, -np.inf, low)
    high = np.where((kind > 0.85) & ~exact, np.inf, high)
    w = rng.integers(1, 4, n) * 1.0 if rng.random() < 0.3 else np.ones(n)
    prior = steropes.Normal(1.0) if rng.random() < 0.5 else None
    ridge = 1.0 if prior else 0.0
    model = steropes.CumulativeProbabilityModel(link=link, prior=prior, n_jobs=1)
    model.fit(X, steropes.Censored(low, high), sample_weight=w)
    F = Link(link)

    def at(alpha, v, before):
        """α(v), or just before v, where α has a value for each of `model.thresholds_`."""
        k = np.searchsorted(model.thresholds_, v, side="left" if before else "right")
        return np.concatenate([[-np.inf], alpha])[k]

    def loss(alpha, beta):
        eta = X @ beta
        top = np.where(high == np.inf, np.inf, at(alpha, high, False))
        # Above the highest outcome the distribution is one.
        top = np.where(high >= model.levels_[-1], np.inf, top)
        bottom = np.where(low == -np.inf, -np.inf, at(alpha, low, False))
        bottom = np.where(exact, at(alpha, low, True), bottom)
        up, down = np.exp(F.tails(top - eta)[0]), np.exp(F.tails(bottom - eta)[0])
        upper, lower = np.exp(F.tails(top - eta)[1]), np.exp(F.tails(bottom - eta)[1])
        mass = np.where(up < lower, up - down, lower - upper)
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.sum(w * np.log(mass)) + 0.5 * ridge * np.sum(beta**2)

    here = loss(model.alpha_, model.coef_)
    ours = -model.log_likelihood_ + 0.5 * ridge * np.sum(model.coef_**2)
    if off := differs(ours, here, 1e-8):
        wrong(f"log-likelihood {-ours:.8f}, by its definition {-here:.8f} ({off:.1e})")
        return f"{link} n={n}"
    h = 1e-5
    for j in range(X.shape[1]):
        e = np.eye(X.shape[1])[j] * h
        slope = (loss(model.alpha_, model.coef_ + e) - loss(model.alpha_, model.coef_ - e)) / 2 / h
        if abs(slope) > 1e-4 * np.sqrt(n):
            wrong(f"slope in coefficient {j}: {slope:.1e}")
    K = len(model.alpha_)

    def free(theta):
        alpha = theta[0] + np.concatenate([[0.0], np.cumsum(np.exp(theta[1:K]))])
        value = loss(alpha, theta[K:])
        return value if np.isfinite(value) else 1e10

    gaps = np.log(np.maximum(np.diff(model.alpha_), 1e-6))
    start = np.concatenate([model.alpha_[:1], gaps, model.coef_])
    start = start + 0.05 * rng.normal(size=len(start))
    found = minimize(free, start, method="L-BFGS-B", options={"maxiter": 60, "maxfun": 6000})
    if found.fun < here - 1e-6 * (1 + abs(here)):
        wrong(f"L-BFGS has {found.fun:.8f}, the fit {here:.8f}")
    return f"{link} n={n} exact={exact.mean():.1f} width={width} prior={prior is not None}"


def reductions(rng, wrong):
    """A fit by bins or rounding is stationary for its coarse outcomes, which keep the order."""
    X, z = _latent(rng)
    skewed = bool(rng.random() < 0.5)
    y = np.exp(z) if skewed else z
    if rng.random() < 0.4:
        y = np.round(y, 1)
    w = rng.integers(1, 4, len(y)) * 1.0 if rng.random() < 0.3 else np.ones(len(y))
    target = int(rng.integers(8, 25))
    kind = str(rng.choice(["bins", "decimals", "digits"]))
    reduction = {
        "bins": steropes.EqualQuantileBins, "decimals": steropes.RoundDecimals,
        "digits": steropes.RoundSignificant,
    }[kind](target)  # fmt: skip
    link = str(rng.choice(LINKS))
    prior = steropes.Normal(1.0)
    model = steropes.CumulativeProbabilityModel(link=link, reduce=reduction, prior=prior, n_jobs=1)
    model.fit(X, y, sample_weight=w)
    coarse = reduction.apply(y, w)
    order = np.argsort(y, kind="stable")
    if (np.diff(coarse[order]) < 0).any():
        wrong(f"{kind}: the order of outcomes is not kept")
    same = y[order][1:] == y[order][:-1]
    if (np.diff(coarse[order])[same] != 0).any():
        wrong(f"{kind}: equal outcomes have become different")
    levels = np.unique(coarse)
    if len(np.unique(y)) > target and not (2 <= len(levels) <= max(2.5 * target, 12)):
        wrong(f"{kind}: {len(levels)} values where {target} are aimed at")
    if not np.array_equal(model.levels_, levels):
        wrong(f"{kind}: the fit has {len(model.levels_)} levels, the reduction {len(levels)}")
        return kind
    if kind == "bins":
        sizes = [w[coarse == v].sum() for v in levels]
        heaviest = max(w[y == v].sum() for v in np.unique(y))
        if max(sizes) > 2.5 * w.sum() / target + heaviest:
            wrong(f"bins: the largest has {max(sizes):.0f} of {w.sum():.0f} in {target}")
    zero, p = np.zeros(len(y)), X.shape[1]
    dense = Cumulative(X, zero, coarse, w, link, np.zeros(p), np.ones(p))
    theta = np.append(model.alpha_, model.coef_)
    value, g, _, H, _, _ = dense.at(theta)
    g = g + dense.l2 * dense.in_scale(theta)
    unit = np.sqrt(np.diag(H) + dense.l2)
    if (abs(g) / unit).max() > 1e-6:
        wrong(f"{kind}: slope {(abs(g) / unit).max():.1e} in standard errors of the score")
    if off := differs(model.log_likelihood_, -value, 1e-9):
        wrong(f"{kind}: log-likelihood {model.log_likelihood_:.8f}, dense {-value:.8f}, {off:.1e}")
    C = np.linalg.inv(H + np.diag(dense.l2))
    se = np.sqrt(np.diag(C))[-p:] / dense.scale[-p:]
    if off := differs(model.summary(kind="model")["se"], se, 1e-6):
        wrong(f"{kind}: standard errors {off:.1e}")
    return f"{kind} {link} n={len(y)} target={target} skewed={skewed}"


def _weight_after(time, code, entry, w):
    """ω of Geskus (2011) at t of people with a competing event at a, as a function of a and t.

    G(t−) H(t−) / (G(a−) H(a−)) by the factors between the two times, so that a gap in observation
    before both does not count. Events come before censorings, and these before entries.
    """
    censored, entered = np.unique(time[code == 0]), np.unique(entry)
    stays, was_there = [], []
    for u in censored:
        at_risk = w[(entry < u) & ((time > u) | ((time == u) & (code == 0)))].sum()
        stays.append(1 - w[(code == 0) & (time == u)].sum() / at_risk if at_risk > 0 else 1.0)
    for u in entered:
        at_risk = w[(entry <= u) & (time > u)].sum()
        was_there.append(1 - w[entry == u].sum() / at_risk if at_risk > 0 else 1.0)
    stays, was_there = np.array(stays), np.array(was_there)

    def omega(a, t):
        since = np.prod(was_there[(entered >= a) & (entered < t)])
        return np.prod(stays[(censored >= a) & (censored < t)]) / since

    return omega


def late_fine_gray(rng, wrong):
    """The score, the model's errors and the incidence of Geskus' weighted risk sets, by loops."""
    n, p = int(rng.integers(50, 110)), int(rng.integers(1, 3))
    X = rng.normal(size=(n, p))
    time = rng.exponential(np.exp(-0.4 * X[:, 0])) + 0.05
    code = rng.integers(0, 3, n)
    if rng.random() < 0.5:
        time = np.ceil(6 * time)
    share = float(rng.choice([0.3, 0.6]))
    entry = time * rng.uniform(0, share, n) * (rng.random(n) < 0.6)
    entry = np.floor(entry) if time.max() > 20 or (time == np.ceil(time)).all() else entry
    w = rng.integers(1, 3, n) * 1.0 if rng.random() < 0.3 else np.ones(n)
    model = steropes.FineGrayRegression(prior=steropes.Normal(1.0), n_jobs=1)
    try:
        model.fit(X, steropes.Surv(time, code, entry=entry), sample_weight=w)
    except steropes.DataError as error:
        if "under observation" in str(error):  # weights after such a gap are infinite
            return "refused: nobody is under observation"
        raise
    omega = _weight_after(time, code, entry, w)
    r = w * np.exp(X @ model.coef_)
    score, information, hazard = -model.coef_, np.eye(p), {}
    for t in np.unique(time[code == 1]):
        part = np.where((entry < t) & (time >= t), 1.0, 0.0)
        for i in np.flatnonzero((code == 2) & (time < t)):
            part[i] = omega(time[i], t)
        at = r * part
        S = at.sum()
        mean = at @ X / S
        d = w * ((code == 1) & (time == t))
        score = score + d @ (X - mean)
        information = information + d.sum() * ((X.T * at) @ X / S - np.outer(mean, mean))
        hazard[t] = d.sum() / S
    size = np.sqrt(np.diag(information))
    if (abs(score) / size).max() > 1e-6:
        wrong(f"score {(abs(score) / size).max():.1e} in standard errors")
    ours = model.vcov("model").to_numpy()
    if off := differs(ours / np.outer(1 / size, 1 / size),
                      np.linalg.inv(information) * np.outer(size, size), 1e-6):  # fmt: skip
        wrong(f"covariance {off:.1e}")
    times = np.quantile(np.array(list(hazard)), [0.2, 0.5, 0.9])
    people = X[:4]
    ours = model.predict_cumulative_incidence(people, times)
    total = np.array([sum(h for t, h in hazard.items() if t <= u) for u in times])
    if off := differs(ours, 1 - np.exp(-np.outer(np.exp(people @ model.coef_), total)), 1e-8):
        wrong(f"cumulative incidence {off:.1e}")
    return f"n={n} p={p} late={np.mean(entry > 0):.1f} whole weights={w.max() > 1}"
