"""Curves through cross-validation scores: the next variance, and the gain of a finer search.

Scores are a function of log variance that is nearly parabolic around its maximum. At some variances
the slope of that function is known, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.interpolate import KroghInterpolator

from .variance_path_constants import DEFAULT, PathPolicy

__all__ = ["near", "next_step", "passed", "promise", "toward"]

# Curves are evaluated at this many places between scores.
PLACES_BETWEEN_SCORES = 200


def next_step(
    x: np.ndarray, y: np.ndarray, slope: np.ndarray, se: float, policy: PathPolicy = DEFAULT
) -> float:
    """Return the distance from the last variance to the next, in log, or zero at the end.

    Each variance costs more than the one before. Two steps are taken at once if the scores are
    below the maximum and keep rising, and half a step if a parabola through the last scores is then
    clearly past its maximum. If the slope at the last score is known, the walk goes to the maximum
    of a cubic, the most accurate of the curves, and ends if that promises no gain. Between two
    close scores only the slopes are used, because the difference of the scores is no larger than
    the folds' tolerance.

    Parameters
    ----------
    x, y : (m,) arrays
        Logarithms of variances, ascending, and scores.
    slope : (m,) array
        Derivatives of the score, NaN where they are not known.
    se : float
        Standard error of the best score.
    """
    step = float(np.log(policy.step_ratio))
    if len(x) < 2 or not np.isfinite(se):
        return step
    rise = (y[-1] - y[-2]) / (x[-1] - x[-2]) * step
    if len(x) < 3:
        return (2 if rise > policy.early_gain * se else 1) * step
    ends = _ends(x, y, slope, (2, 3))
    if x[-1] - x[-2] < policy.close * step and slope[-2] > slope[-1] > 0:
        before = float(x[-1] - x[-2])
        top = toward(slope[-1], (slope[-2] - slope[-1]) / before, policy)
        more = y[-1] + 0.5 * slope[-1] * top > y.max() + policy.flat * se
        return min(top, policy.trust * before) if more else 0.0
    if np.isfinite(slope[-1]):
        ahead = np.linspace(0, policy.slope_reach * step, PLACES_BETWEEN_SCORES + 1)
        values = np.array([end(x[-1] + ahead) for end in ends])
        if (values[:, -1] < values.max(axis=1)).all():
            if (values.max(axis=1) > y.max() + policy.flat * se).any():
                return max(float(ahead[values[1].argmax()]), policy.least_step * step)
            if (values[:, -1] < y.max() - policy.clear * se).all():
                return 0.0
    if rise > policy.later_gain * se:
        later = min(float(end(x[-1] + 2 * step) - end(x[-1] + step)) for end in ends)
        if later > policy.double_share * rise:
            return 2 * step
    half = (
        np.isnan(slope[-1])
        and ends[0](x[-1] + policy.half_step * step) < y.max() - policy.clear * se
    )
    return (policy.half_step if half else 1) * step


def toward(slope: float, bend: float, policy: PathPolicy = DEFAULT) -> float:
    """Return the distance to the maximum, in log, if a slope falls by ``bend`` per unit.

    It is at least ``policy.least_step`` and at most ``policy.slope_reach`` steps.
    """
    step = float(np.log(policy.step_ratio))
    size = np.clip(
        abs(slope) / bend if bend > 0 else np.inf,
        policy.least_step * step,
        policy.slope_reach * step,
    )
    return float(np.copysign(size, slope))


def near(x: np.ndarray, y: np.ndarray, policy: PathPolicy = DEFAULT) -> bool:
    """Return whether the maximum lies behind or a few steps ahead, judging by scores alone."""
    step = np.log(policy.step_ratio)
    if len(x) < 3:
        return False
    ends = _ends(x, y, np.full(len(x), np.nan), (2, 3))
    return any(
        end(x[-1] + policy.slope_within * step) < end(x[-1] + (policy.slope_within - 1) * step)
        for end in ends
    )


def passed(
    x: np.ndarray, y: np.ndarray, slope: np.ndarray, se: float, policy: PathPolicy = DEFAULT
) -> bool:
    """Return whether the maximum is known to be at the last score or before, without its slope.

    A slope costs a third of a variance. A walk that reached the maximum by the slope at the last
    but one score does not need another.
    """
    if not _led(x, slope, len(x) - 1, policy):
        return False
    beyond = max(float(x[-1] - x[-2]), policy.beyond * float(np.log(policy.step_ratio)))
    around = np.linspace(x[-2], x[-1] + beyond, PLACES_BETWEEN_SCORES + 1)
    values = np.array([end(around) for end in _ends(x, y, slope, (2, 3))])
    at, top = around[values.argmax(axis=1)], values.max(axis=1)
    there = (at <= x[-1]) | (top <= y.max() + policy.flat * se)
    return bool((there & (values[:, -1] < top)).all())


def _led(x: np.ndarray, slope: np.ndarray, at: int, policy: PathPolicy) -> bool:
    """Return whether the preceding score is close by and the scores rose there."""
    return (
        at >= 2
        and slope[at - 1] > 0
        and x[at] - x[at - 1] <= policy.slope_spacing * np.log(policy.step_ratio)
    )


def promise(
    x: np.ndarray, y: np.ndarray, slope: np.ndarray, best: int, policy: PathPolicy = DEFAULT
) -> tuple[float, float | None]:
    """Return the largest gain over the best score that curves promise, and its place.

    If the slope at the best score is known, the curves connect it with the next score up the slope.
    At the end of a walk that a slope led to the best score, they go back to that slope. Otherwise
    they are the parabola through the best score and its neighbours, and cubics through one more
    score on either side. The parabola alone would have its maximum next to the best score if one
    neighbour is much farther away than the other.

    Parameters
    ----------
    x, y, slope : (m,) arrays
        As in `next_step`.

    Returns
    -------
    gain : float
        Infinite if the best score has no neighbour on one side.
    place : float or None
    """
    if np.isfinite(slope[best]):
        return _up_the_slope(x, y, slope, best)
    if best == len(x) - 1 and _led(x, slope, best, policy):
        inside = np.linspace(x[best - 1], x[best], PLACES_BETWEEN_SCORES + 1)
        return _highest(_ends(x, y, slope, (2, 3)), inside, y[best])
    if best in (0, len(x) - 1) or len(x) < 3:
        return np.inf, None
    a, b, c = best - 1, best, best + 1
    left, right = (y[b] - y[a]) / (x[b] - x[a]), (y[c] - y[b]) / (x[c] - x[b])
    curve = (right - left) / (x[c] - x[a])
    if not curve < 0:
        return 0.0, None
    top = 0.5 * (x[a] + x[b]) - left / (2 * curve)
    top = float(np.clip(top, x[a], x[c]))
    value = y[b] + (top - x[b]) * (left + curve * (top - x[a]))
    found = [(float(max(value - y[b], 0.0)), top)]
    inside = np.linspace(x[a], x[c], PLACES_BETWEEN_SCORES + 1)[1:-1]
    for first in (a - 1, a):
        if first >= 0 and first + 4 <= len(x):
            four = range(first, first + 4)
            values = _curve(x, y, np.full(len(x), np.nan), four, 3)(inside)
            found.append((float(values.max() - y[b]), float(inside[values.argmax()])))
    return max(found)


def _up_the_slope(
    x: np.ndarray, y: np.ndarray, slope: np.ndarray, best: int
) -> tuple[float, float | None]:
    """Return `promise` for a best score with a known slope."""
    side = 1 if slope[best] > 0 else -1
    other = best + side
    if other < 0:
        return np.inf, None
    if other == len(x):  # The walk has already decided against going on.
        return 0.0, None
    nearest = [i for i in (best, other, best - side, other + side) if 0 <= i < len(x)]
    inside = np.linspace(x[best], x[other], PLACES_BETWEEN_SCORES + 1)[:-1]
    return _highest([_curve(x, y, slope, nearest, d) for d in (2, 3)], inside, y[best])


def _highest(
    curves: list[KroghInterpolator], inside: np.ndarray, y: float
) -> tuple[float, float | None]:
    """Return the largest excess of some curves over a score, and its place."""
    values = np.array([curve(inside) for curve in curves])
    return max(
        (float(v.max() - y), float(at))
        for v, at in zip(values, inside[values.argmax(axis=1)], strict=True)
    )


def _ends(
    x: np.ndarray, y: np.ndarray, slope: np.ndarray, degrees: tuple[int, ...]
) -> list[KroghInterpolator]:
    """Return curves of some degrees through the last scores."""
    return [_curve(x, y, slope, range(len(x) - 1, -1, -1), degree) for degree in degrees]


def _curve(
    x: np.ndarray, y: np.ndarray, slope: np.ndarray, order: Iterable[int], degree: int
) -> KroghInterpolator:
    """Interpolate the first scores and known slopes in ``order`` by a polynomial."""
    at: list[float] = []
    facts: list[float] = []
    for i in order:
        for fact in (y[i], slope[i])[: degree + 1 - len(at)]:
            if np.isfinite(fact):
                at.append(float(x[i]))
                facts.append(float(fact))
    return KroghInterpolator(at, facts)
