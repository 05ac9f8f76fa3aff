"""One Hessian over the working set, which replicates and batches of a model share."""

from __future__ import annotations

import numpy as np

from ..backends.threads import ThreadPool
from .data_term import CurvatureAt, DataTerm
from .positive import positive
from .quadratic import Quadratic

__all__ = ["SharedHessian"]

STRIPE = 256  # rows of a matrix that are copied at once


class SharedHessian:
    """The Hessian of one replicate at a point where it once was, over the working set.

    Attributes
    ----------
    G : (k, k) array or None
    ridge : (p,) array or None
        What the models have on their diagonals, for a loss that is not convex: where its Hessian
        is not positive with that, G is made so.
    h : (k,) array
        Its diagonal, also where the working set is too wide for the matrix.
    at : CurvatureAt or None
        Whose Hessian it is.
    weight : float
        Total row weight of that replicate.
    version : int
        Counts the Hessians, and the changes of the working set.
    count : int
        Hessians computed so far.
    thinned : bool
        Whether it is of a part of the rows.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self.pool = pool
        self.G: np.ndarray | None = None
        self._exact: np.ndarray | None = None  # before it was made positive
        self.ridge: np.ndarray | None = None
        self.h = np.empty(0)
        self.at: CurvatureAt | None = None
        self.weight = 1.0
        self.version = 0
        self.count = 0
        self.thinned = False
        self.grouped = False  # whether the curvature has rank-one terms
        self._model: Quadratic | None = None

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return self.G is not None

    def compute(
        self, term: DataTerm, at: CurvatureAt, lane: int, rough: bool, matrix: bool = True
    ) -> None:
        """Take the curvature of a replicate as it stands, or only its diagonal."""
        self.G = self._exact = None  # two need not be held
        self.at, self.weight = at, max(float(term.total[lane]), 1e-300)
        self.grouped = at.grouped
        if matrix:
            self._take(term, at, at.matrix(rough=rough))
        else:
            self.h = at.diagonal()
        self._changed()

    def follow(self, term: DataTerm, rough: bool) -> None:
        """Grow with the working set, at the point where the Hessian was taken."""
        k = len(term.W)
        if self.G is None or self.at is None or len(self.G) == k:
            return
        old, first = self.G if self._exact is None else self._exact, len(self.G)
        H = self.at.matrix(first, rough)

        def stripe(a: int, b: int) -> None:
            H[a:b, :first] = old[a:b]

        self.pool.map(stripe, [(a, min(a + STRIPE, first)) for a in range(0, first, STRIPE)])
        self._take(term, self.at, H)
        self._changed()

    def keep(self, at: np.ndarray) -> None:
        """Let only these places of the working set stay."""
        if self.G is not None:
            self.G = self.G[np.ix_(at, at)]
        if self._exact is not None:
            self._exact = self._exact[np.ix_(at, at)]
        if len(self.h):
            self.h = self.h[at]
        self._model = None  # its factor is of other places
        self.version += 1

    def forget(self) -> None:
        """Drop the matrix, which is to be computed again anyway; its diagonal stays."""
        self.G = self._exact = self.at = None

    def _take(self, term: DataTerm, at: CurvatureAt, H: np.ndarray) -> None:
        self.G = self.usable(term, at, H, self.ridge)
        self._exact = None if at.convex else H
        self.h = np.diagonal(self.G).astype(np.float64)

    @staticmethod
    def usable(
        term: DataTerm, at: CurvatureAt, H: np.ndarray, ridge: np.ndarray | None
    ) -> np.ndarray:
        """The Hessian of a loss that is perhaps not convex as one for a model."""
        if at.convex:
            return H
        added = np.zeros(len(H)) if ridge is None else ridge[term.W]
        return positive(H, added, at.uncentred())

    def _changed(self) -> None:
        self.count += 1
        self.version += 1

    def model(self, free: np.ndarray) -> Quadratic:
        """The quadratic model, ``free`` (k,) being the columns without penalty."""
        if self.G is None:
            raise RuntimeError("there is no Hessian to make a model of")
        model = self._model
        if model is None or model.G is not self.G or not np.array_equal(model.free, free):
            last = None if model is None else model.factors  # still near enough, perhaps
            model = self._model = Quadratic(self.G, free, self.pool, last)
        return model
