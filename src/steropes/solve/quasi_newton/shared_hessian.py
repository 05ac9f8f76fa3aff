"""One Hessian over the working set, which replicates and batches of a model share."""

from __future__ import annotations

import numpy as np

from ...backends.thread_pool import ThreadPool
from ..data_term import CurvatureAt, DataTerm
from ..optimality.certificate import floored_curvature
from ..subproblem import ColumnMatrix, ColumnOperator, QuadraticModel, ReducedMatrix, SharedMatrix
from .growable_matrix import GrowingMatrix
from .hessian_modification import make_positive_definite

__all__ = ["SharedHessian"]


class SharedHessian:
    """The Hessian of one replicate at a point where it once was, over the working set.

    Attributes
    ----------
    ridge : (p,) array or None
        What the models have on their diagonals, for a loss that is not convex: where its Hessian
        is not positive with that, G is made so.
    h : (k,) array
        Its diagonal; of a matrix by columns at most, where it need not be exact.
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
        self._exact: GrowingMatrix | None = None
        self._columns: ColumnOperator | None = None  # where the working set is too wide for it
        self._positive: np.ndarray | None = None  # made of it where it is not
        self.ridge: np.ndarray | None = None
        self.h = np.empty(0)
        self.at: CurvatureAt | None = None
        self.weight = 1.0
        self.version = 0
        self.count = 0
        self.thinned = False
        self.grouped = False  # whether the curvature has rank-one terms
        self._model: tuple[int, QuadraticModel] | None = None  # of a version
        self._information: tuple[int, np.ndarray] | None = None  # the same

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return self._exact is not None or self._columns is not None

    @property
    def by_columns(self) -> bool:
        """Whether it is known by its columns alone."""
        return self._columns is not None

    @property
    def G(self) -> np.ndarray | None:
        """The Hessian, (k, k), where it is an array."""
        if self._exact is None or self._positive is not None:
            return self._positive
        return self._exact.matrix

    @property
    def information(self) -> np.ndarray:
        """The diagonal h, at least what is rounding of it; see `floored_curvature`."""
        if not self.known or self.at is None:
            return self.h
        if self._information is None or self._information[0] != self.version:
            self._information = self.version, floored_curvature(self.h, self.at.uncentred())
        return self._information[1]

    def compute(
        self, term: DataTerm, at: CurvatureAt, lane: int, rough: bool, matrix: bool = True,
        exactly: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Take the curvature of a replicate as it stands, as an array or by its columns.

        ``exactly`` are the places of columns whose diagonal has to be exact; None for all.
        """
        self._exact = self._positive = self._columns = None  # two need not be held
        self.at, self.weight = at, max(float(term.total[lane]), 1e-300)
        self.grouped = at.grouped
        if matrix:
            self._exact = GrowingMatrix(at.matrix(rough=rough), self.pool)
            self._made(term)
        else:
            self._take_columns(exactly)
        self._changed()

    def follow(self, term: DataTerm, rough: bool, exactly: np.ndarray | None = None) -> None:
        """Grow with the working set, at the point where the Hessian was taken."""
        if self.at is None or len(self.h) == len(term.W):
            return
        if self._exact is not None:
            self._exact.grow(self.at.matrix(self._exact.k, rough))
            self._made(term)
            self._changed()
        elif self._columns is not None:
            self._take_columns(exactly)
            self._changed()

    def _take_columns(self, exactly: np.ndarray | None) -> None:
        assert self.at is not None
        self._columns = columns = self.at.by_columns()
        assert columns is not None
        if exactly is None:
            h = self.at.diagonal()
        else:
            h, one = columns.h.copy(), np.zeros((columns.k, len(exactly)))
            one[exactly, np.arange(len(exactly))] = 1.0
            h[exactly] = columns.times(one)[exactly, np.arange(len(exactly))]
        self.h = floored_curvature(h, self.at.uncentred())

    def forget(self) -> None:
        """Drop the matrix, which is to be computed again anyway; its diagonal stays."""
        self._exact = self._positive = self._columns = self.at = None

    def _made(self, term: DataTerm) -> None:
        assert self._exact is not None
        assert self.at is not None
        H = self._exact.matrix
        G = self.usable(term, self.at, H, self.ridge)
        self._positive = None if self.at.convex else G
        self.h = np.diagonal(G).astype(np.float64)

    @staticmethod
    def usable(
        term: DataTerm, at: CurvatureAt, H: np.ndarray, ridge: np.ndarray | None
    ) -> np.ndarray:
        """The Hessian of a loss that is perhaps not convex as one for a model."""
        if at.convex:
            return H
        added = np.zeros(len(H)) if ridge is None else ridge[term.W]
        return make_positive_definite(H, added, at.uncentred())

    def _changed(self) -> None:
        self.count += 1
        self.version += 1

    def model(self, free: np.ndarray) -> QuadraticModel:
        """The quadratic model, ``free`` (k,) being the columns without penalty."""
        if not self.known:
            raise RuntimeError("there is no Hessian to make a model of")
        version, model = (-1, None) if self._model is None else self._model
        if model is None or version != self.version or not np.array_equal(model.free, free):
            last = None if model is None else model.factors  # still near enough, perhaps
            model = QuadraticModel(self._coordinates(free), last)
            self._model = self.version, model
        return model

    def _coordinates(self, free: np.ndarray) -> ReducedMatrix:
        if self._columns is not None:
            return ColumnMatrix(self._columns, free)
        assert self._exact is not None
        rows = self._exact.rows if self._positive is None else self._positive
        return SharedMatrix(rows, free, self.pool)
