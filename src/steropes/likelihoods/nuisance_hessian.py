"""Factorised Hessians of nuisance parameters: tridiagonal chains and sparse matrices.

The block of a likelihood's Hessian that belongs to the nuisance parameters is large but structured:
each threshold of an ordinal model is coupled only to its neighbours. A `Block` solves linear
systems with it; the solver eliminates it from the Hessian of the coefficients
(`steropes.solve.hessian`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as splinalg

from ..backends.cpu.likelihoods import tridiagonal_threshold_kernels
from .likelihood_constants import CHUNK_SIZES

__all__ = ["Block", "Chain", "SparseBlock"]


class Block(Protocol):
    """T, the Hessian over K nuisance parameters.

    Attributes
    ----------
    positive : bool
        Whether T is positive definite. Solves are defined only in that case.
    """

    K: int
    positive: bool

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Compute T⁻¹ B for B (K,) or (K, m) without modifying B."""

    def solve_in_place(self, B: np.ndarray) -> np.ndarray:
        """Compute T⁻¹ B for B (K, m) in C order, which may be overwritten."""

    def inverse_diagonal(self) -> np.ndarray:
        """Compute the diagonal of T⁻¹, (K,)."""


class Chain:
    """A tridiagonal T: diag(u) plus the Laplacian of a path with edge weights W.

    Parameters
    ----------
    u : (K,) array
    W : (K,) array
        ``W[k]`` is the weight of the edge between the parameters k − 1 and k; ``W[0]`` is zero.
    """

    def __init__(self, u: np.ndarray, W: np.ndarray) -> None:
        self.K, self.u, self.W = len(u), u, W
        self.d = np.empty(self.K)
        self.positive = bool(tridiagonal_threshold_kernels.factor(u, W, self.d))

    def solve(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve`."""
        out = np.array(B[:, None] if B.ndim == 1 else B, np.float64, order="C", copy=True)
        tridiagonal_threshold_kernels.solve(self.W, self.d, out)
        return out[:, 0] if B.ndim == 1 else out

    def solve_in_place(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve_in_place`."""
        tridiagonal_threshold_kernels.solve(self.W, self.d, B)
        return B

    def inverse_diagonal(self) -> np.ndarray:
        """See `Block.inverse_diagonal`."""
        out = np.empty(self.K)
        tridiagonal_threshold_kernels.inverse_diagonal(self.W, self.d, out)
        return out


class SparseBlock:
    """A sparse T: diag(u) plus the Laplacian of a graph that also joins distant parameters.

    Parameters
    ----------
    u : (K,) array
    i, j, w : (m,) arrays
        Edges between the parameters i and j with their weights; repeated edges are added.
    """

    def __init__(self, u: np.ndarray, i: np.ndarray, j: np.ndarray, w: np.ndarray) -> None:
        self.K = len(u)
        W = sparse.coo_array((w, (i, j)), shape=(self.K, self.K)).tocsc()
        W = W + W.T
        degree = np.asarray(W.sum(axis=1)).ravel()
        self.T = sparse.csc_array(sparse.diags_array(u + degree) - W)
        try:
            self.lu: Any = _factor(self.T)
            self.positive = bool((self.lu.U.diagonal() > 0).all())
        except RuntimeError:  # exactly singular
            self.positive = False

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "lu"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.lu = _factor(self.T)

    def solve(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve`."""
        return self.lu.solve(np.ascontiguousarray(B, np.float64))

    def solve_in_place(self, B: np.ndarray) -> np.ndarray:
        """See `Block.solve_in_place`."""
        return self.solve(B)

    def inverse_diagonal(self) -> np.ndarray:
        """See `Block.inverse_diagonal`; one solve per parameter, in batches."""
        out = np.empty(self.K)
        for k0 in range(0, self.K, CHUNK_SIZES.right_hand_sides):
            k1 = min(k0 + CHUNK_SIZES.right_hand_sides, self.K)
            B = np.zeros((self.K, k1 - k0))
            B[np.arange(k0, k1), np.arange(k1 - k0)] = 1.0
            out[k0:k1] = self.lu.solve(B)[np.arange(k0, k1), np.arange(k1 - k0)]
        return out


def _factor(T: sparse.csc_array) -> splinalg.SuperLU:
    """Compute the LU factorisation of T."""
    # T is a diagonally dominant M-matrix, so pivots may stay on the diagonal.
    return splinalg.splu(
        T, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
