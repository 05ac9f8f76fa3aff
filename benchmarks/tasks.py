"""What is measured: one entry a figure to reach."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TASKS", "Task"]


@dataclass(frozen=True)
class Task:
    """A benchmark.

    Attributes
    ----------
    folds, repeats : int
        Of the cross-validation; 0 folds is one fit at ``lam``.
    rate : float or None
        Share of events or of treated people.
    tol : float
        KKT violation asked of steropes, relative to λ.
    target : str
        What is to be reached at the full size on two cores.
    peers : tuple of str
        Who can do the same; those whose time would be hours at the full size come with a limit
        of entries (n · p) above which they are left out.
    """

    name: str
    family: str
    kind: str
    n: int
    p: int
    density: float | None
    rate: float | None = None
    folds: int = 0
    repeats: int = 1
    lam: float = 2**0.5
    tol: float = 1e-4
    target: str = ""
    peers: tuple[str, ...] = ()


FIT_COX = ("adelie", "glmnet", "skglm", "scikit-survival", "survival", "lifelines", "cyclops")
FIT_LOGISTIC = ("adelie", "glmnet", "skglm", "scikit-learn", "glum", "cyclops")
CV = ("adelie", "glmnet", "cyclops")

TASKS = {
    t.name: t
    for t in (
        Task("cox-fit", "cox", "uniform", 100_000, 1_000, 0.05,
             target="60 passes", peers=FIT_COX),
        Task("cox-cv", "cox", "uniform", 100_000, 1_000, 0.05, folds=10,
             target="500 passes", peers=CV),
        Task("logistic-fit", "logistic", "uniform", 100_000, 1_000, 0.05,
             target="60 passes", peers=FIT_LOGISTIC),
        Task("propensity-cv", "logistic", "claims", 50_000, 5_000, 0.029, rate=0.4, folds=10,
             target="500 passes", peers=(*CV, "scikit-learn")),
        Task("cox-claims-cv", "cox", "claims", 434_866, 9_811, 0.0289, rate=0.024,
             folds=10, repeats=10, target="600 s, 12 GB", peers=CV),
        Task("logistic-claims-cv", "logistic", "claims", 74_624, 24_815, 0.0289, rate=0.3,
             folds=10, repeats=10, target="300 s", peers=CV),
        # X as claims have it; the density is that of one person's entries, before ancestors.
        Task("claims-fit", "logistic", "correlated", 100_000, 20_000, 0.00365, rate=0.3,
             lam=200**0.5, target="30 passes", peers=("adelie", "glmnet")),
        Task("claims-cv", "logistic", "correlated", 100_000, 20_000, 0.00365, rate=0.3, folds=10,
             lam=200**0.5, target="200 passes", peers=("adelie", "glmnet")),
        Task("claims-fit-large", "logistic", "correlated", 300_000, 80_000, 0.001375, rate=0.3,
             lam=200**0.5, target="60 passes", peers=("adelie", "glmnet")),
        Task("claims-cv-large", "logistic", "correlated", 300_000, 80_000, 0.001375, rate=0.3,
             folds=10, lam=200**0.5, target="400 passes", peers=("adelie", "glmnet")),
        Task("claims-cv-wide", "logistic", "correlated", 300_000, 200_000, 0.00006, rate=0.3,
             folds=10, lam=25**0.5, target="X + 4 GB", peers=("adelie", "glmnet")),
        Task("claims-cox-fit", "cox", "correlated", 100_000, 20_000, 0.00365, rate=0.1,
             lam=200**0.5, target="30 passes", peers=("adelie", "glmnet")),
        Task("claims-cox-cv", "cox", "correlated", 100_000, 20_000, 0.00365, rate=0.1, folds=10,
             lam=200**0.5, target="200 passes", peers=("adelie", "glmnet")),
        Task("memory", "cox", "uniform", 400_000, 1_000, 0.05,
             target="1.5 x X beyond X"),
        Task("cold-start", "cox", "uniform", 2_000, 50, 0.05,
             target="5 s fresh, 0.5 s later"),
    )
}  # fmt: skip

# Entries n·p above which a peer is left out: dense X, or known to take hours.
LIMITS = {
    "lifelines": 2e6,
    "survival": 1e7,
    "scikit-survival": 2e8,
    "scikit-learn": 1e9,
    "skglm": 1e9,
    "glum": 1e9,
    "glmnet": 1e10,
    "adelie": 1e11,
    "cyclops": 1e10,
}
