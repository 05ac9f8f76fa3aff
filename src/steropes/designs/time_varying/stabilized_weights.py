"""Stabilised weights of treatments that change with time, and of losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.target_trials.person_time import PersonTime
from steropes.designs.target_trials.weights_over_time import (
    FittedProbability,
    ProbabilityModel,
    Ratio,
    cumulative_ratios,
)
from steropes.designs.time_varying.weights_from_hazards import HazardProbability

__all__ = ["StabilizedWeights"]


@dataclass(frozen=True, repr=False)
class StabilizedWeights:
    """Weights of person-time by the probabilities of its treatments and of no loss so far.

    Attributes
    ----------
    rows : PersonTime
    baseline, confounders : tuple of str
        Columns of the numerator, and the further ones of the denominator.
    has_losses : bool
        Whether losses have weights.
    once : bool
        Whether only the start of treatment is weighted.
    kind : {"logistic", "cox"}
        Models of the probabilities.
    stabilized : bool
        Whether weights have a numerator.
    truncate : float or None
        Quantile to which larger weights are reduced.
    time_degree : int
        Degree of the polynomial of time in logistic models.
    weight_model : estimator or None
        Unfitted logistic model; None is that by maximum likelihood.
    """

    rows: PersonTime
    baseline: tuple[str, ...]
    confounders: tuple[str, ...]
    has_losses: bool
    once: bool
    kind: str
    stabilized: bool
    truncate: float | None
    time_degree: int
    weight_model: Any = None

    @property
    def time(self) -> NDArray[np.int64]:
        """Number of the period of each row within its person, from 1 on."""
        return np.arange(self.rows.n) - self.rows.starts[self.rows.person] + 1

    @cached_property
    def columns(self) -> pd.DataFrame:
        """Columns of the models of the weights: those of the table, and a polynomial of time."""
        degree = min(self.time_degree, len(np.unique(self.time)) - 1)
        polynomial = {f"time^{d}": self.time.astype(np.float64) ** d for d in range(1, degree + 1)}
        return pd.concat([self.rows.data, pd.DataFrame(polynomial)], axis=1)

    @property
    def ratio(self) -> Ratio:
        """Columns of the numerator and of the denominator."""
        rows, X = self.rows, self.columns
        polynomial = [] if self.kind == "cox" else list(X.columns[rows.data.shape[1] :])
        base = [*rows.coded(self.baseline), *polynomial]
        above = base if self.stabilized else None
        return Ratio(above, [*base, *rows.coded(self.confounders)])

    @property
    def probabilities(self) -> list[ProbabilityModel | HazardProbability]:
        """The models of the treatment and of remaining uncensored."""
        rows = self.rows
        at_risk = rows.previous == 0 if self.once else np.ones(rows.n, dtype=bool)
        every = np.ones(rows.n, dtype=bool)
        found: list[ProbabilityModel | HazardProbability]
        if self.kind == "cox":
            found = [
                HazardProbability("treatment", rows.period, rows.treatment, at_risk),
                HazardProbability("loss", rows.period, rows.censored, every, False),
            ]
        else:
            uncensored = (1 - rows.censored).astype(np.int8)
            found = [
                ProbabilityModel(
                    "treatment", rows.treatment, at_risk, rows.previous, self.weight_model
                ),
                ProbabilityModel(
                    "remaining uncensored", uncensored, every, rows.treatment, self.weight_model,
                    whatever_happened=False,
                ),
            ]  # fmt: skip
        return found if self.has_losses else found[:1]

    def weights(self, drawn: NDArray | None = None) -> NDArray[np.float64]:
        """Compute the weight of each row, (n,), or of a draw with these numbers of rows."""
        ratio = np.ones(self.rows.n)
        for of in self.probabilities:
            ratio = ratio * of.ratio(self.columns, self.ratio, drawn)
        w = cumulative_ratios(ratio, self.rows.starts)
        return w if self.truncate is None else np.minimum(w, np.quantile(w, self.truncate))

    def fitted(self) -> Iterator[FittedProbability]:
        """Yield the fitted logistic models."""
        for of in self.probabilities:
            if isinstance(of, ProbabilityModel):
                yield from of.fitted(self.columns, self.ratio)

    def table(self, w: NDArray) -> pd.DataFrame:
        """Describe the weights in each period since the first of a person."""
        frame = pd.DataFrame({"time": self.time, "w": w, "square": w * w, "y": self.rows.outcome})
        by = frame.groupby("time")
        total = by["w"].sum()
        return pd.DataFrame(
            {"at_risk": by.size(), "events": by["y"].sum(), "mean": by["w"].mean(),
             "largest": by["w"].max(), "effective_size": total**2 / by["square"].sum()}
        ).reset_index()  # fmt: skip
