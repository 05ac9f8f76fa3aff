"""A symmetric matrix on a device, with the minimisation of the quadratic models it belongs to."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..backend_interface import Array
from .device_array import DeviceArray, in_double, like
from .host_device_transfers import download, upload
from .quadratic_minimiser import DenseProducts, ModelProducts, QuadraticMinimiser

__all__ = ["TorchMatrix", "TorchMinimiser"]


class _Factor(NamedTuple):
    """Cholesky's factor L of the matrix with a ridge, scaled by ``size`` to a unit diagonal.

    Coordinates ``f`` are eliminated.
    """

    f: NDArray
    ridge: torch.Tensor
    size: torch.Tensor
    L: torch.Tensor

    def belongs_to(self, f: NDArray, ridge: torch.Tensor) -> bool:
        """Return whether it is the factor for these coordinates and this ridge."""
        return np.array_equal(self.f, f) and torch.equal(self.ridge, ridge)


class TorchMinimiser:
    """Minimisation of models by products with their matrix; see `ModelMinimiser`."""

    def __init__(self, products: ModelProducts) -> None:
        self.device, self._products = products.device, products

    def _sent(self, x: Array) -> torch.Tensor:
        """Return an array on the device in double precision."""
        return in_double(x, self.device)

    def times(self, x: Array) -> Array:
        """Multiply the matrix by x (k, B)."""
        return like(x, self._products.times(self._sent(x)))

    @cached_property
    def _minimiser(self) -> QuadraticMinimiser:
        """The minimiser of models."""
        return QuadraticMinimiser(self._products)

    def minimise(self, diagonal: NDArray, f: NDArray, Y: NDArray, **arrays: Array) -> Array:
        """Minimise models; see `ModelMinimiser.minimise`."""
        return self._minimiser.minimise(diagonal, f, Y, **arrays)

    def support_step(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, residual: float, **arrays: Array
    ) -> Array:
        """Compute Newton steps for the signs of y; see `ModelMinimiser.support_step`."""
        return self._minimiser.support_step(diagonal, f, Y, residual=residual, **arrays)

    def solve(
        self, f: NDArray, Y: NDArray, *, g: Array, y: Array, l2: Array, U: Array,
        c: NDArray, min_pivot: float, keep: bool,
    ) -> Array | None:  # fmt: skip
        """Return None, since the entries of the matrix are not known."""
        return None


class TorchMatrix(TorchMinimiser):
    """A matrix on a device; see `DeviceMatrix`.

    Parameters
    ----------
    G : (k, k) tensor
        Symmetric, in single or double precision; it is kept, not copied.
    """

    def __init__(self, G: torch.Tensor) -> None:
        super().__init__(DenseProducts(G))
        self.G = G
        self._factor: _Factor | None = None

    @property
    def k(self) -> int:
        """Number of rows."""
        return len(self.G)

    @cached_property
    def diagonal(self) -> NDArray:
        """The diagonal in double precision, (k,)."""
        return download(self.G.diagonal().double())

    def rows(self, at: NDArray) -> NDArray:
        """Return rows in double precision, (len(at), k)."""
        return download(self.G[upload(at, self.device)].double())

    @cached_property
    def _on_host(self) -> NDArray:
        """The matrix on the host."""
        return download(self.G)

    def to_host(self) -> NDArray:
        """Transfer the matrix to the host; later calls return the same array."""
        return self._on_host

    def grown(self, G: DeviceArray) -> TorchMatrix:
        """Extend by the rows from k on of a larger matrix; see `DeviceMatrix.grown`."""
        k, whole = self.k, G.tensor
        new = whole[k:].to(self.G.dtype)
        return TorchMatrix(torch.cat([torch.cat([self.G, new[:, :k].T], 1), new]))

    # -- models ----------------------------------------------------------------------------------

    @cached_property
    def _minimiser(self) -> QuadraticMinimiser:
        """The minimiser of models, which multiplies by the matrix in single precision."""
        return QuadraticMinimiser(DenseProducts(self.G.to(torch.float32)))

    def solve(
        self, f: NDArray, Y: NDArray, *, g: Array, y: Array, l2: Array, U: Array,
        c: NDArray, min_pivot: float, keep: bool,
    ) -> Array | None:  # fmt: skip
        """Minimise models without an ℓ1 penalty by Cholesky factors; see `ModelMinimiser.solve`."""
        single = g.shape[1] == 1 and not c.any()
        known, ridge = self._factor, self._sent(l2)
        slope = self._sent(g) + ridge * self._sent(y)
        if single and known is not None and known.belongs_to(f, ridge[:, 0]):
            return like(g, _step(known, slope))
        A, Y_f, at = self.G.double(), self._sent(Y), upload(f, self.device)
        if len(f):
            A = A - Y_f.T @ Y_f
            A[at], A[:, at] = 0.0, 0.0
            A[at, at] = 1.0
        low, weight = self._sent(U), self._sent(c)
        steps = []
        for b in range(g.shape[1]):
            H = A + torch.diag(ridge[:, b])
            if len(low):
                H = H + (low[:, :, b] * weight[:, b, None]).T @ low[:, :, b]
            factor = _factored(H, f, ridge[:, b], min_pivot)
            if factor is None:
                return None
            if single and keep:
                self._factor = factor
            steps.append(_step(factor, slope[:, b : b + 1]))
        return like(g, torch.cat(steps, 1))


def _factored(H: torch.Tensor, f: NDArray, ridge: torch.Tensor, min_pivot: float) -> _Factor | None:
    """Factor H, scaled to a unit diagonal; None if it is nearly singular."""
    h = H.diagonal()
    size = torch.where(h > 0, h, 1.0).sqrt()
    L, failed = torch.linalg.cholesky_ex(H / size / size[:, None])
    # A failed factorisation leaves entries that are not numbers.
    good = (failed == 0) & (L.diagonal().amin() >= min_pivot)
    return _Factor(f, ridge.clone(), size, L) if bool(good) else None


def _step(factor: _Factor, slope: torch.Tensor) -> torch.Tensor:
    """Compute −(G + ridge)⁻¹ slope, (k, 1)."""
    size = factor.size[:, None]
    return -torch.cholesky_solve(slope / size, factor.L) / size
