"""Risk sets whose sum is so far below the largest that the curvature's weights would overflow."""

from __future__ import annotations

from ..backends.protocols import Array

__all__ = ["TINY", "lifted"]

TINY = 1e-150  # a sum of which h / S, with h = w / S, is a number still
LIFT = 2.0**440  # times as large there is room above for the others


def lifted(S: Array, h: Array) -> tuple[float, Array, Array]:
    """Sums S and hazards h in units in which the curvature of small risk sets has numbers.

    Offsets of ±300 make sums of rates r that differ by 10²⁶⁰. In units of r that are a factor
    smaller S is that much larger and h smaller; the curvature is the same in all units, and a
    power of two changes no digit. What is too small in these too is left out: its rows are 10²⁸⁰
    times less at risk than others of the stratum.

    Returns
    -------
    factor, S, h
        Rates are to be multiplied by the factor: 1 where nothing is so small.
    """
    small = S <= TINY
    factor = LIFT if (small & (S > 0)).any() else 1.0  # zero: nobody who is there is at risk
    if factor != 1.0:
        S, h = S * LIFT, h / LIFT
        small = S <= TINY
    h[small] = 0.0
    return factor, S, h
