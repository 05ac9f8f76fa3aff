"""Bounds of sequential tests at looks in groups: flat bounds, and errors spent look by look.

The probability of a signal is computed exactly, by a recursion over the number of events at each
look, and averaged over systematic error by quadrature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import roots_legendre

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.controls.empirical_calibration import SystematicError
from steropes.designs.surveillance.accruing_counts import BinomialLooks, Looks, PoissonLooks
from steropes.designs.surveillance.no_signal_probabilities import CountsWithoutSignal
from steropes.designs.values.argument_checks import check_real, check_whole
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError

__all__ = [
    "SequentialBound", "binomial_bound", "check_alpha", "check_count", "check_events",
    "check_ratio", "check_spending", "error_nodes", "moments_of", "poisson_bound",
]  # fmt: skip

# The quadrature over systematic error: its range in standard deviations, beyond which are 1e-13 of
# the errors, and its nodes. The probability of a signal changes over 1/√events, so that more nodes
# are needed with many events; 20 nodes for each such width give seven digits or more.
REACH, NODES, NODES_PER_WIDTH = 7.5, 60, 20
# Statistics that differ by less are equal: rounding errors of logarithms.
EQUAL = 1e-9


@dataclass(frozen=True, repr=False)
class SequentialBound(FieldsInHtml):
    """The bound of a sequential test.

    Attributes
    ----------
    bound : float
        A log-likelihood ratio above it is a signal; nan if an error is spent look by look.
    alpha : float
        Probability of a signal at any look without an effect, at most the one that was asked for.
    table : DataFrame
        A row per look: ``size`` (cumulative expected events, or events), ``events`` (the least
        cumulative number of events that is a signal; nan where none is), and ``alpha``
        (probability of a signal without an effect up to this look).
    min_events : int
        Least number of events for a signal.

    See Also
    --------
    poisson_bound, binomial_bound : Compute it.

    Examples
    --------
    >>> from steropes.designs.surveillance import poisson_bound
    >>> found = poisson_bound([5, 6, 6, 5, 8])
    >>> round(found.bound, 4), round(found.alpha, 4)
    (2.1318, 0.0462)
    """

    bound: float
    alpha: float
    table: pd.DataFrame
    min_events: int
    _looks: Looks = field(repr=False)
    _nodes: tuple[NDArray, NDArray] = field(repr=False)

    def __repr__(self) -> str:
        """Describe the bound in one line."""
        flat = f"bound={self.bound:.6g}" if np.isfinite(self.bound) else "alpha spent by look"
        return f"{type(self).__name__}({flat}, alpha={self.alpha:.4g}, looks={len(self.table)})"

    def power(self, ratio: float) -> pd.Series:
        """Compute the power at a ratio of rates, and the time until a signal.

        Parameters
        ----------
        ratio : float
            Ratio of rates of the alternative; for binomial events of odds.

        Returns
        -------
        Series
            ``power``; ``size_at_signal``, the expected size (cumulative expected events, or
            events) at the signal, if there is one; ``expected_size`` at the end of the test.

        Raises
        ------
        DataError
            The ratio is not positive.
        """
        log_ratio = np.log(check_ratio("ratio", ratio))
        tilt, weights = self._nodes
        thresholds = self.table["events"].to_numpy()
        signal = _signals(self._looks, thresholds, tilt + log_ratio, weights)
        sizes, power = self.table["size"].to_numpy(), float(signal.sum())
        mean = float(sizes @ signal)
        return pd.Series(
            {
                "power": power,
                "size_at_signal": mean / power if power > 0 else np.nan,
                "expected_size": mean + (1 - power) * float(sizes[-1]),
            }
        )

    def monitor(self, events: ArrayLike) -> pd.DataFrame:
        """Compare observed events with the bound.

        Parameters
        ----------
        events : array_like, shape (k,)
            Cumulative numbers of events of interest at the first k looks.

        Returns
        -------
        DataFrame
            A row per look: ``size``, ``events``, ``statistic`` (log-likelihood ratio), ``bound``
            (least number of events for a signal) and ``signal``, true from the first signal on.

        Raises
        ------
        DataError
            There are more numbers than looks, or the numbers fall, are negative, not whole, or
            more than all events.
        """
        seen = check_events(events, len(self.table))
        own = self.table.iloc[: len(seen)]
        if isinstance(self._looks, BinomialLooks) and (seen > own["size"].to_numpy()).any():
            raise DataError("events: more events in time at risk than events in all.")
        statistic = [
            float(self._looks.statistic(np.array([c]), look)[0]) for look, c in enumerate(seen)
        ]
        signal = np.maximum.accumulate(seen >= own["events"].fillna(np.inf).to_numpy())
        return pd.DataFrame(
            {"size": own["size"], "events": seen.astype(int), "statistic": statistic,
             "bound": own["events"], "signal": signal}
        )  # fmt: skip


def poisson_bound(
    expected: ArrayLike,
    *,
    alpha: float = 0.05,
    min_events: int = 1,
    systematic_error: SystematicError | None = None,
    spending: ArrayLike | None = None,
) -> SequentialBound:
    """Compute the bound of a sequential test of Poisson events at planned looks (MaxSPRT).

    Parameters
    ----------
    expected : array_like, shape (k,)
        Events expected without an effect between one look and the next.
    alpha : float, default 0.05
        Probability of a signal at any look without an effect (one-sided).
    min_events : int, default 1
        Least number of events for a signal; 4 avoids signals from single early events.
    systematic_error : SystematicError, optional
        Systematic error of negative controls, over which the null is averaged.
    spending : array_like, shape (k,), optional
        Share of ``alpha`` that is spent up to each look, at most 1, such as the share of the
        planned events to the power of 0.5 (Sequential's default). The bound of a look depends
        only on looks before it, so that looks may be unplanned. Default: one flat bound for all
        looks, which must be those that are planned.

    Returns
    -------
    SequentialBound
        The bound, the exact probability of a false signal, and the events needed at each look.

    Raises
    ------
    DataError
        A number is missing or not positive, or no bound has so small an error.

    See Also
    --------
    continuous_poisson_bound : For a test at every event.
    binomial_bound : For self-controlled and matched designs.

    Notes
    -----
    A signal needs a statistic above the bound, as in R's EmpiricalCalibration. The bound of R's
    Sequential lies just above, and a statistic that equals it is a signal.

    References
    ----------
    Kulldorff and others (2011), Sequential Analysis 30:58–78. Schuemie and others (2023),
    Statistics in Medicine 42:619–631 (systematic error).

    Examples
    --------
    >>> from steropes.designs.controls import SystematicError
    >>> from steropes.designs.surveillance import poisson_bound
    >>> round(poisson_bound([1] * 10).bound, 4)
    2.5452
    >>> error = SystematicError(mean=0.2, sd=0.2, controls=50)
    >>> round(poisson_bound([1] * 10, systematic_error=error).bound, 4)
    4.9702
    """
    sizes = np.cumsum(_increments("expected", expected))
    looks = PoissonLooks(sizes)
    return _bound(looks, alpha, min_events, systematic_error, spending)


def binomial_bound(
    events: ArrayLike,
    control_ratio: float,
    *,
    alpha: float = 0.05,
    min_events: int = 1,
    systematic_error: SystematicError | None = None,
    spending: ArrayLike | None = None,
) -> SequentialBound:
    """Compute the bound of a sequential test of events in time at risk and in control time.

    Parameters
    ----------
    events : array_like of int, shape (k,)
        Events, at risk or not, between one look and the next.
    control_ratio : float
        Control time divided by time at risk, or controls per person: without an effect, an event
        falls into time at risk with probability 1 / (1 + ratio).
    alpha : float, default 0.05
        Probability of a signal at any look without an effect (one-sided).
    min_events : int, default 1
        Least number of events at risk for a signal.
    systematic_error : SystematicError, optional
        Systematic error of negative controls, over which the null is averaged.
    spending : array_like, shape (k,), optional
        Share of ``alpha`` that is spent up to each look; see `poisson_bound`.

    Returns
    -------
    SequentialBound
        The bound, the exact probability of a false signal, and the events at risk that are needed
        at each look.

    Raises
    ------
    DataError
        A number is missing, not positive or not whole, or no bound has so small an error.

    See Also
    --------
    poisson_bound : For events compared with an expected number.

    Notes
    -----
    EmpiricalCalibration recommends this bound also for Cox models, with the planned numbers of
    events and the ratio of comparator to target time.

    References
    ----------
    As of `poisson_bound`.

    Examples
    --------
    >>> from steropes.designs.surveillance import binomial_bound
    >>> round(binomial_bound([1] * 10, 4).bound, 4)
    3.065
    """
    new = _increments("events", events)
    if (new != np.round(new)).any():
        raise DataError("events must be whole numbers of events between looks.")
    looks = BinomialLooks(np.cumsum(new), 1 / (1 + check_ratio("control_ratio", control_ratio)))
    return _bound(looks, alpha, min_events, systematic_error, spending)


def check_alpha(alpha: float) -> None:
    """Refuse an error outside (0, 1)."""
    check_real("alpha", alpha, lambda x: 0 < x < 1, "between 0 and 1, such as 0.05")


def check_spending(spending: ArrayLike, looks: int) -> NDArray:
    """Return the shares of the error spent up to each look, and refuse others."""
    share = require_numbers("spending", spending)
    if len(share) != looks:
        raise DataError(f"spending has {len(share)} shares for {looks} looks; give one for each.")
    if share[0] < 0 or share[-1] > 1 + EQUAL or (np.diff(share) < 0).any():
        raise DataError("spending must have increasing shares of alpha between 0 and 1.")
    return share


def check_count(name: str, value: int) -> None:
    """Refuse numbers that are not whole and positive."""
    check_whole(name, value, 1)


def check_events(events: ArrayLike, most: int) -> NDArray:
    """Return cumulative numbers of events, and refuse numbers that cannot be."""
    seen = require_numbers("events", events)
    if len(seen) > most:
        raise DataError(f"events has {len(seen)} looks; the bound was computed for {most}.")
    if (seen < 0).any() or (seen != np.round(seen)).any() or (np.diff(seen) < 0).any():
        raise DataError("events must be cumulative, so whole numbers that never fall.")
    return seen


def _increments(name: str, values: ArrayLike) -> NDArray:
    """Return the increments between looks, and refuse values that are not positive."""
    new = require_numbers(name, values)
    if not len(new) or (new <= 0).any():
        raise DataError(f"{name} must be positive at every look; merge looks without any.")
    return new


def check_ratio(name: str, value: float) -> float:
    """Return a positive number, and refuse others."""
    return check_real(name, value, lambda x: bool(np.isfinite(x)) and x > 0, "positive")


def error_nodes(error: SystematicError | None, events: float) -> tuple[NDArray, NDArray]:
    """Return values of a systematic error and their probabilities, for a total number of events."""
    mean, sd = moments_of(error)
    if sd == 0:
        return np.array([mean]), np.ones(1)
    t, w = roots_legendre(NODES + int(NODES_PER_WIDTH * sd * np.sqrt(events)))
    x = REACH * t
    mass = w * np.exp(-(x**2) / 2)
    return mean + sd * x, mass / mass.sum()


def moments_of(error: SystematicError | None) -> tuple[float, float]:
    """Return the mean and standard deviation of a systematic error; zeros without one."""
    if error is None:
        return 0.0, 0.0
    if not isinstance(error, SystematicError):
        raise DataError(
            "systematic_error must be a SystematicError, such as of fit_systematic_error, not "
            f"{type(error).__name__}."
        )
    return error.mean, error.sd


def _bound(
    looks: Looks,
    alpha: float,
    min_events: int,
    error: SystematicError | None,
    spending: ArrayLike | None,
) -> SequentialBound:
    """Compute a flat bound, or the bounds that spend the error by look."""
    check_alpha(alpha)
    check_count("min_events", min_events)
    tilt, weights = error_nodes(error, float(looks.sizes[-1]))
    if spending is None:
        bound, thresholds = _flat(looks, alpha, min_events, tilt, weights)
    else:
        limits = alpha * check_spending(spending, len(looks.sizes))
        bound, thresholds = float("nan"), _spent(looks, limits, min_events, tilt, weights)
    spent = np.cumsum(_signals(looks, thresholds, tilt, weights))
    table = pd.DataFrame({"size": looks.sizes, "events": thresholds, "alpha": spent})
    table.index = pd.RangeIndex(1, len(table) + 1, name="look")
    return SequentialBound(bound, float(spent[-1]), table, int(min_events), looks, (tilt, weights))


def _flat(
    looks: Looks, alpha: float, least: int, tilt: NDArray, weights: NDArray
) -> tuple[float, NDArray]:
    """Return the least attainable bound with an error of at most alpha, by bisection."""
    counts = [
        np.arange(least, looks.most_events(k, float(tilt.max()), least) + 1.0)
        for k in range(len(looks.sizes))
    ]
    statistics = [looks.statistic(c, k) for k, c in enumerate(counts)]
    candidates = np.unique(np.concatenate([np.zeros(1), *statistics]))

    def thresholds(bound: float) -> NDArray:
        above = [s > bound + EQUAL for s in statistics]
        return np.array(
            [c[np.argmax(a)] if a.any() else np.nan for c, a in zip(counts, above, strict=True)]
        )

    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if _signals(looks, thresholds(candidates[middle]), tilt, weights).sum() <= alpha:
            high = middle
        else:
            low = middle + 1
    found = thresholds(candidates[high])
    if np.isnan(found).all():
        raise DataError(
            "No number of events at these looks has so small a probability of a false signal; "
            "plan more events, or raise alpha."
        )
    return float(candidates[high]), found


def _spent(looks: Looks, limits: NDArray, least: int, tilt: NDArray, weights: NDArray) -> NDArray:
    """Return the least events at each look with which the error stays within its limits."""
    thresholds, spent = np.full(len(limits), np.nan), 0.0
    counts = CountsWithoutSignal(looks, tilt, weights)
    for look, limit in enumerate(limits):
        before = counts.mass.sum()
        most = looks.most_events(look, float(tilt.max()), least)
        counts.advance(most + 1)
        # The error with 0, 1, … as the least number of events that is a signal.
        error = np.maximum(before - np.append(0.0, np.cumsum(counts.mass)), 0.0)
        fits = np.flatnonzero(spent + error[: most + 1] <= limit)
        first = max(int(fits[0]), least) if len(fits) else most + 1
        if first <= most:
            thresholds[look] = first
            spent += error[first]
            counts.stop_from(first)
    return thresholds


def _signals(looks: Looks, thresholds: Sequence[float] | NDArray, tilt: NDArray,
             weights: NDArray) -> NDArray:  # fmt: skip
    """Compute the probability of the first signal at each look, averaged over the nodes."""
    found = np.zeros(len(thresholds))
    counts = CountsWithoutSignal(looks, tilt, weights)
    for look, least in enumerate(thresholds):
        before = counts.mass.sum()
        none = np.isnan(least)
        counts.advance(looks.most_events(look, float(tilt.max())) + 1 if none else int(least))
        if not none:
            found[look] = max(float(before - counts.mass.sum()), 0.0)
    return found
