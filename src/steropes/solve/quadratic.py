"""Minimise the quadratic models of replicates that share a Hessian.

Coordinate descent on the Gram matrix, restricted to the columns that can matter; a Cholesky solve
on the support where descent is slow, and alone where nothing is penalised in ℓ1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from ..backends.cpu.descent import LANES, descend, descend_lanes
from ..backends.threads import ThreadPool
from .certificate import violations

__all__ = ["LowRank", "Quadratic", "minimize_quadratic"]

SWEEPS = 60
FEW = 32  # columns without penalty that are eliminated before the descent
ROUNDS = 8
SLOW = 5.0  # tolerances from which a replicate among several is worth a Cholesky solve
NEAR = 0.9  # of λ: the slope from which a coefficient at zero is descended on from the start
STRIPE = 256  # rows of the matrix that are worked on at once
WORK = 2e9  # cubes of columns, in sum, of the jumps that are made in a row
REGULAR = 1e-8  # of its diagonal: what makes a singular matrix regular


@dataclass
class LowRank:
    """What a replicate's Hessian has beyond the shared one, Σ_m c_m u_m u_m'.

    Attributes
    ----------
    U : (M, k, B) array
    c : (M, B) array
        Zero where a replicate has no such term.
    """

    U: np.ndarray
    c: np.ndarray

    @classmethod
    def none(cls, k: int, B: int) -> LowRank:
        """No terms."""
        return cls(np.empty((0, k, B)), np.empty((0, B)))

    def lanes(self, at: Any) -> LowRank:
        """Return the terms of some replicates; those that none of them has are left out."""
        c = self.c[:, at]
        used = c.any(axis=1)
        return LowRank(self.U[used][:, :, at], c[used])

    def product(self, D: np.ndarray) -> np.ndarray:
        """Each replicate's sum times its column of D (k, B)."""
        if not len(self.U):
            return np.zeros(D.shape)
        return np.einsum("mb,mkb->kb", self.c * np.einsum("mkb,kb->mb", self.U, D), self.U)

    def __add__(self, other: LowRank) -> LowRank:
        return LowRank(np.concatenate([self.U, other.U]), np.concatenate([self.c, other.c]))


@dataclass
class _Models:
    """The replicates' models: minimise g'd + ½ d'Hd + Σ l1 |β+d| + ½ Σ l2 (β+d)²."""

    sigma: np.ndarray
    g: np.ndarray
    beta: np.ndarray
    l1: np.ndarray
    l2: np.ndarray
    unit: np.ndarray
    low: LowRank
    tolerance: np.ndarray

    def only(self, at: np.ndarray) -> _Models:
        """Return the models of some coordinates."""
        low = LowRank(self.low.U[:, at], self.low.c)
        return _Models(
            self.sigma[at], self.g[at], self.beta[at], self.l1[at], self.l2[at], self.unit[at],
            low, self.tolerance,
        )  # fmt: skip


class Quadratic:
    """A Hessian that replicates share, arranged so that their models are quick to minimise.

    Where a few columns have no penalty (an intercept), coordinates change so that they no longer
    interact with the others: with G_ff = LL' and Y = L⁻¹ G_fr the new ones are
    e = L'σ_f d_f + Y σ_r d_r, whose Hessian is the identity, and the others' is the Schur
    complement G_rr − Y'Y, that of centred columns. An intercept is correlated with every column
    that is not centred, which is what makes coordinate descent slow. The factors σ drop out of
    the matrix, so replicates still share it.

    Parameters
    ----------
    G : (k, k) array
        Hessian, symmetric. It is changed in place until `restore` is called.
    free : (k,) bool array
        Columns without any penalty.
    pool : ThreadPool
    """

    def __init__(self, G: np.ndarray, free: np.ndarray, pool: ThreadPool) -> None:
        self.G, self.free, self.pool = G, free, pool
        self.f = np.flatnonzero(free)
        if len(self.f) > FEW or len(self.f) == len(G):
            self.f = self.f[:0]
        if len(self.f):
            self._eliminate()
        self._part: Any = None  # columns and their part of G, kept for the next step

    def _eliminate(self) -> None:
        G, f = self.G, self.f
        try:
            self.L = linalg.cholesky(G[np.ix_(f, f)], lower=True, check_finite=False)
        except linalg.LinAlgError:  # nearly flat among themselves: descent takes them as they are
            self.f = f[:0]
            return
        self.F = G[f].copy()
        self.Y = linalg.solve_triangular(self.L, self.F, lower=True, check_finite=False)
        self.Y[:, f] = 0.0
        self._add(-1.0)
        G[f] = 0.0
        G[:, f] = 0.0
        G[f, f] = 1.0

    def _add(self, sign: float) -> None:
        """Add ± Y'Y to the matrix, in stripes."""
        Y, k = self.Y, len(self.G)

        def stripe(a: int, b: int) -> None:
            self.G[a:b] += (sign * Y[:, a:b].T) @ Y

        self.pool.map(stripe, [(a, min(a + STRIPE, k)) for a in range(0, k, STRIPE)])

    def restore(self) -> np.ndarray:
        """Return the Hessian as it was given; this object is of no use afterwards."""
        G, f = self.G, self.f
        if len(f):
            self._add(1.0)
            G[f] = self.F
            G[:, f] = self.F.T
            self.f = f[:0]
        return G

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

    def _back(self, d: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        if not len(self.f):
            return d
        out = d.copy()
        e = d[self.f] - self.Y @ (sigma * d)
        out[self.f] = linalg.solve_triangular(self.L, e, lower=True, trans="T") / sigma[self.f]
        return out

    def _own(self, sigma: np.ndarray) -> np.ndarray:
        """σ in the new coordinates."""
        if not len(self.f):
            return sigma
        out = sigma.copy()
        out[self.f] = 1.0
        return out

    def diagonal(self, sigma: np.ndarray, low: LowRank | None) -> np.ndarray:
        """The models' curvature in each coordinate, (k, B), in the new coordinates."""
        h = self._own(sigma) ** 2 * np.diagonal(self.G)[:, None]
        if low is not None and len(low.U):
            h = h + np.einsum("mb,mkb->kb", low.c, low.U**2)
        return h

    def product(self, d: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """ΣGΣ times steps d (k, B), in the new coordinates."""
        own = self._own(sigma)
        return own * self._times(own * d)

    def _times(self, x: np.ndarray) -> np.ndarray:
        k = len(self.G)
        parts = self.pool.map(
            lambda a, b: self.G[a:b] @ x, [(a, min(a + STRIPE, k)) for a in range(0, k, STRIPE)]
        )
        return np.concatenate(parts) if parts else np.zeros(x.shape)

    # -- the minimum ---------------------------------------------------------------------------

    def minimize(
        self, sigma: Any, g: Any, beta: Any, l1: Any, l2: Any, unit: Any, tolerance: Any,
        low: LowRank | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return the steps d that minimise  g'd + ½ d'Hd + Σ l1|β+d| + ½ Σ l2 (β+d)².

        Parameters
        ----------
        sigma : (k, B) array
            Σ = diag(σ): a replicate's Hessian is H = ΣGΣ and its low-rank terms.
        g : (k, B) array
            Gradient of the loss at β.
        beta, l1, l2 : (k, B) arrays
        unit : (k, B) array
            Size of one unit of violation for each coordinate (`certificate.units`).
        tolerance : (B,) array
            Largest violation of the model's optimality conditions, in units.
        low : LowRank, optional
            In the new coordinates (`gradient`, `step`).

        Returns
        -------
        (k, B) array
        """
        B = g.shape[1]
        if low is None:
            low = LowRank.none(*g.shape)
        m = _Models(sigma, g, beta, l1, l2, unit, low, tolerance)
        if len(self.f):
            b0 = beta.copy()
            b0[self.f] = 0.0  # new coordinates start from zero, without a penalty
            ones = unit.copy()
            ones[self.f] = 1.0
            m = _Models(self._own(sigma), self.gradient(g, sigma), b0, l1, l2, ones, low, tolerance)
        if not l1.any():
            everything = np.arange(len(g))
            q = m.g + l2 * m.beta
            steps = self.pool.map(
                lambda b: _solve(self.G, m, b, q[:, b], everything), [(b,) for b in range(B)]
            )
            if all(step is not None for step in steps):
                return self._back(np.stack(steps, axis=1), sigma)
        return self._back(self._search(m), sigma)

    def _search(self, m: _Models) -> np.ndarray:
        """Descend on the coordinates that can matter until no other one wants to move."""
        B = m.g.shape[1]
        D = np.zeros(m.g.shape)
        live = ((m.beta != 0) | (m.l1 == 0) | (np.abs(m.g + m.l2 * m.beta) > NEAR * m.l1)).any(1)
        for _ in range(ROUNDS):
            at, H = self._take(live)
            if len(at) == len(D):
                D = _descend(H, m, D, self.pool)
            elif len(at):
                D[at] = _descend(H, m.only(at), D[at], self.pool)
            # Small changes in a sweep are not enough: of thousands of correlated columns each
            # moves a little, and all the same way, for a long time.
            slope = m.g + m.sigma * self._times(m.sigma * D) + m.low.product(D)
            v = violations(slope, m.beta + D, m.l1, m.l2) / m.unit
            bad = v.max(axis=0) > m.tolerance
            if not bad.any():
                break
            if len(at) < len(D):
                outside = (v > m.tolerance).any(axis=1)
                outside[at] = False
                if outside.any():
                    live |= outside
                    continue
            slow = np.flatnonzero(v.max(axis=0) > SLOW * m.tolerance)
            if B > 1 and len(slow) == 0:
                break  # near enough for a step with a Hessian that is not the replicate's own
            lanes = slow if B > 1 else np.flatnonzero(bad)
            self.pool.map(
                lambda b, slope=slope, D=D: _polish(self.G, m, b, slope[:, b], D[:, b]),
                [(b,) for b in lanes],
            )
        return D

    def _take(self, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The live columns and their part of G: the last step's where that has hardly more."""
        k = len(live)
        if self._part is not None:
            at, H = self._part
            if len(at) <= 1.15 * np.count_nonzero(live) and np.count_nonzero(live[at]) == (
                np.count_nonzero(live)
            ):
                return at, H
        at = np.flatnonzero(live)
        if len(at) >= 0.8 * k:
            return np.arange(k), self.G
        H = np.empty((len(at), len(at)))

        def stripe(a: int, b: int) -> None:
            np.take(self.G[at[a:b]], at, axis=1, out=H[a:b])

        self.pool.map(stripe, [(a, min(a + STRIPE, len(at))) for a in range(0, len(at), STRIPE)])
        self._part = at, H
        return at, H


def minimize_quadratic(
    G: Any, scale: float, g: Any, beta: Any, l1: Any, l2: Any, unit: Any, tolerance: float
) -> Any:
    """Minimise for one replicate with curvature ``scale`` G, which is kept; vectors are (k,)."""
    sigma = np.full((len(g), 1), np.sqrt(scale))
    free = (l1 == 0) & (l2 == 0)
    model = Quadratic(G.copy(), free if l1.any() else np.zeros(len(g), bool), ThreadPool(1))
    step = model.minimize(
        sigma, g[:, None], beta[:, None], l1[:, None], l2[:, None], unit[:, None],
        np.array([tolerance]),
    )  # fmt: skip
    return step[:, 0]


def _descend(H: np.ndarray, m: _Models, d: np.ndarray, pool: ThreadPool) -> np.ndarray:
    """Sweeps for all replicates, in blocks of lanes; returns d (k, B)."""
    k, B = m.g.shape
    vectors = (m.sigma, m.g, m.beta, m.l1, m.l2, m.unit)
    if B == 1:
        step = np.ascontiguousarray(d[:, 0])
        descend(
            H, *(np.ascontiguousarray(x[:, 0]) for x in vectors),
            np.ascontiguousarray(m.low.U[:, :, 0].T), np.ascontiguousarray(m.low.c[:, 0]),
            step, float(m.tolerance[0]), SWEEPS,
        )  # fmt: skip
        return step[:, None]
    out = np.empty(d.shape)
    fills = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)

    def part(a: int, b: int) -> None:
        def block(x: np.ndarray, fill: float) -> np.ndarray:
            y = np.full((*x.shape[:-1], LANES), fill)
            y[..., : b - a] = x[..., a:b]
            return y

        low = m.low.lanes(slice(a, b))
        U = np.zeros((k, len(low.U), LANES))
        U[:, :, : b - a] = low.U.transpose(1, 0, 2)
        c = np.zeros((len(low.U), LANES))
        c[:, : b - a] = low.c
        step = block(d, 0.0)
        descend_lanes(
            H, *(block(x, fill) for x, fill in zip(vectors, fills, strict=True)), U, c, step,
            block(m.tolerance, 1.0), SWEEPS,
        )  # fmt: skip
        out[:, a:b] = step[:, : b - a]

    pool.map(part, [(a, min(a + LANES, B)) for a in range(0, B, LANES)])
    return out


def _solve(G: np.ndarray, m: _Models, b: int, q: np.ndarray, support: np.ndarray) -> Any:
    """Newton's step on some coordinates, or None where the matrix is not positive definite."""
    H, size = _scaled(G, m, b, support)
    step = _cholesky(H, q[support] / size)
    return None if step is None else step / size


def _scaled(G: np.ndarray, m: _Models, b: int, support: np.ndarray) -> tuple[Any, Any]:
    """The model's matrix on some coordinates with a diagonal of ones, and the scales."""
    H = G[np.ix_(support, support)] if len(support) < len(G) else G.copy()
    some = m.sigma[support, b]
    H *= some
    H *= some[:, None]
    U, c = m.low.U[:, support, b], m.low.c[:, b]
    if c.any():
        H += (U * c[:, None]).T @ U
    H[np.diag_indices(len(H))] += m.l2[support, b]
    size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    H /= size
    H /= size[:, None]
    return H, size


def _cholesky(H: np.ndarray, q: np.ndarray) -> Any:
    """−H⁻¹q, or None where H, which is overwritten, is nearly singular."""
    try:  # in place: H is symmetric, so its transpose is the column-major H that LAPACK wants
        factor = linalg.cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if np.diag(factor[0]).min() < 1e-7:  # nearly singular: its step would be noise
        return None
    return -linalg.cho_solve(factor, q, check_finite=False)


def _polish(G: np.ndarray, m: _Models, b: int, slope: np.ndarray, d: np.ndarray) -> None:
    """Jump to the minimum with today's signs, as far as no coefficient changes its sign.

    Coordinate descent is slow along correlated columns, which is where this jump is exact. A
    coefficient that comes to zero on the way stays there and the jump is made again without it.
    More columns than the rows can tell apart have no unique minimum but an ℓ1 norm that falls
    along the null directions: they are taken, by a matrix that is made regular, until enough
    columns have gone.

    ``slope`` is the gradient of the model without its penalties at ``d`` (k,).
    """
    beta, l1, l2 = m.beta[:, b], m.l1[:, b], m.l2[:, b]
    low, sigma = m.low.lanes([b]), m.sigma[:, b]
    slope = slope.copy()
    signs = None
    left = WORK
    while left > 0:
        at = beta + d
        support = np.flatnonzero((at != 0) | (l1 == 0))
        if len(support) == 0:
            return
        if signs is None:
            signs = np.sign(at)
        q = (slope + l2 * at + signs * l1)[support]
        H, size = _scaled(G, m, b, support)
        kept = H.copy() if l1.any() else H
        step = _cholesky(H, q / size)
        if step is None and l1.any():
            kept[np.diag_indices(len(kept))] += REGULAR
            step = _cholesky(kept, q / size)
        if step is None:
            return
        step /= size
        old = at[support]
        crossing = (old * (old + step) < 0) & (l1[support] > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where(crossing, -old / step, 1.0)
        t = float(limits.min(initial=1.0))
        d[support] += t * step
        stopped = crossing & (limits <= t)
        d[support[stopped]] = -beta[support[stopped]]  # exactly zero
        left -= len(support) ** 3 + 1
        if not stopped.any():
            return
        part = np.zeros(len(d))
        part[support] = d[support] + beta[support] - old
        change = sigma * (G @ (sigma * part)) + low.product(part[:, None])[:, 0]
        slope += change
