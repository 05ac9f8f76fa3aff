"""A linear program that detects separation in cumulative models.

The outcome of row i of a cumulative model lies between two thresholds, α_low(i) − η_i and
α_up(i) − η_i. As (α, η) diverges along (a, X d), its probability falls to zero unless
a_low(i) ≤ x_i'd ≤ a_up(i), in which case it never falls. Such a exist if and only if

    x_i'd ≤ x_j'd    for all rows i and j with up(i) ≤ low(j), that is, with i's outcome below j's.

Whether a finite maximum exists therefore depends on this condition only (Albert and Anderson 1984,
for the logistic model), whatever the link, the weights, the offsets and the end of a fit. It is a
linear program in d (Konis 2007). Few of the pairs matter, and they are added as they are violated.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from ...design_matrix.design_interfaces import RowsLike

__all__ = ["ordering_direction"]

# At most this many linear programs are solved.
MAX_PROGRAMS = 300
# Rows that differ by less than this share of their parts are tied up to rounding.
TIED_SHARE = 1e-9
# The linear-programming solver allows no smaller feasibility tolerance.
FEASIBILITY_TOL = 1e-10
# At least this many pairs are added at once.
MIN_ADDED_PAIRS = 50
# This many pairs are examined together.
PAIRS_AT_ONCE = 1000


def ordering_direction(
    rows: RowsLike, low: np.ndarray, up: np.ndarray, size: np.ndarray
) -> np.ndarray | None:
    """Find the direction d along which rows are ordered like their outcomes, or None.

    Parameters
    ----------
    rows : RowsLike
        k columns, n rows.
    low, up : (n,) int arrays
        The thresholds below and above each row's outcome; −1 and the number of thresholds where
        there is none. A row with neither is not compared.
    size : (k,) array
        Positive units in which the elements of d are measured.

    Returns
    -------
    (k,) array or None
        d times ``size``, with the least sum of absolute values, hence of few columns.
    """
    low, up = low.astype(np.int64), up.astype(np.int64)
    before = np.searchsorted(np.sort(up), low, side="right")
    after = len(low) - np.searchsorted(np.sort(low), up, side="left")
    pairs = float(before.sum())
    if not pairs:
        return None
    # The sum over all pairs, which is positive along a direction that orders any of them.
    gain = _product(rows, (before - after) / pairs) / size
    largest = np.abs(gain).max()
    if not largest > 0:
        return None
    met = np.empty((0, len(size)))
    known: set[tuple[int, int]] = set()
    most = max(MIN_ADDED_PAIRS, 2 * len(size))
    for _ in range(MAX_PROGRAMS):
        e = _solve_linear_program(gain / largest, met)
        if e is None:
            return None
        z = rows.backend.to_host(rows.matmul(rows.backend.asarray((e / size)[:, None])))[:, 0]
        wrong = _confirmed_pairs(rows, e / size, _violated_pairs(z, low, up, most), most)
        if not wrong:
            return e
        fresh = sorted(wrong - known)
        if not fresh:  # The remaining violations are below the solver's tolerance.
            return None
        known.update(fresh)
        i, j = np.array(fresh).T
        met = np.concatenate([met, (_take_rows(rows, j) - _take_rows(rows, i)) / size])
    return None


def _product(rows: RowsLike, v: np.ndarray) -> np.ndarray:
    """Compute X'v, (k,)."""
    out: np.ndarray = rows.backend.to_host(rows.rmatmul(rows.backend.asarray(v[:, None])))[:, 0]
    return out


def _confirmed_pairs(
    rows: RowsLike, d: np.ndarray, pairs: tuple[np.ndarray, np.ndarray, np.ndarray], most: int
) -> set[tuple[int, int]]:
    """Return the worst pairs of rows that are in the wrong order by more than rounding."""
    below, above, excess = pairs
    wrong = np.flatnonzero(excess > 0)
    wrong = wrong[np.argsort(-excess[wrong], kind="stable")]
    out: set[tuple[int, int]] = set()
    for a in range(0, len(wrong), PAIRS_AT_ONCE):
        at = wrong[a : a + PAIRS_AT_ONCE]
        part = sum(np.abs(_take_rows(rows, end[at])) @ np.abs(d) for end in (below, above))
        real = at[excess[at] > TIED_SHARE * part]
        out.update(zip(below[real].tolist(), above[real].tolist(), strict=True))
        if len(out) >= most:
            break
    return out


def _take_rows(rows: RowsLike, which: np.ndarray) -> np.ndarray:
    """Return some rows of X, (m, k)."""
    one_by_one = np.ones(len(which)), np.arange(len(which) + 1), which
    out: np.ndarray = rows.backend.to_host(rows.sums(*one_by_one))
    return out


def _solve_linear_program(gain: np.ndarray, met: np.ndarray) -> np.ndarray | None:
    """Minimise Σ|e| over e (k,) with gain'e = 1 and met e ≥ 0; None if infeasible."""
    k, part = len(gain), np.abs(met).max(axis=1, initial=0.0)
    A = met[part > 0] / part[part > 0, None]
    found = optimize.linprog(
        np.ones(2 * k), A_ub=np.hstack([-A, A]), b_ub=np.zeros(len(A)),
        A_eq=np.hstack([gain, -gain])[None, :], b_eq=[1.0], method="highs",
        options={"primal_feasibility_tolerance": FEASIBILITY_TOL},
    )  # fmt: skip
    return found.x[:k] - found.x[k:] if found.status == 0 else None


def _violated_pairs(
    z: np.ndarray, low: np.ndarray, up: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the worst pairs at each threshold: rows below, rows above, and the violation of z.

    One pair for each threshold, or about ``most`` pairs of different rows if there are few
    thresholds.
    """
    K = int(max(up.max(), low.max() + 1))
    if most < 2 * K:
        below, highest = _running_maxima(z, up, K)
        above, lowest = _running_maxima(-z[::-1], (K - 1 - low)[::-1], K)
        above, lowest = len(z) - 1 - above[::-1], -lowest[::-1]
        return below, above, highest - lowest
    each, found = most // K, []
    for k in range(K):
        below, above = np.flatnonzero(up <= k), np.flatnonzero(low >= k)
        m = min(each, len(below), len(above))
        found.append((below[_largest(z[below], m)], above[_largest(-z[above], m)]))
    i, j = (np.concatenate(ends) for ends in zip(*found, strict=True))
    return i, j, z[i] - z[j]


def _largest(z: np.ndarray, m: int) -> np.ndarray:
    """Return the places of the m largest elements, in descending order."""
    at = np.argpartition(-z, m - 1)[:m] if 0 < m < len(z) else np.arange(len(z))
    return at[np.argsort(-z[at], kind="stable")][:m]


def _running_maxima(z: np.ndarray, at: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row with the largest z among those with ``at`` ≤ k, and that z, for each k < K."""
    order = np.argsort(at, kind="stable")
    best = np.maximum.accumulate(z[order])
    fresh = np.concatenate([[True], best[1:] > best[:-1]])
    row = order[np.maximum.accumulate(np.where(fresh, np.arange(len(z)), 0))]
    last = np.searchsorted(at[order], np.arange(K), side="right") - 1
    return row[last], np.where(last >= 0, best[last], -np.inf)
