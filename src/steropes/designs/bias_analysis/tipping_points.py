"""How strong a bias would have to be to explain an estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from steropes.designs.bias_analysis.biases import Bias
from steropes.designs.bias_analysis.corrected_estimates import bias_analysis
from steropes.designs.bias_analysis.observed_ratios import AnyRatio, observed_ratio
from steropes.designs.effects.e_values import e_value, e_value_of_limit
from steropes.designs.effects.outcome_families import kind_of_ratio
from steropes.errors import DataError

__all__ = ["e_values", "tipping_point"]

# Points of the range between which a change of sign is searched.
POINTS = 101
# The ratios that have E-values here.
RATIOS = ("risk ratio", "odds ratio", "hazard ratio")


def tipping_point(
    estimate: AnyRatio | ArrayLike,
    bias: Callable[[float], Bias | Sequence[Bias]],
    between: tuple[float, float],
    *,
    reaches: Literal["limit", "estimate"] = "limit",
    null: float = 1.0,
    counts: ArrayLike | None = None,
    measure: str = "odds ratio",
    level: float = 0.95,
) -> float:
    """Find the size of a bias at which an estimate no longer shows an effect.

    Parameters
    ----------
    estimate : array_like, shape (2, 2), or an estimate
        As of `bias_analysis`.
    bias : callable
        Returns the bias, or biases, for a value of one parameter; all parameters are numbers.
    between : (float, float)
        Range of this parameter, from the weaker to the stronger bias.
    reaches : {"limit", "estimate"}, default "limit"
        Whether the limit that is nearer to no effect, or the estimate, reaches ``null``.
    null : float, default 1.0
        The ratio to reach.
    counts : array_like, shape (2, 2), optional
        As of `bias_analysis`.
    measure : {"odds ratio", "risk ratio"}, default "odds ratio"
        As of `bias_analysis`.
    level : float, default 0.95
        Coverage of the limits.

    Returns
    -------
    float
        The first value of the parameter, from the start of the range, at which it is reached; NaN
        if it is not reached within the range.

    Raises
    ------
    DataError
        An input cannot be used, or the bias has distributions.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import UnmeasuredConfounder, tipping_point
    >>> def frailty(risk_ratio):
    ...     return UnmeasuredConfounder(exposed=0.5, unexposed=0.2, risk_ratio=risk_ratio)
    >>> round(tipping_point((1.5, 1.2, 1.9), frailty, (1, 20)), 3)
    1.769
    """
    if reaches not in ("limit", "estimate"):
        raise DataError(f"reaches must be 'limit' or 'estimate', not {reaches!r}.")
    if not null > 0:
        raise DataError(f"null must be a positive ratio, not {null!r}.")
    if not callable(bias):
        raise DataError("bias must be a function that returns a bias for a value of a parameter.")
    given = np.asarray(between)
    ends = given.astype(float) if given.dtype.kind in "iuf" and given.shape == (2,) else [np.nan]
    if not np.isfinite(ends).all() or ends[0] == ends[1]:
        raise DataError(f"between must be two different numbers, not {between!r}.")
    low, high = map(float, ends)

    def corrected(value: float) -> pd.DataFrame:
        found = bias_analysis(estimate, bias(value), counts=counts, measure=measure, level=level)
        if "corrected" not in found.summary.index:
            raise DataError("A tipping point is of a bias whose parameters are numbers.")
        return found.summary

    start = corrected(low)
    column = "estimate"
    if reaches == "limit":
        column = "lower" if start.loc["observed", "estimate"] > null else "upper"

    def beyond(value: float) -> float:
        try:
            return math.log(float(corrected(value).loc["corrected", column]) / null)
        except DataError:  # The counts contradict this value.
            return math.nan

    points = np.linspace(low, high, POINTS)
    before = beyond(float(points[0]))
    for left, right in zip(points[:-1], points[1:], strict=True):
        if before == 0:
            return float(left)
        after = beyond(float(right))
        if before * after < 0:
            return float(brentq(beyond, left, right, xtol=1e-12))
        before = after
    return float(points[-1]) if before == 0 else math.nan


def e_values(
    estimate: AnyRatio,
    *,
    ratio: Literal["risk ratio", "odds ratio", "hazard ratio"] = "risk ratio",
    common: bool = False,
) -> pd.Series:
    """Compute the E-values of an estimate and of its limit nearer to no effect.

    A confounder explains the estimate only if its risk ratios with the exposure and with the
    outcome both reach the E-value.

    Parameters
    ----------
    estimate : Estimate, combined or calibrated effect, Series, or (ratio, lower, upper)
        As of `bias_analysis`.
    ratio : {"risk ratio", "odds ratio", "hazard ratio"}, default "risk ratio"
        The measure of the estimate.
    common : bool, default False
        Whether 15 % of the people or more had the outcome, so that odds ratios and hazard ratios
        are first converted to approximate risk ratios.

    Returns
    -------
    Series
        ``estimate`` and ``limit``; 1 if the interval contains no effect.

    Raises
    ------
    DataError
        There is no ratio, or it has no limits.

    References
    ----------
    VanderWeele and Ding (2017), Annals of Internal Medicine 167:268–274.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import e_values
    >>> e_values((3.9, 1.8, 8.7)).round(3).to_dict()
    {'estimate': 7.263, 'limit': 3.0}
    """
    kind = kind_of_ratio(ratio) if ratio in RATIOS else None
    if kind is None:
        raise DataError(f"ratio must be one of {', '.join(RATIOS)}, not {ratio!r}.")
    found: Any = observed_ratio(estimate)
    values = [
        e_value(found.log_ratio, kind, common),
        e_value_of_limit(found.lower, found.upper, kind, common),
    ]
    return pd.Series(values, ["estimate", "limit"])
