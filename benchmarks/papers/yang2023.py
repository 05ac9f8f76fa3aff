"""Cox and Fine-Gray regression with a million rows (Yang, Schuemie, Ji and Suchard 2023).

Simulated data follow the authors' published scripts: ones in 5 % of all cells, a fifth of the
coefficients N(0, 1), whole exponential times with uniform censoring, ties broken by noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numba import njit
from scipy import sparse

from steropes import CoxRegression, CrossValidation, FineGrayRegression, Laplace, Surv

from ..simulate import random_cells
from .cohorts import cohort
from .comparison import Row, Settings, clocked

HOUR, DAY = 3600, 86_400
P = 1_000
TOL = 1e-4
VARIANCES = {"λ = √2 (text)": 1.0, "variance 1.414 (script)": 1.414}


@lru_cache(maxsize=1)
def cells(n: int, p: int, seed: int) -> tuple[sparse.csc_array, np.ndarray, np.ndarray]:
    """Draw X, coefficients and the linear predictor; the last X is kept for the next outcome."""
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=p) * (rng.random(p) < 0.2)
    X = random_cells(rng, n, p)
    return X, beta, X @ beta


def cox_data(n: int, p: int, strata: int, seed: int):
    """Draw X, the outcome, labels of strata and the coefficients by the published script."""
    X, beta, eta = cells(n, p, seed)
    rng = np.random.default_rng([seed, strata])
    label = np.round(rng.uniform(1, max(strata, 1), n)).astype(int)
    rate = rng.uniform(0.01, 0.03, strata)[label - 1] * np.exp(eta)
    event_time = 1 + np.round(rng.exponential(1 / rate))
    censoring = 1 + np.round(rng.uniform(0, 499, n))
    time = np.minimum(event_time, censoring) + rng.normal(0, 0.001, n)
    return X, Surv(time, (censoring > event_time).astype(int)), label, beta


def fine_gray_data(n: int, p: int, seed: int):
    """Draw X, the outcome and the coefficients of the cause of interest by the script."""
    X, beta, eta = cells(n, p, seed)
    rng = np.random.default_rng([seed, 0])
    ratio, half = np.exp(eta), 0.5
    never = half**ratio  # probability of the competing cause
    u = rng.random(n)
    first = -np.log1p(-(1 - (1 - u * (1 - never)) ** (1 / ratio)) / half)
    second = rng.exponential(ratio)  # rate exp(−η): the opposite coefficients
    cause = np.where(rng.random(n) < never, 2, 1)
    time, censoring = np.where(cause == 1, first, second), rng.random(n)
    event = np.where(time <= censoring, cause, 0)
    spaced = np.log(1e100 * np.minimum(time, censoring) + 2) + rng.normal(0, 1e-4, n)
    return X, Surv(spaced, event), beta


# -- kernel fusion -----------------------------------------------------------------------------


def separate(e, x, event):
    """Gradient and Hessian of one coefficient by three scans, a transformation and two sums."""
    s0, s1, s2 = np.cumsum(e), np.cumsum(e * x), np.cumsum(e * x * x)
    mean = s1 / s0
    return np.sum(event * mean), np.sum(event * (s2 / s0 - mean * mean))


@njit(cache=True)
def fused(e, x, event):
    """Compute the same in one pass."""
    s0, s1, s2, gradient, hessian = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(e)):
        s0 += e[i]
        s1 += e[i] * x[i]
        s2 += e[i] * x[i] * x[i]
        mean = s1 / s0
        gradient += event[i] * mean
        hessian += event[i] * (s2 / s0 - mean * mean)
    return gradient, hessian


def kernel_fusion(settings: Settings) -> Iterator[Row]:
    """Time separate and fused passes over uniform numbers (section 4.1, figure 4)."""
    for n in settings.pick([1_000], [100_000], [100_000, 1_000_000]):
        e, x, event = np.random.default_rng(settings.seed).uniform(1, 2, (3, n))
        (g, _), slow = clocked(lambda e=e, x=x, d=event: repeated(separate, e, x, d), 5)
        (same, _), fast = clocked(lambda e=e, x=x, d=event: repeated(fused, e, x, d), 5)
        known = n == 100_000
        yield Row(f"separate passes, ms: n = {n:,}", {"GPU": 0.0579} if known else None,
                  slow * 50, "NumPy")  # fmt: skip
        yield Row(f"fused, ms: n = {n:,}", {"GPU": 0.0052} if known else None, fast * 50,
                  f"Numba, one core; gradients differ by {abs(same / g - 1):.0e}")  # fmt: skip
        paper = 0.0579 / 0.0052 if known else "up to 42"
        yield Row(f"separate / fused: n = {n:,}", paper, slow / fast)


def repeated(f, *arguments):
    """Call f twenty times, which the clock of processor time needs."""
    for _ in range(20):
        out = f(*arguments)
    return out


# -- one penalty -------------------------------------------------------------------------------


def fixed_penalty(settings: Settings) -> Iterator[Row]:
    """Compare the published algorithm with Newton's method at one penalty (figure 5)."""
    n = settings.pick(2_000, 100_000, 1_000_000)
    p = settings.pick(30, P, P)
    X, y, _, beta = cox_data(n, p, 1, settings.seed)
    label = f"n = {n:,}, p = {p:,}"
    for text, variance in VARIANCES.items():
        model = CoxRegression(prior=Laplace(variance), tol=TOL, n_jobs=1)
        _, one = clocked(lambda model=model: model.fit(X, y))
        error = np.mean((model.coef_ - beta) ** 2)
        yield Row(f"Cox, {text}, s: {label}", None, one, "one core, "
                  f"{model.n_iter_} steps, mean squared error of β {error:.3g}")  # fmt: skip
        if variance == 1.0:
            newton, seconds = model, one
    if settings.size != "full":
        descent = CoxRegression(prior=Laplace(1.0), solver="ccd", tol=TOL, max_iter=5_000, n_jobs=1)
        _, cyclic = clocked(lambda: descent.fit(X, y))
        apart = np.abs(descent.coef_ - newton.coef_).max()
        yield Row(f"Cox, published algorithm on one core / ours: {label}",
                  "35 (their CPU / GPU, n = 1,000,000)", cyclic / seconds,
                  f"`solver='ccd'`: {descent.n_iter_} cycles, {cyclic:.1f} s")  # fmt: skip
        yield Row("Cox, agreement of coefficients", "below 1e-4", f"{apart:.1e}",
                  f"both to a certificate of {TOL:g}")  # fmt: skip
    X, y, beta = fine_gray_data(n, p, settings.seed)
    model = FineGrayRegression(prior=Laplace(1.0), tol=TOL, n_jobs=1)
    _, one = clocked(lambda: model.fit(X, y))
    error = np.mean((model.coef_ - beta) ** 2)
    yield Row(f"Fine-Gray, λ = √2, s: {label}", None, one, "one core, "
              f"{model.n_iter_} steps, mean squared error of β {error:.3g}; seconds only in a "
              "figure")  # fmt: skip


# -- cross-validation --------------------------------------------------------------------------


def cross_validation(settings: Settings) -> Iterator[Row]:
    """Choose the penalty by ten folds and ten repeats (figure 6)."""
    n = settings.pick(600, 100_000, 1_000_000)
    p = settings.pick(20, P, P)
    repeats = settings.pick(1, 10, 10)
    for name, kind in (("Cox", CoxRegression), ("Fine-Gray", FineGrayRegression)):
        cox = kind is CoxRegression
        X, y, *_ = (cox_data(n, p, 1, settings.seed) if cox
                    else fine_gray_data(n, p, settings.seed))  # fmt: skip
        cv = CrossValidation(10, repeats, random_state=settings.seed)
        model = kind(prior=Laplace(), cv=cv, tol=TOL)
        _, seconds = clocked(lambda model=model, X=X, y=y: model.fit(X, y))
        known = cox and n == 1_000_000
        paper = {"CPU, 8 threads, wall": 9 * HOUR, "GPU, wall": 840} if known else None
        yield Row(f"{name}, 10 × {repeats}, s: n = {n:,}, p = {p:,}", paper, seconds,
                  f"{len(model.cv_results_)} variances, chosen {model.variance_:.3g}")  # fmt: skip


# -- the hypertension study --------------------------------------------------------------------


def hypertension_study(settings: Settings) -> Iterator[Row]:
    """Estimate a treatment's effect among thousands of covariates (section 5)."""
    n, p = settings.pick((2_000, 20), (43_487, 981), (434_866, 9_811))
    repeats, truth = settings.pick(1, 10, 10), 0.83
    hours = {"Cox": (2 * DAY, 3.87 * HOUR), "Fine-Gray": (3 * DAY, 8.57 * HOUR)}
    nonzero = {"Cox": 215, "Fine-Gray": 134}
    published = {"Cox": "0.83 (0.72, 0.94)", "Fine-Gray": "0.83 (0.71, 0.95)"}
    for name, kind in (("Cox", CoxRegression), ("Fine-Gray", FineGrayRegression)):
        competing = 0.02 if kind is FineGrayRegression else 0.0
        made = cohort(n, p, (truth, truth), settings.pick(0.2, 0.024, 0.024), settings.seed,
                      competing=competing)  # fmt: skip
        cv = CrossValidation(10, repeats, random_state=settings.seed)
        model = kind(prior=Laplace(exclude=[0]), cv=cv, tol=TOL)
        _, seconds = clocked(lambda model=model, made=made: model.fit(made.X, made.y))
        low, high = np.exp(model.confint(["x0"], method="profile").iloc[0])
        cpu, gpu = hours[name]
        paper = {"CPU, wall": cpu, "GPU, wall": gpu} if settings.size == "full" else None
        label = f"n = {n:,}, p = {p + 1:,}"
        yield Row(f"{name}, 10 × {repeats} and last fit, s: {label}", paper, seconds,
                  f"{made.X.nnz:,} ones, {int((made.y['event'] == 1).sum()):,} events")  # fmt: skip
        yield Row(f"{name}, hazard ratio: {label}", published[name],
                  f"{np.exp(model.coef_[0]):.2f} ({low:.2f}, {high:.2f})",
                  f"simulated with {truth}; profile interval")  # fmt: skip
        yield Row(f"{name}, covariates chosen: {label}", nonzero[name],
                  int(np.count_nonzero(model.coef_[1:])), "depends on the effects")  # fmt: skip


EXPERIMENTS = {
    "kernel fusion": kernel_fusion,
    "fixed penalty": fixed_penalty,
    "cross-validation": cross_validation,
    "hypertension study": hypertension_study,
}
