"""What a Hessian is worth making: of which rows, in which precision, or none at all."""

from __future__ import annotations

import numpy as np

from .data_term import DataTerm
from .elastic_net_penalty import ElasticNetPenalty

__all__ = ["in_single_precision", "one_row_in", "too_wide"]

THINNEST = 8  # rows of which one goes into a Hessian, at most,
ENOUGH = 16  # of rows or events for each column
MANY_PAIRS = 2e5  # additions of a Hessian for which leaving rows out is worth it
WIDEST = 20_000  # columns beyond which the Gram matrix (4 k² bytes, twice in passing) is not made
WIDE = 6000  # columns from which on it is not made where it has many entries for each of the rows,
SPARSER = 8.0  # so many under an ℓ1 penalty (those are read again and again in place of it),
EACH_MORE = 1.2  # and these for each more replicate, which reads the rows for itself,
GROUPED = 0.2  # or these with rank-one terms, which only steps by columns have exactly;
DENSER = 4.0  # or so many without, where its Cholesky factor is needed in double precision
SMALL = 512  # columns up to which a Hessian is in double precision,
MANY_ROWS = 4  # and rows for each column from which on it need not be


def one_row_in(term: DataTerm, penalty: ElasticNetPenalty) -> int:
    """The rows of which one goes into a Hessian far from the end, 1 for all."""
    if not penalty.l1[term.W].any():
        return 1
    if (term.entries / term.rows) ** 2 * term.rows < MANY_PAIRS:
        return 1
    return int(np.clip(term.effective_rows // (ENOUGH * max(len(term.W), 1)), 1, THINNEST))


def in_single_precision(term: DataTerm, lasso: bool) -> bool:
    """Whether a Hessian may be rounded to single precision.

    Under an ℓ1 penalty, which a matrix that is nearly singular does no harm, if the rows are
    enough to tell the columns apart; small ones cost little in any precision.
    """
    k = len(term.W)
    return lasso and k > SMALL and term.rows > MANY_ROWS * k


def too_wide(term: DataTerm, lasso: bool, free: bool, grouped: bool) -> bool:
    """Whether there are too many columns for a Gram matrix; models are by columns then.

    ``free`` is whether many have no penalty: then only the largest matrix is too large, as it is
    solved with exactly. ``grouped`` is whether the curvature has rank-one terms, which descent by
    columns sees one of.
    """
    k = len(term.W)
    if k <= WIDE or not term.columnar:
        return False
    if k > WIDEST or (free and not lasso):
        return k > WIDEST
    if lasso:
        more = GROUPED if grouped else EACH_MORE
        return k**2 > (SPARSER + more * (term.B - 1)) * term.entries
    return k**2 > DENSER * term.entries and not grouped
