"""Bootstrap draws as row weights: as many units as there are, drawn with replacement."""

from __future__ import annotations

import copy

import numpy as np

from ..errors import DataError
from ..fit import Problem
from ..solve.data_term import RowMultiples

__all__ = ["Draws", "GivenDraws", "Omissions", "Subsets", "sampling_units"]


def sampling_units(problem: Problem, cluster: np.ndarray | None) -> tuple[np.ndarray | None, str]:
    """Determine the sampling unit of each row, and the kind of unit.

    Parameters
    ----------
    cluster : (n,) int array or None
        Codes of the user's clusters.

    Returns
    -------
    code : (n,) int array or None
        Code of each row's unit; None if every row is its own unit.
    name : {"rows", "strata", "clusters"}

    Raises
    ------
    DataError
        The rows of a stratum belong to different clusters.
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
    """Find the rows whose cluster differs from that of the first row of their stratum.

    Only rows with positive weights count.

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


def _by_first_row(unit: np.ndarray) -> np.ndarray:
    """Return the distinct codes in the order of their first rows.

    The codes themselves depend on rows of zero weight, which are absent here and must not change
    the draws.
    """
    codes, first = np.unique(unit, return_index=True)
    return codes[np.argsort(first)]


class Draws:
    """Multinomial row weights of bootstrap draws, recomputed from seeds at each call.

    Parameters
    ----------
    weights : (n,) array
        Row weights of the problem; units with no weight are not drawn.
    unit : (n,) int array or None
        Codes of the sampling units; None draws single rows.
    rng : numpy.random.Generator
        Generates a seed for each draw, so that a draw does not depend on how they are grouped.
    """

    def __init__(
        self, weights: np.ndarray, unit: np.ndarray | None, count: int, rng: np.random.Generator
    ) -> None:
        self.weights, self.unit = weights, unit
        self.size = len(weights) if unit is None else int(unit.max()) + 1
        used = np.flatnonzero(weights > 0)
        self.present = used if unit is None else _by_first_row(unit[used])
        self.seeds = rng.integers(0, 2**63, size=count)

    def of(self, seeds: np.ndarray) -> Draws:
        """Return the draws with other seeds."""
        out = copy.copy(self)
        out.seeds = np.asarray(seeds)
        return out

    def generator(self, k: int) -> np.random.Generator:
        """Create the random generator of draw k."""
        return np.random.default_rng(int(self.seeds[k]))

    def one(self, k: int) -> np.ndarray:
        """Compute the row weights of draw k, (n,)."""
        return self.weights * self._times(k)

    def _times(self, k: int) -> np.ndarray:
        """Count how often draw k contains each row, (n,)."""
        m = len(self.present)
        times = np.bincount(self.generator(k).integers(0, m, size=m), minlength=m)
        if m < self.size or self.unit is not None:
            times, drawn = np.zeros(self.size, np.int64), times
            times[self.present] = drawn
        return times if self.unit is None else times[self.unit]

    def multiples(self, numbers: list[int]) -> RowMultiples:
        """Return the same weights with one byte for each row and draw, if that is enough."""
        counts = [_as_bytes(self._times(k)) for k in numbers]
        return RowMultiples(self.weights, np.stack(counts))

    def __call__(self, numbers: list[int]) -> np.ndarray:
        """Compute the row weights of several draws, (n, len(numbers))."""
        out = np.empty((len(self.weights), len(numbers)))
        for b, k in enumerate(numbers):
            out[:, b] = self.one(k)
        return out


class Omissions(Draws):
    """Row weights that omit one unit at a time, for the jackknife.

    Parameters
    ----------
    weights : (n,) array
        Row weights of the problem; units with no weight are not omitted.
    unit : (n,) int array or None
        Codes of the units; None omits single rows.
    """

    def __init__(self, weights: np.ndarray, unit: np.ndarray | None) -> None:
        super().__init__(weights, unit, 0, np.random.default_rng(0))
        self.seeds = np.arange(len(self.present))

    def _times(self, k: int) -> np.ndarray:
        """Return zero for the rows of omitted unit k and one for others, (n,)."""
        omitted = self.present[self.seeds[k]]
        unit = np.arange(self.size) if self.unit is None else self.unit
        return np.asarray(unit != omitted, np.int64)


class Subsets(Draws):
    """Row weights of fits to some of the rows each, for cross-fitting.

    Parameters
    ----------
    weights : (n,) array
        Row weights of the problem.
    rows : (B, n) bool array
        The rows of each fit.
    """

    def __init__(self, weights: np.ndarray, rows: np.ndarray) -> None:
        super().__init__(weights, None, 0, np.random.default_rng(0))
        self.rows = rows
        self.seeds = np.arange(len(rows))

    def _times(self, k: int) -> np.ndarray:
        """Return one for the rows of a fit and zero for others, (n,)."""
        return np.asarray(self.rows[self.seeds[k]], np.int64)


class GivenDraws(Draws):
    """Row weights of draws that are given as counts of units.

    Parameters
    ----------
    weights : (n,) array
        Row weights of the problem.
    unit : (n,) int array
        Code of each row's unit.
    times : (B, units) int array
        How often each draw contains each unit.
    """

    def __init__(self, weights: np.ndarray, unit: np.ndarray, times: np.ndarray) -> None:
        super().__init__(weights, unit, 0, np.random.default_rng(0))
        self.times = times
        self.seeds = np.arange(len(times))

    def _times(self, k: int) -> np.ndarray:
        """Return how often draw k contains the unit of each row, (n,)."""
        assert self.unit is not None  # as given
        return np.asarray(self.times[self.seeds[k]], np.int64)[self.unit]


def _as_bytes(times: np.ndarray) -> np.ndarray:
    """Convert counts to bytes, or to floating-point numbers if one is too large."""
    few = times.max(initial=0) <= np.iinfo(np.uint8).max
    return times.astype(np.uint8 if few else np.float64)
