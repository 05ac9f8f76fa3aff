"""Suppression of small cells, counts so low that they could identify a person.

A count from 1 to ``least`` − 1 becomes "<5"; a count from which a small one would follow
by subtraction becomes an upper bound that reveals no more. Zeros are published, as is customary.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Bound",
    "apart",
    "falling",
    "fraction",
    "largest_count",
    "part",
    "share_unit",
    "share_units",
    "small",
    "small_cells",
    "total",
]

# Units to which shares are rounded. Multiples of ``least`` / n would reveal the size n.
SHARE_UNITS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Bound:
    """A limit below (or above) which a number lies, published in its place.

    Attributes
    ----------
    limit : float
        The number is strictly below it, or strictly above it.
    """

    limit: float
    above: bool = False

    def __str__(self) -> str:
        value = f"{self.limit:,}" if isinstance(self.limit, int) else f"{self.limit:.3g}"
        return f"{'>' if self.above else '<'}{value}"

    def percent(self) -> str:
        """Format the limit as a percentage."""
        return f"{'>' if self.above else '<'}{100 * self.limit:.1f}%"


def small(n: float, least: int) -> bool:
    """Return whether a count, or an expected one, must not be published."""
    return 0 < n < least


def small_cells(counts: pd.Series, least: int) -> pd.Series:
    """Mark the counts of a column that must not be published, as `small` does."""
    return counts.gt(0) & counts.lt(least)


def part(n: int, of: int, least: int) -> int | Bound:
    """Suppress a count of some among ``of`` people if they or the others are few.

    Of one or two more than ``least`` people, a limit of the few and another one of those who are
    almost all would leave the latter one or two numbers; both have the same limit.
    """
    if small(n, least):
        return Bound(of if least < of <= least + 2 else least)
    # With few people, the bound must not equal their number.
    return Bound(max(of, least)) if small(of - n, least) else n


def falling(first: int, counts: Iterable[int], least: int) -> list[int | Bound]:
    """Round the numbers of people who remain, so that the number who left is in steps.

    Of ``first`` people, a number released elsewhere, a multiple of ``least`` are published as
    having left. The number of people who left without an event, a difference of three counts, then
    does not follow from released numbers of events.
    """
    published: list[int | Bound] = []
    for n in map(int, counts):
        left = max(first - n, 0)
        rounded = left if least <= 1 else least * round(left / least)
        if n >= least > first - rounded:
            rounded -= least
        if small(n, least):
            published.append(Bound(first if least < first <= least + 2 else least))
        elif left > 0 and (small(left, least) or rounded <= 0):
            published.append(Bound(first))
        else:
            published.append(first - rounded if n > 0 else 0)
    return published


def apart(counts: Iterable[int], least: int, known: Iterable[int] = ()) -> list[int | Bound]:
    """Suppress counts of overlapping groups so that no difference of two released ones is small.

    The groups need not be nested: they are, for example, the people who remain after the rules of
    several analyses or outcomes. Earlier counts have precedence over later ones, and
    ``known`` ones, which are released elsewhere, over all of them.

    Returns
    -------
    list of int or Bound
        A ``Bound`` is at most ``least`` − 1 above a released count and hence reveals only that the
        difference is small. Equal counts have the same bound, because two bounds would narrow them.
    """
    released = sorted({int(n) for n in known})
    found: list[int | Bound] = []
    bounds: dict[int, Bound] = {}
    for n in map(int, counts):
        if n in bounds:
            found.append(bounds[n])
            continue
        at = bisect_left(released, n)
        above = released[at] if at < len(released) else None
        below = released[at - 1] if at else None
        if above == n:
            found.append(n)
        elif small(n, least):
            found.append(Bound(least))
        elif below is not None and below > 0 and n - below < least:
            found.append(Bound(below + least))
        elif above is not None and above - n < least:
            found.append(Bound(above))
        else:
            found.append(n)
            insort(released, n)
        if isinstance(told := found[-1], Bound):
            bounds[n] = told
    return found


def largest_count(n: int | Bound) -> int:
    """Return the largest count for which a released count can stand."""
    return int(n.limit) - 1 if isinstance(n, Bound) else n


def total(parts: Sequence[int | Bound]) -> int | Bound:
    """Add published counts; the sum is a bound if one of them is."""
    most = sum(map(largest_count, parts))
    return Bound(most + 1) if any(isinstance(p, Bound) for p in parts) else most


def share_unit(of: int, least: int) -> float:
    """Return the smallest of `SHARE_UNITS` that ``least`` of a number of people do not exceed."""
    return next((u for u in SHARE_UNITS if u * of >= least), SHARE_UNITS[-1])


def share_units(of: NDArray, least: int) -> NDArray:
    """Return the `share_unit` of each number of people."""
    above = np.multiply.outer(of, SHARE_UNITS[:-1]) >= least
    return np.array(SHARE_UNITS)[(~above).sum(axis=1)]


def fraction(n: int, of: int, least: int) -> float | Bound:
    """Round a share of ``of`` people to a unit that is no smaller than ``least`` of them.

    The shares before and after matching would otherwise reveal the count of the unmatched. The unit
    is one of `SHARE_UNITS`, so that it does not reveal ``of``. NaN if these are few themselves.
    """
    if small(of, least):
        return float("nan")
    if least <= 1 or of == 0:
        return n / of if of else float("nan")
    unit = share_unit(of, least)
    if small(n, least):
        return Bound(unit)
    if small(of - n, least):
        return Bound(round(1 - unit, 3), above=True)
    if n in (0, of):
        return n / of
    units = round(1 / unit)
    return round(min(max(round(n / of * units), 1), units - 1) / units, 4)
