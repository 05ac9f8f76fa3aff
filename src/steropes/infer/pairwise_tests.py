"""Comparisons of all pairs of groups: log-rank tests, and differences of restricted means."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import combinations
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ..data import check_level
from ..data.formatted_tables_for_papers import Interval
from ..data.group_checks_and_counts import check_groups, count_people
from ..data.input_types import LabelsLike, VectorLike
from ..data.kaplan_meier import kaplan_meier
from ..data.plottable_result_tables import ResultTable, present
from ..data.row_label_checks import refuse_other_order
from ..data.vector_checks import label_strata
from ..errors import DataError
from .logrank import logrank_test

__all__ = ["pairwise_logrank_test", "restricted_mean_test"]

# Columns that name a pair of groups.
PAIR = ("group", "reference")


def pairwise_logrank_test(
    y: ArrayLike, groups: LabelsLike, strata: LabelsLike | None = None, rho: float = 0.0
) -> ResultTable:
    """Test for each pair of groups whether their hazards are equal.

    Parameters
    ----------
    y : structured array, (n,)
        ``Surv(time, event[, entry])``.
    groups : (n,) labels
        Group of each person, at least two different ones.
    strata : (n,) labels, optional
        If given, groups are compared only within strata.
    rho : float, default=0
        Exponent of the weights; see `logrank_test`.

    Returns
    -------
    DataFrame
        A line for each pair: ``group``, ``reference`` (the first of the two labels), ``chisq``,
        ``df``, ``p`` and ``p_holm``, the p-value adjusted for the number of pairs by Holm's
        method. A pair is compared without the other groups, as R's
        ``survminer::pairwise_survdiff`` does.

    Raises
    ------
    DataError
        There are fewer than two groups, or two groups are never at risk together.

    See Also
    --------
    logrank_test : Test all groups together.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6:65–70.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 1, 0, 1, 1, 1])
    >>> table = steropes.pairwise_logrank_test(y, ["a", "a", "b", "b", "c", "c"])
    >>> table[["group", "reference"]].to_numpy().tolist()
    [['b', 'a'], ['c', 'a'], ['c', 'b']]
    """
    refuse_other_order(groups, "groups", strata=strata)
    n = count_people(y)
    codes, labels = check_groups(groups, n)
    within = None if strata is None else label_strata(strata, n)[0]
    lines = []
    for a, b in _pairs(labels):
        at = np.flatnonzero((codes == a) | (codes == b))
        part = None if within is None else within[at]
        lines.append((labels[b], labels[a], *logrank_test(np.asarray(y)[at], codes[at], part, rho)))
    table = pd.DataFrame(lines, columns=["group", "reference", "chisq", "df", "p"])
    table = table.assign(p_holm=_holm(table["p"].to_numpy()))
    return present(table, "hypothesis_tests", labels=PAIR)


def restricted_mean_test(
    y: ArrayLike,
    groups: LabelsLike,
    t: float | None = None,
    sample_weight: VectorLike | None = None,
    level: float = 0.95,
) -> ResultTable:
    """Compare the mean time lived up to t of each pair of groups.

    The restricted mean is the area under the Kaplan–Meier curve. Its difference needs no
    proportional hazards, and has the unit of time.

    Parameters
    ----------
    y : structured array, (n,)
        ``Surv(time, event[, entry])``.
    groups : (n,) labels
        Group of each person, at least two different ones.
    t : float, optional
        End of the period. Default the last time to which the curves of all groups are known.
    sample_weight : (n,) array, optional
        Number of people that a row represents.
    level : float
        Confidence level of the limits.

    Returns
    -------
    DataFrame
        A line for each pair: ``group``, ``reference`` (the first of the two labels), ``t``,
        ``difference`` of the means (group minus reference) with ``lower``, ``upper`` and ``se``
        (Greenwood's), ``z``, ``p`` and ``p_holm``, adjusted for the number of pairs by Holm's
        method; and the ``ratio`` of the means with limits ``ratio_lower`` and ``ratio_upper``
        on the log scale, as R's ``survRM2::rmst2``.

    Raises
    ------
    DataError
        There are fewer than two groups, or t is beyond the curve of one.

    See Also
    --------
    KaplanMeier.restricted_mean : The mean of one curve.

    References
    ----------
    Royston and Parmar (2013), BMC Medical Research Methodology 13:152. Uno and others (2014),
    Journal of Clinical Oncology 32:2380–2385.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 1, 0, 1, 1, 1])
    >>> table = steropes.restricted_mean_test(y, ["a", "a", "a", "b", "b", "b"], 3)
    >>> table[["group", "reference", "difference"]].round(3).to_numpy().tolist()
    [['b', 'a', 1.0]]
    """
    level = check_level(level)
    curves = kaplan_meier(y, groups=groups, sample_weight=sample_weight)
    labels = list(curves)
    known = [np.inf if c.survival[-1] == 0 else float(c.times[-1]) for c in curves.values()]
    if t is None:
        t = min(*known, max(float(c.times[-1]) for c in curves.values()))
    if not isinstance(t, Real) or not t > 0:
        raise DataError(f"t must be a time above 0, not {t!r}.")
    means = {label: curve.restricted_mean(float(t)) for label, curve in curves.items()}
    z = float(stats.norm.ppf(0.5 + level / 2))
    lines = []
    for a, b in _pairs(labels):
        low, high = means[labels[a]], means[labels[b]]
        gap, se = high.value - low.value, float(np.hypot(high.se, low.se))
        if not se > 0:
            raise DataError(
                f"Up to {t:g} nobody of the groups {str(labels[a])!r} and {str(labels[b])!r} had "
                "the event, so that there is nothing to compare; choose a later time."
            )
        width = np.exp(z * np.hypot(high.se / high.value, low.se / low.value))
        ratio = high.value / low.value
        p = 2.0 * float(stats.norm.sf(abs(gap) / se))
        lines.append(
            (labels[b], labels[a], float(t), gap, gap - z * se, gap + z * se, se, gap / se, p,
             ratio, ratio / width, ratio * width)
        )  # fmt: skip
    columns = [
        "group", "reference", "t", "difference", "lower", "upper", "se", "z", "p", "ratio",
        "ratio_lower", "ratio_upper",
    ]  # fmt: skip
    table = pd.DataFrame(lines, columns=columns)
    table.insert(9, "p_holm", _holm(table["p"].to_numpy()))
    intervals = [
        Interval("Difference of restricted means", "difference", level=level),
        Interval("Ratio of restricted means", "ratio", "ratio_lower", "ratio_upper", level),
    ]
    return present(table, "forest", intervals=intervals, labels=PAIR, captions={"t": "Until"})


def _pairs(labels: list[Hashable]) -> Iterator[tuple[int, int]]:
    """Return the positions of all pairs of groups; refuse a single group."""
    if len(labels) < 2:
        raise DataError(f"A comparison needs two groups; there is one only, {str(labels[0])!r}.")
    return combinations(range(len(labels)), 2)


def _holm(p: np.ndarray) -> np.ndarray:
    """Adjust p-values for their number by Holm's method."""
    by = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[by])
    out = np.empty(len(p))
    out[by] = np.minimum(adjusted, 1.0)
    return out
