"""Fits of the model and profile likelihoods of covariates without a finite estimate.

The estimator computes the profiles of covariates with a finite estimate. A covariate without one is
not in any finite fit: a value of it enters as an offset, and the others are refitted. Its finite
limit is where the log-likelihood is a given amount below its supremum. It is found to 1e-9 by
Newton steps on the signed root of twice the drop, which is nearly linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import steropes
from steropes.designs.case_series.infinite_estimates import (
    limiting_estimate,
    rows_of_empty_segments,
)
from steropes.designs.case_series.interval_rows import Intervals
from steropes.designs.case_series.model_settings import SeriesModelSettings
from steropes.designs.case_series.series_column_descriptions import Column
from steropes.designs.case_series.series_likelihood import column_of, log_likelihood
from steropes.designs.case_series.series_priors import estimator, prior_of, with_weak_prior
from steropes.designs.case_series.spline_series_fits import (
    MonthlyFits,
    choose_variance,
    is_determined,
    violation,
)
from steropes.designs.case_series.spline_series_likelihood import monthly_likelihood
from steropes.errors import DataError

__all__ = ["Fit", "Profile"]

FARTHEST = 30.0  # Log rate ratios beyond this value count as infinite.
# A root is found at this distance of the log-likelihood from its limit.
CLOSE = 1e-9
LANES = 16  # The number of values of a profile that are fitted together.


@dataclass(frozen=True)
class Fit:
    """One fit: coefficients of all columns (0 if absent), with log-likelihood and gradient.

    ``estimator`` is None if there are no columns, or if the fit needed no row for each month;
    ``information`` is that of the latter.
    """

    beta: NDArray
    log_likelihood: float
    penalty: float
    gradient: NDArray
    variance: float | None
    estimator: Any
    information: NDArray | None = None


class Profile:
    """The fit of a case series, and profiles of covariates outside of it.

    Parameters
    ----------
    finite : (p,) bool array
        Columns in the model.
    rows : (n,) bool array
        Rows that count when columns without a finite estimate are at their limits.

    Attributes
    ----------
    converged : bool
        Whether all fits so far converged.
    """

    def __init__(
        self, intervals: Intervals, finite: NDArray, rows: NDArray, settings: SeriesModelSettings
    ) -> None:
        self.intervals, self.finite, self.rows, self.settings = intervals, finite, rows, settings
        self.converged = True
        self._best: Fit | None = None
        self._refitted: Any = None
        self._known: dict[tuple[int, float], tuple[float, float]] = {}
        self._designs: dict[tuple, tuple[Any, list[str]]] = {}
        self._parts: dict[bytes, Intervals] = {}
        self._rows_at: dict[int, NDArray] = {}
        self._monthly: dict[bytes, MonthlyFits | None] = {}
        # The variance that the monthly fits have chosen, and the coefficients under it.
        self._chosen: tuple[float, NDArray] | None = None
        self._solved: dict[tuple[int, float], NDArray] = {}

    @property
    def monthly(self) -> bool:
        """Whether the fits need no row for each month (`MonthlyLikelihood`)."""
        return self._fits(self.rows) is not None

    def maximum(self) -> Fit:
        """Return the maximum of the (penalised) likelihood."""
        if self._best is None:
            self._chosen = self._monthly_variance()
            self._best = self._monthly_maximum()
        if self._best is None:
            self._best = self._fit(self.finite, self.rows, None, None)
        return self._best

    def estimator(self) -> Any:
        """Return the estimator at the maximum; None if there are no columns."""
        best = self.maximum()
        if best.estimator is None and self._refitted is None and self.finite.any():
            self._refitted = self._fit(self.finite, self.rows, None, None).estimator
        return best.estimator if self._refitted is None else self._refitted

    def covariance(self) -> pd.DataFrame | None:
        """Return the covariance matrix of the finite estimates; None under a Laplace prior."""
        best = self.maximum()
        names = [n for n, f in zip(self.intervals.names, self.finite, strict=True) if f]
        if best.information is None:
            model = self.estimator()
            if model is None:  # No column has a finite estimate.
                return None
            try:
                return model.vcov("model")
            except DataError:
                return None
        l1, l2 = self._penalties(best.variance)
        if l1.any():
            return None
        at = np.ix_(self.finite, self.finite)
        inverse = np.linalg.inv((best.information + np.diag(l2))[at])
        return pd.DataFrame(0.5 * (inverse + inverse.T), names, names)

    def limits(self, j: int, drop: float) -> tuple[float, float]:
        """Find the profile limits of a covariate with a finite estimate."""
        best = self.maximum()
        top, middle = best.log_likelihood - best.penalty, float(best.beta[j])
        low, high = (self._limit(j, top, drop, side, middle, {}) for side in (-1, 1))
        return low, high

    def at(self, j: int, value: float, infinite: dict[int, float]) -> tuple[float, float]:
        """Return profile log-likelihood (minus the penalty of the others) and slope at a value."""
        key = (j, float(value))
        if key not in self._known:
            self._compute(j, [float(value)], infinite)
        return self._known[key]

    def prepare(self, j: int, values: NDArray, infinite: dict[int, float]) -> None:
        """Compute the profile at several values together, for later calls of `at`."""
        left = [float(v) for v in values if (j, float(v)) not in self._known]
        if self.monthly:
            for first in range(0, len(left), LANES):
                self._compute(j, left[first : first + LANES], infinite, alone=False)

    def _compute(
        self, j: int, values: list[float], infinite: dict[int, float], alone: bool = True
    ) -> None:
        """Compute the profile at some values; those that fail are refitted only if ``alone``."""
        others = self.finite.copy()
        others[j] = False
        rows = self._rows_without(j, infinite)
        fits = self._fits(rows)
        if fits is not None:
            self._compute_monthly(fits, j, values, others)
        for value in values if alone else ():
            if (j, value) not in self._known:
                fit = self._fit(others, rows, j, value)
                self._known[j, value] = fit.log_likelihood - fit.penalty, float(fit.gradient[j])

    def _compute_monthly(
        self, fits: MonthlyFits, j: int, values: list[float], others: NDArray
    ) -> None:
        """Compute the profile at some values without a row for each month."""
        best, count = self.maximum(), len(values)
        near = {v: b for (k, v), b in self._solved.items() if k == j}
        near.setdefault(float(best.beta[j]), best.beta)
        start = np.stack([near[min(near, key=lambda v: abs(v - x))] for x in values], axis=1)
        start = np.where(others[:, None], start, 0.0)
        start[j] = values
        l1, l2 = (np.where(others, x, 0.0) for x in self._penalties(best.variance))
        found = fits.solve(
            start,
            np.ones((len(fits.likelihood.events), count)),
            *(np.repeat(x[:, None], count, axis=1) for x in (l1, l2, ~others)),
        )
        for k in np.flatnonzero(found.converged).tolist():
            beta = found.beta[:, k]
            loss = float((l1 * np.abs(beta) + 0.5 * l2 * beta**2).sum())
            value = float(found.log_likelihood[k]) - loss
            self._known[j, values[k]] = value, float(found.gradient[j, k])
            self._solved[j, values[k]] = beta

    def _fits(self, rows: NDArray) -> MonthlyFits | None:
        """Return fits of some rows without a row for each month; None if that is not possible."""
        key = np.packbits(rows).tobytes()
        if key not in self._monthly:
            made = None
            if self.settings.prior != "hierarchical" and self.intervals.month is not None:
                made = monthly_likelihood(self._part(rows)[0])
            self._monthly[key] = None if made is None else MonthlyFits(made)
        return self._monthly[key]

    def _penalties(self, variance: float | None) -> tuple[NDArray, NDArray]:
        """Return λ and κ of each column in the model under a separable prior."""
        names = self.intervals.names
        prior = prior_of(self.settings, variance or 1.0, names, self.intervals.columns)
        if prior is None:
            return np.zeros(len(names)), np.zeros(len(names))
        penalty = prior.separable(names)
        return np.where(self.finite, penalty.l1, 0.0), np.where(self.finite, penalty.l2, 0.0)

    def _monthly_maximum(self) -> Fit | None:
        """Return the maximum without an estimator, certified from all rows.

        None if there are no monthly fits, the variance is unknown, the certificate fails, or the
        data may not determine a coefficient; the estimator then explains the reason.
        """
        fits = self._fits(self.rows)
        variance, start = self._chosen or (self.settings.variance, np.zeros(len(self.finite)))
        under = np.array([c.penalized for c in self.intervals.columns]) & self.finite
        penalised = self.settings.prior != "none" and bool(under.any())
        if fits is None or not self.finite.any() or (penalised and variance is None):
            return None
        if not penalised:
            variance = None
        l1, l2 = self._penalties(variance)
        ones = np.ones((len(fits.likelihood.events), 1))
        lanes = (x[:, None] for x in (l1, l2, ~self.finite))
        found = fits.solve(start[:, None], ones, *lanes)
        beta = found.beta[:, 0]
        _, _, there = fits.likelihood.slopes(found.beta, ones)
        information = fits.likelihood.information(there, ones, np.zeros(1, int))[0]
        squares = fits.likelihood.squares(there)[:, 0]
        free = np.flatnonzero(self.finite & (l1 == 0) & (l2 == 0))
        whole = is_determined(beta[free], information[np.ix_(free, free)], squares[free])
        if not (found.converged[0] and whole):
            return None
        value, gradient = log_likelihood(self._part(self.rows)[0], beta)
        at = np.flatnonzero(self.finite)
        largest = violation(beta[at], gradient[at], l1[at], l2[at], information[np.ix_(at, at)])
        if largest > estimator(self.settings, variance, [], []).tol:
            return None
        return Fit(
            beta, value, self._penalty(beta, variance), gradient, variance, None, information
        )

    def _monthly_variance(self) -> tuple[float, NDArray] | None:
        """Choose the prior's variance without a row for each month; None if that is not asked."""
        fits, names, columns = self._fits(self.rows), self.intervals.names, self.intervals.columns
        prior = prior_of(self.settings, 1.0, names, columns)
        if fits is None or prior is None or self.settings.variance is not None:
            return None
        if not any(c.penalized and f for c, f in zip(columns, self.finite, strict=True)):
            return None
        cv = steropes.CrossValidation(self.settings.folds, random_state=self.settings.seed)
        return choose_variance(fits, prior, names, ~self.finite, cv)

    def interval(self, j: int, drop: float, infinite: dict[int, float]) -> tuple[float, float]:
        """Find where the profile of a covariate in ``infinite`` is ``drop`` below its supremum."""
        best = self.maximum()
        top = best.log_likelihood - best.penalty
        side = 1 if infinite[j] < 0 else -1  # The side of the finite limit.
        limit = self._limit(
            j, top, drop, side, self._inner(j, top, drop, -side, infinite), infinite
        )
        return (-math.inf, limit) if side > 0 else (limit, math.inf)

    def held(self, j: int, infinite: dict[int, float]) -> Any:
        """Fit an estimator that includes column j and has the model's profile of it.

        A weak normal prior keeps its coefficient finite; the profile omits it. None under a
        hierarchical prior, which cannot be combined with it, and where `at` is faster.
        """
        if self.monthly:
            return None
        d = self.intervals
        columns = self.finite.copy()
        columns[j] = True
        chosen = np.flatnonzero(columns)
        part, key = self._part(self._rows_without(j, infinite))
        design, names = self._design(part, chosen, key)
        prior = prior_of(self.settings, self._variance(None) or 1.0, names, self._columns(chosen))
        weak = with_weak_prior(prior, names, [d.names[j]])
        if weak is None:
            return None
        model = steropes.SelfControlledCaseSeries(prior=weak, random_state=self.settings.seed)
        model.fit(design, part.events, strata=part.case, exposure=part.days)
        self.converged &= bool(model.converged_)
        return model

    # -- search ----------------------------------------------------------------------------------

    def _inner(
        self, j: int, top: float, drop: float, side: int, infinite: dict[int, float]
    ) -> float:
        """Find a value of a column without a finite estimate at which the drop is small enough."""
        for value in (0.0, 2.0, 5.0, 10.0, 20.0, FARTHEST):
            if top - self.at(j, side * value, infinite)[0] < drop:
                return side * value
        raise DataError(
            f"the profile of {self.intervals.names[j]!r} approaches within {drop:.2f} of its limit "
            "only for an unbounded rate ratio; the data have no information on it"
        )

    def _limit(
        self, j: int, top: float, drop: float, side: int, inner: float, infinite: dict[int, float]
    ) -> float:
        """Find the limit above (side 1) or below (−1) ``inner`` by Newton steps in a bracket."""

        def root(b: float) -> tuple[float, float]:
            """Return the distance beyond the limit on the scale of the signed root, and slope."""
            value, slope = self.at(j, b, infinite)
            distance = math.sqrt(2 * max(top - value, 0.0))
            rise = -side * slope / distance if distance > 0 else 0.0
            return distance - math.sqrt(2 * drop), rise

        low, high, step = inner, side * math.inf, 0.5
        f, rise = root(low)
        b = low
        for _ in range(100):
            newton = b - side * f / rise if rise > 0 else side * math.inf
            if abs(f) < CLOSE and math.isfinite(newton):
                return newton
            if abs(high - low) < 1e-10:
                return b
            if math.isinf(high):
                # Without a bracket, a step is at most four times the last one.
                if abs(low) >= FARTHEST:
                    return side * math.inf
                step = min(abs(newton - low), step)
                b = side * min(side * low + step, FARTHEST)
                step *= 4
            else:
                b = newton if low < newton < high or high < newton < low else 0.5 * (low + high)
            f, rise = root(b)
            low, high = (b, high) if f < 0 else (low, b)
        return b

    # -- fits ------------------------------------------------------------------------------------

    def _rows_without(self, j: int, infinite: dict[int, float]) -> NDArray:
        """Return the rows that count when column j has a finite value."""
        if j not in infinite:
            return self.rows
        if j not in self._rows_at:
            free = np.array([not c.penalized for c in self.intervals.columns])
            rows = ~rows_of_empty_segments(self.intervals, free)
            for k in infinite:
                if k != j and k < self.intervals.X.shape[1]:
                    rows &= ~limiting_estimate(self.intervals, k, rows)[1]
            self._rows_at[j] = rows
        return self._rows_at[j]

    def _fit(self, columns: NDArray, rows: NDArray, fixed: int | None, value: float | None) -> Fit:
        """Fit some columns to some rows, with another column as an offset."""
        d = self.intervals
        part, key = self._part(rows)
        offset = None
        if fixed is not None:
            assert value is not None
            offset = value * column_of(part, fixed)
        chosen = np.flatnonzero(columns)
        beta = np.zeros(len(d.columns))
        model = None
        if len(chosen):
            design, names = self._design(part, chosen, key)
            model = self._estimator(names, self._columns(chosen))
            start = None if self._chosen is None else self._chosen[1][chosen]
            if self._best is not None and fixed is None:
                start = self._best.beta[chosen]
            model.fit(
                design, part.events, strata=part.case, exposure=part.days, offset=offset,
                start_at=start,
            )  # fmt: skip
            self.converged &= bool(model.converged_)
            beta[chosen] = model.coef_
        if fixed is not None:
            beta[fixed] = value
        variance = self._variance(model)
        value_, gradient = log_likelihood(part, beta)
        return Fit(beta, value_, self._penalty(beta, variance), gradient, variance, model)

    def _columns(self, chosen: NDArray) -> list[Column]:
        """Return some columns."""
        return [self.intervals.columns[j] for j in chosen]

    def _part(self, rows: NDArray) -> tuple[Intervals, bytes]:
        """Select the rows that count, with a key that identifies them."""
        if rows.all():
            return self.intervals, b""
        key = np.packbits(rows).tobytes()
        if key not in self._parts:
            self._parts = {key: self.intervals.take(np.flatnonzero(rows))}
        return self._parts[key], key

    def _design(self, part: Intervals, chosen: NDArray, of: bytes) -> tuple[Any, list[str]]:
        """Build the design of some columns; the last one is cached."""
        key = (of, *chosen.tolist())
        if key in self._designs:
            return self._designs[key]
        names = [part.names[j] for j in chosen]
        p = part.X.shape[1]
        blocks: list[Any] = []
        if (chosen < p).any():
            X = part.X[:, chosen[chosen < p]]
            blocks += steropes.as_design(X, copy=False).blocks
        if (chosen >= p).any():
            blocks += steropes.as_design(part.splines.dense()[:, chosen[chosen >= p] - p]).blocks
        made = steropes.Design(blocks, names), names
        self._designs = {key: made}  # Only the last one, which a profile uses many times.
        return made

    def _estimator(self, names: list[str], columns: list[Column]) -> Any:
        """Create an estimator with the given or the cross-validated variance."""
        first = None if self._chosen is None else self._chosen[0]
        known = first if self._best is None else self._best.variance
        given = self.settings.variance if self.settings.variance is not None else known
        return estimator(self.settings, given, names, columns)

    def _variance(self, model: Any) -> float | None:
        """Return the prior's variance in a fitted model."""
        if model is None or model.prior is None:
            return None if self._best is None else self._best.variance
        chosen = model.prior.variance if model.cv is None else model.variance_
        return float(chosen)

    def _penalty(self, beta: NDArray, variance: float | None) -> float:
        """Compute the penalty of the coefficients."""
        if variance is None:
            return 0.0
        under = [j for j, c in enumerate(self.intervals.columns) if c.penalized]
        names = [self.intervals.names[j] for j in under]
        columns = [self.intervals.columns[j] for j in under]
        prior = prior_of(self.settings, variance, names, columns)
        smooth = prior.smooth(names)
        joint = 0.0 if smooth is None else float(smooth.value(beta[under][:, None])[0])
        return prior.separable(names).value(beta[under]) + joint
