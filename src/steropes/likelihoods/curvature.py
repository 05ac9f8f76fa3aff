"""The kinds of curvature that a likelihood can declare, as pure data in η.

A likelihood says what its Hessian H_η in the linear predictor is and never sees X; what
X' H_η X is for some columns is the solver's work (`steropes.solve.hessian`), one file a kind. The
points are of one replicate. A new kind is a class here, a member of `AnyCurvature`, and a file
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .nuisance_hessian import Block

__all__ = [
    "AnyCurvature",
    "ChannelCurvature",
    "GroupedCurvature",
    "OperatorCurvature",
    "ProfiledCurvature",
    "SubdistributionCurvature",
]


@dataclass
class GroupedCurvature:
    """A diagonal minus rank-one terms of nested groups of rows.

    X' H_η X = X' diag(v) X − Σ_g c_g m_g m_g',   m_g = Σ_{i in g} u_i x_i.

    Groups are prefixes of runs: walk through the lines of a run, adding u_i x_i to a sum that
    starts from zero, and take the term of a group out where ``c`` is not zero. A line is a row of
    the model, or ``rows[line]`` where given (a row can come twice, or be taken out again with a
    negative u). The risk sets of a Cox model and the strata of a conditional one are both that;
    a generalised linear model has the diagonal alone.

    Attributes
    ----------
    v : (n,) array
        Diagonal, at least zero.
    u : (L,) array or None
        Weights of the lines; None where there are no groups.
    runs : (S + 1,) int array or None
        Where the runs (strata) begin and end among the lines.
    c : (L,) array or None
        Weight of the group that ends with each line, zero where none does.
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
        """Whether rank-one terms are taken out of the diagonal."""
        return self.u is not None


@dataclass
class SubdistributionCurvature:
    """Risk sets that nobody with a competing event leaves (Fine and Gray 1999).

    X' H_η X = X' diag(v) X − Σ_g c_g m_g m_g',
    m_g = Σ_{at risk at t_g} r_i x_i + G(t_g−) Σ_{T_i < t_g} late_i x_i.

    The first sum is a running sum over lines, as in `GroupedCurvature`; the second one from early
    to late times, within strata: the rows are sorted by stratum and from late to early, and what
    group g's second sum has not yet reached ends at ``ends[g]``.

    Attributes
    ----------
    v : (n,) array
        Diagonal.
    u, runs, c, rows
        Lines of those at risk and the groups' weights, as in `GroupedCurvature`.
    late : (n,) array
        Weight of a row after a competing event, r / G(T−).
    ends : (m,) int array
        One past the last row of each group whose weight is not zero, ascending within strata.
    G : (m,) array
        Probability of being under observation just before each group's time, up to a factor.
    stratum : (m,) int array
        Of each group, ascending.
    strata_start : (S + 1,) int array
        Where the strata begin and end among the rows.
    """

    v: Any
    u: NDArray[np.float64]
    runs: NDArray[np.int64]
    c: NDArray[np.float64]
    rows: NDArray[np.int64] | None
    late: NDArray[np.float64]
    ends: NDArray[np.int64]
    G: NDArray[np.float64]
    stratum: NDArray[np.int64]
    strata_start: NDArray[np.int64]
    grouped = True

    @property
    def at_risk(self) -> GroupedCurvature:
        """What it is without those who stay after a competing event."""
        return GroupedCurvature(self.v, self.u, self.runs, self.c, self.rows)


@dataclass
class ChannelCurvature:
    """Several linear predictors a person, and a baseline that all people share.

    The rows of η are C channels of n people, h_ic, and a baseline a_k of K intervals, with
    η_ik = Σ_c f_c(k) h_ic + a_k while person i is at risk, first_i ≤ k < last_i, and f_0 = 1.
    With v_ik = w_i p_ik (1 − p_ik) of a logistic model at η_ik,

        ∂²/∂h_ic ∂h_id = Σ_k f_c(k) f_d(k) v_ik,    ∂²/∂h_ic ∂a_k = f_c(k) v_ik,
        ∂²/∂a_k² = Σ_i v_ik.

    The first and the last are few numbers and are held; the n · K of the second are made where
    they are needed, from the point.

    Attributes
    ----------
    h, base : (C, n) and (K,) arrays
        The point.
    w : (n,) array
        Row weights.
    functions : (K, C − 1) array
        f_1(k), f_2(k), ….
    first, last : (n,) int arrays
    pairs : (C (C + 1) / 2, n) array
        Σ_k f_c f_d v_ik for c ≤ d.
    at_time : (K,) array
        Σ_i v_ik.
    """

    h: NDArray[np.float64]
    base: NDArray[np.float64]
    w: NDArray[np.float64]
    functions: NDArray[np.float64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    pairs: NDArray[np.float64]
    at_time: NDArray[np.float64]
    grouped = False

    @property
    def v(self) -> NDArray[np.float64]:
        """The diagonal over the rows of η."""
        diagonal = [self.pair(c, c) for c in range(len(self.h))]
        return np.concatenate([*diagonal, self.at_time])

    def pair(self, c: int, d: int) -> NDArray[np.float64]:
        """∂²/∂h_ic ∂h_id of each person, (n,)."""
        C = len(self.h)
        c, d = min(c, d), max(c, d)
        return self.pairs[c * C - c * (c - 1) // 2 + d - c]


@dataclass
class OperatorCurvature:
    """A Hessian H_η that is known by its products with directions in η only.

    Of the exact conditional likelihood: H_η is the covariance of the draws, block diagonal in the
    strata, and recursions give its products with a direction at the cost of a gradient.

    Attributes
    ----------
    v : (n,) array
        Its diagonal part in an approximation diag(v) − Σ_s c_s v_s v_s' by strata.
    product : function
        T (n, K), on the host, to H_η T.
    """

    v: Any
    product: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    grouped = True


@dataclass
class ProfiledCurvature:
    """Nuisance parameters α eliminated: H_ηη − C'T⁻¹C with T = H_αα and C = H_αη.

    A row depends on α_up − η and α_low − η, one or both of them, so that H_ηη is diagonal and C
    has two entries a row at most: −a_i at (up_i, i) and −b_i at (low_i, i).

    Attributes
    ----------
    v : (n,) array
        H_ηη, a + b of the rows below and zero elsewhere.
    rows : (m,) int array or None
        The rows with weight, in the order of the arrays below; None where they are all rows.
    low, up : (m,) int32 arrays
        Parameters of each row, −1 and K where there is none.
    a, b : (m,) arrays
    pointers : (M + 1,) int array or None
        Where ``block`` is a `Chain`: runs of these rows, such that the rows of run k alone have
        ``up`` = k and those of run k + 1 alone have ``low`` = k.
    block : Block
        T.
    coarse : bool
        Whether neighbouring parameters may be pooled.
    safer : function or None
        Of a loss that is not convex: makes a curvature that is positive in every row, for where
        this one turns out not to be.
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
        """The same over n rows of which these are those at ``order``; None is all, in order."""
        if order is None:
            return self
        v = np.zeros(n)
        v[order] = self.v
        return replace(self, v=v, rows=order if self.rows is None else order[self.rows])


AnyCurvature = (
    GroupedCurvature
    | SubdistributionCurvature
    | ChannelCurvature
    | OperatorCurvature
    | ProfiledCurvature
)
