"""Weights from an estimated propensity model, with which errors account for its estimation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from steropes.data.html_representations import TextInHtml
from steropes.designs.propensity.propensity_weights import Estimand, propensity_weights
from steropes.errors import DataError
from steropes.infer.independent_row_scores import outcome_and_predictor, row_scores
from steropes.infer.inference_constants import BLOCKS
from steropes.infer.survival_residuals import influences
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = ["EstimatedWeights"]


class EstimatedWeights(TextInHtml):
    """Weights by the propensity scores of a fitted model, with their dependence on its estimates.

    Robust errors of a weighted model take its weights as known. Passed as ``weight_model`` to
    ``vcov``, ``summary`` or ``confint`` of that model, this object adds the influence of each row
    on the propensity model, as R's ``WeightIt::glm_weightit`` does (M-estimation). Errors of
    effects in everybody ("ate") usually become smaller, those in the treated may become larger.

    Parameters
    ----------
    model : LogisticRegression
        Propensity model, fitted without a prior to all rows. Penalised estimates have a bias of
        the order of their errors, which influences do not include.
    estimand : {"att", "ate", "atu", "ato"}, default "att"
        As in `propensity_weights`.
    stabilized : bool, default True
        As in `propensity_weights`; the share of the target arm counts as an estimate.
    largest : float, optional
        As in `propensity_weights`; truncated weights count as constant.

    Attributes
    ----------
    values : ndarray, shape (n,)
        Weights in the order of the propensity model's rows, for ``sample_weight``. Multiply by
        zero to leave rows out.

    Raises
    ------
    DataError
        The model has a prior, or was unpickled without its data.

    References
    ----------
    Lunceford and Davidian (2004), Statistics in Medicine 23:2937–2960. Stefanski and Boos (2002),
    The American Statistician 56:29–38. Reifeis and Hudgens (2022), American Journal of
    Epidemiology 191:1092–1097.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> from steropes.studies import EstimatedWeights
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> treated = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> y = (rng.random(500) < 1 / (1 + np.exp(1 - treated - X[:, 0]))).astype(int)
    >>> propensity = steropes.LogisticRegression().fit(X, treated)
    >>> weights = EstimatedWeights(propensity, "ate")
    >>> outcome = steropes.LogisticRegression()
    >>> outcome = outcome.fit(treated[:, None], y, sample_weight=weights.values)
    >>> outcome.summary()["se"].round(3).tolist()
    [0.149, 0.209]
    >>> outcome.summary(weight_model=weights)["se"].round(3).tolist()
    [0.138, 0.182]
    """

    def __init__(
        self,
        model: LogisticRegression,
        estimand: Estimand = "att",
        *,
        stabilized: bool = True,
        largest: float | None = None,
    ) -> None:
        if not isinstance(model, LogisticRegression) or not hasattr(model, "coef_"):
            raise DataError("The model of estimated weights must be a fitted LogisticRegression.")
        if model.prior_ is not None:
            raise DataError(
                "The propensity model has a prior, and errors with estimated weights are for "
                "maximum likelihood. Fit it with prior=None and few columns, or take robust errors "
                "with the weights as known: kind='robust'."
            )
        self._problem = model._require_data("estimated weights")
        self._beta = model._beta
        y, eta = outcome_and_predictor(self._problem, self._beta)
        treated, score = y == 1, expit(eta)
        self._values = propensity_weights(
            score, treated.astype(int), estimand, stabilized=stabilized, largest=largest
        )
        # Derivatives of log weights in the linear predictor of the propensity model.
        slope = {
            "att": np.where(treated, 0.0, 1.0),
            "atu": np.where(treated, -1.0, 0.0),
            "ate": np.where(treated, score - 1.0, score),
            "ato": np.where(treated, -score, 1.0 - score),
        }[estimand]
        constant = np.zeros(len(y), bool) if largest is None else self._values >= largest
        self._slope = np.where(constant, 0.0, slope)
        share = treated.mean()
        # Derivatives of log weights in the share of the target arm, and influences on it.
        by_share = np.where(treated, 1.0 / share, -1.0 / (1.0 - share))
        stabilised = stabilized and estimand != "ato"
        self._by_share = np.where(constant, 0.0, by_share) if stabilised else np.zeros(len(y))
        self._on_share = (treated - share) / len(y)

    def __repr__(self) -> str:
        """Return the number of weights, without their values."""
        return f"<EstimatedWeights of {len(self._values)} rows>"

    @property
    def values(self) -> NDArray:
        """The weights, (n,)."""
        return self._values.copy()

    def influences(self, outcome: NDArray) -> NDArray:
        """Compute the influence of rows on other coefficients through the weights.

        Parameters
        ----------
        outcome : ndarray, shape (n, p)
            Derivatives of the other coefficients in the logarithm of each row's weight.

        Returns
        -------
        ndarray, shape (n, p)
            To be added to the influences with known weights.
        """
        total = np.outer(self._on_share, self._by_share @ outcome)
        k = self._problem.design.p
        for a in range(0, k, BLOCKS.columns):
            some = np.arange(a, min(a + BLOCKS.columns, k))
            by_coefficient = row_scores(self._problem, self._slope, some)
            total += influences(self._problem, self._beta, some) @ (by_coefficient.T @ outcome)
        return total
