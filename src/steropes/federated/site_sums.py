"""Losses, gradients and Hessians over a site's rows, at the coefficients of a request.

Coefficients are in the columns' own units, and the intercept refers to centres c of the columns
that the request contains: η_i = α + Σ_j (x_ij − c_j) β_j + offset_i. The site's design has its own
centres and scales. Its sums are converted with the difference of the centres, which is of the order
of the columns' standard deviations, so that no digits are lost. If each site has its own intercept,
α is at its maximum and the sums are those of the profile likelihood (`site_intercept`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.backend_interface import Array
from ..design_matrix.column_storage import DenseBlock, SparseBlock
from ..likelihoods.likelihood_interface import Bound
from ..solve.data_term import WorkingColumns
from ..solve.hessian import hessian
from .federated_plan import FederatedPlan
from .site_rows import SiteRows

__all__ = ["Sums", "column_moments", "linear_predictor", "pack_lower", "sums_at", "unpack_lower"]


@dataclass(frozen=True)
class Sums:
    """Sums over a site's rows at several points.

    Attributes
    ----------
    loss : (m,) array
    gradient : (m, 1 + p) or (m, p) array
        Gradients, starting with the common intercept, if any.
    hessian : (h, k, k) array
        Hessians at some of the points, over that intercept and the chosen columns.
    uncentred : (h, k) array
        Their diagonals before the rank-one terms of risk sets and strata are subtracted.
    held_out : (m, s) array or None
        The s sums from which the score of the rows that a point's fold leaves out is computed (one
        sum, or six for linear models; see `Likelihood.score_parts`); zero for points without a
        fold.
    """

    loss: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    uncentred: np.ndarray
    held_out: np.ndarray | None


def linear_predictor(
    rows: SiteRows, beta: np.ndarray, intercept: float, center: np.ndarray
) -> np.ndarray:
    """Compute η without the offset, (n, 1), in the order of X's rows."""
    design, backend = rows.design, rows.problem.likelihood.backend
    eta = np.asarray(backend.to_host(design.matmul((beta * design.scale)[:, None], backend)))
    return eta + intercept + float((design.center - center) @ beta)


def sums_at(
    rows: SiteRows,
    plan: FederatedPlan,
    points: np.ndarray,
    intercepts: np.ndarray | None,
    center: np.ndarray,
    columns: np.ndarray,
    hessians: Sequence[int] = (0,),
    folds: np.ndarray | None = None,
) -> Sums:
    """Compute the sums over a site's rows.

    Parameters
    ----------
    points : (m, p) array
        Coefficients.
    intercepts : (m,) array or None
        Intercepts, if sites share one.
    center : (p,) array
        Centres of the columns to which the intercepts refer.
    columns : (k,) int array
        Columns of the Hessians.
    hessians : sequence of int
        Numbers of the points with a Hessian.
    folds : (m,) int array, optional
        The fold that each point leaves out, −1 for none.
    """
    likelihood, design = rows.problem.likelihood, rows.design
    shift = design.center - center
    weights = _Weights(rows)
    curved: _Curved | None = None
    losses, gradients, held = [], [], []
    H: list[np.ndarray] = []
    raw: list[np.ndarray] = []
    for m, beta in enumerate(points):
        fold = -1 if folds is None else int(folds[m])
        bound = weights.bound(fold)
        eta = linear_predictor(rows, beta, 0.0, center)
        if intercepts is not None:
            eta = eta + float(intercepts[m])
        elif plan.has_own_intercepts:
            eta = eta + _maximal(rows, plan, eta, fold)
        ordered = _in_order(rows, eta)
        loss, r = likelihood.evaluate(ordered, bound)
        losses.append(float(likelihood.backend.to_host(loss)[0]))
        whole = np.zeros((design.n, 1))
        order = slice(None) if likelihood.order is None else likelihood.order
        whole[order] = likelihood.backend.to_host(r)
        own = np.asarray(design.rmatmul(whole, likelihood.backend))[:, 0] * design.scale
        if intercepts is None:
            gradients.append(own)
        else:
            total = float(whole.sum())
            gradients.append(np.concatenate([[total], own + shift * total]))
        if m in hessians:
            curved = curved or _Curved(rows, plan, columns, shift)
            for into, x in zip((H, raw), curved.at(ordered, bound), strict=True):
                into.append(x)
        if folds is not None:
            held.append(weights.score_parts(ordered, fold))
    q = len(columns) + (intercepts is not None)
    return Sums(
        np.array(losses), np.array(gradients), np.array(H).reshape(len(H), q, q),
        np.array(raw).reshape(len(raw), q), np.array(held) if held else None,
    )  # fmt: skip


def _maximal(rows: SiteRows, plan: FederatedPlan, eta: np.ndarray, fold: int) -> float:
    """Compute the site's own intercept from the training rows of a fold."""
    intercept = plan.own_intercept
    assert intercept is not None
    w, offset = rows.problem.weights, rows.problem.offset
    if fold >= 0:
        assert rows.held_out is not None
        w = w * ~rows.held_out[:, fold]
        intercept.refuse_infinite(rows.y, w, f"outside of fold {fold}")
    fixed = eta[:, 0] if offset is None else eta[:, 0] + offset
    some = w > 0
    return intercept.maximum(rows.y[some], w[some], fixed[some])


def _in_order(rows: SiteRows, eta: np.ndarray) -> Array:
    """Add the offset and reorder linear predictors for the likelihood."""
    problem = rows.problem
    if problem.offset is not None:
        eta = eta + problem.offset[:, None]
    order = problem.likelihood.order
    return problem.likelihood.backend.asarray(eta if order is None else eta[order])


class _Weights:
    """The row weights of each fold, which are bound to the likelihood once."""

    def __init__(self, rows: SiteRows) -> None:
        self.rows, self._bound = rows, dict[int, Bound]()

    def _of(self, fold: int, held_out: bool) -> Array:
        """Return weights in the likelihood's order, (n, 1), of a fold's training or own rows."""
        problem = self.rows.problem
        w = problem.weights
        if fold >= 0:
            assert self.rows.held_out is not None
            out = self.rows.held_out[:, fold]
            w = w * (out if held_out else ~out)
        order = problem.likelihood.order
        w = w if order is None else w[order]
        return problem.likelihood.backend.asarray(np.ascontiguousarray(w[:, None]))

    def bound(self, fold: int) -> Bound:
        """Return the bound weights of a fold's training rows, or of all rows for −1."""
        if fold not in self._bound:
            self._bound[fold] = self.rows.problem.likelihood.weigh(self._of(fold, False))
        return self._bound[fold]

    def score_parts(self, eta: Array, fold: int) -> np.ndarray:
        """Compute the sums for the score of a fold's rows, (s,)."""
        likelihood = self.rows.problem.likelihood
        held_out, train = self._of(max(fold, 0), True), self._of(fold, False)
        parts = likelihood.score_parts(eta, held_out, train)
        return np.asarray(likelihood.backend.to_host(parts))[:, 0] * (fold >= 0)


class _Curved:
    """Exact Hessians over the chosen columns, preceded by the common intercept, if any."""

    def __init__(
        self, rows: SiteRows, plan: FederatedPlan, columns: np.ndarray, shift: np.ndarray
    ) -> None:
        likelihood, design = rows.problem.likelihood, rows.design
        self.likelihood, self.own = likelihood, plan.has_own_intercepts
        intercept = self.own or bool(plan.intercepts)
        wide = design.with_intercept() if intercept else design
        at = np.concatenate([[0], 1 + columns]) if intercept else columns
        self.active = WorkingColumns(wide, likelihood.order, likelihood.backend)
        self.active.join(at)
        self.by = np.argsort(np.argsort(at))  # columns join in ascending order
        self.scale, self.shift = design.scale[columns], shift[columns]
        self.T: np.ndarray | None = None
        if intercept:
            self.T = np.eye(len(at))  # maps the request's coefficients to those of this design
            self.T[1:, 1:] *= self.scale[:, None]
            if not self.own:
                self.T[0, 1:] = self.shift

    def at(self, eta: Array, bound: Bound) -> tuple[np.ndarray, np.ndarray]:
        """Compute the Hessian (k, k) at a linear predictor, and its uncentred diagonal, (k,)."""
        backend, scale = self.likelihood.backend, self.scale
        curvature: Any = self.likelihood.curvature(eta, bound, exact=True)
        rows = self.active.rows
        H = np.asarray(backend.to_host(hessian(rows, curvature)))[np.ix_(self.by, self.by)]
        if self.T is not None:
            out = self.T.T @ H @ self.T
            if self.own:  # the profile likelihood's Hessian, relative to this site's centres
                inner = out[1:, 1:]
                return inner - np.outer(out[0, 1:], out[0, 1:]) / out[0, 0], np.diag(inner).copy()
            return out, np.diag(out).copy()
        v = curvature.v
        raw = np.asarray(backend.to_host(rows.diagonal(v)))[self.by] * scale**2
        first = np.asarray(backend.to_host(rows.rmatmul(v[:, None])))[self.by, 0] * scale
        raw += self.shift * (2 * first + self.shift * float(v.sum()))  # for the request's centres
        return H * scale * scale[:, None], raw


def pack_lower(H: np.ndarray) -> np.ndarray:
    """Pack the lower triangles of symmetric matrices (…, k, k) by rows, (…, k (k + 1) / 2)."""
    at = np.tril_indices(H.shape[-1])
    return H[..., at[0], at[1]]


def unpack_lower(flat: np.ndarray, k: int) -> np.ndarray:
    """Restore symmetric matrices (…, k, k) from their pack_lower lower triangles."""
    at = np.tril_indices(k)
    H = np.zeros((*flat.shape[:-1], k, k))
    H[..., at[0], at[1]] = H[..., at[1], at[0]] = flat
    return H


def column_moments(rows: SiteRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute weighted means, variances and shares of nonzero values of the columns, (p,) each."""
    design, w = rows.design, rows.problem.weights
    total = w.sum()
    mean, variance, filled = (np.zeros(design.p) for _ in range(3))
    for b, start in zip(design.blocks, design.block_start, strict=False):
        for j in range(b.p):
            if isinstance(b, DenseBlock):
                z, c = b.values[:, j], b.center[j]
                entries = w
                mean_z = float(w @ z / total)
                variance[start + j] = b.scale[j] ** 2 * float(w @ (z - mean_z) ** 2 / total)
                mean[start + j] = c + b.scale[j] * mean_z
                filled[start + j] = 1.0
            elif isinstance(b, SparseBlock):
                at = slice(b.indptr[j], b.indptr[j + 1])
                entries = w[b.indices[at]]
                values = b.data[at] if len(b.data) else np.ones(len(entries))
                mean_z = float(entries @ values / total)
                outside = max(total - entries.sum(), 0.0)
                square = float(entries @ (values - mean_z) ** 2) + outside * mean_z**2
                variance[start + j] = b.scale[j] ** 2 * square / total
                mean[start + j] = b.scale[j] * mean_z
                filled[start + j] = entries.sum() / total
    return mean, variance, filled
