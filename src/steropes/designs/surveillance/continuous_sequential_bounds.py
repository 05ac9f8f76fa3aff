"""Bounds of sequential tests at every event (continuous MaxSPRT), by exact recursions.

The c-th event is a signal if it comes before a time r_c, at which the log-likelihood ratio of c
events equals the bound. So there is no signal as long as at most c − 1 events have happened by
r_c, for every c: a chain of Poisson increments between these times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import exp1, gammainc, lambertw, roots_legendre
from scipy.stats import gamma, norm

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.controls.empirical_calibration import SystematicError
from steropes.designs.surveillance.accruing_counts import PoissonLooks, farthest
from steropes.designs.surveillance.group_sequential_bounds import (
    check_alpha,
    check_count,
    check_ratio,
    error_nodes,
    moments_of,
)
from steropes.designs.surveillance.no_signal_probabilities import CountsWithoutSignal
from steropes.designs.values.argument_checks import check_real
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
    # The probability of no signal and the expected size at the end, at a ratio of rates.
    _course: Callable[[float], tuple[float, float]] = field(kw_only=True, repr=False, compare=False)

    def power(self, ratio: float) -> pd.Series:
        """Compute the power at a ratio of rates, and the time until a signal.

        Parameters
        ----------
        ratio : float
            Ratio of rates of the alternative.

        Returns
        -------
        Series
            ``power``; ``size_at_signal``, the mean size at a signal, if there is one;
            ``expected_size`` at the end. Sizes are numbers of events as in ``planned``: those
            expected without an effect, or those observed if historical events are compared.

        Raises
        ------
        DataError
            The ratio is not positive.
        """
        quiet, size = self._course(check_ratio("ratio", ratio))
        power = 1 - quiet
        at_signal = (size - self.planned * quiet) / power if power > 0 else np.nan
        return pd.Series({"power": power, "size_at_signal": at_signal, "expected_size": size})


def continuous_poisson_bound(
    planned: float,
    *,
    alpha: float = 0.05,
    min_events: int = 1,
    delay: float = 0.0,
    systematic_error: SystematicError | None = None,
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
    systematic_error : SystematicError, optional
        Systematic error of negative controls, over which the null is averaged.

    Returns
    -------
    ContinuousBound
        The bound.

    Raises
    ------
    DataError
        A setting has no meaning, or the systematic error is too large.

    See Also
    --------
    poisson_bound : For looks in groups.

    References
    ----------
    Kulldorff and others (2011), Sequential Analysis 30:58–78. Schuemie and others (2023),
    Statistics in Medicine 42:619–631 (systematic error).

    Examples
    --------
    >>> from steropes.designs.surveillance import continuous_poisson_bound
    >>> found = continuous_poisson_bound(10)
    >>> round(found.bound, 6)
    3.467952
    >>> round(float(found.power(2)["power"]), 4)
    0.6851
    """
    check_alpha(alpha)
    check_count("min_events", min_events)
    check_ratio("planned", planned)
    check_real("delay", delay, lambda x: 0 <= x < planned, f"between 0 and planned={planned:g}")

    nodes = error_nodes(systematic_error, planned)

    def course(bound: float) -> _Course:
        return _Course(*_boundary(bound, planned, min_events, delay), *nodes, delay)

    bound = _root(lambda bound: course(bound).error(), alpha)
    found = course(bound)
    return ContinuousBound(
        bound, found.error(), float(planned), int(min_events), float(delay), _course=found.end
    )


def conditional_poisson_bound(
    events: int,
    historical_events: int,
    *,
    alpha: float = 0.05,
    min_events: int = 1,
    systematic_error: SystematicError | None = None,
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
    systematic_error : SystematicError, optional
        Systematic error of negative controls, over which the null is averaged.

    Returns
    -------
    ContinuousBound
        The bound. A signal is a log-likelihood ratio c ln(c(V + P)/(V(c + k))) + k ln(k(V + P)/
        (P(c + k))) of at least the bound, with c events in the historical person-time V, and k
        events in the person-time P of surveillance.

    Raises
    ------
    DataError
        A number is not a positive whole number, or the systematic error is too large.

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
    x, weights = _historical_time(int(historical_events), systematic_error)

    def course(bound: float) -> _Course:
        ratios = [_time_ratio(int(k), int(historical_events), bound) for k in counts]
        return _Course(np.array(ratios), counts, np.log(x), weights)

    bound = _root(lambda bound: course(bound).error(), alpha)
    found = course(bound)
    return ContinuousBound(
        bound, found.error(), float(events), int(min_events), _course=found.end_in_events
    )


class _Course:
    """A test with its boundary, averaged over rates.

    Parameters
    ----------
    times : ndarray, shape (k,)
        Increasing times.
    counts : ndarray of int, shape (k,)
        Increasing counts; reaching one until its time is a signal.
    tilt, weights : ndarray, shape (nodes,)
        Logarithms of rates without an effect, and their probabilities.
    delay : float, default 0
        Time of the first test.
    """

    def __init__(
        self, times: NDArray, counts: NDArray, tilt: NDArray, weights: NDArray, delay: float = 0.0
    ) -> None:
        if delay > 0:  # At its end the first count is a signal already.
            times, counts = np.append(delay, times), np.append(counts[0], counts)
        self.looks, self.least = PoissonLooks(times), counts
        self.tilt, self.weights, self.delay = tilt, weights, delay

    def error(self) -> float:
        """Compute the probability of a signal without an effect."""
        return 1 - float(self._without_signal(1.0)[-1])

    def end(self, ratio: float) -> tuple[float, float]:
        """Compute the probability of no signal, and the expected time at the end."""
        counts = self._counts(ratio)
        time, before = 0.0, 0.0
        for least, now in zip(self.least, self.looks.sizes, strict=True):
            waiting = now <= self.delay
            time += now if waiting else _time_until(counts, int(least), now - before)
            counts.advance(int(least))
            before = now
        return float(counts.mass.sum()), time

    def end_in_events(self, ratio: float) -> tuple[float, float]:
        """Compute the probability of no signal, and the expected number of events at the end."""
        # A sequence with a signal at a number of events has it when the last of these happens.
        left = self._without_signal(ratio)
        at_count = -np.diff(left, prepend=1.0)
        return float(left[-1]), float(self.least @ at_count + self.least[-1] * left[-1])

    def _counts(self, ratio: float) -> CountsWithoutSignal:
        return CountsWithoutSignal(self.looks, self.tilt + np.log(ratio), self.weights)

    def _without_signal(self, ratio: float) -> NDArray:
        """Compute the probabilities of no signal up to each time."""
        counts, quiet = self._counts(ratio), np.empty(len(self.least))
        for k, least in enumerate(self.least):
            counts.advance(int(least))
            quiet[k] = counts.mass.sum()
        return quiet


def _time_until(counts: CountsWithoutSignal, least: int, length: float) -> float:
    """Compute the expected time without a signal in the interval after the last look."""
    rates = np.exp(counts.tilt)
    # A sequence with fewer events has practically no signal in the interval.
    new = float(rates.max()) * length
    far = int(new + farthest(new)) + 1
    first = min(max(least - far, 0), len(counts.mass))
    whole = length * float(counts.mass[:first].sum())
    near = np.arange(first, len(counts.mass))
    if not len(near):
        return whole
    own = np.ones((len(rates), 1))
    if counts.look >= 0:
        own = counts.looks.probability(counts.look, near, counts.tilt)
    arrived = gammainc(np.arange(1, least - first + 1), (rates * length)[:, None])
    stay = np.cumsum(arrived, axis=1) / rates[:, None]
    mean = counts.weights @ (own * stay[:, least - 1 - near])
    return whole + float(counts.chance[near] @ mean)


def _historical_time(events: int, error: SystematicError | None) -> tuple[NDArray, NDArray]:
    """Return nodes and weights of person-time until a number of events, at a rate of one.

    A systematic error multiplies the later rate, which is as if it multiplied this time.
    """
    t, w = roots_legendre(NODES)
    low, high = gamma.ppf(TAIL, events), gamma.isf(TAIL, events + 1)
    x, step = low + (high - low) * (t + 1) / 2, w * (high - low) / 2
    weights = _density(x, events) * step
    weights /= weights.sum()
    mean, sd = moments_of(error)
    if sd == 0:
        return x * np.exp(mean), weights
    tilt, mass = error_nodes(error, events)
    first, last = np.log(low) + tilt.min(), np.log(high) + tilt.max()
    t, w = roots_legendre(2 * NODES)
    z, step = first + (last - first) * (t + 1) / 2, w * (last - first) / 2
    # The density of the sum of two logarithms: sum over the nodes of the narrower one.
    if sd * np.sqrt(events) > 1:
        density = norm.pdf(z[:, None], np.log(x) + mean, sd) @ weights
    else:
        time = np.exp(z[:, None] - tilt)
        density = (_density(time, events) * time) @ mass
    return np.exp(z), density * step / (density * step).sum()


def _density(x: NDArray, events: int) -> NDArray:
    """Compute the density of person-time that ends at an arbitrary moment between two events.

    It is the time of the last event, and a uniform share of an exponential time, with density E₁
    (Silva, Li and Kulldorff 2019).
    """
    t, w = roots_legendre(NODES)
    # ∫ γ(x − y) E₁(y) dy with y = x s³, which has no singularity at s = 0.
    s, inner = (t + 1) / 2, w / 2
    y = x[..., None] * s**3
    values = gamma.pdf(x[..., None] - y, events) * exp1(y) * 3 * s**2 * x[..., None]
    return np.asarray(values @ inner)


def _root(error: Callable[[float], float], alpha: float) -> float:
    """Return the bound with an error of alpha."""
    if error(0.0) < alpha:
        raise DataError(
            "Even without a bound the probability of a signal is below alpha; plan more events, "
            "or lower alpha or min_events."
        )
    if error(HIGHEST) > alpha:
        raise DataError(
            f"With so large a systematic error the bound exceeds {HIGHEST:g}; test at looks in "
            "groups (poisson_bound), or improve the analysis of the controls."
        )
    return float(brentq(lambda bound: error(bound) - alpha, 0.0, HIGHEST, xtol=1e-13))


def _boundary(bound: float, planned: float, least: int, delay: float) -> tuple[NDArray, NDArray]:
    """Return times r_c up to the planned end and the counts c that are a signal before them."""
    counts = [least]
    while _signal_time(counts[-1], bound) < planned:
        counts.append(counts[-1] + 1)
    times = [_signal_time(c, bound) for c in counts]
    # No one looks before the delay, and at the end the last count is still a signal.
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
