"""Searches for the maximum, the confidence limits and a fine enough grid of a profile likelihood.

Each search is a generator that requests the profile at some values and is sent a `ProfilePoint` for
each; `run` advances all searches together, so that their requests become lanes of one batch. The
profile of a convex loss is concave, so its slope at a point bounds it beyond that point.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .profile_fits import ProfileFits, ProfilePoint

__all__ = ["FLAT_END", "End", "Maximum", "find_end", "find_maximum", "flat_end", "refine", "run"]

FLAT = 1e-4  # slope times standard error at which a point counts as the maximum
EXACT = 1e-8  # of the log-likelihood: how near an end is to where it is wanted
ROUNDING = 1e-13  # of the log-likelihood
FURTHER = 3.0  # times the distance so far that a step outward may go
STEPS = 100
LEAST = 1e-4  # of a standard error: steps so short are in vain, and ends so near to one another one
LIMIT = 10.0  # times the reach of a likelihood without end, beyond which nothing is looked at
NEARLY = 1e-12  # of a distance, which has been added and taken away again
ALMOST = 1e-6  # fall over the whole reach below which a side has no end
# A profile that is given at some points is flat at an end where it changes by less than this over
# its outermost tenth, and where its last slope would change it by less over as long a range again:
# a change of the log-likelihood that moves no limit by an amount that is seen.
FLAT_END = 1e-4
LINEAR, HERMITE = 1e-3, 1e-5  # errors of interpolation between neighbouring points
MOST = 3000  # points
SAMPLES = np.linspace(0.0, 1.0, 11)[1:-1]

Search = Generator[list[float], list[ProfilePoint], Any]


def run(held: ProfileFits, columns: list[int], searches: list[Search]) -> list[Any]:
    """Let searches, each of a column, go on together; returns what they return."""
    results: list[Any] = [None] * len(searches)
    asked: dict[int, list[float]] = {}
    for k, search in enumerate(searches):
        _step(search, None, k, asked, results)
    while asked:
        numbers = list(asked)
        values = [(columns[k], v) for k in numbers for v in asked[k]]
        found = iter(held.at([j for j, _ in values], [v for _, v in values]))
        answers = {k: [next(found) for _ in asked[k]] for k in numbers}
        asked = {}
        for k in numbers:
            _step(searches[k], answers[k], k, asked, results)
    return results


def _step(
    search: Search, answer: Any, k: int, asked: dict[int, list[float]], results: list[Any]
) -> None:
    try:
        asked[k] = search.send(answer)
    except StopIteration as stop:
        results[k] = stop.value


@dataclass(frozen=True)
class Maximum:
    """The top of a profile; ``rises`` is the side on which there is none, 0 where there is."""

    point: ProfilePoint
    rises: int


def find_maximum(start: float, step: float, far: float) -> Search:
    """Search for the maximum from a value, with steps of about a standard error.

    Parameters
    ----------
    start, step : float
    far : float
        Distance at which a profile that still rises counts as rising for ever.
    """
    (p,) = yield [start]
    if not abs(p.g) * step > FLAT:
        return Maximum(p, 0)
    side, h = (1 if p.g > 0 else -1), min(step, far)  # beyond far there may be no numbers
    while True:
        (q,) = yield [p.at + side * h]
        if not q.sure:
            h *= 0.25
            if h < LEAST * step:
                return Maximum(p, 0)
            continue
        if q.g * side <= 0:
            break
        p, h = q, 2.0 * h
        if abs(p.at - start) + h >= far:
            return Maximum(p, side)
    for _ in range(STEPS):
        share = p.g / (p.g - q.g) if p.g != q.g else 0.5
        (r,) = yield [p.at + min(max(share, 0.02), 0.98) * (q.at - p.at)]
        if not r.sure:
            break
        if abs(r.g) * step <= FLAT:
            return Maximum(r, 0)
        if r.g * side > 0:
            p = r
        else:
            q = r
    return Maximum(p if p.f > q.f else q, 0)


@dataclass(frozen=True)
class End:
    """Where a profile has fallen by so much: ±inf where it never does, NaN where nobody knows.

    Attributes
    ----------
    at : float
    last : float
        The outermost value looked at that is not beyond the end.
    """

    at: float
    last: float


def find_end(
    top: Maximum, side: int, drop: float, step: float, far: float, exact: float = EXACT
) -> Search:
    """Search for the value on one side where the profile is lower than its maximum by ``drop``.

    The root of twice the fall is nearly linear in the value, so Newton's steps are on it. Where a
    fit does not come to its tolerance a nearer value is asked for, from which to go on.
    """
    p, goal = top.point, np.sqrt(2.0 * drop)
    if not p.sure:
        return End(np.nan, p.at)
    if top.rises == side:
        return End(side * np.inf, p.at)
    inner, outer, at = p, None, p.at + side * min(goal * step, far)
    wall = p.at  # where a fit did not come to its tolerance
    for _ in range(STEPS):
        (q,) = yield [at]
        if not q.sure:
            if abs(at - inner.at) < LEAST * step:
                return End(np.nan, inner.at)
            wall, at = at, 0.5 * (inner.at + at)
            continue
        above = q.f - (p.f - drop)
        if abs(above) <= max(exact, ROUNDING * abs(p.f)):
            return End(q.at, q.at)
        if above > 0:
            inner = q
        else:
            outer = q
        distance = abs(inner.at - p.at) * (1.0 + NEARLY)
        fall = -q.g * side
        at_limit = distance >= LIMIT * far
        if outer is None and distance >= far and (fall * distance < ALMOST or at_limit):
            return End(side * np.inf, inner.at)
        root = np.sqrt(2.0 * max(p.f - q.f, 0.0))
        ahead = (goal - root) * root / fall if fall > 0 and root > 0 else np.inf
        room = min(FURTHER * max(distance, step), far if distance < far else LIMIT * far)
        at = _between(q.at + side * ahead, inner.at, outer, p.at + side * room, side)
        if at in (inner.at, getattr(outer, "at", None)):
            break
    if outer is None and (inner.at - wall) * side >= 0:
        return End(side * np.inf, inner.at)
    told = outer is not None and abs(outer.at - inner.at) <= LEAST * step
    return End(inner.at if told else np.nan, inner.at)


def _between(
    at: float, inner: float, outer: ProfilePoint | None, furthest: float, side: int
) -> float:
    """A proposal that lies between the ends known, or not too far beyond the inner one."""
    if outer is None:
        return furthest if not (at - inner) * side > 0 or (at - furthest) * side > 0 else at
    if not ((at - inner) * side > 0 and (outer.at - at) * side > 0):
        return 0.5 * (inner + outer.at)
    return at


def flat_end(curve: Callable[[float], Any], end: float, other: float, slope: float) -> bool:
    """Whether a profile that is known between two values has become flat at one of them.

    Parameters
    ----------
    curve : callable
        The profile between both ends.
    end, other : float
    slope : float
        Its derivative at ``end``.
    """
    change = abs(float(curve(end)) - float(curve(end + 0.1 * (other - end))))
    return change <= FLAT_END and abs(slope * (other - end)) <= FLAT_END


def refine(values: list[ProfilePoint]) -> Search:
    """Ask for points between the first and the last until interpolation is good enough.

    Between neighbours the line is within 1e-3 of the profile and the cubic on values and slopes
    (Hermite) within 1e-5. How far a cubic is off is measured at the points that come next; a
    part's cubic is better by the fourth power of its share, of which the second is counted.
    """
    parts = [(p, q, np.inf) for p, q in zip(values[:-1], values[1:], strict=True)]
    done: list[tuple[ProfilePoint, ProfilePoint]] = []
    while parts and len(done) + len(parts) < MOST:
        todo = []
        for p, q, off in parts:
            m = _pieces(p, q, off)
            if m == 1:
                done.append((p, q))
            else:
                todo.append((p, q, p.at + (q.at - p.at) * np.arange(1, m) / m))
        if not todo:
            break
        found = iter((yield [float(v) for *_, new in todo for v in new]))
        parts = []
        for p, q, new in todo:
            asked = [next(found) for _ in new]
            inside = [v for v in asked if v.sure]
            row = [p, *inside, q]
            between = list(zip(row[:-1], row[1:], strict=True))
            if len(inside) < len(asked):  # it gets no better there
                done += between
                continue
            off = max(abs(_cubic(p, q, (v.at - p.at) / (q.at - p.at)) - v.f) for v in inside)
            share = (len(row) - 1) ** 2
            parts += [(a, b, off / share) for a, b in between]
    pairs = done + [(p, q) for p, q, _ in parts]
    ends = {v.at: v for pair in pairs for v in pair} or {v.at: v for v in values}
    return [ends[at] for at in sorted(ends)]


def _pieces(p: ProfilePoint, q: ProfilePoint, off: float) -> int:
    """Parts into which an interval is to be cut; 1 where it is good enough."""
    if q.at - p.at <= 1e-9 * (abs(p.at) + abs(q.at)):
        return 1
    chord = p.f + SAMPLES * (q.f - p.f)
    bend = float(np.abs(_cubic(p, q, SAMPLES) - chord).max())
    if bend <= 0.9 * LINEAR and off <= 0.8 * HERMITE:
        return 1
    by_line = int(np.ceil(np.sqrt(bend / (0.75 * LINEAR))))
    by_cubic = 2 if np.isinf(off) else int(np.ceil((off / (0.5 * HERMITE)) ** 0.25))
    return int(np.clip(max(by_line, by_cubic), 2, 16))


def _cubic(p: ProfilePoint, q: ProfilePoint, t: Any) -> Any:
    """Hermite's interpolation at shares t of the way from p to q."""
    h = q.at - p.at
    a, b = h * p.g - (q.f - p.f), -h * q.g + (q.f - p.f)
    return (1 - t) * p.f + t * q.f + t * (1 - t) * ((1 - t) * a + t * b)
