"""Logistic and exact conditional logistic regression (Tian 2018), on simulated data.

X has 5 % ones; a fifth of the coefficients is N(0, 2²), the others are zero. The slides give
neither the intercept nor the penalty; here they are 0 and λ = √2 (a Laplace prior of variance 1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from steropes import (
    ConditionalLogisticRegression,
    CrossValidation,
    Laplace,
    LogisticRegression,
    SeparationError,
)

from ..simulate import claims, intercept, random_cells
from .comparison import Row, Settings, clocked

MINUTE, HOUR = 60, 3600
SPREAD = 2.0  # "Norm(0, 2)" read as a standard deviation
TOL = 1e-6

FIXED = {  # rows, columns: cycles of coordinate descent, seconds
    (5_000, 1_000): (95, {"CPU": 18.5, "GPU": 10.6}),
    (50_000, 1_000): (114, {"CPU": 296, "GPU": 14.1}),
    (5_000, 10_000): (156, {"CPU": 214, "GPU": 146}),
    (50_000, 10_000): (409, {"CPU (est.)": 8_998, "GPU": 466}),
}
FOLDS = {  # rows, columns, repeats of ten folds
    (1_000, 200, 1): {"CPU": 5.5, "GPU": 1.2},
    (1_000, 200, 10): {"CPU": 47.5, "GPU": 1.4},
    (1_000, 1_000, 1): {"CPU": 81.3, "GPU": 14.6},
    (1_000, 1_000, 10): {"CPU": 738, "GPU": 14.4},
    (10_000, 5_000, 1): {"CPU (est.)": 9_579, "GPU": 202},
    (10_000, 5_000, 10): {"CPU (est.)": 36.3 * HOUR, "GPU": 181},
}
PROPENSITY = {
    (74_624, 3_626, 10): {"CPU": 46.1 * MINUTE, "GPU": 6.48 * MINUTE},
    (74_624, 24_815, 1): {"GPU": 1.39 * HOUR},
    (74_624, 24_815, 10): {"CPU": 12.5 * HOUR, "GPU": 3.14 * HOUR},
}
EXACT = {  # rows, columns, strata, cases a row: seconds and errors, conditional and with dummies
    (2_000, 100, 100, 8.3 / 20): ({"clogit": 11.5, "CPU": 12.6, "GPU": 6.2}, 0.48, 0.411, 0.570),
    (20_000, 100, 1_000, 13.3 / 20): ({"clogit": 313, "CPU": 112, "GPU": 10.9}, 334, 0.109, 0.217),
}


def draw(n: int, p: int, seed: int) -> tuple[sparse.csc_array, np.ndarray]:
    """Draw X and a 0/1 outcome."""
    rng = np.random.default_rng(seed)
    X = random_cells(rng, n, p)
    beta = rng.normal(0, SPREAD, p) * (rng.random(p) < 0.2)
    return X, (rng.random(n) < 1 / (1 + np.exp(-(X @ beta)))).astype(float)


def fixed_penalty(settings: Settings) -> Iterator[Row]:
    """Time lasso fits at one penalty."""
    for n, p in settings.pick([(500, 60)], [*FIXED], [*FIXED]):
        steps, paper = FIXED.get((n, p), (0, None))
        X, y = draw(n, p, settings.seed)
        model = LogisticRegression(prior=Laplace(1.0), tol=TOL)
        _, seconds = clocked(lambda model=model, X=X, y=y: model.fit(X, y), 3)
        yield Row(f"fixed penalty, s: n = {n:,}, p = {p:,}", paper, seconds,
                  f"{steps} cycles; {model.n_iter_} Newton steps, "
                  f"{np.count_nonzero(model.coef_)} nonzero")  # fmt: skip


def cross_validation(settings: Settings) -> Iterator[Row]:
    """Time the choice of the penalty by ten folds, once and ten times, and the last fit."""
    few = [size for size in FOLDS if size[0] == 1_000]
    for n, p, repeats in settings.pick([(300, 30, 2)], few, [*FOLDS]):
        X, y = draw(n, p, settings.seed)
        yield cross_validated(
            X, y, repeats, FOLDS.get((n, p, repeats)), settings, "cross-validation"
        )


def cross_validated(X, y, repeats: int, paper, settings: Settings, what: str) -> Row:
    """Cross-validate and report the time."""
    cv = CrossValidation(10, repeats, random_state=settings.seed)
    model = LogisticRegression(prior=Laplace(), cv=cv, tol=TOL)
    _, seconds = clocked(lambda: model.fit(X, y))
    n, p = X.shape
    return Row(f"{what}, s: n = {n:,}, p = {p:,}, 10 × {repeats}", paper, seconds,
               f"{len(model.cv_results_)} variances, chosen {model.variance_:.3g}, "
               f"{np.count_nonzero(model.coef_)} nonzero")  # fmt: skip


def propensity(n: int, p: int, seed: int) -> tuple[sparse.csc_array, np.ndarray]:
    """Draw columns with prevalences from a power law, and a treatment of three in ten."""
    rng = np.random.default_rng(seed)
    X, beta, _ = claims(rng, n, p, 0.0289, "logistic", profile=False)
    eta = X @ beta
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta - intercept(eta, 0.3)))).astype(float)


def propensity_model(settings: Settings) -> Iterator[Row]:
    """Cross-validate propensity models at the size of warfarin against dabigatran."""
    reduced = [(74_624 // 4, 3_626 // 4, 10)]
    for n, p, repeats in settings.pick([(600, 40, 1)], reduced, [*PROPENSITY]):
        X, treated = propensity(n, p, settings.seed)
        paper = PROPENSITY.get((n, p, repeats))
        yield cross_validated(X, treated, repeats, paper, settings, "propensity model")


def strata(n: int, p: int, k: int, share: float, seed: int):
    """Draw strata of equal size with effects N(0, 0.25²) and the given share of cases."""
    rng = np.random.default_rng(seed)
    X, beta = random_cells(rng, n, p), rng.normal(0, SPREAD, p)
    label = np.repeat(np.arange(k), n // k)
    eta = X @ beta + rng.normal(0, 0.25, k)[label]
    y = (rng.random(n) < 1 / (1 + np.exp(-eta - intercept(eta, share)))).astype(float)
    return X, y, label, beta


def exact_and_dummies(n: int, p: int, k: int, share: float, seed: int) -> np.ndarray | None:
    """Fit both models; return their errors and seconds, or None if a maximum does not exist."""
    X, y, label, beta = strata(n, p, k, share, seed)
    mixed = np.isin(label, np.flatnonzero(np.bincount(label, y) % (n // k)))  # others say nothing
    X, y, label = X[mixed], y[mixed], label[mixed]
    dummies = sparse.csc_array((np.ones(len(y)), (np.arange(len(y)), label)), shape=(len(y), k))
    dummies = dummies[:, np.unique(label)]
    exact = ConditionalLogisticRegression(method="exact")
    crude = LogisticRegression(fit_intercept=False)
    wide = sparse.hstack([X, dummies], format="csc")
    try:
        _, one = clocked(lambda: exact.fit(X, y, strata=label))
        _, other = clocked(lambda: crude.fit(wide, y))
    except SeparationError:
        return None
    errors = (np.abs(m.coef_[:p] - beta).mean() for m in (exact, crude))
    return np.array([*errors, one, other])


def exact_conditional(settings: Settings) -> Iterator[Row]:
    """Compare exact conditional regression with an indicator for each stratum."""
    draws = settings.pick(1, 5, 20)
    for size in settings.pick([(800, 5, 40, 0.5)], [*EXACT], [*EXACT]):
        n, p, k, share = size
        none = (None, None, None, None)
        seconds, dummy_seconds, error, dummy_error = EXACT.get(size, none)
        seeds = range(settings.seed, settings.seed + draws)
        made = [exact_and_dummies(n, p, k, share, seed) for seed in seeds]
        fits = np.array([x for x in made if x is not None])
        separated = draws - len(fits)
        if not len(fits):
            yield Row(f"exact conditional: n = {n:,}, {k:,} strata", error, "no finite maximum")
            continue
        low, high = fits.min(axis=0), fits.max(axis=0)
        ratios = fits[:, 3] / fits[:, 2]
        label = f"n = {n:,}, p = {p}, {k:,} strata of {n // k}"
        note = f"mean of {len(fits)} draws, {low[0]:.3f} to {high[0]:.3f}"
        note += f"; {separated} more have no finite maximum" * (separated > 0)
        yield Row(f"mean absolute error, exact: {label}", error, fits[:, 0].mean(), note)
        yield Row(f"mean absolute error, dummies: {label}", dummy_error, fits[:, 1].mean(),
                  f"{low[1]:.3f} to {high[1]:.3f}")  # fmt: skip
        yield Row(f"exact, s: {label}", seconds, fits[:, 2].mean())
        yield Row(f"dummies, s: {label}", {"glm": dummy_seconds} if dummy_seconds else None,
                  fits[:, 3].mean(),
                  f"{ratios.min():.1f} to {ratios.max():.1f} times the exact model's")  # fmt: skip


EXPERIMENTS = {
    "fixed penalty": fixed_penalty,
    "cross-validation": cross_validation,
    "propensity model": propensity_model,
    "exact conditional": exact_conditional,
}
