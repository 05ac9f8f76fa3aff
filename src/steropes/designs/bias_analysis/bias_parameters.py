"""Parameters of biases: numbers, or distributions that are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats.distributions import rv_frozen

from steropes.errors import DataError

__all__ = ["Parameter", "check_parameter", "draw_together", "is_fixed", "trapezoid"]

Parameter: TypeAlias = Any


def trapezoid(low: float, low_mode: float, high_mode: float, high: float) -> Any:
    """Return a trapezoidal distribution of a parameter of a bias.

    Values between the modes are equally likely. With ``low_mode`` equal to ``high_mode`` the
    distribution is triangular, and with the modes at both ends uniform. Other distributions are
    those of `scipy.stats`, such as ``scipy.stats.beta(90, 10)``.

    Parameters
    ----------
    low : float
        Smallest value.
    low_mode, high_mode : float
        Smallest and largest of the most likely values.
    high : float
        Largest value.

    Returns
    -------
    scipy.stats.rv_frozen
        The distribution.

    Raises
    ------
    DataError
        The numbers do not ascend.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import trapezoid
    >>> round(float(trapezoid(0.75, 0.85, 0.95, 1).mean()), 4)
    0.8857
    """
    numbers = (low, low_mode, high_mode, high)
    if not (np.isfinite(numbers).all() and low <= low_mode <= high_mode <= high and low < high):
        raise DataError(f"trapezoid needs four ascending numbers, not {numbers}.")
    width = high - low
    shape = (low_mode - low) / width, (high_mode - low) / width
    return scipy.stats.trapezoid(*shape, loc=low, scale=width)


def is_fixed(parameter: Parameter) -> bool:
    """Return whether a parameter is a number."""
    return isinstance(parameter, Real)


def check_parameter(name: str, parameter: Parameter, low: float, high: float) -> None:
    """Refuse a parameter that is neither a number nor a distribution within limits.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    parameter : float or scipy.stats.rv_frozen
    low, high : float
        The smallest and the largest value allowed.
    """
    if isinstance(parameter, rv_frozen):
        least, most = parameter.support()
    elif isinstance(parameter, Real) and not isinstance(parameter, bool):
        least = most = float(parameter)
    else:
        raise DataError(
            f"{name} must be a number or a distribution of scipy.stats, such as trapezoid(...), "
            f"not {parameter!r}."
        )
    if not (low <= least <= most <= high):
        raise DataError(f"{name} must lie between {low:g} and {high:g}; it can be {least:g} to "
                        f"{most:g}.")  # fmt: skip


def draw_together(
    parameters: Sequence[Parameter], correlation: float, draws: int, rng: np.random.Generator
) -> NDArray:
    """Draw parameters that are related by a normal copula, (parameters, draws).

    Parameters
    ----------
    parameters : sequence of float or scipy.stats.rv_frozen
    correlation : float
        Correlation of each two of the underlying normal variables.
    draws : int
    rng : Generator
    """
    shared, own = rng.standard_normal(draws), rng.standard_normal((len(parameters), draws))
    u = ndtr(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own)
    return np.array([
        np.full(draws, float(parameter)) if is_fixed(parameter) else parameter.ppf(row)
        for parameter, row in zip(parameters, u, strict=True)
    ])  # fmt: skip
