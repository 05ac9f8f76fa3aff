"""Structures that the Hessian of a likelihood in the linear predictors can have.

A likelihood describes its Hessian H_η in the linear predictor of one replicate and never sees X.
The solver computes X' H_η X for some columns (`steropes.solve.hessian`), with one file for each
kind. A new kind needs a class here, an entry in `Curvature` and a file there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .nuisance_hessian import Block

__all__ = [
    "ChannelCurvature",
    "Curvature",
    "GroupedCurvature",
    "OperatorCurvature",
    "ProfiledCurvature",
    "SubdistributionCurvature",
    "pair_of",
]


@dataclass
class GroupedCurvature:
    """A diagonal minus rank-one terms of nested groups of rows.

    X' H_η X = X' diag(v) X − Σ_g c_g m_g m_g',   m_g = Σ_{i in g} u_i x_i.

    Groups are prefixes of runs of lines: the terms u_i x_i of a run are added to a sum that starts
    from zero, and each line with nonzero ``c`` ends a group. A line refers to the row of the model
    with its number, or to ``rows[line]`` if given, so that a row can occur twice or be removed by
    a negative u. Risk sets of a Cox model and strata of a conditional model have this form; a
    generalised linear model has the diagonal only.

    Attributes
    ----------
    v : (n,) array
        Diagonal, at least zero.
    u : (L,) array or None
        Weights of the lines; None without groups.
    runs : (S + 1,) int array or None
        Boundaries of the runs (strata) among the lines.
    c : (L,) array or None
        Weight of the group that ends with each line, zero if none does.
    rows : (L,) int array or None
        The model's row for each line; None is the identity.
    """

    v: Any
    u: Any = None
    runs: Any = None
    c: Any = None
    rows: Any = None

    @property
    def grouped(self) -> bool:
        """Whether there are rank-one terms."""
        return self.u is not None


@dataclass
class SubdistributionCurvature:
    """Risk sets in which rows with a competing event remain (Fine and Gray 1999).

    X' H_η X = X' diag(v) X − Σ_g c_g m_g m_g',
    m_g = Σ_{at risk at t_g} r_i x_i + G(t_g−) Σ_{T_i < t_g} late_i x_i.

    The first sum is a running sum over lines, as in `GroupedCurvature`. The second runs from early
    to late times within strata. Rows are sorted by stratum and from late to early, and the second
    sum of group g covers the rows of its stratum from ``ends[g]`` on.

    Attributes
    ----------
    v : (n,) array
        Diagonal.
    u, runs, c, rows
        Lines of the rows at risk and weights of the groups, as in `GroupedCurvature`.
    late : (n,) array
        Weight of a row after a competing event, r / G(T−).
    ends : (m,) int array
        One past the last row of each group with nonzero weight, ascending within strata.
    G : (m,) array
        Probability of being under observation just before each group's time, up to a factor.
    stratum : (m,) int array
        Stratum of each group, ascending.
    strata_start : (S + 1,) int array
        Boundaries of the strata among the rows.
    """

    v: Any
    u: Any
    runs: NDArray[np.int64]
    c: NDArray[np.float64]
    rows: NDArray[np.int64] | None
    late: Any
    ends: NDArray[np.int64]
    G: NDArray[np.float64]
    stratum: NDArray[np.int64]
    strata_start: NDArray[np.int64]
    grouped = True

    @property
    def at_risk(self) -> GroupedCurvature:
        """The curvature without rows after a competing event."""
        return GroupedCurvature(self.v, self.u, self.runs, self.c, self.rows)


@dataclass
class ChannelCurvature:
    """Several linear predictors per person, and a baseline shared by all people, if any.

    The classes of a multinomial model are channels without a baseline (K = 0), of which ``pairs``
    alone describes the Hessian.

    The rows of η are C channels of n people, h_ic, and a baseline a_k of K intervals, with
    η_ik = Σ_c f_c(k) h_ic + a_k while person i is at risk, first_i ≤ k < last_i, and f_0 = 1.
    With v_ik = w_i p_ik (1 − p_ik) for a logistic model at η_ik,

        ∂²/∂h_ic ∂h_id = Σ_k f_c(k) f_d(k) v_ik,    ∂²/∂h_ic ∂a_k = f_c(k) v_ik,
        ∂²/∂a_k² = Σ_i v_ik.

    The first and third are stored. The n · K values of the second are computed from the point
    where they are needed.

    Attributes
    ----------
    h, base : (C, n) and (K,) arrays
        The point at which the curvature is taken.
    w : (n,) array
        Row weights.
    functions : (K, C − 1) array
        f_1(k), f_2(k), ….
    first, last : (n,) int arrays
    pairs : (C (C + 1) / 2, n) array
        Σ_k f_c f_d v_ik for c ≤ d.
    at_time : (K,) array
        Σ_i v_ik.
    v : (C n + K,) array
        The diagonal over the rows of η.
    variances : function or None
        Yields slices of people with their v_ik, (m, K), on a device; None on the host, whose
        kernels compute v_ik from the point, and without a baseline.
    interval_weights : tuple or None
        Factors of v_ik for the host's kernels; see `IntervalWeights`.
    coupled : bool
        Whether the channels of a person are coupled. Otherwise ``pairs``, (C, n), has the pairs of
        each channel with itself alone, and others are zero.
    """

    h: Any
    base: Any
    w: Any
    functions: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    pairs: Any
    at_time: Any
    v: Any
    variances: Callable[[], Iterator[tuple[slice, Any]]] | None = None
    interval_weights: tuple[Any, ...] | None = None
    coupled: bool = True
    grouped = False

    def pair(self, c: int, d: int) -> Any:
        """∂²/∂h_ic ∂h_id of each person, (n,); c = d if channels are not coupled."""
        return self.pairs[pair_of(c, d, len(self.h)) if self.coupled else c]


def pair_of(c: int, d: int, C: int) -> int:
    """Return the position of two channels among the C (C + 1) / 2 pairs."""
    c, d = min(c, d), max(c, d)
    return c * C - c * (c - 1) // 2 + d - c


@dataclass
class OperatorCurvature:
    """A Hessian H_η that is available only through its products with directions in η.

    In the exact conditional likelihood, H_η is the covariance of the draws, block diagonal by
    stratum, and recursions compute its product with a direction at the cost of a gradient.

    Attributes
    ----------
    v : (n,) array
        Diagonal of an approximation diag(v) − Σ_s c_s v_s v_s' by stratum.
    product : function
        Maps T (n, K), on the host, to H_η T.
    """

    v: Any
    product: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    grouped = True


@dataclass
class ProfiledCurvature:
    """The curvature with nuisance parameters α eliminated, H_ηη − C'T⁻¹C.

    Here T = H_αα and C = H_αη. A row depends on α_up − η, α_low − η or both, so H_ηη is diagonal
    and C has at most two entries per row: −a_i at (up_i, i) and −b_i at (low_i, i).

    Attributes
    ----------
    v : (n,) array
        H_ηη: a + b for the rows below and zero for others.
    rows : (m,) int array or None
        The rows with weight, in the order of the arrays below; None means all rows.
    low, up : (m,) int32 arrays
        Parameters of each row; −1 and K mean none.
    a, b : (m,) arrays
        Entries of C with the opposite sign.
    pointers : (M + 1,) int array or None
        If ``block`` is a `Chain`, runs of these rows such that exactly the rows of run k have
        ``up`` = k and exactly those of run k + 1 have ``low`` = k.
    block : Block
        The Hessian T of the nuisance parameters.
    coarse : bool
        Whether neighbouring parameters may be pooled.
    safer : function or None
        For a loss that is not convex, computes a curvature that is positive in every row, for use
        if this one is not positive definite.
    """

    v: NDArray[np.float64]
    rows: NDArray[np.int64] | None
    low: NDArray[np.int32]
    up: NDArray[np.int32]
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    pointers: NDArray[np.int64] | None
    block: Block
    coarse: bool = False
    safer: Callable[[], ProfiledCurvature] | None = None
    grouped = True

    def among(self, order: NDArray[np.int64] | None, n: int) -> ProfiledCurvature:
        """Embed the rows at ``order`` among n rows; None means all rows in order."""
        if order is None:
            return self
        v = np.zeros(n)
        v[order] = self.v
        return replace(self, v=v, rows=order if self.rows is None else order[self.rows])


Curvature = (
    GroupedCurvature
    | SubdistributionCurvature
    | ChannelCurvature
    | OperatorCurvature
    | ProfiledCurvature
)
