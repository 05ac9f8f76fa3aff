"""Points at which a study stores the profile likelihood of an effect.

An analysis of several databases knows a profile at its stored points only. They therefore extend to
values at which the likelihood is negligible. On a side on which it never falls (without events in
one arm) they extend to where it is constant up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = ["CHEAP_SPACING", "REFIT_SPACING", "Evaluate", "evaluated", "store_profile"]

# The spacing of points that are cheap to evaluate, and of points that need a refit.
CHEAP_SPACING, REFIT_SPACING = 0.1, 0.2
FARTHEST = 40.0  # Larger log ratios do not change sums in double precision.
DEPTH = (
    20.0  # Points are negligible where the likelihood has fallen to e^-20 = 2e-9 of its maximum.
)
# Half-widths of the interval at which a normal log-likelihood has fallen by about DEPTH.
ACROSS = 3.4
# Half-width of a side if only the other limit is finite. In log ratios, the likelihood of a 0/1
# column consists of logistic curves, which have this scale for any data.
LOGISTIC = 1.5
MOST = 20  # The largest number of extensions of a side, if fits fail or the profile is nearly flat.
REMAINING = 8  # The number of points that fill the range that is always stored.

Evaluate = Callable[[NDArray], tuple[ArrayLike, ArrayLike]]


def store_profile(
    evaluate: Evaluate,
    best: float,
    lower: float,
    upper: float,
    *,
    lowest: float,
    highest: float,
    step: float,
    also: Sequence[float] = (),
) -> pd.DataFrame:
    """Evaluate a profile log-likelihood at enough points to combine it with others.

    Parameters
    ----------
    evaluate : callable
        Maps log ratios to the profile log-likelihood and its derivative; NaN where the profile
        could not be computed.
    best : float
        The log ratio of largest likelihood; infinite without a finite maximum.
    lower, upper : float
        Limits of its interval, infinite on an open side. They, ``best`` and 0 are among the points.
    lowest, highest : float
        Log ratios between which the profile is always stored.
    step : float
        Distance of neighbouring points, as a share of the half-width of the interval.
    also : sequence of float
        Further log ratios at which the profile is stored.

    Returns
    -------
    DataFrame
        ``log_rr``, ``log_likelihood`` and ``gradient``, ascending.
    """
    sides = (_outward(-1, best, lower, upper, step), _outward(1, best, upper, lower, step))
    ends = [x for x in (lower, upper) if math.isfinite(x)]
    widths = [abs(x - best) for x in ends if math.isfinite(best)]
    apart = step * min([LOGISTIC, *widths]) / 4
    points = _distinct([best, lower, upper, 0.0, *also], np.concatenate(sides), apart)
    known = evaluated(evaluate, points)
    for side, limit, bound in ((-1, lower, lowest), (1, upper, highest)):
        if math.isfinite(limit):
            known = _deepened(evaluate, known, side, limit, best)
        edge = float(known["log_rr"].iloc[0 if side < 0 else -1]) if len(known) else 0.0
        if side * (bound - edge) > 0:
            rest = np.linspace(edge, bound, REMAINING + 1)[1:]
            known = _together(known, evaluated(evaluate, rest))
    return known


def evaluated(evaluate: Evaluate, points: NDArray) -> pd.DataFrame:
    """Evaluate a profile at points, without those at which it could not be computed.

    Parameters
    ----------
    evaluate : callable
        As in `store_profile`.
    """
    value, slope = evaluate(points) if len(points) else (points, points)
    table = pd.DataFrame({"log_rr": points, "log_likelihood": value, "gradient": slope})
    return table[np.isfinite(table).all(axis=1)].reset_index(drop=True)


def _outward(side: int, best: float, limit: float, other: float, step: float) -> NDArray:
    """Choose points from the estimate outwards, or around the other limit without an estimate."""
    shares = np.arange(0.0, ACROSS + step / 2, step)
    if math.isfinite(limit):
        width = abs(limit - best) if math.isfinite(best) else LOGISTIC
        return (best if math.isfinite(best) else limit) + side * width * shares
    start = next((x for x in (best, other) if math.isfinite(x)), 0.0)
    width = abs(start - other) if math.isfinite(best) and math.isfinite(other) else LOGISTIC
    near = start + side * width * shares
    room = FARTHEST - side * float(near[-1])  # The profile flattens as exp(-distance).
    tail = np.geomspace(min(0.5, room), room, 2 * REMAINING) if room > 0 else np.empty(0)
    return np.append(near, np.clip(near[-1] + side * tail, -FARTHEST, FARTHEST))


def _distinct(given: list[float], grid: NDArray, apart: float) -> NDArray:
    """Join the given points and those of a grid, without points too close or beyond FARTHEST.

    A spline through rounded values at close points would oscillate.
    """
    found: list[float] = []
    for x in given:
        if abs(x) <= FARTHEST and all(abs(x - y) > 1e-9 for y in found):
            found.append(float(x))
    known = np.array(found)
    for x in grid[np.abs(grid) <= FARTHEST]:
        if not len(known) or np.abs(known - x).min() > apart:
            known = np.append(known, x)
    return np.sort(known)


def _deepened(
    evaluate: Evaluate, known: pd.DataFrame, side: int, limit: float, best: float
) -> pd.DataFrame:
    """Add points on a side until the profile has fallen far enough there."""
    width = abs(limit - best) if math.isfinite(best) else LOGISTIC
    for _ in range(MOST):
        if known.empty:
            break
        end = known.iloc[0 if side < 0 else -1]
        at, fall = (
            float(end["log_rr"]),
            float(known["log_likelihood"].max() - end["log_likelihood"]),
        )
        if fall >= DEPTH or abs(at) >= FARTHEST:
            break
        # The slope of a concave profile grows outwards, so this is far enough.
        ahead = (DEPTH - fall) / max(abs(float(end["gradient"])), 1e-3)
        further = at + side * np.array([0.5, 1.0]) * min(ahead, 10 * width)
        more = evaluated(evaluate, np.unique(np.clip(further, -FARTHEST, FARTHEST)))
        if more.empty:
            break
        known = _together(known, more)
    return known


def _together(known: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Merge two tables of points."""
    both = pd.concat([known, more]) if len(known) and len(more) else known if len(known) else more
    return both.drop_duplicates("log_rr").sort_values("log_rr", ignore_index=True)
