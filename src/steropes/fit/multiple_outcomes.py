"""Fits of many outcomes over one X: replicates that differ in y, and in weights and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, TypeVar

import numpy as np

from ..likelihoods import Likelihood
from ..likelihoods.multi_outcome import MultiOutcomeLikelihood
from ..solve import Batch, Fit
from ..solve.certificate import certificates
from ..solve.data_term import WorkingColumns
from ..solve.data_term.working_set_term import WorkingSetTerm
from ..solve.shared_hessian import SharedHessian
from ..solve.worth import in_single_precision
from .mean_curvature import MeanCurvature
from .problem import Problem
from .replicates import LANES

__all__ = ["OutcomeFit", "fit_outcomes"]

T = TypeVar("T")

MOST = 10_000  # columns near to mattering of which there is one Hessian for a group of outcomes
NEAR = 0.9  # of λ: the slope from which on a column may matter
FIRST = 2  # steps after which the columns that don't leave, and the Hessian is made again
ROUNDS = 4  # times that missing columns may join and the steps go on
COARSE = 1e-3  # of λ: how well the slopes at the start are told
LONG = 1 << 16  # rows: with fewer, groups side by side mostly wait for the interpreter
VECTORS = 10  # arrays as long as the linear predictors that a lane holds
MEMORY = 2e9  # bytes that groups side by side may hold
WAY = (8.0, 2.8, 1.6)  # factors of penalties on the way,
MANY = 500  # where so many columns are near at the start
LOOSE = 0.5  # of λ: to what those are solved,
SOON = 0.05  # and to what it is before all columns are looked at for those that are missing
STEPS = 40  # after which an outcome is better off with a Hessian of its own


@dataclass(frozen=True)
class OutcomeFit:
    """One outcome's fit.

    Attributes
    ----------
    number : int
        Its place among the problems.
    fit : Fit
        With the certificate of `steropes.solve.certificate`.
    eta : (n, 1) array
        Its linear predictors, in the rows of X.
    """

    number: int
    fit: Fit
    eta: Any


def fit_outcomes(
    problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, max_iter: int,
    use: Callable[[OutcomeFit], T],
) -> dict[int, T]:  # fmt: skip
    """Fit problems that share a design and a kind of likelihood whose outcomes go side by side.

    Outcomes of like frequency go together: what matters to one is mostly what matters to the
    others. The working set of a group begins with all columns that look as if they could matter to
    one of them, and after the first steps keeps those that do. The outcomes share one Hessian of
    it, that of the mean of their curvatures; each has its own diagonal. Supports differ, so that
    what is minimised at each step are small models one by one; what is done together are products
    with X. All columns are looked at where the outcomes start and where they end, which is their
    certificate; what that finds missing joins, and the steps go on.

    Groups of many rows go side by side in threads, where there is memory for them: that wastes less
    than sharing out what is done in each step.

    Parameters
    ----------
    problems : sequence of Problem
        With one design; see `Likelihood.beside`.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    tol : float
        Largest KKT violation.
    max_iter : int
    use : callable
        What to make of an outcome, in the thread of its group. One whose steps contract badly is
        as far as it came.

    Returns
    -------
    dict
        What ``use`` returned, under the problems' numbers. Outcomes of a group to which more
        columns could matter than a Hessian can be of are left out.
    """
    backend = problems[0].likelihood.backend
    starts = np.array(backend.pool.map(_start, [(p,) for p in problems]))
    order, stop = np.argsort(starts, kind="stable"), Event()
    groups = [(order[a : a + LANES].tolist(),) for a in range(0, len(problems), LANES)]

    def fitted(numbers: list[int]) -> dict[int, T]:
        group = _Group([problems[k] for k in numbers], l1, l2, tol, stop)
        found = group.fitted(numbers, starts[numbers], max_iter)
        return {outcome.number: use(outcome) for outcome in found}

    rows = max(len(p.likelihood.row_of_x) for p in problems)
    held = 8.0 * rows * LANES * VECTORS * min(backend.pool.n_threads, len(groups))
    try:
        if rows >= LONG and held <= MEMORY and backend.on_host:
            # The frequent ones take longest.
            parts = backend.pool.map(fitted, groups[::-1], rows * LANES * problems[0].design.p)
        else:
            parts = [fitted(*group) for group in groups]
    except BaseException:
        stop.set()
        raise
    return {number: part for done in parts for number, part in done.items()}


class _Group:
    """Outcomes in lanes of one batch."""

    def __init__(
        self, problems: Sequence[Problem], l1: np.ndarray, l2: np.ndarray, tol: float, stop: Event
    ) -> None:
        first = problems[0]
        self.problems, self.l1, self.l2, self.tol, self.stop = problems, l1, l2, tol, stop
        self.design, backend = first.design, first.likelihood.backend
        self.likelihood = _side_by_side(problems)
        self.active = WorkingColumns(self.design, None, backend)
        self.hessian = SharedHessian(backend.pool)
        weights, offset = _weights_and_offsets(problems)
        self.term = WorkingSetTerm(
            self.design, self.likelihood, weights, offset, len(problems), self.active
        )
        self.batch = Batch(self.term, self.hessian, per_replicate_subproblems=True)
        self.fits: list[Fit] = []

    def fitted(self, numbers: list[int], starts: np.ndarray, max_iter: int) -> Iterator[OutcomeFit]:
        """Outcomes under their numbers, whose intercepts begin at ``starts``; or none."""
        batch, active = self.batch, self.active
        begin = np.zeros((self.design.p, len(numbers)))
        if self.problems[0].n_free:
            begin[0] = starts
        batch.start_at(begin)
        urgency = self._urgency()
        left = max_iter
        way = self._way(urgency)
        for factor in way:
            self._let_in(urgency, factor)
            left -= self._steps(min(left, FIRST), factor, LOOSE)
            self.hessian.forget()
            batch.prune()
            urgency = self._urgency()
        if np.count_nonzero(active.inside | (urgency > NEAR)) > MOST:
            return
        self._let_in(urgency)
        self._steps(min(left, FIRST))
        self._renew()
        left = min(left, STEPS) - FIRST
        if way and self.tol < SOON:
            left -= self._steps(max(left, 0), tol=SOON)
            self._join(np.asarray(self._urgency() > 1.0))
        for _ in range(ROUNDS):
            left -= self._steps(max(left, 0))
            beta = np.stack([fit.beta for fit in self.fits], axis=1)
            values, violations, eta = certificates(
                self.problems, self.term, beta, self.l1, self.l2, self.tol
            )
            owed = self.tol * (self.l1 / self.design.scale)[:, None]
            missing = np.asarray((violations > owed).any(axis=1))
            if left <= 0 or not self._join(missing):
                break
        for b, k in enumerate(numbers):
            yield OutcomeFit(
                k, replace(self.fits[b], optimality=float(values[b])), eta[:, b : b + 1]
            )

    def _urgency(self) -> np.ndarray:
        """The largest slope of each column in any of the outcomes, in units of λ, (p,)."""
        slopes = np.abs(self.term.everywhere(COARSE)).max(axis=1) * self.design.scale
        return np.where(self.l1 > 0, slopes / np.where(self.l1 > 0, self.l1, 1.0), np.inf)

    def _way(self, urgency: np.ndarray) -> list[float]:
        """Factors of stronger penalties on the way, largest first; none where few columns are near.

        Of correlated columns many look near that are not, once the first have moved.
        """
        penalised = np.isfinite(urgency)
        if np.count_nonzero(penalised & (urgency > NEAR)) < MANY:
            return []
        return [f for f in WAY if f < urgency[penalised].max()]

    def _let_in(self, urgency: np.ndarray, factor: float = 1.0) -> None:
        """Let columns in that are near to mattering under a penalty so much stronger."""
        self.active.join(np.flatnonzero(urgency > NEAR * factor))
        self._share_hessian()

    def _join(self, missing: np.ndarray) -> bool:
        """Let columns in, (p,) bool, and say if any were out."""
        return self.active.join(np.flatnonzero(missing & (self.l1 > 0))) > 0

    def _renew(self) -> None:
        """After the first steps: columns that don't matter leave, and the Hessian is made again."""
        if not self.likelihood.quadratic:  # whose Hessian is the same everywhere
            self.hessian.forget()
            self.batch.prune()
            self._share_hessian()

    def _steps(self, most: int, factor: float = 1.0, tol: float = 0.0) -> int:
        """Take steps under a penalty so much stronger, and say how many at most."""
        self.fits = self.batch.solve(
            factor * self.l1, factor * self.l2, tol=max(tol, self.tol), max_iter=most,
            callback=self._heed, look="after",
        )  # fmt: skip
        return max(fit.n_iter for fit in self.fits)

    def _heed(self, *_: Any) -> None:
        """Leave, where nobody waits for this group any more."""
        if self.stop.is_set():
            raise KeyboardInterrupt

    def _share_hessian(self) -> None:
        """Let the outcomes share the Hessian of the mean of their curvatures where they are."""
        term, active, backend = self.term, self.active, self.likelihood.backend
        V, rows = backend.to_host(term.curvatures()), active.rows
        assert rows.layout == "rows"  # families that go side by side
        total = V.sum(axis=0)
        counted = np.isfinite(total) & (total > 0)
        share = np.where(counted, len(V) / (term.B * np.where(counted, total, 1.0)), 0.0)
        V = np.where(counted, V, 0.0)
        own = backend.to_host(rows.diagonals(backend.asarray(V)))
        mean = own @ share
        ratio = own / np.where(mean > 0, mean, 1.0)[:, None]
        term.know_relative(np.clip(np.where(ratio > 0, ratio, 1.0), 1e-4, 1e4))
        unit = (self.l1 / self.design.scale)[active.W, None]
        slope = np.abs(term.gradient()[:, : term.B])
        may = (slope > NEAR * unit) | (self.batch.beta[active.W] != 0)
        columns = int(may.sum(axis=0).max())
        curvature = MeanCurvature(self.likelihood, V @ share, active, columns)
        rough = in_single_precision(term, bool((self.l1 > 0).any()))
        self.hessian.compute(term, curvature, 0, rough)


def _side_by_side(group: Sequence[Problem]) -> Likelihood:
    """One likelihood whose replicates have the outcomes of several."""
    first = group[0].likelihood
    each = [p.likelihood for p in group]
    if first.order is None:
        return first.beside(each, first.backend.lanes(len(group)))
    return MultiOutcomeLikelihood(each, group[0].design.n)


def _weights_and_offsets(group: Sequence[Problem]) -> tuple[np.ndarray, np.ndarray | None]:
    """Those of each outcome, (n, B)."""
    weights = np.stack([p.weights for p in group], axis=1)
    if all(p.offset is None for p in group):
        return weights, None
    zero = np.zeros(len(weights))
    return weights, np.stack([zero if p.offset is None else p.offset for p in group], axis=1)


def _start(problem: Problem) -> float:
    """Where an outcome's intercept starts: at the outcome's level."""
    likelihood = problem.likelihood
    if not problem.n_free:
        return problem.start
    backend, rows = likelihood.backend, likelihood.row_of_x
    eta, w = np.full((1, 1), problem.start), problem.weights[rows][:, None]
    if problem.offset is not None:
        eta = eta + problem.offset[rows][:, None]
    return problem.start + likelihood.level(backend.asarray(eta), backend.asarray(w))
