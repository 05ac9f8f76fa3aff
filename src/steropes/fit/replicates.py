"""Many fits of one problem that differ in row weights, offsets or penalties.

Replicates share X, the working set and the Hessian. They are fitted a group of lanes at a time,
as many groups being kept between calls as memory allows; the others are made again from the
coefficients that the caller starts them at. Between two groups is the place to stop: an interrupt
there leaves everything as it was after the last group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..likelihoods.nuisance import Nuisance
from ..priors import Prior
from ..solve import Batch, Common, Fit
from .problem import Problem
from .solve_with_prior import solve_under_prior

__all__ = ["Group", "Replicates", "lanes_of_draws"]

LANES = 8  # replicates that go together,
SMALL, MORE_LANES = (
    2048,
    40,
)  # and of few rows, where what a step does beside the sums is most of it
VECTORS = 4  # arrays as long as the linear predictors that a replicate holds

Weights = Callable[[list[int]], np.ndarray]


def lanes_of_draws(problem: Problem) -> int:
    """How many replicates of which there are hundreds go together."""
    return MORE_LANES if problem.likelihood.n_eta <= SMALL else LANES


@dataclass(frozen=True)
class Group:
    """Replicates that were fitted together.

    Attributes
    ----------
    numbers : list of int
    batch : Batch
        Where they are now.
    fits : list of Fit
    """

    numbers: list[int]
    batch: Batch
    fits: list[Fit]


class Replicates:
    """Replicates of a problem.

    Parameters
    ----------
    problem : Problem
    common : Common
        Working set and Hessian, shared with other fits of the problem.
    count : int
        How many there are.
    weights : callable
        Takes numbers of replicates and returns their row weights, (n, b).
    memory : float
        Bytes that groups may hold between calls.
    offsets : callable, optional
        Takes the same and returns offsets, (n, b), that take the place of the problem's.
    like : Nuisance, optional
        Nuisance parameters that new batches start near.
    per_replicate_subproblems : bool
        See `Batch`.
    lanes : int
        How many go together.
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
        lanes: int = LANES,
    ) -> None:
        self.per_replicate_subproblems = per_replicate_subproblems
        self.problem, self.common = problem, common
        self.weights, self.offsets, self.like = weights, offsets, like
        self.groups = [list(range(a, min(a + lanes, count))) for a in range(0, count, lanes)]
        self.keep = max(0, int(memory // (8 * VECTORS * problem.likelihood.n_eta * lanes)))
        self._batches: dict[int, Batch] = {}

    def solve(
        self,
        l1: np.ndarray,
        l2: np.ndarray,
        tol: float,
        start: Callable[[int], np.ndarray],
        look: str,
    ) -> Iterator[Group]:
        """Fit all replicates, and yield each group when it is there.

        Parameters
        ----------
        l1, l2 : (p,) or (p, count) arrays
            Penalties in X's units, of all or of each.
        tol : float
            Largest KKT violation.
        start : callable
            Takes the number of a group and returns coefficients in the scaled columns to start
            from, (p, b) or (p, 1).
        look : {"during", "after"}
            See `Batch.solve`.
        """

        def fit(batch: Batch, numbers: list[int]) -> list[Fit]:
            own = [x if x.ndim == 1 else x[:, numbers] for x in (l1, l2)]
            return batch.solve(own[0], own[1], tol=tol, look=look)

        return self._each(start, fit)

    def solve_under_prior(
        self,
        prior: Prior | None,
        tol: float,
        start: Callable[[int], np.ndarray],
        look: str,
        max_iter: int = 200,
    ) -> Iterator[Group]:
        """The same under a prior, whatever it says of the coefficients; see `solve`.

        ``prior`` is the problem's, or the same with another variance.
        """

        def fit(batch: Batch, numbers: list[int]) -> list[Fit]:
            return solve_under_prior(self.problem, batch, prior, tol, max_iter, look=look).fits

        return self._each(start, fit)

    def _each(
        self, start: Callable[[int], np.ndarray], fit: Callable[[Batch, list[int]], list[Fit]]
    ) -> Iterator[Group]:
        for k, numbers in enumerate(self.groups):
            batch, like = self._batches.get(k), None  # it stands nearer
            if batch is None:
                batch, like = self._make(numbers), self.like
            begin = start(k)
            batch.start_at(np.broadcast_to(begin, (len(begin), len(numbers))), like)
            fits = fit(batch, numbers)
            if k < self.keep:
                self._batches[k] = batch
            yield Group(numbers, batch, fits)

    @property
    def kept(self) -> list[Batch] | None:
        """The batches of all groups where they ended, if memory allowed to keep them."""
        there = [self._batches.get(k) for k in range(len(self.groups))]
        return None if None in there else [batch for batch in there if batch is not None]

    def _make(self, numbers: list[int]) -> Batch:
        offsets = None if self.offsets is None else self.offsets(numbers)
        weights = self.weights(numbers)
        return self.problem.batch(
            weights, len(numbers), self.common, offsets, self.per_replicate_subproblems
        )
