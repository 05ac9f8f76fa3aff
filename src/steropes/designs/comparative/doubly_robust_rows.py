"""Rows of doubly robust effects: measures of means, medians over repeats, other bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.comparative.doubly_robust_inputs import Outcome, Settings
from steropes.designs.comparative.effect_rows import EffectRow, contrasts
from steropes.designs.doubly_robust.arm_means import (
    ArmMeans,
    Nuisances,
    People,
    arm_means,
    probabilities,
)
from steropes.infer.estimated_weights import summed_products

__all__ = ["Repeats", "estimate_outcome", "median_rule", "rows_of_outcome", "truncation_rows"]


@dataclass(frozen=True, repr=False)
class Repeats:
    """An outcome of people, with what models predict in each repeat of the cross-fitting."""

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
            repeats.people, each.bounded(bound), settings.estimand, settings.method,
            settings.targeting,
        )
        for each in repeats.nuisances
    ]  # fmt: skip


def rows_of_outcome(
    repeats: Repeats, found: list[ArmMeans], method: str, clusters: NDArray | None, level: float,
    crossed: bool,
) -> list[EffectRow]:  # fmt: skip
    """Make the rows of an outcome's measures."""
    measures: dict[str, list[tuple[float, float]]] = {}
    for each in found:
        V = covariance(each.influence, clusters)
        for measure, value, se in contrasts(repeats.statistic, each.values, V):
            measures.setdefault(measure, []).append((value, se))
    groups = np.median([each.values for each in found], axis=0)
    how = "influence function" + (", cross-fitted" if crossed else "")
    how += "" if clusters is None else ", clustered"
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
            found = estimate_outcome(repeats, settings, bound)
            for row in rows_of_outcome(repeats, found, settings.method, clusters, level, True):
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
