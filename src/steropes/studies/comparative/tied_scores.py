"""Equal scores in matching: which of the tied are taken is a draw, and how much it matters.

A score made of a few 0/1 covariates has few distinct values. Which of the people who share one are
matched is then not decided by the data. It must not be decided by the order of the rows either:
the order of the tied is a random key of each person, made from the person's id and a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = ["MANY_TIED", "TieOrders", "tie_keys", "tied_share", "try_tie_orders"]

MANY_TIED = 0.1  # share of people from which on it is worth asking what the draw decides


@dataclass(frozen=True)
class TieOrders:
    """How many scores are tied, and what other orders of the tied would have given.

    Attributes
    ----------
    distinct : int
        Distinct scores.
    share : float
        Share of people whose score somebody else has too.
    hazard_ratios : tuple of float
        Of the main analysis, one for each other order; those without an estimate are left out.
    """

    distinct: int
    share: float
    hazard_ratios: tuple[float, ...] = ()


def tie_keys(ids: ArrayLike, seed: int = 0) -> NDArray:
    """A random number for each person, (n,) uint64, that depends on id and seed alone.

    Parameters
    ----------
    ids : array_like, shape (n,)
        What identifies a person: whole numbers or strings.
    seed : int, default 0

    Notes
    -----
    SplitMix64 (Steele, Lea and Flood 2014, OOPSLA) of the id, offset by that of the seed. It is
    one to one, so that two whole numbers never have the same key.
    """
    ids = np.asarray(ids)
    if ids.ndim != 1:
        raise DataError(f"ids must be one value a person, not of shape {ids.shape}")
    if ids.dtype.kind in "iu":
        words = ids.astype(np.uint64)  # negative ones wrap around, one to one
    else:
        words = pd.util.hash_array(ids.astype(object), categorize=False)
    offset = _split_mix(np.array([int(seed) & (2**64 - 1)], dtype=np.uint64))
    return _split_mix(words ^ offset)


def _split_mix(words: NDArray) -> NDArray:
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def tied_share(score: ArrayLike) -> tuple[int, float]:
    """Number of distinct scores, and share of people who share theirs with somebody."""
    _, counts = np.unique(np.asarray(score), return_counts=True)
    n = int(counts.sum())
    return len(counts), float(counts[counts > 1].sum() / n) if n else 0.0


def try_tie_orders(
    score: ArrayLike, estimate: Callable[[int], float], seed: int, orders: int
) -> TieOrders:
    """Match again under other orders of the tied.

    Parameters
    ----------
    score : array_like, shape (n,)
        Scores as the matching compares them.
    estimate : callable
        The hazard ratio of a seed of the tie keys; NaN if there is none.
    seed : int
        The study's own, from which the others follow.
    orders : int
        How many to try; none if fewer than a tenth of the people are tied.
    """
    distinct, share = tied_share(score)
    seeds = np.random.SeedSequence(seed).generate_state(orders if share >= MANY_TIED else 0)
    found = [estimate(int(s)) for s in seeds]
    return TieOrders(distinct, share, tuple(hr for hr in found if np.isfinite(hr)))
