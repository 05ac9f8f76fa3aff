"""The unit of cost: one pass is one single-threaded ``X.T @ r`` with SciPy on the same X."""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

__all__ = ["time_pass"]


def time_pass(X: sparse.csc_array, repeats: int = 7) -> float:
    """Seconds of one pass, the median of some, timed in the run that quotes it."""
    # The old matrix class, with int32 pointers where they fit: SciPy's own fastest case.
    X = sparse.csc_matrix(X)
    if X.indptr.dtype != np.int32 and X.nnz < 2**31:
        X.indptr = X.indptr.astype(np.int32)
    r = np.random.default_rng(0).normal(size=X.shape[0])
    XT = X.T
    XT @ r
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        XT @ r
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
