"""The Kaplan–Meier curve with weights, late entry and groups, for events or for censoring.

All functions are based on sorting and cumulative sums over people, without covariates.
"""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

from .array_conversion import as_numbers
from .distinct_values import rank_values
from .group_checks_and_counts import check_groups, count_people
from .input_types import LabelsLike, VectorLike
from .plottable_result_tables import Curves
from .row_label_checks import refuse_other_order
from .survival_curve import Floats, KaplanMeier
from .survival_outcome import check_survival
from .vector_checks import check_vector, check_weights

__all__ = ["kaplan_meier", "product_limit"]


def sums_over_ranges(first: np.ndarray, end: np.ndarray, weight: np.ndarray, m: int) -> np.ndarray:
    """Compute at each of m positions the sum of the weights of the rows that cover it.

    Differences of cumulative sums would lose small weights that remain after large ones have
    left. Each range is therefore cut into aligned pieces with power-of-two lengths, at most
    two of each length (the nodes of a segment tree), and each position adds up the pieces that
    contain it. Nonnegative weights are only added, so that the relative error is that of rounding.

    Parameters
    ----------
    first, end : (n,) int arrays
        Row i covers the positions ``first[i] <= k < end[i]``.
    weight : (n,) array
    m : int
        Number of positions.

    Returns
    -------
    (m,) array
    """
    size = 1 << max(int(m - 1).bit_length(), 0)
    tree = np.zeros(2 * size)
    low, high = first + size, end + size
    while len(low):
        odd = (low & 1) == 1
        alone = odd & (low < high)
        _add_to_nodes(tree, low[alone], weight[alone])
        low = low + odd
        odd = (high & 1) == 1
        alone = odd & (low < high)
        _add_to_nodes(tree, high[alone] - 1, weight[alone])
        high = high - odd
        more = low < high
        low, high, weight = low[more] >> 1, high[more] >> 1, weight[more]
    above = tree[1:2]
    level = 2
    while level <= size:
        above = tree[level : 2 * level] + np.repeat(above, 2)
        level *= 2
    return above[:m]


def _add_to_nodes(tree: np.ndarray, nodes: np.ndarray, weight: np.ndarray) -> None:
    """Add weights to nodes of the tree."""
    if len(nodes):
        found = np.bincount(nodes, weights=weight)
        tree[: len(found)] += found


@overload
def kaplan_meier(
    y: ArrayLike, groups: None = None, sample_weight: VectorLike | None = None
) -> KaplanMeier: ...
@overload
def kaplan_meier(
    y: ArrayLike, groups: LabelsLike, sample_weight: VectorLike | None = None
) -> Curves[KaplanMeier]: ...
def kaplan_meier(
    y: ArrayLike, groups: LabelsLike | None = None, sample_weight: VectorLike | None = None
) -> KaplanMeier | Curves[KaplanMeier]:
    """Estimate the Kaplan–Meier curve of a survival outcome, or one for each group.

    Parameters
    ----------
    y : structured array, (n,)
        ``Surv(time, event[, entry])``; with entry, people are at risk on (entry, time].
    groups : (n,) labels, optional
        Any hashable labels.
    sample_weight : (n,) array, optional
        Number of people that a row represents; rows with 0 are ignored. The variance assumes
        counts: with other weights, such as inverse probabilities, only the curve is valid.

    Returns
    -------
    KaplanMeier, or dict of them by label
        Labels are sorted if they can be ordered, otherwise in the order of their first
        appearance. Groups without positive weights are omitted.

    Raises
    ------
    DataError
        If the input cannot be used; the message names the row. For competing events use
        `aalen_johansen`.

    References
    ----------
    Kaplan and Meier (1958), JASA 53:457–481. Greenwood (1926).

    Examples
    --------
    >>> import steropes
    >>> curve = steropes.kaplan_meier(steropes.Surv([1, 2, 3, 4], [1, 0, 1, 1]))
    >>> curve.median()
    3.0
    """
    refuse_other_order(groups, "groups", sample_weight=sample_weight)
    n = count_people(y)
    time, event, entry = check_survival(y, n)
    weight = check_weights(sample_weight, n)

    def curve(at: NDArray) -> KaplanMeier:
        at = at[weight[at] > 0]
        start = None if entry is None else entry[at]
        return product_limit(time[at], event[at], start, weights=weight[at])

    if groups is None:
        return curve(np.arange(n))
    codes, labels = check_groups(groups, n)
    members = ((label, np.flatnonzero(codes == i)) for i, label in enumerate(labels))
    found = {label: curve(at) for label, at in members if weight[at].any()}
    return Curves(found, "survival_curves")


def product_limit(
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
        0 for censored people, any other value for the event.
    entry : array_like, shape (n,), optional
        Start of observation; people are at risk on (entry, time]. Default: from the start.
    weights : array_like, shape (n,), optional
        Nonnegative weights, for example replicate counts. Default 1.
    censoring : bool, default False
        Whether to estimate the distribution of the censoring time instead, with censorings as
        events. At equal times events come first, so that people with the event are not at risk
        of censoring then; with this convention S(t) G(t) is the share under observation.

    Raises
    ------
    DataError
        If arrays are empty or of different lengths, a time is missing, an entry is not before
        its time, or a weight is negative.

    References
    ----------
    Kaplan and Meier (1958), J Am Stat Assoc 53:457. Greenwood (1926).
    """
    time = np.asarray(as_numbers(time, "time"), dtype=float)
    failed = check_vector(event, None, "event").astype(bool)
    weight = np.ones_like(time)
    if weights is not None:
        weight = np.asarray(as_numbers(weights, "weights"), dtype=float)
    start = None if entry is None else np.asarray(as_numbers(entry, "entry"), dtype=float)
    _check(time, failed, start, weight)

    times, place = rank_values(time)
    enters = None if start is None else np.searchsorted(times, start, side="right")

    def there(last: NDArray) -> Floats:
        """Sum at each time the weights of people at risk until their ``last`` time, inclusive.

        No sum is a difference of larger sums, in which a heavy row would cancel light ones, so
        that a sum is zero only if no one is at risk.
        """
        if enters is None:
            leaves = np.bincount(last + 1, weights=weight, minlength=len(times) + 1)
            return _reverse_cumsum(leaves)[1:]
        return sums_over_ranges(enters, last + 1, weight, len(times))

    # At equal times events come before censorings, so that censored people are at risk.
    if censoring:
        counted, n, stay = ~failed, there(place - failed), there(place - 1)
    else:
        counted, n, stay = failed, there(place), there(place - failed)
    d = np.bincount(place, weights=weight * counted, minlength=len(times))
    dies = d > 0
    survival = np.cumprod(np.divide(stay, n, out=np.ones_like(d), where=dies))
    with np.errstate(divide="ignore", over="ignore"):
        terms = np.divide(d / np.where(dies, n, 1.0), stay, out=np.zeros_like(d), where=dies)
    log_variance = np.cumsum(terms)
    variance = np.where(survival > 0, survival**2 * np.where(survival > 0, log_variance, 0), 0.0)
    return KaplanMeier(times, survival, variance, n, d, log_variance)


def _reverse_cumsum(x: Floats) -> Floats:
    """Sum each entry and all later ones."""
    return np.cumsum(x[::-1])[::-1]


def _check(time: Floats, failed: NDArray, start: Floats | None, weight: Floats) -> None:
    """Refuse arrays of different lengths and invalid times, entries or weights."""
    if time.ndim != 1 or len(time) == 0:
        raise DataError("product_limit: time must be one-dimensional and hold at least one person")
    for name, values in (("event", failed), ("entry", start), ("weights", weight)):
        if values is not None and values.shape != time.shape:
            raise DataError(
                f"product_limit: {name} has shape {values.shape}, time has {time.shape}; "
                "they must be one value a person"
            )
    checks = [("time", ~np.isfinite(time), "is missing or infinite")]
    checks.append(("weights", ~(weight >= 0) | ~np.isfinite(weight), "must be a number >= 0"))
    if start is not None:
        checks.append(("entry", ~(start < time), "must be smaller than time"))
    for name, bad, what in checks:
        if bad.any():
            raise DataError(f"product_limit: {name} {what} in row {int(np.argmax(bad))}")
