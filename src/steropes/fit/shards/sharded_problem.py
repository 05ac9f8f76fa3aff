"""Problems with rows in blocks, which compute sums for the steps of the solver."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ...likelihoods import Likelihood
from ...likelihoods.nuisance_likelihood import NuisanceLikelihood
from ...likelihoods.sharded_partial_likelihood import ShardedPartialLikelihood
from ...likelihoods.sharded_thresholds_interface import ShardedThresholds
from ...solve import Common
from ...solve.data_term import (
    DataTerm,
    LevelTerm,
    RiskTerm,
    RowMultiples,
    ShardedFamily,
    ShardedTerm,
    WorkingSet,
    weights_of_rows,
)
from ...solve.data_term.sharded.in_process_shards import ShardBindings
from ...solve.data_term.sharded.shard_messages import (
    Answer,
    Request,
    ShardContext,
    checked_answer,
)
from ...solve.quasi_newton.shared_hessian import SharedHessian
from ..solver_problem import Problem
from .block_interface import Blocks
from .sharded_columns_by_row import split_by_block
from .symmetric_packing import unpack_symmetric
from .time_dependent_columns_by_block import (
    ColumnMaker,
    column_makers,
    eta_rows_by_block,
    sharded_x,
)

_numbers = itertools.count()  # distinguishes the stored data of several models of one design

__all__ = ["BlockLikelihoods", "ShardedProblem", "sharded_problem"]


class BlockLikelihoods:
    """A likelihood that is a sum over blocks; see `Shards`.

    Parameters
    ----------
    parts : sequence of callables
        Functions that create the likelihood of each block's rows; see `Likelihood.parts`.
    column_makers : sequence of callables, optional
        Functions that create the model's columns in each block; see
        `time_dependent_columns_by_block`.
    eta : list of int arrays, optional
        The rows of η of each block, if these are not the rows of X.
    """

    def __init__(
        self,
        blocks: Blocks,
        parts: Sequence[Callable],
        column_makers: Sequence[ColumnMaker] | None = None,
        eta: list[np.ndarray] | None = None,
    ) -> None:
        self.blocks, self.rows, self.eta = blocks, int(sum(blocks.rows)), eta
        self.bindings = ShardBindings()
        self.key = f"family-{next(_numbers)}"
        made: Sequence[ColumnMaker | None] = (
            [None] * len(parts) if column_makers is None else column_makers
        )
        blocks.keep(self.key, list(zip(parts, made, strict=True)))
        weakref.finalize(self, blocks.drop, self.key).atexit = False

    def bind(
        self,
        weights: np.ndarray,
        offset: np.ndarray | None,
        B: int,
        contexts: Sequence[ShardContext] | None = None,
    ) -> str:
        """See `ContextShards.bind`."""
        weights = np.broadcast_to(weights, (self.rows, B))
        key, new = self.bindings.take(weights, offset, B)
        key = f"{self.key}/{key}"
        if new:
            own = split_by_block(weights, self.blocks.rows)
            given: list[Sequence[Any]] = [own, self._offsets(None if contexts else offset)]
            if contexts is not None:
                given.append(contexts)
            self.blocks.keep(key, list(zip(*given, strict=True)))
        return key

    def _offsets(self, offset: np.ndarray | None) -> Sequence[np.ndarray | None]:
        """Split offsets by block, over the rows of X or, if these differ, of η."""
        rows = self.blocks.rows
        if offset is None:
            return [None] * len(rows)
        if self.eta is None or len(offset) == self.rows:
            return split_by_block(offset, rows)
        return [offset[at] for at in self.eta]

    def release(self, key: str) -> None:
        """See `Shards.release`."""
        if self.bindings.drop(key.split("/", 1)[1]):
            self.blocks.drop(key)

    def ask(self, request: Request) -> list[Answer]:
        """See `Shards.ask`; blocks with rows that do not contribute are omitted."""
        own: list[tuple[object, ...]] = [()] * len(self.blocks.rows)
        answers = self.blocks.call("answer", (self.key, request), own)
        return [unpack_symmetric(checked_answer(a)) for a in answers if a is not None]


@dataclass
class ShardedProblem(Problem):
    """A problem with a likelihood that is computed from sums over blocks of rows.

    Attributes
    ----------
    exchange : ShardedPartialLikelihood or None
        Exchange of sums by event time, if risk sets contain rows of several blocks.
    levels : ShardedThresholds or None
        Exchange of sums by threshold, if rows of several blocks share a few thresholds.
    """

    shards: BlockLikelihoods = field(kw_only=True)
    exchange: ShardedPartialLikelihood | None = None
    levels: ShardedThresholds | None = None

    def uncentered(self) -> Problem:
        """See `Problem.uncentered`; the blocks are recreated with uncentred columns."""
        return sharded_problem(self._whole.uncentered())

    def with_likelihood(self, likelihood: Likelihood) -> Problem:
        """See `Problem.with_likelihood`; the blocks get their parts of it."""
        return sharded_problem(self._whole.with_likelihood(likelihood))

    @property
    def _whole(self) -> Problem:
        """The problem without the sums of its blocks."""
        return Problem(**{f.name: getattr(self, f.name) for f in fields(Problem)})

    def common(self) -> Common:
        """See `Problem.common`."""
        pool = self.likelihood.backend.pool
        return Common(WorkingSet(self.design.p), SharedHessian(pool))

    def _likelihood_term(
        self, weights: np.ndarray | RowMultiples, offset: np.ndarray | None, B: int,
        active: WorkingSet | None,
    ) -> DataTerm:  # fmt: skip
        """Create the data term that fits the exchange between the blocks."""
        weights = weights_of_rows(weights)
        likelihood, backend = self.likelihood, self.likelihood.backend
        if self.exchange is not None:
            return RiskTerm(
                self.shards, self.exchange, likelihood, self.design.scale, weights, offset, B,
                active,
            )  # fmt: skip
        if self.levels is not None:
            assert isinstance(likelihood, NuisanceLikelihood)  # as `sharded_problem` has it
            return LevelTerm(
                self.shards, self.levels, likelihood, self.design.scale, weights, offset, B, active
            )
        family = ShardedFamily(
            likelihood.grouped, likelihood.trust_radius, likelihood.dispersion, likelihood.score_of
        )
        return ShardedTerm(
            self.shards, family, self.design.scale, backend.pool, weights, offset, B,
            backend.lanes(B), active,
        )  # fmt: skip


def sharded_problem(problem: Problem, device: str | None = None) -> Problem:
    """Return a problem that computes steps from sums over blocks, if its rows are in blocks.

    If risk sets contain rows of several blocks, the blocks send sums by event time; for a
    cumulative model with few thresholds they send sums by threshold. A likelihood without such
    sums, as that of an exact conditional model with strata across blocks, is evaluated in this
    process, and each step transfers one number for each row. ``device`` is that of the products
    with X in each block, by default the present one.
    """
    X = sharded_x(problem.design)
    if X is None:
        return problem
    blocks = X.blocks
    blocks.limit(problem.likelihood.backend.pool.n_threads)
    if device is not None and device != blocks.device:
        blocks.call("use_device", (device,), [()] * len(blocks.rows))
        blocks.device = device
    cuts = np.concatenate([[0], np.cumsum(blocks.rows)])
    likelihood, exchange, levels = problem.likelihood, None, None
    parts = likelihood.parts(cuts)
    if parts is None and isinstance(likelihood, NuisanceLikelihood):
        levels = likelihood.shard_thresholds(cuts, problem.design.p)
        parts = None if levels is None else levels.parts()
    elif parts is None:
        exchange = likelihood.exchange(cuts)
        parts = None if exchange is None else exchange.parts()
    if parts is None:
        return problem
    design = problem.design
    shards = BlockLikelihoods(
        blocks, parts, column_makers(design, cuts), eta_rows_by_block(design, cuts)
    )
    known = {f.name: getattr(problem, f.name) for f in fields(Problem)}
    return ShardedProblem(**known, shards=shards, exchange=exchange, levels=levels)
