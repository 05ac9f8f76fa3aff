"""Curves and histograms without steps or bars of few people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["coarse_steps", "merged_histogram", "time_unit"]

# Days between the times at which a curve may step: weeks, months, quarters and years.
SPACINGS = (7, 30, 90, 180, 365)


def time_unit(last: float) -> float:
    """Return the days between the times at which a curve may step, by its last event."""
    # A picture cannot distinguish more steps of a curve.
    return float(next((s for s in SPACINGS if last <= s * 60), SPACINGS[-1]))


def coarse_steps(
    events: NDArray, at_risk: NDArray, first: float, least: int, total: float
) -> list[int]:
    """Choose times of a grid between which enough people have the event and enough leave.

    Parameters
    ----------
    events : ndarray, shape (m,)
        Events up to and including each time of the grid.
    at_risk : ndarray, shape (m,)
        People whose time is that or later.
    first : float
        People at risk at the beginning.
    total : float
        Number of all events, also of those after the last time.

    Returns
    -------
    list of int
        Positions in the grid; empty with too few events for one step. No events follow the last
        step, or enough of them.
    """
    chosen: list[int] = []
    had, left = 0.0, first
    for i in range(len(events)):
        if events[i] - had >= least and left - at_risk[i] >= least:
            chosen.append(i)
            had, left = events[i], at_risk[i]
    if chosen and events[-1] > had:  # The remaining events join the last step.
        enough = np.flatnonzero(events >= events[-1])
        chosen[-1] = int(enough[0])
    while chosen and 0 < total - events[chosen[-1]] < least:
        chosen.pop()
    return chosen


def merged_histogram(people: NDArray, mass: NDArray, least: int) -> NDArray:
    """Join bars of few people to neighbours, so that there are enough people together.

    Parameters
    ----------
    people, mass : ndarray, shape (m,)
        Number of people in each bar, and the sum of their weights.

    Returns
    -------
    ndarray, shape (m,)
        Mass of each bar. The mass of a run of bars with at least ``least`` people is that of the
        one bar in it that has as many alone, or else is spread evenly over the run, so that no end
        of the distribution shows a single person.
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
    found = np.zeros(len(mass))
    begin = 0
    for end in ends:
        # A run ends with its first bar of many people, or as soon as all have enough; those after
        # the last run are few.
        many = begin + np.flatnonzero(people[begin:end] >= least)
        to = many if len(many) else np.arange(begin, end)
        found[to] = mass[begin:end].sum() / len(to)
        begin = end
    return found
