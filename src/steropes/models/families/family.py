"""What a family of models declares: link, name of its ratio, performance measures and outcome."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...data import check_response
from ...data.survival_outcome import Surv, SurvivalOutcome
from ...design_matrix import null_design
from ...errors import DataError, SeparationError
from ...fit import Problem
from ...solve.linear_predictor import linear_predictor
from .links import IDENTITY, Link

__all__ = ["CAUSE", "COMPETING", "Family", "ValidationData"]

# The number by which outcomes of a Fine–Gray model code the event of interest, and other events.
CAUSE, COMPETING = 1, 2


class Family:
    """Declarations of a family; a model of this class itself has deviances only.

    A score of held-out rows is a method ``held_out_NAME``, which takes the problem with the
    weights of the training rows, the coefficients in the columns' units and the weights of the
    held-out rows, and returns a number of which more is better. ``scores`` lists the names.
    """

    # The link function, and the name of exp(coef), or None if it is no ratio. Families in which
    # a setting of the model decides override the methods `link_of` and `ratio_of`.
    link: ClassVar[Link] = IDENTITY
    ratio: ClassVar[str | None] = "ratio"
    # Scores by which a cross-validation may choose, and whether it may call a scorer for arrays:
    # any callable, and the names of scikit-learn's scorers.
    scores: ClassVar[tuple[str, ...]] = ("deviance",)
    has_own_deviance: ClassVar[bool] = False
    takes_callables: ClassVar[bool] = False
    takes_scorers: ClassVar[bool] = False
    # Settings of estimators that belong to the distribution of the outcome, such as a given
    # dispersion: models that recalibrate predictions keep them.
    outcome_settings: ClassVar[tuple[str, ...]] = ()
    # Whether the family has measures of performance, and whether its measures and its scores apply
    # to models with several coefficients for a column.
    has_measures: ClassVar[bool] = False
    measures_changing_effects: ClassVar[bool] = False
    scores_changing_effects: ClassVar[bool] = False
    # Whether outcomes are classes, and whether each has a linear predictor.
    has_classes: ClassVar[bool] = False
    has_class_predictors: ClassVar[bool] = False
    # Whether risks are those of an event by a time, or of one of several values or classes.
    has_times: ClassVar[bool] = False
    has_values: ClassVar[bool] = False
    # Whether risks are those that a value is exceeded.
    exceeds_values: ClassVar[bool] = False

    def performance(
        self, data: ValidationData, eta: np.ndarray, weight: np.ndarray
    ) -> dict[str, float]:
        """Compute the measures of linear predictors, by name."""
        raise NotImplementedError

    def prediction(self, eta: np.ndarray) -> np.ndarray:
        """Return the predictions of a model that is no classifier."""
        return eta

    def outcome_of_fit(self, problem: Problem) -> tuple[Any, np.ndarray | None]:
        """Return the outcome of a fit and the codes of strata, in the rows of X.

        Returns
        -------
        y : (n,) array or SurvivalOutcome
            As in `ValidationData`.
        strata : (n,) int array or None

        Raises
        ------
        DataError
            If the family has no measures of performance of the outcome.
        """
        raise DataError("Measures of performance are not available for this family.")

    def predictors_of_fit(self, problem: Problem, beta: np.ndarray) -> np.ndarray:
        """Compute η with intercept and offset, (n,) in the rows of X, up to a constant of η.

        Those of families with a predictor for each class are (n, K). Rows without weight, which the
        likelihood may leave out, are zero.

        Parameters
        ----------
        beta : (p,) array
            Coefficients in X's units.
        """
        likelihood = problem.likelihood
        eta = likelihood.backend.to_host(linear_predictor(problem, beta * problem.design.scale))
        out = np.zeros(len(problem.weights))
        out[likelihood.row_of_x] = eta[:, 0]
        return out

    def read_outcome(self, model: Any, y: Any) -> Any:
        """Read the outcome of new rows, as the ``y`` of `ValidationData`."""
        return check_response(y, len(y))

    def link_of(self, model: Any) -> Link:
        """Return the link of a model, on whose scale a calibration curve adds a constant."""
        return self.link

    def ratio_of(self, model: Any) -> str | None:
        """Return the name of exp(coef) in a model, such as "hazard ratio"; None if it is none."""
        return self.ratio

    def risk(self, fit: Any, new: np.ndarray, at: float | None) -> np.ndarray:
        """Predict the risks (by the time, or beyond the value ``at``) or means of new rows."""
        return np.asarray(fit.predict(new))

    def offset_of_rows(self, problem: Problem) -> np.ndarray | None:
        """Return the offset of a fit in the rows of X."""
        return problem.offset


class ValidationData:
    """The outcome of some rows, on which predictions are evaluated.

    Parameters
    ----------
    family : Family
    empty : estimator
        An estimator of the family that has not been fitted, without prior.
    y : (n,) array or SurvivalOutcome
        Numbers, codes of classes from 0 on, or a survival outcome. The event of interest of a
        Fine–Gray model has the code 1.
    strata : (n,) int array, optional
    offset : (n,) array, optional
        The part of η that recalibration leaves as it is; (n, K) of a multinomial model.
    """

    def __init__(
        self,
        family: Family,
        empty: Any,
        y: Any,
        strata: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> None:
        self.family, self.empty, self.y = family, empty, y
        self.strata, self.offset = strata, offset

    def fit(self, X: Any, weight: np.ndarray, offset: np.ndarray | None = None) -> Any:
        """Fit the outcome to columns that were computed from linear predictors."""
        extra = {} if self.strata is None else {"strata": self.strata}
        outcome = Surv(*self.y) if isinstance(self.y, SurvivalOutcome) else self.y
        return self.empty.fit(X, outcome, sample_weight=weight, offset=offset, **extra)

    def recalibrated(self, eta: np.ndarray, weight: np.ndarray) -> Any:
        """Fit the outcome to intercept + slope × (η − offset) + offset."""
        if self.offset is None:
            return self.fit(eta[:, None], weight)
        return self.fit((eta - self.offset)[:, None], weight, self.offset)

    def null_log_likelihood(self, weight: np.ndarray) -> float:
        """Compute the log-likelihood of the model of intercept and offset; NaN without a fit."""
        try:
            fit = self.fit(null_design(len(weight)), weight, self.offset)
        except (DataError, SeparationError):
            return np.nan
        return float(fit.log_likelihood_)
