"""Variances in cumulative probability models, by solves against the factored Hessian.

With θ = (α, β) and the information [[T, C], [C', V]], a function of θ with gradient (c, d) has
the variance

    c'T⁻¹c + (d − J'c)' S⁻¹ (d − J'c),    J = T⁻¹C,   S = V − C'T⁻¹C,

so that S⁻¹ is β's covariance and nothing larger than J, (M − 1) × p, is ever formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import linalg

from ..design.face import DesignLike, PlainDesign, RowsLike
from ..errors import DataError
from ..fit import Problem
from ..likelihoods.blocks import Block
from ..likelihoods.cumulative import CumulativeRows, Evaluation, LevelsWithMass, Thresholds
from ..likelihoods.curvature import ProfiledCurvature
from ..solve import Fit
from ..solve.hessian import cross, hessian

__all__ = [
    "CumulativeInformation",
    "SubsetFit",
    "profiled_scores",
    "robust_covariance",
]

BATCH = 1 << 21  # entries of a (thresholds × functions) array that are held at once


@dataclass
class SubsetFit:
    """A fit with the rows it is of.

    Attributes
    ----------
    likelihood : CumulativeRows
        Over the levels with mass.
    fit : Fit
    at : Thresholds
        α for the design's columns, the dense ones centred.
    beta : (p,) array
        Coefficients of the design's scaled columns.
    alpha : (M − 1,) array
        Thresholds for X as the user has it.
    """

    likelihood: CumulativeRows
    fit: Fit
    at: Thresholds
    beta: np.ndarray
    alpha: np.ndarray

    @classmethod
    def of(cls, design: DesignLike, fit: Fit) -> SubsetFit:
        """Of a fit of one replicate."""
        end = fit.nuisance
        assert isinstance(end, LevelsWithMass)
        alpha = end.thresholds.alpha + float(design.center @ fit.beta)
        return cls(end.rows, fit, end.thresholds, fit.beta * design.scale, alpha)

    @property
    def values(self) -> np.ndarray:
        """Levels with mass, (M,)."""
        return self.likelihood.levels.values


class CumulativeInformation:
    """Covariances at an optimum; holds no data, so that it can be pickled.

    Parameters
    ----------
    problem : Problem
        With dense columns centred, and the prior of the fit.
    part : SubsetFit
    offset : (n,) array or None
        In the order of the part's rows.
    """

    def __init__(
        self,
        problem: Problem,
        part: SubsetFit,
        offset: np.ndarray | None,
    ) -> None:
        design = cast(PlainDesign, problem.design)
        self.scale, self.center = design.scale, design.center / design.scale
        rows, _, curvature = at_optimum(design, part, offset)
        self.block: Block = curvature.block
        self.S = hessian(rows, curvature)
        self.J = self.block.solve_in_place(cross(rows, curvature))
        H = self.S + _prior_curvature(problem, part)
        size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
        V = linalg.inv(H / size / size[:, None]) / size / size[:, None]
        self.V = 0.5 * (V + V.T)
        self.root = linalg.cholesky(self.V, lower=True)  # V = root root'
        self.t_diagonal = self.block.inverse_diagonal()

    @property
    def K(self) -> int:
        """Number of thresholds."""
        return len(self.t_diagonal)

    @property
    def parts(self) -> list[CumulativeInformation]:
        """As of a combination of one; see `SubsetInformation`."""
        return [self]

    @property
    def positions(self) -> list[np.ndarray]:
        """See `SubsetInformation`."""
        return [np.arange(self.K)]

    def beta(self) -> np.ndarray:
        """Covariance of β in the user's units, (p, p)."""
        return self.V / self.scale / self.scale[:, None]

    def alpha(self) -> np.ndarray:
        """Variance of every α_k, (K,)."""
        return self.predictor(np.arange(self.K), np.zeros((1, len(self.scale))))[0]

    def predictor(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Variance of α_k − x'β, (rows, thresholds), for scaled columns X (rows, p)."""
        a = (X - self.center) @ self.root
        out = np.empty((len(a), len(thresholds)))
        step = max(1, BATCH // max(len(self.scale), len(a)))
        for m in range(0, len(thresholds), step):
            k = thresholds[m : m + step]
            b = self.J[k] @ self.root
            if len(a) == 1:  # no expansion of the square, which would cancel
                q = ((a + b) ** 2).sum(axis=1)[None, :]
            else:
                q = (a**2).sum(axis=1)[:, None] + 2 * (a @ b.T) + (b**2).sum(axis=1)
            out[:, m : m + step] = self.t_diagonal[k] + np.maximum(q, 0.0)
        return out

    def paired(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Variance of α_k − x'β for one threshold a row, (rows,)."""
        q = ((X - self.center + self.J[thresholds]) @ self.root) ** 2
        return self.t_diagonal[thresholds] + q.sum(axis=1)

    def functional(
        self, c: np.ndarray, X: np.ndarray, total: np.ndarray | None = None
    ) -> np.ndarray:
        """Variance of functions with gradient c (K, rows) in α − x'β, for rows X.

        ``total`` (rows,) replaces the sum of c as the factor of −x in β's gradient.
        """
        inner = c.sum(axis=0)
        total = inner if total is None else total
        # α of the centred columns is α less center'β: the centre goes with c, x with total.
        q = -(total[:, None] * X - inner[:, None] * self.center + c.T @ self.J)
        quad = (c * self.block.solve(c)).sum(axis=0)
        return quad + ((q @ self.root) ** 2).sum(axis=1)


def _prior_curvature(problem: Problem, part: SubsetFit) -> np.ndarray:
    """Of the prior where the fit ended, in the scaled columns, (p, p)."""
    added, smooth = np.diag(problem.penalties(problem.prior)[1]), problem.smooth_term()
    scale = problem.design.scale
    if smooth is not None:
        added = added + smooth.hessian(part.beta / scale, np.arange(len(scale)))
    return added / scale / scale[:, None]


def at_optimum(
    design: PlainDesign, part: SubsetFit, offset: np.ndarray | None
) -> tuple[RowsLike, Evaluation, ProfiledCurvature]:
    """Rows of all columns, the evaluation, the curvature in them."""
    likelihood = part.likelihood
    rows = design.by_rows(np.arange(design.p), likelihood.levels.order, likelihood.backend)
    eta = rows.matmul(part.beta[:, None])[:, 0]
    if offset is not None:
        eta += offset
    ev = likelihood.evaluate(part.at, eta)
    block = likelihood.block(ev)
    if not block.positive:
        raise DataError(
            "The log-likelihood is not concave at the fit, which is no maximum: there are no "
            "standard errors. Try another link."
        )
    return rows, ev, likelihood.curvature(ev, block)


def robust_covariance(
    design: PlainDesign,
    part: SubsetFit,
    offset: np.ndarray | None,
    information: CumulativeInformation,
    cluster: np.ndarray | None,
) -> np.ndarray:
    """Sandwich V B V of β with B = Σ_g ψ_g ψ_g' over clusters g (rows where None), (p, p).

    ψ_i = s_i x_i + ℓ_a J_up + ℓ_b J_low is the row's score of β less what α takes up of it
    (White 1980, Lin and Wei 1989 for the profiled form); weights multiply the scores.
    """
    p = len(information.scale)
    B = np.zeros((p, p))
    code = None if cluster is None else cluster[part.likelihood.levels.order]
    groups = None if code is None else np.zeros((int(code.max()) + 1, p))
    for i, psi in profiled_scores(design, part, offset, information.J):
        if groups is None or code is None:
            B += psi.T @ psi
        else:
            np.add.at(groups, code[i], psi)
    if groups is not None:
        B = groups.T @ groups
    V = information.V @ B @ information.V
    return 0.5 * (V + V.T) / information.scale / information.scale[:, None]


def profiled_scores(
    design: PlainDesign,
    part: SubsetFit,
    offset: np.ndarray | None,
    J: np.ndarray,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows of the model's order, ψ) a few thousand rows at a time, scaled columns."""
    rows, ev, _ = at_optimum(design, part, offset)
    likelihood = part.likelihood
    levels, p = likelihood.levels, rows.k
    J = np.concatenate([J, np.zeros((1, p))])  # index −1 and K: no threshold
    half_s, half_d = 0.5 * ev.s, 0.5 * (ev.la - ev.lb)
    inner = (levels.low >= 0) & (levels.up < likelihood.K)
    step = max(256, BATCH // max(p, 1))
    for i0 in range(0, likelihood.n, step):
        i = slice(i0, min(i0 + step, likelihood.n))
        up, low = J[levels.up[i]], J[levels.low[i]]
        # ℓ_a and −ℓ_b are of order n and nearly equal: their sum s is known better than they.
        psi = (up + low) * half_s[i, None] + (up - low) * half_d[i, None]
        one = ~inner[i]
        psi[one] = ev.la[i][one, None] * up[one] + ev.lb[i][one, None] * low[one]
        psi += ev.s[i, None] * rows.between(i.start, i.stop)
        yield i, psi
