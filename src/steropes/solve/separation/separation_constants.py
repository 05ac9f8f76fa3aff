"""Tuning parameters of the messages about separated and collinear columns."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SEPARATION", "SeparationPolicy"]


@dataclass(frozen=True)
class SeparationPolicy:
    """Which columns and rows a message names; no fit depends on these numbers.

    Attributes
    ----------
    first_preference : float
        Share of its information by which the first of equal columns counts more than the last, so
        that the last is named as redundant. Without it rounding decided, and 4 of 440 random
        problems named another column on a device than on the CPU.
    partner_coefficient : float
        The partners of a collinear column have at least this coefficient, relative to their sizes.
    far_value : float
        A value this many times as large as others leaves 64-bit numbers too few digits to
        distinguish separation from a maximum far out. In 864 logistic and Cox fits with values of
        1e6 to 1e14 among ordinary ones, all 313 refusals name the row with it.
    """

    first_preference: float = 1e-6
    partner_coefficient: float = 1e-6
    far_value: float = 1e6


SEPARATION = SeparationPolicy()
