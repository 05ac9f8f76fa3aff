"""The likelihood of a case series with splines, without a row for each month of each case.

Season and calendar time have the same value in a month for everybody, and age for everybody who was
born on the same day; often only the year of birth is known. Consecutive whole months of a case with
the same windows therefore need no rows: the sum of their rates is the rate ratio of the windows
times a difference of two cumulative sums over all months of the day of birth. Other rows share
their values of the splines, too, and have few different sets of windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steropes.designs.case_series.calendar_time_splines import first_day
from steropes.designs.case_series.interval_rows import Intervals

__all__ = ["Expected", "Masses", "MonthlyLikelihood", "monthly_likelihood"]

MOST_COLUMNS = 60  # Beyond this number of columns the dense Hessians are too expensive.
# The share of the rows that must be whole months, less the months that are stored for further days
# of birth.
LEAST_SAVED = 0.5


@dataclass(frozen=True, repr=False, eq=False)
class MonthlyLikelihood:
    """Σ y log[t exp(x'β) / Σ t exp(x'β)] of m cases in p columns, for B parameters at once.

    The sum of a case's rates is a combination of few products, each of the rate ratio of a set of
    windows and a base. Bases are the rates of d values of the splines and then, for each day of
    birth, the cumulative sums of the rates of its whole months, beginning with 0. A row of the
    model has its days as the coefficient of one product, and a run of whole months with the same
    windows has the coefficients 1 and −1 of two.

    Attributes
    ----------
    terms : (m, s) sparse array
        Coefficients of the products.
    pattern, base : (s,) int arrays
        The set of windows and the base of each product.
    windows : (u, w) array
        The different sets of windows; their columns precede those of the splines.
    splines : (d + K, q) array
        Values of the splines in rows, and in the months of one day of birth after the other.
    length : (K,) array
        Days of the months; zero for months that no case has in whole.
    births : int
        Number of days of birth, each of which has K / births months.
    totals : (m, p) array
        Σ y x of each case.
    events : (m,) array
    constant : (m,) array
        Σ y log t of each case.
    """

    terms: sparse.csr_array
    pattern: NDArray
    base: NDArray
    windows: NDArray
    splines: NDArray
    length: NDArray
    births: int
    totals: NDArray
    events: NDArray
    constant: NDArray

    def log_likelihoods(self, beta: NDArray) -> NDArray:
        """Return the log-likelihood of each case, (m, B), at parameters (p, B)."""
        return self._at(beta).log_likelihoods

    def slopes(self, beta: NDArray, weights: NDArray) -> tuple[NDArray, NDArray, Expected]:
        """Compute weighted log-likelihoods with their gradients.

        Parameters
        ----------
        beta : (p, B) array
            Parameters.
        weights : (m, B) array
            Weights of the cases.

        Returns
        -------
        value : (B,) array
        gradient : (p, B) array
        at : Expected
            Expected events at these parameters, for `information`.
        """
        masses = self._at(beta)
        # A fit may start where a sum vanishes; its value is not finite then, and it ends there.
        with np.errstate(divide="ignore", invalid="ignore"):
            at = self._expected(masses, weights)
            slopes = np.vstack([self.windows.T @ at.by_pattern, self.splines.T @ at.by_value])
        gradient = self.totals.T @ weights - slopes
        return (weights * masses.log_likelihoods).sum(0), gradient, at

    def information(self, at: Expected, weights: NDArray, lanes: NDArray) -> NDArray:
        """Compute the negative Hessians (len(lanes), p, p) at the parameters of some replicates."""
        masses = at.masses
        p, w = self.totals.shape[1], self.windows.shape[1]
        inside = self.windows.take(self.pattern, 0)
        found = np.empty((len(lanes), p, p))
        both = np.empty((len(self.pattern), p))
        moments = both[:, w:]
        for k, b in enumerate(lanes.tolist()):
            bases = self._bases(masses.rate[:, [b]] * self.splines)
            ratio = masses.ratio[:, b].take(self.pattern)
            np.multiply(ratio[:, None], bases.take(self.base, 0), out=moments)
            np.multiply(masses.product[:, [b]], inside, out=both[:, :w])
            means = self.terms @ both
            means *= (np.sqrt(weights[:, b] * self.events) / masses.sums[:, b])[:, None]
            found[k] = -(means.T @ means)
            found[k, :w, :w] += (self.windows.T * at.by_pattern[:, b]) @ self.windows
            found[k, w:, w:] += (self.splines.T * at.by_value[:, b]) @ self.splines
            crossed = (inside.T * at.by_product[:, b]) @ moments
            found[k, :w, w:] += crossed
            found[k, w:, :w] += crossed.T
        return found

    def derivatives(self, beta: NDArray, weights: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Compute weighted log-likelihoods (B,), gradients (p, B) and information (B, p, p)."""
        value, gradient, at = self.slopes(beta, weights)
        return value, gradient, self.information(at, weights, np.arange(beta.shape[1]))

    def squares(self, at: Expected) -> NDArray:
        """Compute the diagonals of the Hessians before means are subtracted, (p, B)."""
        return np.vstack([self.windows.T**2 @ at.by_pattern, self.splines.T**2 @ at.by_value])

    def days(self) -> tuple[NDArray, NDArray]:
        """Return the days of each case, (m,), and those in each window, (m, w)."""
        at = self._at(np.zeros((self.totals.shape[1], 1)))
        inside = np.hstack([np.ones((len(self.windows), 1)), self.windows])[self.pattern]
        found = self.terms @ (at.product * inside)
        return found[:, 0], found[:, 1:]

    def _at(self, beta: NDArray) -> Masses:
        """Compute the rates at some parameters."""
        w = self.windows.shape[1]
        ratio, rate = self.windows @ beta[:w], self.splines @ beta[w:]
        tops = ratio.max(0), np.ascontiguousarray(rate.T).max(1)
        ratio, rate = np.exp(ratio - tops[0]), np.exp(rate - tops[1])
        product = ratio.take(self.pattern, 0) * self._bases(rate).take(self.base, 0)
        sums = self.terms @ product
        # A step may be so long that a sum vanishes; such points are not accepted.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums) + tops[0] + tops[1]
            found = self.totals @ beta + self.constant[:, None] - self.events[:, None] * logs
        return Masses(ratio, rate, product, sums, np.where(self.events[:, None] > 0, found, 0.0))

    def _expected(self, at: Masses, weights: NDArray) -> Expected:
        """Compute expected events."""
        by_case, by_pattern, by_base = self._transposes
        by_product = by_case @ (weights * self.events[:, None] / at.sums)
        bases = by_base @ (by_product * at.ratio.take(self.pattern, 0))
        d = len(self.splines) - len(self.length)
        # A month is part of all cumulative sums after it.
        sums = bases[d:].reshape(self.births, -1, bases.shape[1])
        after = sums[:, :0:-1].cumsum(1)[:, ::-1].reshape(len(self.length), -1)
        by_value = at.rate * np.vstack([bases[:d], self.length[:, None] * after])
        return Expected(at, by_product, by_pattern @ (by_product * at.product), by_value)

    @cached_property
    def _transposes(self) -> tuple[sparse.csc_array, sparse.csc_array, sparse.csc_array]:
        """Matrices that sum cases by product, and products by set of windows and by base."""
        patterns = len(self.windows)
        bases = len(self.splines) + self.births
        return self.terms.T, _groups(self.pattern, patterns), _groups(self.base, bases)

    def _bases(self, values: NDArray) -> NDArray:
        """Return values of rows, and cumulative sums of days times values of months."""
        d, width = len(values) - len(self.length), values.shape[1]
        size = len(self.length) // self.births
        found = np.zeros((d + self.births * (size + 1), width))
        found[:d] = values[:d]
        months = (self.length[:, None] * values[d:]).reshape(self.births, size, width)
        np.cumsum(months, axis=1, out=found[d:].reshape(self.births, size + 1, width)[:, 1:])
        return found


@dataclass(frozen=True, eq=False)
class Masses:
    """Rates at B parameters, up to a factor of each.

    Attributes
    ----------
    ratio : (u, B) array
        Rate ratios of the sets of windows.
    rate : (d + K, B) array
        Rates by the splines alone.
    product : (s, B) array
        The products of both.
    sums, log_likelihoods : (m, B) arrays
    """

    ratio: NDArray
    rate: NDArray
    product: NDArray
    sums: NDArray
    log_likelihoods: NDArray


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected events at B parameters.

    Attributes
    ----------
    by_product : (s, B) array
        Expected events divided by the value of each product.
    by_pattern : (u, B) array
        Expected events under each set of windows.
    by_value : (d + K, B) array
        Expected events under each row of ``splines``.
    """

    masses: Masses
    by_product: NDArray
    by_pattern: NDArray
    by_value: NDArray


def monthly_likelihood(part: Intervals) -> MonthlyLikelihood | None:
    """Return the likelihood of some rows; None if it would save little.

    Parameters
    ----------
    part : Intervals
        Rows in the order of their days within cases.
    """
    month, w = part.month, part.X.shape[1]
    columns = w + part.splines.shape[1]
    if month is None or columns == w or columns > MOST_COLUMNS or not len(part):
        return None
    origin = int(month.min())
    length = np.diff(first_day(np.arange(origin, int(month.max()) + 2)))
    starts = np.flatnonzero(np.diff(part.case, prepend=-1))
    cases = len(starts)
    case = np.repeat(np.arange(cases), np.diff(np.append(starts, len(part))))
    born, group = np.zeros(1), np.zeros(cases, np.int64)
    if part.birth is not None:
        born, group = np.unique(part.birth[starts], return_inverse=True)
    group = group[case]
    months = len(length)
    at = (month - origin) + months * group
    whole = part.days == length[month - origin]
    full, other = np.flatnonzero(whole), np.flatnonzero(~whole)
    if len(full) - months * (len(born) - 1) < LEAST_SAVED * len(part):
        return None
    windows, pattern = _patterns(part.X)
    # Values of the splines in other rows and in whole months.
    some = part.splines.take(other)
    _, one, value = np.unique(some.key(), return_index=True, return_inverse=True)
    splines = np.zeros((len(one) + months * len(born), columns - w))
    splines[: len(one)] = some.dense(one)
    example = np.full(months * len(born), -1)
    example[at[full]] = full
    used = example[example >= 0]
    splines[len(one) + at[used]] = part.splines.dense(used)
    days = np.zeros(months * len(born))
    days[at[used]] = part.days[used]
    first, last = _runs(full, case, at, pattern)
    shift = len(one) + group[first]  # Each day of birth has a sum before its first month.
    of = np.concatenate([other, first, first])
    bases = len(one) + (months + 1) * len(born)
    base = np.concatenate([value, at[last] + 1 + shift, at[first] + shift])
    product, place = np.unique(pattern[of] * bases + base, return_inverse=True)
    size = np.concatenate([part.days[other], np.ones(len(first)), -np.ones(len(first))])
    events = part.events.astype(float)
    own = np.flatnonzero(part.events)
    totals = np.zeros((cases, columns))
    seen = np.hstack([windows[pattern[own]], part.splines.dense(own)])
    np.add.at(totals, case[own], seen * events[own, None])
    return MonthlyLikelihood(
        terms=sparse.csr_array((size, (case[of], place)), (cases, len(product))),
        pattern=product // bases,
        base=product % bases,
        windows=windows,
        splines=splines,
        length=days,
        births=len(born),
        totals=totals,
        events=np.bincount(case, events, minlength=cases),
        constant=np.bincount(case[own], events[own] * np.log(part.days[own]), minlength=cases),
    )


def _runs(full: NDArray, case: NDArray, at: NDArray, pattern: NDArray) -> tuple[NDArray, NDArray]:
    """Return the first and last rows of runs of whole months with the same case and windows."""
    new = np.ones(len(full), bool)
    new[1:] = np.diff(case[full]) != 0
    new[1:] |= (np.diff(at[full]) != 1) | (np.diff(pattern[full]) != 0)
    begins = np.flatnonzero(new)
    return full[begins], full[np.append(begins[1:], len(full)) - 1]


def _patterns(X: sparse.csc_array) -> tuple[NDArray, NDArray]:
    """Return the different sets of windows, (u, w), and the set of each row, (n,)."""
    bits = np.zeros(X.shape[0], np.int64)  # There are fewer than 63 windows.
    for j in range(X.shape[1]):
        bits[X.indices[X.indptr[j] : X.indptr[j + 1]]] |= 1 << j
    inside = np.flatnonzero(bits)
    found = np.unique(bits[inside])
    if len(inside) < len(bits):
        found = np.append(0, found)
    windows = (found[:, None] >> np.arange(X.shape[1]) & 1).astype(float)
    pattern = np.zeros(len(bits), np.int64)
    pattern[inside] = np.searchsorted(found, bits[inside])
    return windows, pattern


def _groups(group: NDArray, groups: int) -> sparse.csc_array:
    """Return the matrix that sums values by group."""
    pointers = np.arange(len(group) + 1)
    return sparse.csc_array((np.ones(len(group)), group, pointers), (groups, len(group)))
