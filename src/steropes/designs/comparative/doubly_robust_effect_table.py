"""Rows of doubly robust effects: measures of means, medians over repeats, other bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.comparative.doubly_robust_inputs import Outcome, Settings
from steropes.designs.comparative.effect_table_rows import EffectRow, contrasts
from steropes.designs.doubly_robust.counterfactual_means import (
    ArmMeans,
    Method,
    Nuisances,
    People,
    arm_means,
    probabilities,
)
from steropes.infer.errors_with_estimated_weights import summed_products

__all__ = [
    "Repeats", "covariance", "estimate_outcome", "median_rule", "name_of_errors",
    "rows_of_outcome", "truncation_rows", "with_covariances",
]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Repeats:
    """An outcome of people, with predictions of each repeat of the cross-fitting."""

    people: People
    nuisances: list[Nuisances]

    @property
    def statistic(self) -> str:
        """Name of the statistic, which determines the measures."""
        people = self.people
        return Outcome(np.where(people.observed, people.y, np.nan)).statistic


def estimate_outcome(repeats: Repeats, settings: Settings, bound: float) -> list[ArmMeans]:
    """Estimate the means of both treatments in each repeat."""
    return [
        arm_means(
            repeats.people, each.bounded(bound), settings.estimand,
            cast(Method, settings.method), settings.targeting,
        )
        for each in repeats.nuisances
    ]  # fmt: skip


def with_covariances(
    found: Iterable[ArmMeans], clusters: NDArray | None
) -> list[tuple[NDArray, NDArray]]:
    """Return both means with their covariance in each repeat."""
    return [(each.values, covariance(each.influence, clusters)) for each in found]


def rows_of_outcome(
    statistic: str, found: Sequence[tuple[NDArray, NDArray]], method: str, how: str, level: float
) -> list[EffectRow]:
    """Make the rows of an outcome's measures.

    Parameters
    ----------
    statistic : str
        Name of the statistic, which determines the measures.
    found : sequence of (means, covariance)
        Of each repeat.
    method, how : str
        Name of the method, and kind of its errors.
    """
    measures: dict[str, list[tuple[float, float]]] = {}
    for values, V in found:
        for measure, value, se in contrasts(statistic, values, V):
            measures.setdefault(measure, []).append((value, se))
    groups = np.median([values for values, _ in found], axis=0)
    rows = []
    for measure, pairs in measures.items():
        if len(pairs) < len(found):  # a ratio that is not defined in all repeats
            continue
        value, se = median_rule(pairs)
        rows.append(
            EffectRow.of(method, measure, value, se, how, level,
                         groups=(float(groups[0]), float(groups[1])))
        )  # fmt: skip
    return rows


def name_of_errors(crossed: bool, clusters: NDArray | None, stacked: bool = False) -> str:
    """Describe the sources of uncertainty that the errors include."""
    how = "influence function" + (", cross-fitted" if crossed else "")
    if stacked:
        how = "stacked equations (include score and outcome models)"
    return how + ("" if clusters is None else ", clustered")


def covariance(influence: NDArray, clusters: NDArray | None) -> NDArray:
    """Compute the covariance of both means, (2, 2); of clusters times G/(G − 1)."""
    V = summed_products(influence, clusters)
    if clusters is None:
        return V
    size = int(clusters.max()) + 1
    return np.asarray(V * size / max(size - 1, 1))


def median_rule(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the median estimate, and the error from the median of variance plus distance²."""
    values, errors = np.array(list(pairs)).T
    value = float(np.median(values))
    return value, float(np.sqrt(np.median(errors**2 + (values - value) ** 2)))


def truncation_rows(
    outcomes: Mapping[str, Repeats], bounds: Iterable[float], settings: Settings,
    clusters: NDArray | None, level: float,
) -> pd.DataFrame:  # fmt: skip
    """Tabulate the effects under several bounds of the scores."""
    rows = []
    for bound in bounds:
        for name, repeats in outcomes.items():
            shared = {"bound": bound, "bounded": _bounded(repeats, bound)}
            shared["largest_weight"] = _largest_weight(repeats, bound)
            found = with_covariances(estimate_outcome(repeats, settings, bound), clusters)
            for row in rows_of_outcome(repeats.statistic, found, settings.method, "", level):
                kept = {k: getattr(row, k) for k in ("measure", "estimate", "lower", "upper", "se")}
                rows.append({"outcome": name, **shared, **kept})
    order = ["bound", "outcome", "measure", "estimate", "lower", "upper", "se", "bounded"]
    table = pd.DataFrame(rows)[[*order, "largest_weight"]]
    return table if any(outcomes) else table.drop(columns="outcome")


def _bounded(repeats: Repeats, bound: float) -> float:
    """Return the share of people whose score the bound changes, over all repeats."""
    scores = np.array([each.score for each in repeats.nuisances])
    return float(((scores < bound) | (scores > 1 - bound)).mean())


def _largest_weight(repeats: Repeats, bound: float) -> float:
    """Return the largest inverse probability of somebody's own treatment."""
    target = repeats.people.target
    largest = 0.0
    for each in repeats.nuisances:
        both = probabilities(each.bounded(bound))
        own = np.where(target, both[:, 0], both[:, 1])[repeats.people.observed]
        largest = max(largest, float(1 / own.min()) if own.min() > 0 else np.inf)
    return largest
