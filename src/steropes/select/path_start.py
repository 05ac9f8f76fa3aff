"""Where a path of variances begins, for a problem and a batch of its full data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..fit import Problem
from ..priors import Prior, SmoothTerm
from ..solve import Batch
from .first_variance import BELOW, SAMPLE, first_variance, own_information

__all__ = ["beginning", "smooth_curvature"]

NOISE = 1e-5  # of the rows' weight: a gradient of columns of size one that may be what a fit leaves


def beginning(problem: Problem, prior: Prior, full: Batch) -> tuple[float, float]:
    """The first variance of a path.

    Parameters
    ----------
    problem : steropes.fit.Problem
    prior : Prior
        Whose variance is walked.
    full : Batch
        Of one replicate; it is left where only the columns without penalty are fitted.

    Returns
    -------
    first : float
        See `first_variance`.
    matters_to : float
        A variance below which flat scores are no end of the walk.
    """
    unit = prior.with_variance(1.0)
    l1, l2 = problem.penalties(unit)
    smooth = problem.smooth_term(unit)
    if smooth is not None:  # the means of groups are there without any variance about them
        l2 = l2 + smooth_curvature(problem, smooth)
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    joined = problem.group_penalty(unit)

    def gradient(infinite: np.ndarray) -> np.ndarray:
        full.solve(infinite, np.zeros_like(l2), tol=1e-6)
        # Columns are stored divided by their scale, so theirs is the smaller gradient.
        g = full.gradients().copy()
        own = np.where(l1 > 0, np.abs(g[:, 0]), 0.0)
        if own.max(initial=0.0) < NOISE * problem.weights.sum():
            most = np.argsort(-own, kind="stable")[:SAMPLE]
            g[most[information(most) == 0]] = 0.0  # rounding, of constant columns for one
        g = g * problem.design.scale[:, None]
        return (g if joined is None else joined.norms(joined.slopes(g)))[:, 0]

    def information(columns: np.ndarray) -> np.ndarray:
        return _information(problem, full, free, columns)

    first = first_variance(l1, l2, gradient, information)
    return first, 0.0 if smooth is None else first / BELOW


def smooth_curvature(problem: Problem, smooth: SmoothTerm) -> np.ndarray:
    """Compute the diagonal of a smooth term's Hessian at zero, (p,)."""
    p = problem.design.p
    blocks = [np.arange(a, min(a + SAMPLE, p)) for a in range(0, p, SAMPLE)]
    return np.concatenate([np.diag(smooth.hessian(np.zeros(p), at)) for at in blocks])


def _information(
    problem: Problem, full: Batch, free: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """See `first_variance`; at the coefficients that the full data's batch has."""
    probe = replace(problem, prior=None).batch()  # the data's information alone
    probe.start_at(full.beta)
    h = probe.prepare(np.concatenate([free, columns]))
    scale = problem.design.scale[columns]
    place = np.empty(problem.design.p, np.int64)
    place[probe.term.W] = np.arange(len(probe.term.W))
    if h.ndim == 1:  # too many columns without penalty for a matrix
        return h[place[columns]] * scale**2
    whole = probe.uncentred()[place[columns]]
    return own_information(h, place[free], place[columns], whole) * scale**2
