"""Whether unpenalised columns have finite coefficients, and if not, which diverge.

A convex loss of η = base + X b has its minimum at a finite b unless there is a direction along
which it never rises. Both cases can be established at a point near the end, by numbers without a
unit.

*A finite minimum exists* if the Newton step there, s = −H⁻¹g, changes every linear predictor by
less than one. (Where a common shift of η has no effect, the largest difference of two changes must
be less than one.) For families whose means are exponentially tilted by η, the residuals r + V X s
satisfy X'(r + V X s) = 0 and are residuals of feasible means: p_i + v_i δ_i > 0, and < 1 where that
is required, for |δ_i| < 1. A positive solution of the score equations excludes that the loss is
flat along any direction (the theorem of the alternative; Albert and Anderson 1984, Biometrika 71:1,
and Haberman 1974 for counts).

*There is none* if Newton steps, each of size one or more in η, have exhausted the information along
their direction, and the loss does not rise two thousand such steps further out either. The distance
is needed because an exponential mean can fall for hundreds of steps before the observed counts stop
it.

The information is compared with that of the same direction at the start, with the intercept fitted
(or, in a model without one, at means of the outcome's size), or with the information of its columns
in other directions. The result therefore does not depend on offsets, or on units of the columns,
the outcome and the weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from ...backends.backend_interface import Array
from ..checked_problem_interface import SolverProblem
from ..linear_predictor import bound_weights, linear_predictor
from .collinearity import COLLINEAR, collinear_columns
from .unpenalised_loss import UnpenalisedLoss

__all__ = [
    "SMALL_STEP",
    "definite_inverse",
    "separated_column_names",
    "separating_direction",
    "separating_direction_without_fit",
    "unidentifiable_columns",
]

# A direction in the scaled columns and the root of each column's information at the start.
Separation = tuple[np.ndarray, np.ndarray]

# A Newton step that changes η by less is well below one that proves a finite minimum.
SMALL_STEP = 0.5
# Information below this share of that at the start may be rounding error and is examined.
DOUBTFUL_INFORMATION = 1e-6
# A column is examined too if others leave less than this share of its information.
MIN_UNEXPLAINED = 1e-9
# Above this share of the rows' weight, an intercept's information is not rounding error.
INTERCEPT_INFORMATION = 1e-10
# Below this share of the information met along a direction, nothing is left.
SPENT_INFORMATION = 1e-10
# The loss would have risen after one of these numbers of Newton steps further out.
LOOKAHEAD_STEPS = (2000.0, 300.0, 50.0)
# These shares of the information at the start count as none, from strict to lenient.
NO_INFORMATION = (1e-11, 1e-8, 1e-5)
# A walk is halved up to this many times to find a point with a finite Hessian.
MAX_WALK_HALVINGS = 6
# Slopes below this share of the information come from other components of the direction.
FOREIGN_SLOPE = 1e-9
# A walk takes at most this many Newton steps.
MAX_STEPS = 80
# A step is halved at most this many times.
MAX_HALVINGS = 80
# Beyond this change of η the local curvature is not informative.
LOCAL_CHANGE = 3.0
# The damping of a long step is reduced up to this many times, each time by this factor.
MAX_REDUCTIONS, REDUCTION = 40, 0.3
# This share of a column's information is rounding error.
INFORMATION_ROUNDING = 1e-15


def separating_direction(
    problem: SolverProblem, beta: np.ndarray, free: np.ndarray, eta: Array | None = None
) -> Separation | None:
    """Find a direction of the free columns along which the loss never rises.

    Parameters
    ----------
    beta : (p,) array
        The end of the fit, in X's units.
    free : (f,) int array
        Columns without any penalty, ascending. All others are fixed, because penalised coefficients
        cannot diverge.
    eta : (rows of η, 1) array, optional
        Linear predictors at ``beta``, if known.

    Returns
    -------
    (direction, size) or None
        (f,) arrays in the scaled columns: the direction, and the root of each column's information
        at the start. None where the maximum is finite, or where that could not be established.
    """
    if problem.likelihood.quadratic or len(free) == 0:
        return None
    scaled = beta * problem.design.scale
    if _intercept_has_finite_minimum(problem, scaled, free, eta):
        return None
    loss = UnpenalisedLoss.at_coefficients(problem, free, scaled, eta)
    start, direction = _start(problem, loss, free)
    if direction is not None:
        return direction, np.ones(len(free))
    h0 = loss.diagonal(start)
    if _has_finite_minimum(loss, scaled[free], h0):
        return None
    direction = _diverging_direction(loss, start, loss.hessian(start, levelled=True), scaled[free])
    if direction is None:
        _, direction = _follow_newton_steps(loss, start)
    if direction is not None:
        return direction, np.sqrt(np.where(h0 > 0, h0, 1.0))
    alone = UnpenalisedLoss.at_coefficients(problem, free, np.zeros(len(beta)))
    if (h0 < DOUBTFUL_INFORMATION * alone.diagonal(_start(problem, alone, free)[0])).any():
        # The penalised columns separate the rows at this point, which hides the free columns'
        # effect.
        return separating_direction_without_fit(problem, free)
    return None


def separating_direction_without_fit(problem: SolverProblem, free: np.ndarray) -> Separation | None:
    """Find a separating direction without a fit, with all other coefficients zero.

    Penalised coefficients cannot diverge, so the existence of a finite maximum over the others does
    not depend on their values.
    """
    if problem.likelihood.quadratic or len(free) == 0:
        return None
    loss = UnpenalisedLoss.at_coefficients(problem, free, np.zeros(problem.design.p))
    start, direction = _start(problem, loss, free)
    if direction is None:
        h0 = loss.diagonal(start)
        _, direction = _follow_newton_steps(loss, start)
        return None if direction is None else (direction, np.sqrt(np.where(h0 > 0, h0, 1.0)))
    return direction, np.ones(len(free))


def unidentifiable_columns(
    problem: SolverProblem, free: np.ndarray, partners: bool = False
) -> np.ndarray:
    """Return the free columns that are constant, zero or collinear among the rows that count.

    Of collinear columns, those that the others make redundant, or with ``partners`` all of them.
    """
    loss = UnpenalisedLoss.at_coefficients(problem, free, np.zeros(problem.design.p))
    start, _ = _start(problem, loss, free)
    H = loss.hessian(start)
    if not np.isfinite(H).all():
        return free[:0]
    h, v = np.diag(H), loss.likelihood.curvature(loss.eta(start), loss.weights).v
    raw = np.asarray(loss.backend.to_host(loss.rows.diagonal(v)))
    empty = ~(h > COLLINEAR * np.where(raw > 0, raw, 1.0))
    if empty.any():
        if not partners or empty.all():
            return free[empty]
        rest = unidentifiable_columns(problem, free[~empty], partners)
        return np.union1d(free[empty], rest)
    size = np.sqrt(h)
    redundant, others = collinear_columns(H / size / size[:, None])
    return free[np.sort(np.append(redundant, others) if partners else redundant)]


def separated_column_names(
    problem: SolverProblem, free: np.ndarray, found: Separation
) -> list[str]:
    """Return the names of the columns that a separating direction moves most."""
    direction, size = found
    design = problem.design
    whole = np.zeros(design.p)  # The intercept refers to X = 0, not to the columns' centres.
    whole[free] = direction
    whole = design.uncentered_coefficients(whole / design.scale) * design.scale
    share = np.abs(whole[free] * size)
    by = np.argsort(-share, kind="stable")
    return [design.names[free[j]] for j in by if share[j] > 0.1 * share.max()]


def _start(
    problem: SolverProblem, loss: UnpenalisedLoss, free: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Fit the intercept (or baseline) without the other columns; return it, or its divergence."""
    start, direction = np.zeros(len(free)), None
    lead = int((free < problem.n_free).sum())  # They are the first columns.
    if lead:
        constant = free < problem.n_constant  # Some of them may be fixed.
        start[constant] = problem.design.scale[free[constant]] * problem.start
        if constant[0]:
            eta = loss.eta(start)
            start[constant] += loss.likelihood.intercept_levels(eta, loss.weights, free[constant])
    if 0 < lead < len(free):
        null = UnpenalisedLoss(problem, loss.base, free[:lead])
        start[:lead], runs = _follow_newton_steps(null, start[:lead])
        if runs is not None:
            direction = np.zeros(len(free))
            direction[:lead] = runs
    return start, direction


def _intercept_has_finite_minimum(
    problem: SolverProblem, scaled: np.ndarray, free: np.ndarray, eta: Array | None
) -> bool:
    """Check `_has_finite_minimum` where only an intercept is free, in two passes over the rows.

    A single number's information needs no comparison with others: it is free of rounding if it is
    well above the rounding error of the rows' weights.
    """
    likelihood = problem.likelihood
    if not (problem.n_free == problem.n_constant == len(free) == 1 and free[0] == 0):
        return False
    if likelihood.grouped or not likelihood.convex or likelihood.n_eta != problem.design.n:
        return False
    eta = linear_predictor(problem, scaled) if eta is None else eta
    weights = bound_weights(problem)
    with np.errstate(all="ignore"):  # Values that are not finite prove nothing.
        r = likelihood.evaluate(eta, weights)[1]
        h = float(likelihood.curvature(eta, weights, exact=True).v.sum())
        g = float(r.sum())
    return h > INTERCEPT_INFORMATION * float(problem.weights.sum()) and abs(g) < SMALL_STEP * h


def _has_finite_minimum(loss: UnpenalisedLoss, b: np.ndarray, h0: np.ndarray) -> bool:
    """Return whether the end of the fit proves a finite minimum, free of rounding."""
    newton = definite_inverse(loss.lower_bound(b), h0)
    return newton is not None and bool(loss.extent(newton(loss.gradient(b))) < SMALL_STEP)


def definite_inverse(H: np.ndarray, h0: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the product of H⁻¹ with a vector; None if rounding may hide that H is singular.

    Parameters
    ----------
    H : (p, p) array
    h0 : (p,) array
        Diagonal at the start, of which each element must keep a share.
    """
    h = np.diag(H)
    if not np.isfinite(H).all() or not (h > DOUBTFUL_INFORMATION * h0).all():
        return None
    size = np.sqrt(h)
    try:
        L = linalg.cholesky(H / size / size[:, None], lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if np.diag(L).min() ** 2 < MIN_UNEXPLAINED:
        return None
    return lambda g: linalg.cho_solve((L, True), g / size, check_finite=False) / size


def _follow_newton_steps(
    loss: UnpenalisedLoss, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Take Newton steps from b until they prove a finite minimum or its absence.

    Returns the end point, and the direction of divergence or None.
    """
    met, radius = np.zeros((len(b), len(b))), LOCAL_CHANGE
    begin, first = b, loss.hessian(b, levelled=True)
    for _ in range(MAX_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):  # Values far out may overflow.
            g, H = loss.gradient(b), loss.hessian(b)
        if not (np.isfinite(g).all() and np.isfinite(H).all()):
            break
        met = met + H
        s = _newton_step(H, g)
        far = loss.extent(s) if np.isfinite(s).all() else 0.0
        if not far >= SMALL_STEP:
            break
        with np.errstate(over="ignore"):  # A step of hundreds of orders of magnitude is infinite.
            left = float(s @ H @ s)
            full = max(float(s @ met @ s), float(s**2 @ np.diag(H)))
            # The local value, unless b is still far from the region of interest.
            slope = min(left, float(s @ first @ s))
        if left < SPENT_INFORMATION * full and _slope_far_out(loss, b, s) <= loss.flat_slope(
            slope, far
        ):
            return b, s
        t = _step_length(loss, b, s, far, float(g @ s))
        if t < 1.0 and far > radius:
            s = _damped_newton_step(loss, H, g, radius)
            t = _step_length(loss, b, s, loss.extent(s), float(g @ s))
            radius = 2.0 * radius if t == 1.0 else LOCAL_CHANGE
        if t == 0.0:
            break
        b = b + t * s
    return b, _diverging_direction(loss, begin, first, b)


def _diverging_direction(
    loss: UnpenalisedLoss, begin: np.ndarray, first: np.ndarray, b: np.ndarray
) -> np.ndarray | None:
    """Return a direction of separation along which the coefficients have moved, or None.

    The path from ``begin`` to ``b`` is projected onto the directions that retain hardly any of the
    information at the beginning, (f, f) ``first``; unlike late gradients it is not dominated by
    rounding errors. The projection separates if the loss no longer rises along it.
    """
    H, walked = loss.hessian(b), b - begin
    for _ in range(MAX_WALK_HALVINGS):
        if np.isfinite(H).all():
            break
        walked = 0.5 * walked  # Nothing is finite there.
        b = begin + walked
        H = loss.hessian(b)
    if not (np.isfinite(H).all() and np.isfinite(first).all() and walked.any()):
        return None
    h = np.diag(first)
    size = np.sqrt(np.where(h > 0, h, 1.0))
    C, now = first / size / size[:, None], H / size / size[:, None]
    C[np.diag_indices(len(C))] += INFORMATION_ROUNDING
    try:
        value, U = linalg.eigh(now, C)
    except linalg.LinAlgError:
        return None
    along = U.T @ (C @ (walked * size))
    for left in NO_INFORMATION:
        gone = value < left
        if not gone.any():
            continue
        s = (U[:, gone] @ along[gone]) / size
        far = loss.extent(s)
        if not far > 1.0:
            continue
        s = s / far
        if _slope_far_out(loss, b, s) <= max(FOREIGN_SLOPE * float(s @ first @ s), loss.noise):
            return s
    return None


def _slope_far_out(loss: UnpenalisedLoss, b: np.ndarray, s: np.ndarray) -> float:
    """Compute the slope along s as far out as exp allows; risk sets underflow first.

    Infinite where means overflow, since the loss has risen without bound there.
    """
    for further in LOOKAHEAD_STEPS:
        if loss.overflows(b + further * s):
            return np.inf
        slope = loss.slope(b + further * s, s)
        if np.isfinite(slope):
            return slope
    return np.inf


def _damped_newton_step(
    loss: UnpenalisedLoss, H: np.ndarray, g: np.ndarray, radius: float
) -> np.ndarray:
    """Damp a Newton step to a length of about ``radius`` in η (Levenberg and Marquardt).

    Where η is far out, a Newton step is too long by orders of magnitude that differ between
    coefficients. A common factor would stop all of them for the sake of one, or move that one as
    far to the other side. The damping uses the information at η = 0 as its unit, which depends on
    the columns but not on η.
    """
    unit = loss.unit()
    damping = loss.extent(g / unit) / radius
    s = _newton_step(H + np.diag(damping * unit), g)
    for _ in range(MAX_REDUCTIONS):
        damping *= REDUCTION
        longer = _newton_step(H + np.diag(damping * unit), g)
        if not loss.extent(longer) <= radius:
            break
        s = longer
    return s * min(1.0, radius / loss.extent(s))


def _step_length(
    loss: UnpenalisedLoss, b: np.ndarray, s: np.ndarray, far: float, slope: float
) -> float:
    """Return the share of a step to take; a long step must not pass the minimum along it.

    If η starts far out, the loss has hardly any curvature, and a full step could end as far out on
    the other side.
    """
    t = 1.0
    for _ in range(MAX_HALVINGS):
        allowed = 0.0 if t * far > LOCAL_CHANGE else -0.1 * slope
        if loss.slope(b + t * s, s) <= allowed:
            return t
        t *= 0.5
    return 0.0


def _newton_step(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Compute −H⁻¹g; H may be singular to rounding."""
    h = np.diag(H)
    size = np.sqrt(np.where(h > 0, h, 1.0))
    C = H / size / size[:, None]
    try:
        factor = linalg.cho_factor(C, lower=True, check_finite=False)
        if np.diag(factor[0]).min() ** 2 > INFORMATION_ROUNDING:
            with np.errstate(over="ignore"):  # an infinite step is not taken
                return -linalg.cho_solve(factor, g / size, check_finite=False) / size
    except linalg.LinAlgError:
        pass
    value, U = linalg.eigh(C)
    with np.errstate(over="ignore"):  # Such a step, from columns of tiny unit, is not taken.
        return -(U @ ((U.T @ (g / size)) / np.maximum(value, INFORMATION_ROUNDING))) / size
