"""Fits of a case series with splines under its prior, several at once, and its variance.

The prior is separable: λ |β| + κ β² / 2 for each column. A proximal Newton step solves for the
coefficients that are not at zero; one that would change its sign stops at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import steropes
from steropes.designs.case_series.series_priors import WEAK
from steropes.designs.case_series.spline_series_likelihood import MonthlyLikelihood
from steropes.priors import Prior
from steropes.select.first_variance_from_gradients import first_variance, own_information
from steropes.select.fold_fits_along_path import SCORE_ROUNDING
from steropes.select.folds import TrainingRows, cut
from steropes.select.variance_search import VariancePath

__all__ = ["MonthlyFits", "MonthlyOptimum", "choose_variance", "is_determined", "violation"]

STEPS, HALVINGS = 60, 25
# A fit ends if no slope exceeds this share of the root of its information, plus a little.
TOLERANCE = 1e-9
LITTLE = 1e-2
SUFFICIENT = 1e-4  # The share of the expected decrease that a step must reach.
LONGEST = 10.0  # The largest change of a coefficient in one step.
FARTHEST = 60.0  # Coefficients beyond this value diverge.
# Slopes of diverging coefficients vanish, too, and such a fit would seem to have converged. Larger
# coefficients without a prior are left to the estimator, which detects separation.
LARGEST = 15.0


@dataclass(frozen=True, eq=False)
class MonthlyOptimum:
    """Optima under B settings.

    Attributes
    ----------
    beta, gradient : (p, B) arrays
        Coefficients, and the slopes of the log-likelihood.
    log_likelihood : (B,) array
    converged : (B,) bool array
    information : (B, p, p) array
        Negative Hessians near the optima; zeros if none was needed.
    """

    beta: NDArray
    log_likelihood: NDArray
    gradient: NDArray
    converged: NDArray
    information: NDArray


@dataclass(frozen=True, eq=False)
class MonthlyFits:
    """Fits of one likelihood."""

    likelihood: MonthlyLikelihood

    def solve(
        self,
        start: NDArray,
        weights: NDArray,
        l1: NDArray,
        l2: NDArray,
        held: NDArray,
        information: NDArray | None = None,
    ) -> MonthlyOptimum:
        """Maximise the penalised log-likelihood of each lane.

        Parameters
        ----------
        start : (p, B) array
            Initial coefficients; those of held columns remain.
        weights : (m, B) array
            Weights of the cases.
        l1, l2 : (p, B) arrays
            The λ and κ of each column.
        held : (p, B) bool array
            Columns that keep their coefficients.
        information : (B, p, p) array, optional
            Information near ``start``, such as that of a `MonthlyOptimum` from which the fits
            start; zeros where it is unknown.
        """
        beta, lanes = start.astype(float).copy(), start.shape[1]
        value, gradient = np.zeros(lanes), np.zeros_like(beta)
        converged, left = np.zeros(lanes, bool), np.arange(lanes)
        if information is None:
            information = np.zeros((lanes, len(beta), len(beta)))
        information = information.copy()
        unknown = np.asarray(~information.any((1, 2)))
        before = np.full(lanes, np.inf)
        for _ in range(STEPS):
            w, penalties = weights[:, left], (l1[:, left], l2[:, left])
            value[left], gradient[:, left], at = self.likelihood.slopes(beta[:, left], w)
            pull = _pull(beta[:, left], gradient[:, left], *penalties, held[:, left])
            error = _error(pull, information[left])
            # Known information is kept if a step as good as the last one reaches the tolerance.
            stale = np.flatnonzero(unknown[left] | (error**2 > TOLERANCE * before[left]))
            stale = stale[error[stale] > TOLERANCE]
            if len(stale):
                information[left[stale]] = self.likelihood.information(at, w, stale)
                error[stale] = _error(pull[:, stale], information[left[stale]])
            fresh = np.zeros(len(left), bool)
            fresh[stale] = True
            converged[left] = error <= TOLERANCE
            far = np.abs(beta[:, left]).max(0, initial=0.0) >= FARTHEST
            going = np.flatnonzero(~converged[left] & ~far & np.isfinite(value[left]))
            if not len(going):
                break
            left, fresh = left[going], fresh[going]
            beta[:, left], found = self._step(
                beta[:, left],
                value[left],
                pull[:, going],
                information[left],
                w[:, going],
                *(x[:, going] for x in penalties),
            )
            unknown[left], before[left] = ~found, error[going]
            left = left[found | ~fresh]  # Without a decrease a lane ends where it is.
            if not len(left):
                break
        return MonthlyOptimum(beta, value, gradient, converged, information)

    def _step(
        self,
        beta: NDArray,
        value: NDArray,
        pull: NDArray,
        information: NDArray,
        weights: NDArray,
        l1: NDArray,
        l2: NDArray,
    ) -> tuple[NDArray, NDArray]:
        """Take a step that decreases the penalised loss, and return whether one was found."""
        direction = _directions(beta, pull, information, l2)
        direction *= np.minimum(1.0, LONGEST / np.maximum(np.abs(direction).max(0), LONGEST))
        before = _penalty(beta, l1, l2) - value
        out, found = beta.copy(), np.zeros(beta.shape[1], bool)
        length = 1.0
        for _ in range(HALVINGS):
            open_ = np.flatnonzero(~found)
            b = beta[:, open_]
            tried = b + length * direction[:, open_]
            side = np.where(b != 0, np.sign(b), -np.sign(pull[:, open_]))
            tried = np.where((l1[:, open_] > 0) & (np.sign(tried) != side), 0.0, tried)
            with np.errstate(invalid="ignore"):  # A case without weight may have no likelihood.
                value_there = (weights[:, open_] * self.likelihood.log_likelihoods(tried)).sum(0)
            after = _penalty(tried, l1[:, open_], l2[:, open_]) - value_there
            expected = (pull[:, open_] * (tried - b)).sum(0)
            rounding = 1e-13 * np.abs(before[open_])
            good = after <= before[open_] + SUFFICIENT * expected + rounding
            out[:, open_[good]] = tried[:, good]
            found[open_[good]] = True
            if found.all():
                break
            length /= 2
        return out, found


def _error(pull: NDArray, information: NDArray) -> NDArray:
    """Return the largest slope of each lane in units of the root of its information."""
    diagonal = np.diagonal(information, axis1=1, axis2=2).T
    return (np.abs(pull) / (np.sqrt(np.maximum(diagonal, 0.0)) + LITTLE)).max(0, initial=0.0)


def _pull(beta: NDArray, gradient: NDArray, l1: NDArray, l2: NDArray, held: NDArray) -> NDArray:
    """Return the slopes of the penalised loss of smallest size, zero at the optimum."""
    slope = l2 * beta - gradient
    at_zero = np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0)
    return np.where(held, 0.0, np.where(beta != 0, slope + l1 * np.sign(beta), at_zero))


def _directions(beta: NDArray, pull: NDArray, information: NDArray, l2: NDArray) -> NDArray:
    """Return the Newton directions (p, B) of the coefficients that may move."""
    out = np.zeros_like(beta)
    left, moving = np.arange(beta.shape[1]), pull != 0
    while len(left):
        on, slope = moving[:, left].T, pull[:, left].T
        matrix = np.where(on[:, :, None] & on[:, None, :], information[left], 0.0)
        own = matrix.reshape(len(left), -1)[:, :: len(beta) + 1]  # A view of the diagonals.
        own[:] = np.where(on, (own + l2[:, left].T) * (1 + 1e-12) + 1e-12, 1.0)
        step = np.linalg.solve(matrix, np.where(on, -slope, 0.0)[:, :, None])[:, :, 0]
        wrong = (beta[:, left].T == 0) & (step * slope > 0)
        again = wrong.any(1)
        out[:, left[~again]] = step[~again].T
        moving[:, left] &= ~wrong.T
        left = left[again]
    return out


def is_determined(beta: NDArray, information: NDArray, squares: NDArray) -> bool:
    """Return whether the data determine unpenalised coefficients at an optimum.

    That is doubtful if a coefficient is large, or if half of the digits of the information are lost
    to collinear columns or to columns that hardly vary within cases.

    Parameters
    ----------
    beta : (k,) array
    information : (k, k) array
    squares : (k,) array
        The diagonal of the information before means are subtracted.
    """
    least = np.sqrt(np.finfo(float).eps)
    own = np.diag(information)
    if np.abs(beta).max(initial=0.0) > LARGEST or not (own > least * squares).all():
        return False
    scaled = information / np.sqrt(own) / np.sqrt(own)[:, None]
    return bool(np.linalg.eigvalsh(scaled).min(initial=1.0) > least)


def violation(
    beta: NDArray, gradient: NDArray, l1: NDArray, l2: NDArray, information: NDArray
) -> float:
    """Return the largest slope of the penalised loss, in units of λ or of the score's error.

    Parameters
    ----------
    beta, gradient, l1, l2 : (k,) arrays
        Coefficients, slopes of the log-likelihood, and the λ and κ of each column.
    information : (k, k) array
    """
    pull = _pull(beta, gradient, l1, l2, np.zeros(len(beta), bool))
    unit = np.where(l1 > 0, l1, np.sqrt(np.maximum(np.diag(information), 0.0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(pull == 0, 0.0, np.abs(pull) / unit).max(initial=0.0))


def _penalty(beta: NDArray, l1: NDArray, l2: NDArray) -> NDArray:
    """Compute the penalty of each lane."""
    return (l1 * np.abs(beta) + 0.5 * l2 * beta**2).sum(0)


def choose_variance(
    fits: MonthlyFits, prior: Any, names: list[str], absent: NDArray, cv: steropes.CrossValidation
) -> tuple[float, NDArray] | None:
    """Choose the variance of a prior by cross-validation over cases; None if a fit diverges.

    The coefficients under that variance are returned with it.

    An unpenalised column that the training cases of a fold do not determine, such as a window
    with a single event, has a weak normal prior in that fold.

    Parameters
    ----------
    prior : Laplace or Normal
    names : list of str
        All columns.
    absent : (p,) bool array
        Columns that are not in the model.
    """
    try:
        found = _MonthlyPath(fits, prior, names, absent, cv).search()
        return float(found.variance), found.beta
    except _FitError:
        return None


class _FitError(Exception):
    """A fit that did not converge, or coefficients that diverge."""


class _MonthlyPath(VariancePath):
    """Scores of variances; folds are replicates of one batch."""

    def __init__(
        self,
        fits: MonthlyFits,
        prior: Any,
        names: list[str],
        absent: NDArray,
        cv: steropes.CrossValidation,
    ) -> None:
        super().__init__(cv, prior, None)
        self.fits, self.names, self.absent = fits, names, absent
        cases = len(fits.likelihood.events)
        ones = np.ones(cases)
        fold, pairs = cut(cv, np.ones(cases, np.int8), None, ones)
        train = TrainingRows(ones, fold, pairs)(range(len(pairs)))
        self.held_out = train == 0
        self.weights = np.hstack([train, ones[:, None]])
        l1, l2 = self._penalties(1.0)
        self.penalised = (l1 > 0) | (l2 > 0)
        self.selects = bool(l1.any())
        self.nothing = SCORE_ROUNDING * cases
        self.weak = self._undetermined() / WEAK
        self.weak[self.penalised] = 0.0
        self.ends: dict[float, MonthlyOptimum] = {}

    def evaluate(self, variance: float) -> tuple[NDArray, int, NDArray]:
        """See `VariancePath.evaluate`."""
        near = min(self.ends, key=lambda v: abs(np.log(v / variance)), default=None)
        start = np.zeros_like(self.weak) if near is None else self.ends[near].beta
        information = None if near is None else self.ends[near].information
        self.ends[variance] = self._fit(start, *self._penalties(variance), self.absent, information)
        beta = self.ends[variance].beta
        by_case = self.fits.likelihood.log_likelihoods(beta[:, :-1])
        scores = np.where(self.held_out, by_case, 0.0).sum(0)
        return beta[:, -1], int(np.count_nonzero(beta[self.penalised, -1])), scores

    def first(self) -> float:
        """See `VariancePath.first`."""
        nothing = np.zeros(len(self.penalised))
        beta = self._fit(
            np.zeros_like(self.weak)[:, -1:], nothing, nothing, self.absent | self.penalised
        ).beta
        _, gradient, information = self.fits.likelihood.derivatives(beta, self.weights[:, -1:])
        free = np.flatnonzero(~self.penalised & ~self.absent)
        return first_variance(
            self.prior,
            self._separable,
            lambda _: -gradient[:, 0],
            lambda at: own_information(information[0], free, at),
        )

    def _fit(
        self,
        start: NDArray,
        l1: NDArray,
        l2: NDArray,
        held: NDArray,
        information: NDArray | None = None,
    ) -> MonthlyOptimum:
        """Fit all lanes, or the full data alone."""
        lanes = slice(-start.shape[1], None)

        def wide(x: NDArray) -> NDArray:
            return np.repeat(x[:, None], start.shape[1], axis=1)

        found = self.fits.solve(
            start,
            self.weights[:, lanes],
            wide(l1),
            wide(l2) + self.weak[:, lanes],
            wide(held),
            information,
        )
        free = np.abs(found.beta[~self.penalised])
        if not found.converged.all() or free.max(initial=0.0) > LARGEST:
            raise _FitError
        return found

    def _penalties(self, variance: float) -> tuple[NDArray, NDArray]:
        """Return λ and κ of each column at a variance."""
        return self._separable(self.prior.with_variance(variance))

    def _separable(self, prior: Prior) -> tuple[NDArray, NDArray]:
        """Return λ and κ of each column under a prior."""
        penalty = prior.separable(self.names)
        return penalty.l1, penalty.l2

    def _undetermined(self) -> NDArray:
        """Mark 0/1 columns without any event, or with all, in the training cases, (p, lanes)."""
        like = self.fits.likelihood
        days, inside = like.days()
        inside = np.hstack([inside, np.zeros((len(days), like.totals.shape[1] - inside.shape[1]))])
        varies = (inside > 0) & (inside < days[:, None])
        own = np.where(varies, like.totals, 0.0)
        others = np.where(varies, like.events[:, None], 0.0) - own
        return (own.T @ self.weights == 0) | (others.T @ self.weights == 0)
