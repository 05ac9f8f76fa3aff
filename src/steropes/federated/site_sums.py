"""What a site adds up: losses, gradients and Hessians at coefficients that the lead names.

Coefficients are in the columns' own units, and the intercept is that at columns' centres c which
the lead names too: η_i = α + Σ_j (x_ij − c_j) β_j + offset_i. A site's own design is centred and
scaled in its own way; what it adds up is turned into these units by the difference of the centres,
which is of the size of the columns' spread, so that no digits are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..design.blocks import DenseBlock, SparseBlock
from ..solve.data_term import ActiveColumns
from ..solve.hessian import hessian
from .rows import SiteRows

__all__ = ["Sums", "column_moments", "linear_predictor", "packed", "sums_at", "unpacked"]


@dataclass(frozen=True)
class Sums:
    """Sums over a site's rows, at several points.

    Attributes
    ----------
    loss : (m,) array
    gradient : (m, 1 + p) or (m, p) array
        The intercept's first, where there is one.
    hessian : (k, k) array or None
        At the first point, over the intercept and the chosen columns.
    uncentred : (k,) array or None
        Its diagonal before the rank-one terms of risk sets and strata are taken out.
    """

    loss: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray | None
    uncentred: np.ndarray | None


def linear_predictor(
    rows: SiteRows, beta: np.ndarray, intercept: float, center: np.ndarray
) -> np.ndarray:
    """η without the offset, (n, 1), in the order of X's rows."""
    design, backend = rows.design, rows.problem.likelihood.backend
    eta = np.asarray(backend.to_host(design.matmul((beta * design.scale)[:, None], backend)))
    return eta + intercept + float((design.center - center) @ beta)


def sums_at(
    rows: SiteRows,
    points: np.ndarray,
    intercepts: np.ndarray | None,
    center: np.ndarray,
    columns: np.ndarray | None,
) -> Sums:
    """Add up over a site's rows.

    Parameters
    ----------
    rows : SiteRows
    points : (m, p) array
    intercepts : (m,) array or None
    center : (p,) array
    columns : (k,) int array or None
        Of the Hessian at the first point; None for no Hessian.
    """
    problem = rows.problem
    likelihood, design = problem.likelihood, rows.design
    order = likelihood.order
    shift = design.center - center
    w = problem.weights if order is None else problem.weights[order]
    bound = likelihood.weigh(likelihood.backend.asarray(np.ascontiguousarray(w[:, None])))
    losses, gradients = [], []
    H: np.ndarray | None = None
    raw: np.ndarray | None = None
    for m, beta in enumerate(points):
        alpha = 0.0 if intercepts is None else float(intercepts[m])
        eta = _in_order(rows, linear_predictor(rows, beta, alpha, center))
        loss, r = likelihood.evaluate(eta, bound)
        losses.append(float(likelihood.backend.to_host(loss)[0]))
        whole = np.zeros((design.n, 1))
        whole[slice(None) if order is None else order] = likelihood.backend.to_host(r)
        own = np.asarray(design.rmatmul(whole, likelihood.backend))[:, 0] * design.scale
        if intercepts is None:
            gradients.append(own)
        else:
            total = float(whole.sum())
            gradients.append(np.concatenate([[total], own + shift * total]))
        if m == 0 and columns is not None:
            H, raw = _hessian(rows, eta, bound, columns, None if intercepts is None else shift)
    return Sums(np.array(losses), np.array(gradients), H, raw)


def _in_order(rows: SiteRows, eta: np.ndarray) -> Any:
    problem = rows.problem
    if problem.offset is not None:
        eta = eta + problem.offset[:, None]
    order = problem.likelihood.order
    return problem.likelihood.backend.asarray(eta if order is None else eta[order])


def _hessian(
    rows: SiteRows, eta: Any, bound: Any, columns: np.ndarray, shift: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The exact Hessian over the chosen columns, behind the intercept's row where there is one."""
    problem = rows.problem
    likelihood, design = problem.likelihood, rows.design
    backend = likelihood.backend
    curvature: Any = likelihood.curvature(eta, bound, exact=True)
    scale = design.scale[columns]
    if shift is None:
        active = ActiveColumns(design, likelihood.order, backend)
        active.join(columns)
        by = np.argsort(np.argsort(columns))  # columns join in ascending order
        H = np.asarray(backend.to_host(hessian(active.rows, curvature)))[np.ix_(by, by)]
        raw = np.asarray(backend.to_host(active.rows.diagonal(curvature.v)))[by]
        return H * scale * scale[:, None], raw * scale**2
    wide = design.with_intercept()
    active = ActiveColumns(wide, likelihood.order, backend)
    active.join(np.concatenate([[0], 1 + columns]))
    by = np.concatenate([[0], 1 + np.argsort(np.argsort(columns))])
    H = np.asarray(backend.to_host(hessian(active.rows, curvature)))[np.ix_(by, by)]
    T = np.eye(len(by))  # from the lead's coefficients to those of this design
    T[0, 1:] = shift[columns]
    T[1:, 1:] *= scale[:, None]
    out = T.T @ H @ T
    return out, np.diag(out).copy()


def packed(H: np.ndarray) -> np.ndarray:
    """The lower triangle of a symmetric matrix, row by row."""
    return H[np.tril_indices(len(H))]


def unpacked(flat: np.ndarray, k: int) -> np.ndarray:
    """The symmetric matrix whose lower triangle this is."""
    H = np.zeros((k, k))
    H[np.tril_indices(k)] = flat
    return H + np.tril(H, -1).T


def column_moments(rows: SiteRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted means and variances of the columns, and shares of rows that are not zero, (p,)."""
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
