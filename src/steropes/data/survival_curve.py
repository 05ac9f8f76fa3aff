"""A survival curve with its standard errors, intervals, quantiles and restricted means."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from steropes.errors import DataError

from .array_conversion import as_numbers
from .html_representations import facts_html
from .plottable_result_tables import ResultTable, drawn_by, present
from .survival_curve_quantiles import first_crossings
from .vector_checks import check_level, check_vector

__all__ = ["Floats", "KaplanMeier", "RestrictedMean"]

Floats = np.ndarray


class RestrictedMean(NamedTuple):
    """A restricted mean survival time with its standard error."""

    value: float
    se: float


@dataclass(frozen=True, repr=False)
class KaplanMeier:
    """A Kaplan–Meier curve, right-continuous and equal to 1 before the first of its times.

    Attributes
    ----------
    times : ndarray, shape (m,)
        The distinct times of events and censorings, ascending.
    survival : ndarray, shape (m,)
        S(t), the probability of having no event up to and including t.
    variance : ndarray, shape (m,)
        Greenwood's variance of S(t).
    at_risk : ndarray, shape (m,)
        Sum of the weights of people at risk just before t, with entry < t <= time.
    events : ndarray, shape (m,)
        Sum of the weights of people with the event at t.
    log_variance : ndarray, shape (m,)
        Greenwood's sum, the variance of log S(t): sum over events of d / (n (n - d)).

    See Also
    --------
    kaplan_meier : Estimate the curve from an outcome.
    steropes.plots.survival_curves : Draw it.

    Examples
    --------
    >>> import steropes
    >>> curve = steropes.kaplan_meier(steropes.Surv([1, 2, 3, 4], [1, 0, 1, 1]))
    >>> curve.times.tolist()
    [1.0, 2.0, 3.0, 4.0]
    >>> curve.survival.tolist()
    [0.75, 0.75, 0.375, 0.0]
    >>> curve.median(), curve.restricted_mean(2).value
    (3.0, 1.75)
    """

    times: Floats
    survival: Floats
    variance: Floats
    at_risk: Floats
    events: Floats
    log_variance: Floats

    def __repr__(self) -> str:
        """Show the number of events; times of single people stay out of logs."""
        return f"{type(self).__name__}({float(self.events.sum()):.6g} events)"

    def _repr_html_(self) -> str:
        """Show the totals as HTML, without times of single people."""
        weight = float(self.at_risk.max()) if len(self.at_risk) else 0.0
        facts = {"most at risk": f"{weight:.6g}", "events": f"{self.events.sum():.6g}"}
        return facts_html("Kaplan–Meier curve", facts)

    def at(self, times: ArrayLike, *, left: bool = False) -> Floats:
        """Evaluate S at the given times.

        Parameters
        ----------
        times : float or (T,) array
            Times in any order.
        left : bool
            Whether to return the left limit S(t−), which inverse weights need.

        Returns
        -------
        (T,) array
            NaN after the last time under observation, unless the curve is zero there.

        Raises
        ------
        DataError
            If a time is missing.

        Examples
        --------
        >>> import steropes
        >>> curve = steropes.kaplan_meier(steropes.Surv([1, 2, 3, 4], [1, 0, 1, 1]))
        >>> curve.at([0.5, 1.0]).tolist(), curve.at([0.5, 1.0], left=True).tolist()
        ([1.0, 0.75], [1.0, 1.0])
        """
        t = as_numbers(times, "times")
        if np.isnan(t).any():  # searchsorted would place them after all others
            raise DataError("times contains NaN, at which there is no curve.")
        i = np.searchsorted(self.times, t, side="left" if left else "right")
        known = (t <= self.times[-1]) | (self.survival[-1] == 0)
        return np.where(known, np.concatenate(([1.0], self.survival))[i], np.nan)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Compute pointwise confidence limits of S at ``times`` on the log(−log) scale.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        lower : (m,) array
            Lower limits; they equal S where S is 1 or 0.
        upper : (m,) array
            Upper limits.

        Raises
        ------
        DataError
            If ``level`` is not between 0 and 1.
        """
        from scipy.special import ndtri

        z = float(ndtri(0.5 + check_level(level) / 2))
        s = self.survival
        inside = (s > 0) & (s < 1)
        log_s = np.log(s, where=inside, out=np.full_like(s, -1.0))
        width = np.where(inside, z * np.sqrt(np.where(inside, self.log_variance, 0.0)) / log_s, 0)
        lower = np.where(inside, np.exp(log_s * np.exp(-width)), s)
        upper = np.where(inside, np.exp(log_s * np.exp(width)), s)
        return lower, upper

    def plot(self, *, level: float = 0.95, ax: Any = None, **options: Any) -> Any:
        """Draw the curve by `steropes.plots.survival_curves`.

        Parameters
        ----------
        level : float
            Confidence level of the band.
        ax : matplotlib Axes, optional
            Axes to draw on. Default: those of a new figure.
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.

        Examples
        --------
        >>> import steropes
        >>> curve = steropes.kaplan_meier(steropes.Surv([1, 2, 3, 4], [1, 0, 1, 1]))
        >>> curve.plot().get_ylabel()
        'Survival'
        """
        return drawn_by("survival_curves", self, level=level, ax=ax, **options)

    def table(self, times: ArrayLike | None = None, level: float = 0.95) -> ResultTable:
        """Tabulate the curve with people at risk, events, standard errors and limits.

        Parameters
        ----------
        times : (T,) array, optional
            Times in any order. Default the times of events.
        level : float
            Confidence level of the limits; see `interval`.

        Returns
        -------
        DataFrame
            Indexed by time, ascending; columns ``at_risk`` (just before the time), ``events``
            (since the previous time of the table, as in R's ``summary(survfit(…), times)``),
            ``survival``, ``se``, ``lower`` and ``upper``. The curve's columns are NaN after the
            last time under observation, unless the curve is zero there.

        Raises
        ------
        DataError
            If a time is missing or ``level`` is not between 0 and 1.

        Examples
        --------
        >>> import steropes
        >>> curve = steropes.kaplan_meier(steropes.Surv([1, 2, 3, 4], [1, 0, 1, 1]))
        >>> curve.table([2, 3])[["at_risk", "events", "survival"]].to_numpy().tolist()
        [[3.0, 1.0, 0.75], [2.0, 1.0, 0.375]]
        """
        t = self.times[self.events > 0] if times is None else check_vector(
            np.atleast_1d(times), None, "times"
        )  # fmt: skip
        t = np.unique(t)
        lower, upper = self.interval(level)
        after = np.searchsorted(self.times, t, side="right")
        before = np.searchsorted(self.times, t, side="left")
        known = (t <= self.times[-1]) | (self.survival[-1] == 0)
        curves = {
            "survival": (1.0, self.survival), "se": (0.0, np.sqrt(self.variance)),
            "lower": (1.0, lower), "upper": (1.0, upper),
        }  # fmt: skip
        table = {
            "at_risk": np.append(self.at_risk, 0.0)[before],
            "events": np.diff(np.append(0.0, np.cumsum(self.events))[after], prepend=0.0),
        }
        for name, (start, values) in curves.items():
            table[name] = np.where(known, np.append(start, values)[after], np.nan)
        return present(pd.DataFrame(table, pd.Index(t, name="time")), "survival_curves")

    def quantile(self, p: float = 0.5) -> float:
        """Return the time by which a share ``p`` has had the event.

        This is the first time with S(t) <= 1 − p. If the curve is horizontal at 1 − p, it is the
        middle of the horizontal segment, up to the next event or the last time under observation,
        as in R's ``quantile(survfit(…))``.

        Parameters
        ----------
        p : float
            Share between 0 and 1.

        Returns
        -------
        float
            NaN if the curve ends above 1 − p.

        Raises
        ------
        DataError
            If ``p`` is not between 0 and 1.
        """
        return self._crossing(self.survival, p)

    def quantile_interval(self, p: float = 0.5, level: float = 0.95) -> tuple[float, float]:
        """Compute confidence limits of a quantile: the times at which the limits reach 1 − p.

        Parameters
        ----------
        p : float
            Share between 0 and 1.
        level : float
            Confidence level.

        Returns
        -------
        lower : float
            Lower limit. If the curve's lower limits never reach 1 − p, it is the last time under
            observation.
        upper : float
            Upper limit. If the curve's upper limits never reach 1 − p (a curve at zero has none),
            it is infinite.

        Raises
        ------
        DataError
            If ``p`` or ``level`` is not between 0 and 1.

        References
        ----------
        Brookmeyer and Crowley (1982), Biometrics 38:29.
        """
        low, high = self.interval(level)
        lower = self._crossing(low, p)
        upper = self._crossing(np.where(self.survival > 0, high, np.inf), p)
        return (
            float(self.times[-1]) if np.isnan(lower) else lower,
            np.inf if np.isnan(upper) else upper,
        )

    def median(self) -> float:
        """Return the time by which one half has had the event.

        Returns
        -------
        float
            The `quantile` of 0.5; NaN if the curve ends above one half.
        """
        return self.quantile(0.5)

    def median_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Compute confidence limits of the median.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        lower : float
            Lower limit, as in `quantile_interval`.
        upper : float
            Upper limit.
        """
        return self.quantile_interval(0.5, level)

    def _crossing(self, curve: Floats, p: float) -> float:
        """Find the time at which a curve reaches 1 − p."""
        if not (isinstance(p, Real) and 0 < p < 1):
            raise DataError(f"p must be between 0 and 1, such as 0.5, not {p!r}.")
        return float(first_crossings(self.times, curve[None, :], 1.0 - p, self.times[-1])[0])

    def restricted_mean(self, t: float) -> RestrictedMean:
        """Compute the mean time lived up to t, the area under the curve from 0 to t.

        Parameters
        ----------
        t : float
            At most the last time under observation, unless the curve is zero there.

        Returns
        -------
        RestrictedMean
            Named tuple of ``value`` and ``se``, Greenwood's standard error (Klein and Moeschberger
            2003, eq. 4.5.2).

        Raises
        ------
        DataError
            If t is negative or beyond the curve, or some times are negative.

        Examples
        --------
        >>> import steropes
        >>> curve = steropes.kaplan_meier(steropes.Surv([1, 2, 3, 4], [1, 0, 1, 1]))
        >>> mean = curve.restricted_mean(4)
        >>> mean.value, round(mean.se, 3)
        (2.875, 0.603)
        """
        if len(self.times) and self.times[0] < 0:
            raise DataError("A restricted mean is from time 0 on, but there are times before it.")
        if not (isinstance(t, Real) and np.isfinite(t) and t >= 0):
            raise DataError(f"t must be a time from 0 on, not {t!r}.")
        t = float(t)
        if t > self.times[-1] and self.survival[-1] > 0:
            raise DataError(
                f"The curve ends at {self.times[-1]:g} with people still free of the event; a "
                f"mean up to {t:g} needs it. Choose an earlier time."
            )
        inside = self.times < t
        edges = np.concatenate([[0.0], self.times[inside], [t]])
        steps = np.concatenate([[1.0], self.survival[inside]])
        area = np.diff(edges) * steps
        after = np.append(np.cumsum(area[::-1])[::-1], 0.0)[1:]  # from each time to t
        terms = np.diff(self.log_variance[inside], prepend=0.0)
        terms = np.where(after[: len(terms)] > 0, terms, 0.0)
        return RestrictedMean(float(area.sum()), float(np.sqrt(terms @ after[: len(terms)] ** 2)))
