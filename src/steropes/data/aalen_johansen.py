"""The Aalen–Johansen estimate of the cumulative incidences of competing events.

All functions are based on sorting and cumulative sums over people, without covariates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from steropes.errors import DataError

from .aalen_johansen_variance import IncidenceSteps, incidence_variances
from .group_checks_and_counts import check_groups, count_people
from .html_representations import facts_html
from .input_types import LabelsLike, VectorLike
from .kaplan_meier import product_limit
from .plottable_result_tables import Curves, ResultTable, drawn_by, present
from .row_label_checks import refuse_other_order
from .survival_outcome import check_survival
from .vector_checks import check_level, check_vector, check_weights

__all__ = ["AalenJohansen", "aalen_johansen"]

Floats = np.ndarray


@dataclass(frozen=True, repr=False)
class AalenJohansen:
    """Cumulative incidences F_k(t), the probability of event k by t, right-continuous.

    Attributes
    ----------
    times : ndarray, shape (m,)
        The distinct times of events and censorings, ascending.
    causes : ndarray, shape (K,)
        Codes of the events, ascending.
    incidence : ndarray, shape (m, K)
        F_k at the times.
    survival : ndarray, shape (m,)
        S(t), the probability of no event of any cause.
    at_risk : ndarray, shape (m,)
        Sum of the weights of people at risk just before t.
    events : ndarray, shape (m, K)
        Sum of the weights of people with event k at t.
    variance : ndarray, shape (m, K)
        Variance of F_k at the times; see `standard_error`.

    See Also
    --------
    aalen_johansen : Estimate the curves from an outcome.
    steropes.plots.incidence_curves : Draw them.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4], [1, 2, 0, 1])
    >>> curves = steropes.aalen_johansen(y)
    >>> curves.times.tolist(), curves.causes.tolist()
    ([1.0, 2.0, 3.0, 4.0], [1, 2])
    >>> curves.incidence.tolist()
    [[0.25, 0.0], [0.25, 0.25], [0.25, 0.25], [0.75, 0.25]]
    """

    times: Floats
    causes: np.ndarray
    incidence: Floats
    survival: Floats
    at_risk: Floats
    events: Floats
    variance: Floats

    def __repr__(self) -> str:
        """Show the number of events of each cause; times of single people stay out of logs."""
        counts = zip(self.causes, self.events.sum(axis=0), strict=True)
        return f"AalenJohansen({', '.join(f'cause {k}: {n:.6g} events' for k, n in counts)})"

    def _repr_html_(self) -> str:
        """Show the totals as HTML, without times of single people."""
        totals = zip(self.causes, self.events.sum(axis=0), strict=True)
        facts = {f"events of cause {k}": f"{n:.6g}" for k, n in totals}
        return facts_html("Aalen–Johansen curves", facts)

    def plot(self, *, level: float = 0.95, ax: Any = None, **options: Any) -> Any:
        """Draw the incidence of all causes by `steropes.plots.incidence_curves`.

        Parameters
        ----------
        level : float
            Confidence level of the bands.
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
        >>> curves = steropes.aalen_johansen(steropes.Surv([1, 2, 3, 4], [1, 2, 0, 1]))
        >>> curves.plot().get_ylabel()
        'Cumulative incidence'
        """
        return drawn_by("incidence_curves", self, level=level, ax=ax, **options)

    def at(self, times: ArrayLike) -> pd.DataFrame:
        """Evaluate F at some times.

        Parameters
        ----------
        times : float or (T,) array
            Times in any order.

        Returns
        -------
        DataFrame, (T, K)
            Indexed by time, with a column for each cause. NaN after the last time under
            observation, unless the survival is zero then.

        Raises
        ------
        DataError
            If a time is missing.

        Examples
        --------
        >>> import steropes
        >>> y = steropes.Surv([1, 2, 3, 4], [1, 2, 0, 1])
        >>> steropes.aalen_johansen(y).at([0.5, 2]).to_numpy().tolist()
        [[0.0, 0.0], [0.25, 0.25]]
        """
        return self._table(times, self.incidence)

    def standard_error(self, times: ArrayLike) -> pd.DataFrame:
        """Compute standard errors of F at some times.

        The infinitesimal jackknife, as in R's ``survival::survfit``: the root of the sum of squared
        influences of people on F, with late entry too. A row whose weight is a whole number counts
        as that many people, each with an influence of its own. If any weight has a fraction, as
        inverse probabilities have, each row is one person, and its weight multiplies its influence.

        Parameters
        ----------
        times : float or (T,) array
            Times in any order.

        Returns
        -------
        DataFrame, (T, K)
            In the form of `at`.

        Raises
        ------
        DataError
            If a time is missing.
        """
        return self._table(times, np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Compute pointwise confidence limits of F at ``times`` on the log(−log) scale.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        lower : DataFrame, (m, K)
            Lower limits, indexed by time, with a column for each cause. They equal F where F is 0
            or 1.
        upper : DataFrame, (m, K)
            Upper limits.

        Raises
        ------
        DataError
            If ``level`` is not between 0 and 1.
        """
        F = self.incidence
        z = float(ndtri(0.5 + check_level(level) / 2))
        inside = (F > 0) & (F < 1)
        log_F = np.log(np.where(inside, F, 0.5))
        width = np.where(inside, z * np.sqrt(self.variance) / (np.where(inside, F, 1) * log_F), 0)
        limits = (np.where(inside, np.exp(log_F * np.exp(s * width)), F) for s in (-1, 1))
        lower, upper = (pd.DataFrame(x, self._index(self.times), self.causes) for x in limits)
        return lower, upper

    def table(self, times: ArrayLike | None = None, level: float = 0.95) -> ResultTable:
        """Tabulate the curves with people at risk, events, standard errors and limits.

        Parameters
        ----------
        times : (T,) array, optional
            Times in any order. Default the times of events of any cause.
        level : float
            Confidence level of the limits; see `interval`.

        Returns
        -------
        DataFrame
            A line for each cause and time, both ascending: ``cause``, ``time``, ``at_risk`` (just
            before the time), ``events`` (of the cause, since the previous time of the table),
            ``incidence``, ``se``, ``lower`` and ``upper``. The curve's columns are NaN after the
            last time under observation, unless the survival is zero then.

        Raises
        ------
        DataError
            If a time is missing or ``level`` is not between 0 and 1.

        Examples
        --------
        >>> import steropes
        >>> curves = steropes.aalen_johansen(steropes.Surv([1, 2, 3, 4], [1, 2, 0, 1]))
        >>> curves.table([2])[["cause", "at_risk", "events", "incidence"]].to_numpy().tolist()
        [[1.0, 3.0, 1.0, 0.25], [2.0, 3.0, 1.0, 0.25]]
        """
        t = self.times[self.events.any(axis=1)] if times is None else check_vector(
            np.atleast_1d(times), None, "times"
        )  # fmt: skip
        t = np.unique(t)
        lower, upper = (limit.to_numpy() for limit in self.interval(level))
        after = np.searchsorted(self.times, t, side="right")
        before = np.searchsorted(self.times, t, side="left")
        sums = np.concatenate([np.zeros((1, len(self.causes))), np.cumsum(self.events, axis=0)])
        curves = {
            "incidence": self.incidence, "se": np.sqrt(self.variance),
            "lower": lower, "upper": upper,
        }  # fmt: skip
        table = {
            "cause": np.repeat(self.causes, len(t)),
            "time": np.tile(t, len(self.causes)),
            "at_risk": np.tile(np.append(self.at_risk, 0.0)[before], len(self.causes)),
            "events": np.diff(sums[after], axis=0, prepend=0.0).T.ravel(),
        }
        table |= {name: self._table(t, x).to_numpy().T.ravel() for name, x in curves.items()}
        return present(pd.DataFrame(table), "incidence_curves")

    @staticmethod
    def _index(times: Floats) -> pd.Index:
        """Return times as an index with a name."""
        return pd.Index(times, name="time")

    def _table(self, times: ArrayLike, values: Floats) -> pd.DataFrame:
        """Evaluate step functions (m, K) at some times."""
        t = check_vector(times if np.ndim(times) else [times], None, "times")
        padded = np.concatenate([np.zeros((1, len(self.causes))), values])
        out = padded[np.searchsorted(self.times, t, side="right")]
        if self.survival[-1] > 0:
            out[t > self.times[-1]] = np.nan
        return pd.DataFrame(out, self._index(t), self.causes)


@overload
def aalen_johansen(
    y: ArrayLike, groups: None = None, sample_weight: VectorLike | None = None
) -> AalenJohansen: ...
@overload
def aalen_johansen(
    y: ArrayLike, groups: LabelsLike, sample_weight: VectorLike | None = None
) -> Curves[AalenJohansen]: ...
def aalen_johansen(
    y: ArrayLike, groups: LabelsLike | None = None, sample_weight: VectorLike | None = None
) -> AalenJohansen | Curves[AalenJohansen]:
    """Estimate the cumulative incidence of each competing event, overall or in every group.

    Parameters
    ----------
    y : structured array, (n,)
        ``Surv(time, event[, entry])`` with event 0 censored and 1, 2, … the causes.
    groups : (n,) labels, optional
        Any hashable labels.
    sample_weight : (n,) array, optional
        Number of people that a row represents, or its weight if it is not a whole number (see
        `AalenJohansen.standard_error`); rows with 0 are ignored.

    Returns
    -------
    AalenJohansen, or dict of them by label
        ``at(times)`` and ``standard_error(times)`` return tables with a column for each cause.
        All groups have the causes of all people. Groups without positive weights are omitted.

    Raises
    ------
    DataError
        If the input cannot be used, or has no events; the message names the row.

    References
    ----------
    Aalen and Johansen (1978), Scand J Stat 5:141–150. Therneau, Crowson and
    Atkinson (2024), vignette "Multi-state models and competing risks" of R's survival (variance).

    Examples
    --------
    >>> import steropes
    >>> curves = steropes.aalen_johansen(steropes.Surv([1, 2, 3, 4], [1, 2, 0, 1]))
    >>> curves.at([2, 4]).loc[4.0].tolist()
    [0.75, 0.25]
    """
    refuse_other_order(groups, "groups", sample_weight=sample_weight)
    n = count_people(y)
    time, event, entry = check_survival(y, n, competing=True)
    weight = check_weights(sample_weight, n)
    causes = np.unique(event[(event > 0) & (weight > 0)])
    if len(causes) == 0:
        raise DataError("y has no events; an incidence is of at least one.")

    def curves(at: NDArray) -> AalenJohansen:
        """Estimate the curves of some people."""
        at = at[weight[at] > 0]
        w, t, e = weight[at], time[at], event[at]
        whole = product_limit(t, e, None if entry is None else entry[at], weights=w)
        place = np.searchsorted(whole.times, t)
        m = len(whole.times)
        by_cause = [np.bincount(place, weights=w * (e == k), minlength=m) for k in causes]
        events = np.stack(by_cause, axis=1)
        before = np.append(1.0, whole.survival[:-1])
        share = np.divide(
            events, whole.at_risk[:, None], out=np.zeros_like(events), where=events > 0
        )
        incidence = np.cumsum(before[:, None] * share, axis=0)
        steps = IncidenceSteps(whole.times, whole.survival, whole.at_risk, incidence, events)
        cause = np.where(e > 0, np.searchsorted(causes, e), -1)
        V = incidence_variances(steps, place, cause, None if entry is None else entry[at], w)
        return AalenJohansen(
            whole.times, causes, incidence, whole.survival, whole.at_risk, events, V
        )

    if groups is None:
        return curves(np.arange(n))
    codes, labels = check_groups(groups, n)
    members = ((label, np.flatnonzero(codes == i)) for i, label in enumerate(labels))
    found = {label: curves(at) for label, at in members if weight[at].any()}
    return Curves(found, "incidence_curves")
