"""Searches for the maximum, the confidence limits and a fine enough grid of a profile likelihood.

Each search is a generator that requests the profile at some values and is sent a `ProfilePoint` for
each; `run_searches` advances all searches together, so that their requests become lanes of one
batch. The profile of a convex loss is concave, so its slope at a point bounds it beyond that point.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .inference_constants import PROFILE
from .profile_fits import ProfileFits, ProfilePoint

__all__ = [
    "Limit",
    "Maximum",
    "find_limit",
    "find_maximum",
    "is_flat_at_end",
    "refine_grid",
    "run_searches",
]

# The largest errors of linear and of cubic interpolation between neighbouring points.
LINEAR_ERROR, CUBIC_ERROR = 1e-3, 1e-5
# The relative positions at which a cubic is compared with its chord.
SAMPLES = np.linspace(0.0, 1.0, 11)[1:-1]

# A position on a cubic, or several of them.
Values = TypeVar("Values", float, np.ndarray)
Search = Generator[list[float], list[ProfilePoint], Any]


def run_searches(held: ProfileFits, columns: list[int], searches: list[Search]) -> list[Any]:
    """Run several searches, each of one column, together and return their results."""
    results: list[Any] = [None] * len(searches)
    asked: dict[int, list[float]] = {}
    for k, search in enumerate(searches):
        _advance(search, None, k, asked, results)
    while asked:
        numbers = list(asked)
        values = [(columns[k], v) for k in numbers for v in asked[k]]
        found = iter(held.fit([j for j, _ in values], [v for _, v in values]))
        answers = {k: [next(found) for _ in asked[k]] for k in numbers}
        asked = {}
        for k in numbers:
            _advance(searches[k], answers[k], k, asked, results)
    return results


def _advance(
    search: Search, answer: Any, k: int, asked: dict[int, list[float]], results: list[Any]
) -> None:
    """Advance search k to its next request, or store its result."""
    try:
        asked[k] = search.send(answer)
    except StopIteration as stop:
        results[k] = stop.value


@dataclass(frozen=True)
class Maximum:
    """The maximum of a profile.

    Attributes
    ----------
    rising_side : int
        −1 or 1 if the profile has no maximum and rises on that side; otherwise 0.
    """

    point: ProfilePoint
    rising_side: int


def find_maximum(start: float, step: float, far: float) -> Search:
    """Search for the maximum of a profile.

    Parameters
    ----------
    start, step : float
        The value to start from, and a step length: about one standard error.
    far : float
        Distance from the start at which a profile that still rises counts as unbounded. It is
        followed until it is flat, at most to ``PROFILE.max_distance`` times this distance.
    """
    (p,) = yield [start]
    if not abs(p.g) * step > PROFILE.slope_tol:
        return Maximum(p, 0)
    side, h = (1 if p.g > 0 else -1), min(step, far)  # exp may overflow beyond far
    beyond = False
    while True:
        (q,) = yield [p.value + side * h]
        if not q.converged:
            if beyond:
                return Maximum(p, side)
            h *= 0.25
            if h < PROFILE.min_step * step:
                return Maximum(p, 0)
            continue
        if beyond and abs(q.g * (q.value - start)) < PROFILE.unbounded_fall:
            return Maximum(q, side)
        if q.g * side <= 0:
            break
        p, h = q, 2.0 * h
        distance, furthest = abs(p.value - start), PROFILE.max_distance * far
        beyond = distance + h >= far
        if beyond:  # unbounded, but perhaps not yet as high as it becomes
            if abs(p.g * distance) < PROFILE.unbounded_fall or distance >= 0.99 * furthest:
                return Maximum(p, side)
            h = min(h, furthest - distance)
    for _ in range(PROFILE.max_steps):
        share = p.g / (p.g - q.g) if p.g != q.g else 0.5
        (r,) = yield [p.value + min(max(share, 0.02), 0.98) * (q.value - p.value)]
        if not r.converged:
            break
        if abs(r.g) * step <= PROFILE.slope_tol:
            return Maximum(r, 0)
        if r.g * side > 0:
            p = r
        else:
            q = r
    return Maximum(p if p.f > q.f else q, 0)


@dataclass(frozen=True)
class Limit:
    """The value at which a profile has fallen by a given amount.

    Attributes
    ----------
    value : float
        ±inf if the profile never falls so far, NaN if the search failed.
    last : float
        The outermost value evaluated that is not beyond the limit.
    """

    value: float
    last: float


def find_limit(
    top: Maximum, side: int, drop: float, step: float, far: float, exact: float = PROFILE.limit_tol
) -> Search:
    """Search on one side for the value where the profile is ``drop`` below its maximum.

    The square root of twice the fall is nearly linear in the value, so Newton steps are taken on
    it. If a fit does not converge, the search continues from a nearer value. The limit is unknown
    where the profile jumps between maxima of a loss that is not convex.
    """
    p, goal = top.point, np.sqrt(2.0 * drop)
    if not p.converged:
        return Limit(np.nan, p.value)
    if top.rising_side == side:
        return Limit(side * np.inf, p.value)
    inner, outer, at = p, None, p.value + side * min(goal * step, far)
    wall = p.value  # the last value at which a fit did not converge
    for _ in range(PROFILE.max_steps):
        (q,) = yield [at]
        if not q.converged:
            if abs(at - inner.value) < PROFILE.min_step * step:
                return Limit(np.nan, inner.value)
            wall, at = at, 0.5 * (inner.value + at)
            continue
        above = q.f - (p.f - drop)
        if abs(above) <= max(exact, PROFILE.rounding * abs(p.f)):
            return Limit(q.value, q.value)
        if above > 0:
            inner = q
        else:
            outer = q
        distance = abs(inner.value - p.value) * (1.0 + PROFILE.distance_rounding)
        fall = -q.g * side
        at_limit = distance >= PROFILE.max_distance * far
        if (
            outer is None
            and distance >= far
            and (fall * distance < PROFILE.unbounded_fall or at_limit)
        ):
            return Limit(side * np.inf, inner.value)
        root = np.sqrt(2.0 * max(p.f - q.f, 0.0))
        ahead = (goal - root) * root / fall if fall > 0 and root > 0 else np.inf
        room = min(
            PROFILE.expansion * max(distance, step),
            far if distance < far else PROFILE.max_distance * far,
        )
        at = _inside_bracket(
            q.value + side * ahead, inner.value, outer, p.value + side * room, side
        )
        if at in (inner.value, getattr(outer, "value", None)):
            break
    if outer is None and (inner.value - wall) * side >= 0:
        return Limit(side * np.inf, inner.value)
    bracketed = (
        outer is not None
        and abs(outer.value - inner.value) <= PROFILE.min_step * step
        and inner.f - outer.f <= LINEAR_ERROR
    )
    return Limit(inner.value if bracketed else np.nan, inner.value)


def _inside_bracket(
    at: float, inner: float, outer: ProfilePoint | None, furthest: float, side: int
) -> float:
    """Move a proposed value into the bracket, or not too far beyond its inner end."""
    if outer is None:
        return furthest if not (at - inner) * side > 0 or (at - furthest) * side > 0 else at
    if not ((at - inner) * side > 0 and (outer.value - at) * side > 0):
        return 0.5 * (inner + outer.value)
    return at


def is_flat_at_end(curve: Callable[[float], float], end: float, other: float, slope: float) -> bool:
    """Return whether a profile that is known on an interval is flat at one end of it.

    Parameters
    ----------
    end, other : float
        The end in question, and the other end.
    slope : float
        The derivative at ``end``.
    """
    change = abs(float(curve(end)) - float(curve(end + 0.1 * (other - end))))
    return (
        change <= PROFILE.max_flat_change and abs(slope * (other - end)) <= PROFILE.max_flat_change
    )


def refine_grid(values: list[ProfilePoint]) -> Search:
    """Request points between the first and the last until interpolation is accurate.

    Between neighbours the chord is within 1e-3 of the profile and the cubic through values and
    slopes (Hermite) within 1e-5. The error of a cubic is measured at the next points requested.
    Halving an interval divides it by 16; only a factor of 4 is relied on.
    """
    parts = [(p, q, np.inf) for p, q in zip(values[:-1], values[1:], strict=True)]
    done: list[tuple[ProfilePoint, ProfilePoint]] = []
    while parts and len(done) + len(parts) < PROFILE.max_points:
        todo = []
        for p, q, off in parts:
            m = _number_of_pieces(p, q, off)
            if m == 1:
                done.append((p, q))
            else:
                todo.append((p, q, p.value + (q.value - p.value) * np.arange(1, m) / m))
        if not todo:
            break
        found = iter((yield [float(v) for *_, new in todo for v in new]))
        parts = []
        for p, q, new in todo:
            asked = [next(found) for _ in new]
            inside = [v for v in asked if v.converged]
            row = [p, *inside, q]
            between = list(zip(row[:-1], row[1:], strict=True))
            if len(inside) < len(asked):  # fits failed here, so further points would not help
                done += between
                continue
            off = max(
                abs(_hermite_cubic(p, q, (v.value - p.value) / (q.value - p.value)) - v.f)
                for v in inside
            )
            share = (len(row) - 1) ** 2
            parts += [(a, b, off / share) for a, b in between]
    pairs = done + [(p, q) for p, q, _ in parts]
    ends = {v.value: v for pair in pairs for v in pair} or {v.value: v for v in values}
    return [ends[at] for at in sorted(ends)]


def _number_of_pieces(p: ProfilePoint, q: ProfilePoint, off: float) -> int:
    """Return into how many parts an interval must be cut; 1 if it is accurate enough."""
    if q.value - p.value <= 1e-9 * (abs(p.value) + abs(q.value)):
        return 1
    chord = p.f + SAMPLES * (q.f - p.f)
    bend = float(np.abs(_hermite_cubic(p, q, SAMPLES) - chord).max())
    if bend <= 0.9 * LINEAR_ERROR and off <= 0.8 * CUBIC_ERROR:
        return 1
    by_line = int(np.ceil(np.sqrt(bend / (0.75 * LINEAR_ERROR))))
    by_cubic = 2 if np.isinf(off) else int(np.ceil((off / (0.5 * CUBIC_ERROR)) ** 0.25))
    return int(np.clip(max(by_line, by_cubic), 2, 16))


def _hermite_cubic(p: ProfilePoint, q: ProfilePoint, t: Values) -> Values:
    """Evaluate the Hermite cubic at positions t from p (0) to q (1)."""
    h = q.value - p.value
    a, b = h * p.g - (q.f - p.f), -h * q.g + (q.f - p.f)
    return (1 - t) * p.f + t * q.f + t * (1 - t) * ((1 - t) * a + t * b)
