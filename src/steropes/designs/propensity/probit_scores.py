"""Propensity scores of a probit model, and the influence of people through their estimation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import log_ndtr

from steropes.design_matrix import Design
from steropes.design_matrix.working_columns_by_row import RowMatrix
from steropes.errors import DataError
from steropes.infer.likelihood_types import cumulative_likelihood
from steropes.models.cumulative.cumulative_probability_model import CumulativeProbabilityModel

__all__ = ["ProbitScores"]

LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)


class ProbitScores:
    """Scores Φ(x'β − α) of a cumulative probability model of two arms.

    Parameters
    ----------
    model : CumulativeProbabilityModel
        Fitted to an ordered category of two levels with ``link="probit"``.

    Attributes
    ----------
    arm : ndarray of int, shape (n,)
        Position of each person's arm.
    scores : ndarray, shape (n, 2)
    chain : ndarray, shape (n,)
        Derivatives of the logits of the scores in the linear predictors.

    Raises
    ------
    DataError
        The model has another link, or more levels than two.
    """

    def __init__(self, model: CumulativeProbabilityModel) -> None:
        if model.link != "probit" or len(model.alpha_) != 1:
            raise DataError(
                "Estimated weights take a CumulativeProbabilityModel of two arms with "
                'link="probit"; for logits take LogisticRegression.'
            )
        problem = model._require_data("estimated weights")
        design, likelihood = problem.design, cumulative_likelihood(problem)
        if not isinstance(design, Design) or likelihood is None:
            raise DataError("Estimated weights need a probit model that is fitted to a table.")
        levels = likelihood.levels
        self.arm = np.zeros(design.n, dtype=np.int64)
        self.arm[levels.order] = levels.low >= 0
        p = design.p
        self._rows = RowMatrix(design, np.arange(p), None, likelihood.backend)
        by_column = (model._beta * design.scale)[:, None]
        shift = float(design.center @ model._beta) - float(model.alpha_[0])
        eta = self._rows.matmul(by_column)[:, 0] + shift
        log_shares = np.column_stack([log_ndtr(-eta), log_ndtr(eta)])
        self.scores = np.exp(log_shares)
        log_density = -0.5 * eta**2 - LOG_ROOT_2PI
        self.chain = np.exp(log_density - log_shares.sum(axis=1))
        # The loss of a person is −log Φ(±η): its slope and curvature in η, times the weight.
        sign = 2 * self.arm - 1
        own = log_shares[np.arange(design.n), self.arm]
        slope = sign * np.exp(log_density - own)
        weight = np.asarray(problem.weights, dtype=float)
        self._slope, self._curvature = weight * slope, weight * slope * (slope + eta)

    def influences(self, derivative: NDArray) -> NDArray:
        """Compute the influence of people on quantities that depend on the linear predictors.

        Parameters
        ----------
        derivative : ndarray, shape (n, k)
            Derivatives of the quantities in each person's linear predictor.

        Returns
        -------
        ndarray, shape (n, k)
        """
        u, rows = self._curvature, self._rows
        across = rows.rmatmul(u[:, None])
        H = np.block([[np.full((1, 1), u.sum()), across.T], [across, rows.gram(u)]])
        by_coefficient = np.vstack([derivative.sum(axis=0), rows.rmatmul(derivative)])
        try:
            solved = linalg.solve(H, by_coefficient, assume_a="sym")
        except linalg.LinAlgError:
            raise DataError(
                "The information of the model of the weights is singular, so that errors cannot "
                "include its estimation. Remove collinear columns."
            ) from None
        return np.asarray(self._slope[:, None] * (solved[0] + rows.matmul(solved[1:])))
