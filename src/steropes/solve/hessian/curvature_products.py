"""Products of H_η with a direction in η, used where X' H_η X would be too large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np

from ...backends.backend_interface import Array, Backend
from ...backends.cpu.sums.segmented_sums import take_out_groups
from ...likelihoods.hessian_structures import (
    ChannelCurvature,
    Curvature,
    GroupedCurvature,
    OperatorCurvature,
    ProfiledCurvature,
    SubdistributionCurvature,
)

__all__ = ["centred", "device_product", "eta_product"]

NO_ROWS = np.empty(0, np.int64)


def eta_product(
    curvature: Curvature, backend: Backend
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function from z (n,) on the host to H_η z, or None if H_η is its diagonal v."""
    host = backend.to_host
    match curvature:
        case GroupedCurvature():
            if not curvature.grouped:
                return None
            v, u, c = (np.asarray(host(x)) for x in (curvature.v, curvature.u, curvature.c))
            return partial(_grouped, v, u, curvature.runs, c, curvature.rows)
        case SubdistributionCurvature():
            return partial(
                _subdistribution,
                replace(
                    curvature, v=host(curvature.v), u=host(curvature.u), late=host(curvature.late)
                ),
            )
        case OperatorCurvature():
            return lambda z: curvature.product(z[:, None])[:, 0]
        case ProfiledCurvature():
            return partial(_profiled, curvature)
        case ChannelCurvature():
            raise NotImplementedError("rows of η are not rows of X")
        case _:
            assert_never(curvature)


def device_product(curvature: Curvature, backend: Backend) -> Callable[[Array], Array] | None:
    """Return a function from Z (n, B) to H_η Z on a device; None if only the host has it."""
    match curvature:
        case GroupedCurvature():
            v = curvature.v[:, None]
            if not curvature.grouped:
                return lambda Z: v * Z
            return _grouped_on_device(curvature, v, backend)
        case SubdistributionCurvature():
            return _subdistribution_on_device(curvature, backend)
        case _:
            return None


def _lines_of(
    rows: np.ndarray | None, n: int, backend: Backend
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return functions that spread rows (n, B) to lines, and that sum lines over rows."""
    if rows is None:
        return (lambda Z: Z), (lambda Z: Z)
    by = np.argsort(rows, kind="stable")
    pointers = np.searchsorted(rows[by], np.arange(n + 1))
    return (lambda Z: Z[rows]), (lambda Z: backend.segment_sum(Z[by], pointers))


def _grouped_on_device(
    curvature: GroupedCurvature, v: Array, backend: Backend
) -> Callable[[Array], Array]:
    """Return the product with a diagonal minus rank-one terms of nested groups."""
    u, c = (backend.asarray(x)[:, None] for x in (curvature.u, curvature.c))
    runs, (spread, together) = curvature.runs, _lines_of(curvature.rows, len(v), backend)

    def product(Z: Array) -> Array:
        """Subtract each group's term from the rows of its lines, the first ones of its run."""
        sums = c * backend.scan(u * spread(Z), runs)
        return v * Z - together(u * backend.scan(sums, runs, True))

    return product


def _subdistribution_on_device(
    x: SubdistributionCurvature, backend: Backend
) -> Callable[[Array], Array]:
    """Return the product with the curvature of the subdistribution hazard; see the host's."""
    asarray, xp, n = backend.asarray, backend.xp, len(x.v)
    groups, runs, strata, ends = np.flatnonzero(x.c), x.runs, x.strata_start, x.ends
    there = np.where(ends < strata[x.stratum + 1], x.G, 0.0)  # Zero where no row remains.
    v, u, late, c, G = (asarray(a)[:, None] for a in (x.v, x.u, x.late, x.c[groups], there))
    spread, together = _lines_of(x.rows, n, backend)
    pointers = np.searchsorted(ends, np.arange(n + 1))

    def product(Z: Array) -> Array:
        """Subtract each group's term from the rows at risk and from those that stay."""
        none = xp.zeros((1, Z.shape[1]))
        stayed = xp.concatenate([backend.scan(late * Z, strata, True), none])
        weight = c * (backend.scan(u * spread(Z), runs)[groups] + G * stayed[ends])
        held = xp.zeros((len(u), Z.shape[1]))
        held[groups] = weight
        out = v * Z - together(u * backend.scan(held, runs, True))
        return out - late * backend.scan(backend.segment_sum(G * weight, pointers), strata)

    return product


def centred(v: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from z to v (z − z̄), with z̄ the mean under the weights v.

    This treats all nuisance parameters as one.
    """
    return lambda z: v * (z - (v @ z) / max(float(v.sum()), 1e-300))


def _grouped(
    v: np.ndarray, u: np.ndarray, runs: np.ndarray, c: np.ndarray, rows: np.ndarray | None,
    z: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Multiply by a diagonal minus rank-one terms of nested groups."""
    out = v * z
    take_out_groups(u, runs, c, NO_ROWS if rows is None else rows, z, np.empty(len(u)), out)
    return out


def _subdistribution(curvature: SubdistributionCurvature, z: np.ndarray) -> np.ndarray:
    """Multiply by the curvature of the subdistribution hazard.

    The sum of a group is that of a prefix of lines plus G times that of the rows from its end on.
    """
    x, n = curvature, len(z)
    lines = slice(None) if x.rows is None else x.rows
    groups = np.flatnonzero(x.c)
    starts = x.runs[:-1]
    ahead = _within(x.u * z[lines], starts)[groups]
    late = _within((x.late * z)[::-1], n - x.strata_start[1:][::-1])[::-1]
    G = np.where(x.ends < x.strata_start[x.stratum + 1], x.G, 0.0)  # Zero where no row remains.
    weight = x.c[groups] * (ahead + G * np.append(late, 0.0)[x.ends])
    held = np.zeros(len(x.u))
    held[groups] = weight
    back = _within(held[::-1], len(held) - x.runs[1:][::-1])[::-1]
    out = x.v * z
    np.subtract.at(out, np.arange(n) if x.rows is None else x.rows, x.u * back)
    added = np.bincount(x.ends, G * weight, minlength=n + 1)[:n]
    out -= x.late * _within(added, x.strata_start[:-1])
    return out


def _within(x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Compute running sums that restart at some places, the first of which is zero."""
    total = np.cumsum(x)
    before = np.append(0.0, total)[starts]
    return total - np.repeat(before, np.diff(np.append(starts, len(x))))


def _profiled(curvature: ProfiledCurvature, z: np.ndarray) -> np.ndarray:
    """Multiply by H_ηη minus the part of nuisance parameters, which follow η."""
    x, K = curvature, curvature.block.K
    at = slice(None) if x.rows is None else x.rows
    here, low, up = z[at], x.low.astype(np.int64) + 1, x.up.astype(np.int64) + 1
    sums = np.bincount(up, x.a * here, minlength=K + 2)
    sums += np.bincount(low, x.b * here, minlength=K + 2)
    moved = np.zeros(K + 2)
    moved[1:-1] = x.block.solve(np.ascontiguousarray(sums[1:-1, None]))[:, 0]
    out: np.ndarray = x.v * z
    out[at] -= x.a * moved[up] + x.b * moved[low]
    return out
