"""Bounds of sequential tests at every event (continuous MaxSPRT), by exact recursions.

The c-th event is a signal if it comes before a time r_c, at which the log-likelihood ratio of c
events equals the bound. So there is no signal as long as at most c − 1 events have happened by
r_c, for every c: a chain of Poisson increments between these times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import exp1, gammainc, lambertw, roots_legendre
from scipy.stats import gamma, poisson

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.surveillance.sequential_bounds import check_alpha, check_count
from steropes.errors import DataError

__all__ = ["ContinuousBound", "conditional_poisson_bound", "continuous_poisson_bound"]

# Nodes of the quadrature over historical person-time; 80 give ten digits with 5 to 200 events.
NODES = 80
# Probability of historical person-time outside the range of the quadrature, at either end.
TAIL = 1e-15
# The largest log-likelihood ratio among which bounds are searched: an error of about exp(−60).
HIGHEST = 60.0


@dataclass(frozen=True)
class ContinuousBound(FieldsInHtml):
    """The bound of a sequential test at every event.

    Attributes
    ----------
    bound : float
        A log-likelihood ratio of at least the bound is a signal.
    alpha : float
        Probability of a signal without an effect.
    planned : float
        Planned end: expected events without an effect, or events.
    min_events : int
        Least number of events for a signal.
    delay : float
        Expected events before the first test.

    See Also
    --------
    continuous_poisson_bound, conditional_poisson_bound : Compute it.

    Examples
    --------
    >>> from steropes.designs.surveillance import continuous_poisson_bound
    >>> round(continuous_poisson_bound(10, min_events=4).bound, 4)
    2.9216
    """

    bound: float
    alpha: float
    planned: float
    min_events: int
    delay: float = 0.0

    def power(self, ratio: float) -> dict[str, float]:
        """Compute the power at a ratio of rates, and the time until a signal.

        Parameters
        ----------
        ratio : float
            Ratio of rates of the alternative.

        Returns
        -------
        dict
            ``power``; ``size_at_signal``, the mean of the events that are expected without an
            effect at the time of a signal, if there is one; ``expected_size`` at the end.

        Raises
        ------
        DataError
            The ratio is not positive.
        """
        if not (np.isfinite(ratio) and ratio > 0):
            raise DataError(f"ratio must be positive, not {ratio!r}.")
        times, counts = _boundary(self.bound, self.planned, self.min_events, self.delay)
        quiet, mean = _no_signal(times[:, None], counts, ratio, self.delay)
        power = 1 - float(quiet[0])
        size = float(mean[0])
        at_signal = (size - self.planned * (1 - power)) / power
        return {"power": power, "size_at_signal": at_signal, "expected_size": size}


def continuous_poisson_bound(
    planned: float, *, alpha: float = 0.05, min_events: int = 1, delay: float = 0.0
) -> ContinuousBound:
    """Compute the bound of a sequential test of Poisson events at every event (MaxSPRT).

    Parameters
    ----------
    planned : float
        Events expected without an effect until the planned end of surveillance.
    alpha : float, default 0.05
        Probability of a signal without an effect (one-sided).
    min_events : int, default 1
        Least number of events for a signal.
    delay : float, default 0
        Expected events before the first test.

    Returns
    -------
    ContinuousBound
        The bound.

    Raises
    ------
    DataError
        A setting has no meaning.

    See Also
    --------
    poisson_bound : For looks in groups.

    References
    ----------
    Kulldorff and others (2011), Sequential Analysis 30:58–78.

    Examples
    --------
    >>> from steropes.designs.surveillance import continuous_poisson_bound
    >>> found = continuous_poisson_bound(10)
    >>> round(found.bound, 6)
    3.467952
    >>> round(found.power(2)["power"], 4)
    0.6851
    """
    check_alpha(alpha)
    check_count("min_events", min_events)
    if not (np.isfinite(planned) and planned > 0):
        raise DataError(f"planned must be a positive number of events, not {planned!r}.")
    if not 0 <= delay < planned:
        raise DataError(f"delay must be between 0 and planned={planned:g}, not {delay!r}.")

    def error(bound: float) -> float:
        times, counts = _boundary(bound, planned, min_events, delay)
        return 1 - float(_no_signal(times[:, None], counts, 1.0, delay)[0][0])

    bound = _root(error, alpha)
    return ContinuousBound(bound, error(bound), float(planned), int(min_events), float(delay))


def conditional_poisson_bound(
    events: int, historical_events: int, *, alpha: float = 0.05, min_events: int = 1
) -> ContinuousBound:
    """Compute the bound of a sequential test against a historical rate (CMaxSPRT).

    The expected number of events comes from few historical events, whose uncertainty the test
    includes: the statistic compares the rates of two Poisson processes.

    Parameters
    ----------
    events : int
        Number of events at which surveillance ends.
    historical_events : int
        Events in the historical data.
    alpha : float, default 0.05
        Probability of a signal without an effect (one-sided).
    min_events : int, default 1
        Least number of events for a signal.

    Returns
    -------
    ContinuousBound
        The bound. A signal is a log-likelihood ratio c ln(c(V + P)/(V(c + k))) + k ln(k(V + P)/
        (P(c + k))) of at least the bound, with c events in the historical person-time V, and k
        events in the person-time P of surveillance.

    Raises
    ------
    DataError
        A number is not a positive whole number.

    Notes
    -----
    R's Sequential 4.5.1 gives 3.14911 in the example: its last term has the distribution of a
    historical period that ends with its last event.

    References
    ----------
    Li and Kulldorff (2010), Statistics in Medicine 29:284–295. Silva, Li and Kulldorff (2019),
    Sequential Analysis 38:115–133 (exact, with a historical period that ends between two events).

    Examples
    --------
    >>> from steropes.designs.surveillance import conditional_poisson_bound
    >>> round(conditional_poisson_bound(20, 20, min_events=2).bound, 5)
    3.15134
    """
    check_alpha(alpha)
    check_count("min_events", min_events)
    check_count("events", events)
    check_count("historical_events", historical_events)
    if min_events > events:
        raise DataError(f"min_events={min_events} is more than events={events}.")
    counts = np.arange(min_events, int(events) + 1)
    x, weights = _historical_time(int(historical_events))

    def error(bound: float) -> float:
        ratios = np.array([_time_ratio(int(k), int(historical_events), bound) for k in counts])
        quiet, _ = _no_signal(ratios[:, None] * x, counts, 1.0)
        return float(weights @ (1 - quiet))

    bound = _root(error, alpha)
    return ContinuousBound(bound, error(bound), float(events), int(min_events))


def _historical_time(events: int) -> tuple[NDArray, NDArray]:
    """Return nodes and weights of person-time in which there are so many events, at a rate of one.

    The period ends at an arbitrary moment between two events (Silva, Li and Kulldorff 2019): it is
    the time of the last event, and a uniform share of an exponential time, with density E₁.
    """
    t, w = roots_legendre(NODES)
    low, high = gamma.ppf(TAIL, events), gamma.isf(TAIL, events + 1)
    x, step = low + (high - low) * (t + 1) / 2, w * (high - low) / 2
    # ∫ γ(x − y) E₁(y) dy with y = x s³, which has no singularity at s = 0.
    s, inner = (t + 1) / 2, w / 2
    y = x[:, None] * s**3
    values = gamma.pdf(x[:, None] - y, events) * exp1(y) * 3 * s**2 * x[:, None]
    density = values @ inner
    weights = density * step
    return x, weights / weights.sum()


def _root(error: Callable[[float], float], alpha: float) -> float:
    """Return the bound with an error of alpha."""
    if error(0.0) < alpha:
        raise DataError(
            "Even without a bound the probability of a signal is below alpha; plan more events, "
            "or lower alpha or min_events."
        )
    return float(brentq(lambda bound: error(bound) - alpha, 0.0, HIGHEST, xtol=1e-13))


def _boundary(bound: float, planned: float, least: int, delay: float) -> tuple[NDArray, NDArray]:
    """Return times r_c up to the planned end and the counts c that are a signal before them."""
    counts = [least]
    while _signal_time(counts[-1], bound) < planned:
        counts.append(counts[-1] + 1)
    times = [_signal_time(c, bound) for c in counts]
    # Nobody looks before the delay, and at the end the last count is still a signal.
    keep = np.array(times) > delay
    return np.minimum(times, planned)[keep], np.array(counts)[keep]


def _signal_time(count: int, bound: float) -> float:
    """Return the μ < c with μ − c + c ln(c/μ) equal to the bound."""
    # With μ = c u: u − 1 − ln u = bound / c, so u = −W₀(−exp(−1 − bound/c)).
    if bound <= 0:
        return float(count)
    return float(-count * lambertw(-np.exp(-1 - bound / count)).real)


def _time_ratio(count: int, historical: int, bound: float) -> float:
    """Return the P/V below k/c at which the log-likelihood ratio of two rates equals the bound."""
    k, c = count, historical

    def excess(log_ratio: float) -> float:
        p = np.exp(log_ratio)
        first = c * np.log(c * (1 + p) / (c + k))
        return float(first + k * (np.log(k * (1 + p) / (c + k)) - log_ratio) - bound)

    top = float(np.log(k / c))
    if bound <= 0:
        return k / c
    return float(np.exp(brentq(excess, top - (bound + k + c) / k - 10, top, xtol=1e-14)))


def _no_signal(
    times: NDArray, counts: NDArray, ratio: float, delay: float = 0.0
) -> tuple[NDArray, NDArray]:
    """Compute the probability of no signal, and the expected time at which the test ends.

    Parameters
    ----------
    times : ndarray, shape (k, nodes)
        Increasing times.
    counts : ndarray of int, shape (k,)
        Increasing counts; reaching one until its time is a signal.
    ratio : float
        Ratio of rates.
    delay : float, default 0
        Time of the first test.

    Returns
    -------
    quiet, mean : ndarray, shape (nodes,)
    """
    nodes = times.shape[1]
    mean = before = np.full(nodes, delay)
    state = np.ones((nodes, 1))
    if delay > 0:
        state = np.tile(poisson.pmf(np.arange(counts[0]), delay * ratio), (nodes, 1))
    for now, count in zip(times, counts, strict=True):
        rate = (now - before) * ratio
        size = int(count)
        new = poisson.pmf(np.arange(size), rate[:, None])
        # The expected time in this interval without a signal, from each number of events.
        arrived = gammainc(np.arange(1, size + 1), rate[:, None])
        stay = np.cumsum(arrived, axis=1) / ratio
        start = state.shape[1]
        mean = mean + (state * stay[:, size - 1 - np.arange(start)]).sum(axis=1)
        longer = np.zeros((nodes, size))
        for i in range(start):
            longer[:, i:] += state[:, i : i + 1] * new[:, : size - i]
        state, before = longer, now
    return state.sum(axis=1), mean
