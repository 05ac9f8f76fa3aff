"""Draw a problem from a seed: family, X, outcome, weights, offset, prior, storage, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["FAMILIES", "STORAGES", "Problem", "draw"]

FAMILIES = (
    "linear",
    "logistic",
    "poisson",
    "cox",
    "cox_steps",
    "fine_gray",
    "conditional_logistic",
    "conditional_poisson",
    "sccs",
    "pooled",
    "cumulative",
)
STRATIFIED = ("conditional_logistic", "conditional_poisson", "sccs")
STORAGES = ("C", "F", "frame", "csr", "csc", "design", "mixed")
SHAPES = (
    "mixed", "mixed", "binary", "normal", "correlated", "nested", "duplicated", "constant", "far",
    "separated",
)  # fmt: skip
LINKS = ("logit", "probit", "loglog", "cloglog", "cauchit")


@dataclass
class Problem:
    """What is fitted. Arrays are the user's."""

    seed: int
    family: str
    X: np.ndarray
    data: dict[str, np.ndarray]  # y, or time, event, entry
    settings: dict[str, Any]  # of the estimator
    weights: np.ndarray | None = None
    offset: np.ndarray | None = None
    strata: np.ndarray | None = None
    exposure: np.ndarray | None = None
    prior: str = "none"
    excluded: tuple[int, ...] = ()
    variances: dict[str, Any] = field(default_factory=dict)
    storage: str = "C"
    words: dict[str, Any] = field(default_factory=dict)  # how it was drawn

    @property
    def n(self) -> int:
        return len(self.X)

    def said(self) -> str:
        """The problem in a line."""
        parts = [f"n={self.n} p={self.X.shape[1]}", f"X={self.words['shape']}"]
        parts += [f"{k}={v}" for k, v in self.words.items() if k != "shape" and v not in ("", None)]
        parts += [f"{k}={v}" for k, v in self.settings.items() if k not in ("breaks",)]
        parts += [f"prior={self.prior}" + (f" exclude={self.excluded}" if self.excluded else "")]
        parts += [f"storage={self.storage}"]
        return " ".join(parts)


# X ---------------------------------------------------------------------------------------------


def _columns(rng, n, p, shape):
    if shape == "binary":
        share = np.exp(rng.uniform(np.log(0.03), np.log(0.6), p))
        return (rng.random((n, p)) < share).astype(float)
    if shape == "correlated":
        common, rho = rng.normal(size=(n, 1)), rng.choice([0.9, 0.99, 0.9999])
        return np.sqrt(rho) * common + np.sqrt(1 - rho) * rng.normal(size=(n, p))
    if shape == "nested":
        latent, noise = rng.random((n, 1)), 0.03 * rng.random((n, p))
        return (latent + noise < np.linspace(0.08, 0.9, p)).astype(float)
    Z = rng.normal(size=(n, p))
    if shape != "normal":
        kind = rng.integers(3, size=p)
        Z = np.where(kind == 0, rng.random((n, p)) < 0.3, Z)
        Z = np.where(kind == 1, Z * (rng.random((n, p)) < 0.3), Z)
    return Z


def _matrix(rng, n, p, shape):
    Z = _columns(rng, n, p, shape)
    if shape == "duplicated" and p > 1:
        Z[:, rng.integers(1, p)] = Z[:, 0] * rng.choice([1.0, -2.0, 3.0])
    if shape == "constant":
        Z[:, rng.integers(p)] = rng.choice([0.0, 1.0, 7.3])
    if shape == "far":
        Z = Z + 10.0 ** rng.uniform(1, 6, p) * (rng.random(p) < 0.6)
    return Z


def _plant(rng, X, score):
    """A column that is only seen where the outcome is on one side."""
    chosen = (score > np.quantile(score, rng.uniform(0.4, 0.8))) & (rng.random(len(score)) < 0.6)
    X[:, rng.integers(X.shape[1])] = chosen * rng.choice([1.0, -1.0, 3.0])


# outcomes --------------------------------------------------------------------------------------


def _survival(rng, eta, ties):
    rate = np.exp(np.clip(eta, -4, 4))
    time = rng.exponential(1 / rate)
    censor = rng.exponential(np.exp(rng.uniform(-1.5, 1.5)), len(eta))
    event = (time <= censor).astype(int)
    time = np.minimum(time, censor) + 1e-3
    if ties:
        time = np.ceil(rng.choice([2, 5, 12]) * time)
    return time, event


def _outcome(rng, problem, eta):
    family, n, words = problem.family, len(eta), problem.words
    if family == "linear":
        words["unit_y"] = float(10.0 ** rng.integers(-6, 7)) if rng.random() < 0.4 else 1.0
        level = rng.choice([0.0, 0.0, 10.0, 1e3])
        return {"y": words["unit_y"] * (eta + rng.normal(size=n) + level)}, eta
    if family in ("logistic", "conditional_logistic"):
        level = rng.choice([0.0, -1.0, -2.0])
        y = (rng.random(n) < 1 / (1 + np.exp(-eta - level))).astype(float)
        return {"y": y}, y
    if family in ("poisson", "conditional_poisson", "sccs"):
        exposed = family == "sccs" or rng.random() < 0.3
        problem.exposure = np.exp(rng.normal(0, 1, n)) if exposed else None
        scale = rng.choice([1.0, 365.0]) if exposed else 1.0
        if exposed:
            problem.exposure *= scale
            words["exposure"] = scale
        rate = np.exp(np.clip(eta + rng.choice([-2.0, 0.0, 2.0]), -6, 6))
        y = rng.poisson(rate * (problem.exposure / scale if exposed else 1.0)).astype(float)
        return {"y": y}, y
    if family == "cumulative":
        y = eta + rng.logistic(size=n)
        if rng.random() < 0.5:
            y = np.digitize(y, np.quantile(y, np.linspace(0, 1, rng.integers(3, 8))[1:-1])) * 1.0
        return {"y": y}, y
    ties = bool(rng.random() < 0.6)
    time, event = _survival(rng, eta, ties)
    if not event.any():
        event[int(np.argmin(time))] = 1
    score = event.copy()
    data = {"time": time, "event": event}
    if family == "fine_gray":
        data["event"] = np.where((event == 1) & (rng.random(n) < 0.4), 2, event)
        score = (data["event"] == 1).astype(int)
        own = np.random.default_rng([problem.seed, 1])  # what else is drawn stays as it was
        if own.random() < 0.4:
            entry = time * own.random(n) * (own.random(n) < own.choice([0.4, 0.7, 1.0]))
            data["entry"] = np.floor(entry) if ties else entry
            words["entry"] = "yes"
    elif rng.random() < (0.4 if family != "pooled" else 0.25):
        entry = time * rng.random(n) * (rng.random(n) < 0.7)
        data["entry"] = np.floor(entry) if ties else entry
        words["entry"] = "yes"
    words["ties"] = ties
    return data, score


# the rest --------------------------------------------------------------------------------------


def _weights(rng, problem):
    n = problem.n
    kind = rng.choice(
        ["none", "integer", "continuous", "some zero", "scaled", "wide"],
        p=[0.4, 0.15, 0.15, 0.1, 0.12, 0.08],
    )
    problem.words["weights"] = str(kind)
    if kind == "none":
        return None
    exact = problem.settings.get("method") == "exact"
    if exact:
        labels, size = problem.strata, len(np.unique(problem.strata))
    else:
        labels, size = np.arange(n), n
    w = {
        "integer": lambda: rng.integers(1, 4, size) * 1.0,
        "continuous": lambda: rng.uniform(0.2, 3.0, size),
        "some zero": lambda: rng.integers(0, 2, size) * 1.0,
        "scaled": lambda: rng.uniform(0.5, 2.0, size) * 10.0 ** rng.integers(-6, 7),
        "wide": lambda: 10.0 ** rng.uniform(-3, 3, size),
    }[str(kind)]()
    w = w[np.unique(labels, return_inverse=True)[1]] if exact else w
    if kind == "some zero" and exact:
        w = w * (rng.random(n) < 0.9)
    return w if w.any() else None


def _offset(rng, problem):
    kind = rng.choice(["none", "small", "constant", "wide"], p=[0.55, 0.15, 0.15, 0.15])
    n, unit = problem.n, problem.words.get("unit_y", 1.0)
    problem.words["offset"] = str(kind)
    if kind == "none":
        return None
    if kind == "small":
        return unit * rng.normal(0, 0.3, n)
    if kind == "constant":
        return unit * np.full(n, rng.choice([-15.0, -10.0, 10.0, 15.0]))
    return unit * rng.normal(0, 3.0, n)


def _settings(rng, family, p, n, data):
    if family in ("linear", "logistic", "poisson"):
        out = {"fit_intercept": bool(rng.random() < 0.8)}
    elif family in ("cox", "cox_steps"):
        out = {"ties": str(rng.choice(["efron", "breslow"]))}
        if family == "cox_steps":
            inner = np.unique(np.quantile(data["time"], [0.25, 0.5]))
            chosen = rng.choice(p, min(p, int(rng.integers(1, 3))), replace=False)
            out["time_varying"] = {
                int(j): [float(x) for x in inner[: rng.integers(1, len(inner) + 1)]] for j in chosen
            }
    elif family == "conditional_logistic":
        out = {"method": str(rng.choice(["exact", "exact", "efron", "breslow"]))}
    elif family == "pooled":
        out = {"interval": float(data["time"].max() / rng.integers(2, 9))}
        if rng.random() < 0.3:
            cuts = np.unique(np.quantile(data["time"], [0.3, 0.6, 0.9]))
            out = {"breaks": [0.0, *map(float, cuts)]}
        out["baseline"] = "interval" if rng.random() < 0.25 else int(rng.integers(0, 3))
        if rng.random() < 0.4:
            out["time_varying"] = {int(rng.integers(p)): int(rng.integers(1, 3))}
    elif family == "cumulative":
        out = {"link": str(rng.choice(LINKS))}
    else:
        out = {}
    by_ccd = family not in ("pooled", "cumulative", "fine_gray", "cox_steps")
    by_ccd = by_ccd and out.get("method") != "exact"
    if by_ccd and rng.random() < 0.1 and "entry" not in data:
        out |= {"solver": "ccd", "max_iter": 20000}
    return out


def _strata(rng, problem):
    n, family = problem.n, problem.family
    if family in STRATIFIED:
        return rng.integers(0, max(2, n // int(rng.integers(3, 7))), n)
    if family in ("cox", "cox_steps", "fine_gray") and rng.random() < 0.35:
        return rng.integers(0, 4, n)
    return None


def _prior(rng, problem):
    kind = str(rng.choice(["none", "laplace", "normal", "elastic"], p=[0.4, 0.32, 0.14, 0.14]))
    n, p = problem.X.shape
    problem.prior = "laplace" if kind == "none" and p >= n / 4 else kind
    if problem.prior == "none":
        return
    if rng.random() < 0.25 and p > 1:
        problem.excluded = tuple(
            int(j) for j in rng.choice(p, min(p - 1, int(rng.integers(1, 3))), replace=False)
        )
    # Strengths relative to the data's: λ to √n and κ to n of columns of standard deviation one.
    mass = n if problem.weights is None else problem.weights.sum()
    unit = problem.words.get("unit_y", 1.0)
    spread = problem.X.std(axis=0)
    spread = np.where(spread > 1e-10 * np.abs(problem.X).max(axis=0), spread, 1.0)
    vector = bool(rng.random() < (0.7 if problem.words.get("units") == "wide" else 0.2))
    problem.words["variances"] = "each" if vector else "one"
    own = spread if vector else np.median(spread)
    if problem.prior in ("laplace", "elastic"):
        lam = 10.0 ** rng.uniform(-2.5, 0.0) * mass / np.sqrt(n) * unit
        if rng.random() < 0.5:
            lam *= 3.0
        problem.variances["laplace"] = 2.0 / (lam * own) ** 2
    if problem.prior in ("normal", "elastic"):
        kappa = 10.0 ** rng.uniform(-4, 1.5) * mass
        problem.variances["normal"] = 1.0 / (kappa * own**2)
    if problem.family in ("logistic", "poisson", "cox", "linear", "fine_gray", "sccs", "pooled",
                          "conditional_logistic", "conditional_poisson"):  # fmt: skip
        problem.words["cv"] = str(rng.choice(["", "", "", "", "list", "auto"]))


def draw(seed: int, family: str | None = None, wide: bool = False) -> Problem:
    """The problem of a seed; with ``family`` the one of this family, ``wide`` of 20–60 columns."""
    rng = np.random.default_rng([20250701, seed])
    chosen = str(rng.choice(FAMILIES))
    family = family or chosen
    n = int(rng.integers(40, 130)) if family != "cumulative" else int(rng.integers(25, 70))
    p = int(rng.integers(1, 9))
    if rng.random() < 0.12:
        n, p = int(rng.integers(16, 40)), int(rng.integers(30, 70))
    if wide:
        p = int(rng.integers(20, 61))
        n = int(rng.uniform(2, 8) * p) if family != "cumulative" else int(rng.integers(60, 150))
    shape = str(rng.choice(SHAPES))
    words: dict[str, Any] = {"shape": shape}
    Z = _matrix(rng, n, p, shape)
    problem = Problem(seed, family, Z, {}, {}, words=words)
    deviation = np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1.0)
    beta = rng.normal(size=p) * (rng.random(p) < 0.6) * rng.choice([0.3, 0.8])
    eta = ((Z - Z.mean(axis=0)) / deviation) @ beta / np.sqrt(max(1, p / 6))
    problem.data, score = _outcome(rng, problem, eta)
    if shape == "separated":
        _plant(rng, Z, score)
    if rng.random() < 0.3:
        words["units"] = "wide"
        problem.X = Z * 10.0 ** rng.integers(-6, 7, p)
    problem.strata = _strata(rng, problem)
    problem.settings = _settings(rng, family, p, n, problem.data)
    problem.weights = _weights(rng, problem)
    problem.offset = _offset(rng, problem)
    _prior(rng, problem)
    problem.storage = str(rng.choice(STORAGES))
    return problem
