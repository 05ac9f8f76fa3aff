"""The choice of rows, precision and storage of a Hessian."""

from __future__ import annotations

import numpy as np

from ..data_term import DataTerm
from ..elastic_net_penalty import ElasticNetPenalty
from ..solver_constants import HessianPolicy

__all__ = ["in_single_precision", "one_row_in", "too_wide"]


def one_row_in(term: DataTerm, penalty: ElasticNetPenalty, policy: HessianPolicy) -> int:
    """Return m if one row in m suffices for a Hessian far from the optimum, 1 for all rows."""
    if not penalty.some_l1[term.W].any():
        return 1
    if (term.entries / term.rows) ** 2 * term.rows < policy.min_pairs:
        return 1
    rows = term.effective_rows // (policy.rows_per_column * max(len(term.W), 1))
    return int(np.clip(rows, 1, policy.max_subsampling))


def in_single_precision(term: DataTerm, lasso: bool, policy: HessianPolicy) -> bool:
    """Return whether a Hessian may be rounded to single precision.

    It may under an ℓ1 penalty, to which a nearly singular matrix does no harm, with enough rows
    to distinguish the columns. Small ones cost little in any precision.
    """
    k = len(term.W)
    return lasso and k > policy.max_double_columns and term.rows > policy.single_rows_per_column * k


def too_wide(term: DataTerm, lasso: bool, free: bool, grouped: bool, policy: HessianPolicy) -> bool:
    """Return whether a Gram matrix would be too wide, so that an operator is used.

    Parameters
    ----------
    free : bool
        Whether many columns have no penalty. Their systems are solved exactly, so only the largest
        matrices are too large.
    grouped : bool
        Whether the curvature has rank-one terms, of which descent by columns sees only one.
    """
    k = len(term.W)
    if k <= policy.min_wide_columns or not term.columnar:
        return False
    if k > policy.max_matrix_columns or (free and not lasso):
        return k > policy.max_matrix_columns
    if lasso:
        more = policy.entries_per_grouped_replicate if grouped else policy.entries_per_replicate
        return k**2 > (policy.entries_lasso + more * (term.B - 1)) * term.entries
    return k**2 > policy.entries_ridge * term.entries and not grouped
