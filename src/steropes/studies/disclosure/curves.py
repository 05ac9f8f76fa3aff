"""Curves and histograms in which no step, bar or bump is of few people."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier

__all__ = ["coarse_curve", "coarse_steps", "merged_histogram", "time_unit"]

# Days between the times at which a curve may step: weeks, months, quarters and years.
SPACINGS = (7, 30, 90, 180, 365)
MOST_STEPS = 60  # of a curve; more cannot be told apart in a picture


def time_unit(last: float) -> float:
    """Return the days between the times at which a curve may step, by its last event."""
    return float(next((s for s in SPACINGS if last <= s * MOST_STEPS), SPACINGS[-1]))


def coarse_steps(
    events: NDArray, at_risk: NDArray, first: float, least: int, total: float
) -> list[int]:
    """Times of a grid between which enough people had the event and enough have left.

    Parameters
    ----------
    events : ndarray, shape (m,)
        Events up to and including each time of the grid.
    at_risk : ndarray, shape (m,)
        People whose time is that or later.
    first : float
        People at risk at the beginning.
    least : int
    total : float
        Number of all events, also of those after the last time.

    Returns
    -------
    list of int
        Positions in the grid; empty where there are not enough events for one step. After the last
        step there are either no events or enough of them.
    """
    chosen: list[int] = []
    had, left = 0.0, first
    for i in range(len(events)):
        if events[i] - had >= least and left - at_risk[i] >= least:
            chosen.append(i)
            had, left = events[i], at_risk[i]
    if chosen and events[-1] > had:  # too few for a step of their own
        enough = np.flatnonzero(events >= events[-1])
        chosen[-1] = int(enough[0])
    while chosen and 0 < total - events[chosen[-1]] < least:
        chosen.pop()
    return chosen


def coarse_curve(curve: KaplanMeier, least: int) -> KaplanMeier | None:
    """A Kaplan–Meier curve on a grid of days, each of whose steps holds ``least`` events or more.

    ``events`` are those since the step before, and ``at_risk`` those still there on the day of the
    step. None where there are not enough events for one step.
    """
    at = np.flatnonzero(curve.events > 0)
    if least <= 1 or len(at) == 0:
        return replace(curve, **{name: values[at] for name, values in vars(curve).items()})
    unit = time_unit(float(curve.times[at[-1]]))
    grid = unit * np.arange(1, math.ceil(float(curve.times[at[-1]]) / unit) + 1)
    until = np.searchsorted(curve.times, grid, side="right")
    events = np.concatenate(([0.0], np.cumsum(curve.events)))[until]
    there = np.append(curve.at_risk, 0.0)[np.searchsorted(curve.times, grid, side="left")]
    chosen = coarse_steps(events, there, float(curve.at_risk[0]), least, float(curve.events.sum()))
    if not chosen:
        return None
    last = until[chosen] - 1
    return replace(
        curve,
        times=grid[chosen],
        survival=curve.survival[last],
        variance=curve.variance[last],
        log_variance=curve.log_variance[last],
        at_risk=there[chosen],
        events=np.diff(events[chosen], prepend=0.0),
    )


def merged_histogram(people: NDArray, mass: NDArray, least: int) -> NDArray:
    """Mass of the bars of a histogram, spread evenly over neighbours that together hold enough.

    Parameters
    ----------
    people, mass : ndarray, shape (m,)
        How many people are in each bar, and their weights.
    least : int

    Returns
    -------
    ndarray, shape (m,)
        Every run of bars over which mass is spread holds ``least`` people or more, so that nobody
        stands alone at an end of the distribution.
    """
    if least <= 1:
        return mass
    ends: list[int] = []
    since = 0
    for i, n in enumerate(people.tolist()):
        since += n
        if since >= least:
            ends.append(i + 1)
            since = 0
    if not ends:
        return np.full(len(mass), mass.sum() / len(mass))
    ends[-1] = len(mass)
    found = np.empty(len(mass))
    begin = 0
    for end in ends:
        found[begin:end] = mass[begin:end].sum() / (end - begin)
        begin = end
    return found
