"""Whether a GPU gives what the CPU gives: every family, prior and storage, on both devices.

    python benchmarks/device_check.py                     on a machine with a GPU
    python benchmarks/device_check.py --n 1000000 --p 2400 --density 0.01 --only logistic
                                                          n · p beyond 2³¹
    python benchmarks/device_check.py --device torch-cpu  anywhere: tiny, on PyTorch's CPU device

Each case is fitted with device="cpu" and on the device. Compared are coefficients, chosen variance,
log-likelihood and, where there is no ℓ1 penalty, the covariance; the certificate of either is taken
again from X on the host, with code of the CPU alone: the gradient over all columns at the
coefficients that came back, so that an error in a copy of X on the device can't hide. Times are of
a second fit, and in passes (one single-threaded X'r). Exits with 1 if any case differs, with 2
where there is no GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

FAMILIES = [
    "linear", "logistic", "poisson", "cox efron", "cox breslow", "cox strata", "cox entry",
    "fine-gray", "conditional exact", "conditional efron", "conditional breslow",
    "conditional poisson", "case series", "pooled", "cumulative",
]  # fmt: skip
SETS = 5  # rows of a matched set, or of a person's observation time
COEFFICIENT = 1e-6  # largest difference of coefficients, in standard deviations of their columns
CERTIFICATE = 1e-4  # largest violation, in units of λ or of the score's standard error


@dataclass
class Case:
    """One fit: what differs between cases."""

    family: str
    prior: str  # "none", "ridge" or "lasso"
    cv: bool
    weights: bool
    dense: bool

    def __str__(self) -> str:
        words = [self.family, self.prior, "cv" if self.cv else "", "w" if self.weights else ""]
        return ", ".join(w for w in [*words, "dense" if self.dense else "sparse"] if w)


def cases(only: str | None) -> list[Case]:
    """All combinations: a variance is chosen for a penalty alone, case series have no weights."""
    out = []
    for family, prior, cv, weights, dense in product(
        FAMILIES, ("none", "ridge", "lasso"), (False, True), (False, True), (False, True)
    ):
        absent = (cv and prior == "none") or (weights and family == "case series")
        if absent or (only and only not in family):
            continue
        out.append(Case(family, prior, cv, weights, dense))
    return out


def simulate(case: Case, n: int, p: int, density: float) -> tuple[Any, Any, dict]:
    """X, y and what else `fit` is given."""
    import numpy as np
    from scipy import sparse

    import steropes

    rng = np.random.default_rng(7)
    n -= n % SETS
    X = sparse.random_array((n, p), density=density, format="csc", rng=rng, dtype=np.float64)
    X.data[:] = np.where(X.indices % 2 == 0, 1.0, X.data + 0.5)
    beta = 0.5 * rng.normal(size=p) * (rng.random(p) < 0.5)
    eta = X @ beta
    eta -= eta.mean()
    y: Any
    data: dict[str, Any] = {}
    groups = np.repeat(np.arange(n // SETS), SETS)
    family = case.family
    if case.weights:
        data["sample_weight"] = rng.choice([0.5, 1.0, 2.0], n)
    if family == "linear":
        y = eta + rng.normal(size=n)
    elif family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    elif family == "poisson":
        y = rng.poisson(np.exp(eta))
        data["exposure"] = rng.uniform(0.5, 2.0, n)
    elif family.startswith("conditional"):
        y = rng.poisson(np.exp(eta)) if family.endswith("poisson") else (
            rng.random(n) < 1 / (1 + np.exp(-eta))
        ).astype(int)  # fmt: skip
        data["strata"] = groups
        if case.weights and family.endswith("exact"):  # a weight belongs to a whole set there
            data["sample_weight"] = rng.choice([1.0, 2.0], n // SETS)[groups]
    elif family == "case series":
        data["exposure"] = rng.uniform(0.5, 2.0, n)
        y = rng.poisson(np.exp(eta))
        data["strata"] = groups
    elif family == "cumulative":
        y = np.round(eta + rng.logistic(size=n), 1)
    else:
        at = np.ceil(rng.exponential(np.exp(-eta)) * 5) / 5
        event = (rng.random(n) < 0.7).astype(int)
        if family == "fine-gray":
            event *= rng.integers(1, 3, n)
        time, status = np.minimum(at, 3.0), np.where(at < 3.0, event, 0)
        entry = time * rng.choice([0.0, 0.5], n) if family == "cox entry" else None
        y = steropes.Surv(time, status, entry)
        if family == "cox strata":
            data["strata"] = groups % 7
    return X.toarray() if case.dense else X, y, data


def model(case: Case, device: str) -> Any:
    """The estimator of a case."""
    import steropes

    prior = {
        "none": None,
        "ridge": steropes.Normal() if case.cv else steropes.Normal(0.3),
        "lasso": steropes.Laplace() if case.cv else steropes.Laplace(0.05),
    }[case.prior]
    cv = None
    if case.cv:
        cv = steropes.CrossValidation(3, search=[0.02, 0.2], random_state=0, tol=1e-8)
    family, _, kind = case.family.partition(" ")
    extra: dict[str, Any] = {}
    if family == "cox":
        extra["ties"] = "breslow" if kind == "breslow" else "efron"
    elif family == "conditional" and kind != "poisson":
        extra["method"] = kind
    elif family == "pooled":
        extra |= {"interval": 0.5, "baseline": 2}
    matched = "ConditionalPoisson" if kind == "poisson" else "ConditionalLogistic"
    name = {
        "linear": "LinearRegression",
        "logistic": "LogisticRegression",
        "poisson": "PoissonRegression",
        "cox": "CoxRegression",
        "fine-gray": "FineGrayRegression",
        "conditional": f"{matched}Regression",
        "case": "SelfControlledCaseSeries",
        "pooled": "PooledLogisticRegression",
        "cumulative": "CumulativeProbabilityModel",
    }[family]
    return getattr(steropes, name)(prior=prior, cv=cv, tol=1e-8, device=device, **extra)


def fit(case: Case, device: str, n: int, p: int, density: float, again: bool) -> tuple[Any, float]:
    """The fitted model and its seconds, of a second fit where that is asked for."""
    X, y, data = simulate(case, n, p, density)
    for _ in range(1 + again):
        start = time.perf_counter()
        fitted = model(case, device).fit(X, y, **data)
        seconds = time.perf_counter() - start
    return fitted, seconds


def certificate(problem: Any, m: Any) -> float:
    """The largest KKT violation of a model's coefficients, from X, on the host.

    ``problem`` is that of the CPU's fit: its X has never been on the device.
    """
    import numpy as np

    from steropes.solve.linear_predictor import bound_weights, linear_predictor
    from steropes.solve.optimality.optimality_certificate import units, violations

    design, likelihood, backend = problem.design, problem.likelihood, problem.likelihood.backend
    eta, weights = linear_predictor(problem, m._beta * design.scale), bound_weights(problem)
    _, r = likelihood.evaluate(eta, weights)
    v = likelihood.curvature(eta, weights).v
    rows = design.by_rows(np.arange(design.p), likelihood.order, backend)
    h = rows.diagonal(v) * design.scale**2
    if likelihood.order is not None:
        whole = np.zeros((design.n, 1))
        whole[likelihood.order] = r
        r = whole
    g = design.rmatmul(np.ascontiguousarray(r), backend)[:, 0] * design.scale
    l1, l2 = problem.penalties(m.prior_)
    return float((violations(g, m._beta, l1, l2) / units(l1, h)).max())


def compare(case: Case, options: argparse.Namespace, one_pass: float) -> tuple[list[str], bool]:
    """A row of the table, and whether all is well."""
    import numpy as np

    import steropes

    size = options.n, options.p, options.density, options.device == "cuda"
    try:
        cpu, cpu_seconds = fit(case, "cpu", *size)
    except steropes.DataError as error:  # the same must be said on the device
        try:
            fit(case, options.device, *size)
        except steropes.DataError as other:
            return [str(case), f"refused on both: {error}"[:60], "", "", "", "", ""], (
                type(error) is type(other)
            )
        return [str(case), "refused on the CPU alone", "", "", "", "", ""], False
    try:
        gpu, gpu_seconds = fit(case, options.device, *size)
    except steropes.DataError as error:
        if "runs on" in str(error):
            return [str(case), "CPU only", "", "", "", "", ""], True
        return [str(case), f"refused on the device alone: {error}"[:60], "", "", "", "", ""], False
    spread = np.ones(len(cpu.coef_))
    if case.family not in ("pooled", "cumulative"):
        X = simulate(case, *size[:3])[0]
        second = np.asarray((X**2).mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(second - np.asarray(X.mean(axis=0)).ravel() ** 2, 0.0))
    difference = float(np.abs((gpu.coef_ - cpu.coef_) * spread).max(initial=0.0))
    likelihood = abs(gpu.log_likelihood_ - cpu.log_likelihood_) / (1 + abs(cpu.log_likelihood_))
    good = difference <= COEFFICIENT and likelihood <= 1e-9 and gpu.converged_
    good &= getattr(gpu, "variance_", None) == getattr(cpu, "variance_", None)
    errors = ""
    if case.prior != "lasso":
        a, b = (np.sqrt(np.diag(m.vcov())) for m in (cpu, gpu))
        errors = f"{np.abs(b / a - 1).max():.1e}"
        good &= bool(np.allclose(a, b, rtol=1e-5))
    checks = []
    for m in (cpu, gpu):
        checks.append(m.optimality_)
        if case.family != "cumulative":
            checks[-1] = certificate(cpu._problem, m)
            good &= checks[-1] <= CERTIFICATE
    passes = f"{cpu_seconds / one_pass:.0f} / {gpu_seconds / one_pass:.0f}"
    row = [
        str(case), f"{difference:.1e}", f"{likelihood:.1e}", errors,
        f"{checks[0]:.1e} / {checks[1]:.1e}", f"{cpu_seconds:.3f} / {gpu_seconds:.3f}", passes,
    ]  # fmt: skip
    return row, bool(good)


def time_of_a_pass(options: argparse.Namespace) -> float:
    """Seconds of one single-threaded X'r."""
    import numpy as np

    X, _, _ = simulate(Case("logistic", "none", False, False, False), *size_of(options))
    r = np.ones(X.shape[0])
    times = []
    for _ in range(5):
        start = time.perf_counter()
        X.T @ r
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)


def size_of(options: argparse.Namespace) -> tuple[int, int, float]:
    """Rows, columns and density."""
    return options.n, options.p, options.density


def read_options() -> argparse.Namespace:
    """The command line, with sizes that suit where it runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--n", type=int, help="rows, default 20,000, or 60 on torch-cpu")
    parser.add_argument("--p", type=int, help="columns, default 40, or 4 on torch-cpu")
    parser.add_argument("--density", type=float, help="of X, default 0.1, or 0.4 on torch-cpu")
    parser.add_argument("--only", help="families whose name contains this")
    parser.add_argument("--limit", type=int, help="run only every so many-th case")
    parser.add_argument("--device", default="cuda", choices=["cuda", "torch-cpu"])
    options = parser.parse_args()
    tiny = options.device == "torch-cpu"
    options.n = options.n or (60 if tiny else 20_000)
    options.p = options.p or (4 if tiny else 40)
    options.density = options.density or (0.4 if tiny else 0.1)
    return options


def main() -> int:
    """Run the cases; see the module's docstring."""
    options = read_options()
    from steropes.backends.pytorch import why_not

    if reason := why_not(options.device):
        print(reason, "Or --device torch-cpu.", sep="\n", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    one_pass = time_of_a_pass(options)
    size = f"n = {options.n}, p = {options.p}, density {options.density:g}"
    print(f"{size}; a pass is {one_pass:.2g} s\n")
    print("| case | coefficients | log-likelihood | standard errors | certificate, CPU / GPU "
          "| seconds | passes | |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    bad = 0
    chosen = cases(options.only)[:: options.limit or 1]
    for case in chosen:
        row, good = compare(case, options, one_pass)
        bad += not good
        print("|", " | ".join(row), "|", "" if good else "DIFFERS", "|", flush=True)
    print(f"\n{len(chosen)} cases, {bad} differ.")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
