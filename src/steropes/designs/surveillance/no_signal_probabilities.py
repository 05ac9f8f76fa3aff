"""Exact probabilities of numbers of events without a signal, over looks and systematic errors.

Given the number of events at a look, the numbers before it do not depend on the rate of events
(nor, for binomial events, on the odds). So one recursion, over the probability of no signal before
a look given the number of events at it, serves all rates; each rate only has other probabilities
of the numbers. The recursion is a convolution under any tilt of the rate, and takes, for each
number of events, a tilt with which this number is probable.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steropes.designs.surveillance.accruing_counts import Looks, farthest

__all__ = ["CountsWithoutSignal"]


class CountsWithoutSignal:
    """Numbers of events at successive looks, with the probability of no signal before.

    Parameters
    ----------
    looks : Looks
        Sizes of looks, and the distribution of events.
    tilt, weights : ndarray, shape (nodes,)
        Logarithms of ratios of rates, and their probabilities.
    """

    def __init__(self, looks: Looks, tilt: NDArray, weights: NDArray) -> None:
        self.looks, self.tilt, self.weights = looks, tilt, weights
        self.look = -1
        # The probability of no signal before the look, given each number of events at it; and the
        # probability of each number without a signal.
        self.chance, self.mass = np.ones(1), np.ones(1)

    def advance(self, size: int) -> None:
        """Go to the next look, where ``size`` events or more are a signal."""
        self.look += 1
        look, looks = self.look, self.looks
        first, last = looks.probable_events(look, self.tilt)
        last = min(last + 1, size)
        self.chance, self.mass, before = np.zeros(size), np.zeros(size), self.chance
        if first >= last:
            return
        if look == 0:
            self.chance[first:last] = 1.0
        else:
            for start, end, tilt in looks.blocks(look, first, last):
                self.chance[start:end] = self._given(before, start, end, tilt)
        own = looks.probability(look, np.arange(first, last), self.tilt)
        self.mass[first:last] = self.chance[first:last] * (self.weights @ own)

    def stop_from(self, size: int) -> None:
        """Let ``size`` events or more be a signal at this look too."""
        self.chance, self.mass = self.chance[:size], self.mass[:size]

    def _given(self, chance: NDArray, start: int, end: int, tilt: float) -> NDArray:
        """Compute the probability of no signal before, given ``start`` to ``end`` − 1 events."""
        looks, look = self.looks, self.look
        share = float(looks.sizes[look - 1] / looks.sizes[look])
        reach = farthest(end * share * (1 - share))
        low = max(int(share * start - reach), 0)
        high = min(int(share * end + reach) + 1, len(chance))
        if low >= high:
            return np.zeros(end - start)
        least = max(int((1 - share) * start - reach), 0)
        most = int((1 - share) * end + reach) + 1
        at = np.array([tilt])
        before = chance[low:high] * looks.probability(look - 1, np.arange(low, high), at)[0]
        both = np.convolve(before, looks.new_events(look, np.arange(least, most), tilt))
        # The first entry of ``both`` is for low + least events.
        events = np.arange(start, end)
        at_look = events - low - least
        inside = (at_look >= 0) & (at_look < len(both))
        found = np.where(inside, both[np.clip(at_look, 0, len(both) - 1)], 0.0)
        return np.asarray(found / looks.probability(look, events, at)[0])
