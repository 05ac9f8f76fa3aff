"""Approximations of the model by fewer distinct outcomes or fewer rows per fit.

Binning and rounding reduce the number of distinct outcomes, and with it that of the thresholds;
divide-and-combine fits subsets of the rows (Li, Chen and Shepherd 2022, §2.2–2.4). The exact model
is rarely too slow, so they serve for comparisons and for data that exceed the memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ...data.html_representations import FieldsInHtml
from ...errors import DataError

__all__ = [
    "DivideAndCombine",
    "EqualQuantileBins",
    "Reduction",
    "RoundDecimals",
    "RoundSignificant",
    "suggest",
]

# Multipliers tried by the refinement step.
GRID = np.round(np.arange(1.0, 10.05, 0.1), 1)


class Reduction(FieldsInHtml):
    """Base class of approximations of the model that need less work."""


class Coarsening(Reduction, ABC):
    """A reduction that replaces the outcome by one with fewer distinct values."""

    @property
    @abstractmethod
    def _target(self) -> int:
        """Number of distinct values aimed at."""

    def apply(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Coarsen the outcome unless it has few enough distinct values already.

        Parameters
        ----------
        y : (n,) array
            Outcomes.
        weights : (n,) array
            Weights of the rows.

        Returns
        -------
        (n,) array
            Outcomes with about as many distinct values as aimed at.

        Raises
        ------
        DataError
            If the target is not a whole number of at least 2.
        """
        return self.apply_and_describe(y, weights)[0]

    def apply_and_describe(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, str]:
        """Coarsen the outcome as `apply` does, and describe the chosen precision in words.

        Parameters
        ----------
        y : (n,) array
            Outcomes.
        weights : (n,) array
            Weights of the rows.

        Returns
        -------
        coarse : (n,) array
            Outcomes with about as many distinct values as aimed at.
        description : str
            The precision and the numbers of distinct outcomes.

        Raises
        ------
        DataError
            If the target is not a whole number of at least 2.
        """
        target = self._target
        if not _whole(target) or target < 2:
            raise DataError(
                f"{type(self).__name__} needs a whole number of at least 2 values, not {target!r}."
            )
        values, code = np.unique(y, return_inverse=True)
        if len(values) <= target:
            return y, f"unchanged: {len(values):,} distinct outcomes"
        mass = np.bincount(code.reshape(-1), weights, len(values))
        coarse, choice = self._coarse(values, mass)
        left = _count_distinct(coarse)
        return coarse[code.reshape(-1)], f"{choice}: {left:,} of {len(values):,} distinct outcomes"

    @abstractmethod
    def _coarse(self, values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, str]:
        """Return the new value of each distinct outcome, and the chosen precision in words.

        ``values`` (M,) are ascending and ``mass`` (M,) are sums of weights; several of the new
        values (M,) can be equal.
        """


@dataclass(frozen=True)
class EqualQuantileBins(Coarsening):
    """Bins with equal numbers of rows, each replaced by its median (§2.3).

    Tied outcomes are assigned together, to the bin of the middle of their ranks.

    Parameters
    ----------
    M_b : int
        Number of bins.

    References
    ----------
    Li, Chen and Shepherd (2022), arXiv:2207.06562.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> steropes.EqualQuantileBins(2).apply(np.array([1.0, 2.0, 3.0, 10.0]), np.ones(4)).tolist()
    [1.5, 1.5, 6.5, 6.5]
    """

    M_b: int

    @property
    def _target(self) -> int:
        """Number of distinct values aimed at."""
        return self.M_b

    def _coarse(self, values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, str]:
        """See `Coarsening._coarse`."""
        end = np.cumsum(mass)
        middle = end - 0.5 * mass
        bins = np.minimum((middle * (self.M_b / end[-1])).astype(np.int64), self.M_b - 1)
        out = np.empty(len(values))
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
        for a, b in zip(starts, [*starts[1:], len(values)], strict=True):
            out[a:b] = _median(values[a:b], mass[a:b])
        return out, f"medians of {len(starts):,} bins"


@dataclass(frozen=True)
class Rounding(Coarsening):
    """Base class of rounding to at most about M_r distinct values."""

    M_r: int

    @property
    def _target(self) -> int:
        """Number of distinct values aimed at."""
        return self.M_r


@dataclass(frozen=True)
class RoundDecimals(Rounding):
    """Rounding to a decimal place or power of ten, with refinement (§2.4).

    With s the place for which rounding leaves at most M_r distinct values and s + 1 more, the
    outcome becomes round(t y, s) / t for the multiplier t in 1, 1.1, …, 10 whose number of
    distinct values is closest to M_r on the log scale. A fitted model reports s and t in
    ``reduction_summary_``.

    Parameters
    ----------
    M_r : int
        Number of distinct values aimed at.

    References
    ----------
    Li, Chen and Shepherd (2022), arXiv:2207.06562.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> y = np.linspace(0.0, 1.0, 1001)
    >>> coarse = steropes.RoundDecimals(20).apply(y, np.ones(len(y)))
    >>> len(np.unique(coarse))
    20
    """

    def _coarse(self, values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, str]:
        """See `Coarsening._coarse`."""
        place = 0
        for _ in range(700):
            here, finer = (_count_distinct(np.round(values, place + i)) for i in (0, 1))
            if finer < self.M_r:
                place += 1
            elif here > self.M_r:
                place -= 1
            else:
                break
        coarse, t = _refine(lambda scale: np.round(scale * values, place) / scale, self.M_r)
        return coarse, f"{place} decimal{'s' * (abs(place) != 1)}, t = {t:g}"


@dataclass(frozen=True)
class RoundSignificant(Rounding):
    """Rounding to significant digits, refined as in `RoundDecimals` (§2.4); for skewed outcomes.

    Digits are counted from the leading digit of y regardless of the multiplier. Rounded values
    stay within their decade, which preserves the order of outcomes: with the multiplier 1.4 and
    no further digit 9.99 becomes 14/1.4 = 10, and 10.6 becomes 10 rather than 10/1.4 = 7.1.

    Parameters
    ----------
    M_r : int
        Number of distinct values aimed at.

    References
    ----------
    Li, Chen and Shepherd (2022), arXiv:2207.06562.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> y = np.geomspace(0.01, 100.0, 1001)
    >>> coarse = steropes.RoundSignificant(50).apply(y, np.ones(len(y)))
    >>> len(np.unique(coarse))
    49
    """

    def _coarse(self, values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, str]:
        """See `Coarsening._coarse`."""
        with np.errstate(divide="ignore"):
            size = np.where(values == 0, 0.0, np.floor(np.log10(np.abs(values))))
        digits = 0
        while digits < 17 and _count_distinct(_round_to(values, size, 1.0, digits)) < self.M_r:
            digits += 1
        digits -= 1  # digits of the mantissa after the first
        coarse, t = _refine(lambda scale: _round_to(values, size, scale, digits), self.M_r)
        return coarse, f"{digits + 1} digit{'s' * (digits != 0)}, t = {t:g}"


@dataclass(frozen=True)
class DivideAndCombine(Reduction):
    """Fits of K subsets that are combined (§2.2).

    Each subset gets one of the K smallest and one of the K largest outcomes, and the other rows
    are assigned at random in equal numbers. β is the mean over subsets, and α(y) is the mean over
    the subsets with outcomes on both sides of y, made monotone at the two ends, where this set
    changes. Variances are sums over these subsets divided by the square of their number.

    Parameters
    ----------
    K : int
        Number of subsets.

    References
    ----------
    Li, Chen and Shepherd (2022), arXiv:2207.06562.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 1))
    >>> y = X[:, 0] + rng.logistic(size=400)
    >>> model = steropes.CumulativeProbabilityModel(reduce=steropes.DivideAndCombine(2))
    >>> model.set_params(random_state=1).fit(X, y).coef_.round(0).tolist()
    [1.0]
    """

    K: int

    def deal(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Assign each row to a subset.

        Parameters
        ----------
        y : (n,) array
            Outcomes.
        rng : Generator
            Source of random numbers.

        Returns
        -------
        (n,) int array
            Subsets 0 … K − 1.

        Raises
        ------
        DataError
            If K is not a whole number of at least 1, or there are fewer than 2 K rows.
        """
        n, K = len(y), self.K
        if not _whole(K) or K < 1:
            raise DataError(f"DivideAndCombine needs a whole number of subsets, not {K!r}.")
        if n < 2 * K:
            raise DataError(f"{K} subsets need at least {2 * K} rows; there are {n}.")
        order = np.argsort(y, kind="stable")
        subset = np.empty(n, np.int64)
        subset[order[:K]] = rng.permutation(K)
        subset[order[n - K :]] = rng.permutation(K)
        inner = rng.permutation(order[K : n - K])
        subset[inner] = np.arange(len(inner)) % K
        return subset


def suggest(n: int, M: int, p: int, memory: float | None = None) -> tuple[Reduction | None, str]:
    """Suggest a reduction for n rows, M distinct outcomes and p dense columns.

    Parameters
    ----------
    memory : float, optional
        Available bytes; default half of the machine's free memory.

    Returns
    -------
    reduction : Reduction or None
        None for the exact model.
    reason : str
    """
    memory = 0.5 * _free_memory() if memory is None else float(memory)
    rows = 8.0 * n * (2 * p + 20)  # X by columns and by rows, and derivatives of rows
    thresholds = 8.0 * M * (p + 12)
    size = f"n = {n:,}, M = {M:,}, p = {p:,}"
    if rows + thresholds <= memory:
        return None, (
            f"{size}: the exact model takes about {(rows + thresholds) / 1e9:.2g} GB of the "
            f"{memory / 1e9:.2g} GB allowed, and work linear in n + M; no reduction is needed."
        )
    if rows <= memory:
        M_b = int(max(1000, min(M // 2, (memory - rows) / (8.0 * (p + 12)))))
        return EqualQuantileBins(M_b), (
            f"{size}: the rows fit into the {memory / 1e9:.2g} GB allowed but standard errors "
            f"for {M:,} thresholds do not; {M_b:,} equal-quantile bins do, and estimate β "
            "nearly as well as the exact model."
        )
    K = int(np.ceil((rows + thresholds) / memory))
    return DivideAndCombine(K), (
        f"{size}: the exact model takes about {(rows + thresholds) / 1e9:.2g} GB, more than the "
        f"{memory / 1e9:.2g} GB allowed; {K} subsets are fitted one after another and combined."
    )


def _free_memory() -> float:
    """Return the free memory in bytes, or 8 GB if it is unknown."""
    try:
        import os

        return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 8e9


def _whole(number: object) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(number, Real) and float(number).is_integer()


def _median(values: np.ndarray, mass: np.ndarray) -> float:
    """Compute a weighted median of ascending values."""
    end = np.cumsum(mass)
    half = 0.5 * end[-1]
    k = int(np.searchsorted(end, half, side="left"))
    if end[k] == half and k + 1 < len(values):
        return float(0.5 * (values[k] + values[k + 1]))
    return float(values[k])


def _round_to(x: np.ndarray, size: np.ndarray, scale: float, digits: int) -> np.ndarray:
    """Round scale · x / 10^size to ``digits`` and undo the scaling, within the decade of x.

    An integer is multiplied by a power of ten and divided by ten times the multiplier, which are
    both exact, so that 9.99 and 10.01 round to the same number.
    """
    tenths = np.rint(10 * scale)  # the multipliers are 1, 1.1, …, 10
    place = size + 1 - digits
    large, small = 10.0 ** np.maximum(place, 0), 10.0 ** np.maximum(-place, 0)
    rounded = np.rint(tenths * np.abs(x) / large * small) * large / (tenths * small)
    low, high = (10.0 ** np.maximum(size + i, 0) / 10.0 ** np.maximum(-size - i, 0) for i in (0, 1))
    return np.where(x == 0, 0.0, np.copysign(np.clip(rounded, low, high), x))


def _count_distinct(values: np.ndarray) -> int:
    """Count distinct values of a sorted array."""
    return 1 + int(np.count_nonzero(np.diff(values)))


def _refine(rounding: Callable[[float], np.ndarray], target: int) -> tuple[np.ndarray, float]:
    """Round with the multiplier whose number of distinct values is closest to the target.

    Returns the rounded values and the multiplier.
    """
    counts = np.array([_count_distinct(rounding(scale)) for scale in GRID])
    best = int(np.argmin(np.abs(np.log(counts) - np.log(target))))
    return rounding(GRID[best]), float(GRID[best])
