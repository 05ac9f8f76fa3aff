"""People in two groups with covariates and an outcome."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from steropes.design_matrix import Design
from steropes.design_matrix.design_from_sparse_matrices import blocks_of_sparse
from steropes.designs.comparative.covariate_columns import CovariateColumns

__all__ = ["ComparisonTable", "Outcome"]


@dataclass(frozen=True, repr=False)
class Outcome:
    """The outcome of each person: a number, or a time with an event.

    Attributes
    ----------
    kind : {"binary", "continuous", "time"}
    y : ndarray, shape (n,)
        The numbers, or the times. Numbers that are not observed are NaN.
    event : ndarray of int, shape (n,), or None
        0 censored, 1 event, 2 a competing event.
    entry : ndarray, shape (n,), or None
        Start of the time at risk.
    """

    kind: Literal["binary", "continuous", "time"]
    y: NDArray
    event: NDArray | None = None
    entry: NDArray | None = None

    @property
    def observed(self) -> NDArray:
        """Who has an observed outcome, (n,) bool."""
        return ~np.isnan(self.y)

    @property
    def statistic(self) -> str:
        """Name of the statistic of numbers, which determines the measures."""
        if self.kind == "binary":
            return "risk"
        return "positive mean" if (self.y[self.observed] >= 0).all() else "mean"

    def take(self, rows: NDArray) -> Outcome:
        """Select rows."""
        event, entry = (None if x is None else x[rows] for x in (self.event, self.entry))
        return Outcome(self.kind, self.y[rows], event, entry)


@dataclass(frozen=True, repr=False)
class ComparisonTable:
    """People in two groups with covariates and an outcome.

    Attributes
    ----------
    X : DataFrame or Design, shape (n, p)
        Covariates; a `Design` of sparse columns if they were a long table.
    target : ndarray of int8, shape (n,)
        1 for the target group and 0 for the comparator.
    names : (str, str)
        Names of the target and of the comparator.
    outcome : Outcome
    ids : ndarray, shape (n,), or None
        Ids of people.
    described : DataFrame or None
        Columns of covariates for Table 1, with missing values.
    clusters : ndarray of int, shape (n,), or None
        Codes of clusters of people.
    cluster : str
        The column of the clusters.
    """

    X: pd.DataFrame | Design
    target: NDArray[np.int8]
    names: tuple[str, str]
    outcome: Outcome
    ids: NDArray | None = None
    described: pd.DataFrame | None = None
    clusters: NDArray | None = None
    cluster: str = ""

    @cached_property
    def columns(self) -> CovariateColumns:
        """The covariates by column, which all steps share."""
        return CovariateColumns(self.X)

    @property
    def n(self) -> int:
        """Number of people."""
        return len(self.target)

    @property
    def long(self) -> bool:
        """Whether the covariates were a long table."""
        return isinstance(self.X, Design)

    def take(self, rows: NDArray) -> ComparisonTable:
        """Select rows, which may repeat; ids are left out."""
        if isinstance(self.X, pd.DataFrame):
            X: pd.DataFrame | Design = self.X.iloc[rows].reset_index(drop=True)
        else:
            columns = self.columns
            parts = [x[rows] for _, x in columns.chunks()]
            drawn = sp.hstack([sp.csc_array(x) for x in parts], format="csc")
            X = Design(blocks_of_sparse(drawn, columns.names), columns.names)
        codes = (
            None if self.clusters is None else np.unique(self.clusters[rows], return_inverse=True)
        )
        return ComparisonTable(
            X, self.target[rows], self.names, self.outcome.take(rows), cluster=self.cluster,
            clusters=None if codes is None else codes[1],
        )  # fmt: skip
