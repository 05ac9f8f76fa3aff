"""The prior of reporting ratios in spontaneous reports, and its fit by maximum likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import digamma, expit, gammaln, logit
from scipy.stats import gamma

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.surveillance.group_sequential_bounds import check_ratio
from steropes.designs.values.argument_checks import check_real
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError

__all__ = ["GammaMixture", "fit_gamma_mixture"]

Truncation = Literal["parts", "mixture"]
# Starts of the maximisation; the likelihood has several maxima (DuMouchel 1999, openEBGM).
STARTS = (
    (0.2, 0.1, 2.0, 4.0, 1 / 3),
    (0.1, 0.1, 10.0, 10.0, 0.2),
    (0.5, 0.5, 5.0, 2.0, 0.5),
    (2.0, 1.0, 0.2, 0.1, 0.3),
)


@dataclass(frozen=True)
class GammaMixture(FieldsInHtml):
    """The prior of reporting ratios: a mixture of two gamma distributions.

    Attributes
    ----------
    shape1, rate1 : float
        Parameters α₁ and β₁ of the first gamma distribution, with mean α₁ / β₁.
    shape2, rate2 : float
        Those of the second one.
    share : float
        Probability of the first one.

    Raises
    ------
    DataError
        A parameter is not positive, or the share is no probability.

    References
    ----------
    DuMouchel (1999), The American Statistician 53:177–190.

    Examples
    --------
    >>> from steropes.designs.surveillance import GammaMixture
    >>> prior = GammaMixture(0.2, 0.1, 2, 4, 1 / 3)
    >>> round(float(prior.geometric_mean([6], [0.18])[0]), 4)
    20.3818
    """

    shape1: float
    rate1: float
    shape2: float
    rate2: float
    share: float

    def __post_init__(self) -> None:
        for name in ("shape1", "rate1", "shape2", "rate2"):
            check_ratio(name, getattr(self, name))
        check_real("share", self.share, lambda x: 0 < x < 1, "between 0 and 1")

    def first_share(self, observed: ArrayLike, expected: ArrayLike) -> NDArray:
        """Compute the posterior probabilities of the first distribution.

        Parameters
        ----------
        observed, expected : array_like, shape (n,)
            Numbers of reports.

        Returns
        -------
        ndarray, shape (n,)
            Probabilities.
        """
        n, e = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
        first = np.log(self.share) + _log_negative_binomial(n, e, self.shape1, self.rate1)
        second = np.log1p(-self.share) + _log_negative_binomial(n, e, self.shape2, self.rate2)
        return np.asarray(expit(first - second))

    def geometric_mean(self, observed: ArrayLike, expected: ArrayLike) -> NDArray:
        """Compute the posterior geometric means of the reporting ratios (EBGM).

        Parameters
        ----------
        observed, expected : array_like, shape (n,)
            Numbers of reports.

        Returns
        -------
        ndarray, shape (n,)
            Geometric means.
        """
        n, e = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
        q = self.first_share(n, e)
        logs = [
            digamma(shape + n) - np.log(rate + e)
            for shape, rate in ((self.shape1, self.rate1), (self.shape2, self.rate2))
        ]
        return np.asarray(np.exp(q * logs[0] + (1 - q) * logs[1]))

    def quantile(self, p: float, observed: ArrayLike, expected: ArrayLike) -> NDArray:
        """Compute posterior quantiles of the reporting ratios, such as EB05.

        Parameters
        ----------
        p : float
            Probability.
        observed, expected : array_like, shape (n,)
            Numbers of reports.

        Returns
        -------
        ndarray, shape (n,)
            Quantiles.
        """
        n, e = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
        q = self.first_share(n, e)
        parts = [
            (shape + n, 1 / (rate + e))
            for shape, rate in ((self.shape1, self.rate1), (self.shape2, self.rate2))
        ]
        ends = np.array([gamma.ppf(p, a, scale=s) for a, s in parts])
        low, high = ends.min(axis=0), ends.max(axis=0)
        # The distribution function of the mixture lies between those of its parts.
        for _ in range(200):
            middle = (low + high) / 2
            below = q * gamma.cdf(middle, parts[0][0], scale=parts[0][1])
            below += (1 - q) * gamma.cdf(middle, parts[1][0], scale=parts[1][1])
            low, high = np.where(below < p, middle, low), np.where(below < p, high, middle)
        return np.asarray((low + high) / 2)


def _log_negative_binomial(n: NDArray, e: NDArray, shape: float, rate: float) -> NDArray:
    """Compute the log-probability of counts with a gamma-distributed ratio."""
    return np.asarray(
        gammaln(shape + n) - gammaln(shape) - gammaln(n + 1)
        + shape * np.log(rate / (rate + e)) + n * np.log(e / (rate + e))
    )  # fmt: skip


def fit_gamma_mixture(
    observed: ArrayLike,
    expected: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    truncation: Truncation = "parts",
) -> GammaMixture:
    """Fit the prior of reporting ratios to all pairs by maximum likelihood.

    Parameters
    ----------
    observed : array_like of int, shape (n,)
        Reports of each pair of a drug and an event. Pairs with zero reports may be left out; then
        the likelihood is that of positive counts.
    expected : array_like, shape (n,)
        Reports expected without an association.
    weight : array_like, shape (n,), optional
        Number of pairs that a row stands for.
    truncation : {"parts", "mixture"}, default "parts"
        The likelihood of positive counts, if no count is zero: a mixture of two distributions that
        are each truncated, as published and as in R's openEBGM, or a truncated mixture.

    Returns
    -------
    GammaMixture
        The best of several maxima; the first distribution has the larger mean.

    Raises
    ------
    DataError
        A number is missing, negative, or zero where it must be positive, or there are fewer than
        20 pairs, or no start leads to a maximum.

    Notes
    -----
    All pairs are used: grouping pairs with few reports ("data squashing") is not needed for speed.

    A mixture of truncated distributions takes the share to be the same for all expected numbers,
    although pairs of the distribution with large ratios are reported more often. Without pairs of
    zero reports the truncated mixture is the likelihood of the model, but real pairs with small
    expected numbers follow the model badly, and dominate it: see :doc:`/surveillance`. Pairs with
    zero reports, given with weights, avoid the choice.

    References
    ----------
    DuMouchel (1999), The American Statistician 53:177–190. DuMouchel and Pregibon (2001), KDD '01,
    67–76 (truncation). Canida and Ihrie (2017), The R Journal 9(2):499–519 (openEBGM).

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs.surveillance import fit_gamma_mixture
    >>> rng = np.random.default_rng(0)
    >>> expected = rng.gamma(1, 2, 2000) + 0.1
    >>> ratio = np.where(rng.random(2000) < 0.1, rng.gamma(4, 1, 2000), rng.gamma(10, 0.1, 2000))
    >>> prior = fit_gamma_mixture(rng.poisson(ratio * expected), expected)
    >>> bool(prior.shape1 / prior.rate1 > 2)
    True
    """
    if truncation not in ("parts", "mixture"):
        raise DataError(f"truncation must be 'parts' or 'mixture', not {truncation!r}.")
    n, e = require_numbers("observed", observed), require_numbers("expected", expected)
    w = np.ones(len(n)) if weight is None else require_numbers("weight", weight)
    if not len(n) == len(e) == len(w):
        raise DataError("observed, expected and weight must have the same length.")
    if (n < 0).any() or (e <= 0).any() or (w < 0).any():
        raise DataError("observed and weight must not be negative, and expected must be positive.")
    if (n != np.round(n)).any() or not w.sum() > 0:
        raise DataError("observed must be whole numbers, and some weight must be positive.")
    if len(n) < 20:
        raise DataError(f"{len(n)} pairs are too few for a prior; 20 or more are needed.")
    loss = _MixtureLoss(n, e, w, None if (n == 0).any() else truncation)
    bounds = [(-12.0, 12.0)] * 5
    options = {"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-8}
    starts = [[*np.log(start[:4]), logit(start[4])] for start in STARTS]
    found = [
        minimize(loss, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        for start in starts
    ]
    best = min(found, key=lambda fit: float(fit.fun))
    if not np.isfinite(best.fun):
        raise DataError("The prior of reporting ratios has no maximum; are there enough pairs?")
    return _ordered_mixture(best.x)


class _MixtureLoss:
    """The mean negative log-likelihood of counts, with its derivatives.

    Free parameters are the logarithms of α₁, β₁, α₂ and β₂, and the logit of the share.
    """

    def __init__(self, n: NDArray, e: NDArray, w: NDArray, truncation: Truncation | None) -> None:
        self.expected, self.weight, self.truncation = e, w / w.sum(), truncation
        # Gamma functions of equal counts are computed once.
        self.counts, self.place = np.unique(n, return_inverse=True)
        self.none = np.zeros(1), np.zeros(len(n), dtype=int)

    def __call__(self, free: NDArray) -> tuple[float, NDArray]:
        value, slope = self._mixed(free, self.counts, self.place, self.truncation == "parts")
        if self.truncation == "mixture":
            zero, zero_slope = self._mixed(free, *self.none, False)
            value, slope = _given_positive(value, slope, zero, zero_slope)
        return -float(self.weight @ value), -(slope @ self.weight)

    def _mixed(
        self, free: NDArray, counts: NDArray, place: NDArray, positive: bool
    ) -> tuple[NDArray, NDArray]:
        """Return log-probabilities, (n,), and derivatives, (5, n), perhaps of truncated parts."""
        logs, slopes = [], []
        for sign, first in ((-1.0, 0), (1.0, 2)):
            shape, rate = np.exp(free[first : first + 2])
            value, slope = self._part(shape, rate, counts, place)
            if positive:
                value, slope = _given_positive(value, slope, *self._part(shape, rate, *self.none))
            logs.append(value - np.logaddexp(0, sign * free[4]))
            slopes.append(slope)
        total = np.logaddexp(*logs)
        q, share = np.exp(logs[0] - total), expit(free[4])
        last = q * (1 - share) - (1 - q) * share
        return total, np.vstack([q * slopes[0], (1 - q) * slopes[1], last[None]])

    def _part(
        self, shape: float, rate: float, counts: NDArray, place: NDArray
    ) -> tuple[NDArray, NDArray]:
        """Return log-probabilities of one distribution, and derivatives in log α and log β."""
        e, own = self.expected, counts[place]
        ratio = -np.log1p(e / rate)
        known = gammaln(shape + counts) - gammaln(shape) - gammaln(counts + 1)
        gain = digamma(shape + counts) - digamma(shape)
        value = known[place] + shape * ratio + own * np.log(e / (rate + e))
        slope = [shape * (gain[place] + ratio), shape - rate * (shape + own) / (rate + e)]
        return value, np.stack(slope)


def _given_positive(
    value: NDArray, slope: NDArray, zero: NDArray, zero_slope: NDArray
) -> tuple[NDArray, NDArray]:
    """Divide probabilities by that of a positive count, and differentiate the result."""
    zero = np.minimum(zero, -np.finfo(float).tiny)
    positive = -np.expm1(zero)
    return value - np.log(positive), slope + zero_slope * np.exp(zero) / positive


def _ordered_mixture(free: NDArray) -> GammaMixture:
    """Return the mixture of free parameters, with the larger mean first."""
    a1, b1, a2, b2 = (float(x) for x in np.exp(free[:4]))
    share = float(expit(free[4]))
    if a1 / b1 < a2 / b2:
        return GammaMixture(a2, b2, a1, b1, 1 - share)
    return GammaMixture(a1, b1, a2, b2, share)
