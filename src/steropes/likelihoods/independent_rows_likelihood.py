"""Likelihoods with one outcome per row, in which rows are independent given η."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..backends.backend_interface import Array, Backend
from .likelihood_interface import Likelihood, stack_outcomes

__all__ = ["IndependentRowsLikelihood"]


class IndependentRowsLikelihood(Likelihood):
    """Base class of Σ w_i f(y_i, η_i), such as the likelihoods of generalised linear models.

    A subclass implements `evaluate` and `curvature`.

    Parameters
    ----------
    y : (n,) array
        Outcomes, which are copied.

    Attributes
    ----------
    y : (n, 1) array
        Outcomes on the backend; (n, B) after `combine_outcomes`.
    """

    y: Array

    def __init__(self, y: np.ndarray, backend: Backend) -> None:
        super().__init__(backend)
        self.n = self.effective_rows = len(y)
        self.y = backend.asarray(np.array(y, np.float64)[:, None])

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""
        return self.evaluate(eta, weights)[0]

    def combine_outcomes(self, likelihoods: Sequence[Any], lanes: int) -> Self:
        """See `Likelihood.combine_outcomes`."""
        out = copy.copy(self)
        out._repeated = {}
        out.many_outcomes = True
        out.y = stack_outcomes([x.y for x in likelihoods], lanes, self.backend)
        return out

    def of_lane(self, lane: int) -> Self:
        """See `Likelihood.of_lane`."""
        if not self.many_outcomes:
            return self
        out = copy.copy(self)
        out._repeated = {}
        out.many_outcomes = False
        out.y = self.y[:, lane : lane + 1]
        return out

    def predictor_scores(self, eta: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        """Return the derivative of each row's log-likelihood in η, (n,), at weights of one.

        Parameters
        ----------
        eta : (n,) array
            Linear predictor of one replicate.
        fitted : (n,) array
            Weights of the fit, which determine an estimated dispersion.
        """
        asarray = self.backend.asarray
        weights = self.weigh(asarray(np.ones((self.n, 1))))
        slope = self.evaluate(asarray(eta[:, None]), weights)[1]
        return -np.asarray(self.backend.to_host(slope))[:, 0]
