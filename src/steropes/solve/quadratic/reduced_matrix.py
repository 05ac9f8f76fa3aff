"""Coordinates in which columns without penalty stand alone, and what a matrix in them owes."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy import linalg

from ...backends.threads import ThreadPool
from .low_rank import LowRank

__all__ = ["MatrixEntries", "Part", "ReducedMatrix", "Sweeps"]

FEW = 32  # columns without penalty that are eliminated
SPARE = 1.3  # coordinates in a part for each one that is wanted, before there is another


class Sweeps(Protocol):
    """Coordinate descent on models with one matrix."""

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
    ) -> None:  # fmt: skip
        """One pass over all coordinates: the point y and its slopes s move, (k, B) both.

        Parameters
        ----------
        h, l1, l2 : (k, B) arrays
            Total curvature of each coordinate (those without any do not move), and penalties.
        """


class MatrixEntries(Protocol):
    """A matrix whose entries can be looked up, as a factor of some of its columns wants them.

    Attributes
    ----------
    k, diagonal, whole, pool
        As of `ReducedMatrix`.
    """

    k: int
    diagonal: np.ndarray
    whole: np.ndarray
    pool: ThreadPool

    def lower_part(self, at: np.ndarray, size: np.ndarray, out: np.ndarray) -> None:
        """Rows and columns ``at`` as far as ``out`` (n, m) goes, in units of ``size``.

        Of the first m rows the lower triangle.
        """

    def between(self, rows: np.ndarray, columns: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
        """Entries of some rows and columns, in a precision of one's own.

        Those of what is eliminated are zero, on the diagonal too.
        """


class ReducedMatrix(ABC):
    """A Hessian G in coordinates in which the columns without penalty stand alone.

    With G_ff = LL' and Y = L⁻¹ G_fr the new coordinates are e = L'σ_f d_f + Y σ_r d_r, whose
    Hessian is the identity, and that of the others is the Schur complement G_rr − Y'Y, that of
    centred columns. An intercept is correlated with every column that is not centred, which is
    what makes coordinate descent slow. The factors σ drop out, so replicates still share it.

    Parameters
    ----------
    whole : (k,) array
        G's diagonal.
    free : (k,) bool array
        Columns without any penalty.
    rows : callable
        Rows of G in double precision, (len(f), k), by their numbers f.
    pool : ThreadPool

    Attributes
    ----------
    k : int
        Coordinates.
    f : (m,) int array
        The coordinates that were eliminated,
    eliminated : (k,) bool array
        and whether a coordinate is one of them.
    L, Y : (m, m) and (m, k) arrays
    diagonal : (k,) array
        In the new coordinates,
    whole : (k,) array
        and G's own: what is left of less than its rounding is none.
    """

    def __init__(
        self, whole: np.ndarray, free: np.ndarray, rows: Callable[[np.ndarray], np.ndarray],
        pool: ThreadPool,
    ) -> None:  # fmt: skip
        self.whole, self.free, self.pool, self.k = whole, free, pool, len(whole)
        f = np.flatnonzero(free)
        if len(f) > FEW or len(f) == self.k:
            f = f[:0]
        self.L, Y = np.empty((0, 0)), np.zeros((0, self.k))
        if len(f):
            G = rows(f)
            try:
                self.L = linalg.cholesky(G[:, f], lower=True, check_finite=False)
                Y = linalg.solve_triangular(self.L, G, lower=True, check_finite=False)
            except linalg.LinAlgError:  # nearly flat among themselves: descent takes them as is
                f = f[:0]
        self.f, self.Y = f, np.ascontiguousarray(Y)
        self.Y[:, f] = 0.0
        self.diagonal: np.ndarray = whole - (self.Y**2).sum(axis=0)
        self.diagonal[f] = 1.0
        self.eliminated = np.isin(np.arange(self.k), f)

    # -- what a matrix owes --------------------------------------------------------------------

    @abstractmethod
    def times(self, x: np.ndarray) -> np.ndarray:
        """The matrix times x (k, B)."""

    @abstractmethod
    def sweeps(self, low: LowRank) -> Sweeps:
        """Descent on models that have terms of their own beside the matrix."""

    @property
    @abstractmethod
    def dense(self) -> MatrixEntries | None:
        """The same where entries can be looked up, for exact solutions and factors."""

    @property
    @abstractmethod
    def solvable(self) -> int:
        """Columns of a support from which on it costs too much to solve with it exactly."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """What makes a part with a diagonal of ones regular, if it is not."""

    @abstractmethod
    def part(self, at: np.ndarray, dtype: type) -> np.ndarray:
        """Rows and columns ``at``, in a precision of one's own."""

    @abstractmethod
    def only(self, at: np.ndarray) -> ReducedMatrix:
        """The matrix of some coordinates, with those that were eliminated among them."""

    @abstractmethod
    def strong_pairs(self, size: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray]:
        """Strongly correlated coordinates (n, 2), of which one is no earlier than ``known``.

        And how strongly, (n,). ``size`` (k,) is one over the root of the diagonal, or zero where
        a coordinate is in no pair.
        """

    @abstractmethod
    def correlations(self, of: np.ndarray) -> tuple[np.ndarray, ...]:
        """What `squares` wants to know of blocks ``of`` (k,) beforehand, if anything."""

    @abstractmethod
    def squares(
        self, members: np.ndarray, starts: np.ndarray, known: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The matrix of each block of coordinates, up to the diagonal, and where each begins.

        ``members`` are the coordinates, block by block, each of which begins at ``starts``.
        """

    # -- parts -----------------------------------------------------------------------------------

    def taken(self, at: np.ndarray, last: Part | None, whole: float) -> Part:
        """The matrix of some coordinates, or of a few more where ``last`` has them already.

        From a share ``whole`` of all on it is the whole one.
        """
        mine = self.eliminated.copy()
        mine[at] = True
        at = np.flatnonzero(mine)
        if last is not None and len(last.at) <= SPARE * len(at):
            mine[last.at] = False
            if not mine.any():
                return last
        if len(at) > whole * self.k:
            return Part(np.arange(self.k), self)
        return Part(at, self.only(at))

    def _cut(self, at: np.ndarray) -> Self:
        """A copy with what is here of coordinates ``at``."""
        out = copy.copy(self)
        out.k, out.f = len(at), np.searchsorted(at, self.f)
        out.Y = np.ascontiguousarray(self.Y[:, at])
        out.diagonal, out.whole = self.diagonal[at], self.whole[at]
        out.eliminated, out.free = self.eliminated[at], self.free[at]
        return out

    # -- the change of coordinates -------------------------------------------------------------

    def gradient(self, g: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """A gradient in d as one in the new coordinates."""
        if not len(self.f):
            return g
        out = g.copy()
        z = linalg.solve_triangular(self.L, g[self.f] / sigma[self.f], lower=True)
        out -= sigma * (self.Y.T @ z)
        out[self.f] = z
        return out

    def step(self, d: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """A step d in the new coordinates."""
        if not len(self.f):
            return d
        out = d.copy()
        out[self.f] = self.L.T @ (sigma[self.f] * d[self.f]) + self.Y @ (sigma * d)
        return out

    def back(self, d: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """A step of the new coordinates in d."""
        if not len(self.f):
            return d
        out = d.copy()
        e = d[self.f] - self.Y @ (sigma * d)
        e = linalg.solve_triangular(self.L, e, lower=True, trans="T", check_finite=False)
        out[self.f] = e / sigma[self.f]  # whoever steps looks whether it is finite
        return out

    def own(self, sigma: np.ndarray) -> np.ndarray:
        """σ in the new coordinates."""
        if not len(self.f):
            return sigma
        out = np.array(sigma)
        out[self.f] = 1.0
        return out


class Part(NamedTuple):
    """A matrix of some coordinates.

    Attributes
    ----------
    at : int array
        The coordinates, ascending.
    shared : ReducedMatrix
    """

    at: np.ndarray
    shared: ReducedMatrix
