"""What the scores that are there say of the others: where a walk goes next, and a search's gain.

Scores are a function of log variance, nearly parabolic around the best.
"""

from __future__ import annotations

import numpy as np

__all__ = ["CLEAR", "STEP", "next_step", "promise"]

STEP = 10 ** (1 / 3)  # ratio of variances on the walk, as a power of ten
CLEAR = 0.05  # standard errors that make a drop clear
HALF = 0.5  # of a step, where no more is needed to be past the best,
SHORT = (0.3, 0.4, HALF, 0.6, 0.7, 0.8, 0.9)  # and where variances are dear,
SURER = 2  # but less than half only where the drop is that many times clear
STEEP = 6  # standard errors that a step must gain for the next to be two at once
INSIDE = 200  # places between two scores, or three, where the curves are looked at


def next_step(x: np.ndarray, y: np.ndarray, se: float, dear: bool) -> float:
    """How far from the last variance the walk goes on, in log: a step, two, part of one, or back.

    Each variance is dearer than all before. Where a parabola through the last scores is past its
    top by a clear drop after half a step, no more is needed. Where they are far below the top and
    rise steeply, two steps are one. Where variances are ``dear``, a cubic is asked too, which
    follows the bend before the top but also noise: how short the step may be, and whether the last
    one was past the top already, so that only the top is missing.
    """
    step = np.log(STEP)
    if len(x) < 3 or not np.isfinite(se):
        return float(step)
    clear, ends = CLEAR * se, [_Polynomial.last(x, y, degree) for degree in (2, 3)]
    rise = (y[-1] - y[-2]) / (x[-1] - x[-2]) * step
    if rise > STEEP * se:
        later = min(float(end(x[-1] + 2 * step) - end(x[-1] + step)) for end in ends)
        return float((2 if later > rise / 2 else 1) * step)
    if dear and x[-1] - x[-2] > HALF * step:
        inside = np.linspace(x[-2], x[-1], 21)[1:-1]
        values = np.mean([end(inside) for end in ends], axis=0)
        if values.max() > y[-1] + clear:
            return float(inside[values.argmax()] - x[-1])
    for share in SHORT if dear else (HALF,):
        asked = ends if dear else ends[:1]
        drop = y.max() - min(float(end(x[-1] + share * step)) for end in asked)
        if drop > clear * (SURER if share < HALF else 1):
            return float(share * step)
    return float(step)


class _Polynomial:
    """Through some points, of a degree one lower than they are many."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x[-1], y[-1]
        self.c = np.polyfit(x - self.x, y - self.y, len(x) - 1)

    @classmethod
    def last(cls, x: np.ndarray, y: np.ndarray, degree: int) -> _Polynomial:
        """Through the last points, as many as the degree takes, or of a lower degree."""
        n = min(degree, len(x) - 1) + 1
        return cls(x[-n:], y[-n:])

    def __call__(self, at: np.ndarray | float) -> np.ndarray:
        return np.asarray(self.y + np.polyval(self.c, at - self.x))


def promise(x: np.ndarray, y: np.ndarray, best: int) -> tuple[float, float | None]:
    """What a better place than the best score's may gain over it at most, and where that is.

    Curves through the best and its neighbours are asked: the parabola, and a cubic through the
    next one on either side as well. Where one neighbour is much farther than the other the
    parabola alone has its top next to the best, wherever that of the scores may be.

    Parameters
    ----------
    x, y : (m,) arrays
        Logarithms of variances, ascending, and scores.
    best : int

    Returns
    -------
    gain : float
        Infinite where the best has no neighbour on one side.
    place : float or None
    """
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
    inside = np.linspace(x[a], x[c], INSIDE + 1)[1:-1]
    for first in (a - 1, a):
        if first >= 0 and first + 4 <= len(x):
            values = _Polynomial(x[first : first + 4], y[first : first + 4])(inside)
            found.append((float(values.max() - y[b]), float(inside[values.argmax()])))
    return max(found)
