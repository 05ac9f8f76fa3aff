"""Stratified Cox and Fine-Gray regression at scale: wall time and peak memory.

    python benchmarks/survival.py cox 100000 1 50000     n, then numbers of strata
    python benchmarks/survival.py finegray 100000
    python benchmarks/survival.py all                    n = 1,000,000; results/survival.md

Each case runs in a process of its own, so that its peak memory is its own. X has 1000 columns
with 5 % ones. Cox: a fifth of the coefficients is N(0, 1), the others zero; times are exponential
with rate exp(η), censored independently; strata of equal size at random (matched sets of two at
the far end). Fine-Gray: the simulator of Fine and Gray (1999, §6) with p0 = 0.5, a quarter of those
effects and opposite ones on the competing cause, Laplace prior with λ = 1.19. Of the published
comparisons (Yang and others 2023) these have the sizes and λ; how times are drawn is another.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import steropes
from steropes.design_matrix import Design
from steropes.design_matrix.column_storage import SparseBlock

P = 1000


def indicator_design(n: int, p: int, share: float, seed: int) -> tuple[Design, np.ndarray]:
    """Independent 0/1 columns, and the linear predictor of random sparse effects."""
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=p) * (rng.random(p) < 0.2)
    eta = np.zeros(n)
    columns = []
    for j in range(p):
        gaps = rng.geometric(share, int(n * share + 10 * np.sqrt(n * share) + 20))
        rows = np.cumsum(gaps) - 1
        columns.append(rows[rows < n].astype(np.int32))
        eta[columns[-1]] += beta[j]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    block = SparseBlock.indicator(n, indptr, np.concatenate(columns))
    return Design([block]), eta


def cox(n: int, n_strata: int) -> dict:
    X, eta = indicator_design(n, P, 0.05, 1)
    rng = np.random.default_rng(2)
    t = rng.exponential(size=n) * np.exp(-eta)
    c = rng.exponential(size=n) * np.exp(-np.median(eta)) * 2
    y = steropes.Surv(np.minimum(t, c), t <= c)
    strata = rng.permutation(np.arange(n) % n_strata) if n_strata > 1 else None
    return timed(steropes.CoxRegression(), X, y, strata=strata)


def finegray(n: int) -> dict:
    X, eta = indicator_design(n, P, 0.05, 1)
    eta = eta / 4  # so that the cause of interest keeps a share of its own for everyone
    rng = np.random.default_rng(3)
    p0 = 0.5
    first = rng.random(n) >= (1 - p0) ** np.exp(eta)
    u = rng.random(n)
    inner = 1 - u * (1 - (1 - p0) ** np.exp(eta))
    t1 = -np.log1p(-(1 - inner ** np.exp(-eta)) / p0)
    t2 = rng.exponential(size=n) / np.exp(-eta)
    t, c = np.where(first, t1, t2), rng.random(n)
    y = steropes.Surv(np.minimum(t, c), np.where(t <= c, np.where(first, 1, 2), 0))
    prior = steropes.Laplace(variance=2 / 1.19**2)
    return timed(steropes.FineGrayRegression(prior=prior), X, y)


def timed(model, X, y, **given) -> dict:
    # Compiling is not what is measured: a small fit first.
    small = steropes.Surv([1.0, 2, 3, 4, 5, 6, 7, 8], [1, 0, 1, 1, 0, 1, 1, 1])
    tiny = np.arange(8.0)[:, None] % 3
    steropes.CoxRegression().fit(tiny, small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    begin, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y, **given)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    codes = y["event"]
    return {
        "seconds": round(seconds, 2),
        "cpu": round(cpu, 2),
        "steps": model.n_iter_,
        "optimality": model.optimality_,
        "nonzero": int(np.count_nonzero(model.coef_)),
        "events": int((codes == 1).sum()),
        "log_likelihood": model.log_likelihood_,
        "data_GB": round(before, 2),
        "peak_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def run(*arguments) -> dict:
    """Run one case in its own process."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main(arguments: list[str]) -> None:
    if arguments[0] == "--one":
        kind, n, *rest = arguments[1:]
        result = cox(int(n), int(rest[0])) if kind == "cox" else finegray(int(n))
        print(json.dumps(result))
        return
    if arguments[0] == "all":
        n = 1_000_000
        cases = [("cox", n, s) for s in (1, 100, 5_000, 50_000, 500_000)] + [("finegray", n)]
    elif arguments[0] == "cox":
        cases = [("cox", arguments[1], s) for s in arguments[2:]]
    else:
        cases = [("finegray", arguments[1])]
    lines = [
        "| task | n | strata | events | fit, s | CPU, s | steps | KKT | data, GB | peak, GB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for kind, n, *rest in cases:
        r = run(kind, n, *rest)
        lines.append(
            f"| {kind} | {int(n):,} | {int(rest[0]) if rest else 1:,} | {r['events']:,} | "
            f"{r['seconds']} | {r['cpu']} | {r['steps']} | {r['optimality']:.1e} | "
            f"{r['data_GB']} | {r['peak_GB']} |"
        )
        print(lines[-1], flush=True)
    if arguments[0] == "all":
        path = Path(__file__).parent / "results" / "survival.md"
        heading = path.read_text().split("| task")[0] if path.exists() else ""
        path.write_text(heading + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
