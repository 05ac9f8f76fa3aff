"""Bounds of sequential tests of estimates with standard errors, such as log hazard ratios.

At look k with information I (the inverse of the squared standard error) the score S = I × estimate
has independent normal increments. A systematic error that is normal over analyses is the same at
all looks of one analysis; given S its distribution is normal, so that S remains a Markov chain and
one recursion over it suffices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, roots_legendre
from scipy.stats import norm

from steropes.designs.controls.empirical_calibration import SystematicError
from steropes.designs.surveillance.group_sequential_bounds import (
    check_alpha,
    check_spending,
    moments_of,
)
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError

__all__ = ["estimate_bound"]

# The recursion runs over scores within this many standard deviations.
REACH = 8.5
# Least number of quadrature nodes, and nodes per standard deviation of an increment.
NODES, NODES_PER_SD = 48, 3
# The largest z that is searched for a bound, and an error so small that no z has it.
HIGHEST, NOTHING = 30.0, 1e-15


def estimate_bound(
    information: ArrayLike,
    *,
    alpha: float = 0.05,
    spending: ArrayLike | None = None,
    systematic_error: SystematicError | None = None,
) -> pd.DataFrame:
    """Compute the bounds of a sequential test of an estimate at looks with any information.

    Parameters
    ----------
    information : array_like, shape (k,)
        Inverse squared standard error of the estimate at each look, increasing.
    alpha : float, default 0.05
        Probability of a signal at any look without an effect (one-sided).
    spending : array_like, shape (k,), optional
        Share of ``alpha`` that is spent up to each look, at most 1, such as the planned share of
        all information, or the number of the look divided by the planned one, to some power. The
        bound of a look depends only on looks before it, so that looks may be unplanned. Default:
        one flat bound for all looks, which must be those that are planned.
    systematic_error : SystematicError, optional
        Systematic error of negative controls, over which the null is averaged.

    Returns
    -------
    DataFrame
        A row per look: ``information``, ``z`` (the least estimate divided by its standard error
        that is a signal), ``statistic`` (the same as a log-likelihood ratio, z² / 2) and
        ``alpha`` (the probability of a signal without an effect up to this look). Looks with no
        error to spend have infinite bounds.

    Raises
    ------
    DataError
        Information is missing, not positive or does not increase; or a setting has no meaning.

    See Also
    --------
    poisson_bound, binomial_bound : Exact bounds from counts; better with fewer than ten events.

    References
    ----------
    Armitage, McPherson and Rowe (1969), Journal of the Royal Statistical Society A 132:235–244.
    Lan and DeMets (1983), Biometrika 70:659–663. Kim and DeMets (1987), Biometrika 74:149–154
    (α t^ρ).

    Examples
    --------
    >>> from steropes.designs.surveillance import estimate_bound
    >>> estimate_bound([10, 20, 30], alpha=0.025)["z"].round(4).tolist()
    [2.2895, 2.2895, 2.2895]
    >>> cubes = [1 / 27, 8 / 27, 1]
    >>> estimate_bound([10, 20, 30], alpha=0.025, spending=cubes)["z"].round(3).tolist()
    [3.113, 2.462, 2.009]
    """
    check_alpha(alpha)
    known = require_numbers("information", information)
    if not len(known) or known[0] <= 0 or (np.diff(known) <= 0).any():
        raise DataError(
            "information must be positive and increase from look to look; leave out looks without "
            "new information."
        )
    chain = _Chain(known, systematic_error)
    if spending is None:
        bounds = np.full(len(known), _flat_bound(chain, alpha))
    else:
        bounds = _spent_bounds(chain, alpha * check_spending(spending, len(known)))
    spent = np.cumsum(chain.signals(bounds))
    table = pd.DataFrame(
        {"information": known, "z": bounds, "statistic": bounds**2 / 2, "alpha": spent}
    )
    table.index = pd.RangeIndex(1, len(table) + 1, name="look")
    return table


def _flat_bound(chain: _Chain, alpha: float) -> float:
    """Return the z that all looks share."""

    def excess(z: float) -> float:
        return float(chain.signals(np.full(len(chain.information), z)).sum()) - alpha

    # Several looks have more signals than one.
    low = -HIGHEST if chain.shifted else norm.isf(alpha) - 1e-9
    return float(brentq(excess, low, _highest(chain), xtol=1e-11))


def _spent_bounds(chain: _Chain, limits: NDArray) -> NDArray:
    """Return the z of each look with which the error up to it is as planned; ∞ without any."""
    bounds = np.empty(len(limits))
    state, before = None, 0.0
    for k, limit in enumerate(limits):
        if limit - before <= NOTHING:  # None of the error is left for this look.
            bounds[k], state = np.inf, chain.quiet(k, state, HIGHEST)
            continue

        def excess(z: float, k: int = k, state: _State | None = state, own: float = before,
                   limit: float = limit) -> float:  # fmt: skip
            return own + chain.signal(k, state, z) - limit

        bounds[k] = brentq(excess, -HIGHEST, _highest(chain), xtol=1e-11)
        before += chain.signal(k, state, bounds[k])
        state = chain.quiet(k, state, bounds[k])
    return bounds


def _highest(chain: _Chain) -> float:
    """Return a z that practically no analysis exceeds."""
    mean, sd = chain.mean, chain.sd
    root = math.sqrt(float(chain.information[-1]))
    return HIGHEST * math.hypot(1.0, sd * root) + max(mean, 0.0) * root


@dataclass(frozen=True)
class _State:
    """The density of the score without a signal, at nodes with weights."""

    score: NDArray
    mass: NDArray  # density × weight


class _Chain:
    """The scores of an estimate at looks, without an effect."""

    def __init__(self, information: NDArray, error: SystematicError | None) -> None:
        self.information = information
        self.mean, self.sd = moments_of(error)
        self.shifted = error is not None

    def signals(self, bounds: NDArray) -> NDArray:
        """Compute the probability of the first signal at each look."""
        found, state = np.empty(len(bounds)), None
        for k, z in enumerate(np.minimum(bounds, _highest(self))):
            found[k] = self.signal(k, state, z)
            if k + 1 < len(bounds):
                state = self.quiet(k, state, z)
        return found

    def signal(self, k: int, state: _State | None, z: float) -> float:
        """Compute the probability that look k is the first with a signal."""
        mean, sd = self._next(k, state)
        above = ndtr((mean - z * math.sqrt(self.information[k])) / sd)
        return float(above if state is None else state.mass @ above)

    def quiet(self, k: int, state: _State | None, z: float) -> _State:
        """Compute the density of the score at look k without a signal so far."""
        mean, sd = self._next(k, state)
        now = self.information[k]
        center = now * self.mean
        spread = math.sqrt(now + (now * self.sd) ** 2)
        high = min(z * math.sqrt(now), center + REACH * spread)
        low = min(center, high) - REACH * spread
        number = int(max(NODES, NODES_PER_SD * (high - low) / float(np.max(sd))))
        x, w = roots_legendre(number)
        score = low + (high - low) * (x + 1) / 2
        if state is None:
            density = norm.pdf(score, mean, sd)
        else:
            density = norm.pdf((score[:, None] - mean) / sd) / sd @ state.mass
        return _State(score, density * w * (high - low) / 2)

    def _next(self, k: int, state: _State | None) -> tuple[NDArray, float]:
        """Return the mean and standard deviation of the score at look k, given the one before."""
        before = 0.0 if k == 0 else float(self.information[k - 1])
        new = float(self.information[k]) - before
        score = np.zeros(()) if state is None else state.score
        # The posterior mean and variance of the systematic error.
        variance = self.sd**2 / (1 + before * self.sd**2)
        drift = (self.mean + self.sd**2 * score) / (1 + before * self.sd**2)
        return score + new * drift, math.sqrt(new + new**2 * variance)
