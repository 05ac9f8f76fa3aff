"""Ties of propensity scores in matching: random keys, and the effect of the order of ties.

A score of a few 0/1 covariates has few distinct values, so that the data do not determine who is
matched among people with equal scores. The order of rows must not determine it either: ties are
ordered by a random key of each person's id and a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.diagnostic_limits import TIED
from steropes.errors import DataError
from steropes.models.fitting.progress_messages import counted_steps

__all__ = ["TieOrders", "tie_keys", "tied_share", "try_tie_orders"]


@dataclass(frozen=True)
class TieOrders:
    """The share of tied scores, and the hazard ratios under other orders of the ties.

    Attributes
    ----------
    share : float
        Share of people who share their score with somebody.
    hazard_ratios : tuple of float
        Results of the main analysis under other orders; those without an estimate are left out.
    """

    distinct: int
    share: float
    hazard_ratios: tuple[float, ...] = ()


def tie_keys(ids: ArrayLike, seed: int = 0) -> NDArray:
    """Compute a random number per person, (n,) uint64, that depends only on id and seed.

    Parameters
    ----------
    ids : array_like, shape (n,)
        Ids of the people: whole numbers or strings.

    Notes
    -----
    SplitMix64 (Steele, Lea and Flood 2014, OOPSLA) of the id, offset by that of the seed. It is a
    bijection, so that different whole numbers never have the same key.
    """
    ids = np.asarray(ids)
    if ids.ndim != 1:
        raise DataError(f"ids must be one value per person, not of shape {ids.shape}")
    if ids.dtype.kind in "iu":
        words = ids.astype(np.uint64)  # Negative ids wrap around without collisions.
    else:
        words = pd.util.hash_array(ids.astype(object), categorize=False)
    offset = _split_mix(np.array([int(seed) & (2**64 - 1)], dtype=np.uint64))
    return _split_mix(words ^ offset)


def _split_mix(words: NDArray) -> NDArray:
    """Apply one step of SplitMix64."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def tied_share(score: ArrayLike) -> tuple[int, float]:
    """Count the distinct scores, and compute the share of people with a tied score."""
    _, counts = np.unique(np.asarray(score), return_counts=True)
    n = int(counts.sum())
    return len(counts), float(counts[counts > 1].sum() / n) if n else 0.0


def try_tie_orders(
    score: ArrayLike, estimates: Callable[[Sequence[int]], Iterable[float]], seed: int, orders: int
) -> TieOrders:
    """Repeat the matching under other orders of the ties.

    Parameters
    ----------
    score : array_like, shape (n,)
        Scores as compared by the matching.
    estimates : callable
        Yields the hazard ratio for each of several seeds of the keys; NaN if there is none.
    seed : int
        Seed of the study, from which the others are derived.
    orders : int
        Number of orders to try; none if fewer than a tenth of the people are tied.
    """
    distinct, share = tied_share(score)
    seeds = np.random.SeedSequence(seed).generate_state(orders if share >= TIED else 0)
    found = []
    with counted_steps(len(seeds)) as report:
        for ratio in estimates([int(s) for s in seeds]):
            found.append(ratio)
            report(len(found))
    return TieOrders(distinct, share, tuple(hr for hr in found if np.isfinite(hr)))
