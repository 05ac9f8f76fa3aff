"""Data for benchmarks: the papers' Cox simulator, and claims-like covariates."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from scipy import sparse

from .correlated import correlated_claims

__all__ = ["claims", "intercept", "random_cells", "simulate", "uniform_columns"]

SPREAD = 1.3  # standard deviation of the linear predictor on correlated columns
PROFILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "cohort_profile.csv"


def _columns(rng, n: int, share: np.ndarray) -> sparse.csc_array:
    """Independent 0/1 columns with exactly round(share · n) ones each."""
    counts = np.clip(np.round(share * n).astype(np.int64), 1, n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.empty(indptr[-1], np.int32)
    for j, count in enumerate(counts):
        indices[indptr[j] : indptr[j + 1]] = np.sort(rng.choice(n, count, replace=False))
    # Both of one type: SciPy would convert the indices to that of a wider indptr.
    positions = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)
    return sparse.csc_array((np.ones(len(indices)), indices, positions), shape=(n, len(counts)))


def uniform_columns(rng, n: int, p: int, density: float = 0.05) -> sparse.csc_array:
    """The papers' X but for one thing: each column has the same number of ones.

    Theirs are cells drawn from the whole of X, so that columns differ by chance.
    """
    return _columns(rng, n, np.full(p, density))


def random_cells(rng, n: int, p: int, density: float = 0.05) -> sparse.csc_array:
    """The papers' X: n p density ones in distinct cells, so that columns differ by chance."""
    counts = rng.binomial(n, density, p)
    off = round(n * p * density) - counts.sum()
    np.add.at(counts, rng.integers(0, p, abs(off)), np.sign(off))
    return _columns(rng, n, counts / n)


def claims(rng, n: int, p: int, density: float | None, family: str, profile: bool = True) -> tuple:
    """Columns with the prevalences of a real cohort where its profile is there, else a power law.

    ``profile=False`` uses the power law in any case.
    ``density`` rescales them to a mean share of ones. Returns X, the effects (the profile's own,
    of its propensity model or its outcome model), and where it all comes from.
    """
    if profile and PROFILE.exists():
        with PROFILE.open() as file:
            rows = [row for row in csv.DictReader(file) if float(row["prevalence"]) > 0]
        rows.sort(key=lambda row: -float(row["prevalence"]))
        chosen = np.arange(p) if p <= len(rows) else rng.integers(0, len(rows), p)
        effect = "ps_coef" if family == "logistic" else "outcome_coef"
        share = np.array([float(rows[j]["prevalence"]) for j in chosen])
        beta = np.array([float(rows[j][effect]) for j in chosen])
        source = "prevalences and effects of a real cohort"
    else:
        share = 0.5 * np.arange(1, p + 1) ** -0.7
        beta = 0.4 * rng.normal(size=p) * (rng.random(p) < 0.05)
        source = "power-law prevalences"
    if density is not None:
        share = _rescaled(share, density)
    by = rng.permutation(p)
    return _columns(rng, n, np.clip(share[by], 10 / n, 0.5)), beta[by], source


def _rescaled(share: np.ndarray, density: float) -> np.ndarray:
    """Shares times a factor, capped at one half, so that their mean is the density asked for."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if np.minimum(middle * share, 0.5).mean() < density else (low, middle)
        )
    return np.minimum(high * share, 0.5)


def simulate(
    family: str, kind: str, n: int, p: int, density: float | None, rate: float | None, seed: int
) -> dict:
    """Draw a data set.

    Parameters
    ----------
    family : {"cox", "logistic"}
    kind : {"uniform", "claims", "correlated"}
        Of X: `uniform_columns`, `claims` or `correlated_claims`.
    rate : float or None
        Share of events (treated), where it is to be met; None leaves what the simulator gives.

    Returns
    -------
    dict
        ``X`` (CSC), ``y`` (0/1 outcome or event), for Cox ``time``, and ``source``.
    """
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        X, source = uniform_columns(rng, n, p, density or 0.05), "the papers' simulator"
        beta = rng.normal(size=p) * (rng.random(p) < 0.2)
    elif kind == "correlated":
        X, beta = correlated_claims(rng, n, p, (density or 0.001) * p)
        beta *= SPREAD / (X @ beta).std()
        source = "clusters, nested windows, ancestors"
    else:
        X, beta, source = claims(rng, n, p, density, family)
    eta = X @ beta
    if family == "logistic":
        share = 0.5 if rate is None else rate
        a = intercept(eta, share)
        y = (rng.random(n) < 1 / (1 + np.exp(-a - eta))).astype(float)
        return {"X": X, "y": y, "source": source}
    base = rng.uniform(0.01, 0.03)
    if rate is not None:
        base = _base(rng, eta, rate)
    event_time = 1 + np.round(rng.exponential(1 / (base * np.exp(np.clip(eta, -30, 30)))))
    censoring = 1 + np.round(rng.uniform(0, 499, n))
    event = (censoring > event_time).astype(float)
    time = np.minimum(event_time, censoring) + rng.normal(0, 0.001, n)
    return {"X": X, "y": event, "time": np.maximum(time, 1e-6), "source": source}


def intercept(eta: np.ndarray, share: float) -> float:
    """Intercept at which the mean probability of a logistic model is ``share``."""
    low, high = -40.0, 40.0
    for _ in range(60):
        a = 0.5 * (low + high)
        low, high = (a, high) if np.mean(1 / (1 + np.exp(-a - eta))) < share else (low, a)
    return a


def _base(rng, eta: np.ndarray, rate: float) -> float:
    """Base rate at which the expected share of events by uniform censoring is ``rate``."""
    low, high = -25.0, 0.0
    hazard = np.exp(np.clip(eta, -30, 30))
    for _ in range(60):
        b = 0.5 * (low + high)
        z = np.exp(b) * hazard * 500
        share = np.mean(1 - -np.expm1(-z) / z)
        low, high = (b, high) if share < rate else (low, b)
    return float(np.exp(b))
