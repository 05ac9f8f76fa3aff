"""The design of effects that change with time, over an X with one row per person.

The time at risk of a person is cut at the steps. The rows of the model are the resulting *pieces*,
sorted by interval. All pieces of a person refer to one row of X, so no row is stored twice. A
column with a time-varying effect has one coefficient per interval, which applies to the pieces of
that interval only, or one coefficient that is multiplied by a value in each interval, such as the
logarithm of the interval's event time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..backends.backend_interface import Array, Backend
from ..errors import DataError
from .column_storage import power_of_two
from .design_interfaces import PlainDesign, RowsLike

__all__ = ["PiecewiseDesign", "PiecewiseRows", "StepEffects"]


class StepEffects:
    """The column of X and the intervals of time to which each coefficient belongs.

    Attributes
    ----------
    source : (p,) int array
        Column of X.
    first, last : (p,) int array
        First and last interval, 0 … Q − 1, in which the coefficient acts, both included.
    Q : int
        Number of intervals between the cut points of all columns.
    values : (p, Q) array or None
        Factors of the columns in each interval; None if all are one.
    functions : mapping of int to callable
        The functions of time that gave the values, by coefficient.
    """

    def __init__(
        self,
        source: ArrayLike,
        first: ArrayLike,
        last: ArrayLike,
        names: Sequence[str],
        Q: int,
        values: np.ndarray | None = None,
        functions: Mapping[int, Callable[[np.ndarray], Any]] | None = None,
    ) -> None:
        self.source = np.asarray(source, np.int64)
        self.first, self.last = np.asarray(first, np.int64), np.asarray(last, np.int64)
        self.names, self.Q = list(names), Q
        self.always = (self.first == 0) & (self.last == Q - 1)
        self.values, self.functions = values, dict(functions or {})
        self.unit = np.ones(len(self.source))  # of the values, so that factors are near one
        if values is not None:
            # A function that is one at all event times is still a coefficient besides that of x.
            changing = (values != 1.0).any(axis=1)
            changing[list(self.functions)] = True
            self.always &= ~changing
            self.unit[changing] = power_of_two(np.abs(values[changing]).max(axis=1))

    def factors(self, q: int, coefficients: np.ndarray) -> np.ndarray | None:
        """Return the factors of some coefficients in interval q, divided by their unit.

        None stands for ones.
        """
        if self.values is None:
            return None
        return self.values[coefficients, q] / self.unit[coefficients]

    def at_time(self, beta: np.ndarray, p: int, q: int, time: float) -> np.ndarray:
        """Expand coefficients to X's p columns at a time in interval q, (p,).

        Raises
        ------
        DataError
            If a function of time is not finite at this time.
        """
        out = np.zeros(p)
        for k in np.flatnonzero((self.first <= q) & (q <= self.last)):
            f = self.functions.get(int(k))
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = 1.0 if f is None else float(np.asarray(f(np.array([time])))[0])
            if not np.isfinite(factor):
                raise DataError(
                    f"The function of time of {self.names[k]!r} is not finite at the time {time:g}."
                )
            out[self.source[k]] += factor * beta[k]
        return out

    def at(self, q: int, chosen: np.ndarray | None = None) -> np.ndarray:
        """Find the positions in ``chosen`` of time-varying coefficients that act in interval q."""
        at = slice(None) if chosen is None else chosen
        acts = (self.first[at] <= q) & (q <= self.last[at]) & ~self.always[at]
        return np.flatnonzero(acts)

    def linear_predictors(self, X: PlainDesign, coef: np.ndarray, backend: Backend) -> np.ndarray:
        """Compute X β in each interval for coefficients in X's units, (n, Q)."""
        beta = self.by_interval(coef, X.p) * X.scale[:, None]
        return np.concatenate([X.matmul(b[:, None], backend) for b in beta.T], axis=1)

    def by_interval(self, beta: np.ndarray, p: int) -> np.ndarray:
        """Expand coefficients (len(source),) to X's p columns in each interval, (p, Q)."""
        out = np.zeros((p, self.Q))
        for q in range(self.Q):
            acts = (self.first <= q) & (q <= self.last)
            values = 1.0 if self.values is None else self.values[acts, q]
            np.add.at(out[:, q], self.source[acts], beta[acts] * values)
        return out


class PiecewiseDesign:
    """The matrix of the pieces, (N, p), over a matrix X of n people.

    Parameters
    ----------
    X : Design or ShardedDesign
        Covariates, one row per person.
    effects : StepEffects
        Columns and intervals of the coefficients.
    person : (N,) int array
        Row of X of each piece; a person has at most one piece in an interval.
    start : (Q + 1,) int array
        Boundaries of the intervals among the pieces.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self, X: PlainDesign, effects: StepEffects, person: np.ndarray, start: np.ndarray
    ) -> None:
        self.X, self.effects, self.person, self.start = X, effects, person, start
        self.n, self.p = X.n, len(effects.source)
        self.scale = X.scale[effects.source] * effects.unit
        self.names = effects.names

    @property
    def n_eta(self) -> int:
        """Number of rows of η, the pieces."""
        return len(self.person)

    @property
    def nnz(self) -> int:
        """Number of stored entries of X."""
        return self.X.nnz

    @property
    def center(self) -> np.ndarray:
        """Value subtracted from each column, (p,)."""
        return self.X.center[self.effects.source]

    def centers_at(self, beta: np.ndarray) -> np.ndarray:
        """Compute the linear predictor at the columns' centres in each interval, (Q,).

        β is in X's units.
        """
        return self.X.center @ self.effects.by_interval(beta, self.X.p)

    def uncentered(self) -> PiecewiseDesign:
        """Return the same design with X as the user gave it."""
        return PiecewiseDesign(self.X.uncentered(), self.effects, self.person, self.start)

    def uncentered_coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Return the coefficients unchanged, since there is no intercept."""
        return np.array(beta, np.float64)

    def pieces(self) -> list[tuple[int, slice, np.ndarray]]:
        """Return the number, the slice of pieces and their people for each interval."""
        edges = zip(self.start[:-1], self.start[1:], strict=True)
        return [(q, slice(a, b), self.person[a:b]) for q, (a, b) in enumerate(edges)]

    def spread(self, R: Array, q: int, backend: Backend, out: Array | None = None) -> Array:
        """Add values of the pieces of interval q to the rows of their people, (n, B)."""
        out = backend.xp.zeros((self.n, R.shape[1])) if out is None else out
        a, b = self.start[q], self.start[q + 1]
        out[self.person[a:b]] += R[a:b]
        return out

    def rmatmul(
        self, R: np.ndarray, backend: Backend, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """Multiply the transpose with R (N, B) in the scaled columns, (len(chosen), B)."""
        chosen = np.arange(self.p) if chosen is None else np.asarray(chosen)
        out = backend.xp.zeros((len(chosen), R.shape[1]))
        whole = backend.xp.zeros((self.n, R.shape[1]))
        for q in range(self.effects.Q):
            self.spread(R, q, backend, whole)
            at = self.effects.at(q, chosen)
            if len(at):
                part = self.spread(R, q, backend)
                product = self.X.rmatmul(part, backend, self.effects.source[chosen[at]])
                out[at] += _times(product, self.effects.factors(q, chosen[at]))
        at = np.flatnonzero(self.effects.always[chosen])
        out[at] = self.X.rmatmul(whole, backend, self.effects.source[chosen[at]])
        return out

    def matmul(self, D: np.ndarray, backend: Backend) -> np.ndarray:
        """Compute the linear predictors of the pieces: D (p, B) → (N, B)."""
        out = backend.xp.zeros((self.n_eta, D.shape[1]))
        for q, pieces, people in self.pieces():
            acts = np.flatnonzero((self.effects.first <= q) & (q <= self.effects.last))
            whole = np.zeros((self.X.p, D.shape[1]))
            own = _times(D[acts], self.effects.factors(q, acts))
            np.add.at(whole, self.effects.source[acts], own)
            out[pieces] = self.X.matmul(whole, backend)[people]
        return out

    def by_rows(
        self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend
    ) -> PiecewiseRows:
        """Store chosen columns by rows; ``order`` is unused, since pieces have their own order."""
        return PiecewiseRows(self, chosen, backend)


class PiecewiseRows:
    """Chosen columns of a `PiecewiseDesign`; the intervals share one copy of the rows of X.

    Attributes
    ----------
    X : rows
        The columns of X that occur, each once, in the order of their first coefficient.
    changing : rows
        A second copy of those with time-varying coefficients, which are read for every interval.
    """

    layout: ClassVar[Literal["pieces"]] = "pieces"

    def __init__(self, design: PiecewiseDesign, chosen: np.ndarray, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self.chosen = chosen = np.asarray(chosen, np.int64)
        self.n, self.k = design.n_eta, len(chosen)
        effects = design.effects
        self.column, sources = _numbers(effects.source[chosen])
        self.X: RowsLike = design.X.by_rows(sources, None, backend)
        self.lines = self.X.lines
        self.always = np.flatnonzero(effects.always[chosen])
        varying = np.flatnonzero(~effects.always[chosen])
        number = np.full(self.k, -1, np.int64)
        number[varying], sources = _numbers(effects.source[chosen[varying]])
        self.changing: RowsLike = design.X.by_rows(sources, None, backend)
        self.at = [effects.at(q, chosen) for q in range(effects.Q)]
        self.changing_column = [number[at] for at in self.at]
        # Products assign the coefficients of an interval to columns, so they would lose one of two.
        for columns in (self.column[self.always], *self.changing_column):
            if len(set(columns.tolist())) < len(columns):
                raise ValueError("A column of X can have one coefficient in each interval only.")

    @property
    def entries(self) -> int:
        """Number of stored entries of the rows of X."""
        return self.X.entries

    def grown(
        self, design: PiecewiseDesign, chosen: np.ndarray, order: np.ndarray | None
    ) -> PiecewiseRows:
        """Build the rows of ``chosen``, which begins with the present columns."""
        return PiecewiseRows(design, chosen, self.backend)

    def matmul(self, D: np.ndarray) -> np.ndarray:
        """Compute the linear predictors of the pieces: (k, B) → (N, B)."""
        d = self.backend.xp.zeros((self.X.k, D.shape[1]))
        d[self.column[self.always]] = D[self.always]
        out = self.X.matmul(d)[self.design.person]
        for q, pieces, people in self.design.pieces():
            if len(self.at[q]):
                d = self.backend.xp.zeros((self.changing.k, D.shape[1]))
                d[self.changing_column[q]] = _times(D[self.at[q]], self._factors(q))
                out[pieces] += self.changing.matmul(d)[people]
        return out

    def rmatmul(self, R: np.ndarray) -> np.ndarray:
        """Multiply the transpose with R: (N, B) → (k, B)."""
        return self._transposed(R, lambda X, part: X.rmatmul(part), 1)

    def diagonal(self, v: np.ndarray) -> np.ndarray:
        """Compute Σ v x² of each column over the pieces, (k,)."""

        def squares(X: RowsLike, part: np.ndarray) -> np.ndarray:
            return X.diagonal(part[:, 0])[:, None]

        return self._transposed(v[:, None], squares, 2)[:, 0]

    def _factors(self, q: int, power: int = 1) -> np.ndarray | None:
        """Return the factors of the coefficients that change in interval q, to a power."""
        factors = self.design.effects.factors(q, self.chosen[self.at[q]])
        return None if factors is None else factors**power

    def _transposed(
        self, R: np.ndarray, product: Callable[[RowsLike, np.ndarray], np.ndarray], power: int
    ) -> np.ndarray:
        """Apply a product over the rows of X, with a power of its columns, to R (N, B), (k, B)."""
        out = self.backend.xp.zeros((self.k, R.shape[1]))
        whole = self.backend.xp.zeros((self.design.n, R.shape[1]))
        for q, at in enumerate(self.at):
            self.design.spread(R, q, self.backend, whole)
            if len(at):
                part = self.design.spread(R, q, self.backend)
                own = product(self.changing, part)[self.changing_column[q]]
                out[at] += _times(own, self._factors(q, power))
        out[self.always] = product(self.X, whole)[self.column[self.always]]
        return out

    def intervals(
        self, first: int = 0
    ) -> Iterator[tuple[slice, RowsLike, np.ndarray, np.ndarray, int, np.ndarray | None]]:
        """Yield (pieces, their rows of X, at, columns, first, factors) for each interval.

        ``at`` are the positions of the coefficients that act, ``columns`` the corresponding columns
        of the rows, ``first`` the first of those that the caller needs, and ``factors`` those of
        the columns, None for ones.

        The rows are views; at most the dense columns of one interval are copied.
        """
        effects = self.design.effects
        acts = (effects.first[self.chosen], effects.last[self.chosen])
        begin = int(self.column[first:].min(initial=self.X.k))
        for q, pieces, people in self.design.pieces():
            at = np.flatnonzero((acts[0] <= q) & (q <= acts[1]))
            factors = effects.factors(q, self.chosen[at])
            yield pieces, self.X.taken(people), at, self.column[at], begin, factors


def _times(D: Array, factors: np.ndarray | None) -> Array:
    """Multiply the rows of D by factors; None stands for ones."""
    return D if factors is None else D * factors[:, None]


def _numbers(source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number columns in the order of first occurrence; return the numbers and the columns."""
    distinct, first, inverse = np.unique(source, return_index=True, return_inverse=True)
    by = np.argsort(first, kind="stable")
    number = np.empty(len(by), np.int64)
    number[by] = np.arange(len(by))
    return number[inverse], distinct[by]
