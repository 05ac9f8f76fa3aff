"""The first prior variance of a path, computed for a problem from a fit of its full data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..fit import Problem
from ..priors import Prior, SmoothTerm
from ..solve import Batch
from .first_variance_from_gradients import first_variance, own_information
from .variance_path_constants import DEFAULT

__all__ = ["beginning", "smooth_curvature"]

# A gradient below this share of the rows' weight may be the error of a fit.
GRADIENT_NOISE = 1e-5


def beginning(
    problem: Problem, prior: Prior, full: Batch, beyond: float = DEFAULT.step_ratio
) -> tuple[float, float]:
    """Return the first variance of a path.

    Parameters
    ----------
    prior : Prior
        The prior with the variance to choose.
    full : Batch
        A batch of one replicate. It ends at the fit of the columns without penalty.
    beyond : float
        See `first_variance`.

    Returns
    -------
    first : float
        See `first_variance`.
    matters_to : float
        A variance below which flat scores do not end the search.
    """
    unit = prior.with_variance(1.0)
    smooth = problem.smooth_term(unit)

    def penalties(prior: Prior) -> tuple[np.ndarray, np.ndarray]:
        l1, l2 = problem.penalties(prior)
        term = problem.smooth_term(prior)
        # The means of groups are penalised whatever the variance.
        return l1, l2 if term is None else l2 + smooth_curvature(problem, term)

    l1, l2 = penalties(unit)
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    joined = problem.group_penalty(unit)

    def gradient(infinite: np.ndarray) -> np.ndarray:
        """Fit under a λ that is infinite for penalised columns; return sizes of the gradients."""
        full.solve(infinite, np.zeros_like(l2), tol=1e-6)
        # Columns are stored divided by their scale, and so are their gradients.
        g = full.gradients().copy()
        own = np.where(l1 > 0, np.abs(g[:, 0]), 0.0)
        if own.max(initial=0.0) < GRADIENT_NOISE * problem.weights.sum():
            most = np.argsort(-own, kind="stable")[: DEFAULT.start_columns]
            g[most[information(most) == 0]] = 0.0  # Rounding errors, such as of constant columns.
        g = g * problem.design.scale[:, None]
        return (g if joined is None else joined.norms(joined.slopes(g)))[:, 0]

    def information(columns: np.ndarray) -> np.ndarray:
        return _information(problem, full, free, columns)

    first = first_variance(prior, penalties, gradient, information, beyond)
    # Scores of a ridge are flat where it begins, before its coefficients reach half their size.
    ridge = smooth is not None or not (l1 > 0).any()
    return first, first / DEFAULT.ridge_start if ridge else 0.0


def smooth_curvature(problem: Problem, smooth: SmoothTerm) -> np.ndarray:
    """Compute the diagonal of a smooth term's Hessian at zero, (p,)."""
    p = problem.design.p
    blocks = [
        np.arange(a, min(a + DEFAULT.start_columns, p)) for a in range(0, p, DEFAULT.start_columns)
    ]
    return np.concatenate([np.diag(smooth.hessian(np.zeros(p), at)) for at in blocks])


def _information(
    problem: Problem, full: Batch, free: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Compute the information of `first_variance` at the coefficients of the full data's batch.

    If there are too many columns without penalty for a matrix, only the first are eliminated. The
    intercept is among them, so the result does not depend on whether X is stored centred.
    """
    probe = replace(problem, prior=None).batch()  # Without the prior's information.
    probe.start_at(full.beta)
    h = probe.prepare(np.concatenate([free, columns]))
    if h.ndim == 1:
        free = free[: DEFAULT.start_columns]
        probe = replace(problem, prior=None).batch()
        probe.start_at(full.beta)
        h = probe.prepare(np.concatenate([free, columns]), whole=True)
    scale = problem.design.scale[columns]
    place = np.empty(problem.design.p, np.int64)
    place[probe.term.W] = np.arange(len(probe.term.W))
    whole = probe.uncentred()[place[columns]]
    return own_information(h, place[free], place[columns], whole) * scale**2
