"""Concordance and time-dependent AUC with standard errors."""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ...data import check_level, check_survival, check_weights, refuse_other_order
from ...data.array_conversion import as_numbers
from ...data.formatted_tables_for_papers import Interval
from ...data.group_checks_and_counts import count_people
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...data.survival_outcome import SurvivalOutcome
from ...data.vector_checks import check_vector
from ...errors import DataError
from ...infer.concordance import censoring_share, competing_concordance, concordance_influence
from ...infer.rounding_ties import merge_rounding_ties
from ...infer.time_dependent_auc import CensoringWeights, auc_at
from ..fitting.coefficient_tables import cluster_codes, critical_value

__all__ = [
    "auc_table",
    "competing_concordance_with_se",
    "concordance_with_se",
    "pair_weights",
    "time_dependent_auc",
    "times_of_events",
]


def concordance_with_se(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    strata: np.ndarray | None,
    weight: np.ndarray,
    return_se: bool,
    cluster: LabelsLike | None = None,
    row: np.ndarray | None = None,
    share: np.ndarray | None = None,
) -> float | tuple[float, float]:
    """Compute the concordance, and optionally its standard error.

    Parameters
    ----------
    score, time, event, entry, strata, weight : (N,) arrays
        Values of rows, or of pieces of rows if ``row`` is given.
    cluster : (n,) labels, optional
        Clusters of rows, within which influences are summed before they are squared.
    row : (N,) int array, optional
        The row that each piece belongs to.
    share : (N,) array, optional
        Weight of pairs, by the row with the event.
    """
    score = merge_rounding_ties(score)
    value, influence = concordance_influence(score, time, event, entry, strata, weight, share)
    if not return_se:
        return value
    if row is not None:
        n = int(row.max()) + 1
        influence = np.bincount(row, weights=influence, minlength=n)
        weight = np.bincount(row, weights=weight, minlength=n)
    return value, standard_error_of(influence, weight, cluster)


def competing_concordance_with_se(
    score: np.ndarray,
    outcome: SurvivalOutcome,
    strata: np.ndarray | None,
    weight: np.ndarray,
    cause: int,
    ipcw: bool,
    tau: float | None,
    return_se: bool,
    cluster: LabelsLike | None,
) -> float | tuple[float, float]:
    """Compute the concordance for one of several events, and optionally its standard error.

    Parameters
    ----------
    score : (n,) array
    strata, weight : (n,) arrays
    cause : int
        The event of interest.
    ipcw : bool
        Whether to weight pairs for censoring. Otherwise people with a competing event count as
        surviving longest, and pairs have equal weights.
    cluster : (n,) labels or None
    """
    time, event, entry = outcome
    ours, other = event == cause, (event > 0) & (event != cause)
    moved = np.where(other, np.nextafter(time.max(), np.inf), time)
    check_pair_settings(entry, ipcw, tau)
    if not ipcw:
        share = pair_weights(moved, ours, entry, strata, weight, False, tau)
        rest = entry, strata, weight, return_se, cluster
        return concordance_with_se(score, moved, ours.astype(np.int64), *rest, share=share)
    merged = merge_rounding_ties(score)
    value, influence = competing_concordance(merged, time, event, strata, weight, cause, tau)
    return (value, standard_error_of(influence, weight, cluster)) if return_se else value


def standard_error_of(
    influence: np.ndarray, weight: np.ndarray, cluster: LabelsLike | None
) -> float:
    """Compute a standard error from the influences of rows, summed within clusters."""
    codes = cluster_codes(cluster, len(influence), weight)
    if codes is not None:
        influence = np.bincount(codes, weights=influence)
    return float(np.sqrt(influence @ influence))


def pair_weights(
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    strata: np.ndarray | None,
    weight: np.ndarray,
    ipcw: bool,
    tau: float | None,
) -> np.ndarray | None:
    """Compute weights of pairs, by the row with the event; None if all are equal."""
    check_pair_settings(entry, ipcw, tau)
    if not ipcw and tau is None:
        return None
    return censoring_share(time, event, strata, weight, ipcw, tau)


def check_pair_settings(entry: np.ndarray | None, ipcw: bool, tau: float | None) -> None:
    """Refuse values of ``ipcw`` and ``tau`` that are none, and censoring weights with entry."""
    if tau is not None and not (isinstance(tau, Real) and tau > 0):
        raise DataError(f"tau must be a time above zero, not {tau!r}.")
    if not isinstance(ipcw, bool | np.bool_):
        raise DataError(f"ipcw must be True or False, not {ipcw!r}.")
    if ipcw and entry is not None:
        raise DataError(
            "Weights by the inverse of the censoring curve are not defined with entry times; "
            "leave ipcw out, or entry."
        )


def time_dependent_auc(
    predicted: ArrayLike,
    y: VectorLike,
    times: ArrayLike | None = None,
    *,
    cause: int = 1,
    sample_weight: VectorLike | None = None,
    level: float = 0.95,
) -> ResultTable:
    """Compute the AUC of any score for the event by each time.

    Cases have had the event of interest by the time; controls have not, because it is later or
    because a competing event came first. To account for censoring, people whose observation has
    ended are weighted by the inverse probability of being uncensored, from the Kaplan–Meier curve
    of censoring in y.

    Parameters
    ----------
    predicted : (n,) or (n, T) array
        Score of each person, or of each person at each time, such as a predicted risk; larger
        scores mean a higher risk.
    y : (n,) structured array
        ``Surv(time, event)``, without entry times.
    times : (T,) array, optional
        Default the distinct times of events of interest, except the last time under observation.
    cause : int
        The event of interest, if there are competing events. Default 1.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    level : float
        Confidence level of the intervals, which are symmetric on the logit scale.

    Returns
    -------
    DataFrame
        Indexed by time; columns ``auc``, ``se``, ``lower``, ``upper``. Standard errors are from the
        infinitesimal jackknife, which accounts for the estimation of the censoring curve.

    Raises
    ------
    DataError
        If y has entry times, the shape of ``predicted`` does not match, or a time precedes all
        events or follows all observation.

    See Also
    --------
    CoxRegression.validation.time_dependent_auc : The same for the predictions of a model.
    brier_score : Error of predicted risks.

    Notes
    -----
    Cases are weighted by 1/Ĝ(T−), since at equal times events precede censorings. With such ties
    scikit-survival's ``cumulative_dynamic_auc``, which uses 1/Ĝ(T), differs slightly.

    References
    ----------
    Uno, Cai, Tian and Wei (2007), JASA 102:527–537. Hung and Chiang (2010), Can J Stat 38:8–26.
    Blanche, Dartigues and Jacqmin-Gadda (2013), Statistics in Medicine 32:5381–5397 (competing
    events, their second definition of controls). Satten and Datta (2001), American Statistician
    55:207–210 (weights and the Kaplan–Meier curve).

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> table = steropes.time_dependent_auc([0.2, 1.0, 0.1, 0.5, 0.9], y, [3.5])
    >>> table["auc"].round(2).tolist()
    [0.83]
    """
    refuse_other_order(predicted, "predicted", y=y, sample_weight=sample_weight)
    n = count_people(y)
    outcome = check_survival(y, n, competing=True)
    if not (isinstance(cause, int | np.integer) and cause >= 1):
        raise DataError(f"cause must be a code from 1, not {cause!r}.")
    weight = check_weights(sample_weight, n)
    at = times_of_events(outcome, weight, int(cause)) if times is None else times
    at = check_vector(np.atleast_1d(at), None, "times")
    score = np.asarray(as_numbers(predicted, "predicted"), np.float64)
    score = score[:, None] if score.ndim == 1 else score
    if score.shape not in ((n, 1), (n, len(at))):
        raise DataError(
            f"predicted has shape {score.shape}, but there are {n} people and {len(at)} times."
        )
    bad = np.isnan(score) & (weight > 0)[:, None]
    if bad.any():
        raise DataError(f"predicted is missing in row {np.argwhere(bad)[0, 0]}.")
    score = np.broadcast_to(score, (n, len(at)))
    return auc_table(score, outcome, weight, at, level, int(cause))


def times_of_events(outcome: SurvivalOutcome, weight: np.ndarray, cause: int = 1) -> np.ndarray:
    """Return the distinct times of events with weight, before the last time under observation."""
    used = weight > 0
    times = np.unique(outcome.time[used & (outcome.event == cause)])
    times = times[times < outcome.time[used].max()]
    if not len(times):
        raise DataError("y has no event before the last time under observation.")
    return times


def auc_table(
    risk: np.ndarray,
    outcome: SurvivalOutcome,
    weight: np.ndarray,
    times: ArrayLike,
    level: float,
    cause: int = 1,
) -> ResultTable:
    """Tabulate the AUC at some times with logit confidence limits.

    Parameters
    ----------
    risk : (n, T) array
        Score of each row at each time. Rows without a score (NaN) may have no weight only.
    weight : (n,) array
    times : (T,) array

    Raises
    ------
    DataError
        If there are entry times, or a row with weight has no score.
    """
    check_level(level)
    time, event, entry = outcome
    if entry is not None:
        raise DataError("The AUC at a time is not defined with entry times; leave entry out.")
    at = check_vector(np.atleast_1d(times), None, "times")
    bad = np.isnan(risk) & (weight > 0)[:, None]
    if bad.any():
        i, k = np.argwhere(bad)[0]
        raise DataError(
            f"Row {i} has no risk at time {at[k]:g}: in the fit nobody of its stratum was seen "
            "that long. Leave such times out."
        )
    risk = np.where(np.isnan(risk), -np.inf, risk)  # only rows without weight, which form no pairs
    censoring = CensoringWeights(time, event, weight)
    pairs = [
        auc_at(merge_rounding_ties(risk[:, i]), time, event, float(t), censoring, cause)
        for i, t in enumerate(at)
    ]
    auc, se = np.array(pairs).reshape(-1, 2).T
    inside = (auc > 0) & (auc < 1)
    middle = np.where(inside, auc, 0.5)
    width = critical_value(level) * np.where(inside, se, 0.0) / (middle * (1 - middle))
    lower = np.where(inside, expit(logit(middle) - width), auc)
    upper = np.where(inside, expit(logit(middle) + width), auc)
    table = {"auc": auc, "se": se, "lower": lower, "upper": upper}
    found = pd.DataFrame(table, pd.Index(at, name="time"))
    shown = Interval("AUC", "auc", level=level)
    return present(found, "interval_curves", intervals=[shown], column="auc", label="AUC")
