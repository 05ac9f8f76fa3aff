"""Curvature added to a quadratic model where it cannot tell how far to go."""

from __future__ import annotations

import numpy as np

from ...backends.tall_reductions import column_any
from ..optimality.certificate import violations

__all__ = ["Damping"]

DAMPEST = 1e4  # of the curvature: damping with which a step that fails is the last
PATIENT = 8  # whole steps in a row that were held to the reach: from there on it is doubled,
FARTHEST = 1e9  # so many times at most


class Damping:
    """How much each replicate is damped, (lanes,), relative to its curvature.

    A replicate whose step failed to descend is damped in all coordinates (Levenberg 1944,
    Marquardt 1963), ten times as much after each failure; after a step that went well, a tenth.
    And a column without penalty has some room, which is doubled where a step was held back by it
    and went well all the same: large columns that nearly cancel have coefficients far out.

    Attributes
    ----------
    level : (lanes,) array
        Damping, in curvatures.
    room : (lanes,) array
        How far columns without penalty may go in a step, in the least that it ever is.
    stretch : (lanes,) array
        How far others may, in reaches. Where one row is far out, or absent, a column that is of
        size one there is tiny elsewhere, and what it needs is thousands of reaches away.
    """

    def __init__(self, lanes: int) -> None:
        self.level = np.zeros(lanes)
        self.room, self.stretch = np.ones(lanes), np.ones(lanes)
        self._short = np.zeros(lanes, bool)  # whether the last step would have gone beyond,
        self._times = np.zeros(lanes, np.int64)  # and how many before it

    def stepped(self, held: np.ndarray, t: np.ndarray) -> None:
        """Steps that were held back, or not, were then taken to a share t of their length."""
        factor = np.where(t == 1.0, 2.0, np.where(t > 0, 0.5, 1.0))
        self.room = np.maximum(1.0, np.where(held, factor, 1.0) * self.room)
        self._times = np.where(self._short & (t == 1.0), self._times + 1, 0)
        factor = np.where(self._times > PATIENT, 2.0, np.where(self._short & (t < 1.0), 0.5, 1.0))
        self.stretch = np.clip(factor * self.stretch, 1.0, FARTHEST)
        self._short[:] = False

    def hopeless(self, failed: np.ndarray) -> np.ndarray:
        """Those of the failed replicates that no damping helps."""
        return failed & (self.level >= DAMPEST)

    def failed(self, lanes: np.ndarray) -> None:
        """Steps of these replicates found no descent."""
        self.level[lanes] = np.maximum(1.0, 10 * self.level[lanes])

    def moved(self, lanes: np.ndarray) -> None:
        """Steps of these replicates went well."""
        self.level[lanes] *= np.where(self.level[lanes] > 0.1, 0.1, 0.0)

    def added(
        self, lanes: np.ndarray | list[int], h: np.ndarray, g: np.ndarray, beta: np.ndarray,
        l1: np.ndarray, l2: np.ndarray, trust_radius: float,
    ) -> np.ndarray | None:  # fmt: skip
        """Curvature to add so that no coefficient goes further than the model can tell.

        A rare column may have hardly any curvature, or none, where it stands: with the rows of a
        fold its ones can be gone, and exp may have underflowed. Alone it would step by its
        violation over its curvature; under an l1 penalty that is held to ``trust_radius``, or
        finally ``stretch`` times that. Near the optimum there is no violation and nothing is added.

        Parameters
        ----------
        h, g, beta, l1, l2 : (k, len(lanes)) arrays
            Curvature and gradient of the loss, coefficients, penalties.
        trust_radius : float
            See `DataTerm`.

        Returns
        -------
        array like h, or None where nothing is added
        """
        curve = h + l2
        mu = self.level[lanes] * np.maximum(curve, 0.0)
        if l1.any() and np.isfinite(trust_radius):
            needed = violations(g, beta, l1, l2) / (trust_radius * self.stretch[lanes])
            self._short[lanes] = column_any(needed > curve)
            mu = np.maximum(mu, needed - curve)
        return mu if (mu > 0).any() else None
