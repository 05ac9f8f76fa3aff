"""Null distributions and statistics of tree scans, with replicates as rows of one array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import xlogy

from steropes.designs.surveillance.group_sequential_bounds import check_count
from steropes.designs.values.argument_checks import check_whole

__all__ = [
    "BernoulliScan", "PoissonScan", "ScanModel", "cut_counts", "lanes", "largest_statistics",
    "replicate_seed",
    "table_of_logs",
]  # fmt: skip

# Replicates of a block, which share one stream of random numbers.
BLOCK = 250


@dataclass(frozen=True)
class ScanModel(ABC):
    """Cases of groups (nodes, or people alike) that cuts of a tree sum up.

    Attributes
    ----------
    cases : ndarray of int, shape (groups,)
        Observed cases.
    reach : sparse matrix, shape (cuts, groups)
        The groups of each cut.
    least : int
        Least number of cases of a cut that is tested.
    """

    cases: NDArray
    reach: sparse.csr_array
    least: int

    @property
    @abstractmethod
    def expected(self) -> NDArray:
        """Cases of each cut that are expected without an effect, (cuts,)."""

    @abstractmethod
    def draw(self, rng: Generator, lanes: int) -> NDArray:
        """Draw cases without an effect, (lanes, groups)."""

    @abstractmethod
    def statistics(self, counts: NDArray) -> NDArray:
        """Compute the log-likelihood ratios of cases of cuts, (lanes, cuts)."""

    @property
    def observed(self) -> NDArray:
        """Observed cases of each cut, (cuts,)."""
        return cut_counts(self.reach, self.cases[None, :])[0]


@dataclass(frozen=True)
class PoissonScan(ScanModel):
    """Poisson cases with a known or an estimated overall rate.

    Attributes
    ----------
    means : ndarray, shape (groups,)
        Expected cases, up to a factor if ``conditional``.
    conditional : bool
        Whether the number of all cases is fixed.
    """

    means: NDArray
    conditional: bool

    @cached_property
    def expected(self) -> NDArray:
        """Expected cases, as many as observed in all if conditional."""
        means = self.means
        if self.conditional:
            means = means * (self.cases.sum() / means.sum())
        return np.asarray(self.reach @ means)

    def draw(self, rng: Generator, lanes: int) -> NDArray:
        """Draw Poisson, or multinomial, cases."""
        if self.conditional:
            share = self.means / self.means.sum()
            return rng.multinomial(int(self.cases.sum()), share, size=lanes)
        return rng.poisson(self.means, size=(lanes, len(self.means)))

    def statistics(self, counts: NDArray) -> NDArray:
        """Compare counts with the expected ones, inside only or also outside."""
        from steropes.backends.cpu.tree_scan_kernels import poisson_ratios, share_ratios

        if self.conditional:
            sizes = np.full(len(self.expected), int(self.cases.sum()))
            table = table_of_logs(int(sizes[0]))
            logs = (log_of(self.expected), log_of(sizes - self.expected))
            return np.asarray(share_ratios(counts, sizes, self.expected, *logs, table, self.least))
        table = table_of_logs(int(counts.max(initial=0)))
        logs_e = log_of(self.expected)
        return np.asarray(poisson_ratios(counts, self.expected, logs_e, table, self.least))


@dataclass(frozen=True)
class BernoulliScan(ScanModel):
    """Events of which a part are cases: exposed, or in the time at risk.

    Attributes
    ----------
    sizes : ndarray of int, shape (groups,)
        Events, cases or not.
    probability : ndarray, shape (groups,), or None
        Probability that an event is a case; None fixes the number of all cases.
    """

    sizes: NDArray
    probability: NDArray | None

    @cached_property
    def expected(self) -> NDArray:
        """Expected cases, as many as observed in all if their number is fixed."""
        probability = self.probability
        if probability is None:
            probability = np.full(len(self.sizes), self.cases.sum() / self.sizes.sum())
        return np.asarray(self.reach @ (self.sizes * probability))

    @cached_property
    def cut_sizes(self) -> NDArray:
        """Events of each cut, (cuts,)."""
        return cut_counts(self.reach, self.sizes[None, :])[0]

    def draw(self, rng: Generator, lanes: int) -> NDArray:
        """Draw binomial, or multivariate hypergeometric, cases."""
        if self.probability is None:
            return rng.multivariate_hypergeometric(
                self.sizes, int(self.cases.sum()), size=lanes, method="marginals"
            )
        return rng.binomial(self.sizes, self.probability, size=(lanes, len(self.sizes)))

    def statistics(self, counts: NDArray) -> NDArray:
        """Compare shares with the known ones, or inside with outside."""
        from steropes.backends.cpu.tree_scan_kernels import overall_ratios, share_ratios

        size = int(self.sizes.sum())
        if self.probability is None:
            cases = int(self.cases.sum())
            table = table_of_logs(size)
            return np.asarray(
                overall_ratios(counts, self.cut_sizes, cases, size, table, self.least)
            )
        table = table_of_logs(int(self.cut_sizes.max(initial=0)))
        logs = (log_of(self.expected), log_of(self.cut_sizes - self.expected))
        return np.asarray(
            share_ratios(counts, self.cut_sizes, self.expected, *logs, table, self.least)
        )


def cut_counts(reach: sparse.csr_array, draws: NDArray) -> NDArray:
    """Sum cases over the groups of each cut, (lanes, groups) to (lanes, cuts)."""
    from steropes.backends.cpu.tree_scan_kernels import cut_sums

    counts = np.ascontiguousarray(draws, dtype=np.int64)
    links = (reach.indptr.astype(np.int64), reach.indices.astype(np.int64))
    return np.asarray(cut_sums(counts, *links))


def table_of_logs(largest: int) -> NDArray:
    """Return n ln n for n up to the largest."""
    n = np.arange(largest + 1.0)
    return np.asarray(xlogy(n, n))


def log_of(values: NDArray) -> NDArray:
    """Return logarithms, and 0 where values are not positive, which no statistic uses."""
    return np.log(np.where(values > 0, values, 1.0))


def lanes(replicates: int, seed: SeedSequence) -> Iterator[tuple[int, Generator]]:
    """Yield the sizes of blocks of replicates, and their random numbers."""
    blocks = -(-replicates // BLOCK)
    for number, own in enumerate(seed.spawn(blocks)):
        yield min(BLOCK, replicates - number * BLOCK), default_rng(own)


def replicate_seed(replicates: int, seed: int) -> SeedSequence:
    """Return the source of random numbers of replicates, after checks of both numbers."""
    check_count("replicates", replicates)
    return SeedSequence(check_whole("seed", seed, 0))


def largest_statistics(model: ScanModel, replicates: int, seed: int) -> NDArray:
    """Compute the largest statistic over all cuts in replicates without an effect."""
    source = replicate_seed(replicates, seed)
    found = [
        model.statistics(cut_counts(model.reach, model.draw(rng, size))).max(axis=1, initial=0.0)
        for size, rng in lanes(replicates, source)
    ]
    return np.concatenate(found)
