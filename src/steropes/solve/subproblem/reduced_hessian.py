"""The shared Hessian after elimination of the unpenalised columns."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy import linalg

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array, ModelMinimiser
from ...backends.thread_pool import ThreadPool
from .low_rank_hessian_terms import LowRank
from .subproblem_constants import SubproblemPolicy

__all__ = ["SINGLE_ROUNDING", "MatrixEntries", "Part", "ReducedHessian", "Sweeps"]

# Below this share of `ReducedHessian.whole` single precision leaves only rounding error.
SINGLE_ROUNDING = 1e-7


class Sweeps(Protocol):
    """Coordinate descent on models with one matrix."""

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
        rest: np.ndarray,
    ) -> None:  # fmt: skip
        """Sweep once over all coordinates, updating the point y and its slopes s, (k, B) each.

        Parameters
        ----------
        h, l1, l2 : (k, B) arrays
            Total curvature in each coordinate (zero for one that stays fixed), and penalties.
        rest : (k, B) array
            Violation up to which a coordinate stays fixed.
        """


class MatrixEntries(Protocol):
    """A matrix with access to its entries, as factors of some of its columns need.

    Attributes
    ----------
    k, diagonal, whole, pool, policy
        As in `ReducedHessian`.
    """

    k: int
    diagonal: np.ndarray
    whole: np.ndarray
    pool: ThreadPool
    policy: SubproblemPolicy

    def lower_part(self, at: np.ndarray, size: np.ndarray, out: np.ndarray) -> None:
        """Fill ``out`` (n, m) with rows ``at`` and the first m columns, in units of ``size``.

        Only the lower triangle of the first m rows is needed.
        """

    def between(self, rows: np.ndarray, columns: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
        """Return entries of some rows and columns in a given precision.

        Rows and columns of eliminated coordinates are zero, including their diagonal.
        """


class ReducedHessian(ABC):
    """A Hessian G in coordinates that separate the unpenalised columns from the others.

    With G_ff = LL' and Y = L⁻¹ G_fr the new coordinates are e = L'σ_f d_f + Y σ_r d_r. Their
    Hessian is the identity, and that of the others is the Schur complement G_rr − Y'Y, which is the
    Hessian of centred columns. An intercept is correlated with every column that is not centred,
    which slows coordinate descent down. The factors σ cancel, so that replicates still share the
    matrix.

    Parameters
    ----------
    whole : (k,) array
        G's diagonal.
    free : (k,) bool array
        Columns without any penalty.
    rows : callable
        Takes row numbers f and returns these rows of G in double precision, (len(f), k).
    policy : SubproblemPolicy
        Tuning parameters of everything that uses the matrix.

    Attributes
    ----------
    k : int
        Number of coordinates.
    f : (m,) int array
        The eliminated coordinates.
    eliminated : (k,) bool array
        Whether each coordinate is eliminated.
    L, Y : (m, m) and (m, k) arrays
    diagonal : (k,) array
        The diagonal in the new coordinates.
    minimiser : ModelMinimiser or None
        Minimises models with this matrix on a device.
    on_device : bool
        Whether vectors may also be on a device.
    whole : (k,) array
        G's diagonal; entries of ``diagonal`` below its rounding error are meaningless.
    """

    on_device = False

    def __init__(
        self, whole: np.ndarray, free: np.ndarray, rows: Callable[[np.ndarray], np.ndarray],
        pool: ThreadPool, policy: SubproblemPolicy,
    ) -> None:  # fmt: skip
        self.whole, self.free, self.pool, self.k = whole, free, pool, len(whole)
        self.minimiser: ModelMinimiser | None = None
        self.policy = policy
        f = np.flatnonzero(free)
        if len(f) > policy.max_eliminated or len(f) == self.k:
            f = f[:0]
        self.L, Y = np.empty((0, 0)), np.zeros((0, self.k))
        if len(f):
            G = rows(f)
            try:
                self.L = linalg.cholesky(G[:, f], lower=True, check_finite=False)
                Y = linalg.solve_triangular(self.L, G, lower=True, check_finite=False)
            except linalg.LinAlgError:  # Nearly collinear unpenalised columns are not eliminated.
                f = f[:0]
        self.f, self.Y = f, np.ascontiguousarray(Y)
        self.Y[:, f] = 0.0
        self.diagonal: np.ndarray = whole - (self.Y**2).sum(axis=0)
        self.diagonal[f] = 1.0
        self.eliminated = np.isin(np.arange(self.k), f)

    # -- interface of subclasses ---------------------------------------------------------------

    @abstractmethod
    def times(self, x: np.ndarray) -> np.ndarray:
        """Multiply the matrix by x (k, B)."""

    @abstractmethod
    def sweeps(self, low: LowRank) -> Sweeps:
        """Return coordinate descent for models with additional low-rank terms."""

    @property
    @abstractmethod
    def dense(self) -> MatrixEntries | None:
        """The same matrix with access to its entries, for exact solutions and factors, or None."""

    @property
    @abstractmethod
    def solvable(self) -> int:
        """Support size from which exact solutions are too expensive."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """Number that, added to a unit diagonal, makes a singular part regular."""

    @abstractmethod
    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """Return rows and columns ``at`` in a given precision."""

    @abstractmethod
    def only(self, at: np.ndarray) -> ReducedHessian:
        """Return the matrix of some coordinates, which include all eliminated ones."""

    @abstractmethod
    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """Find strongly correlated pairs (n, 2) with at least one coordinate from ``known`` on.

        Returns the pairs and their strengths (n,). ``size`` (k,) is one over the root of the
        diagonal, or zero for coordinates to leave out.
        """

    @abstractmethod
    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """Compute correlations within blocks ``of`` (k,), if `block_matrices` needs them."""

    @abstractmethod
    def block_matrices(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix of each block up to the diagonal, and where each begins.

        ``members`` lists the coordinates block by block, and each block begins at ``starts``.
        """

    # -- parts -----------------------------------------------------------------------------------

    def taken(self, at: np.ndarray, last: Part | None, whole: float) -> Part:
        """Return the matrix of some coordinates, or ``last`` if that contains them and few others.

        Above a share ``whole`` of all coordinates, the whole matrix is returned.
        """
        mine = self.eliminated.copy()
        mine[at] = True
        at = np.flatnonzero(mine)
        if last is not None and len(last.at) <= self.policy.reusable_share * len(at):
            mine[last.at] = False
            if not mine.any():
                return last
        if len(at) > whole * self.k:
            return Part(np.arange(self.k), self)
        return Part(at, self.only(at))

    def _cut(self, at: np.ndarray) -> Self:
        """Copy this object with the data of coordinates ``at``."""
        out = copy.copy(self)
        out.k, out.f = len(at), np.searchsorted(at, self.f)
        out.Y = np.ascontiguousarray(self.Y[:, at])
        out.diagonal, out.whole = self.diagonal[at], self.whole[at]
        out.eliminated, out.free = self.eliminated[at], self.free[at]
        out.minimiser = None  # It has the whole matrix.
        return out

    # -- the change of coordinates -------------------------------------------------------------

    def gradient(self, g: Array, sigma: Array) -> Array:
        """Convert a gradient with respect to d to the new coordinates."""
        if not len(self.f):
            return g
        out = g.copy()
        z = self._solved(g[self.f] / sigma[self.f])
        out -= sigma * (array_namespace(g).asarray(self.Y.T) @ z)
        out[self.f] = z
        return out

    def step(self, d: Array, sigma: Array) -> Array:
        """Convert a step d to the new coordinates."""
        if not len(self.f):
            return d
        out, here = d.copy(), array_namespace(d).asarray
        out[self.f] = here(self.L.T) @ (sigma[self.f] * d[self.f]) + here(self.Y) @ (sigma * d)
        return out

    def back(self, d: Array, sigma: Array) -> Array:
        """Convert a step in the new coordinates to d."""
        if not len(self.f):
            return d
        out = d.copy()
        e = self._solved(d[self.f] - array_namespace(d).asarray(self.Y) @ (sigma * d), True)
        out[self.f] = e / sigma[self.f]  # The caller checks that the step is finite.
        return out

    def _solved(self, x: Array, transposed: bool = False) -> Array:
        """Solve L z = x or L'z = x."""
        if isinstance(x, np.ndarray):
            trans, check = ("T", False) if transposed else ("N", True)
            return linalg.solve_triangular(self.L, x, lower=True, trans=trans, check_finite=check)
        xp = array_namespace(x)
        return xp.solve_triangular(xp.asarray(self.L), x, transposed)

    def own(self, sigma: Array) -> Array:
        """Return σ in the new coordinates."""
        if not len(self.f):
            return sigma
        out = sigma.copy()
        out[self.f] = 1.0
        return out


class Part(NamedTuple):
    """A matrix of some coordinates.

    Attributes
    ----------
    at : int array
        The coordinates, ascending.
    """

    at: np.ndarray
    shared: ReducedHessian
