"""The negative log-likelihood with a smooth term of the prior added.

The solver treats the sum as any other data term, so no other part of it handles such priors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.backend_interface import DeviceMatrix
from ...backends.thread_pool import ThreadPool
from ...likelihoods.nuisance_interface import Nuisance
from ...priors import Prior, SmoothTerm
from .data_term_interfaces import Accuracy, CurvatureAt, DataTerm, Trial

__all__ = ["SmoothPenaltyTerm"]


class SmoothPenaltyTerm:
    """Losses L_b(β) + S_b(β); see `DataTerm`.

    Parameters
    ----------
    of : callable
        Takes a prior and returns its smooth term for the B replicates, in X's units, or None.
    prior : Prior
        The initial prior.
    """

    columnar = False  # A column operator would ignore the curvature that S adds between columns.

    pool: ThreadPool

    def __init__(
        self, inner: DataTerm, of: Callable[[Prior], SmoothTerm | None], prior: Prior
    ) -> None:
        self.inner, self._of, self.prior = inner, of, prior
        self.smooth = of(prior)
        self.p, self.B, self.lanes = inner.p, inner.B, inner.lanes
        self.scale, self.total, self.pool = inner.scale, inner.total, inner.pool
        self.trust_radius, self.rows = inner.trust_radius, inner.rows
        self.effective_rows = 0  # A subsample of the rows would not have the curvature of S.
        self.beta = np.zeros((self.p, self.lanes))
        self.added = np.zeros(self.lanes)  # S at the points.
        self._slope: np.ndarray | None = None
        self._arrive(self.beta, self.value(self.beta))

    def set_prior(self, prior: Prior) -> bool:
        """See `DataTerm.set_prior`."""
        if prior is not self.prior:
            self.prior, self.smooth = prior, self._of(prior)
            self._arrive(self.beta, self.value(self.beta))
        return True

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Evaluate S at coefficients of the scaled columns, (lanes,)."""
        out = np.zeros(self.lanes)
        if self.smooth is None:
            return out
        out[: self.B] = self.smooth.value(beta[:, : self.B] / self.scale[:, None])
        return out

    def _arrive(self, beta: np.ndarray, added: np.ndarray) -> None:
        """Store the new points and the value of S there."""
        self.beta, self.added, self._slope = beta, added, None

    @property
    def slope(self) -> np.ndarray:
        """Gradient of S at the points over the scaled columns, (p, lanes)."""
        if self._slope is None:
            scale = self.scale[:, None]
            self._slope = np.zeros((self.p, self.lanes))
            if self.smooth is not None:
                slope = self.smooth.gradient(self.beta[:, : self.B] / scale)
                self._slope[:, : self.B] = slope / scale
        return self._slope

    # -- the working set ---------------------------------------------------------------------

    @property
    def W(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.inner.W

    @property
    def inside(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.inner.inside

    @property
    def entries(self) -> int:
        """See `DataTerm`."""
        return self.inner.entries

    def asarray(self, x: np.ndarray) -> np.ndarray:
        """Return the array, as all are on the host; see `DataTerm.asarray`."""
        return x

    def join(self, columns: np.ndarray) -> int:
        """See `DataTerm.join`."""
        return self.inner.join(columns)

    # -- the points ----------------------------------------------------------------------------

    @property
    def loss(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.inner.loss + self.added

    def hessian_cost(self, coarse: bool) -> float:
        """See `DataTerm.hessian_cost`."""
        return self.inner.hessian_cost(coarse)

    @property
    def nuisance_error(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.inner.nuisance_error

    @property
    def nuisance_decrement(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.inner.nuisance_decrement

    @property
    def data_loss(self) -> np.ndarray:
        """See `DataTerm`."""
        return self.inner.data_loss

    @property
    def dispersion(self) -> np.ndarray | float:
        """See `DataTerm`."""
        return self.inner.dispersion

    def place(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """See `DataTerm.place`."""
        self.inner.place(beta, like)
        beta = beta.copy()
        self._arrive(beta, self.value(beta))

    def gradient(self) -> np.ndarray:
        """See `DataTerm.gradient`."""
        return self.inner.gradient() + self.slope[self.W]

    def gradients(self, tol: float) -> np.ndarray:
        """See `DataTerm.gradients`."""
        return self.inner.gradients(tol) + self.slope

    def nuisance(self, lane: int) -> Nuisance | None:
        """See `DataTerm.nuisance`."""
        return self.inner.nuisance(lane)

    def readmit(self, tol: float) -> np.ndarray:
        """See `DataTerm.readmit`."""
        return self.inner.readmit(tol)

    def along(self, D: np.ndarray, live: np.ndarray) -> Trial:
        """See `DataTerm.along`."""
        return _Trial(self, D, live)

    # -- curvature -----------------------------------------------------------------------------

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """See `DataTerm.curvature`."""
        at = self.inner.curvature(lane, thin, accuracy)
        return None if at is None else _Curvature(self, at, self.beta[:, lane] / self.scale)

    def relative(self, curvature: CurvatureAt) -> np.ndarray | None:
        """Return None, because factors of single columns would distort a term that couples them."""
        return None

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """See `DataTerm.left_out_score`."""
        return self.inner.left_out_score(weights, difference)


class _Trial:
    """A search along a direction for the sum; see `Trial`."""

    def __init__(self, term: SmoothPenaltyTerm, D: np.ndarray, live: np.ndarray) -> None:
        self.term, self.inner, self.D = term, term.inner.along(D, live), D
        self.end: tuple[np.ndarray, np.ndarray] | None = None

    def loss(self, t: np.ndarray) -> np.ndarray:
        """See `Trial.loss`."""
        term, beta = self.term, self.term.beta.copy()
        beta[term.W] += t * self.D
        self.end = beta, term.value(beta)
        return self.inner.loss(t) + self.end[1]

    def commit(self) -> None:
        """See `Trial.commit`."""
        if self.end is None:
            raise RuntimeError("commit() before loss()")
        self.inner.commit()
        self.term._arrive(*self.end)


class _Curvature:
    """The curvature of the losses plus that of the smooth term at the same point."""

    grouped: bool

    def __init__(self, term: SmoothPenaltyTerm, inner: CurvatureAt, beta: np.ndarray) -> None:
        self.term, self.inner, self.beta = term, inner, beta
        self.grouped = inner.grouped
        self._checked: tuple[int, bool] | None = None

    @property
    def convex(self) -> bool:
        """Whether the losses are convex and the smooth term is, at this point."""
        k = len(self.term.W)
        if self._checked is None or self._checked[0] != k:
            convex = self.term.prior.smooth_is_convex or _is_positive_semidefinite(self._added())
            self._checked = k, self.inner.convex and convex
        return self._checked[1]

    def _added(self) -> np.ndarray:
        """Compute the smooth term's Hessian over the working set, (k, k)."""
        W = self.term.W
        scale = self.term.scale[W]
        if self.term.smooth is None:
            return np.zeros((len(W), len(W)))
        return self.term.smooth.hessian(self.beta, W) / scale / scale[:, None]

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        G = self.inner.matrix(first, rough)
        G[first:] += self._added()[first:]
        return G

    def diagonal(self) -> np.ndarray:
        """See `CurvatureAt.diagonal`."""
        return self.inner.diagonal() + np.diag(self._added())

    def uncentred(self) -> np.ndarray:
        """See `CurvatureAt.uncentred`."""
        return self.inner.uncentred() + np.abs(np.diag(self._added()))

    def by_columns(self) -> None:
        """Return None; see `CurvatureAt.by_columns`."""

    def on_device(self, known: DeviceMatrix | None, rough: bool = False) -> None:
        """Return None, because the penalty is added on the host."""

    def sent(self, G: np.ndarray) -> DeviceMatrix | None:
        """See `CurvatureAt.sent`."""
        return self.inner.sent(G)


def _is_positive_semidefinite(H: np.ndarray) -> bool:
    """Determine whether no eigenvalue of a symmetric matrix is negative except by rounding.

    Cholesky's factorisation of a matrix with a unit diagonal succeeds if the smallest eigenvalue
    exceeds k (k + 1) units of rounding (Higham 2002, Theorem 10.7), which are added.
    """
    h = np.diagonal(H)
    if (h < 0).any():
        return False
    if np.count_nonzero(H) == np.count_nonzero(h):  # a sum over coefficients
        return True
    root = np.sqrt(np.where(h > 0, h, 1.0))
    E = H / root / root[:, None]
    k = len(E)
    E[np.diag_indices(k)] += k * (k + 1) * np.finfo(float).eps
    try:
        np.linalg.cholesky(E)
    except np.linalg.LinAlgError:
        return False
    return True
