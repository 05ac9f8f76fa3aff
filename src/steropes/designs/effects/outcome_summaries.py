"""Summaries of outcomes: counts, follow-up, survival curves and detectable ratios."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.distinct_values import rank_values
from steropes.data.kaplan_meier import product_limit
from steropes.designs.effects.outcome_families import outcome_family
from steropes.designs.values.arm_names import TREATED_ARMS
from steropes.designs.values.input_checks import require_people, require_weights
from steropes.designs.values.normal_quantile import Z

__all__ = [
    "arm_counts",
    "curve_table",
    "detectable_ratio",
    "detectable_ratio_of_counts",
    "follow_up",
    "informative_events",
]

QUANTILES = {
    "min": 0.0,
    "p_10": 0.1,
    "p_25": 0.25,
    "median": 0.5,
    "p_75": 0.75,
    "p_90": 0.9,
    "max": 1.0,
}


def arm_counts(people: pd.DataFrame, days: str = "time") -> dict[str, int]:
    """Count subjects, days and people with the outcome, by arm.

    Parameters
    ----------
    people : DataFrame
        ``treated``, ``person_id``, ``time`` and ``event``.
    days : str, default "time"
        The column of days: "time" ends with the outcome; "days_at_risk", in models that do not end
        with the outcome, does not. Without this column "time" is used.
    """
    columns = ("treated", "person_id", days if days in people else "time", "event")
    treated, person, time, event = (people[c].to_numpy() for c in columns)
    counts = {}
    for value, arm in TREATED_ARMS:
        of_arm = treated == value
        counts[f"{arm}_subjects"] = len(rank_values(person[of_arm])[0])
        counts[f"{arm}_days"] = int(time[of_arm].sum())
        counts[f"{arm}_outcomes"] = int((event[of_arm] == 1).sum())
    return counts


def informative_events(
    time: ArrayLike, event: ArrayLike, treated: ArrayLike, sets: ArrayLike | None = None
) -> tuple[int, int]:
    """Count the events of each arm that occur while the other arm is at risk in the same set.

    Only these contribute to the hazard ratio within sets and to its standard error.

    Parameters
    ----------
    time, event, treated : array_like, shape (n,)
    sets : array_like, shape (n,), optional
        Set of each person. Default: one set.

    Returns
    -------
    (int, int)
        Counts in the target and in the comparator.
    """
    t, a = np.asarray(time, dtype=float), np.asarray(treated).astype(int)
    had = np.asarray(event) == 1
    s = np.zeros(len(t), int) if sets is None else rank_values(sets)[1]
    last = np.full((int(s.max(initial=-1)) + 1, 2), -np.inf)
    np.maximum.at(last, (s, a), t)
    counts = had & (last[s, 1 - a] >= t)
    return int((counts & (a == 1)).sum()), int((counts & (a == 0)).sum())


def follow_up(people: pd.DataFrame) -> dict[str, object]:
    """Summarise the days of follow-up, and the first and last start, in each arm."""
    found: dict[str, object] = {}
    for value, arm in TREATED_ARMS:
        of_arm = people["treated"] == value
        days = people["time"][of_arm].to_numpy(dtype=float)
        at = np.full(len(QUANTILES), math.nan)
        if len(days):
            at = np.quantile(days, [*QUANTILES.values()])
        found |= {f"{arm}_{name}_days": float(d) for name, d in zip(QUANTILES, at, strict=True)}
        starts = people["start"][of_arm]
        found[f"{arm}_min_date"] = starts.min().date() if len(starts) else None
        found[f"{arm}_max_date"] = starts.max().date() if len(starts) else None
    return found


def detectable_ratio(
    people: pd.DataFrame, kind: str = "cox", alpha: float = 0.05, power: float = 0.8
) -> float:
    """Compute the smallest ratio above 1 that would be detected with the given power.

    For hazards it is exp(√((z₁₋α/₂ + z_power)² / (E q (1 − q)))), with E people with the outcome
    and a share q of people in the target arm (Schoenfeld 1983). For odds the standard error is
    √(1 / (E (1 − E/n))) instead. Infinite without an outcome or with one arm only.

    Parameters
    ----------
    people : DataFrame
        ``treated`` and ``event``.
    kind : str, default "cox"
        Kind of the outcome model: odds for "logistic", otherwise hazards or rates.
    alpha : float, default 0.05
        Two-sided significance level.
    power : float, default 0.8
        Probability of detection.

    Returns
    -------
    float
        The ratio.

    References
    ----------
    Schoenfeld (1983), Biometrics 39:499–503.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.effects import detectable_ratio
    >>> people = pd.DataFrame({"treated": [1, 0] * 100, "event": [1, 1, 0, 0] * 50})
    >>> round(detectable_ratio(people), 2)
    1.75
    """
    require_people(people, "treated", "event")
    events, n = float((people["event"] == 1).sum()), len(people)
    q = float(people["treated"].mean()) if n else 0.0
    return detectable_ratio_of_counts(events, n, q, kind, alpha, power)


def detectable_ratio_of_counts(
    events: float, people: int, share: float, kind: str, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Compute `detectable_ratio` from numbers of people.

    Parameters
    ----------
    events, people : float, int
        Number of people with the outcome, and of all.
    share : float
        Share of people in the target arm.
    """
    from scipy.special import ndtri

    z = float(ndtri(1 - alpha / 2) + ndtri(power))
    information = outcome_family(kind).information(events, people, share)
    return math.exp(z / math.sqrt(information)) if information > 0 else math.inf


def curve_table(people: pd.DataFrame, weights: ArrayLike | None = None) -> pd.DataFrame:
    """Tabulate Kaplan–Meier curves of both arms at every time at which either changes.

    The table extends to the 90 % quantile of all follow-up. The curve of an arm whose follow-up
    ends before that ends there, in its own row, unless it has reached zero; an empty arm has no
    curve. Limits are those of log S, at most one; numbers at risk are given at 0 and every 50, 100
    or 250 days.

    Parameters
    ----------
    people : DataFrame
        ``time``, ``event``, ``treated``.
    weights : array_like, shape (n,), optional
        Weights of people. Default 1.

    Returns
    -------
    DataFrame
        ``time_day``, and for each arm ``_survival``, ``_survival_lb``, ``_survival_ub`` (missing
        after its end) and ``_at_risk`` (missing between those days); then the number of people
        with the outcome on that day, ``_events``, and with that time or a later one, ``_here``.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.effects import curve_table
    >>> people = pd.DataFrame({"treated": [1, 1, 1, 0, 0, 0], "time": [5, 8, 9, 3, 6, 9],
    ...                        "event": [1, 0, 1, 1, 1, 0]})
    >>> curve_table(people)["target_survival"].round(2).tolist()
    [1.0, 1.0, 0.67, 0.67, 0.67, 0.0]
    """
    if people.empty:
        return pd.DataFrame()
    require_people(people, "treated", "time", "event")
    require_weights(weights, len(people))
    time = people["time"].to_numpy(dtype=float)
    event, treated = (people[c].to_numpy() for c in ("event", "treated"))
    last = float(np.quantile(time, 0.9))
    step = 50 if last <= 300 else 100 if last <= 600 else 250
    marks = np.arange(0, last + 1e-9, step)
    times = rank_values(np.concatenate((marks, time[time <= last])))[0]
    made = {"time_day": times}
    w = None if weights is None else np.asarray(weights, dtype=float)
    for value, arm in TREATED_ARMS:
        own = treated == value
        of_arm = None if w is None else w[own]
        made |= _arm_curve(time[own], event[own] == 1, of_arm, times, marks, arm)
    table = pd.DataFrame(made)
    ends = np.array([time[treated == value].max(initial=-np.inf) for value, _ in TREATED_ARMS])
    shown = [c for c in table if c != "time_day" and not c.endswith("_here")]
    same = table[shown].duplicated().to_numpy() & ~np.isin(times, ends[ends < last])
    return table[~same].reset_index(drop=True)


def _arm_curve(
    time: NDArray, event: NDArray, weights: NDArray | None, times: NDArray, marks: NDArray, arm: str
) -> dict[str, NDArray]:
    """Compute one arm's columns at the given times."""
    survival, lower, upper = (np.full(len(times), math.nan) for _ in range(3))
    if len(time):
        curve = product_limit(time, event, weights=weights)
        at = np.searchsorted(curve.times, times, side="right") - 1
        s = np.where(at >= 0, curve.survival[at], 1.0)
        spread = Z * np.sqrt(np.where(at >= 0, curve.log_variance[at], 0.0))
        spread = np.where(s > 0, spread, 0.0)  # An interval at zero has no width.
        # The curve is unknown after the last follow-up time, unless it has reached zero.
        s = np.where((times <= curve.times[-1]) | (s == 0), s, math.nan)
        with np.errstate(over="ignore"):  # a few large weights leave no limit but one
            lower, upper = s * np.exp(-spread), np.minimum(1.0, s * np.exp(spread))
        survival = s
    had = np.sort(time[event])
    here = len(time) - np.searchsorted(np.sort(time), times, side="left")
    risk = np.where(np.isin(times, marks), here.astype(float), math.nan)
    until = np.searchsorted(had, times, side="right")
    return {
        f"{arm}_survival": survival,
        f"{arm}_survival_lb": lower,
        f"{arm}_survival_ub": upper,
        f"{arm}_at_risk": risk,
        f"{arm}_events": np.diff(until, prepend=0),
        f"{arm}_here": here,
    }
