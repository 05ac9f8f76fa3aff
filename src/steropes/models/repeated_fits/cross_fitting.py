"""Cross-fitting: means of rows from fits to the other folds, as one batch of replicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier

from ...backends import host_backend
from ...backends.blas_threads import single_threaded_blas
from ...design_matrix import Design, as_design
from ...errors import DataError, SeparationError, separation_of
from ...infer.bootstrap import fit_draws
from ...infer.bootstrap_draws import Subsets
from ..estimators.fractional_logistic_regression import FractionalLogisticRegression
from ..estimators.gamma_regression import GammaRegression
from ..estimators.linear_regression import LinearRegression
from ..estimators.logistic_regression import LogisticRegression
from ..estimators.negative_binomial_regression import NegativeBinomialRegression
from ..estimators.penalized_model import PenalizedModel
from ..estimators.poisson_regression import PoissonRegression

__all__ = ["CrossFit", "cross_fit"]

# Models with replicates in one batch and with a mean given by their link.
BATCHED = (
    LinearRegression, LogisticRegression, FractionalLogisticRegression, PoissonRegression,
    GammaRegression, NegativeBinomialRegression,
)  # fmt: skip


@dataclass(frozen=True)
class CrossFit:
    """Means of all rows, each from a fit that has not seen the row's fold.

    Attributes
    ----------
    means : (n, repeats) array
        Means, or probabilities of the class 1.
    whole : estimator
        The fit to all rows of the part.
    """

    means: np.ndarray
    whole: Any


def cross_fit(
    model: Any,
    X: Any,
    y: np.ndarray,
    part: np.ndarray,
    fold: np.ndarray | None,
    what: str,
    sample_weight: np.ndarray | None = None,
) -> CrossFit:
    """Fit a model to a part of the rows without each fold, and predict the fold.

    A prior's variance is chosen once, from all rows of the part. The fits of all folds and repeats
    are replicates of one X. Cumulative probability models and estimators of other libraries are
    fitted one after another.

    Parameters
    ----------
    model : estimator
        Unfitted, with ``predict_proba`` for classifiers and ``predict`` for others.
    X : Design, data frame, array or sparse matrix, (n, p)
    y : (n,) array
        Outcome; values outside the part have no influence.
    part : (n,) bool array
        Rows to which the model is fitted, such as those of one group.
    fold : (n, repeats) int array or None
        The fold of each row in each repeat; None fits and predicts the same rows.
    what : str
        Name of the model for messages.
    sample_weight : (n,) array, optional

    Returns
    -------
    CrossFit
        Means of all rows, also of those outside the part.

    Raises
    ------
    DataError
        A fold cannot be fitted; the message names it.
    """
    y = np.where(part, y, y[part][0])
    ours = isinstance(model, PenalizedModel)
    batched = isinstance(model, BATCHED)
    if ours and not batched and not model._family.exceeds_values:
        raise DataError(
            f"The {what} must be a generalised linear model, not {type(model).__name__}."
        )
    if ours and getattr(model, "class_weight", None) is not None:
        raise DataError(
            f"The {what} has class_weight, with which it predicts no means of these people; leave "
            "it out."
        )
    weights = part * (np.ones(len(y)) if sample_weight is None else sample_weight)
    subsets = [] if fold is None else _subsets(fold, part, y, model, what)
    try:
        if batched:
            return _as_batch(clone(model), as_design(X), y, weights, subsets, fold, what)
        if ours:
            return _by_weights(model, as_design(X), y, weights, subsets, fold)
        own = None if sample_weight is None else sample_weight
        return _one_by_one(model, X, y, part, own, subsets, fold)
    except SeparationError as error:
        y_name = what.removeprefix("model of ") if what.startswith("model of ") else "its outcome"
        raise DataError(
            f"The {what} cannot be estimated by maximum likelihood: give it a prior, such as "
            f"prior=Laplace() with cv=10, or leave columns out. {separation_of(y_name, error)}"
        ) from error
    except DataError as error:
        if str(error).startswith("The "):
            raise
        raise DataError(f"The {what}: {error}") from error


Subset = tuple[int, int]


def _subsets(
    fold: np.ndarray, part: np.ndarray, y: np.ndarray, model: Any, what: str
) -> list[Subset]:
    """Return repeats and folds to hold out; refuse training rows with one class."""
    found = [(r, f) for r in range(fold.shape[1]) for f in range(int(fold[:, r].max()) + 1)]
    for r, f in found:
        train = part & (fold[:, r] != f)
        if not train.any() or (is_classifier(model) and len(np.unique(y[train])) < 2):
            raise DataError(
                f"The {what} has {'one class' if train.any() else 'no people'} only without fold "
                f"{f + 1}; take fewer folds, or merge rare outcomes."
            )
    return found


@single_threaded_blas()
def _as_batch(
    model: Any, design: Design, y: np.ndarray, weights: np.ndarray, subsets: list[Subset],
    fold: np.ndarray | None, what: str,
) -> CrossFit:  # fmt: skip
    """Fit the folds as replicates, which start at the fit to all rows."""
    model.fit(design, y, sample_weight=weights)
    if fold is None:
        return CrossFit(_means(model, design, model._coefficients()[None])[:, :1], model)
    problem = model._require_replicable("cross-fitting")
    l1, l2 = problem.penalties(model.prior_)
    rows = np.array([fold[:, r] != f for r, f in subsets])
    fits = fit_draws(problem, model._beta, l1, l2, Subsets(weights, rows), tol=model.tol)
    coef = fits.coef
    for k in np.flatnonzero(~fits.converged):
        alone = clone(model).set_params(prior=model.prior_, cv=None)
        alone.fit(design, y, sample_weight=weights * rows[k])
        coef[k] = alone._coefficients()
    lost = ~np.isfinite(coef).all(axis=1)
    if lost.any():
        raise DataError(
            f"The {what} is not determined without fold {subsets[int(lost.argmax())][1] + 1}, "
            "because a column or a level is rare; give the model a prior, or take fewer folds."
        )
    out = np.empty(fold.shape)
    lanes = host_backend(model.n_jobs).lanes(1) * 8
    for a in range(0, len(subsets), lanes):
        some = slice(a, a + lanes)
        means = _means(model, design, coef[some])
        for b, (r, f) in enumerate(subsets[some]):
            held = fold[:, r] == f
            out[held, r] = means[held, b]
    return CrossFit(out, model)


def _means(model: Any, design: Design, coef: np.ndarray) -> np.ndarray:
    """Compute the means at several coefficients in X's units, (B, 1 + p) or (B, p), (n, lanes)."""
    backend = host_backend(model.n_jobs)
    slopes = coef[:, coef.shape[1] - design.p :]
    D = np.zeros((design.p, backend.lanes(len(coef))))
    D[:, : len(coef)] = slopes.T * design.scale[:, None]
    eta = np.asarray(backend.to_host(design.matmul(D, backend)))[:, : len(coef)]
    if coef.shape[1] > design.p:
        eta = eta + coef[:, 0]
    return np.asarray(model._family.link_of(model).mean(eta))


def _by_weights(
    model: Any, design: Design, y: np.ndarray, weights: np.ndarray, subsets: list[Subset],
    fold: np.ndarray | None,
) -> CrossFit:  # fmt: skip
    """Fit a model without replicates to each part, outside of which rows have no weight."""
    whole = clone(model).fit(design, y, sample_weight=weights)
    if fold is None:
        return CrossFit(np.asarray(whole.predict(design), float)[:, None], whole)
    out = np.empty(fold.shape)
    # As in a batch, all folds have the variance of everybody.
    alone = clone(model).set_params(prior=whole.prior_, cv=None)
    for r, f in subsets:
        held = fold[:, r] == f
        fit = clone(alone).fit(design, y, sample_weight=weights * ~held)
        out[held, r] = np.asarray(fit.predict(design), float)[held]
    return CrossFit(out, whole)


def _one_by_one(
    model: Any, X: Any, y: np.ndarray, part: np.ndarray, sample_weight: np.ndarray | None,
    subsets: list[Subset], fold: np.ndarray | None,
) -> CrossFit:  # fmt: skip
    """Fit an estimator of another library to each part."""

    def fitted(train: np.ndarray) -> Any:
        own = {} if sample_weight is None else {"sample_weight": sample_weight[train]}
        return clone(model).fit(_rows(X, train), y[train], **own)

    whole = fitted(part)
    if fold is None:
        return CrossFit(_predicted(whole, X)[:, None], whole)
    out = np.empty(fold.shape)
    for r, f in subsets:
        held = fold[:, r] == f
        out[held, r] = _predicted(fitted(part & ~held), _rows(X, held))
    return CrossFit(out, whole)


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Select rows of a table, an array or a sparse matrix."""
    if isinstance(X, Design):
        raise DataError(
            "Models of other libraries need a data frame, an array or a sparse matrix, not a "
            "Design or a long table."
        )
    at = np.flatnonzero(rows)
    return X.iloc[at] if isinstance(X, pd.DataFrame) else X[at]


def _predicted(model: Any, X: Any) -> np.ndarray:
    """Predict means, or probabilities of the class 1."""
    if is_classifier(model):
        return np.asarray(model.predict_proba(X), float)[:, list(model.classes_).index(1)]
    return np.asarray(model.predict(X), float)
