"""Fits with one coefficient fixed: the points of profile likelihoods, as lanes of one batch.

The fixed column enters through the offset, and an infinite penalty keeps its own coefficient at
zero. Each lane can therefore fix another column at another value; all other coefficients are
refitted under their prior.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..fit import Problem, Replicates
from ..fit.replicate_fits import lanes_of_draws
from ..priors import INFINITE_PENALTY
from ..solve import Batch
from .inference_constants import PROFILE

__all__ = ["ProfileFits", "ProfilePoint", "hessian_of_support"]


# Maps a penalised loss to the log-likelihood under the prior of the other coefficients, and to the
# derivative of that map.
FromObjective = Callable[[float], tuple[float, float]]


@dataclass(frozen=True)
class ProfilePoint:
    """A point of a profile likelihood.

    Attributes
    ----------
    value : float
        The value at which the coefficient is fixed.
    f, g : float
        The profile log-likelihood there and its derivative.
    converged : bool
        Whether the fit reached its tolerance; if not, f may be far too low.
    """

    value: float
    f: float
    g: float
    converged: bool = True


class ProfileFits:
    """Points of the profile log-likelihoods of a problem's columns.

    Parameters
    ----------
    beta : (p,) array
        The fitted coefficients, in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units; the penalty of the fixed column itself is left out.
    from_objective : callable
        See `FromObjective`.

    Attributes
    ----------
    values : dict
        For each column, all converged points so far.
    """

    def __init__(
        self,
        problem: Problem,
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
        self.objective = self.full.solve(l1, l2, tol=PROFILE.fit_tol, look="after")[0].objective
        self.values: dict[int, list[ProfilePoint]] = {}
        self._columns: dict[int, np.ndarray] = {}
        self._errors: dict[int, float] = {}
        self._sizes: dict[int, float] = {}
        # For each column, the columns that move with it and their change per unit of it.
        self._tangents: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # For each column, the values done in ascending order, with the support and the
        # coefficients of the other columns there.
        self._done: dict[int, list[tuple[float, np.ndarray, np.ndarray]]] = {}

    # -- scales ----------------------------------------------------------------------------------

    def standard_errors(self, columns: Sequence[int]) -> np.ndarray:
        """Approximate the columns' standard errors with the support fixed, as step lengths."""
        self._compute_local_scales(columns)
        return np.array([self._errors[j] for j in columns])

    def _compute_local_scales(self, columns: Sequence[int]) -> None:
        """Compute the columns' standard errors, and how other coefficients follow them.

        To first order dβ/dβ_j = −H_oo⁻¹ H_oj, where o are the other columns that are not at zero.
        Starting points that follow this tangent are needed if a column is far from zero relative
        to its standard deviation, such as a calendar year, or nearly collinear with others:
        otherwise the first linear predictors would be out of all bounds.
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
            size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))  # Units differ by far.
            inverse = linalg.inv(H / size / size[:, None]) / size / size[:, None]
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
        """Return the likelihood's dispersion at the fit."""
        return float(np.max(self.full.term.dispersion))

    def largest_change(self, j: int, change: float) -> float:
        """Compute the change of coefficient j that changes some η by ``change``.

        The other coefficients either stay or follow the tangent, whichever changes η less.
        """
        if self.problem.likelihood.quadratic:
            return np.inf
        if j not in self._sizes:
            self._sizes[j] = self._change_per_unit(j)
        return change / self._sizes[j] if self._sizes[j] > 0 else np.inf

    def _change_per_unit(self, j: int) -> float:
        """Compute the change of η per unit of coefficient j, for `largest_change`."""
        free_level = self.problem.likelihood.shift_invariant or self.problem.n_free > 0
        size = self._predictor_change(self._column(j), free_level)
        self._compute_local_scales([j])
        if size > 0 and j in self._tangents:
            others, slope = self._tangents[j]
            column = self._column(j) + self._predictor(others, slope)
            size = min(
                size, self._predictor_change(column, free_level and j >= self.problem.n_free)
            )
        return size

    def _predictor_change(self, column: np.ndarray, free_level: bool) -> float:
        """Compute how much a column changes the linear predictors, ignoring outliers."""
        likelihood = self.problem.likelihood
        if likelihood.order is not None:
            column = column[likelihood.order]
        column = _clip_outliers(column, free_level)
        return self._size_of_change(column)

    def is_flat(self, j: int) -> bool:
        """Return whether the column moves all rows equally, which the level compensates.

        Such a profile is flat and shows nothing but the rounding of η at extreme values.
        """
        problem, likelihood = self.problem, self.problem.likelihood
        if j < problem.n_free or not (likelihood.shift_invariant or problem.n_free):
            return False
        column = self._column(j)
        if likelihood.order is not None:
            column = column[likelihood.order]
        if not likelihood.shift_invariant:  # the first rows of η are those of X
            column = column - column[np.argmax(problem.weights > 0)]
        return self._size_of_change(column) == 0.0

    def _size_of_change(self, column: np.ndarray) -> float:
        """Measure a change of η, a host array over the rows of η, as `Likelihood.extent` does."""
        likelihood = self.problem.likelihood
        change = likelihood.backend.asarray(column[:, None])
        return float(likelihood.extent(change, self.problem.weights))

    # -- points ----------------------------------------------------------------------------------

    def is_representable(self, j: int, value: float) -> bool:
        """Return whether exp of the linear predictors is finite with column j at a value."""
        return not abs(value - self.beta[j]) > self.largest_change(j, PROFILE.max_predictor_change)

    def fit(self, columns: Sequence[int], values: Sequence[float]) -> list[ProfilePoint]:
        """Fix each of some columns at a value and fit all other coefficients.

        Raises
        ------
        DataError
            If exp would overflow at a value, so far is it from the estimate.
        """
        count = len(columns)
        self._compute_local_scales(columns)
        for j, v in zip(columns, values, strict=True):
            if not self.is_representable(j, v):
                raise DataError(
                    f"{self.problem.design.names[j]!r} can't be held at {v:g}: it moves a linear "
                    f"predictor by more than {PROFILE.max_predictor_change:g}, further than exp "
                    "can hold."
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
        replicates = Replicates(
            *(self.problem, self.common, count, weights, 0.0, offsets, like),
            lanes=lanes_of_draws(self.problem),
        )
        out: list[ProfilePoint] = []

        def start(group: int) -> np.ndarray:
            numbers = replicates.groups[group]
            return np.stack([self._starting_point(columns[k], values[k]) for k in numbers], axis=1)

        for group in replicates.solve(l1, l2, PROFILE.fit_tol, start, "during"):
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
                    self._remember(j, values[k], fit.beta * self.scale)
        return out

    def fit_in_steps(self, j: int, value: float) -> ProfilePoint:
        """Fix a column at a value that is far from those done, in several steps towards it."""
        (found,) = self.fit([j], [value])
        pieces = 2
        while not found.converged and pieces <= PROFILE.max_pieces:
            done = np.array([v.value for v in self.values.get(j, [])] or [float(self.beta[j])])
            nearest = float(done[np.abs(done - value).argmin()])
            for at in np.linspace(nearest, value, pieces + 1)[1:]:
                (found,) = self.fit([j], [float(at)])
                if not found.converged:
                    break
            pieces *= 2
        return found if found.value == value else self.fit([j], [value])[0]

    def _base(self) -> np.ndarray:
        """Return the offset in X's order, or lifted if η has no order; zero, (1, 1), if none."""
        problem = self.problem
        if problem.offset is None:
            return np.zeros((1, 1))
        offset = problem.offset[:, None]
        return offset if problem.likelihood.order is not None else problem.likelihood.lift(offset)

    def _column(self, j: int) -> np.ndarray:
        """Return column j in X's units, over the rows of η."""
        if j not in self._columns:
            self._columns[j] = self._predictor(np.array([j]), self.scale[j])
        return self._columns[j]

    def _predictor(self, columns: np.ndarray, coefficients: np.ndarray | float) -> np.ndarray:
        """Compute the linear predictor of some scaled columns, over the rows of η."""
        D = np.zeros((len(self.scale), 1))
        D[columns, 0] = coefficients
        backend = self.problem.likelihood.backend
        return np.asarray(backend.to_host(self.problem.design.matmul(D, backend))[:, 0])

    def _remember(self, j: int, value: float, beta: np.ndarray) -> None:
        """Store the coefficients of a converged point as a starting point for others."""
        at = np.flatnonzero(beta)
        bisect.insort(self._done.setdefault(j, []), (value, at, beta[at]), key=lambda x: x[0])

    def _starting_point(self, j: int, value: float) -> np.ndarray:
        """Interpolate between the nearest points done, or follow the tangent from one of them."""
        done = self._done.get(j, [])
        i = bisect.bisect(done, value, key=lambda x: x[0])
        near = [self._dense_coefficients(*done[k]) for k in (i - 1, i) if 0 <= k < len(done)]
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

    def _dense_coefficients(
        self, value: float, at: np.ndarray, beta: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Expand a stored point to its value and all p coefficients."""
        out = np.zeros(len(self.scale))
        out[at] = beta
        return value, out


def hessian_of_support(
    batch: Batch, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the Hessian at a batch's current point, over its support and further columns.

    Parameters
    ----------
    beta, l1, l2 : (p,) arrays
        Coefficients at the current point and penalties, in X's units.
    columns : int array
        Further columns to include.

    Returns
    -------
    support : (k,) int array
        Columns that are nonzero or unpenalised, and those requested; ascending.
    H : (k, k) array, or (k,) if it would be too large
        Hessian in the scaled columns, with normal priors and a small ridge that makes it
        invertible; or the diagonal of the loss's Hessian.
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
    return support, H + np.diag(kappa + np.where(own > 0, PROFILE.relative_ridge * own, 1.0))


def _clip_outliers(column: np.ndarray, free_level: bool) -> np.ndarray:
    """Clip the entries of a column that are far larger than most.

    A few rows with extreme predictors do not limit a profile: their losses either end it or
    vanish. If the level is free, deviations are taken from the median.
    """
    middle = float(np.median(column)) if free_level else 0.0
    sizes = np.abs(column - middle)
    some = sizes[sizes > 0]
    limit = (
        PROFILE.outlier_factor * float(np.quantile(some, PROFILE.bulk_quantile))
        if len(some)
        else 0.0
    )
    if not (sizes > limit).any():
        return column
    return np.clip(column - middle, -limit, limit)
