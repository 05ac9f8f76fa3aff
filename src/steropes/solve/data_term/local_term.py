"""The negative log-likelihood of rows on this machine, with derivatives, for the solver."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import cast

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array, Backend, DeviceMatrix
from ...backends.cpu import CpuBackend
from ...design_matrix.design_interfaces import ColumnsByRows, DesignLike
from ...likelihoods import Likelihood
from ...likelihoods.hessian_structures import Curvature, ProfiledCurvature
from ...likelihoods.nuisance_interface import Nuisance
from ...priors import Prior
from .. import solver_constants as policies
from ..hessian import centred, device_product, diagonal, eta_product, hessian
from ..subproblem import ColumnOperator
from .column_hessian import ColumnHessian
from .column_sum_cache import ColumnCache
from .compact_row_weights import RowMultiples, weights_of_rows, weights_on_device
from .data_term_interfaces import Accuracy, CurvatureAt, Trial
from .device_column_hessian import DeviceColumns
from .term_without_nuisance import TermWithoutNuisance
from .working_set import WorkingColumns

__all__ = ["LocalTerm", "effective_rows", "thinned"]


def thinned(w: Array, thin: int, backend: Backend) -> Array:
    """Return row weights (n, 1) of a reproducible random subsample, zero for all other rows.

    Where a step goes far, no Hessian at its start is right at its end. A rough one serves as well
    if there are many rows for each column (Roosta-Khorasani and Mahoney 2019). If it contracts
    badly, a Hessian of all rows replaces it.
    """
    kept = np.random.default_rng(0).random(len(w), np.float32) < 1 / thin
    w = w * backend.asarray(kept[:, None])
    w *= thin
    return w


def effective_rows(v: Array) -> float:
    """Return (Σv)² / Σv² of curvatures v, which is small if a few rows outweigh the others."""
    most = float(v.max())
    if not 0 < most < np.inf:
        return 0.0
    return float((v / most).sum()) ** 2 / float(((v / most) ** 2).sum())


class LocalTerm(TermWithoutNuisance):
    """Replicates of one model: the same X and outcome with different row weights or offsets.

    Parameters
    ----------
    weights : (n, B) or (n, 1) array, or RowMultiples
        Row weights of the replicates, in the rows of X.
    offset : (n, B) or (n, 1) array or None
        Added to the linear predictor.
    B : int
        Number of replicates.
    active : WorkingColumns, optional
        A working set that is shared with other terms of the same model.
    resident : bool
        Whether coefficients and gradients may be kept on the device of the rows, as they are from
        `DataTermPolicy.min_resident_numbers` on.

    Attributes
    ----------
    resident : bool
        Whether they are.
    """

    def __init__(
        self,
        design: DesignLike,
        likelihood: Likelihood,
        weights: np.ndarray | RowMultiples,
        offset: np.ndarray | None = None,
        B: int = 1,
        active: WorkingColumns | None = None,
        resident: bool = False,
    ) -> None:
        self.policy = policies.DEFAULT.data
        self.design, self.likelihood = design, likelihood
        self.backend = backend = likelihood.backend
        self.p, self.B, self.lanes = design.p, B, backend.lanes(B)
        large = B > 1 and self.p * B >= self.policy.min_resident_numbers
        self.resident = resident and large and not backend.on_host
        self.scale, self.pool = design.scale, backend.pool
        self.rows, self.columnar = max(likelihood.n, 1), design.plain
        self.trust_radius, self.effective_rows = likelihood.trust_radius, likelihood.effective_rows
        self.order = order = likelihood.order
        take = (lambda x: x) if order is None else (lambda x: x[order])
        if backend.on_host:
            whole = weights_of_rows(weights)
            if order is not None and whole.shape[1] == 1 and np.ptp(whole) == 0:
                whole = whole[: len(order)]  # Equal weights need no reordering.
            else:
                whole = take(whole)
            self.w = backend.asarray(self._in_lanes(whole))
        else:
            self.w = weights_on_device(weights, order, self.lanes, backend)
        self.total = backend.to_host(self.w.sum(axis=0))
        self.bound = likelihood.weigh(self.w)
        offsets = np.zeros((1, 1))
        if offset is not None:
            offsets = self._in_lanes(likelihood.lift(take(np.asarray(offset, np.float64))))
        self.offset = backend.asarray(offsets)
        self.active = WorkingColumns(design, order, backend) if active is None else active
        self._eta: Array = None  # Until the first point; most batches start elsewhere than at 0.
        self._r: Array = None
        self._loss = np.zeros(self.lanes)
        self._gradient = ColumnCache(self.active, self.policy)
        # Diagonals are relative to one curvature.
        self._diagonals = ColumnCache(self.active, self.policy)
        self._diagonals_of: weakref.ref[LocalCurvature] | None = None

    def _in_lanes(self, x: np.ndarray) -> np.ndarray:
        """Pad columns to lanes with zeros; a single column is not copied."""
        if self.lanes == 1:
            return np.ascontiguousarray(x)
        out = np.zeros((len(x), self.lanes))
        out[:, : self.B] = x
        return out

    # -- the working set ---------------------------------------------------------------------

    @property
    def W(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.active.W

    @property
    def inside(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.active.inside

    @property
    def entries(self) -> int:
        """See `DataTerm`."""
        return self.active.rows.entries

    def hessian_cost(self, coarse: bool) -> float:
        """Estimate the cost from the entries per row, relative to a step's work per entry.

        A device multiplies dense panels, whatever their entries. See `DataTerm.hessian_cost`.
        """
        cost = self.entries / self.rows / (10.0 * (0.5 + 0.2 * self.lanes))
        if not self.backend.on_host:
            dense = self.rows * float(len(self.W)) ** 2
            cost = max(cost, dense / self.policy.device_products_per_step)
        return cost + 1.0

    def asarray(self, x: Array) -> Array:
        """See `DataTerm.asarray`."""
        return self.backend.asarray(x) if self.resident else x

    def _read(self, x: Array) -> Array:
        """Return an array of columns or lanes that was computed on the device of the rows."""
        return x if self.resident else self.backend.to_host(x)

    def join(self, columns: np.ndarray) -> int:
        """See `DataTerm.join`."""
        return self.active.join(columns)

    def set_prior(self, prior: Prior) -> bool:
        """Return False: the losses are those of the data alone."""
        return False

    # -- the points ----------------------------------------------------------------------------

    def _require_point(self) -> None:
        """Place the coefficients at zero unless they have been placed."""
        if self._eta is None:
            self.place(self.asarray(np.zeros((self.p, self.lanes))))

    @property
    def eta(self) -> Array:
        """The linear predictors, (rows of η, lanes)."""
        self._require_point()
        return self._eta

    @property
    def r(self) -> Array:
        """The derivatives of the losses in η, (rows of η, lanes); None once a trial exists."""
        self._require_point()
        return self._r

    @property
    def loss(self) -> np.ndarray:
        """See `DataTerm`."""
        self._require_point()
        return self._loss

    @property
    def dispersion(self) -> np.ndarray | float:
        """See `DataTerm.dispersion`."""
        return self.likelihood.dispersion(self.loss, self.total)

    def place(self, beta: Array, like: Nuisance | None = None) -> None:
        """See `DataTerm.place`."""
        eta = self._predictors(beta)
        loss, r = self.likelihood.evaluate(eta, self.bound)
        self._arrive(eta, self.backend.to_host(loss), r)

    def _predictors(self, beta: Array) -> Array:
        """Compute η at coefficients (p, lanes)."""
        eta = self.backend.xp.zeros((self.likelihood.n_eta, self.lanes))
        eta += self.offset
        if len(self.W):
            eta += self.active.rows.matmul(self.backend.asarray(beta[self.W]))
        return eta

    def _arrive(self, eta: Array, loss: np.ndarray, r: Array) -> None:
        """Store the state at a new point and clear cached gradients."""
        self._eta, self._r, self._loss = eta, r, loss
        self._gradient.clear()

    def gradient(self) -> Array:
        """See `DataTerm.gradient`."""
        return self._gradient.sums(lambda rows: self._read(rows.rmatmul(self.r)))

    def gradients(self, tol: float) -> Array:
        """Compute the gradient over all columns; see `DataTerm.gradients`.

        Residuals of several replicates do not stay in the cache. Reading them in single precision
        halves the traffic. That is done for columns outside of the working set
        only, and if ``tol`` is a thousand times the rounding error.
        """
        own = self.gradient()
        g = array_namespace(own).zeros((self.p, self.lanes))
        g[self.W] = own
        outside = np.flatnonzero(~self.inside)
        if len(outside) == 0:
            return g
        r, xp = self.r, self.backend.xp
        single = (
            self.lanes >= self.policy.single_precision_lanes
            and tol >= self.policy.single_precision_tol
            and self.backend.single_precision_sums
        )
        dtype = np.float32 if single else np.float64
        if self.order is not None:
            whole = xp.zeros((self.design.n, self.lanes), dtype)
            whole[self.order] = r
            r = whole
        r = xp.asarray(r, dtype)
        g[outside] = self._read(self.design.rmatmul(r, self.backend, outside))
        if not single:  # Columns that join now are not summed again.
            if isinstance(g, np.ndarray):
                g.flags.writeable = False  # The cache and the caller share this array.
            self._gradient.store_all(g)
        return g

    def along(self, D: Array, live: np.ndarray) -> Trial:
        """See `DataTerm.along`."""
        return LocalTrial(self, self.active.rows.matmul(self.backend.asarray(D)))

    # -- curvature -----------------------------------------------------------------------------

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> LocalCurvature | None:
        """See `DataTerm.curvature`."""
        w, likelihood = self.w[:, lane : lane + 1], self.likelihood.of_lane(lane)
        if thin > 1:
            w = thinned(w, thin, self.backend)
        bound = likelihood.weigh(w) if self.lanes > 1 or thin > 1 else self.bound
        curvature = likelihood.curvature(
            self.eta[:, lane : lane + 1], bound, exact=accuracy == "exact"
        )
        needed = self.policy.effective_rows_per_column * len(self.W)
        if thin > 1 and effective_rows(curvature.v) < needed:
            return None
        return LocalCurvature(self.active, curvature, w[:, 0])

    def relative(self, curvature: CurvatureAt) -> Array | None:
        """Compute relative diagonals, clipped to 1 % … 100; see `DataTerm.relative`.

        A column of few ones can lose much of its curvature with the rows of one fold, which a
        common factor would not show. Returns None where the base has no weight in a row that
        counts, or where rows of η do not correspond to rows of weights.
        """
        assert isinstance(curvature, LocalCurvature)  # terms that share a Hessian are alike
        if self.likelihood.many_outcomes:
            return self._relative_now(curvature)
        found = self.relative_diagonals(curvature)
        if found is None:
            return None
        (h0, h), xp = found, array_namespace(found[0])
        return xp.clip(xp.where(h0 > 0, h / xp.where(h0 > 0, h0, 1.0), 1.0), 1e-2, 1e2)

    def relative_diagonals(self, curvature: LocalCurvature) -> tuple[Array, Array] | None:
        """Compute the diagonals of one curvature with its own and with the replicates' weights.

        Returns (k, 1) and (k, lanes) arrays, or None; see `relative`.
        """
        xp = self.backend.xp
        base = curvature.base[:, None]
        if self._diagonals_of is None or self._diagonals_of() is not curvature:
            if self.active.rows.layout != "rows" or bool((self.w[curvature.base == 0] > 0).any()):
                return None
            self._diagonals.clear()
            self._diagonals_of = weakref.ref(curvature)

        def make(rows: ColumnsByRows) -> Array:
            assert rows.layout == "rows"
            v = curvature.curvature.v[:, None]
            share = v / xp.where(base > 0, base, 1.0)
            (V,) = self.backend.map_rows(lambda share, w: (share * w,), share, self.w)
            return self._read(xp.concatenate([rows.diagonals(v), rows.diagonals(V)], axis=1))

        known = self._diagonals.sums(make)
        return known[:, :1], known[:, 1:]

    def _relative_now(self, curvature: LocalCurvature) -> np.ndarray:
        """Compute relative diagonals of different outcomes from their current curvatures."""
        rows, xp = self.active.rows, self.backend.xp
        assert rows.layout == "rows"  # families with an outcome a row
        V = xp.zeros_like(self.w)
        for b in range(self.B):
            one, own = slice(b, b + 1), self.likelihood.of_lane(b)
            V[:, b] = own.curvature(self.eta[:, one], own.weigh(self.w[:, one])).v
        h0 = self.backend.to_host(rows.diagonals(curvature.curvature.v[:, None]))
        h = self.backend.to_host(rows.diagonals(V))
        ratio = np.clip(np.where(h0 * h > 0, h / np.where(h0 > 0, h0, 1.0), 1.0), 1e-4, 1e4)
        return self.asarray(ratio)

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """See `DataTerm.left_out_score`."""
        parts = self.left_out_parts(weights, difference)
        score = self.likelihood.score_of(parts[0])
        return score - self.likelihood.score_of(parts[1]) if difference else score

    def left_out_parts(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """Compute the sums over rows that make up the scores; see `Likelihood.score_parts`.

        Returns a (1, m, B) array, or with ``difference`` the sums of all rows and those of the
        replicates' rows, (2, m, B).
        """
        likelihood, B = self.likelihood, self.B
        w = self.backend.asarray((weights if self.order is None else weights[self.order])[:, None])
        asked = w + self.backend.xp.zeros_like(self.w) if difference else w - self.w
        asked[:, B:] = 0.0
        parts = [likelihood.score_parts(self.eta, asked, self.w)]
        if difference:
            parts.append(likelihood.score_parts(self.eta, self.w, self.w))
        return np.stack([self.backend.to_host(x)[:, :B] for x in parts])


class LocalTrial:
    """A direction in the linear predictors; see `Trial`."""

    def __init__(self, term: LocalTerm, d_eta: Array) -> None:
        self.term, self.d_eta = term, d_eta
        self.end: tuple[Array, np.ndarray, Array] | None = None
        term._r = None  # Residuals are as large as the predictors and no longer needed.

    def loss(self, t: np.ndarray) -> np.ndarray:
        """See `Trial.loss`."""
        term, length = self.term, self.term.backend.asarray(t)
        if (t != 1.0).any():  # Avoids NumPy's slow product of n rows with a short vector.
            (eta,) = term.backend.map_rows(lambda e, d: (e + d * length,), term.eta, self.d_eta)
        else:
            (eta,) = term.backend.map_rows(lambda e, d: (e + d,), term.eta, self.d_eta)
        loss, r = term.likelihood.evaluate(eta, term.bound)
        host = term.backend.to_host(loss)
        self.end = eta, host, r
        return host

    def commit(self) -> None:
        """See `Trial.commit`."""
        if self.end is None:
            raise RuntimeError("commit() before loss()")
        self.term._arrive(*self.end)


class LocalCurvature:
    """A likelihood's curvature with the rows that it refers to; see `CurvatureAt`.

    Attributes
    ----------
    base : (n,) array
        Row weights of its replicate.
    """

    def __init__(self, active: WorkingColumns, curvature: Curvature, base: Array) -> None:
        self.active, self.curvature, self.base = active, curvature, base
        self.grouped, self.convex = curvature.grouped, True
        if isinstance(curvature, ProfiledCurvature) and curvature.safer is not None:
            # Kept indefinite: the solver modifies it, because that depends on the penalties.
            self.curvature, self.convex = replace(curvature, safer=None), False

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        return self.active.backend.to_host(hessian(self.active.rows, self.curvature, first, rough))

    def diagonal(self) -> np.ndarray:
        """See `CurvatureAt.diagonal`."""
        return self.active.backend.to_host(diagonal(self.active.rows, self.curvature))

    def uncentred(self) -> np.ndarray:
        """See `CurvatureAt.uncentred`."""
        v = self.curvature.v if self.convex else np.abs(self.curvature.v)
        return self.active.backend.to_host(self.active.rows.diagonal(v))

    def on_device(self, known: DeviceMatrix | None, rough: bool = False) -> DeviceMatrix | None:
        """See `CurvatureAt.on_device`."""
        backend = self.active.backend
        if backend.on_host or not self.convex:
            return None
        first = 0 if known is None else known.k
        H = hessian(self.active.rows, self.curvature, first, rough)
        return backend.device_matrix(H) if known is None else known.grown(H)

    def sent(self, G: np.ndarray) -> DeviceMatrix | None:
        """See `CurvatureAt.sent`."""
        return self.active.backend.device_matrix(G)

    def by_columns(self) -> ColumnOperator:
        """Return the Hessian as a column operator, or an upper bound if it may be indefinite."""
        active, rows, W = self.active, self.active.rows, self.active.W
        if not active.backend.on_host and self.convex and rows.layout == "rows":
            product = device_product(self.curvature, active.backend)
            if product is not None:
                v, grouped = self.curvature.v, self.curvature.grouped
                return DeviceColumns(rows, v, product, grouped, lambda: self._on_host(W))
        return self._on_host(W)

    def _on_host(self, W: np.ndarray) -> ColumnHessian:
        """Return the column operator of the host for the working set at some time."""
        backend = self.active.backend
        v = np.abs(backend.to_host(self.curvature.v))
        product = eta_product(self.curvature, backend) if self.convex else centred(v)
        own = backend if backend.on_host else CpuBackend(backend.pool.n_threads)
        host = cast(CpuBackend, own)
        return ColumnHessian(self.active.stored(W), v, product, host)
