"""A Hessian that replicates and batches of a model share, and the matrix that grows with it."""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import DeviceMatrix
from ...backends.thread_pool import ThreadPool
from .. import solver_constants as policies
from ..data_term import CurvatureAt, DataTerm
from ..optimality.optimality_certificate import floored_curvature
from ..solver_constants import DEFAULT, HessianPolicy, SolverPolicy
from ..subproblem import (
    ColumnOperator,
    ColumnwiseReducedHessian,
    DenseReducedHessian,
    DeviceReducedHessian,
    QuadraticModel,
    ReducedHessian,
)
from ..work_sizes import SIZES, pieces
from .absolute_eigenvalue_hessian import make_positive_definite

__all__ = ["GrowingMatrix", "SharedHessian"]


class GrowingMatrix:
    """A (k, k) matrix in the corner of a larger one.

    A Hessian grows many times by a few columns. Copying it each time would cost more than the
    columns, mostly for memory that has not been touched before.

    Parameters
    ----------
    H : (k, k) array
        It is kept, not copied.
    """

    def __init__(
        self, H: np.ndarray, pool: ThreadPool, policy: HessianPolicy = DEFAULT.hessian
    ) -> None:
        self._room, self.k, self._pool, self.policy = H, len(H), pool, policy

    @property
    def matrix(self) -> np.ndarray:
        """The matrix, (k, k), which is not contiguous if it has room behind it."""
        return self._room[: self.k, : self.k]

    @property
    def rows(self) -> np.ndarray:
        """The rows including the room behind them, (k, at least k), contiguous."""
        return self._room[: self.k]

    def grow(self, H: np.ndarray) -> None:
        """Append the rows from k on of a larger matrix (k', k')."""
        first, self.k = self.k, len(H)
        if self.k > len(self._room):
            self._move(first, H.dtype)
        room, k = self._room, self.k

        def stripe(a: int, b: int) -> None:
            room[first:k, a:b] = H[first:, a:b]
            room[a : min(b, first), first:k] = H[first:, a : min(b, first)].T

        self._pool.map(stripe, pieces(SIZES.dense_task_rows, k), k * (k - first))

    def _move(self, first: int, dtype: np.dtype) -> None:
        """Copy the first rows and columns to an array with room for k and some more."""
        policy = self.policy
        most = max(policy.min_spare, policy.spare_per_new * (self.k - first))
        size = self.k + min(int(policy.spare_share * self.k), most)
        old, room = self._room, np.empty((size, size), dtype)

        def stripe(a: int, b: int) -> None:
            room[a:b, :first] = old[a:b, :first]

        self._pool.map(stripe, pieces(SIZES.dense_task_rows, first), first * first)
        self._room = room


class SharedHessian:
    """The Hessian of one replicate at an earlier point, over the working set.

    Parameters
    ----------
    policy : SolverPolicy, optional
        By default `steropes.solve.solver_constants.DEFAULT`.

    Attributes
    ----------
    ridge : (p,) array or None
        The ridge that models add to the diagonal. If the loss is not convex and its Hessian with
        the ridge is not positive definite, G is modified.
    h : (k,) array
        The diagonal. Of a column operator it is an upper bound where it need not be exact.
    at : CurvatureAt or None
        The curvature from which the Hessian is computed.
    weight : float
        Total row weight of the replicate.
    version : int
        Number of Hessians and of changes of the working set.
    count : int
        Number of Hessians computed.
    thinned : bool
        Whether only a part of the rows was used.
    grouped : bool
        Whether the curvature has rank-one terms.
    """

    def __init__(self, pool: ThreadPool, policy: SolverPolicy | None = None) -> None:
        self.pool = pool
        self.policy = policies.DEFAULT if policy is None else policy
        self._exact: GrowingMatrix | None = None
        self._on_device: DeviceMatrix | None = None  # In place of ``_exact``.
        self._columns: ColumnOperator | None = None  # If the working set is too wide for a matrix.
        self._positive: np.ndarray | None = None  # The modified matrix, if the loss is not convex.
        self.ridge: np.ndarray | None = None
        self.h = np.empty(0)
        self.at: CurvatureAt | None = None
        self.weight = 1.0
        self.version = 0
        self.count = 0
        self.thinned = False
        self.grouped = False
        self._model: tuple[int, QuadraticModel] | None = None  # With its version.
        self._information: tuple[int, np.ndarray] | None = None  # With its version.

    @property
    def known(self) -> bool:
        """Whether a Hessian is available."""
        return any(x is not None for x in (self._exact, self._on_device, self._columns))

    @property
    def by_columns(self) -> bool:
        """Whether it is available as a column operator only."""
        return self._columns is not None

    @property
    def G(self) -> np.ndarray | None:
        """The Hessian, (k, k), if it is an array; one on a device is transferred."""
        if self._on_device is not None:
            return self._on_device.to_host()
        if self._exact is None or self._positive is not None:
            return self._positive
        return self._exact.matrix

    @property
    def information(self) -> np.ndarray:
        """The diagonal h, raised above its rounding error; see `floored_curvature`."""
        if not self.known or self.at is None:
            return self.h
        if self._information is None or self._information[0] != self.version:
            self._information = self.version, floored_curvature(self.h, self.at.uncentred())
        return self._information[1]

    def compute(
        self, term: DataTerm, at: CurvatureAt, lane: int, rough: bool, matrix: bool = True,
        exactly: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Compute the Hessian from a replicate's curvature, as an array or a column operator.

        ``exactly`` lists the places at which the diagonal must be exact; None means all.
        """
        self.forget()  # Freed before the next is allocated.
        self.at, self.weight = at, max(float(term.total[lane]), 1e-300)
        self.grouped = at.grouped
        if matrix and len(term.W) >= self.policy.subproblem.min_device_columns:
            self._on_device = at.on_device(None, rough)
        if self._on_device is not None:
            self.h = self._on_device.diagonal
        elif matrix:
            H = at.matrix(rough=rough)
            self._exact = GrowingMatrix(H, self.pool, self.policy.hessian)
            self._update_diagonal(term)
        else:
            self._take_columns(exactly)
        self._count_change()

    def follow(self, term: DataTerm, rough: bool, exactly: np.ndarray | None = None) -> None:
        """Extend the Hessian to the current working set, at the point where it was computed."""
        if self.at is None or len(self.h) == len(term.W):
            return
        if self._on_device is not None:
            self._on_device = self.at.on_device(self._on_device, rough)
            assert self._on_device is not None  # As when it was computed.
            self.h = self._on_device.diagonal
            self._count_change()
        elif self._exact is not None:
            self._exact.grow(self.at.matrix(self._exact.k, rough))
            self._update_diagonal(term)
            self._count_change()
        elif self._columns is not None:
            self._take_columns(exactly)
            self._count_change()

    def _take_columns(self, exactly: np.ndarray | None) -> None:
        """Use the column operator of the current working set."""
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
        """Drop a Hessian that will be computed again; its diagonal remains."""
        self._exact = self._positive = self._columns = self._on_device = self.at = None

    def _update_diagonal(self, term: DataTerm) -> None:
        """Modify the matrix if the loss is not convex, and take the diagonal."""
        assert self._exact is not None
        assert self.at is not None
        G = self.usable(term, self.at, self._exact.matrix, self.ridge)
        self._positive = None if self.at.convex else G
        self.h = np.diagonal(G).astype(np.float64)

    @staticmethod
    def usable(
        term: DataTerm, at: CurvatureAt, H: np.ndarray, ridge: np.ndarray | None
    ) -> np.ndarray:
        """Return a Hessian that a model can use, modified if the loss is not convex."""
        if at.convex:
            return H
        added = np.zeros(len(H)) if ridge is None else ridge[term.W]
        return make_positive_definite(H, added, at.uncentred())

    def _count_change(self) -> None:
        """Count a computation and a new version."""
        self.count += 1
        self.version += 1

    def model(self, free: np.ndarray) -> QuadraticModel:
        """Return the quadratic model; ``free`` (k,) marks the columns without penalty."""
        if not self.known:
            raise RuntimeError("there is no Hessian to make a model of")
        version, model = (-1, None) if self._model is None else self._model
        if model is None or version != self.version or not np.array_equal(model.free, free):
            last = None if model is None else model.factors  # They may still be good enough.
            model = QuadraticModel(self._matrix(free), last)
            self._model = self.version, model
        return model

    def _matrix(self, free: np.ndarray) -> ReducedHessian:
        """Return the Hessian as the matrix of a quadratic model."""
        policy = self.policy.subproblem
        if self._columns is not None:
            return ColumnwiseReducedHessian(self._columns, free, policy)
        if self._on_device is not None:
            return DeviceReducedHessian(self._on_device, free, self.pool, policy)
        assert self._exact is not None
        rows = self._exact.rows if self._positive is None else self._positive
        out = DenseReducedHessian(rows, free, self.pool, policy)
        if self.at is not None and out.k >= policy.min_device_columns:
            out.minimiser = self.at.sent(out.G)
        return out
