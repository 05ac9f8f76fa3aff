"""Fits of many replicates of one problem, which differ in row weights, offsets or penalties.

Replicates share X, the working set and the Hessian. They are fitted in groups of lanes. As many
groups as memory allows are kept between calls; the others are recreated at the coefficients that
the caller gives. An interrupt between two groups leaves the state after the last one intact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..likelihoods.nuisance_interface import Nuisance
from ..priors import Prior
from ..solve import Batch, Common, Fit
from ..solve.data_term import RowMultiples
from .multi_fit_constants import REPLICATES
from .solve_with_prior import solve_under_prior
from .solver_problem import Problem

__all__ = ["Group", "Replicates", "Weights", "lanes_of_draws", "lanes_together"]

# The number for at most SMALL_ROWS rows, where the fixed costs of a step dominate.
SMALL_ROWS, SMALL_DATA_LANES = 2048, 40

Weights = Callable[[list[int]], np.ndarray]


@runtime_checkable
class MultipliedWeights(Protocol):
    """Row weights of replicates that are the problem's weights times whole numbers."""

    def multiples(self, numbers: list[int]) -> RowMultiples:
        """Return the weights of some replicates by their factors."""


def lanes_together(problem: Problem, on_host: int) -> int:
    """Return how many replicates are fitted together: ``on_host`` there, more on a device."""
    likelihood = problem.likelihood
    if likelihood.backend.on_host:
        return on_host
    numbers = REPLICATES.arrays_per_lane * likelihood.n_eta
    numbers += REPLICATES.coefficient_arrays * problem.design.p
    room = REPLICATES.device_bytes // (8 * max(1, numbers))
    return max(on_host, min(REPLICATES.device_lanes, int(room)))


def lanes_of_draws(problem: Problem) -> int:
    """Return how many of hundreds of replicates are fitted together."""
    if problem.likelihood.n_eta <= SMALL_ROWS:
        return SMALL_DATA_LANES
    return lanes_together(problem, REPLICATES.lanes)


@dataclass(frozen=True)
class Group:
    """Replicates that were fitted together.

    Attributes
    ----------
    batch : Batch
        The batch at their optima.
    """

    numbers: list[int]
    batch: Batch
    fits: list[Fit]


class Replicates:
    """The replicates of a problem, fitted in groups.

    Parameters
    ----------
    common : Common
        Working set and Hessian, shared with other fits of the problem.
    weights : callable
        Maps numbers of replicates to their row weights, (n, b).
    memory : float
        Bytes that groups may occupy between calls.
    offsets : callable, optional
        Maps numbers of replicates to offsets, (n, b), that replace those of the problem.
    like : Nuisance, optional
        Nuisance parameters near which new batches start.
    per_replicate_subproblems : bool
        See `Batch`.
    """

    def __init__(
        self,
        problem: Problem,
        common: Common,
        count: int,
        weights: Weights,
        memory: float,
        offsets: Weights | None = None,
        like: Nuisance | None = None,
        per_replicate_subproblems: bool = False,
        lanes: int = REPLICATES.lanes,
    ) -> None:
        self.per_replicate_subproblems = per_replicate_subproblems
        self.problem, self.common = problem, common
        self.weights, self.offsets, self.like = weights, offsets, like
        self.groups = [list(range(a, min(a + lanes, count))) for a in range(0, count, lanes)]
        self.keep = max(
            0, int(memory // (8 * REPLICATES.arrays_per_lane * problem.likelihood.n_eta * lanes))
        )
        self._batches: dict[int, Batch] = {}

    def solve(
        self,
        l1: np.ndarray,
        l2: np.ndarray,
        tol: float,
        start: Callable[[int], np.ndarray],
        look: str,
    ) -> Iterator[Group]:
        """Fit all replicates, and yield each group as it is done.

        Parameters
        ----------
        l1, l2 : (p,) or (p, count) arrays
            Penalties in X's units, common to all replicates or of each.
        tol : float
            Largest KKT violation.
        start : callable
            Maps the number of a group to initial coefficients in the scaled columns, (p, b) or
            (p, 1).
        look : {"during", "after"}
            See `Batch.solve`.
        """

        def fit(batch: Batch, numbers: list[int]) -> list[Fit]:
            own = [x if x.ndim == 1 else x[:, numbers] for x in (l1, l2)]
            return batch.solve(own[0], own[1], tol=tol, look=look)

        return self._fit_groups(start, fit)

    def solve_under_prior(
        self,
        prior: Prior | None,
        tol: float,
        start: Callable[[int], np.ndarray],
        look: str,
        max_iter: int = 200,
    ) -> Iterator[Group]:
        """Fit all replicates under a prior of any kind; see `solve`.

        ``prior`` is the problem's prior, possibly with another variance.
        """

        def fit(batch: Batch, numbers: list[int]) -> list[Fit]:
            return solve_under_prior(self.problem, batch, prior, tol, max_iter, look=look).fits

        return self._fit_groups(start, fit)

    def _fit_groups(
        self, start: Callable[[int], np.ndarray], fit: Callable[[Batch, list[int]], list[Fit]]
    ) -> Iterator[Group]:
        """Fit the groups one after another, and keep the batches of the first ones."""
        for k, numbers in enumerate(self.groups):
            batch, like = self._batches.get(k), None  # a batch that was kept is nearer
            if batch is None:
                batch, like = self._create_batch(numbers), self.like
            begin = start(k)
            batch.start_at(np.broadcast_to(begin, (len(begin), len(numbers))), like)
            fits = fit(batch, numbers)
            if k < self.keep:
                self._batches[k] = batch
            yield Group(numbers, batch, fits)

    @property
    def kept(self) -> list[Batch] | None:
        """The batches of all groups at their optima, or None if not all could be kept."""
        there = [self._batches.get(k) for k in range(len(self.groups))]
        return None if None in there else [batch for batch in there if batch is not None]

    def _create_batch(self, numbers: list[int]) -> Batch:
        """Create the batch of some replicates."""
        offsets = None if self.offsets is None else self.offsets(numbers)
        weights: np.ndarray | RowMultiples
        on_host = self.problem.likelihood.backend.on_host
        if isinstance(self.weights, MultipliedWeights) and not on_host:
            weights = self.weights.multiples(numbers)
        else:
            weights = self.weights(numbers)
        return self.problem.batch(
            weights, len(numbers), self.common, offsets, self.per_replicate_subproblems
        )
