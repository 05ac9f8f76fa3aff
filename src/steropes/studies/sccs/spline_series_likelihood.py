"""The likelihood of a case series with splines, without a row for each month of each case.

Season and calendar time have the same value in a month for everybody, and age for everybody who was
born on the same day; often only the year of birth is known. The unexposed whole months of a case
therefore need no rows: the sum of their rates is a difference of two cumulative sums over all
months of its day of birth. Only rows with a window, and parts of months, are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from steropes.studies.sccs.calendar_time_splines import first_day
from steropes.studies.sccs.intervals import Intervals

__all__ = ["Masses", "MonthlyLikelihood", "monthly_likelihood"]

MOST_COLUMNS = 60  # Beyond this number of columns the dense Hessians are too expensive.
# The share of the rows that must be whole months without a window, less the months that are stored
# for further days of birth.
LEAST_SAVED = 0.5


@dataclass(frozen=True, repr=False, eq=False)
class MonthlyLikelihood:
    """Σ y log[t exp(x'β) / Σ t exp(x'β)] of m cases in p columns, for B parameters at once.

    Attributes
    ----------
    rows : (e, p) array
        Covariates of the rows that are kept.
    days : (e,) array
        Their lengths.
    of_row : (m, e) sparse array
        The case of each row, as a one.
    first, last : (r,) int arrays
        First and last month of each run of whole months without a window.
    of_run : (m, r) sparse array
        The case of each run, as a one.
    months : (K, p) array
        Covariates of the months, of one day of birth after the other; zero for windows.
    length : (K,) array
        Days of the months; zero for months that no case has in whole.
    totals : (m, p) array
        Σ y x of each case.
    events : (m,) array
    constant : (m,) array
        Σ y log t of each case.
    births : int
        Number of days of birth, each of which has K / births months.
    """

    rows: NDArray
    days: NDArray
    of_row: sparse.csr_array
    first: NDArray
    last: NDArray
    of_run: sparse.csr_array
    months: NDArray
    length: NDArray
    totals: NDArray
    events: NDArray
    constant: NDArray
    births: int = 1

    def log_likelihoods(self, beta: NDArray) -> NDArray:
        """Return the log-likelihood of each case, (m, B), at parameters (p, B)."""
        return self._at(beta).log_likelihoods

    def slopes(self, beta: NDArray, weights: NDArray) -> tuple[NDArray, NDArray, Masses]:
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
        at : Masses
            Rates at these parameters, for `information`.
        """
        at = self._at(beta)
        row_weight, month_weight = self._weights(at, weights)
        gradient = self.totals.T @ weights - self.rows.T @ row_weight - self.months.T @ month_weight
        return (weights * at.log_likelihoods).sum(0), gradient, at

    def information(self, at: Masses, weights: NDArray, lanes: NDArray) -> NDArray:
        """Compute the negative Hessians of some of the parameters, (len(lanes), p, p)."""
        row_weight, month_weight = self._weights(at, weights)
        p = self.rows.shape[1]
        found = np.empty((len(lanes), p, p))
        for k, b in enumerate(lanes.tolist()):
            root = np.sqrt(weights[:, b] * self.events)[:, None] * self._means(at, b)
            found[k] = (
                (self.rows * row_weight[:, [b]]).T @ self.rows
                + (self.months * month_weight[:, [b]]).T @ self.months
                - root.T @ root
            )
        return found

    def derivatives(self, beta: NDArray, weights: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Compute weighted log-likelihoods (B,), gradients (p, B) and information (B, p, p)."""
        value, gradient, at = self.slopes(beta, weights)
        return value, gradient, self.information(at, weights, np.arange(beta.shape[1]))

    def _weights(self, at: Masses, weights: NDArray) -> tuple[NDArray, NDArray]:
        """Return the expected events of each row and of each month."""
        share = weights * self.events[:, None] / at.sums
        by_month = self._by_month(self.of_run.T @ share)
        return at.row_mass * (self.of_row.T @ share), at.month_mass * by_month

    def _at(self, beta: NDArray) -> Masses:
        """Compute the rates at some parameters."""
        eta, monthly = self.rows @ beta, self.months @ beta
        top = np.maximum(eta.max(0, initial=-np.inf), monthly.max(0, initial=-np.inf))
        top = np.where(np.isfinite(top), top, 0.0)
        row_mass = self.days[:, None] * np.exp(eta - top)
        month_mass = self.length[:, None] * np.exp(monthly - top)
        sums = self.of_row @ row_mass + self.of_run @ self._over_runs(month_mass)
        # A step may be so long that a sum vanishes; such points are not accepted.
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(sums) + top
            found = self.totals @ beta + self.constant[:, None] - self.events[:, None] * logs
        return Masses(row_mass, month_mass, sums, np.where(self.events[:, None] > 0, found, 0.0))

    def _means(self, at: Masses, b: int) -> NDArray:
        """Return the mean covariates of each case under the rates of one parameter, (m, p)."""
        run = self._over_runs(at.month_mass[:, [b]] * self.months)
        sums = self.of_row @ (at.row_mass[:, [b]] * self.rows) + self.of_run @ run
        return sums / at.sums[:, [b]]

    def _over_runs(self, by_month: NDArray) -> NDArray:
        """Sum values of months over each run."""
        size, width = len(by_month) // self.births, by_month.shape[1]
        before = np.zeros((self.births, size + 1, width))
        np.cumsum(by_month.reshape(self.births, size, width), axis=1, out=before[:, 1:])
        # Each day of birth has an entry before its first month.
        flat, shift = before.reshape(-1, width), self.first // size
        return flat[self.last + 1 + shift] - flat[self.first + shift]

    def _by_month(self, by_run: NDArray) -> NDArray:
        """Sum values of runs over each month within them; the transpose of `_over_runs`."""
        change = np.zeros((len(self.length) + 1, by_run.shape[1]))
        np.add.at(change, self.first, by_run)
        np.subtract.at(change, self.last + 1, by_run)
        return np.cumsum(change, axis=0)[:-1]


@dataclass(frozen=True, eq=False)
class Masses:
    """Rates of rows and months and their sums by case, up to a factor, and log-likelihoods."""

    row_mass: NDArray
    month_mass: NDArray
    sums: NDArray
    log_likelihoods: NDArray


def monthly_likelihood(part: Intervals) -> MonthlyLikelihood | None:
    """Return the likelihood of some rows; None if it would save little.

    Parameters
    ----------
    part : Intervals
        Rows in the order of their days within cases.
    """
    month, p = part.month, part.X.shape[1]
    columns = p + part.time.shape[1]
    if month is None or not part.time.shape[1] or columns > MOST_COLUMNS or not len(part):
        return None
    origin = int(month.min())
    whole = np.diff(first_day(np.arange(origin, int(month.max()) + 2)))
    born, group = np.zeros(1), np.zeros(len(part), np.int64)
    if part.birth is not None:
        born, group = np.unique(part.birth, return_inverse=True)
    k = (month - origin) + len(whole) * group
    added = len(whole) * (len(born) - 1)
    whole = np.tile(whole, len(born))
    bare = np.ones(len(part), bool)
    bare[part.X.indices] = False
    bare &= part.days == whole[k]
    if bare.sum() - added < LEAST_SAVED * len(part):
        return None
    _, case = np.unique(part.case, return_inverse=True)
    cases = int(case[-1]) + 1
    full, kept = np.flatnonzero(bare), np.flatnonzero(~bare)
    new = np.ones(len(full), bool)
    new[1:] = (np.diff(case[full]) != 0) | (np.diff(k[full]) != 1)
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], len(full)) - 1
    months = np.zeros((len(whole), columns))
    months[k[full], p:] = part.time[full]
    length = np.zeros(len(whole))
    length[k[full]] = part.days[full]
    by_rows = part.X.tocsr()
    events = part.events.astype(float)
    own = np.flatnonzero(part.events)
    seen = np.hstack([by_rows[own].toarray().astype(float), part.time[own]])
    totals = np.zeros((cases, columns))
    np.add.at(totals, case[own], seen * events[own, None])
    return MonthlyLikelihood(
        rows=np.hstack([by_rows[kept].toarray().astype(float), part.time[kept]]),
        days=part.days[kept],
        of_row=_incidence(case[kept], cases),
        first=k[full[begins]],
        last=k[full[ends]],
        of_run=_incidence(case[full[begins]], cases),
        months=months,
        length=length,
        totals=totals,
        events=np.bincount(case, events, minlength=cases),
        constant=np.bincount(case[own], events[own] * np.log(part.days[own]), minlength=cases),
        births=len(born),
    )


def _incidence(case: NDArray, cases: int) -> sparse.csr_array:
    """Return a matrix with a one for each item in the row of its case."""
    ones = np.ones(len(case))
    return sparse.csr_array((ones, (case, np.arange(len(case)))), (cases, len(case)))
