"""Many outcomes over one cohort: time of fifty fits together against one, processor and wall.

    python -m benchmarks.many [--family logistic cox --n 20000 --p 2000 --outcomes 50]

simulates one sparse X and outcomes of different frequency that depend on columns of their own, and
prints what one fit takes (the mean of a few, by `fit` from X) and what `fit_many` takes for all.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
import warnings

import numpy as np

from steropes import (
    CoxRegression,
    Laplace,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
    fit_many,
)

from .simulate import claims, uniform_columns

MODELS = {"logistic": LogisticRegression, "poisson": PoissonRegression, "cox": CoxRegression}
PRIORS = {"laplace": Laplace, "normal": Normal}


def outcomes(rng, X, family: str, count: int, rates: tuple[float, float]) -> dict:
    """Outcomes by name: shares of events between two rates, evenly on the logarithmic scale."""
    n, p = X.shape
    out = {}
    frail = X @ (0.3 * rng.normal(size=p) * (rng.random(p) < 0.05))
    for k, rate in enumerate(np.geomspace(*rates, count)):
        eta = frail + X @ (0.5 * rng.normal(size=p) * (rng.random(p) < 0.05))
        eta *= 1.0 / eta.std()
        hazard = np.exp(eta - eta.mean())
        scale = rate / hazard.mean()
        if family == "logistic":
            out[f"o{k}"] = (rng.random(n) < np.minimum(scale * hazard, 0.95)).astype(float)
        elif family == "poisson":
            out[f"o{k}"] = rng.poisson(scale * hazard).astype(float)
        else:
            time_to = np.ceil(rng.exponential(365 / (scale * hazard)))
            censored = np.ceil(rng.uniform(30, 730, n))
            out[f"o{k}"] = Surv(np.minimum(time_to, censored), time_to <= censored)
    return out


def seconds(work) -> np.ndarray:
    """Processor seconds of a call, and seconds by the clock."""
    start = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()
    return np.array([time.process_time() - start[0], time.perf_counter() - start[1]])


def measure(family: str, a: argparse.Namespace) -> None:
    """One line of the table."""
    rng = np.random.default_rng(a.seed)
    if a.kind == "dense":
        X = rng.normal(size=(a.n, a.p))
    elif a.kind == "claims":
        X = claims(rng, a.n, a.p, a.density, family)[0]
    else:
        X = uniform_columns(rng, a.n, a.p, a.density)
    ys = outcomes(rng, X, family, a.outcomes, (a.rarest, a.commonest))
    prior = PRIORS[a.prior](a.variance)
    model = MODELS[family](prior=prior, n_jobs=a.threads, tol=a.tol)
    names = list(ys)
    fit_many(model, X[:1500, :60], {k: ys[k][:1500] for k in names[-9:]})  # compiled
    some = names[:: max(1, len(names) // a.alone)]
    each, coefs = [], {}
    for k in some:
        made = MODELS[family](prior=prior, n_jobs=a.threads, tol=a.tol)
        each.append(seconds(lambda made=made, k=k: made.fit(X, ys[k])))
        coefs[k] = made.coef_
    one = np.mean(each, axis=0)
    table = {}
    profile = cProfile.Profile()
    if a.profile:
        profile.enable()
    total = seconds(lambda: table.update(t=fit_many(model, X, ys)))
    profile.disable()
    if a.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
    t = table["t"]
    apart = max(
        np.abs(t[(t.outcome == k) & (t.coefficient != "intercept")].coef - coefs[k]).max()
        for k in some
    )
    entries = X.size if a.kind == "dense" else X.nnz
    nonzero = [int(np.count_nonzero(coefs[k])) for k in some]
    print(
        f"| {family} | {a.prior} | {a.n:,} × {a.p:,}, {entries:,} | {a.outcomes} | "
        f"{_both(one, 2)} | {_both(total, 2)} | {_both(total / one, 1)} | "
        f"{min(nonzero)}–{max(nonzero)} | {apart:.1e} | {bool(t.converged.all())} |",
        flush=True,
    )


def _both(numbers: np.ndarray, digits: int) -> str:
    return " / ".join(f"{x:.{digits}f}" for x in numbers)


def main() -> None:
    """Simulate, fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", nargs="+", choices=sorted(MODELS), default=["logistic", "cox"])
    parser.add_argument("--prior", choices=sorted(PRIORS), default="laplace")
    parser.add_argument("--variance", type=float, default=0.02)
    parser.add_argument("--kind", choices=("uniform", "claims", "dense"), default="claims")
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--p", type=int, default=2_000)
    parser.add_argument("--density", type=float, default=0.02)
    parser.add_argument("--outcomes", type=int, default=50)
    parser.add_argument("--rarest", type=float, default=0.005)
    parser.add_argument("--commonest", type=float, default=0.1)
    parser.add_argument("--alone", type=int, default=10, help="outcomes that are fitted alone")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    a = parser.parse_args()
    print(
        "| family | prior | X, ones | outcomes | one, s (processor / wall) | all, s | ratio "
        "| nonzero | apart | conv |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---|")
    for family in a.family:
        measure(family, a)


if __name__ == "__main__":
    main()
