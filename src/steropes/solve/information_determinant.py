"""The log-determinant of the information and its derivative, for Jeffreys' prior.

With I = X' H_η X over all columns and I⁻¹ = A A',

    ∂ log |I| / ∂β = X' d,    d = ∂ tr(A' X' H_η X A) / ∂η at a fixed Z = X A.

The likelihood computes d (`Likelihood.third_derivative`), for which the columns of Z are like
linear predictors (Firth 1993, eq. 2; Heinze and Schemper 2001, §3).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..backends.backend_interface import Array
from ..design_matrix.design_interfaces import DesignLike
from ..errors import DataError
from ..likelihoods import Likelihood
from ..likelihoods.likelihood_interface import Bound
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from .hessian import hessian
from .work_sizes import SIZES

__all__ = ["LogDeterminant"]

# The determinant is computed for at most this many columns.
MAX_COLUMNS = 2000


class LogDeterminant:
    """−power · log |I_b(β)| of each replicate; see `steropes.priors.SmoothTerm`.

    Parameters
    ----------
    weights, offset : (n, B) or (n, 1) arrays, offset or None
        In the rows of X.
    """

    def __init__(
        self,
        design: DesignLike,
        likelihood: Likelihood,
        weights: np.ndarray,
        offset: np.ndarray | None,
        power: float,
    ) -> None:
        if design.p > MAX_COLUMNS:
            raise DataError(
                f"Jeffreys' prior is of the information of all columns, at most {MAX_COLUMNS:,} "
                f"of them; X has {design.p:,}. Use Normal() or Laplace()."
            )
        if likelihood.quadratic or not likelihood.has_third_derivative:
            raise DataError(f"Jeffreys' prior {_why_not(likelihood)}.")
        self.design, self.likelihood, self.power = design, likelihood, power
        self.backend = backend = likelihood.backend
        order = likelihood.order
        self.rows = design.by_rows(np.arange(design.p), order, backend)
        take = (lambda x: x) if order is None else (lambda x: x[order])
        self.weights = take(np.asarray(weights, np.float64))
        self.offset = None
        if offset is not None:
            self.offset = likelihood.lift(take(np.asarray(offset, np.float64)))
        self._bound: dict[int, Bound] = {}
        self._last: tuple[np.ndarray, list[tuple[Array, np.ndarray | None]]] | None = None

    def value(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.value`; infinite where the information is singular."""
        units = 2.0 * np.log(self.design.scale).sum()
        out = np.full(beta.shape[1], np.inf)
        for b, (_, L) in enumerate(self._factors(beta)):
            if L is not None:
                out[b] = -self.power * (2.0 * np.log(np.diag(L)).sum() + units)
        return out

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """See `SmoothTerm.gradient`."""
        out = np.zeros(beta.shape)
        for b, (eta, L) in enumerate(self._factors(beta)):
            if L is None or not len(L):
                continue
            A = linalg.solve_triangular(L, np.eye(len(L)), lower=True).T
            d: Array = 0.0
            for a in range(0, len(L), SIZES.determinant_columns):
                Z = self._times(A[:, a : a + SIZES.determinant_columns])
                d = d + self.likelihood.third_derivative(eta, self._weigh(b), Z)
            g = self.backend.to_host(self.rows.rmatmul(d))[:, 0]
            out[:, b] = -self.power * g * self.design.scale
        return out

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return zeros, as in Firth's scoring with the information alone."""
        return np.zeros((len(columns), len(columns)))

    def _times(self, A: np.ndarray) -> Array:
        """Compute X A in the model's rows, for any number of columns."""
        backend, k = self.backend, A.shape[1]
        padded = np.zeros((len(A), backend.lanes(k)))
        padded[:, :k] = A
        return self.rows.matmul(backend.asarray(padded))[:, :k]

    def _weigh(self, b: int) -> Bound:
        """Return a replicate's weights, bound by the likelihood."""
        if b not in self._bound:
            w = self.weights[:, [b if self.weights.shape[1] > 1 else 0]]
            self._bound[b] = self.likelihood.weigh(self.backend.asarray(w))
        return self._bound[b]

    def _factors(self, beta: np.ndarray) -> list[tuple[Array, np.ndarray | None]]:
        """Return η and the Cholesky factor of each replicate's information, None if singular."""
        if self._last is None or not np.array_equal(self._last[0], beta):
            self._last = beta.copy(), [self._factor(beta[:, b], b) for b in range(beta.shape[1])]
        return self._last[1]

    def _factor(self, beta: np.ndarray, b: int) -> tuple[Array, np.ndarray | None]:
        """Compute η and the Cholesky factor for one replicate."""
        backend = self.backend
        eta = self.rows.matmul(backend.asarray((beta * self.design.scale)[:, None]))
        if self.offset is not None:
            own = self.offset[:, [b if self.offset.shape[1] > 1 else 0]]
            eta = eta + backend.asarray(own)
        curvature = self.likelihood.curvature(eta, self._weigh(b), exact=True)
        H = backend.to_host(hessian(self.rows, curvature))
        if not np.isfinite(H).all():
            return eta, None
        try:
            return eta, np.asarray(linalg.cholesky(H, lower=True))
        except linalg.LinAlgError:
            return eta, None


def _why_not(likelihood: Likelihood) -> str:
    """Return why Jeffreys' prior is not available for a likelihood."""
    if likelihood.quadratic:
        return "is flat for a linear model: leave it out"
    if isinstance(likelihood, NuisanceLikelihood):
        return (
            "is of the information of all parameters, and this model's thresholds grow in number "
            "with the data: Firth's expansion does not hold. Fit with Normal()"
        )
    return "is not there for this model: fit with another prior"
