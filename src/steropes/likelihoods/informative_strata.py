"""Rows of the strata that carry information, side by side: what conditional models work on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..backends.protocols import Array, Backend
from ..errors import DataError
from .risk_sets import runs_of_rows

__all__ = ["gather_strata", "lone_rows", "parts_of_strata", "single_rows", "within_strata"]


def gather_strata(
    strata: np.ndarray, informative: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Order rows by stratum and leave out the strata that cannot matter.

    Parameters
    ----------
    strata : (n,) int array
        Codes 0 … S−1 of the rows' strata, in any order.
    informative : (S,) bool array
        Strata to keep.

    Returns
    -------
    order : (m,) int array or None
        The row for each row of the model; None where all are kept and already side by side,
        so that nothing needs to be copied or gathered.
    pointers : (kept + 1,) int array
        Where the kept strata begin and end.
    kept : (kept,) int array
        Their codes.
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
    """Rows with events that are alone in their stratum.

    One of weight w stands for w rows with the same share: it adds −w y log w to the
    log-likelihood, which no coefficient changes.
    """
    return np.flatnonzero((np.bincount(strata) == 1)[strata] & (y > 0))


def lone_rows(
    w: Array, wy: Array, own: Any, start: np.ndarray, pointers: np.ndarray, backend: Backend
) -> Array:
    """Σ w y log w of each stratum with one row that has weight, zero of others, (S, B).

    What the loss has of such a row. It has none if the stratum's other rows are absent, and so it
    must be if they are there without weight.

    Parameters
    ----------
    w : (n, B) array
    wy : (m, B) array
        w y of the rows with events.
    own : (m,) int array or slice
        These among the n.
    start : (S + 1,) int array
        Where each stratum begins among them,
    pointers : (S + 1,) int array
        and among the n.
    """
    xp = backend.xp
    there = backend.segment_sum((w > 0).astype(np.float64), pointers)
    x = wy * xp.log(xp.where(w[own] > 0, w[own], 1.0))
    return xp.where(there == 1, backend.segment_sum(x, start), 0.0)


def within_strata(
    Z: Array, expected: Array, residual: Array, pointers: np.ndarray, backend: Backend
) -> Array:
    """(z − z̄_s) times each row's residual, with the mean z̄_s weighted by what is expected: (n, L).

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
    """Codes of strata for the rows of X between cuts, or None where a stratum is cut.

    Parameters
    ----------
    rows : (m,) int array
        The row of X for each row of the model. Rows of X that it leaves out get strata of their
        own.
    stratum : (m,) int array
        Its stratum, ascending.
    cuts : (K + 1,) int array
        From 0 to the number of rows of X.
    """
    part = np.searchsorted(cuts, rows, side="right") - 1
    if (np.diff(part)[np.diff(stratum) == 0] != 0).any():
        return None
    whole = stratum[-1] + 1 + np.arange(cuts[-1]) if len(rows) else np.arange(cuts[-1])
    whole[rows] = stratum
    return [np.unique(whole[a:b], return_inverse=True)[1] for a, b in pairwise(cuts)]
