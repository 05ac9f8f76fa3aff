"""Slice sampling of one parameter in several chains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .inference_constants import POSTERIOR

__all__ = ["slice_update"]


def slice_update(
    log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw from univariate densities by slice sampling (Neal 2003, figures 3 and 5), (B,).

    Intervals of width one are stepped out and shrunk in all chains together.
    """
    level = log_density(x) + np.log(rng.random(len(x)))
    low = x - rng.random(len(x))
    high = low + 1.0
    for sign in (-1.0, 1.0):
        for _ in range(POSTERIOR.max_stepping_out):
            end = low if sign < 0 else high
            inside = log_density(end) > level
            if not inside.any():
                break
            if sign < 0:
                low = np.where(inside, low - 1.0, low)
            else:
                high = np.where(inside, high + 1.0, high)
    out, todo = x.copy(), np.ones(len(x), bool)
    for _ in range(POSTERIOR.max_shrinkings):
        tried = low + rng.random(len(x)) * (high - low)
        inside = (log_density(np.where(todo, tried, out)) > level) & todo
        out = np.where(inside, tried, out)
        todo &= ~inside
        if not todo.any():
            break
        low = np.where(todo & (tried < x), tried, low)
        high = np.where(todo & (tried >= x), tried, high)
    return out
