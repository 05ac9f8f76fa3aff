"""The working set: the columns that matter now, by rows, with the Hessian that is shared."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..design.face import ColumnStore, DesignLike
from ..likelihoods import AnyCurvature
from .by_columns import Columns
from .hessian import hessian
from .quadratic import Quadratic

__all__ = ["WorkingSet"]

STRIPE = 256  # rows of a matrix that are copied at once
WIDE = 6000  # columns up to which the Gram matrix (8 k² bytes, twice in passing) is always made,
WIDEST = 20_000  # and beyond which never; in between, as long as it is not large beside the rows:
DENSER = 4.0  # entries of the matrix for each nonzero of the rows


class WorkingSet:
    """Columns W of a design in the model's row order, and one Hessian over them.

    Batches of replicates of the same model may share one: its columns are the union of what
    each of them needs.

    Attributes
    ----------
    W : (k,) int array
        Columns, in the order in which they joined.
    rows : rows of the design
    G : (k, k) array or None
        Hessian where ``curvature`` was taken, for a replicate of total weight ``weight``.
    h : (k,) array
        Diagonal of the Hessian, where there is one.
    n_hessian : int
        Gram matrices computed so far.
    rough : bool
        Whether Hessians may be rounded to single precision: where there is an ℓ1 penalty, which
        a Hessian that is nearly singular does no harm.
    """

    def __init__(self, design: DesignLike, order: np.ndarray | None, backend: Any) -> None:
        self.design, self.order, self.backend = design, order, backend
        self.W = np.empty(0, np.int64)
        self.inside = np.zeros(design.p, bool)
        self.rows: Any = design.by_rows(self.W, order, backend)
        self._G: Any = None
        self._model: Quadratic | None = None  # holds G, changed, while there is one
        self.h = np.empty(0)  # the Hessian's diagonal
        self.columns: Any = None  # a `Columns` where W is wide
        self.curvature: Any = None  # the likelihood's curvature behind G
        self.weight = 1.0
        self.base: Any = None  # row weights of the replicate whose curvature it is
        self.version = 0
        self.n_hessian = 0
        self.rough = False
        self.grouped = False  # whether the curvature has rank-one terms

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.W)

    @property
    def G(self) -> Any:
        """The Hessian."""
        if self._model is not None:
            self._G, self._model = self._model.restore(), None
        return self._G

    @G.setter
    def G(self, H: Any) -> None:
        self._G, self._model = H, None

    @property
    def has_hessian(self) -> bool:
        """Whether there is a Hessian, without putting it back into its first form."""
        return self._G is not None

    def model(self, free: np.ndarray) -> Quadratic:
        """The quadratic model of the Hessian, ``free`` (k,) being the columns without penalty."""
        if self._model is None or not np.array_equal(self._model.free, free):
            self._model = Quadratic(self.G, free, self.backend.pool)
        return self._model

    @property
    def wide(self) -> bool:
        """Whether there are too many columns for a Gram matrix; descent is on columns then."""
        if self.k <= WIDE or not self.design.plain:
            return False
        entries = len(self.rows.dense_at) * self.rows.n
        if self.rows.lines is not None:
            entries += self.rows.lines.nnz
        # Descent on the columns sees one rank-one term of the curvature, and slows with more.
        return self.k > WIDEST or (self.k**2 > DENSER * entries and not self.grouped)

    def join(self, columns: np.ndarray) -> bool:
        """Let columns in; the Hessian grows at the point where it was computed."""
        new = np.unique(columns[~self.inside[columns]])
        if len(new) == 0:
            return False
        self.version += 1
        first = self.k
        self.W = np.concatenate([self.W, new])
        self.inside[new] = True
        del self.rows  # before the new copy is made: nothing else is as large
        self.rows = self.design.by_rows(self.W, self.order, self.backend)
        if self.wide:
            self.G = None
            self.columns = Columns(cast(ColumnStore, self.design), self.W, self.order)
            if self.curvature is not None:
                self.h = self.diagonal(self.curvature)
        elif self.has_hessian and self.curvature is not None:
            H = self.hessian(self.curvature, first)
            self._copy(self.G, H)
            self.G = H
            self.h = np.diag(H).copy()
        return True

    def forget(self) -> None:
        """Drop the Hessian, which is to be computed again anyway, instead of extending it."""
        self.G = self.curvature = None

    def _copy(self, G: np.ndarray, H: np.ndarray) -> None:
        """Copy G into the corner of a larger matrix."""
        k = len(G)

        def stripe(a: int, b: int) -> None:
            H[a:b, :k] = G[a:b]

        self.backend.pool.map(stripe, [(a, min(a + STRIPE, k)) for a in range(0, k, STRIPE)])

    def hessian(self, curvature: AnyCurvature, first: int = 0) -> np.ndarray:
        """The Hessian over W for a curvature."""
        self.n_hessian += 1
        return self.backend.to_host(hessian(self.rows, curvature, first, self.rough))

    def diagonal(self, curvature: AnyCurvature) -> np.ndarray:
        """The Hessian's diagonal where there is no Gram matrix."""
        v = self.backend.to_host(curvature.v)
        return self.columns.curvature(v, curvature.grouped, self.backend)[3]

    def refresh(self, curvature: AnyCurvature, base: Any, weight: float) -> None:
        """Compute the shared Hessian again, at a replicate with row weights ``base``."""
        self.version += 1
        self.grouped = curvature.grouped
        self.curvature, self.base, self.weight = curvature, base, max(weight, 1e-300)
        if self.columns is not None and self.wide:
            self.h = self.diagonal(curvature)
        else:
            self.G = None  # two need not be held
            self.G = self.hessian(curvature)
            self.h = np.diag(self.G).copy()

    def relative_diagonal(self, w: Any) -> np.ndarray | None:
        """Diagonals of replicates with row weights w (n, B) relative to the Hessian's, (k, B).

        A column of few ones can lose a good part of its curvature with the rows of one fold,
        which a common factor would miss. None where the base has no weight in a row that counts,
        or rows of η are not rows of weights.
        """
        if self.rows.layout != "rows" or self.curvature is None:
            return None
        xp, base = self.backend.xp, self.base[:, None]
        if bool(((base == 0) & (w > 0)).any()):
            return None
        v = self.curvature.v[:, None]
        V = v * (w / xp.where(base > 0, base, 1.0))
        h0 = self.backend.to_host(self.rows.diagonals(v))
        h = self.backend.to_host(self.rows.diagonals(V))
        return np.clip(np.where(h0 > 0, h / np.where(h0 > 0, h0, 1.0), 1.0), 1e-2, 1e2)
