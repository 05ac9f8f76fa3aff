"""Columns as claims have them: clusters of comorbidity, nested windows, unions of descendants.

A person has a frailty and a leaning to each cluster of diseases, so that columns of a cluster are
correlated. A concept is seen ever, within 365, 180 and 30 days before the start, each window
inside of the one before. Ancestors are unions of 3 to 15 concepts of a cluster. Prevalences follow
a power law: most columns have few ones.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

__all__ = ["correlated_claims"]

CLUSTERS = 60
FRAILTY, LEANING = 0.6, 1.0  # standard deviations on the log scale
INSIDE = (0.62, 0.6, 0.4)  # share of the ones of a window that are in the next smaller one
FEWEST = 15  # ones that a column must have to be kept


def correlated_claims(
    rng: np.random.Generator, n: int, p: int, a_row: float
) -> tuple[sparse.csc_array, np.ndarray]:
    """Draw X with about ``a_row`` ones a row, and effects.

    Returns
    -------
    X : (n, p) CSC array of ones
    beta : (p,) array
        About one column in 25 has an effect, most of them small.
    """
    frailty = FRAILTY * rng.normal(size=n)
    concepts = max(8, p // 3)  # more than are needed: p columns are kept
    cluster = rng.integers(0, CLUSTERS, concepts)
    share = (np.arange(concepts) + 3.0) ** -0.85
    # Ones of a concept's ever-column and its windows, and what its ancestors repeat of it.
    share *= a_row / (share.sum() * (1 + sum(np.cumprod(INSIDE)) + 0.45))
    share = np.minimum(share, 0.4)
    columns: list[np.ndarray] = []
    for c in range(min(CLUSTERS, concepts)):
        weight = np.cumsum(np.exp(frailty + LEANING * rng.normal(size=n)))
        ever = []
        for j in np.flatnonzero(cluster == c):
            # Drawn with replacement, so the ones asked for are a little fewer.
            m = rng.poisson(-n * np.log1p(-share[j]))
            rows = np.unique(np.searchsorted(weight, rng.random(m) * weight[-1]))
            ever.append(rows)
            for keep in (1.0, *INSIDE):
                rows = rows[rng.random(len(rows)) < keep]
                if len(rows) >= FEWEST:
                    columns.append(rows)
        for _ in range(len(ever) // 4):
            few = rng.choice(len(ever), min(len(ever), int(rng.integers(3, 16))), replace=False)
            union = np.unique(np.concatenate([ever[k] for k in few]))
            if len(union) >= FEWEST and len(union) < 0.5 * n:
                columns.append(union)
    if len(columns) < p:  # the rarest concepts fell away: copies with some rows changed stand in
        for k in rng.integers(0, len(columns), p - len(columns)):
            rows = columns[k][rng.random(len(columns[k])) < 0.8]
            columns.append(rows if len(rows) else columns[k])
    kept = rng.permutation(len(columns))[:p]
    counts = np.array([len(columns[k]) for k in kept])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([columns[k] for k in kept]).astype(np.int32)
    X = sparse.csc_array((np.ones(len(indices)), indices, indptr.astype(np.int32)), shape=(n, p))
    beta = 0.35 * rng.normal(size=p) * (rng.random(p) < 0.04)
    return X, beta
