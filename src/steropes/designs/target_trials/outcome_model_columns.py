"""Columns of the outcome model of sequential trials, computed from person-time when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.target_trials.columns_on_demand import columns_on_demand, rows_of
from steropes.designs.target_trials.sequential_trial_rows import TrialSequence
from steropes.errors import DataError
from steropes.fit.shards import ShardedDesign

__all__ = ["OutcomeColumns"]


@dataclass(frozen=True, repr=False)
class OutcomeColumns:
    """Treatment, powers of the trial's period, and covariates of person-trials.

    Attributes
    ----------
    trials : TrialSequence
    covariates : sequence of str
        Columns of the person-time.
    degree : int
        Degree of the polynomial of the trial's period.
    """

    trials: TrialSequence
    covariates: Sequence[str]
    degree: int

    @cached_property
    def first(self) -> float:
        """Period of the first trial."""
        return float(self.trials.trial.min())

    @cached_property
    def powers(self) -> dict[str, int]:
        """Powers of the trial's period by name."""
        distinct = len(np.unique(self.trials.trial))
        powers = range(1, min(self.degree, distinct - 1) + 1)
        return {"trial" if d == 1 else f"trial^{d}": d for d in powers}

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        own = ["treatment", *self.powers]
        for name in self.trials.rows.coded(self.covariates):
            if name in own:
                raise DataError(f"Rename the covariate {name!r}, a name of the outcome model.")
            own.append(name)
        return own

    def columns(self, which: NDArray, treatment: NDArray) -> list[NDArray]:
        """Return all columns for some person-trials under a treatment of each."""
        rows, at = self.trials.rows, self.trials.start[which]
        when = rows_of(rows.period, at) - self.first
        covariates = rows.coded(self.covariates)
        return [
            treatment, *(when**d for d in self.powers.values()),
            *(rows_of(rows.data[name].to_numpy(), at) for name in covariates),
        ]  # fmt: skip

    def table(self, which: NDArray, treatment: NDArray) -> pd.DataFrame:
        """Return the columns as a table."""
        columns = zip(self.names, self.columns(which, treatment), strict=True)
        return pd.DataFrame(dict(columns), copy=False)

    def matrix(self, which: NDArray, treatment: NDArray) -> pd.DataFrame | ShardedDesign:
        """Return X of a fit to some person-trials; see `columns_on_demand`."""

        def read(rows: slice) -> list[NDArray]:
            return self.columns(which[rows], treatment[rows])

        return columns_on_demand(self.names, read, len(which))
