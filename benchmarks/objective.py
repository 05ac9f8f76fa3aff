"""The penalised objective and its KKT violation at anyone's coefficients, without steropes."""

from __future__ import annotations

import numpy as np

__all__ = ["kkt", "objective"]


def _loss(family: str, eta: np.ndarray, data: dict) -> tuple[float, np.ndarray]:
    y = data["y"]
    if family == "logistic":
        p = 1 / (1 + np.exp(-np.clip(eta, -700, 700)))
        return float(np.sum(np.logaddexp(0, eta) - y * eta)), p - y
    # Breslow; late times first, and tied times share the sum over all of them
    time = data["time"]
    by = np.argsort(-time, kind="stable")
    e, d, t = eta[by], y[by], time[by]
    top = e.max()
    r = np.exp(e - top)
    last = np.append(np.flatnonzero(np.diff(t)), len(t) - 1)
    end = last[np.searchsorted(last, np.arange(len(t)))]
    S = np.cumsum(r)[end]
    loss = float(np.sum(d * (np.log(S) + top - e)))
    begin = np.append(0, last[:-1] + 1)[np.searchsorted(last, np.arange(len(t)))]
    H = np.cumsum((d / S)[::-1])[::-1][begin]
    g = np.empty_like(eta)
    g[by] = r * H - d
    return loss, g


def objective(family: str, data: dict, beta: np.ndarray, intercept: float, lam: float) -> float:
    """Negative log-likelihood plus λ‖β‖₁."""
    return _loss(family, data["X"] @ beta + intercept, data)[0] + lam * float(np.abs(beta).sum())


def kkt(family: str, data: dict, beta: np.ndarray, intercept: float, lam: float) -> float:
    """Largest KKT violation relative to λ."""
    _, r = _loss(family, data["X"] @ beta + intercept, data)
    g = data["X"].T @ r
    v = np.where(beta != 0, np.abs(g + lam * np.sign(beta)), np.maximum(np.abs(g) - lam, 0))
    top = abs(float(r.sum())) if family == "logistic" else 0.0
    return float(max(v.max(), top)) / lam
