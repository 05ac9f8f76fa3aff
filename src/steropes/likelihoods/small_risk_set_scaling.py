"""Scaling of risk sets with tiny sums, for which the weights of the curvature would overflow."""

from __future__ import annotations

from ..backends.backend_interface import Array

__all__ = ["TINY", "scale_small_risk_sets"]

# The smallest sum S for which h / S, with h = w / S, is finite.
TINY = 1e-150
# A factor by which sums of tiny risk sets can grow without overflow of the others.
LIFT = 2.0**440


def scale_small_risk_sets(S: Array, h: Array) -> tuple[float, Array, Array]:
    """Scale S and h if a risk set is tiny; leave out sets that are still too small (h = 0).

    Offsets of ±300 lead to sums of rates r that differ by 10²⁶⁰. Multiplying r by a factor
    increases S and decreases h by that factor and leaves the curvature unchanged; a power of two
    changes no digit. Risk sets that are still too small are left out: the rates of their rows are
    10²⁸⁰ times smaller than others of the stratum.

    Returns
    -------
    factor, S, h
        The rates must be multiplied by the factor, which is 1 unless a sum is tiny.
    """
    small = S <= TINY
    factor = LIFT if (small & (S > 0)).any() else 1.0  # S = 0: nobody with weight is at risk
    if factor != 1.0:
        S, h = S * LIFT, h / LIFT
        small = S <= TINY
    h[small] = 0.0
    return factor, S, h
