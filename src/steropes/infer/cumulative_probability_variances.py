"""Variances in cumulative probability models, computed with the factored Hessian.

With θ = (α, β) and the information [[T, C], [C', V]], a function of θ with gradient (c, d) has
the variance

    c'T⁻¹c + (d − J'c)' S⁻¹ (d − J'c),    J = T⁻¹C,   S = V − C'T⁻¹C,

so that S⁻¹ is the covariance of β, and no array larger than J, (M − 1) × p, is formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import linalg

from ..design_matrix.design_interfaces import DesignLike, PlainDesign, RowsLike
from ..errors import DataError
from ..fit import Problem
from ..likelihoods.cumulative import CumulativeRows, Evaluation, LevelsWithMass, Thresholds
from ..likelihoods.hessian_structures import ProfiledCurvature
from ..likelihoods.nuisance_hessian import Block
from ..solve import Fit
from ..solve.hessian import cross, hessian
from .inference_constants import BLOCKS

__all__ = [
    "CumulativeInformation",
    "SubsetFit",
    "profiled_scores",
    "robust_covariance",
    "row_influences",
]


@dataclass
class SubsetFit:
    """A fit of a cumulative model together with its rows: all rows, or a subset of them.

    Attributes
    ----------
    likelihood : CumulativeRows
        Likelihood over the levels with mass.
    at : Thresholds
        α for the design's columns, of which the dense ones are centred.
    beta : (p,) array
        Coefficients of the design's scaled columns.
    alpha : (M − 1,) array
        Thresholds for X in the user's units.
    """

    likelihood: CumulativeRows
    fit: Fit
    at: Thresholds
    beta: np.ndarray
    alpha: np.ndarray

    @classmethod
    def of(cls, design: DesignLike, fit: Fit) -> SubsetFit:
        """Create a subset fit from the fit of one replicate."""
        end = fit.nuisance
        assert isinstance(end, LevelsWithMass)
        alpha = end.thresholds.alpha + float(design.center @ fit.beta)
        return cls(end.rows, fit, end.thresholds, fit.beta * design.scale, alpha)

    @property
    def values(self) -> np.ndarray:
        """Outcome levels with mass, (M,)."""
        return self.likelihood.levels.values


class CumulativeInformation:
    """Covariances of a cumulative model at its optimum; holds no data, so that it can be pickled.

    Parameters
    ----------
    problem : Problem
        The problem with dense columns centred, and the prior of the fit.
    offset : (n,) array or None
        Offsets in the order of the rows of ``part``.
    """

    def __init__(self, problem: Problem, part: SubsetFit, offset: np.ndarray | None) -> None:
        design = cast(PlainDesign, problem.design)
        self.scale, self.center = design.scale, design.center / design.scale
        rows, _, curvature = evaluate_at_optimum(design, part, offset)
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
        """The same fit as the only part of a combination; see `SubsetInformation`."""
        return [self]

    @property
    def positions(self) -> list[np.ndarray]:
        """Thresholds of the only part; see `SubsetInformation`."""
        return [np.arange(self.K)]

    def beta_covariance(self) -> np.ndarray:
        """Compute the covariance of β in the user's units, (p, p)."""
        return self.V / self.scale / self.scale[:, None]

    def alpha_variance(self) -> np.ndarray:
        """Compute the variance of each α_k, (K,)."""
        return self.predictor_variance(np.arange(self.K), np.zeros((1, len(self.scale))))[0]

    def predictor_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β, (rows, thresholds), for scaled columns X (rows, p)."""
        a = (X - self.center) @ self.root
        out = np.empty((len(a), len(thresholds)))
        step = max(1, BLOCKS.threshold_functions // max(len(self.scale), len(a)))
        for m in range(0, len(thresholds), step):
            k = thresholds[m : m + step]
            b = self.J[k] @ self.root
            if len(a) == 1:  # the square is not expanded, which avoids cancellation
                q = ((a + b) ** 2).sum(axis=1)[None, :]
            else:
                q = (a**2).sum(axis=1)[:, None] + 2 * (a @ b.T) + (b**2).sum(axis=1)
            out[:, m : m + step] = self.t_diagonal[k] + np.maximum(q, 0.0)
        return out

    def paired_variance(self, thresholds: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Compute the variance of α_k − x'β for one threshold per row, (rows,)."""
        q = ((X - self.center + self.J[thresholds]) @ self.root) ** 2
        return self.t_diagonal[thresholds] + q.sum(axis=1)

    def functional_variance(
        self, c: np.ndarray, X: np.ndarray, total: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute the variance of functions with gradient c (K, rows) in α − x'β, for rows X.

        ``total`` (rows,) replaces the sum of c as the factor of −x in the gradient of β.
        """
        inner = c.sum(axis=0)
        total = inner if total is None else total
        # α of the centred columns is α − center'β, so the centre is multiplied by the sum of c
        # and x by ``total``.
        q = -(total[:, None] * X - inner[:, None] * self.center + c.T @ self.J)
        quad = (c * self.block.solve(c)).sum(axis=0)
        return quad + ((q @ self.root) ** 2).sum(axis=1)


def _prior_curvature(problem: Problem, part: SubsetFit) -> np.ndarray:
    """Compute the prior's second derivative at the fit, in the scaled columns, (p, p)."""
    added, smooth = np.diag(problem.penalties(problem.prior)[1]), problem.smooth_term()
    scale = problem.design.scale
    if smooth is not None:
        added = added + smooth.hessian(part.beta / scale, np.arange(len(scale)))
    return added / scale / scale[:, None]


def evaluate_at_optimum(
    design: PlainDesign, part: SubsetFit, offset: np.ndarray | None
) -> tuple[RowsLike, Evaluation, ProfiledCurvature]:
    """Return all columns by rows, with the likelihood's evaluation and curvature at the fit."""
    likelihood = part.likelihood
    rows = design.by_rows(np.arange(design.p), likelihood.levels.order, likelihood.backend)
    eta = rows.matmul(part.beta[:, None])[:, 0]
    if offset is not None:
        eta += offset
    ev = likelihood.evaluate(part.at, eta)
    block = likelihood.block(ev)
    if not block.positive:
        raise DataError(
            "The log-likelihood is not concave at the fit, which is therefore not a maximum: there "
            "are no standard errors. Try another link."
        )
    return rows, ev, likelihood.curvature(ev, block)


def robust_covariance(
    design: PlainDesign,
    part: SubsetFit,
    offset: np.ndarray | None,
    information: CumulativeInformation,
    cluster: np.ndarray | None,
) -> np.ndarray:
    """Compute the sandwich V B V of β, B = Σ_g ψ_g ψ_g' over clusters or rows, (p, p).

    ψ_i = s_i x_i + ℓ_a J_up + ℓ_b J_low is the row's score of β minus its projection on the scores
    of α (White 1980; Lin and Wei 1989 for the profiled form). Weights multiply the scores.
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


def row_influences(
    design: PlainDesign,
    part: SubsetFit,
    offset: np.ndarray | None,
    information: CumulativeInformation,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a part and the derivative of β in the logarithm of their weights."""
    out = np.empty((part.likelihood.n, len(information.scale)))
    for i, psi in profiled_scores(design, part, offset, information.J):
        out[i] = -psi @ information.V / information.scale  # η = α − Xβ
    return part.likelihood.levels.order, out


def profiled_scores(
    design: PlainDesign, part: SubsetFit, offset: np.ndarray | None, J: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows in the model's order with their ψ, in the scaled columns."""
    rows, ev, _ = evaluate_at_optimum(design, part, offset)
    likelihood = part.likelihood
    levels, p = likelihood.levels, rows.k
    J = np.concatenate([J, np.zeros((1, p))])  # index −1 and K: no threshold
    half_s, half_d = 0.5 * ev.s, 0.5 * (ev.la - ev.lb)
    inner = (levels.low >= 0) & (levels.up < likelihood.K)
    step = max(256, BLOCKS.threshold_functions // max(p, 1))
    for i0 in range(0, likelihood.n, step):
        i = slice(i0, min(i0 + step, likelihood.n))
        up, low = J[levels.up[i]], J[levels.low[i]]
        # ℓ_a and −ℓ_b are of order n and nearly equal; their sum s has a smaller error.
        psi = (up + low) * half_s[i, None] + (up - low) * half_d[i, None]
        one = ~inner[i]
        psi[one] = ev.la[i][one, None] * up[one] + ev.lb[i][one, None] * low[one]
        psi += ev.s[i, None] * rows.between(i.start, i.stop)
        yield i, psi
