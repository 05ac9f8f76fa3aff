"""The log-rank test of equal hazards in several groups."""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ..data.group_checks_and_counts import check_groups, count_people
from ..data.input_types import LabelsLike
from ..data.plottable_result_tables import present_test
from ..data.row_label_checks import refuse_other_order
from ..data.survival_outcome import check_survival
from ..errors import DataError
from .wald_statistic import wald_statistic

__all__ = ["logrank_test"]


def logrank_test(
    y: ArrayLike, groups: LabelsLike, strata: LabelsLike | None = None, rho: float = 0.0
) -> pd.Series:
    """Test whether the hazards of two or more groups are equal.

    The test compares the events of each group with those expected if everyone at risk had the same
    hazard, as R's ``survival::survdiff`` does.

    Parameters
    ----------
    y : structured array, (n,)
        ``Surv(time, event[, entry])``; with entry, people are at risk on (entry, time].
    groups : (n,) labels
        Group of each person, at least two different ones.
    strata : (n,) labels, optional
        If given, groups are compared only within strata.
    rho : float, default=0
        Events have weight S(t−)^ρ, where S is the Kaplan–Meier curve of all groups (within the
        stratum). Positive values emphasise early differences; 1 is Peto and Peto's modification of
        Wilcoxon's test.

    Returns
    -------
    Series
        ``chisq``, ``df`` and ``p``. The degrees of freedom are the number of groups with expected
        events minus one, or minus the number of sets of groups that are never at risk together.

    Raises
    ------
    DataError
        No two groups are at risk together at an event, or rho is not a finite number.

    References
    ----------
    Mantel (1966), Cancer Chemotherapy Reports 50:163. Peto and Peto (1972), JRSS A 135:185.
    Harrington and Fleming (1982), Biometrika 69:553.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 1, 0, 1, 1, 1])
    >>> steropes.logrank_test(y, ["a", "a", "a", "b", "b", "b"]).round(3).tolist()
    [2.469, 1.0, 0.116]
    """
    refuse_other_order(groups, "groups", strata=strata)
    n = count_people(y)
    time, event, entry = check_survival(y, n)
    code, labels = check_groups(groups, n)
    stratum = np.zeros(n, np.int64) if strata is None else check_groups(strata, n, "strata")[0]
    if not (isinstance(rho, Real) and np.isfinite(rho)):
        raise DataError(f"rho must be a number, such as 0 or 1, not {rho!r}.")
    K = len(labels)
    observed, expected, V = np.zeros(K), np.zeros(K), np.zeros((K, K))
    by = np.argsort(stratum, kind="stable")
    edges = np.append(np.flatnonzero(np.diff(stratum[by], prepend=-1)), n)
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        i = by[a:b]
        start = None if entry is None else entry[i]
        had, due, part = _one_stratum(time[i], event[i], start, code[i], K, rho)
        observed, expected, V = observed + had, expected + due, V + part
    some = np.flatnonzero((expected > 0) & (np.diag(V) > 0))
    if len(some) < 2:
        raise DataError(
            "There is nothing to compare: at no event were two groups at risk"
            + (" in the same stratum." if strata is not None else ".")
        )
    # All differences add up to zero. The one with the largest variance is omitted, so that the
    # statistic of a small group is not computed as the difference between large numbers.
    kept = np.delete(some, np.diag(V)[some].argmax())
    chisq, df = wald_statistic((observed - expected)[kept], V[np.ix_(kept, kept)])
    return present_test(chisq, df, float(stats.chi2.sf(chisq, df)))


def _one_stratum(
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    code: np.ndarray,
    K: int,
    rho: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute weighted observed and expected events, (K,), and their covariance in one stratum.

    The covariance is the hypergeometric one.
    """
    at = np.unique(time[event == 1])
    n, d = np.empty((len(at), K)), np.empty((len(at), K))
    for k in range(K):
        here = code == k
        t = np.sort(time[here])
        n[:, k] = len(t) - np.searchsorted(t, at, side="left")
        if entry is not None:
            e = np.sort(entry[here])
            n[:, k] -= len(e) - np.searchsorted(e, at, side="left")
        f = np.sort(time[here & (event == 1)])
        d[:, k] = np.searchsorted(f, at, side="right") - np.searchsorted(f, at, side="left")
    whole, events = n.sum(axis=1), d.sum(axis=1)
    share = n / whole[:, None]
    survival = np.cumprod(np.append(1.0, 1.0 - events / whole))[:-1]  # S(t−)
    # With late entry the curve can reach zero before the last event, whose weight is then zero.
    weight = np.where(survival > 0, survival, 1.0) ** rho * (survival > 0 if rho else 1.0)
    spread = weight**2 * events * (whole - events) / np.maximum(whole - 1.0, 1.0)
    V = np.diag(spread @ share) - (share * spread[:, None]).T @ share
    return weight @ d, (weight * events) @ share, V
