"""Weighted means of an outcome in two groups, with differences and ratios and their errors."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.data.vector_checks import check_level
from steropes.designs.comparative.effect_table_rows import contrasts, is_ratio
from steropes.designs.comparative.matching_with_replacement_estimate import matching_estimate
from steropes.designs.values.estimands import check_estimand
from steropes.designs.values.input_checks import require_arms, require_numbers
from steropes.errors import DataError
from steropes.infer.errors_with_estimated_weights import WeightModel, summed_products

__all__ = ["cluster_codes", "compare_means", "small_sample_factor"]


def compare_means(
    outcome: ArrayLike,
    treatment: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    weight_model: WeightModel | None = None,
    cluster: ArrayLike | None = None,
    pairs: pd.DataFrame | None = None,
    estimand: str = "att",
    kind: Literal["HC0", "HC1"] = "HC1",
    level: float = 0.95,
) -> ResultTable:
    """Compare the weighted means of an outcome.

    Errors come from the influence of each person on both means: w (y − mean) / Σw, plus the
    influence through ``weight_model`` (M-estimation), summed within clusters. Limits of ratios are
    computed for their logarithms.

    Parameters
    ----------
    outcome : array_like, shape (n,)
        Numbers; with 0 and 1 only, means are risks.
    treatment : array_like, shape (n,)
        1 for the target group and 0 for the comparator.
    weights : array_like, shape (n,), optional
        Weights; default 1.
    weight_model : PropensityWeights, EntropyBalancing or EstimatedWeights, optional
        The estimate of the weights, whose error is then included; the weights must be its own.
    cluster : array_like of int, shape (n,), optional
        Clusters, such as matched sets; negative numbers are people by themselves.
    pairs : DataFrame, optional
        The ``pairs_`` of a `Matching` with replacement. The errors of the difference are those of
        Abadie and Imbens (2006), with a conditional variance of outcomes that is the same for
        everybody, and other measures have none.
    estimand : {"att", "atc", "ate"}, default "att"
        That of the matching, with ``pairs``.
    kind : {"HC0", "HC1"}, default "HC1"
        Without a weight model, "HC1" multiplies variances by n / (n − 2), or by G / (G − 1) ·
        (n − 1) / (n − 2) with G clusters, as R's sandwich. M-estimation has no such factor.
    level : float, default 0.95
        Coverage of the limits.

    Returns
    -------
    DataFrame
        One row per ``measure``: "target mean", "comparator mean", "difference", and, if all means
        are positive, "ratio" and, of an outcome of 0 and 1, "odds ratio"; with ``estimate``,
        ``se`` (of the logarithm for ratios), ``lower`` and ``upper``. ``attrs["errors"]`` names
        the kind of errors. ``plot`` draws the measures as a forest.

    Raises
    ------
    DataError
        Shapes disagree, or a group has no one.

    References
    ----------
    Lunceford and Davidian (2004), Statistics in Medicine 23:2937–2960. Abadie and Imbens (2006),
    Econometrica 74:235–267.

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import PropensityWeights, compare_means
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> treatment = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> died = (rng.random(500) < 1 / (1 + np.exp(1 - treatment - X[:, 0]))).astype(int)
    >>> weights = PropensityWeights(estimand="ate").fit(X, treatment)
    >>> table = compare_means(died, treatment, weights.weights_, weight_model=weights)
    >>> table[["measure", "estimate"]].round(2)
               measure  estimate
    0      target mean      0.52
    1  comparator mean      0.34
    2       difference      0.18
    3            ratio      1.55
    4       odds ratio      2.15
    >>> table.attrs["errors"]
    'M-estimation'
    """
    y, t = require_numbers("outcome", outcome), require_arms(treatment, "treatment") == 1
    w = np.ones(len(y)) if weights is None else require_numbers("weights", weights)
    if not len(y) == len(t) == len(w):
        raise DataError(
            f"outcome has {len(y)} rows, treatment {len(t)} and weights {len(w)}; they must agree."
        )
    _check_settings(w, kind, level, pairs, weight_model is not None or cluster is not None)
    means, influences = _means(y, t, w)
    if weight_model is not None:
        own = weight_model.values
        if len(own) != len(w) or not np.allclose(own, w):
            raise DataError("The weights are not those of weight_model; pass its own.")
        influences = influences + weight_model.influences(influences)
    codes = None if cluster is None else cluster_codes(cluster, len(y))
    n, groups = int((w > 0).sum()), None if codes is None else len(np.unique(codes[w > 0]))
    if groups == 1:
        raise DataError("cluster has one label; errors by clusters need two or more.")
    V = summed_products(influences, codes)
    name = "M-estimation"
    if weight_model is None:
        V = V * (small_sample_factor(n, groups) if kind == "HC1" else 1.0)
        name = kind + ("" if cluster is None else " by clusters")
    binary = bool(np.isin(y[w > 0], (0.0, 1.0)).all())
    z = float(ndtri(0.5 + level / 2))
    if pairs is None:
        table = _measures(means, V, binary, z)
    else:
        table, name = _with_replacement(y, t, means, pairs, estimand, z), "Abadie and Imbens"
    table.attrs["errors"] = name
    shown = Interval("Effect", "estimate", "lower", "upper", level)
    return present(table, "forest", intervals=(shown,), labels=("measure",), hidden=("se",))


def _check_settings(
    w: NDArray, kind: str, level: float, pairs: pd.DataFrame | None, others: bool
) -> None:
    """Refuse weights below zero, and settings without a meaning or an effect."""
    check_level(level)
    if (w < 0).any():
        raise DataError(f"weights: row {int(np.argmax(w < 0))} (counted from 0) is negative.")
    if kind not in ("HC0", "HC1"):
        raise DataError(f"kind must be 'HC0' or 'HC1', not {kind!r}.")
    if pairs is not None and others:
        raise DataError("pairs has errors of its own; leave out cluster and weight_model.")


def _with_replacement(
    y: NDArray, t: NDArray, means: NDArray, pairs: pd.DataFrame, estimand: str, z: float
) -> pd.DataFrame:
    """Tabulate means and the difference with the errors of matching with replacement."""
    row, other, weight = (pairs[name].to_numpy() for name in ("person", "match", "weight"))
    name = check_estimand(estimand, ("att", "atu", "ate"))
    sides = {"att": [True], "atu": [False], "ate": [False, True]}[name]
    if np.unique(t[row]).tolist() != sides:
        raise DataError(f"The pairs are not those of estimand={estimand!r}; give the matching's.")
    value, se = matching_estimate(y, t, (row, other, weight), name)
    if not np.isclose(value, means[0] - means[1]):
        raise DataError("The pairs are not those of the weights; pass both of the same Matching.")
    table = _measures(means, np.full((2, 2), np.nan), False, z).iloc[:3]
    table.loc[2, ["se", "lower", "upper"]] = se, value - z * se, value + z * se
    return table


def _means(y: NDArray, t: NDArray, w: NDArray) -> tuple[NDArray, NDArray]:
    """Return the means of target and comparator, (2,), and people's influences, (n, 2)."""
    shares = np.column_stack([np.where(t, w, 0.0), np.where(t, 0.0, w)])
    total = shares.sum(axis=0)
    if not total.all():
        raise DataError("A group has nobody with a positive weight.")
    shares = shares / total
    means = y @ shares
    return means, shares * (y[:, None] - means)


def cluster_codes(cluster: ArrayLike, n: int) -> NDArray:
    """Return codes of clusters, (n,); people with negative numbers are by themselves."""
    given = np.asarray(cluster)
    if given.shape != (n,):
        raise DataError(f"cluster has shape {given.shape}; one label for each of {n} people.")
    codes = pd.factorize(given)[0].astype(np.int64)
    if (codes < 0).any():
        row = int(np.argmin(codes))
        raise DataError(f"cluster: row {row} (counted from 0) is missing; give it a label.")
    if given.dtype.kind == "i" and (given < 0).any():
        alone = given < 0
        codes[alone] = codes.max() + 1 + np.arange(int(alone.sum()))
        codes = pd.factorize(codes)[0].astype(np.int64)
    return codes


def small_sample_factor(n: int, groups: int | None) -> float:
    """Return the small-sample factor of sandwich for a model of two coefficients."""
    if groups is None:
        return n / max(n - 2, 1)
    return groups / max(groups - 1, 1) * (n - 1) / max(n - 2, 1)


def _measures(means: NDArray, V: NDArray, binary: bool, z: float) -> pd.DataFrame:
    """Tabulate means, their difference, ratio and odds ratio."""
    rows = [
        (f"{arm} mean", float(mean), float(np.sqrt(variance)))
        for arm, mean, variance in zip(("target", "comparator"), means, np.diag(V), strict=True)
    ]
    rows += contrasts("group mean", means, V, odds=binary)
    made = []
    for name, value, se in rows:
        ends = np.array([value, value - z * se, value + z * se])
        estimate, lower, upper = map(float, np.exp(ends) if is_ratio(name) else ends)
        made.append((name, estimate, se, lower, upper))
    return pd.DataFrame(made, columns=["measure", "estimate", "se", "lower", "upper"])
