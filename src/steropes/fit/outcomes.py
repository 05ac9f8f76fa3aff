"""Fits of many outcomes over one X: replicates that differ in y, and in weights and offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..solve import Fit
from .problem import Problem
from .replicates import LANES

__all__ = ["fit_outcomes"]

NEVER = 1e200  # an ℓ1 penalty that keeps a column out, whatever its unit
LEVEL = 0.3  # standard errors within which the intercepts alone are fitted first


def fit_outcomes(
    problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, max_iter: int
) -> Iterator[tuple[int, Fit]]:
    """Fit problems that share a design and a kind of likelihood whose outcomes go side by side.

    Parameters
    ----------
    problems : sequence of Problem
        With one design; see `Likelihood.beside`.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    tol : float
        Largest KKT violation.
    max_iter : int

    Yields
    ------
    (number, Fit)
    """
    for a in range(0, len(problems), LANES):
        group = problems[a : a + LANES]
        B = len(group)
        first = group[0].likelihood
        together = first.beside([p.likelihood for p in group], first.backend.lanes(B))
        weights = np.stack([p.weights for p in group], axis=1)
        offset = None
        if any(p.offset is not None for p in group):
            zero = np.zeros(problems[0].design.n)
            offset = np.stack([zero if p.offset is None else p.offset for p in group], axis=1)
        joint = replace(group[0], likelihood=together)
        # The columns that matter to some outcomes do not to others: each group has its own.
        batch = joint.batch(weights, B, joint.common(), offset)
        begin = np.zeros((joint.design.p, B))
        if joint.n_free:
            begin[0] = [p.start for p in group]
        batch.start_at(begin)
        if joint.n_free:  # outcomes are differently frequent, and their curvatures with it
            others = np.where(np.arange(len(l1)) < joint.n_free, 0.0, NEVER)
            batch.solve(others, 0.0 * l2, tol=LEVEL, max_iter=max_iter, look="after")
            batch.term.join(np.flatnonzero(l1 == 0))
            batch.refresh()
        yield from enumerate(batch.solve(l1, l2, tol=tol, max_iter=max_iter), a)
