"""The Kaplan–Meier curve: weighted, with late entry, of the event or of the censoring.

Everything here is sorting and cumulative sums over people; it knows nothing of covariates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

from .arrays import numbers
from .checks import vector

__all__ = ["KaplanMeier", "kaplan_meier"]

Floats = NDArray[Any]


@dataclass(frozen=True)
class KaplanMeier:
    """A Kaplan–Meier curve: right-continuous, 1 before the first of its times.

    Attributes
    ----------
    times : ndarray, shape (m,)
        The distinct times at which somebody had the event or left, ascending.
    survival : ndarray, shape (m,)
        S(t), the probability of having no event up to and including t.
    variance : ndarray, shape (m,)
        Greenwood's variance of S(t).
    at_risk : ndarray, shape (m,)
        Sum of weights at risk just before t, that is with entry < t <= time.
    events : ndarray, shape (m,)
        Sum of weights that have the event at t.
    log_variance : ndarray, shape (m,)
        Greenwood's sum, the variance of log S(t): sum over events of d / (n (n - d)).
    """

    times: Floats
    survival: Floats
    variance: Floats
    at_risk: Floats
    events: Floats
    log_variance: Floats

    def at(self, times: ArrayLike, *, left: bool = False) -> Floats:
        """S at the given times; with ``left`` the limit S(t−), as inverse weights need it."""
        i = np.searchsorted(self.times, np.asarray(times), side="left" if left else "right")
        return np.concatenate(([1.0], self.survival))[i]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Pointwise confidence limits of S at ``self.times`` on the log(−log) scale.

        Returns
        -------
        lower, upper : ndarray, shape (m,)
            Where S is 1 or 0 the scale has no width and both limits equal S.
        """
        from scipy.special import ndtri

        z = float(ndtri(0.5 + level / 2))
        s = self.survival
        inside = (s > 0) & (s < 1)
        log_s = np.log(s, where=inside, out=np.full_like(s, -1.0))
        width = np.where(inside, z * np.sqrt(np.where(inside, self.log_variance, 0.0)) / log_s, 0)
        lower = np.where(inside, np.exp(log_s * np.exp(-width)), s)
        upper = np.where(inside, np.exp(log_s * np.exp(width)), s)
        return lower, upper


def kaplan_meier(
    time: ArrayLike,
    event: ArrayLike,
    entry: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    censoring: bool = False,
) -> KaplanMeier:
    """Estimate the survival curve S(t) = prod over event times s <= t of 1 − d(s) / n(s).

    Parameters
    ----------
    time : array_like, shape (n,)
        Time of the event or of leaving.
    event : array_like, shape (n,)
        0 for people who left without the event, anything else for the event.
    entry : array_like, shape (n,), optional
        Time from which a person is watched; at risk on (entry, time]. Default: from the start.
    weights : array_like, shape (n,), optional
        Weights >= 0, for example replicate counts. Default 1.
    censoring : bool, default False
        Estimate the distribution of the censoring time instead: those who left are its events.
        People with the event at a time are no longer at risk of leaving at that same time (the
        event comes first), the convention that makes S(t) G(t) the share still watched.

    Returns
    -------
    KaplanMeier

    Raises
    ------
    DataError
        Arrays of different lengths, none at all, missing times, entry >= time, weights < 0.

    References
    ----------
    Kaplan and Meier (1958), J Am Stat Assoc 53:457. Greenwood (1926).
    """
    time = np.asarray(numbers(time, "time"), dtype=float)
    failed = vector(event, None, "event").astype(bool)
    weight = np.ones_like(time)
    if weights is not None:
        weight = np.asarray(numbers(weights, "weights"), dtype=float)
    start = None if entry is None else np.asarray(numbers(entry, "entry"), dtype=float)
    _check(time, failed, start, weight)

    times, place = np.unique(time, return_inverse=True)
    enters = None if start is None else np.searchsorted(times, start, side="right")

    def count(weight: Floats) -> tuple[Floats, Floats, Floats]:
        """Events, departures and people at risk at each time."""
        m = len(times)
        d = np.bincount(place, weights=weight * failed, minlength=m)
        left = np.bincount(place, weights=weight * ~failed, minlength=m)
        n = _from_the_end(d + left)
        if enters is not None:  # not yet at risk: those who come in at t or later
            n = n - _from_the_end(np.bincount(enters, weights=weight, minlength=m + 1))[1:]
        return (left, d, n - d) if censoring else (d, left, n)

    d, _, n = count(weight)
    # Sums of weights are rounded; whether everyone at risk had the event is a matter of counting.
    heads_d, _, heads_n = count((weight > 0).astype(float))
    dies = d > 0
    share = np.divide(d, n, out=np.zeros_like(d), where=dies)
    share[dies & (heads_d == heads_n)] = 1.0
    survival = np.cumprod(1 - share)
    with np.errstate(divide="ignore"):
        terms = np.divide(share, n * (1 - share), out=np.zeros_like(d), where=dies)
    log_variance = np.cumsum(terms)
    variance = np.where(survival > 0, survival**2 * np.where(survival > 0, log_variance, 0), 0.0)
    return KaplanMeier(times, survival, variance, n, d, log_variance)


def _from_the_end(x: Floats) -> Floats:
    """Sums over this place and all later ones."""
    return np.cumsum(x[::-1])[::-1]


def _check(time: Floats, failed: NDArray, start: Floats | None, weight: Floats) -> None:
    if time.ndim != 1 or len(time) == 0:
        raise DataError("kaplan_meier: time must be one-dimensional and hold at least one person")
    for name, values in (("event", failed), ("entry", start), ("weights", weight)):
        if values is not None and values.shape != time.shape:
            raise DataError(
                f"kaplan_meier: {name} has shape {values.shape}, time has {time.shape}; "
                "they must be one value a person"
            )
    checks = [("time", ~np.isfinite(time), "is missing or infinite")]
    checks.append(("weights", ~(weight >= 0) | ~np.isfinite(weight), "must be a number >= 0"))
    if start is not None:
        checks.append(("entry", ~(start < time), "must be smaller than time"))
    for name, bad, what in checks:
        if bad.any():
            raise DataError(f"kaplan_meier: {name} {what} in row {int(np.argmax(bad))}")
