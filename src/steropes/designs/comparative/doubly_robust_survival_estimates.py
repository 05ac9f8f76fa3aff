"""Doubly robust risks and restricted means of both treatments, with influences and curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.comparative.doubly_robust_effect_table import covariance, rows_of_outcome
from steropes.designs.comparative.effect_table_rows import EffectRow
from steropes.designs.doubly_robust.counterfactual_means import Method
from steropes.designs.doubly_robust.discrete_survival import FollowUp, Hazards, arm_contributions
from steropes.designs.doubly_robust.nuisance_models import GROUPS
from steropes.designs.doubly_robust.survival_targeting import targeted_hazards

__all__ = ["ArmRisks", "Functional", "SurvivalEstimates", "functionals"]


@dataclass(frozen=True, repr=False)
class Functional:
    """A risk or a restricted mean: a constant plus a sum of risks.

    Attributes
    ----------
    statistic : str
        Name of the statistic, which determines the measures.
    cause : int
        0 for event-free time.
    step : int
        Number of intervals.
    constant : float
    coefficients : ndarray, shape (K, J)
    """

    statistic: str
    cause: int
    step: int
    constant: float
    coefficients: NDArray


def functionals(steps: Sequence[int], count: int, causes: int, width: float) -> list[Functional]:
    """List the risks of all causes and the restricted means at some intervals."""
    found = []
    for step in steps:
        for cause in range(1, causes + 1):
            c = np.zeros((count, causes))
            c[step - 1, cause - 1] = 1.0
            found.append(Functional("risk", cause, step, 0.0, c))
        c = np.zeros((count, causes))
        c[: step - 1] = -width
        found.append(Functional("restricted mean", 0, step, step * width, c))
    return found


@dataclass(frozen=True, repr=False)
class ArmRisks:
    """Hazards of everybody under one treatment, with what the influence function needs.

    Attributes
    ----------
    own : ndarray of bool, shape (n,)
        Who has the treatment.
    factor : ndarray, shape (n,)
        q / e_a.
    inside : ndarray, shape (n,)
        Who is in the population.
    """

    follow_up: FollowUp
    hazards: Hazards
    own: NDArray
    factor: NDArray
    inside: NDArray
    bound: float
    weights: NDArray

    @cached_property
    def augmented(self) -> NDArray:
        """Pseudo-outcomes of the risks of all causes by the end of each interval, (n, K, J)."""
        return self._contributions(self.hazards)

    def contributions(self, what: Functional, method: Method) -> NDArray:
        """Compute pseudo-outcomes of a functional, (n,)."""
        risks = self.augmented
        if method == "tmle":
            risks = self._contributions(targeted_hazards(
                self.follow_up, self.hazards, self.own, self.factor, self.bound, self.weights,
                what.coefficients,
            ))  # fmt: skip
        whole = what.constant * self.inside
        return np.asarray(whole + np.tensordot(risks, what.coefficients, axes=2))

    def _contributions(self, hazards: Hazards) -> NDArray:
        return arm_contributions(
            self.follow_up, hazards, self.own, self.factor, self.inside, self.bound
        )


@dataclass(frozen=True, repr=False)
class SurvivalEstimates:
    """Functionals of both treatments with their covariance in each repeat.

    Attributes
    ----------
    wanted : sequence of Functional
    found : list of list of (ndarray, ndarray)
        Values and covariance by functional and repeat.
    influence : DataFrame, shape (n, number of differences)
        Means over repeats, by (measure, cause, time).
    curves : DataFrame
    how : str
        Kind of the errors.
    """

    wanted: Sequence[Functional]
    found: list[list[tuple[NDArray, NDArray]]]
    influence: pd.DataFrame
    curves: pd.DataFrame
    how: str

    @classmethod
    def of(
        cls, repeats: Sequence[Sequence[ArmRisks]], wanted: Sequence[Functional], width: float,
        method: Method, how: str, clusters: NDArray | None,
    ) -> SurvivalEstimates:  # fmt: skip
        """Estimate functionals of both treatments."""
        inside, weights = repeats[0][0].inside, repeats[0][0].weights
        share = weights / float(weights @ inside)
        influences: dict[tuple[str, int, float], NDArray] = {}
        found: list[list[tuple[NDArray, NDArray]]] = []
        for what in wanted:
            found.append([])
            parts = []
            for arms in repeats:
                both = np.column_stack([arm.contributions(what, method) for arm in arms])
                values = share @ both
                influence = share[:, None] * (both - inside[:, None] * values)
                found[-1].append((values, covariance(influence, clusters)))
                parts.append(influence[:, 0] - influence[:, 1])
            difference = f"{what.statistic} difference"
            influences[difference, what.cause, what.step * width] = np.mean(parts, axis=0)
        return cls(wanted, found, pd.DataFrame(influences), _curves(repeats, share, width), how)

    def rows(
        self, method: str, level: float, cause: int | None = None
    ) -> list[tuple[Functional, EffectRow]]:
        """Make the rows of all measures, or of one cause and event-free time."""
        return [
            (what, row)
            for what, found in zip(self.wanted, self.found, strict=True)
            if cause is None or what.cause in (0, cause)
            for row in rows_of_outcome(what.statistic, found, method, self.how, level)
        ]


def _curves(repeats: Sequence[Sequence[ArmRisks]], share: NDArray, width: float) -> pd.DataFrame:
    """Tabulate the augmented risks of both treatments, averaged over repeats."""
    rows = []
    for k, group in enumerate(GROUPS):
        average = np.mean([np.tensordot(share, arms[k].augmented, axes=1) for arms in repeats], 0)
        rows += [
            (t * width + width, j + 1, group, float(average[t, j]))
            for j in range(average.shape[1])
            for t in range(average.shape[0])
        ]
    return pd.DataFrame(rows, columns=["time", "cause", "group", "risk"])
