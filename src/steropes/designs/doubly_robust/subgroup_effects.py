"""Effects within subgroups, with tests and intervals that hold for all of them together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.design_matrix import has_names
from steropes.designs.doubly_robust.joint_intervals import joint_quantile
from steropes.designs.values.table_reading import in_memory, read_columns
from steropes.errors import DataError

__all__ = ["read_subgroups", "subgroup_effects"]


def read_subgroups(groups: object, n: int) -> dict[tuple[str, object], NDArray]:
    """Return who is in each level of each column, (n,) bool, by (column, level).

    Parameters
    ----------
    groups : data frame, or mapping of labels of people by the name of a column

    Raises
    ------
    DataError
        A column has another length, missing labels, or one level only.
    """
    groups = in_memory(groups)
    if has_names(groups):
        table = read_columns(groups, None, "groups")
        groups = {str(name): table[name] for name in table}
    if not isinstance(groups, Mapping) or not groups:
        raise DataError("groups must be a data frame or a mapping of labels by column.")
    found: dict[tuple[str, object], NDArray] = {}
    for name, labels in groups.items():
        own = pd.Series(np.asarray(labels))
        if len(own) != n:
            raise DataError(f"{name!r} has {len(own)} rows and the fit {n}; they must agree.")
        if own.isna().any():
            row = int(own.isna().to_numpy().argmax())
            raise DataError(
                f"{name!r} is missing in row {row} (counted from 0); give it a label of its own."
            )
        levels = sorted(own.unique().tolist())
        if len(levels) < 2:
            raise DataError(f"{name!r} has one level only, so that it has no subgroups.")
        found |= {(str(name), level): (own == level).to_numpy() for level in levels}
    return found


def subgroup_effects(
    pseudo: NDArray, weights: NDArray, target: NDArray,
    groups: Mapping[tuple[str, object], NDArray], clusters: NDArray | None, level: float,
    draws: int, seed: int,
) -> pd.DataFrame:  # fmt: skip
    """Average pseudo-outcomes within subgroups and compare each with everybody else.

    Parameters
    ----------
    pseudo, weights : ndarray, shape (n,)
    target : ndarray of bool, shape (n,)
    groups : mapping of ndarray of bool, shape (n,)
        By (column, level).
    clusters : ndarray of int, shape (n,), or None
    draws, seed : int
        Of the multipliers of joint intervals.

    Returns
    -------
    DataFrame
        A row per subgroup, see `DoublyRobust.subgroups`.
    """
    rows, own, apart = [], [], []
    for (column, name), inside in groups.items():
        people = [int((inside & (target == arm)).sum()) for arm in (True, False)]
        if min(people) == 0:
            raise DataError(
                f"{column!r}: the subgroup {name!r} has people of one group only; merge it with "
                "another."
            )
        value, influence = _mean(pseudo, weights * inside)
        other, of_others = _mean(pseudo, weights * ~inside)
        own.append(influence)
        apart.append(influence - of_others)
        rows.append((column, name, *people, value, value - other))
    table = pd.DataFrame(
        rows, columns=["column", "level", "target", "comparator", "estimate", "difference"]
    )
    z = float(norm.ppf(0.5 + level / 2))
    of_values, of_differences = np.column_stack(own), np.column_stack(apart)
    se, difference_se = (_errors(x, clusters) for x in (of_values, of_differences))
    quantile = joint_quantile(of_values, clusters, level, draws, seed)[0]
    largest = joint_quantile(of_differences, clusters, level, draws, seed)[1]
    size = np.abs(table["difference"].to_numpy()) / difference_se
    estimate = table["estimate"]
    return table.assign(
        se=se, lower=estimate - z * se, upper=estimate + z * se,
        joint_lower=estimate - quantile * se, joint_upper=estimate + quantile * se,
        difference_se=difference_se, p=2 * norm.sf(size),
        p_adjusted=(1 + (largest[:, None] >= size).sum(axis=0)) / (1 + len(largest)),
    )  # fmt: skip


def _mean(pseudo: NDArray, weights: NDArray) -> tuple[float, NDArray]:
    """Return a weighted mean and everybody's influence on it."""
    share = weights / weights.sum()
    value = float(share @ pseudo)
    return value, share * (pseudo - value)


def _errors(influence: NDArray, clusters: NDArray | None) -> NDArray:
    """Return the standard errors of columns of influences; of clusters times √(G/(G − 1))."""
    if clusters is None:
        return np.sqrt((influence**2).sum(axis=0))
    size = int(clusters.max()) + 1
    summed = np.zeros((size, influence.shape[1]))
    np.add.at(summed, clusters, influence)
    return np.sqrt((summed**2).sum(axis=0) * size / max(size - 1, 1))
