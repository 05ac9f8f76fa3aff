"""A fitted propensity model: its scores, their AUC, and the preference score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.html_representations import TextInHtml
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError

if TYPE_CHECKING:
    from steropes.models import LogisticRegression

__all__ = ["Propensity", "ScoredPeople", "auc", "preference_score", "too_few"]


class ScoredPeople(TextInHtml):
    """The scores of a fitted propensity model."""

    model: LogisticRegression
    preference: NDArray

    @property
    def converged(self) -> bool:
        """Whether the model ended at its optimum."""
        return bool(self.model.converged_)

    def equipoise(self, low: float = 0.3, high: float = 0.7) -> float:
        """Compute the share of people in equipoise.

        Parameters
        ----------
        low, high : float, default 0.3 and 0.7
            Limits of the preference score, inclusive.

        Returns
        -------
        float
            Share of people with a preference score from ``low`` to ``high``.
        """
        return float(np.mean((self.preference >= low) & (self.preference <= high)))


@dataclass(frozen=True, repr=False)
class Propensity(ScoredPeople):
    """A fitted propensity model.

    Attributes
    ----------
    model : LogisticRegression
        The fitted model: ``variance_`` of the prior, ``cv_results_``, ``optimality_`` …
    logit : ndarray, shape (n,)
        Linear predictor.
    score : ndarray, shape (n,)
        Propensity score, the probability of the target drug.
    preference : ndarray, shape (n,)
        Preference score.
    auc : float
        Area under the ROC curve, on the people the model was fitted to.
    coefficients : DataFrame
        The intercept and the covariates whose coefficient is not zero, largest first: ``name``,
        ``coef``.
    folds : int
        Folds of the cross-validation: the requested number, or the people of the smaller arm if
        they are fewer.

    Examples
    --------
    >>> import steropes
    >>> from steropes.studies import DEMO, synthetic_database
    >>> settings = steropes.StudySettings(**DEMO, folds=5, tie_orders=0)
    >>> propensity = steropes.comparative_study(synthetic_database(600), settings).propensity
    >>> propensity.converged, propensity.coefficients.columns.tolist()
    (True, ['name', 'coef'])
    """

    model: LogisticRegression
    logit: NDArray
    score: NDArray
    preference: NDArray
    auc: float
    coefficients: pd.DataFrame
    folds: int

    def __repr__(self) -> str:
        return (
            f"Propensity(auc={self.auc:.3f}, {len(self.coefficients) - 1} covariates with a "
            f"coefficient, prior variance {float(self.model.variance_):.3g})"
        )


def too_few(treated: ArrayLike) -> str:
    """Return why the arms are too small for a propensity model; "" if they are not."""
    treated = np.asarray(treated)
    for value, arm in ((1, "target"), (0, "comparator")):
        if np.sum(treated == value) < 2:
            return f"propensity model: the {arm} arm has fewer than two people"
    return ""


def auc(score: ArrayLike, treated: ArrayLike) -> float:
    """Compute the area under the ROC curve; ties count half.

    Parameters
    ----------
    score : array_like, shape (n,)
        Scores of people.
    treated : array_like, shape (n,)
        1 for the target arm.

    Returns
    -------
    float
        Probability that a person of the target arm has a larger score than one of the comparator.

    Raises
    ------
    DataError
        An arm is empty, or a score is missing.

    Examples
    --------
    >>> from steropes.designs.propensity import auc
    >>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    from sklearn.metrics import roc_auc_score

    treated = np.asarray(treated).astype(bool)
    if treated.all() or not treated.any():
        raise DataError("auc: both arms must have people")
    return float(roc_auc_score(treated, require_numbers("auc, scores", score)))


def preference_score(logit: ArrayLike, treated: ArrayLike) -> NDArray:
    """Adjust the propensity score for how common the target drug is.

    Its logit is that of the propensity score minus that of the target's share, so 0.5 means "as
    likely as anybody to get the target drug".

    Parameters
    ----------
    logit : array_like, shape (n,)
        Logits of propensity scores.
    treated : array_like, shape (n,)
        1 for the target arm.

    Returns
    -------
    ndarray, shape (n,)
        Preference scores, between 0 and 1.

    References
    ----------
    Walker, Patrick, Lauer and others (2013), Comparative Effectiveness Research 3:11.

    Examples
    --------
    >>> from steropes.designs.propensity import preference_score
    >>> preference_score([0.0, 1.0], [1, 0]).round(2).tolist()
    [0.5, 0.73]
    """
    from scipy.special import expit
    from scipy.special import logit as log_odds

    finite = require_numbers("preference score, logits", logit)
    return expit(finite - log_odds(float(np.asarray(treated).mean())))
