"""Which columns the folds are likely to need before they are fitted.

Each would otherwise join when a fold asks for it, and rebuild the rows every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..backends.tall_reductions import row_any, row_max, row_min

__all__ = ["Ahead", "Expected"]

NEAR = 0.9  # of λ: the slope expected of a fold from which a column is let in, or λ itself
MANY = 4000  # where there are many: columns in vain cost more then than another look;
BROAD = 12_000  # in all at most, of which the matrix is half a gigabyte,
WIDEST = 2.0  # or as many for each coefficient that is not zero,
SOME = 500  # or so many more in any case;
IDLE = 0.8  # of λ: the slope below which one that is zero everywhere leaves
WORTH = 0.3  # share of the working set that must be idle for the rows to be made again


class Ahead(NamedTuple):
    """What is known of a variance before anything is fitted under it.

    Attributes
    ----------
    beta : (p, 1) or (p, B) array
        Where replicates start from.
    slope : (p,) array
        The largest slope that is expected of any of them, in X's units.
    nonzero : int
        Coefficients that will not be zero, nearly.
    share : float
        Of λ: what slope is enough for a column to be let in.
    """

    beta: np.ndarray
    slope: np.ndarray
    nonzero: int
    share: float


class Expected:
    """The slopes that folds are expected to have, from how they differed the last time.

    A fold's differ from the full data's by what its rows say, much the same at every variance.

    Parameters
    ----------
    scale : (p,) array
        What each column was divided by: gradients are those of the scaled columns.
    """

    def __init__(self, scale: np.ndarray) -> None:
        self.scale = scale
        # How far the folds' slopes went beyond the full data's, up and down.
        self._above, self._below = np.zeros(len(scale)), np.zeros(len(scale))

    def note(self, g: np.ndarray, whole: np.ndarray) -> None:
        """Take note of gradients (p, B) of folds beside that of the full data (p,)."""
        whole = whole * self.scale
        np.maximum(self._above, row_max(g) * self.scale - whole, out=self._above)
        np.minimum(self._below, row_min(g) * self.scale - whole, out=self._below)

    def after(self, beta: np.ndarray, g: np.ndarray, nonzero: int) -> Ahead:
        """What there is to expect of folds where the full data are, with their gradient (p,).

        What was noted until now has been used then.
        """
        g = g * self.scale
        slope = np.maximum(np.abs(g + self._above), np.abs(g + self._below))
        self._above[:] = self._below[:] = 0.0
        return Ahead(beta, slope, nonzero, NEAR)

    def heading(self, beta: np.ndarray, g: np.ndarray, nonzero: int) -> Ahead:
        """The same where coefficients and gradients (p, B) are told of each replicate."""
        return Ahead(beta, row_max(np.abs(g)) * self.scale, nonzero, 1.0)

    def kept(
        self, W: np.ndarray, l1: np.ndarray, ahead: Ahead, ends: Iterable[sparse.csc_array]
    ) -> np.ndarray | None:
        """Places of the working set that are worth keeping, or None where that is nearly all.

        Parameters
        ----------
        ends : iterable of (p, b) sparse arrays
            Coefficients that are near those to come.
        """
        used = row_any(ahead.beta) | (ahead.slope >= IDLE * l1)
        for end in ends:
            used[end.indices] = True
        kept = np.flatnonzero(used[W])
        return kept if len(kept) < (1 - WORTH) * len(W) else None

    def new(self, k: int, inside: np.ndarray, l1: np.ndarray, ahead: Ahead) -> np.ndarray:
        """Columns to let into a working set of k, those that are ``inside`` (p,) being in it."""
        share = ahead.share if k < MANY else 1.0
        new = np.flatnonzero((ahead.slope > share * l1) & ~inside)
        most = max(SOME, max(BROAD, int(WIDEST * ahead.nonzero)) - k)
        if len(new) > most:  # the most urgent of them, those without λ first
            urgency = np.full(len(new), np.inf)
            np.divide(ahead.slope[new], l1[new], out=urgency, where=l1[new] > 0)
            new = new[np.argsort(-urgency, kind="stable")[:most]]
        return new
