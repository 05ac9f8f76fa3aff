"""Quadratic models of several fits that share X and a Hessian, and their minimisation."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array, ModelMinimiser
from ...backends.elementwise_row_blocks import map_rows
from ...backends.reductions_of_tall_arrays import row_any
from ..optimality.optimality_certificate import violations
from .fixed_sign_minimum import MIN_PIVOT, Factor, cholesky_factor
from .low_rank_hessian_terms import LowRank
from .model_minimisation import Minimiser, ModelBatch
from .preconditioners.preconditioner_choice import PreconditionerCache
from .reduced_hessian import Part, ReducedHessian

__all__ = ["QuadraticModel"]


class KeptFactor(NamedTuple):
    """A factor of the shared matrix with a ridge (k,), scaled to a unit diagonal by ``size``."""

    ridge: np.ndarray
    size: np.ndarray
    factor: Factor


class QuadraticModel:
    """Models  g'd + ½ d'Hd + Σ l1|β+d| + ½ Σ l2 (β+d)²  with H = ΣGΣ and low-rank terms.

    Replicates share G. Each has its own Σ = diag(σ), low-rank terms, gradient and penalties.

    Parameters
    ----------
    shared : ReducedHessian
        G, as an array or as a column operator.
    last : PreconditionerCache, optional
        From an earlier matrix over the same columns (or the first of them), whose model is no
        longer used.
    other_replicate : QuadraticModel, optional
        A model of another replicate over the same columns, with usable blocks.
    """

    def __init__(
        self,
        shared: ReducedHessian,
        last: PreconditionerCache | None = None,
        other_replicate: QuadraticModel | None = None,
    ) -> None:
        self.shared, self.free = shared, shared.free
        other = None if other_replicate is None else other_replicate.factors
        self.factors: PreconditionerCache = PreconditionerCache(
            shared, last, takes=True, other_replicate=other
        )
        self._part: Part | None = None  # The submatrix of the relevant coordinates.
        self._factored: KeptFactor | None = None
        self._lanes: dict[int, QuadraticModel] = {}

    def of_lane(self, b: int) -> QuadraticModel:
        """Return the model for one replicate alone, with its own submatrix and factor."""
        if b not in self._lanes:
            out = copy.copy(self)
            out._lanes = {}  # The copy is stored in this model's dictionary.
            out.factors = PreconditionerCache(self.shared, self.factors)
            self._lanes[b] = out
        return self._lanes[b]

    @property
    def on_device(self) -> bool:
        """Whether arrays may also be on a device."""
        return self.shared.on_device

    @property
    def f(self) -> np.ndarray:
        """The eliminated columns, which have other coordinates."""
        return self.shared.f

    def gradient(self, g: Array, sigma: Array) -> Array:
        """Convert a gradient with respect to d to the model's coordinates."""
        return self.shared.gradient(g, sigma)

    def step(self, d: Array, sigma: Array) -> Array:
        """Convert a step d to the model's coordinates."""
        return self.shared.step(d, sigma)

    def diagonal(self, sigma: Array, low: LowRank | None) -> Array:
        """Compute the models' curvature in each of their coordinates, (k, B)."""
        shared, xp = self.shared, array_namespace(sigma)
        low = LowRank.none(sigma.shape[0], sigma.shape[1], xp) if low is None else low

        def curvature(own: Array, diagonal: Array, U: Array) -> tuple[Array]:
            return (own**2 * diagonal + LowRank(U, low.c).diagonal(),)

        arrays = shared.own(sigma), xp.asarray(shared.diagonal)[:, None], low.U
        return map_rows(shared.pool, curvature, *arrays)[0]

    def product(self, d: Array, sigma: Array) -> Array:
        """Multiply ΣGΣ by steps d (k, B), in the model's coordinates."""
        own = self.shared.own(sigma)
        return own * self.shared.times(own * d)

    def minimize(
        self, sigma: Array, g: Array, beta: Array, l1: Array, l2: Array,
        unit: Array, tolerance: np.ndarray,
        low: LowRank | None = None, alone: bool = False,
    ) -> Array:  # fmt: skip
        """Return the steps d that minimise the models, (k, B), on the device if ``g`` is there.

        Parameters
        ----------
        sigma : (k, B) array
            σ, positive.
        g : (k, B) array
            Gradient of the loss at β.
        beta, l1, l2 : (k, B) arrays
        unit : (k, B) array
            One unit of violation of each coordinate (`certificate.units`).
        tolerance : (B,) array
            Largest violation of the model's optimality conditions, in units.
        low : LowRank, optional
            In the model's coordinates (`gradient`, `step`).
        alone : bool
            Whether no other replicate uses this model, so that a factor may be specific to this
            one.
        """
        models, own = self._models(sigma, g, beta, l1, l2, unit, tolerance, low)
        step = None if l1.any() else self._solve(models)
        if step is None:
            step = self._search(models, alone)

        xp = array_namespace(step)

        def end(step: Array, own: Array, y: Array, beta: Array) -> tuple[Array]:
            gone = (y + step == 0.0) & (y != 0.0)
            return (xp.where(gone, -beta, step / own),)  # Exactly zero.

        (d,) = map_rows(self.shared.pool, end, step, own, models.y, beta)
        return self.shared.back(d, sigma)

    def on_support(
        self, sigma: Array, g: Array, beta: Array, l1: Array, l2: Array,
        unit: Array, tolerance: np.ndarray,
        low: LowRank | None = None, alone: bool = False,
    ) -> Array:  # fmt: skip
        """Approximate the steps of `minimize` from β = 0 if columns with a λ stay at zero.

        The linear system is solved to ``policy.linear_residual``, or to the tolerance.
        """
        models, own = self._models(sigma, g, beta, l1, l2, unit, tolerance, low)
        shared, residual = self.shared, self.shared.policy.linear_residual
        if shared.minimiser is not None:
            step = shared.minimiser.support_step(
                shared.diagonal, shared.f, shared.Y, residual=residual, **_arrays(models)
            )
        else:
            search = Minimiser(shared, models, self.factors, np.arange(len(g)), alone=alone)
            step = search.linear_step(residual)
        return shared.back(step / own, sigma)

    def _models(
        self, sigma: Array, g: Array, beta: Array, l1: Array, l2: Array,
        unit: Array, tolerance: np.ndarray,
        low: LowRank | None,
    ) -> tuple[ModelBatch, Array]:  # fmt: skip
        """Build the models in coordinates σ d, in which all have the same matrix, and σ, (k, B)."""
        shared, (k, B), xp = self.shared, g.shape, array_namespace(g)
        own = xp.broadcast_to(shared.own(sigma), (k, B))

        def convert(
            own: Array, g: Array, beta: Array, l1: Array, l2: Array, unit: Array
        ) -> tuple[Array, ...]:
            return g / own, beta * own, l1 / own, l2 / own**2, unit / own

        given = shared.gradient(g, sigma), beta, l1, l2, xp.broadcast_to(unit, (k, B))
        slope, at, first, second, size = map_rows(shared.pool, convert, own, *given)
        if len(self.f):
            at[self.f] = 0.0  # New coordinates start from zero and have no penalty.
            size[self.f] = 1.0 / own[self.f]
        low = LowRank.none(k, B, xp) if low is None else low.scaled(own, shared.pool)
        tolerance = np.asarray(tolerance, np.float64)
        return ModelBatch(slope, at, first, second, size, low, tolerance), own

    def _search(self, m: ModelBatch, alone: bool) -> Array:
        """Minimise on a device if the matrix is there, and else by `_search_in_parts`."""
        xp = array_namespace(m.g)
        if self.shared.minimiser is not None:
            step = self._search_on_device(m, self.shared.minimiser)
            if xp.isfinite(step).all():
                return step
        return xp.asarray(self._search_in_parts(m.on_host(), alone))

    def _search_in_parts(self, m: ModelBatch, alone: bool) -> np.ndarray:
        """Minimise over relevant coordinates, adding others until none violates its condition."""
        k, policy = len(m.g), self.shared.policy
        near = np.abs(m.g + m.l2 * m.y) > policy.near_share * m.l1
        live = (m.y != 0) | (m.l1 == 0) | near
        some = row_any(live)
        D = np.zeros(m.g.shape)
        started = False
        for _ in range(policy.max_searches):
            wanted = np.flatnonzero(some)
            self._part = self.shared.taken(wanted, self._part, policy.max_part_share)
            at, shared = self._part
            start = D[at] if started else None
            search = Minimiser(shared, m.only(at), self.factors, at, start, alone)
            D[at] = search.run()
            started = True
            if len(at) == k:
                break
            outside = np.ones(k, bool)
            outside[at] = False
            s = m.slopes(self.shared, D)
            v = violations(s, m.y + D, m.l1, np.zeros(1)) / m.unit
            missing = row_any(v > m.tolerance) & outside
            if not missing.any():
                break
            some = some | missing
        return D

    def _search_on_device(self, m: ModelBatch, minimiser: ModelMinimiser) -> Array:
        """Minimise by products with the matrix on a device."""
        shared, xp = self.shared, array_namespace(m.g)

        # Penalised coefficients without curvature are zero at the minimum.
        def without_curvature(
            step: Array, g: Array, y: Array, l1: Array, l2: Array, diagonal: Array, U: Array
        ) -> tuple[Array]:
            h = diagonal + l2 + LowRank(U, m.low.c).diagonal()
            return (xp.where((h <= 0) & (y != 0) & (xp.abs(g + l2 * y) < l1), -y, step),)

        step = minimiser.minimise(shared.diagonal, shared.f, shared.Y, **_arrays(m))
        arrays = m.g, m.y, m.l1, m.l2, xp.asarray(shared.diagonal)[:, None], m.low.U
        return map_rows(shared.pool, without_curvature, step, *arrays)[0]

    def _solve(self, m: ModelBatch) -> Array | None:
        """Compute Newton steps without an ℓ1 penalty; None if a matrix is singular or too large.

        A single replicate takes several steps with one Hessian, whose factor is kept.
        """
        shared = self.shared
        if shared.minimiser is not None:
            return shared.minimiser.solve(
                shared.f, shared.Y, g=m.g, y=m.y, l2=m.l2, U=m.low.U, c=m.low.c,
                min_pivot=MIN_PIVOT, keep=shared.k <= shared.policy.max_kept_factor,
            )  # fmt: skip
        if shared.dense is None and shared.k > shared.solvable:
            return None
        kept, ridge = self._factored, m.l2[:, 0]
        single = m.g.shape[1] == 1 and not m.low.c.any()
        if single and kept is not None and np.array_equal(kept.ridge, ridge):
            q = (m.g[:, 0] + m.l2[:, 0] * m.y[:, 0]) / kept.size
            solved = linalg.cho_solve(kept.factor, q, check_finite=False)
            return np.asarray(-solved / kept.size)[:, None]
        everything = np.arange(len(m.g))
        A = self.shared.part(everything, np.float64)

        def one(b: int) -> np.ndarray | None:
            H = A.copy() if m.g.shape[1] > 1 else A
            if m.low.c[:, b].any():
                U = m.low.U[:, :, b]
                H += (U * m.low.c[:, b, None]).T @ U
            H[np.diag_indices(len(H))] += m.l2[:, b]
            size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
            H /= size
            H /= size[:, None]
            factor = cholesky_factor(H)
            if factor is None:
                return None
            if single and len(H) <= self.shared.policy.max_kept_factor:
                self._factored = KeptFactor(ridge.copy(), size, factor)
            q = (m.g[:, b] + m.l2[:, b] * m.y[:, b]) / size
            return np.asarray(-linalg.cho_solve(factor, q, check_finite=False) / size)

        k, B = m.g.shape
        steps = self.shared.pool.map(one, [(b,) for b in range(B)], B * k**3 // 3)
        if any(step is None for step in steps):
            return None
        return np.stack(steps, axis=1)


def _arrays(m: ModelBatch) -> dict[str, Array]:
    """Return the arrays of models as arguments for `ModelMinimiser`."""
    return {
        "g": m.g, "y": m.y, "l1": m.l1, "l2": m.l2, "unit": m.unit, "tolerance": m.tolerance,
        "U": m.low.U, "c": m.low.c,
    }  # fmt: skip
