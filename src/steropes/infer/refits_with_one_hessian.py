"""Bootstrap of models without penalties: refits that all use the Hessian of the first fit.

A draw's optimum is near that of all rows: with H the information of all rows and g the gradient of
the draw, β − H⁻¹ g is closer by a factor of the order of 1 / √n. Later steps correct H in each draw
by the changes of its gradient (BFGS), because few events make the factor almost one. Each step
costs one pass over the rows for several draws at a time, and the last gradient is the certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import linalg

from ..fit import Problem
from ..fit.replicate_fits import lanes_of_draws
from ..solve import Batch, Common, Fit
from .bootstrap import DrawnFits, fit_draws
from .bootstrap_draws import Draws
from .inference_constants import BOOTSTRAP
from .unidentified_coefficients import UnidentifiedCoefficients

__all__ = ["ChordSteps", "fit_draws_by_chords"]

# Steps after which the solver takes over, and the columns up to which one matrix is factored.
MAX_STEPS, MAX_COLUMNS = 12, 500

# Share of the tolerance at which steps end, as the last one costs little and gains much.
AIM = 0.1

# A step, the change of the gradient by it, (q, B) each, and one over their product, (B,).
_Pair = tuple[np.ndarray, np.ndarray, np.ndarray]


class ChordSteps:
    """Steps with the Hessian of all rows at their optimum.

    Parameters
    ----------
    problem : Problem
        Without a prior.
    beta : (p,) array
        The optimum of all rows, in X's units.

    Attributes
    ----------
    common : Common
        The working set of batches that `solve` takes.
    """

    def __init__(self, problem: Problem, beta: np.ndarray) -> None:
        self.start = (beta * problem.design.scale)[:, None]
        self.common: Common = problem.common()
        full = problem.batch(common=self.common)
        full.term.join(np.arange(problem.design.p))
        full.start_at(self.start)
        curvature = full.term.curvature(0)
        assert curvature is not None  # as of whole rows
        H = np.asarray(curvature.matrix(), np.float64)
        self.columns = full.term.W
        self.size = np.sqrt(np.diag(H))
        scaled = H / self.size / self.size[:, None]
        self._factor = linalg.cho_factor(np.tril(scaled) + np.tril(scaled, -1).T)

    def solve(self, batch: Batch, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Move replicates to their optima: coefficients (p, B), scaled, and violations (B,)."""
        B = batch.term.B
        beta = np.repeat(self.start, B, axis=1)
        pairs: list[_Pair] = []
        old = move = np.zeros((len(self.size), B))
        for step in range(MAX_STEPS + 1):
            batch.start_at(beta)
            g = np.asarray(batch.term.gradient())[:, :B] / self.size[:, None]
            violation = np.abs(g).max(axis=0)
            moving = ~(violation <= AIM * tol)
            if step == MAX_STEPS or not moving.any() or not np.isfinite(violation).all():
                break
            if step:
                product = (move * (g - old)).sum(axis=0)
                inverse = np.divide(1.0, product, out=np.zeros(B), where=product > 0)
                pairs.append((move, g - old, inverse))
            old, move = g, np.where(moving, -self._newton(g, pairs), 0.0)
            beta[self.columns] += move / self.size[:, None]
        return beta, violation

    def _newton(self, g: np.ndarray, pairs: Sequence[_Pair]) -> np.ndarray:
        """Multiply gradients (q, B) by the inverse Hessians (Nocedal and Wright 2006, alg. 7.4)."""
        out, shares = g.copy(), []
        for move, change, inverse in reversed(pairs):
            shares.append(inverse * (move * out).sum(axis=0))
            out -= shares[-1] * change
        out = linalg.cho_solve(self._factor, out)
        for (move, change, inverse), share in zip(pairs, reversed(shares), strict=True):
            out += (share - inverse * (change * out).sum(axis=0)) * move
        return out


def fit_draws_by_chords(problem: Problem, beta: np.ndarray, draws: Draws) -> DrawnFits:
    """Fit a model without penalties to each draw; see `fit_draws`, which fits what remains."""
    p, scale, tol = len(beta), problem.design.scale, BOOTSTRAP.tol
    if p > MAX_COLUMNS or problem.prior is not None:
        return fit_draws(problem, beta, *problem.penalties(problem.prior), draws)
    steps = ChordSteps(problem, beta)
    n, lanes = len(draws.seeds), lanes_of_draws(problem)
    out = DrawnFits(np.empty((n, p)), np.zeros(n, bool))
    loose = UnidentifiedCoefficients(problem, beta, problem.unbounded(None))
    for a in range(0, n, lanes):
        numbers = list(range(a, min(a + lanes, n)))
        batch = problem.batch(draws(numbers), len(numbers), steps.common)
        found, violation = steps.solve(batch, tol)
        for b, k in enumerate(numbers):
            own = found[:, b] / scale
            fit = Fit(own, np.nan, np.nan, float(violation[b]), tol, MAX_STEPS)
            if fit.converged and loose.mark(partial(draws.one, k), fit) is None:
                out.coef[k] = problem.design.uncentered_coefficients(own)
                out.converged[k] = True
        del batch
    rest = np.flatnonzero(~out.converged)
    if len(rest):
        again = fit_draws(problem, beta, np.zeros(p), np.zeros(p), draws.of(draws.seeds[rest]))
        out.coef[rest], out.converged[rest] = again.coef, again.converged
    return out
