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
from ..priors import INFINITE_PENALTY
from ..solve import Batch

__all__ = ["ProfileFits", "ProfilePoint", "hessian_of_support"]

TOL = 1e-6  # largest KKT violation, in units of λ or of standard errors
MOST_PIECES = 16  # of the way to a value that fits did not come to at once
HOLDS = 500.0  # change of η that exp can hold
MOST_OF = 0.9  # of a column's entries: what is this many times
LITTLE = 1e-10  # of a diagonal: what is added to it so that there is an inverse
OUTLYING = 10.0  # further out has no part in how far a profile may be looked at

# The log-likelihood, under the prior on the others, of a penalised loss, and its derivative in it.
FromObjective = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class ProfilePoint:
    """A point of a profile: value of the coefficient, log-likelihood, derivative.

    ``sure`` says whether the fit came to its tolerance; where not, f may be far too low.
    """

    at: float
    f: float
    g: float
    sure: bool = True


class ProfileFits:
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
        self.values: dict[int, list[ProfilePoint]] = {}
        self._columns: dict[int, np.ndarray] = {}
        self._errors: dict[int, float] = {}
        # Of each column the others that move with it, and by how much for each unit of it.
        self._tangents: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # Of each column the values done, ascending, with where the other coefficients were.
        self._done: dict[int, list[tuple[float, np.ndarray, np.ndarray]]] = {}

    # -- scales ----------------------------------------------------------------------------------

    def standard_errors(self, columns: Sequence[int]) -> np.ndarray:
        """Rough standard errors of held columns, the support staying as it is: steps to take."""
        self._look_around(columns)
        return np.array([self._errors[j] for j in columns])

    def _look_around(self, columns: Sequence[int]) -> None:
        """Find standard errors, and how other coefficients follow held ones to first order.

        The second is dβ/dβ_j = −H_oo⁻¹ H_oj, o being the other columns that are not at zero: where
        a column is far from zero beside its spread, as a calendar year is, or nearly collinear
        with others, fits that did not begin with these moved along would begin with linear
        predictors that are out of all bounds.
        """
        at = np.array([j for j in dict.fromkeys(columns) if j not in self._errors], np.int64)
        if not len(at):
            return
        kappa = self.l2 / self.scale / self.scale
        support, H = hessian_of_support(self.full, self.beta, self.l1, self.l2, at)
        mine = np.searchsorted(support, at)
        if H.ndim == 1:
            information = H[mine]
        else:
            own = np.diag(H)[mine] - kappa[at]
            inverse = linalg.inv(H)
            information = 1.0 / np.diag(inverse)[mine] - kappa[at]
            information = np.where(information > 1e-6 * own, information, own)
            for j, m in zip(at.tolist(), mine, strict=True):
                others = np.flatnonzero(support != j)
                slope = inverse[others, m] / inverse[m, m] * self.scale[j]
                self._tangents[j] = support[others], slope
        information = np.where(information > 0, information, 1.0)
        errors = np.sqrt(self._dispersion() / information) / self.scale[at]
        self._errors.update(zip(at.tolist(), errors.tolist(), strict=True))

    def _dispersion(self) -> float:
        return float(np.max(self.full.term.dispersion))

    def reach(self, j: int, change: float) -> float:
        """Change of the coefficient that changes some η by this much.

        With all other coefficients where they are or moved along, whichever changes η less.
        """
        if self.problem.likelihood.quadratic:
            return np.inf
        free_level = self.problem.likelihood.shift_invariant or self.problem.n_free > 0
        size = self._extent(self._column(j), free_level)
        self._look_around([j])
        if size > 0 and j in self._tangents:
            others, slope = self._tangents[j]
            column = self._column(j) + self._predictor(others, slope)
            size = min(size, self._extent(column, free_level and j >= self.problem.n_free))
        return change / size if size > 0 else np.inf

    def _extent(self, column: np.ndarray, free_level: bool) -> float:
        """How far a column moves the linear predictors, but for outliers."""
        likelihood = self.problem.likelihood
        if likelihood.order is not None:
            column = column[likelihood.order]
        column = _without_outliers(column, free_level)
        return self._moved_by(column)

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
        return self._moved_by(column) == 0.0

    def _moved_by(self, column: np.ndarray) -> float:
        """How far a change of η (rows of η,), an array of the host, moves the predictors."""
        likelihood = self.problem.likelihood
        change = likelihood.backend.asarray(column[:, None])
        return float(likelihood.extent(change, self.problem.weights))

    # -- points ----------------------------------------------------------------------------------

    def can_hold(self, j: int, value: float) -> bool:
        """Whether exp can hold the linear predictors with a column at a value."""
        return not abs(value - self.beta[j]) > self.reach(j, HOLDS)

    def at(self, columns: Sequence[int], values: Sequence[float]) -> list[ProfilePoint]:
        """Hold each of some columns at a value, and fit all others.

        Raises
        ------
        DataError
            A value further from the estimate than exp can hold.
        """
        count = len(columns)
        self._look_around(columns)
        for j, v in zip(columns, values, strict=True):
            if not self.can_hold(j, v):
                raise DataError(
                    f"{self.problem.design.names[j]!r} can't be held at {v:g}: it moves a linear "
                    f"predictor by more than {HOLDS:g}, further than exp can hold."
                )
        lanes = np.arange(count)
        l1, l2 = (np.repeat(x[:, None], count, axis=1) for x in (self.l1, self.l2))
        l1[columns, lanes], l2[columns, lanes] = INFINITE_PENALTY, 0.0
        base = self._base()

        def weights(numbers: list[int]) -> np.ndarray:
            return self.problem.weights[:, None]

        def offsets(numbers: list[int]) -> np.ndarray:
            return base + np.stack([values[k] * self._column(columns[k]) for k in numbers], axis=1)

        like = self.full.term.nuisance(0)
        replicates = Replicates(self.problem, self.common, count, weights, 0.0, offsets, like)
        out: list[ProfilePoint] = []

        def start(group: int) -> np.ndarray:
            numbers = replicates.groups[group]
            return np.stack([self._start(columns[k], values[k]) for k in numbers], axis=1)

        for group in replicates.solve(l1, l2, TOL, start, "during"):
            gradients = group.batch.gradients()
            for b, k in enumerate(group.numbers):
                j, fit = columns[k], group.fits[b]
                f, slope = self.from_objective(fit.objective)
                sure = bool(fit.converged and np.isfinite(f))
                out.append(
                    ProfilePoint(values[k], f, slope * gradients[j, b] * self.scale[j], sure)
                )
                if sure:
                    self.values.setdefault(j, []).append(out[-1])
                    self._keep(j, values[k], fit.beta * self.scale)
        return out

    def approach(self, j: int, value: float) -> ProfilePoint:
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
            self._columns[j] = self._predictor(np.array([j]), self.scale[j])
        return self._columns[j]

    def _predictor(self, columns: np.ndarray, coefficients: np.ndarray | float) -> np.ndarray:
        """Linear predictor of coefficients of some scaled columns, over the rows of η."""
        D = np.zeros((len(self.scale), 1))
        D[columns, 0] = coefficients
        backend = self.problem.likelihood.backend
        return np.asarray(backend.to_host(self.problem.design.matmul(D, backend))[:, 0])

    def _keep(self, j: int, value: float, beta: np.ndarray) -> None:
        at = np.flatnonzero(beta)
        bisect.insort(self._done.setdefault(j, []), (value, at, beta[at]), key=lambda x: x[0])

    def _start(self, j: int, value: float) -> np.ndarray:
        """Coefficients between those of the nearest values done, or along the tangent from one."""
        done = self._done.get(j, [])
        i = bisect.bisect(done, value, key=lambda x: x[0])
        near = [self._whole(*done[k]) for k in (i - 1, i) if 0 <= k < len(done)]
        if len(near) == 2 and near[1][0] > near[0][0]:
            (a, low), (b, high) = near
            share = (value - a) / (b - a)
            return np.where((low == 0) | (high == 0), 0.0, low + share * (high - low))
        if near:
            begin, out = near[0]
        else:
            begin, out = float(self.beta[j]), self.beta * self.scale
            out[j] = 0.0
        if j in self._tangents:
            others, slope = self._tangents[j]
            moved = out[others] + slope * (value - begin)
            turned = (self.l1[others] > 0) & (moved * out[others] <= 0)
            out[others] = np.where(turned, 0.0, moved)
        return out

    def _whole(self, value: float, at: np.ndarray, beta: np.ndarray) -> tuple[float, np.ndarray]:
        out = np.zeros(len(self.scale))
        out[at] = beta
        return value, out


def hessian_of_support(
    batch: Batch, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian where a batch stands over the columns that can move, and some others.

    Parameters
    ----------
    batch : Batch
    beta, l1, l2 : (p,) arrays
        Coefficients there and penalties, in X's units.
    columns : int array
        Columns that are wanted too.

    Returns
    -------
    support : (k,) int array
        Columns that are not zero or have no penalty, and those wanted; ascending.
    H : (k, k) array, or (k,) where it is too large
        Of the scaled columns, with normal priors and enough on its diagonal to have an inverse;
        or the diagonal of that of the loss.
    """
    scale = batch.term.scale
    support = np.union1d(np.flatnonzero(((l1 == 0) & (l2 == 0)) | (beta != 0)), columns)
    G, W = batch.prepare(support), batch.term.W
    place = np.full(len(scale), -1)
    place[W] = np.arange(len(W))
    at = place[support]
    if G.ndim == 1:
        return support, G[at]
    H = G[np.ix_(at, at)].astype(np.float64)
    own, kappa = np.diag(H), l2[support] / scale[support] ** 2
    return support, H + np.diag(kappa + np.where(own > 0, LITTLE * own, 1.0))


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
