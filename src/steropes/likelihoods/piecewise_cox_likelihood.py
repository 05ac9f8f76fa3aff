"""Cox's partial likelihood with effects that are step functions of time.

At an event time in the interval q, row i has the linear predictor η_iq. Risk sets of different
intervals are disjoint, so the model is a Cox model of pieces of rows, cut at the steps and
stratified by interval. The cuts cause no late entry within an interval.
"""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Array, Backend
from .cox_likelihood import CoxLikelihood
from .cox_risk_set_sums import Ties
from .likelihood_interface import Part
from .sharded_partial_likelihood import ShardedPartialLikelihood

__all__ = ["PiecewiseCoxLikelihood", "cut_at"]


def cut_at(
    time: np.ndarray, event: np.ndarray, entry: np.ndarray | None, cuts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Split the time at risk of each row at the cuts.

    Parameters
    ----------
    time, event : (n,) arrays
    entry : (n,) array or None
    cuts : (Q − 1,) array
        Ascending; the intervals are (−∞, c_1], (c_1, c_2], …, (c_{Q−1}, ∞).

    Returns
    -------
    row, interval : (N,) int arrays
        Row and interval of each piece, sorted by interval and then row.
    time, event : (N,) arrays
        Outcome of each piece.
    entry : (N,) array or None
        Entry of each piece; None if no one enters within an interval.
    """
    n = len(time)
    last = np.searchsorted(cuts, time, side="left")
    first = np.zeros(n, np.int64) if entry is None else np.searchsorted(cuts, entry, side="right")
    pieces = [np.flatnonzero((first <= q) & (q <= last)) for q in range(len(cuts) + 1)]
    if len(cuts) and sum(len(x) for x in pieces) == n:
        # Rows of η and rows of X are distinguished by their number, so a piece that is never at
        # risk is added.
        spare = int(last[0] == 0)
        pieces[spare] = np.append(pieces[spare], 0)
    row = np.concatenate(pieces)
    interval = np.repeat(np.arange(len(pieces)), [len(x) for x in pieces])
    final = interval == last[row]
    upper = np.append(cuts, np.inf)[interval]
    start = None
    if entry is not None:
        lower = np.append(-np.inf, cuts)[interval]
        start = np.where(entry[row] > lower, entry[row], -np.inf)
        if np.isneginf(start).all():
            start = None
    time = np.where(final, time[row], np.where(interval < last[row], upper, -np.inf))
    return row, interval, time, np.where(final, event[row], 0), start


class PiecewiseCoxLikelihood(CoxLikelihood):
    """Negative log partial likelihood with one linear predictor for each row and interval.

    The rows of η are pieces, sorted by interval; `person` is the row of X of each piece and
    `piece_start` the start of each interval. Weights, offsets and folds refer to the n rows of X.

    Parameters
    ----------
    time, event, entry, strata, ties
        As in `CoxLikelihood`.
    cuts : (Q − 1,) array
        The steps, ascending.
    """

    has_third_derivative = True

    def __init__(
        self,
        time: np.ndarray,
        event: np.ndarray,
        backend: Backend,
        cuts: np.ndarray,
        entry: np.ndarray | None = None,
        strata: np.ndarray | None = None,
        ties: Ties = "efron",
    ) -> None:
        row, interval, t, e, start = cut_at(
            np.asarray(time, np.float64), np.asarray(event, np.int64), entry, cuts
        )
        n, code = len(time), np.zeros(len(row), np.int64)
        if strata is not None:
            code = np.asarray(strata, np.int64)[row]
        size = int(code.max(initial=0)) + 1
        super().__init__(t, e, backend, start, interval * size + code, ties)
        self.person = row[self.order]
        self.piece_start = np.searchsorted(interval[self.order], np.arange(len(cuts) + 2))
        self.interval_of, self.stratum_of = self.labels // size, self.labels % size
        self.order = None
        self.n = n
        self._given = np.array(time), np.array(event), None if entry is None else np.array(entry)

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`; the likelihood cannot be split."""
        return None

    def exchange(self, cuts: np.ndarray) -> ShardedPartialLikelihood | None:
        """See `Likelihood.exchange`."""
        return ShardedPartialLikelihood(self, self.person, cuts, interval=self.interval_of)

    @property
    def n_eta(self) -> int:
        """Number of rows of η, the pieces."""
        return len(self.person)

    @property
    def row_of_x(self) -> np.ndarray:
        """See `Likelihood.row_of_x`; the row of X of each piece."""
        return self.person

    def outcome(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """See `CoxLikelihood.outcome`; the rows are those of X, not the pieces."""
        return self._given

    def lift(self, offset: np.ndarray) -> np.ndarray:
        """See `Likelihood.lift`."""
        return offset if len(offset) == self.n_eta else offset[self.person]

    def weigh(self, w: Array) -> Array:
        """See `Likelihood.weigh`."""
        return super().weigh(w[self.person])
