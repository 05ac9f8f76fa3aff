"""Interface of a model with its data for the checks of separation and identifiability."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..design_matrix.design_interfaces import DesignLike
from ..likelihoods import Likelihood
from ..priors import GroupPenalty, Prior, SmoothTerm

__all__ = ["SolverProblem"]


class SolverProblem(Protocol):
    """A model with its data; `steropes.fit.Problem` is one.

    Attributes
    ----------
    design : DesignLike
    likelihood : Likelihood
    weights : (n,) array
        Row weights, in the rows of X.
    offset : (n,) array or None
    prior : Prior or None
    n_free : int
        Number of leading columns (the intercept, a baseline) without a prior.
    n_constant : int
        How many of these add up to a constant.
    start : float
        Initial value of the constant.
    """

    @property
    def design(self) -> DesignLike:
        """The columns."""

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood."""

    @property
    def weights(self) -> np.ndarray:
        """Row weights."""

    @property
    def offset(self) -> np.ndarray | None:
        """The offset."""

    @property
    def prior(self) -> Prior | None:
        """The prior."""

    @property
    def n_free(self) -> int:
        """Number of leading columns without a prior."""

    @property
    def n_constant(self) -> int:
        """Number of columns that add up to a constant."""

    @property
    def start(self) -> float:
        """Initial value of the constant."""

    def smooth_term(self) -> SmoothTerm | None:
        """Return the smooth term of the prior, if it has one."""

    def group_penalty(self, prior: Prior | None) -> GroupPenalty | None:
        """Return a prior's group penalty over all columns, if it has one."""
