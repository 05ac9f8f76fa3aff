"""Whether people were exposed on any of some days."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series_from_tables.event_exposure_and_observation_tables import Exposures
from steropes.errors import DataError

__all__ = ["ExposedDays", "check_days", "check_offsets", "check_window", "exposure_names"]


class ExposedDays:
    """The days on which each person is exposed.

    Parameters
    ----------
    exposures : Exposures
        Rows in any order, which may overlap.

    Attributes
    ----------
    names : list of str
        Names of the exposures, "exposed" if there is one without a name.
    lowest : int
        The first day of any exposure.
    """

    def __init__(self, exposures: Exposures) -> None:
        self.names = exposure_names(exposures)
        self.lowest = int(exposures.first.min())
        self._span = int(exposures.last.max()) - self.lowest + 2
        self._parts = [self._sorted(exposures, k) for k in range(len(self.names))]

    def within(self, person: NDArray, first: NDArray, last: NDArray) -> NDArray:
        """Return whether each person has each exposure on any day from ``first`` to ``last``.

        Parameters
        ----------
        person, first, last : (n,) int arrays

        Returns
        -------
        (n, number of exposures) bool array
        """
        found = np.zeros((len(person), len(self._parts)), bool)
        until = np.clip(last - self.lowest + 1, 0, self._span - 1)
        for k, (key, reach) in enumerate(self._parts):
            # The last exposure that starts in time; those before it end at its reach at most.
            at = np.searchsorted(key, person * self._span + until, side="right") - 1
            near = np.maximum(at, 0)
            own = (at >= 0) & (key[near] // self._span == person)
            found[:, k] = own & (reach[near] >= first)
        return found

    def _sorted(self, exposures: Exposures, k: int) -> tuple[NDArray, NDArray]:
        """Return keys of person and first day, and the latest last day of the person so far."""
        own = exposures.exposure == k
        person, first, last = (x[own] for x in (exposures.person, exposures.first, exposures.last))
        order = np.lexsort((first, person))
        person, first, last = person[order], first[order], last[order]
        shift = person * self._span
        reach = np.maximum.accumulate(last - self.lowest + shift) - shift + self.lowest
        return shift + (first - self.lowest + 1), reach


def exposure_names(exposures: Exposures) -> list[str]:
    """Return the names of exposures, "exposed" if there is one without a name."""
    return [name or "exposed" for name in exposures.names]


def check_days(name: str, value: Any) -> tuple[int, int]:
    """Return the first and the last day of a window."""
    pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if not pair or not all(isinstance(x, Integral) and not isinstance(x, bool) for x in value):
        raise DataError(f"{name} must be the first and last day, such as (-30, 0), not {value!r}.")
    first, last = int(value[0]), int(value[1])
    if last < first:
        raise DataError(f"{name} ends on day {last}, before it starts on day {first}.")
    return first, last


def check_window(name: str, value: Any) -> tuple[int, int]:
    """Return a window before the index day as its first and last day, relative to it."""
    first, last = check_days(name, value)
    if last > 0:
        raise DataError(
            f"{name} ends on day {last}, after the index day; exposure after an event may be its "
            "consequence: end the window on day 0 or before."
        )
    return first, last


def check_offsets(value: Any, window: tuple[int, int]) -> list[int]:
    """Return the offsets of reference windows, which overlap neither the window nor each other."""
    given = [value] if isinstance(value, Integral) else value
    several = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    if not several or not all(isinstance(x, Integral) and not isinstance(x, bool) for x in given):
        raise DataError(
            "references must be days by which the window is moved, such as -60 or [-60, -120], "
            f"not {value!r}."
        )
    offsets, length = sorted((int(x) for x in given), reverse=True), window[1] - window[0] + 1
    for later, earlier in zip([0, *offsets], offsets, strict=False):
        if later - earlier < length:
            one = "the window of the event" if later == 0 else f"that at {later}"
            raise DataError(
                f"references: the reference window at {earlier} overlaps {one}; windows have "
                f"{length} days, so move it by {length} or more days into the past."
            )
    return offsets
