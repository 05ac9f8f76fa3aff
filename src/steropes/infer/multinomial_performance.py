"""Linear predictors of the classes of multinomial fits, and measures of their performance."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.metrics import roc_auc_score

from ..fit import Problem
from ..likelihoods.multinomial_likelihood import MultinomialLikelihood
from ..solve.linear_predictor import linear_predictor

__all__ = [
    "class_predictors",
    "class_probabilities",
    "log_odds_of_class",
    "mean_auc",
    "multinomial_brier",
    "multinomial_performance",
]

# Newton steps of the common slope, and the size of the last one relative to a standard error.
MAX_STEPS, SMALL_STEP = 50, 1e-8
# Length of a step, relative to Newton's, below which the loss cannot decrease any more.
SHORTEST = 1e-10
# The slope of separated classes counts as infinite above this relative standard error.
LARGE_ERROR = 100.0


def class_predictors(problem: Problem, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes' codes, (n,), and η with intercept and offset, (n, K).

    Parameters
    ----------
    problem : Problem
        Of a multinomial model.
    beta : (p,) array
        Coefficients in X's units.
    """
    likelihood = problem.likelihood
    assert isinstance(likelihood, MultinomialLikelihood)
    eta = linear_predictor(problem, beta * problem.design.scale)
    eta = np.asarray(likelihood.backend.to_host(eta))
    return likelihood.codes, eta.reshape(likelihood.C, likelihood.n).T


def class_probabilities(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute probabilities, (n, K), and those of all other classes, without cancellation."""
    p = np.asarray(softmax(eta, axis=1))
    others = np.column_stack([np.delete(p, c, axis=1).sum(axis=1) for c in range(p.shape[1])])
    return p, others


def log_odds_of_class(eta: np.ndarray, c: int) -> np.ndarray:
    """Compute the log odds of one class against all others, (n,)."""
    rest = np.delete(eta, c, axis=1)
    top = rest.max(axis=1)
    return np.asarray(eta[:, c] - top - np.log(np.exp(rest - top[:, None]).sum(axis=1)))


def mean_auc(codes: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the mean over classes of the area under the ROC curve of a class against all others.

    NaN if the rows with weight lack a class. As scikit-learn's "roc_auc_ovr".
    """
    used = weight > 0
    codes, eta, weight = codes[used], eta[used], weight[used]
    K = eta.shape[1]
    if len(np.unique(codes)) < K:
        return np.nan
    each = [
        roc_auc_score(codes == c, log_odds_of_class(eta, c), sample_weight=weight) for c in range(K)
    ]
    return float(np.mean(each))


def multinomial_brier(codes: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the mean squared error of the probabilities, summed over classes (Brier 1950)."""
    error = np.asarray(softmax(eta, axis=1))
    error[np.arange(len(codes)), codes] -= 1.0
    return float(np.average((error**2).sum(axis=1), weights=weight))


def multinomial_performance(
    codes: np.ndarray, eta: np.ndarray, weight: np.ndarray, null: float,
    offset: np.ndarray | None = None,
) -> dict[str, float]:  # fmt: skip
    """Measure the performance of the linear predictors of classes.

    Parameters
    ----------
    codes : (n,) int array
    eta : (n, K) array
    weight : (n,) array
    null : float
        Minus the mean log-likelihood of the model of intercepts and offset.
    offset : (n, K) array, optional
        The part of η that recalibration leaves as it is.

    Returns
    -------
    dict
        ``auc`` (`mean_auc`); ``r2``, Nagelkerke's of the recalibrated predictors; ``slope``, the
        common factor of the η_c less the offset with an intercept of each class that fits best;
        ``brier``
        (`multinomial_brier`); ``log_loss``, minus the mean log-likelihood. NaN where the rows do
        not determine a measure.
    """
    used = weight > 0
    codes, eta, weight = codes[used].astype(np.int64), eta[used], weight[used]
    total = float(weight.sum())
    loss = -float(weight @ log_softmax(eta, axis=1)[np.arange(len(codes)), codes]) / total
    known = np.zeros((1, eta.shape[1])) if offset is None else offset[used]
    slope, recalibrated = _common_slope(codes, eta - known, weight, known)
    r2 = np.nan
    if null > 0:
        r2 = float(-np.expm1(2.0 * (recalibrated - null)) / -np.expm1(-2.0 * null))
    return {
        "auc": mean_auc(codes, eta, weight), "r2": r2, "slope": slope,
        "brier": multinomial_brier(codes, eta, weight), "log_loss": loss,
    }  # fmt: skip


def _common_slope(
    codes: np.ndarray, eta: np.ndarray, weight: np.ndarray, offset: np.ndarray
) -> tuple[float, float]:
    """Fit log odds a_c + s η_c + offset_c by Newton's method.

    Returns
    -------
    slope, loss : float
        s, and minus the mean log-likelihood; NaN if there is no finite maximum.
    """
    K = eta.shape[1]
    present = np.unique(codes)
    if len(present) < K or np.ptp(eta - eta[:, :1], axis=0).max() == 0:
        return np.nan, np.nan
    rows, centred = np.arange(len(codes)), eta - np.average(eta, axis=0, weights=weight)
    share = np.bincount(codes, weight, K)
    theta = np.append(np.log(share[1:] / share[0]), 1.0)

    def loss_at(theta: np.ndarray) -> tuple[float, np.ndarray]:
        h = offset + theta[-1] * centred + np.append(0.0, theta[:-1])
        log_p = log_softmax(h, axis=1)
        return -float(np.average(log_p[rows, codes], weights=weight)), np.exp(log_p)

    loss, p = loss_at(theta)
    total = float(weight.sum())
    w = weight / total
    for _ in range(MAX_STEPS):
        r = p.copy()
        r[rows, codes] -= 1.0
        mean = (p * centred).sum(axis=1)  # the expectation of η in each row
        cross = p * (centred - mean[:, None])
        gradient = np.append(w @ r[:, 1:], w @ (r * centred).sum(axis=1))
        H = np.empty((K, K))
        H[:-1, :-1] = np.diag(w @ p[:, 1:]) - (p[:, 1:].T * w) @ p[:, 1:]
        H[:-1, -1] = H[-1, :-1] = w @ cross[:, 1:]
        H[-1, -1] = w @ (cross * centred).sum(axis=1)
        try:
            step = np.linalg.solve(H, gradient)
        except np.linalg.LinAlgError:
            return np.nan, np.nan
        size = 1.0 if np.sqrt(max(float(step @ gradient), 0.0) * total) >= SMALL_STEP else 0.0
        while size > SHORTEST:
            trial, q = loss_at(theta - size * step)
            if trial < loss:
                break
            size /= 2.0
        else:  # at the optimum, to rounding
            try:
                error = float(np.sqrt(np.linalg.inv(total * H)[-1, -1]))
            except np.linalg.LinAlgError:
                return np.nan, np.nan
            if not error < LARGE_ERROR * max(1.0, abs(theta[-1])):
                return np.nan, np.nan
            return float(theta[-1]), loss
        theta, loss, p = theta - size * step, trial, q
    return np.nan, np.nan
