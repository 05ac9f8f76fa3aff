"""Whether the columns without penalty have finite coefficients, and if not, which run away.

A convex loss of η = base + X b has its minimum at a finite b unless it never rises along some
direction. Both answers can be told at a point near the end, in numbers without a unit:

*Yes*, if the Newton step there, s = −H⁻¹g, changes every linear predictor by less than one
(where a common shift of η counts for nothing: by less than one more than any other). For
families whose means are tilted by exp η, the residuals r + V X s have X'(r + V X s) = 0 and are
residuals of possible means still, p_i + v_i δ_i > 0 and < 1 for |δ_i| < 1; a positive solution
of the score equations rules out that the loss is flat along any direction (the theorem of the
alternative; Albert and Anderson 1984, Biometrika 71:1, and Haberman 1974 for counts).

*No*, if Newton's steps, each of the size of one and more in η, have used up the information
along their direction, and the loss does not rise two thousand such steps further on either: an
exponential falls for hundreds of steps before it meets the counts that hold it.

The information is compared with that of the same direction at the start, with the intercept
fitted (or, in a model without one, at means of the outcome's size), or with what its columns have
besides, so neither offsets, nor units of the columns, the outcome and the weights, have a part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ..linear_predictor import bound_weights, linear_predictor
from .unpenalised_loss import UnpenalisedLoss

__all__ = [
    "SINGULAR",
    "SMALL",
    "WORN",
    "named",
    "separating_direction",
    "separating_without_others",
    "undetermined_columns",
]

SMALL = 0.5  # change of η by a Newton step: well below the one that proves a finite optimum
WORN = 1e-6  # of the information at the start: less may be rounding, and is looked into
SINGULAR = 1e-9  # share of a column's information that others leave it: the same
LEVEL = 1e-10  # of the rows' weight: information of a level that is no rounding
SPENT = 1e-10  # of the information met along a direction: what is left of it is nothing
FURTHER = (2000.0, 300.0, 50.0)  # Newton steps beyond which the loss would have risen
LEFT = (1e-11, 1e-8, 1e-5)  # shares of the information at the start that are as good as none
BACK = 6  # times that the way out is halved to where a Hessian has numbers
ABSENT = 1e-9  # of that information: a slope that is contamination of the direction
STEPS = 80
HALVINGS = 80
LONG = 3.0  # a change of η beyond which the curvature here says little
LADDER, RUNG = 40, 0.3  # steps in which what holds a long one is loosened
FLAT = 1e-15  # a share of a column's information that is rounding
PARTNER = 1e-6  # of a column's size: what another has in common with it
OWN = 1e-10  # share of a column's information that is its own: with less it is collinear


def separating_direction(problem: Any, beta: np.ndarray, free: np.ndarray, eta: Any = None) -> Any:
    """Find a direction of the free columns along which the loss falls for ever.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Where the fit ended, in X's units.
    free : (f,) int array
        Columns without any penalty, ascending. All others stay where they are: what is
        penalised cannot go far.
    eta : (rows of η, 1) array, optional
        Linear predictors at ``beta``, where they are known.

    Returns
    -------
    (direction, size) or None
        (f,) arrays in the scaled columns: the direction, and the root of each column's
        information at the start. None where the maximum is finite, or could not be told.
    """
    if problem.likelihood.quadratic or len(free) == 0:
        return None
    scaled = beta * problem.design.scale
    if _settled_level(problem, scaled, free, eta):
        return None
    loss = UnpenalisedLoss.beside(problem, free, scaled, eta)
    start, direction = _start(problem, loss, free)
    if direction is not None:
        return direction, np.ones(len(free))
    h0 = loss.diagonal(start)
    if _settled(loss, scaled[free], h0):
        return None
    direction = _run_away(loss, start, loss.hessian(start, levelled=True), scaled[free])
    if direction is None:
        _, direction = _follow(loss, start)
    if direction is not None:
        return direction, np.sqrt(np.where(h0 > 0, h0, 1.0))
    alone = UnpenalisedLoss.beside(problem, free, np.zeros(len(beta)))
    if (h0 < WORN * alone.diagonal(_start(problem, alone, free)[0])).any():
        # The others tell the rows apart by themselves here, so that nothing is left to see.
        return separating_without_others(problem, free)
    return None


def separating_without_others(problem: Any, free: np.ndarray) -> Any:
    """As `separating_direction`, before there is a fit: with all other coefficients zero.

    What is penalised cannot go far, so whether the others have a finite maximum does not depend
    on where it is.
    """
    if problem.likelihood.quadratic or len(free) == 0:
        return None
    loss = UnpenalisedLoss.beside(problem, free, np.zeros(problem.design.p))
    start, direction = _start(problem, loss, free)
    if direction is None:
        h0 = loss.diagonal(start)
        _, direction = _follow(loss, start)
        return None if direction is None else (direction, np.sqrt(np.where(h0 > 0, h0, 1.0)))
    return direction, np.ones(len(free))


def undetermined_columns(problem: Any, free: np.ndarray, partners: bool = False) -> np.ndarray:
    """Those of the free columns that are constant, zero or collinear among the rows that count.

    Of collinear ones those that the others make superfluous, or with ``partners`` all.
    """
    loss = UnpenalisedLoss.beside(problem, free, np.zeros(problem.design.p))
    start, _ = _start(problem, loss, free)
    H = loss.hessian(start)
    if not np.isfinite(H).all():
        return free[:0]
    h, v = np.diag(H), loss.likelihood.curvature(loss.eta(start), loss.weights).v
    raw = np.asarray(loss.backend.to_host(loss.rows.diagonal(v)))
    empty = ~(h > OWN * np.where(raw > 0, raw, 1.0))
    if empty.any():
        if not partners or empty.all():
            return free[empty]
        rest = undetermined_columns(problem, free[~empty], partners)
        return np.union1d(free[empty], rest)
    size = np.sqrt(h)
    C = H / size / size[:, None]
    _, pivot, rank, _ = linalg.lapack.dpstrf(C, tol=OWN, lower=1)
    loose, kept = pivot[rank:] - 1, pivot[:rank] - 1
    if partners and len(loose):
        share = linalg.lstsq(C[np.ix_(kept, kept)], C[np.ix_(kept, loose)])[0]
        loose = np.append(loose, kept[np.abs(share).max(axis=1) > PARTNER])
    return free[np.sort(loose)]


def named(problem: Any, free: np.ndarray, found: tuple[np.ndarray, np.ndarray]) -> list[str]:
    """The names of the columns that a direction of `separating_direction` moves most."""
    direction, size = found
    design = problem.design
    whole = np.zeros(design.p)  # with the intercept at X = 0, not at the columns' centres
    whole[free] = direction
    whole = design.uncentered_coefficients(whole / design.scale) * design.scale
    share = np.abs(whole[free] * size)
    by = np.argsort(-share, kind="stable")
    return [design.names[free[j]] for j in by if share[j] > 0.1 * share.max()]


def _start(problem: Any, loss: UnpenalisedLoss, free: np.ndarray) -> tuple[np.ndarray, Any]:
    """The intercept (or baseline) fitted without the other free columns, or where it runs to."""
    start, direction = np.zeros(len(free)), None
    lead = int((free < problem.n_free).sum())  # they are the first
    if lead:
        constant = free < problem.n_constant  # not all of them need be free
        start[constant] = problem.design.scale[free[constant]] * problem.start
        if constant[0]:
            start[0] += loss.likelihood.level(loss.eta(start), loss.weights)
    if 0 < lead < len(free):
        null = UnpenalisedLoss(problem, loss.base, free[:lead])
        start[:lead], runs = _follow(null, start[:lead])
        if runs is not None:
            direction = np.zeros(len(free))
            direction[:lead] = runs
    return start, direction


def _settled_level(problem: Any, scaled: np.ndarray, free: np.ndarray, eta: Any) -> bool:
    """`_settled` where only an intercept is free, which takes two passes over the rows.

    One number's information needs no comparison with another's: it is free of rounding where it
    is well above what rounding makes of the rows' weights.
    """
    likelihood = problem.likelihood
    if not (problem.n_free == problem.n_constant == len(free) == 1 and free[0] == 0):
        return False
    if likelihood.grouped or not likelihood.convex or likelihood.n_eta != problem.design.n:
        return False
    eta = linear_predictor(problem, scaled) if eta is None else eta
    weights = bound_weights(problem)
    with np.errstate(all="ignore"):  # what is no number proves nothing
        r = likelihood.evaluate(eta, weights)[1]
        h = float(likelihood.curvature(eta, weights, exact=True).v.sum())
        g = float(r.sum())
    return h > LEVEL * float(problem.weights.sum()) and abs(g) < SMALL * h


def _settled(loss: UnpenalisedLoss, b: np.ndarray, h0: np.ndarray) -> bool:
    """Whether the fit's own end proves that there is a finite minimum, free of rounding."""
    H = loss.hessian(b)
    h = np.diag(H)
    if not np.isfinite(H).all() or not (h > WORN * h0).all():
        return False
    size = np.sqrt(h)
    try:
        L = linalg.cholesky(H / size / size[:, None], lower=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    if np.diag(L).min() ** 2 < SINGULAR:
        return False
    step = linalg.cho_solve((L, True), loss.gradient(b) / size, check_finite=False) / size
    return loss.extent(step) < SMALL


def _follow(loss: UnpenalisedLoss, b: np.ndarray) -> tuple[np.ndarray, Any]:
    """Newton's steps from b until they prove a finite minimum or that there is none.

    Returns where they ended, and the direction in which they would go on for ever or None.
    """
    met, radius = np.zeros((len(b), len(b))), LONG
    begin, first = b, loss.hessian(b, levelled=True)
    for _ in range(STEPS):
        with np.errstate(over="ignore", invalid="ignore"):  # so far out that it is of no use
            g, H = loss.gradient(b), loss.hessian(b)
        if not (np.isfinite(g).all() and np.isfinite(H).all()):
            break
        met = met + H
        s = _newton(H, g)
        far = loss.extent(s) if np.isfinite(s).all() else 0.0
        if not far >= SMALL:
            break
        left = float(s @ H @ s)
        full = max(float(s @ met @ s), float(s**2 @ np.diag(H)))
        slope = min(left, float(s @ first @ s))  # here, unless that is on its way from far out
        if left < SPENT * full and _far_slope(loss, b, s) <= loss.rise(slope, far):
            return b, s
        t = _length(loss, b, s, far, float(g @ s))
        if t < 1.0 and far > radius:
            s = _held(loss, H, g, radius)
            t = _length(loss, b, s, loss.extent(s), float(g @ s))
            radius = 2.0 * radius if t == 1.0 else LONG
        if t == 0.0:
            break
        b = b + t * s
    return b, _run_away(loss, begin, first, b)


def _run_away(loss: UnpenalisedLoss, begin: np.ndarray, first: np.ndarray, b: np.ndarray) -> Any:
    """The direction in which coefficients have gone from where there was information, or None.

    Along the directions in which hardly any of the information is left that there was at the
    beginning, (f, f) ``first``, what has been walked is a direction of its own, free of the
    rounding that late gradients consist of. It is one of separation if the loss does not rise
    on it any more.
    """
    H, walked = loss.hessian(b), b - begin
    for _ in range(BACK):
        if np.isfinite(H).all():
            break
        walked = 0.5 * walked  # nothing was left there, not even numbers
        b = begin + walked
        H = loss.hessian(b)
    if not (np.isfinite(H).all() and np.isfinite(first).all() and walked.any()):
        return None
    h = np.diag(first)
    size = np.sqrt(np.where(h > 0, h, 1.0))
    C, now = first / size / size[:, None], H / size / size[:, None]
    C[np.diag_indices(len(C))] += FLAT
    try:
        value, U = linalg.eigh(now, C)
    except linalg.LinAlgError:
        return None
    along = U.T @ (C @ (walked * size))
    for left in LEFT:
        gone = value < left
        if not gone.any():
            continue
        s = (U[:, gone] @ along[gone]) / size
        far = loss.extent(s)
        if not far > 1.0:
            continue
        s = s / far
        if _far_slope(loss, b, s) <= max(ABSENT * float(s @ first @ s), loss.noise):
            return s
    return None


def _far_slope(loss: UnpenalisedLoss, b: np.ndarray, s: np.ndarray) -> float:
    """Slope along s as far out as exp can hold: risk sets underflow sooner than others.

    Where means overflow instead, the loss has risen, without bounds.
    """
    for further in FURTHER:
        if loss.overflows(b + further * s):
            return np.inf
        slope = loss.slope(b + further * s, s)
        if np.isfinite(slope):
            return slope
    return np.inf


def _held(loss: UnpenalisedLoss, H: np.ndarray, g: np.ndarray, radius: float) -> np.ndarray:
    """Newton's step damped to a length of about ``radius`` in η (Levenberg and Marquardt).

    Where η is far out a Newton step is too long by orders of magnitude, and by others for each
    coefficient: one length for all would stop them for the sake of one, or send that one as far
    out on the other side. The damping is in the unit of the information at η = 0, which is that
    of the columns wherever η is.
    """
    unit = loss.unit()
    damping = loss.extent(g / unit) / radius
    s = _newton(H + np.diag(damping * unit), g)
    for _ in range(LADDER):
        damping *= RUNG
        longer = _newton(H + np.diag(damping * unit), g)
        if not loss.extent(longer) <= radius:
            break
        s = longer
    return s * min(1.0, radius / loss.extent(s))


def _length(loss: UnpenalisedLoss, b: np.ndarray, s: np.ndarray, far: float, slope: float) -> float:
    """How much of a step to take: a long one must not pass the minimum along it.

    Where η starts far out there is hardly any curvature, and a step would end as far out on the
    other side, where there is none either.
    """
    t = 1.0
    for _ in range(HALVINGS):
        allowed = 0.0 if t * far > LONG else -0.1 * slope
        if loss.slope(b + t * s, s) <= allowed:
            return t
        t *= 0.5
    return 0.0


def _newton(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """−H⁻¹g, H being singular to rounding at worst."""
    h = np.diag(H)
    size = np.sqrt(np.where(h > 0, h, 1.0))
    C = H / size / size[:, None]
    try:
        factor = linalg.cho_factor(C, lower=True, check_finite=False)
        if np.diag(factor[0]).min() ** 2 > FLAT:
            return -linalg.cho_solve(factor, g / size, check_finite=False) / size
    except linalg.LinAlgError:
        pass
    value, U = linalg.eigh(C)
    with np.errstate(over="ignore"):  # columns of next to no unit: such a step is not taken
        return -(U @ ((U.T @ (g / size)) / np.maximum(value, FLAT))) / size
