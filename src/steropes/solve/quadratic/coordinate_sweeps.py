"""Coordinate descent on a matrix: in panels for several models, or one alone."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...backends.cpu.descent import descend_alone, descend_panel, panel_room
from .low_rank import LowRank

__all__ = ["PanelSweeps", "SingleSweeps", "SweepMatrix", "own_terms"]

PANEL = 512  # coordinates whose moves are told to others at once


def own_terms(Y: np.ndarray, low: LowRank, b: int) -> tuple[np.ndarray, np.ndarray]:
    """What a replicate's matrix has beside G: V' diag(c) V, (M, k) and (M,)."""
    V = np.ascontiguousarray(np.vstack([Y, low.U[:, :, b]]))  # compiled for no other layout
    return V, np.append(np.full(len(Y), -1.0), low.c[:, b])


class SweepMatrix(Protocol):
    """A matrix as an array, with what its columns without penalty take out of it.

    Attributes
    ----------
    rows : (k, at least k) array
    f, eliminated, Y
        As of `ReducedMatrix`.
    """

    rows: np.ndarray
    f: np.ndarray
    eliminated: np.ndarray
    Y: np.ndarray

    def propagate_updates(self, a: int, b: int, delta: np.ndarray, s: np.ndarray) -> None:
        """Add to the slopes s (k, B) of all others what changes of the coordinates a … b are."""


class PanelSweeps:
    """Of several models; see `Sweeps`."""

    def __init__(self, shared: SweepMatrix, low: LowRank) -> None:
        self.shared, self.low = shared, low
        self._U = np.ascontiguousarray(low.U)  # the kernel is compiled for no other layout

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
    ) -> None:  # fmt: skip
        """See `Sweeps.run`."""
        shared, low = self.shared, self.low
        k, B = y.shape
        t = np.zeros(low.c.shape)
        for a in range(0, k, PANEL):
            # What moves here is told to all the others at once, when the panel is through.
            b = min(a + PANEL, k)
            delta = np.empty((b - a, B))
            if descend_panel(
                shared.rows, shared.Y, shared.eliminated, a, s, y, h, l1, l2, self._U, t, low.c,
                delta, *panel_room(b - a, B, len(shared.Y)),
            ):  # fmt: skip
                shared.propagate_updates(a, b, delta, s)
        if len(low.U):
            s += np.einsum("mb,mkb->kb", low.c * t, low.U)


class SingleSweeps:
    """Of a single model, all of whose coordinates are visited; see `Sweeps`."""

    def __init__(self, shared: SweepMatrix, low: LowRank) -> None:
        self.shared = shared
        self._V, self._c = own_terms(shared.Y, low, 0)

    def run(
        self, s: np.ndarray, y: np.ndarray, h: np.ndarray, l1: np.ndarray, l2: np.ndarray,
    ) -> None:  # fmt: skip
        """See `Sweeps.run`."""
        shared, f, c = self.shared, self.shared.f, self._c
        s1, y1, h1, first, second = (np.ascontiguousarray(x[:, 0]) for x in (s, y, h, l1, l2))
        descend_alone(
            shared.rows, self._V, c, f, shared.eliminated, s1, y1, h1, first, second,
            np.zeros(len(c)), s1[f],
        )  # fmt: skip
        s[:, 0], y[:, 0] = s1, y1
