"""Selection of informative strata, and sums within strata, for conditional models."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..backends.backend_interface import Array, Backend
from ..errors import DataError
from .risk_sets import runs_of_rows

__all__ = ["gather_strata", "lone_rows", "parts_of_strata", "single_rows", "within_strata"]


def gather_strata(
    strata: np.ndarray, informative: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Order rows by stratum and drop uninformative strata.

    Parameters
    ----------
    strata : (n,) int array
        Codes 0 … S−1 of the rows' strata, in any order.
    informative : (S,) bool array
        Strata to keep.

    Returns
    -------
    order : (m,) int array or None
        The row for each row of the model; None if all rows are kept and already contiguous by
        stratum, so that nothing needs to be copied.
    pointers : (kept + 1,) int array
        Boundaries of the kept strata.
    kept : (kept,) int array
        Codes of the kept strata.
    """
    kept = np.flatnonzero(informative)
    if len(kept) == 0:
        raise DataError(
            "No stratum carries information about the coefficients: each has one row only or an "
            "outcome that does not differ from row to row. Check that strata are the matched "
            "sets (or persons) and y the outcome."
        )
    pointers = np.concatenate([[0], np.cumsum(np.bincount(strata)[kept])])
    everything = len(kept) == len(informative)
    if bool((strata[1:] >= strata[:-1]).all()):
        return (None if everything else np.flatnonzero(informative[strata])), pointers, kept
    rows = np.arange(len(strata)) if everything else np.flatnonzero(informative[strata])
    return rows[np.argsort(strata[rows], kind="stable")], pointers, kept


def single_rows(strata: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find rows with events that are the only row of their stratum.

    A row of weight w represents w rows with equal shares. It adds the constant −w y log w to the
    log-likelihood.
    """
    return np.flatnonzero((np.bincount(strata) == 1)[strata] & (y > 0))


def lone_rows(
    w: Array,
    wy: Array,
    own: slice | np.ndarray,
    start: np.ndarray,
    pointers: np.ndarray,
    backend: Backend,
) -> Array:
    """Compute Σ w y log w of each stratum with exactly one weighted row, zero for others, (S, B).

    This is the contribution of such a row to the loss. The score must not count it, so that rows
    without weight have the same effect as absent rows.

    Parameters
    ----------
    w : (n, B) array
    wy : (m, B) array
        w y of the rows with events.
    own : (m,) int array or slice
        The rows with events among the n rows.
    start : (S + 1,) int array
        Boundaries of the strata among the rows with events.
    pointers : (S + 1,) int array
        Boundaries of the strata among the n rows.
    """
    xp = backend.xp
    there = backend.segment_sum((w > 0).astype(np.float64), pointers)
    x = wy * xp.log(xp.where(w[own] > 0, w[own], 1.0))
    return xp.where(there == 1, backend.segment_sum(x, start), 0.0)


def within_strata(
    Z: Array, expected: Array, residual: Array, pointers: np.ndarray, backend: Backend
) -> Array:
    """Compute (z − z̄_s) times the residual of each row, (n, L).

    The mean z̄_s over a stratum is weighted by the expected counts.

    Parameters
    ----------
    Z : (n, L) array
    expected, residual : (n, 1) arrays
    pointers : (S + 1,) int array
    """
    xp, L = backend.xp, Z.shape[1]
    wide = xp.zeros((len(Z), backend.lanes(L + 1)))
    wide[:, :L], wide[:, L] = expected * Z, expected[:, 0]
    sums = backend.segment_sum(wide, pointers)
    total = sums[:, L : L + 1]
    mean = sums[:, :L] / xp.where(total > 0, total, 1.0)
    return (Z - mean[runs_of_rows(pointers)]) * residual


def parts_of_strata(
    rows: np.ndarray, stratum: np.ndarray, cuts: np.ndarray
) -> list[np.ndarray] | None:
    """Encode strata separately for the rows of X between cuts; None if a stratum is cut.

    Parameters
    ----------
    rows : (m,) int array
        The row of X for each row of the model. Each row of X that the model leaves out gets its own
        stratum.
    stratum : (m,) int array
        Stratum of each row of the model, ascending.
    cuts : (K + 1,) int array
        From 0 to the number of rows of X.
    """
    part = np.searchsorted(cuts, rows, side="right") - 1
    if (np.diff(part)[np.diff(stratum) == 0] != 0).any():
        return None
    whole = stratum[-1] + 1 + np.arange(cuts[-1]) if len(rows) else np.arange(cuts[-1])
    whole[rows] = stratum
    return [np.unique(whole[a:b], return_inverse=True)[1] for a, b in pairwise(cuts)]
