"""Survival averaged over people (the g-formula) and the area below it, with joint covariances.

Let S̄(t) = Σ_i ω_i exp(−H_i(t)) with H_i(t) = Σ_q e^{η_iq} Λ_q(t), a sum over intervals q of time
in which effects are constant. The delta method gives

    S̄^(t) − S̄(t) ≈ −Σ_r A_r(t) M_r(t) − B(t)'(β̂ − β),
    A_r(t) = Σ_{i in r} ω_i S_i(t) e^{η_iq},
    B(t) = Σ_r [Σ_{i in r} ω_i S_i(t) e^{η_iq} x_iq Λ_r(t) − A_r(t) ∫_0^t x̄ dΛ_r]

with a run r for each stratum and interval, and M_r with independent increments
(`baseline_hazard_variance`):
Gail and Byar (1986), Biom J 28:587; Zhang, Loberiza, Klein and Zhang (2007), Comput Methods
Programs Biomed 88:95. The area up to τ is Σ_j (u_{j+1} − u_j) S̄(u_j), linear in the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .baseline_hazard_variance import HazardWithVariance, relative_hazard
from .inference_constants import BLOCKS

__all__ = [
    "Averages",
    "JointCovariance",
    "Population",
    "standardized_averages",
]

# Maps coefficients on the hazard's steps (m, T, K) and on β (p, T, K) to the covariances of K
# linear functions of both at each of T times, (T, K, K). Of a sample it takes also the rows of the
# fit (n,) and what their people themselves add to the functions (n, T, K).
JointCovariance = Callable[..., np.ndarray]


@dataclass
class Population:
    """A population over which curves are averaged.

    Attributes
    ----------
    eta : (n, Q) array
        Linear predictors minus those of the columns' centres, in each interval of time.
    total : callable
        Maps R (n, B) and an interval q to Σ_i x_iq R_i, (p, B), with x minus the centres.
    """

    eta: np.ndarray
    total: Callable[[np.ndarray, int], np.ndarray]


@dataclass
class Averages:
    """Mean survival of A populations at T times, and the areas below the curves up to them.

    Attributes
    ----------
    survival, risk, area : (A, T) arrays
        ``risk`` is 1 − S̄, computed without cancellation.
    covariance : (T, 2A, 2A) array
        At each time the joint covariance of all populations' ``survival``, followed by ``area``.
    """

    survival: np.ndarray
    risk: np.ndarray
    area: np.ndarray
    covariance: np.ndarray


def standardized_averages(
    state: HazardWithVariance,
    joint: JointCovariance,
    populations: list[Population],
    codes: np.ndarray,
    weight: np.ndarray,
    times: np.ndarray,
    rows: np.ndarray | None = None,
) -> Averages:
    """Average survival curves over several populations with the same rows.

    Parameters
    ----------
    joint : callable
        Computes covariances, such as `HazardErrors.joint_covariance`.
    codes : (n,) int array
        Codes of strata.
    weight : (n,) array
        Weights ω, which add up to one.
    times : (T,) array
        Positive times.
    rows : (n,) int array, optional
        The rows of the fit that the people are, which makes them a sample like these. Default: the
        people are given.
    """
    known = state.time[np.isin(state.stratum[state.run], codes) & (state.time < times.max())]
    grid = np.unique(np.concatenate([known, times]))
    ends = np.append(grid[1:], grid[-1])
    width = np.maximum(np.minimum(ends[:, None], times) - grid[:, None], 0.0)  # (U, T)
    parts = [_linearize(state, one, codes, weight, times, grid, width) for one in populations]
    survival, risk, area = (np.stack([part[i] for part in parts]) for i in range(3))
    survival = np.minimum(survival, 1.0)  # weights add up to one but for rounding
    area = area + np.minimum(grid[0], times)  # survival is one until the first event
    T = len(times)
    # The survival of all populations comes first, then all areas.
    C = np.concatenate([p[3][:, k * T : (k + 1) * T] for k in (0, 1) for p in parts], axis=1)
    B = np.concatenate([p[4][:, k * T : (k + 1) * T] for k in (0, 1) for p in parts], axis=1)
    B = B - state.integrated(C).T
    linear = [_at_times(x, T) for x in (C, B)]
    if rows is None:
        return Averages(survival, risk, area, joint(*linear))
    own = np.concatenate([p[5][:, k * T : (k + 1) * T] for k in (0, 1) for p in parts], axis=1)
    own = weight[:, None] * (own - weight @ own)
    return Averages(survival, risk, area, joint(*linear, rows, _at_times(own, T)))


def _at_times(x: np.ndarray, T: int) -> np.ndarray:
    """Arrange functions in the order of populations and times, (m, K T), by time, (m, T, K)."""
    return x.reshape(len(x), -1, T).transpose(0, 2, 1)


def _linearize(
    state: HazardWithVariance,
    people: Population,
    codes: np.ndarray,
    weight: np.ndarray,
    times: np.ndarray,
    grid: np.ndarray,
    width: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Compute one population's curves and their linear dependence on hazard steps and β.

    Returns S̄, risk and area, (T,) each; the coefficients of S̄ and area on the hazard's steps,
    (m, 2T); Σ ω S e^η x Λ for both, (p, 2T); and everybody's S and area, (n, 2T). ``width`` (U, T)
    is the part of each interval of ``grid`` that lies within each area.
    """
    n, Q = people.eta.shape
    T, U = len(times), len(grid)
    place = np.searchsorted(grid, times)
    mean, risk, C = np.zeros(U), np.zeros(T), np.zeros((len(state.time), 2 * T))
    R = [np.zeros((n, 2 * T)) for _ in range(Q)]
    own = np.zeros((n, 2 * T))
    for s in np.unique(codes):
        rows = np.flatnonzero(codes == s)
        runs = [int(r) for r in np.flatnonzero(state.stratum == s)]
        factor = {
            r: relative_hazard(people.eta[rows, state.interval[r]], state.shift[r]) for r in runs
        }
        hazard = {r: state.until(r, grid)[0] for r in runs}
        A = {r: np.zeros(U) for r in runs}
        step = max(1, BLOCKS.standardized_entries // len(rows))
        for a in range(0, U, step):
            at = slice(a, min(a + step, U))
            H = np.zeros((len(rows), at.stop - a))
            for r in runs:
                H += factor[r][:, None] * hazard[r][at]
            S = np.exp(-H)
            mean[at] += weight[rows] @ S
            here = np.flatnonzero((place >= a) & (place < at.stop))
            risk[here] -= weight[rows] @ np.expm1(-H[:, place[here] - a])
            own[np.ix_(rows, here)] = S[:, place[here] - a]
            own[rows, T:] += S @ width[at]
            for r in runs:
                steps = weight[rows] * factor[r]
                A[r][at] = steps @ S
                S_hazard = S * hazard[r][at]
                area = R[state.interval[r]]
                area[rows, T:] += steps[:, None] * (S_hazard @ width[at])
                area[np.ix_(rows, here)] += steps[:, None] * S_hazard[:, place[here] - a]
        for r in runs:
            _fill_step_coefficients(state, r, A[r], times, place, grid, width, C)
    total = sum((people.total(R[q], q) for q in range(Q)), np.zeros(1))
    return mean[place], risk, mean @ width, C, np.asarray(total), own


def _fill_step_coefficients(
    state: HazardWithVariance,
    run: int,
    A: np.ndarray,
    times: np.ndarray,
    place: np.ndarray,
    grid: np.ndarray,
    width: np.ndarray,
    C: np.ndarray,
) -> None:
    """Fill in the coefficients of S̄ and of the areas on the hazard steps of a run."""
    at, T = state.events_of(run), len(times)
    u = state.time[at]
    C[at, :T] = (u[:, None] <= times) * A[place]
    rest = np.cumsum((A[:, None] * width)[::-1], axis=0)[::-1]  # sums from each grid point onward
    inside = u <= grid[-1]
    C[at, T:][inside] = rest[np.searchsorted(grid, u[inside])]
