"""Bootstrap draws as row weights: units drawn with replacement, as often as there are of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..errors import DataError

__all__ = ["Draws", "sampling_units"]


def sampling_units(problem: Any, cluster: np.ndarray | None) -> tuple[np.ndarray | None, str]:
    """Code of the unit that each row is drawn with, and what the units are called.

    Parameters
    ----------
    problem : steropes.fit.Problem
    cluster : (n,) int array or None
        Codes of the user's clusters.

    Returns
    -------
    code : (n,) int array or None
        None: every row is its own unit.
    name : {"rows", "strata", "clusters"}
    """
    together = problem.fold_together
    if cluster is None:
        return together, "rows" if together is None else "strata"
    if together is not None:
        cut = rows_across_clusters(together, cluster, problem.weights)
        if len(cut):
            raise DataError(
                f"cluster cuts the stratum of row {cut[0]}: the model compares the rows of a "
                "stratum with each other, so that a cluster holds whole strata. Leave cluster "
                "out to take strata, or give all rows of a stratum one label."
            )
    return cluster, "clusters"


def rows_across_clusters(
    together: np.ndarray, cluster: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Rows with weight that are in another cluster than the first such row of their stratum.

    Parameters
    ----------
    together, cluster : (n,) int arrays
        Codes of strata and of clusters.
    weights : (n,) array
    """
    used = np.flatnonzero(weights > 0)
    first = np.full(int(together.max()) + 1, -1, np.int64)
    first[together[used[::-1]]] = used[::-1]
    return used[cluster[first[together[used]]] != cluster[used]]


def _in_order(unit: np.ndarray) -> np.ndarray:
    """Codes in the order of their first rows: rows without weight, which are not here, moved it."""
    codes, first = np.unique(unit, return_index=True)
    return codes[np.argsort(first)]


class Draws:
    """Multinomial weights of draws, made again whenever they are asked for.

    Parameters
    ----------
    weights : (n,) array
        The problem's; units without any weight are not drawn.
    unit : (n,) int array or None
        Codes.
    count : int
        Draws.
    rng : numpy.random.Generator
        Seeds each draw; which of them go together changes none.
    """

    def __init__(
        self,
        weights: np.ndarray,
        unit: np.ndarray | None,
        count: int,
        rng: np.random.Generator,
    ) -> None:
        self.weights, self.unit = weights, unit
        self.size = len(weights) if unit is None else int(unit.max()) + 1
        used = np.flatnonzero(weights > 0)
        self.present = used if unit is None else _in_order(unit[used])
        self.seeds = rng.integers(0, 2**63, size=count)

    def of(self, seeds: np.ndarray) -> Draws:
        """The draws of some seeds."""
        out = copy.copy(self)
        out.seeds = np.asarray(seeds)
        return out

    def generator(self, k: int) -> np.random.Generator:
        """A generator of one draw's own."""
        return np.random.default_rng(int(self.seeds[k]))

    def one(self, k: int) -> np.ndarray:
        """Row weights of a draw, (n,)."""
        m = len(self.present)
        times = np.zeros(self.size)
        drawn = self.generator(k).integers(0, m, size=m)
        times[self.present] = np.bincount(drawn, minlength=m)
        return self.weights * (times if self.unit is None else times[self.unit])

    def __call__(self, numbers: list[int]) -> np.ndarray:
        """Row weights of some draws, (n, len(numbers))."""
        out = np.empty((len(self.weights), len(numbers)))
        for b, k in enumerate(numbers):
            out[:, b] = self.one(k)
        return out
