"""Entropy balancing of tens of thousands of sparse columns beside the lasso propensity model.

    python -m benchmarks.entropy_balancing [--n 100000 --p 20000 --tolerance 0.02]

draws claims-like covariates and a treatment of three in ten, fits the lasso propensity model with
ten folds and once with the chosen variance, and the weights for the effect in the treated whose
standardised differences are at most the tolerance. It prints processor seconds of one process.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from steropes import Laplace, LogisticRegression
from steropes.designs import EntropyBalancing

from .simulate import simulate


def main() -> None:
    """Print the seconds of each step, and the largest difference that is left."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--p", type=int, default=20_000)
    parser.add_argument("--tolerance", type=float, default=0.02)
    given = parser.parse_args()
    for n, p in ((2_000, 200), (given.n, given.p)):  # the first one compiles
        drawn = simulate("logistic", "claims", n, p, None, 0.3, 1)
        X, treated = drawn["X"], drawn["y"].astype(int)
        start = time.process_time()
        lasso = LogisticRegression(prior=Laplace(), cv=10, random_state=0).fit(X, treated)
        folds = time.process_time() - start
        start = time.process_time()
        LogisticRegression(prior=Laplace(lasso.variance_)).fit(X, treated)
        once = time.process_time() - start
        start = time.process_time()
        balancing = EntropyBalancing(estimand="att", tolerance=given.tolerance).fit(X, treated)
        balanced = time.process_time() - start
    columns = sum(np.count_nonzero(b) for b in balancing.coef_.values())
    smd = balancing.balance_["smd_after"].abs()
    print(f"n = {given.n:,}, p = {given.p:,}, {drawn['source']}, {X.nnz:,} ones")
    print(f"lasso, ten folds: {folds:.1f} s, {np.count_nonzero(lasso.coef_):,} columns")
    print(f"lasso, one fit: {once:.1f} s")
    print(
        f"entropy balancing: {balanced:.1f} s, {balanced / folds:.1f} × ten folds, "
        f"{balanced / once:.1f} × one fit; largest difference {smd.max():.4f}, certificate "
        f"{np.max(balancing.optimality_):.1e}, {columns:,} columns, "
        f"effective comparators {balancing.effective_sample_size_['comparator']:,.0f} of "
        f"{(treated == 0).sum():,}"
    )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
