"""A shard in this process: a design, a likelihood and weights that answer requests."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....design_matrix.design_interfaces import DesignLike
from ....likelihoods import Likelihood
from ..local_term import LocalCurvature, LocalTerm
from ..working_set import WorkingColumns
from .shard_base import ShardBase
from .shard_messages import Ask, At, Gradients, Hessian, LeftOut, Relative, Span, Totals, Value

__all__ = ["LocalShard", "Unbound", "point_key"]

# Two curvatures are kept: the shared one and that of the last request.
KEPT_CURVATURES = 2


class Unbound(KeyError):
    """The replicates of a request are unknown to a shard and have to be bound again."""


class LocalShard(ShardBase):
    """Rows in memory, or mapped from disk, with their own likelihood; see `Shard`.

    Parameters
    ----------
    design : Design
        With the scale and the centre that all shards have.
    likelihood : Likelihood
        Of these rows: a sum over rows, or over strata that lie completely within them.
    """

    def __init__(self, design: DesignLike, likelihood: Likelihood) -> None:
        super().__init__(design, likelihood.order, likelihood.backend)
        self.likelihood = likelihood
        self._terms: dict[str, LocalTerm] = {}
        self._weights: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        self._where: dict[str, bytes] = {}
        self._curvatures: dict[bytes, LocalCurvature] = {}

    def bind(self, key: str, weights: np.ndarray, offset: np.ndarray | None) -> None:
        """See `Shard.bind`."""
        self._weights[key] = np.asarray(weights, np.float64), offset

    def knows(self, key: str) -> bool:
        """Return whether replicates are bound."""
        return key in self._weights

    def release(self, key: str) -> None:
        """See `Shard.release`."""
        for known in (self._weights, self._terms, self._where):
            known.pop(key, None)

    def _answer(self, at: At, ask: Ask, active: WorkingColumns) -> Iterable[tuple[str, np.ndarray]]:
        """See `ShardBase._answer`."""
        match ask:
            case Totals():
                w = self._bound(at.replicates)[0]
                return [
                    ("weight", self._term(at.replicates, active).total),
                    ("rows", np.array(len(w))),
                ]
            case Value():
                term = self._there(at, active)
                # Rates overflow at the end of a step that the line search shortens.
                with np.errstate(over="ignore", invalid="ignore"):
                    return [
                        ("loss", term.loss),
                        ("gradient", term.gradient()),
                        ("entries", np.array(active.rows.entries)),
                    ]
            case Gradients():
                return [("gradients", self._there(at, active).gradients(ask.tol))]
            case Hessian():
                curvature = self._curvature(at, ask.lane, ask.exact, active)
                if ask.matrix:
                    return [("matrix", curvature.matrix(ask.first, ask.rough)[ask.first :])]
                return [("diagonal", curvature.diagonal()), ("uncentred", curvature.uncentred())]
            case Relative():
                return self._relative_diagonals(at, ask, active)
            case LeftOut():
                term = self._there(at, active)
                weights = self._bound(ask.whole)[0][:, 0]
                return [("score", term.left_out_parts(weights, ask.difference))]
            case Span():
                eta = active.backend.to_host(active.rows.matmul(active.backend.asarray(at.beta)))
                empty = np.full((1, at.beta.shape[1]), 0.0)
                eta = eta if len(eta) else empty
                return [("low", eta.min(axis=0)), ("high", eta.max(axis=0))]
            case _:
                raise ValueError(f"{type(ask).__name__} is for rows with risk sets in common")

    # -- stored state ---------------------------------------------------------------------------

    def _bound(self, key: str) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the weights and offset of replicates, or raise `Unbound`."""
        if key not in self._weights:
            raise Unbound(key)
        return self._weights[key]

    def _term(self, key: str, active: WorkingColumns) -> LocalTerm:
        """Return the replicates' term over the working set, or a new one for other columns."""
        kept = self._terms.get(key)
        if kept is not None and kept.active is active:
            return kept
        weights, offset = self._bound(key)
        B = weights.shape[1]
        term = LocalTerm(self.design, self.likelihood, weights, offset, B, active)
        if active is self.active:
            self._terms[key] = term
            self._where.pop(key, None)
        return term

    def _there(self, at: At, active: WorkingColumns) -> LocalTerm:
        """Return the term, moved to the point."""
        term, place = self._term(at.replicates, active), point_key(at)
        if self._where.get(at.replicates) != place or active is not self.active:
            beta = np.zeros((self.design.p, term.lanes))
            beta[at.columns] = at.beta
            term.place(beta)
            if active is self.active:
                self._where[at.replicates] = place
        return term

    def _curvature(self, at: At, lane: int, exact: bool, active: WorkingColumns) -> LocalCurvature:
        """Return the curvature of the one replicate that ``at`` describes."""
        key = b"%d %d %s " % (lane, exact, at.replicates.encode()) + point_key(at)
        if key in self._curvatures and self._curvatures[key].active is active:
            # Moved to the end as the most recently used.
            self._curvatures[key] = self._curvatures.pop(key)
            return self._curvatures[key]
        likelihood, backend = self.likelihood, self.likelihood.backend
        term = self._term(at.replicates, active)
        w = term.w[:, lane : lane + 1]
        eta = backend.xp.zeros((likelihood.n_eta, 1))
        eta += term.offset[:, lane : lane + 1] if term.offset.shape[1] > 1 else term.offset
        eta += active.rows.matmul(backend.asarray(np.ascontiguousarray(at.beta)))
        curvature = likelihood.curvature(eta, likelihood.weigh(w), exact)
        out = LocalCurvature(active, curvature, w[:, 0])
        if active is self.active:
            self._curvatures[key] = out
            while len(self._curvatures) > KEPT_CURVATURES:
                del self._curvatures[next(iter(self._curvatures))]
        return out

    def _relative_diagonals(
        self, at: At, ask: Relative, active: WorkingColumns
    ) -> Iterable[tuple[str, np.ndarray]]:
        """Compute Hessian diagonals with own and other weights; see `Relative`."""
        curvature = self._curvature(at, ask.lane, False, active)
        term = self._term(ask.others, active)
        found = term.relative_diagonals(curvature)
        if found is None:
            k = len(at.columns)
            found = np.zeros((k, 1)), np.zeros((k, term.lanes))
            return [("base", found[0]), ("own", found[1]), ("usable", np.array(False))]
        return [("base", found[0]), ("own", found[1]), ("usable", np.array(True))]


def point_key(at: At) -> bytes:
    """Return a key of a point and its working set.

    The working set is included because sums over other columns differ in their last digits.
    """
    return at.columns.astype(np.int64).tobytes() + b"|" + at.beta.tobytes()
