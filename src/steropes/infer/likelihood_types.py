"""Types of likelihoods with the methods that some kinds of inference need, for type checkers."""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np

from ..backends.backend_interface import Array, Backend
from ..fit import Problem
from ..likelihoods import CoxLikelihood
from ..likelihoods.cumulative import CumulativeLikelihood

__all__ = ["EventLikelihood", "cox_likelihood", "cumulative_likelihood", "event_likelihood"]


class EventLikelihood(Protocol):
    """A likelihood of events, with residuals of its rows.

    Attributes
    ----------
    backend : Backend
    """

    backend: Backend

    @property
    def row_of_x(self) -> np.ndarray:
        """The row of X of each row of η."""

    def events(self) -> np.ndarray:
        """Return the events of each row of η."""

    def martingale_residuals(self, eta: Array, weights: object) -> Array:
        """Compute weighted events minus expected events of each row of η, (n_eta, 1)."""

    def deviances(self, eta: Array) -> np.ndarray:
        """Compute −2 log-likelihood of each row of X, if the likelihood is a sum over rows."""


def cox_likelihood(problem: Problem) -> CoxLikelihood:
    """Return the likelihood of a problem that must be a Cox or Fine–Gray model."""
    likelihood = problem.likelihood
    assert isinstance(likelihood, CoxLikelihood)
    return likelihood


def cumulative_likelihood(problem: Problem) -> CumulativeLikelihood | None:
    """Return the likelihood of a problem if it is a cumulative model, otherwise None."""
    likelihood = problem.likelihood
    return likelihood if isinstance(likelihood, CumulativeLikelihood) else None


def event_likelihood(problem: Problem) -> EventLikelihood:
    """Return the likelihood of a problem that must be a model of events."""
    return cast(EventLikelihood, problem.likelihood)
