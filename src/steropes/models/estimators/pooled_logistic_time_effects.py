"""Intervals of time, baseline and time-varying effects of pooled logistic models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data.discrete_time_intervals import TimeIntervals
from ...design_matrix import Design
from ...design_matrix.time_basis import baseline_basis, channels
from ...design_matrix.time_channel_design import ChannelDesign
from ...errors import DataError

__all__ = ["DiscreteTime"]


@dataclass(frozen=True)
class DiscreteTime:
    """The role of time in a fit, constructed from the settings and kept for predictions.

    Attributes
    ----------
    basis : (K, M) array
        Basis functions of the baseline in each interval.
    functions : (K, Q) array
        Functions of time by which effects vary.
    pairs : list of (column, function)
        Columns with varying effects, each with a function.
    baseline_names, effect_names : list of str
        Names of the coefficients.
    """

    intervals: TimeIntervals
    basis: np.ndarray
    functions: np.ndarray
    pairs: list[tuple[int, int]]
    baseline_names: list[str]
    effect_names: list[str]

    @classmethod
    def of(
        cls, intervals: TimeIntervals, baseline: object, time_varying: object, columns: list[str]
    ) -> DiscreteTime:
        """Construct from the settings of a model of X with these columns."""
        basis, names, _ = baseline_basis(baseline, intervals.K)
        functions, pairs = channels(time_varying, columns, intervals.K)
        F = np.zeros((len(basis), 0))
        if functions:
            F = np.column_stack([f.values for f in functions])
        effects = [*columns, *(f"{columns[j]}:{functions[q].name}" for j, q in pairs)]
        seen = set(names)
        for name in effects:
            if name in seen:
                raise DataError(
                    f"Two coefficients would be called {name!r}; rename the column of X."
                )
            seen.add(name)
        return cls(intervals, basis, F, pairs, names, effects)

    @property
    def names(self) -> list[str]:
        """Names of all coefficients."""
        return [*self.baseline_names, *self.effect_names]

    def design(self, X: Design) -> ChannelDesign:
        """Extend X by the columns of the baseline and by products with time, computed lazily."""
        return ChannelDesign(X, self.basis, self.functions, self.pairs, self.names)
