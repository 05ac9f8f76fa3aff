"""Fits in which one coefficient is held at a value: points of a profile, as lanes of one batch.

The held column enters through the offset and is kept out by a penalty without end, so that each
lane can hold another column at another value; all others are refitted under their own prior.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..fit import Replicates
from ..priors import HELD

__all__ = ["HeldFits", "Value"]

TOL = 1e-6  # largest KKT violation, in units of λ or of standard errors
MOST_PIECES = 16  # of the way to a value that fits did not come to at once
HOLDS = 500.0  # change of η that exp can hold
MOST_OF = 0.9  # of a column's entries: what is this many times
OUTLYING = 10.0  # further out has no part in how far a profile may be looked at

# The log-likelihood, under the prior on the others, of a penalised loss, and its derivative in it.
FromObjective = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class Value:
    """A point of a profile: value of the coefficient, log-likelihood, derivative.

    ``sure`` says whether the fit came to its tolerance; where not, f may be far too low.
    """

    at: float
    f: float
    g: float
    sure: bool = True


class HeldFits:
    """Profile log-likelihoods of the columns of a problem.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        The fit, in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units; a held column's own are left out.
    from_objective : callable
        See `FromObjective`.

    Attributes
    ----------
    values : dict
        Of each column, all points so far that came to their tolerance.
    """

    def __init__(
        self,
        problem: Any,
        beta: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
        from_objective: FromObjective,
    ) -> None:
        self.problem, self.l1, self.l2 = problem, l1, l2
        self.from_objective = from_objective
        self.beta, self.scale = beta, problem.design.scale
        self.common = problem.common()
        self.full = problem.batch(common=self.common)
        self.full.start_at((beta * self.scale)[:, None])
        self.objective = self.full.solve(l1, l2, tol=TOL, look="after")[0].objective
        self.values: dict[int, list[Value]] = {}
        self._columns: dict[int, np.ndarray] = {}
        # Of each column the values done, ascending, with where the other coefficients were.
        self._done: dict[int, list[tuple[float, np.ndarray, np.ndarray]]] = {}

    # -- scales ----------------------------------------------------------------------------------

    def standard_errors(self, columns: Sequence[int]) -> np.ndarray:
        """Rough standard errors of held columns, the support staying as it is: steps to take."""
        at = np.asarray(columns)
        free = (self.l1 == 0) & (self.l2 == 0)
        support = np.union1d(np.flatnonzero(free | (self.beta != 0)), at)
        G = self.full.prepare(support)
        W = self.full.term.W
        place = np.full(len(self.scale), -1)
        place[W] = np.arange(len(W))
        kappa = self.l2 / self.scale / self.scale
        if G.ndim == 1:
            information = G[place[at]]
        else:
            H = G[np.ix_(place[support], place[support])].astype(np.float64)
            own, mine = np.diag(H).copy(), np.searchsorted(support, at)
            H += np.diag(kappa[support] + np.where(own > 0, 1e-10 * own, 1.0))
            inverse = linalg.inv(H)
            information = 1.0 / np.diag(inverse)[mine] - kappa[at]
            information = np.where(information > 1e-6 * own[mine], information, own[mine])
        spread = self._dispersion()
        information = np.where(information > 0, information, 1.0)
        return np.sqrt(spread / information) / self.scale[at]

    def _dispersion(self) -> float:
        return float(np.max(self.full.term.dispersion))

    def reach(self, j: int, change: float) -> float:
        """Change of the coefficient that changes some η by this much."""
        if self.problem.likelihood.quadratic:
            return np.inf
        likelihood, column = self.problem.likelihood, self._column(j)
        if likelihood.order is not None:
            column = column[likelihood.order]
        free_level = likelihood.shift_invariant or self.problem.n_free > 0
        column = _without_outliers(column, free_level)
        size = float(likelihood.extent(column[:, None], self.problem.weights))
        return change / size if size > 0 else np.inf

    def idle(self, j: int) -> bool:
        """Whether the column moves all rows alike, which the level takes back whatever its value.

        Its profile is flat, and shows nothing but rounding of η at values far out.
        """
        problem, likelihood = self.problem, self.problem.likelihood
        if j < problem.n_free or not (likelihood.shift_invariant or problem.n_free):
            return False
        column = self._column(j)
        if likelihood.order is not None:
            column = column[likelihood.order]
        if not likelihood.shift_invariant:  # the first rows of η are X's
            column = column - column[np.argmax(problem.weights > 0)]
        return float(likelihood.extent(column[:, None], problem.weights)) == 0.0

    # -- points ----------------------------------------------------------------------------------

    def at(self, columns: Sequence[int], values: Sequence[float]) -> list[Value]:
        """Hold each of some columns at a value, and fit all others.

        Raises
        ------
        DataError
            A value further from the estimate than exp can hold.
        """
        count = len(columns)
        for j, v in zip(columns, values, strict=True):
            if abs(v - self.beta[j]) > self.reach(j, HOLDS):
                raise DataError(
                    f"{self.problem.design.names[j]!r} can't be held at {v:g}: it moves a linear "
                    f"predictor by more than {HOLDS:g}, further than exp can hold."
                )
        lanes = np.arange(count)
        l1, l2 = (np.repeat(x[:, None], count, axis=1) for x in (self.l1, self.l2))
        l1[columns, lanes], l2[columns, lanes] = HELD, 0.0
        base = self._base()

        def weights(numbers: list[int]) -> np.ndarray:
            return self.problem.weights[:, None]

        def offsets(numbers: list[int]) -> np.ndarray:
            return base + np.stack([values[k] * self._column(columns[k]) for k in numbers], axis=1)

        like = self.full.term.nuisance(0)
        replicates = Replicates(self.problem, self.common, count, weights, 0.0, offsets, like)
        out: list[Value] = []

        def start(group: int) -> np.ndarray:
            numbers = replicates.groups[group]
            return np.stack([self._start(columns[k], values[k]) for k in numbers], axis=1)

        for group in replicates.solve(l1, l2, TOL, start, "during"):
            gradients = group.batch.gradients()
            for b, k in enumerate(group.numbers):
                j, fit = columns[k], group.fits[b]
                f, slope = self.from_objective(fit.objective)
                sure = bool(fit.converged and np.isfinite(f))
                out.append(Value(values[k], f, slope * gradients[j, b] * self.scale[j], sure))
                if sure:
                    self.values.setdefault(j, []).append(out[-1])
                    self._keep(j, values[k], fit.beta * self.scale)
        return out

    def approach(self, j: int, value: float) -> Value:
        """Hold a column at a value that was too far from those done, coming nearer by steps."""
        (found,) = self.at([j], [value])
        pieces = 2
        while not found.sure and pieces <= MOST_PIECES:
            done = np.array([v.at for v in self.values.get(j, [])] or [float(self.beta[j])])
            nearest = float(done[np.abs(done - value).argmin()])
            for at in np.linspace(nearest, value, pieces + 1)[1:]:
                (found,) = self.at([j], [float(at)])
                if not found.sure:
                    break
            pieces *= 2
        return found if found.at == value else self.at([j], [value])[0]

    def _base(self) -> np.ndarray:
        """The problem's offset, over the rows of η where those are not rows of X: (·, 1)."""
        problem = self.problem
        if problem.offset is None:
            return np.zeros((1, 1))
        offset = problem.offset[:, None]
        return offset if problem.likelihood.order is not None else problem.likelihood.lift(offset)

    def _column(self, j: int) -> np.ndarray:
        """The column in X's units, over the rows of η."""
        if j not in self._columns:
            D = np.zeros((len(self.scale), 1))
            D[j] = self.scale[j]
            backend = self.problem.likelihood.backend
            self._columns[j] = backend.to_host(self.problem.design.matmul(D, backend))[:, 0]
        return self._columns[j]

    def _keep(self, j: int, value: float, beta: np.ndarray) -> None:
        at = np.flatnonzero(beta)
        bisect.insort(self._done.setdefault(j, []), (value, at, beta[at]), key=lambda x: x[0])

    def _start(self, j: int, value: float) -> np.ndarray:
        """Coefficients between those of the nearest values done, or those of the fit."""
        done = self._done.get(j, [])
        i = bisect.bisect(done, value, key=lambda x: x[0])
        near = [self._whole(*done[k]) for k in (i - 1, i) if 0 <= k < len(done)]
        if len(near) == 2 and near[1][0] > near[0][0]:
            (a, low), (b, high) = near
            share = (value - a) / (b - a)
            return np.where((low == 0) | (high == 0), 0.0, low + share * (high - low))
        if near:
            return near[0][1]
        out = self.beta * self.scale
        out[j] = 0.0
        return out

    def _whole(self, value: float, at: np.ndarray, beta: np.ndarray) -> tuple[float, np.ndarray]:
        out = np.zeros(len(self.scale))
        out[at] = beta
        return value, out


def _without_outliers(column: np.ndarray, free_level: bool) -> np.ndarray:
    """A column with what is far beyond most of its entries brought in.

    A few rows whose predictors run off end no profile: their losses end it, or they no longer
    have a part in it. Where the level is free, entries are looked at about their median.
    """
    middle = float(np.median(column)) if free_level else 0.0
    sizes = np.abs(column - middle)
    some = sizes[sizes > 0]
    limit = OUTLYING * float(np.quantile(some, MOST_OF)) if len(some) else 0.0
    if not (sizes > limit).any():
        return column
    return np.clip(column - middle, -limit, limit)
