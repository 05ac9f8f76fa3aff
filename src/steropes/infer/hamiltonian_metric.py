"""Metrics of Hamiltonian Monte Carlo from the information of a fit and the precision of a prior."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy import linalg

from ..fit import Problem
from ..likelihoods.hessian_structures import ChannelCurvature, Curvature
from ..solve.hessian import eta_product
from .inference_constants import POSTERIOR

__all__ = ["FullMetric", "Metric", "ShearedMetric", "information_rows"]


class Metric(ABC):
    """The metric H + D / t² of Hamiltonian Monte Carlo at any deviation t.

    Directions b = T y are such that the metric is diagonal in y, with entries h + d / t². In many
    dimensions only the correlation of unpenalised coefficients with all others is removed.

    Attributes
    ----------
    h, d : (p,) arrays
    """

    h: np.ndarray
    d: np.ndarray

    def masses(self, t: np.ndarray) -> np.ndarray:
        """Compute the metric's diagonal in y for deviations (B,), (p, B)."""
        return np.maximum(self.h[:, None] + self.d[:, None] / t**2, POSTERIOR.ridge)

    @abstractmethod
    def to_coefficients(self, y: np.ndarray) -> np.ndarray:
        """Compute T y, (p, B)."""

    @abstractmethod
    def to_momenta(self, slope: np.ndarray) -> np.ndarray:
        """Compute T' times derivatives in the coefficients, (p, B)."""


class FullMetric(Metric):
    """The metric of all coefficients.

    With H + D = L L' and the eigenvectors U and eigenvalues d of L⁻¹ D L⁻ᵀ, T = L⁻ᵀ U makes it
    (1 − d) + d / t² for all t.
    """

    def __init__(self, H: np.ndarray, D: np.ndarray) -> None:
        M = H + np.diag(D)
        L = linalg.cholesky(M + np.diag(POSTERIOR.ridge * np.diag(M)), lower=True)
        root = linalg.solve_triangular(L, np.diag(np.sqrt(D)), lower=True)
        self.d, U = linalg.eigh(root @ root.T)
        self.h = 1.0 - self.d
        self._T = np.asarray(linalg.solve_triangular(L.T, U, lower=False))

    def to_coefficients(self, y: np.ndarray) -> np.ndarray:
        """See `Metric.to_coefficients`."""
        return np.asarray(self._T @ y)

    def to_momenta(self, slope: np.ndarray) -> np.ndarray:
        """See `Metric.to_momenta`."""
        return np.asarray(self._T.T @ slope)


class ShearedMetric(Metric):
    """A diagonal metric of penalised coefficients after the elimination of the unpenalised ones.

    With F the unpenalised columns, b_F = L⁻ᵀ y_F − H_FF⁻¹ H_FP y_P and b_P = y_P, H_FF = L L'.

    Parameters
    ----------
    h : (p,) array
        Diagonal of the information.
    free : (f,) int array
    cross : (f, p) array
        Rows of the information of the unpenalised columns.
    D : (p,) array
        Inverse variances of the prior at t = 1.
    """

    def __init__(self, h: np.ndarray, free: np.ndarray, cross: np.ndarray, D: np.ndarray) -> None:
        H = cross[:, free]
        H = H + np.diag(POSTERIOR.ridge * np.diag(H))
        self._free, self._L = free, linalg.cholesky(H, lower=True)
        self._C = np.asarray(linalg.cho_solve((self._L, True), cross))
        left = h - np.einsum("fp,fp->p", self._C, cross)
        self.h, self.d = np.maximum(left, POSTERIOR.ridge * h), D
        self.h[free], self._C[:, free] = 1.0, 0.0

    def to_coefficients(self, y: np.ndarray) -> np.ndarray:
        """See `Metric.to_coefficients`."""
        out = y.copy()
        own = linalg.solve_triangular(self._L.T, y[self._free], lower=False)
        out[self._free] = own - self._C @ y
        return out

    def to_momenta(self, slope: np.ndarray) -> np.ndarray:
        """See `Metric.to_momenta`."""
        own = slope[self._free]
        out = slope - self._C.T @ own
        out[self._free] = linalg.solve_triangular(self._L, own, lower=True)
        return out


def information_rows(problem: Problem, curvature: Curvature, columns: np.ndarray) -> np.ndarray:
    """Compute X_columns' H_η X, (len(columns), p), in the scaled columns."""
    design, likelihood = problem.design, problem.likelihood
    backend, order = likelihood.backend, likelihood.order
    if isinstance(curvature, ChannelCurvature):
        columns = columns[:0]  # products with this curvature are not available
    D = np.zeros((design.p, backend.lanes(max(len(columns), 1))))
    D[columns, np.arange(len(columns))] = 1.0
    Z = np.asarray(backend.to_host(design.matmul(D, backend)))
    Z = Z if order is None else Z[order]
    product = None if isinstance(curvature, ChannelCurvature) else eta_product(curvature, backend)
    if product is None:
        Z = np.asarray(backend.to_host(curvature.v))[:, None] * Z
    else:
        Z = np.column_stack([product(np.ascontiguousarray(z)) for z in Z.T])
    if order is not None:
        rows = np.zeros((design.n, Z.shape[1]))
        rows[order] = Z
        Z = rows
    return np.asarray(backend.to_host(design.rmatmul(backend.asarray(Z), backend))).T[
        : len(columns)
    ]
