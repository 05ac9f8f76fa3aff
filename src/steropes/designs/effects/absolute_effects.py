"""Differences of risks and of restricted mean times between two arms.

With F the probability of the outcome by a time (Aalen–Johansen with competing outcomes, one minus
Kaplan–Meier otherwise), an arm has the risk F(τ) and is free of the outcome for τ − ∫₀^τ F(t) dt
days on average. Variances are sums of squared influence functions of people, summed within clusters
first: for one arm without weights this is Greenwood's variance, and it remains valid for weights
(taken as given) or matched sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.distinct_values import rank_values
from steropes.data.html_representations import FieldsInHtml
from steropes.data.plottable_result_tables import drawn_by
from steropes.designs.values.input_checks import require_people, require_weights
from steropes.designs.values.normal_quantile import Z

__all__ = [
    "AbsoluteEffect",
    "absolute_effect",
    "default_horizon",
    "events_by_day",
    "risk_and_time_lost",
]


@dataclass(frozen=True)
class AbsoluteEffect(FieldsInHtml):
    """Risks and restricted mean times of both arms, and their differences with 95 % limits.

    Attributes
    ----------
    horizon : float
        The horizon τ, in days at risk; NaN if there is none.
    target_risk : float
        Probability of the outcome by τ in the target arm.
    comparator_risk : float
        The same in the comparator arm.
    risk_difference : float
        Risk of the target minus that of the comparator.
    risk_se : float
        Standard error of that difference.
    target_days : float
        Mean number of days free of the outcome within the first τ days in the target arm.
    comparator_days : float
        The same in the comparator arm.
    days_difference : float
        Days of the target minus those of the comparator.
    days_se : float
        Standard error of that difference.

    See Also
    --------
    absolute_effect : Estimate it.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.effects import absolute_effect
    >>> people = pd.DataFrame({"treated": [1, 1, 1, 0, 0, 0], "time": [5, 8, 9, 3, 6, 9],
    ...                        "event": [1, 0, 1, 1, 1, 0]})
    >>> effect = absolute_effect(people, horizon=6)
    >>> round(effect.target_risk, 3), round(effect.comparator_risk, 3)
    (0.333, 0.667)
    """

    horizon: float = math.nan
    target_risk: float = math.nan
    comparator_risk: float = math.nan
    risk_difference: float = math.nan
    risk_se: float = math.nan
    target_days: float = math.nan
    comparator_days: float = math.nan
    days_difference: float = math.nan
    days_se: float = math.nan

    def plot(self, **options: Any) -> Any:
        """Draw the risk difference with its 95 % limits by `steropes.plots.forest`.

        Parameters
        ----------
        **options
            As of the function.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        half = Z * self.risk_se
        limits = [self.risk_difference - half, self.risk_difference + half]
        table = pd.DataFrame([[self.risk_difference, *limits]], [f"by day {self.horizon:g}"])
        table.columns = pd.Index(["coef", "lower", "upper"])
        return drawn_by("forest", table, **{"label": "Risk difference", **options})

    def row(self) -> dict[str, float]:
        """Return the numbers by the columns of the result table, with 95 % limits.

        Returns
        -------
        dict of str to float
            Risks, days free of the outcome, and their differences.
        """
        found = {
            "horizon_day": self.horizon,
            "target_risk": self.target_risk,
            "comparator_risk": self.comparator_risk,
            "target_days_free": self.target_days,
            "comparator_days_free": self.comparator_days,
        }
        for name, value, se in (
            ("risk_difference", self.risk_difference, self.risk_se),
            ("days_free_difference", self.days_difference, self.days_se),
        ):
            found |= {name: value, f"{name}_lb": value - Z * se, f"{name}_ub": value + Z * se}
        return found


def absolute_effect(
    people: pd.DataFrame,
    *,
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    horizon: float | None = None,
) -> AbsoluteEffect:
    """Estimate the differences of risks and restricted mean times between the arms.

    Parameters
    ----------
    people : DataFrame
        ``treated``, ``time`` and ``event`` (2 if a competing outcome came first).
    weights : array_like, shape (n,), optional
        Weights that make the arms comparable.
    clusters : array_like, shape (n,), optional
        Clusters of dependent rows, such as matched sets. Default: independent rows.
    horizon : float, optional
        The horizon τ. Default: the 90 % quantile of all follow-up, but at most the last time at
        which both arms have somebody left.

    Returns
    -------
    AbsoluteEffect
        All NaN if an arm is empty, or empty before the given horizon.

    References
    ----------
    Andersen, Borgan, Gill and Keiding (1993), Statistical Models Based on Counting Processes, IV.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.effects import absolute_effect
    >>> people = pd.DataFrame({"treated": [1, 1, 1, 0, 0, 0], "time": [5, 8, 9, 3, 6, 9],
    ...                        "event": [1, 0, 1, 1, 1, 0]})
    >>> round(absolute_effect(people, horizon=6).risk_difference, 3)
    -0.333
    """
    require_people(people, "treated", "time", "event")
    require_weights(weights, len(people))
    treated = people["treated"].to_numpy() == 1
    time, event = people["time"].to_numpy(float), people["event"].to_numpy()
    w = np.ones(len(people)) if weights is None else np.asarray(weights, dtype=float)
    last = [float(time[a & (w > 0)].max(initial=0.0)) for a in (treated, ~treated)]
    if min(last) <= 0:
        return AbsoluteEffect()
    tau = default_horizon(time, last) if horizon is None else float(horizon)
    if horizon is not None and tau > min(last):
        return AbsoluteEffect(horizon=tau)
    number = np.arange(len(people))
    if clusters is not None:
        number = rank_values(clusters)[1]
    risk, lost, influence = [], [], np.zeros((len(people), 2))
    for arm, sign in ((treated, 1.0), (~treated, -1.0)):
        found = risk_and_time_lost(time[arm], event[arm], w[arm], tau)
        risk.append(found[0])
        lost.append(found[1])
        influence[arm] = sign * found[2]
    of_cluster = np.column_stack([np.bincount(number, influence[:, k]) for k in (0, 1)])
    se = np.sqrt((of_cluster**2).sum(axis=0))
    return AbsoluteEffect(
        horizon=tau,
        target_risk=risk[0],
        comparator_risk=risk[1],
        risk_difference=risk[0] - risk[1],
        risk_se=float(se[0]),
        target_days=tau - lost[0],
        comparator_days=tau - lost[1],
        days_difference=lost[1] - lost[0],
        days_se=float(se[1]),
    )


def events_by_day(people: pd.DataFrame, day: float) -> tuple[int, int]:
    """Count the people of the target and of the comparator with an outcome by a day at risk."""
    had = (people["event"].to_numpy() == 1) & (people["time"].to_numpy(float) <= day)
    treated = people["treated"].to_numpy() == 1
    return int((had & treated).sum()), int((had & ~treated).sum())


def default_horizon(time: NDArray, last: Sequence[float]) -> float:
    """Return the 90 % quantile of follow-up, but at most the last time that both arms have."""
    return min(float(np.quantile(time, 0.9)), *last)


def risk_and_time_lost(
    time: NDArray, event: NDArray, w: NDArray, tau: float
) -> tuple[float, float, NDArray]:
    """Compute F(τ), ∫₀^τ F and everybody's influence on both, shape (n, 2), for one arm.

    The influence of a person is also the derivative in the logarithm of the person's weight.
    """
    u = np.unique(time[(event > 0) & (time <= tau) & (w > 0)])
    if not len(u):
        return 0.0, 0.0, np.zeros((len(time), 2))
    distinct, place = rank_values(time)
    # Small whole numbers are sorted by their digits.
    order = np.argsort(place.astype(np.min_scalar_type(len(distinct))), kind="stable")
    ahead = np.concatenate((np.cumsum(w[order][::-1])[::-1], [0.0]))
    first = np.concatenate(([0], np.cumsum(np.bincount(place))))
    y = ahead[first[np.searchsorted(distinct, u)]]  # The weight at risk.
    at = np.searchsorted(u, distinct)[place]  # The position of each person's time, if it occurs.
    own = (event > 0) & (time <= tau) & (w > 0)
    own1 = own & (event == 1)
    d, d1 = (np.bincount(at[k], w[k], minlength=len(u)) for k in (own, own1))
    hazard, hazard1 = d / y, d1 / y
    after = np.cumprod(np.maximum(1 - hazard, 0.0))
    before = np.concatenate(([1.0], after[:-1]))
    jump = before * hazard1  # The increments of F.
    F = np.cumsum(jump)
    rest = tau - u
    area = float(jump @ rest)
    # A change of the hazard at u affects F(τ) and its integral directly, by the outcomes at u, and
    # through all later outcomes, for which fewer people remain.
    direct = np.column_stack((before, before * rest))
    later = np.column_stack((F[-1] - F, area - np.cumsum(jump * rest)))
    with np.errstate(divide="ignore", invalid="ignore"):
        carried = np.where((hazard < 1)[:, None], later / (1 - hazard)[:, None], 0.0)
    zero = np.zeros((1, 2))
    expected = np.concatenate(
        (
            zero,
            np.cumsum((direct * hazard1[:, None] - carried * hazard[:, None]) / y[:, None], axis=0),
        )
    )
    influence = -expected[np.searchsorted(u, np.minimum(distinct, tau), side="right")[place]]
    influence[own1] += (direct / y[:, None])[at[own1]]
    influence[own] -= (carried / y[:, None])[at[own]]
    return float(F[-1]), area, w[:, None] * influence
