"""Sweeps of coordinate descent on a matrix, for one model or, in panels, for several."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...backends.cpu.descent.coordinate_descent import descend_alone, descend_panel, panel_room
from ..work_sizes import SIZES
from .low_rank_hessian_terms import LowRank

__all__ = ["PanelSweeps", "SingleSweeps", "SweepMatrix", "own_terms"]


def own_terms(Y: np.ndarray, low: LowRank, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return V and c of a replicate's terms V' diag(c) V besides G, (M, k) and (M,)."""
    # The kernel is compiled for this memory layout only.
    V = np.ascontiguousarray(np.vstack([Y, low.U[:, :, b]]))
    return V, np.append(np.full(len(Y), -1.0), low.c[:, b])


class SweepMatrix(Protocol):
    """A matrix as an array, with the low-rank part of its eliminated columns.

    Attributes
    ----------
    rows : (k, at least k) array
    f, eliminated, Y
        As in `ReducedHessian`.
    """

    rows: np.ndarray
    f: np.ndarray
    eliminated: np.ndarray
    Y: np.ndarray

    def propagate_updates(self, a: int, b: int, delta: np.ndarray, s: np.ndarray) -> None:
        """Add the effect of changes of the coordinates a … b to all other slopes s (k, B)."""


class PanelSweeps:
    """Sweeps of several models; see `Sweeps`."""

    def __init__(self, shared: SweepMatrix, low: LowRank) -> None:
        self.shared, self.low = shared, low
        self._U = np.ascontiguousarray(low.U)  # The kernel is compiled for this memory layout only.

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
        rest: np.ndarray,
    ) -> None:  # fmt: skip
        """See `Sweeps.run`."""
        shared, low = self.shared, self.low
        k, B = y.shape
        t = np.zeros(low.c.shape)
        for a in range(0, k, SIZES.panel_coordinates):
            # Changes of a panel are propagated to all other coordinates at once.
            b = min(a + SIZES.panel_coordinates, k)
            delta = np.empty((b - a, B))
            if descend_panel(
                shared.rows, shared.Y, shared.eliminated, a, s, y, h, l1, l2, self._U, t, low.c,
                rest, delta, *panel_room(b - a, B, len(shared.Y)),
            ):  # fmt: skip
                shared.propagate_updates(a, b, delta, s)
        if len(low.U):
            s += np.einsum("mb,mkb->kb", low.c * t, low.U)


class SingleSweeps:
    """Sweeps of a single model over all coordinates; see `Sweeps`."""

    def __init__(self, shared: SweepMatrix, low: LowRank) -> None:
        self.shared = shared
        self._V, self._c = own_terms(shared.Y, low, 0)

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
        rest: np.ndarray,
    ) -> None:  # fmt: skip
        """See `Sweeps.run`."""
        shared, f, c = self.shared, self.shared.f, self._c
        s1, y1, h1, first, second = (np.ascontiguousarray(x[:, 0]) for x in (s, y, h, l1, l2))
        descend_alone(
            shared.rows, self._V, c, f, shared.eliminated, s1, y1, h1, first, second,
            np.zeros(len(c)), s1[f],
        )  # fmt: skip
        s[:, 0], y[:, 0] = s1, y1
