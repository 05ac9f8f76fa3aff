"""Stability of the rate of events over calendar time."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import chi2

from steropes.designs.case_series.calendar_time_splines import TimeEffect, TimeEffects
from steropes.designs.case_series.interval_rows import Intervals
from steropes.designs.case_series.sccs_model import CaseSeriesModel

__all__ = ["fitted_effects", "time_stability"]

# The log rate ratio of a part of a spline without events, for rates by month.
NO_RATE = -1e5


def time_stability(monthly: pd.DataFrame, limit: float = 1.1) -> tuple[float, float]:
    """Compute the mean ratio of observed to expected events of a month, and test it.

    Each month's events are Poisson with a mean of x or 1/x times the expected number, with equal
    odds; x ≥ 1 is estimated by maximum likelihood, and p is that of the likelihood ratio against
    ``limit``.

    Parameters
    ----------
    monthly : DataFrame
        The result of `monthly_rates`.

    Returns
    -------
    (ratio, p) : floats
        NaN and 1 with fewer than two months; p is 1 if the ratio is below the limit.
    """
    if len(monthly) < 2:
        return math.nan, 1.0
    seen = monthly["observed"].to_numpy(float)
    mean = np.maximum(monthly["adjusted"].to_numpy(float), np.finfo(float).eps)

    constant = seen * np.log(mean) - gammaln(seen + 1)

    def losses(log_x: NDArray) -> NDArray:
        """Return minus the log-likelihood of each log ratio."""
        ratios = (x[:, None] for x in (log_x, -log_x))
        up, down = (constant + seen * x - mean * np.exp(x) for x in ratios)
        return -np.logaddexp(up, down).sum(1)

    def loss(log_x: float) -> float:
        """Return minus the log-likelihood of one log ratio."""
        return float(losses(np.array([log_x]))[0])

    grid = np.linspace(0, math.log(10), 231)
    values = losses(grid)
    at = int(np.nanargmin(values))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    best = float(found.x) if found.fun < values[at] else float(grid[at])
    edge = math.log(limit)
    if best <= edge:  # A ratio below the limit is compatible with it.
        return math.exp(best), 1.0
    return math.exp(best), float(chi2.sf(2 * (loss(edge) - loss(best)), 1))


def fitted_effects(
    intervals: Intervals, model: CaseSeriesModel, effects: TimeEffects | None
) -> list[tuple[TimeEffect, NDArray]]:
    """Return the splines with their coefficients; empty if a coefficient is unknown."""
    found = []
    at = intervals.X.shape[1]
    for effect in () if effects is None else effects.effects:
        names = intervals.names[at : at + len(effect.names)]
        at += len(effect.names)
        beta = model.estimates.loc[names, "log_rr"].to_numpy(float)
        found.append((effect, np.where(np.isneginf(beta), NO_RATE, beta)))
    return found if all(np.isfinite(beta).all() for _, beta in found) else []
