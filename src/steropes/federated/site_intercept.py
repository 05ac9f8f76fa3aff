"""A site's own intercept, over which its likelihood is maximised at the site.

A model that is stratified by site has an intercept for each site. Derivatives with respect to an
intercept are sums over the rows of one site, so a total that contains them would disclose that
site's sums. Each site therefore contributes its profile likelihood, with the intercept at its
maximum. The estimate and its covariance are those of the model with all intercepts, because the
Hessian of a profile likelihood is the Schur complement of the full Hessian.

Models with an intercept that all sites share have the same kinds: the start of this intercept
follows from totals, and totals over it are checked against the description of the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit

from ..errors import DataError
from .federated_constants import CONVERGENCE

__all__ = ["IdentityIntercept", "Intercept", "LogIntercept", "LogitIntercept"]


class Intercept(ABC):
    """The intercept of models whose rows are independent given the covariates."""

    def refuse_infinite(self, y: np.ndarray, w: np.ndarray, where: str) -> None:
        """Reject rows without a finite intercept of their own."""
        if float(w @ y) <= 0:
            raise _without_finite_intercept("no event", where)

    @abstractmethod
    def maximum(self, y: np.ndarray, w: np.ndarray, eta: np.ndarray) -> float:
        """Maximise the likelihood of rows over their intercept.

        Parameters
        ----------
        y, w, eta : (n,) arrays
            Outcome, positive weight, and linear predictor with the offset but without the
            intercept.
        """

    @abstractmethod
    def start(self, mean: float, total: float, expected: float) -> float:
        """Return the intercept without covariates, from totals over all sites.

        Parameters
        ----------
        mean, total : float
            Weighted mean and total of the outcome.
        expected : float
            Total of weights times the exponentials of offsets.
        """

    @abstractmethod
    def contradictions(
        self, weight: float, outcome: float, slope: float, curvature: float, slack: float
    ) -> dict[str, bool]:
        """Return by name whether totals over the intercept contradict the rows' description.

        Parameters
        ----------
        weight, outcome : float
            Total weight, and weighted total of the outcome.
        slope, curvature : float
            First and second derivative of the loss by the intercept.
        slack : float
            Largest rounding error.
        """


class IdentityIntercept(Intercept):
    """The mean of the residuals of a linear model."""

    def refuse_infinite(self, y: np.ndarray, w: np.ndarray, where: str) -> None:
        """Reject nothing, because all outcomes have a mean."""

    def maximum(self, y: np.ndarray, w: np.ndarray, eta: np.ndarray) -> float:
        """See `Intercept.maximum`."""
        return float(w @ (y - eta) / w.sum())

    def start(self, mean: float, total: float, expected: float) -> float:
        """See `Intercept.start`."""
        return mean

    def contradictions(
        self, weight: float, outcome: float, slope: float, curvature: float, slack: float
    ) -> dict[str, bool]:
        """See `Intercept.contradictions`."""
        return {"hessian": abs(curvature - weight) > slack}


class LogIntercept(Intercept):
    """The logarithm of observed by expected counts of a Poisson model."""

    def maximum(self, y: np.ndarray, w: np.ndarray, eta: np.ndarray) -> float:
        """See `Intercept.maximum`."""
        top = eta.max()
        return float(np.log(w @ y) - np.log(w @ np.exp(eta - top)) - top)

    def start(self, mean: float, total: float, expected: float) -> float:
        """See `Intercept.start`."""
        return float(np.log(total / expected))

    def contradictions(
        self, weight: float, outcome: float, slope: float, curvature: float, slack: float
    ) -> dict[str, bool]:
        """See `Intercept.contradictions`."""
        return {"hessian": abs(curvature - (slope + outcome)) > slack}


class LogitIntercept(Intercept):
    """The intercept of a logistic model, found by Newton steps within brackets."""

    def refuse_infinite(self, y: np.ndarray, w: np.ndarray, where: str) -> None:
        """Reject rows that all have the event, or none of which has it."""
        if float(w @ (1 - y)) <= 0:
            raise _without_finite_intercept("no one without the event", where)
        super().refuse_infinite(y, w, where)

    def maximum(self, y: np.ndarray, w: np.ndarray, eta: np.ndarray) -> float:
        """See `Intercept.maximum`."""
        target = float(w @ y)
        share = target / float(w.sum())
        middle = float(np.log(share / (1 - share)))
        low, high = middle - eta.max() - 1.0, middle - eta.min() + 1.0
        a = middle - float(w @ eta / w.sum())
        for _ in range(CONVERGENCE.max_intercept_steps):
            p = expit(a + eta)
            off = float(w @ p) - target
            low, high = (low, a) if off > 0 else (a, high)
            v = float(w @ (p * (1 - p)))
            step = off / v if v > 0 else np.inf
            following = a - step if low < a - step < high else 0.5 * (low + high)
            if abs(following - a) <= 4e-16 * max(abs(a), 1.0):
                break
            a = following
        return a

    def start(self, mean: float, total: float, expected: float) -> float:
        """See `Intercept.start`."""
        share = np.clip(mean, 1e-12, 1 - 1e-12)
        return float(np.log(share / (1 - share)))

    def contradictions(
        self, weight: float, outcome: float, slope: float, curvature: float, slack: float
    ) -> dict[str, bool]:
        """See `Intercept.contradictions`."""
        return {
            "gradient": not -outcome - slack <= slope <= weight - outcome + slack,
            "hessian": not -slack <= curvature <= 0.25 * weight + slack,
        }


def _without_finite_intercept(what: str, where: str) -> DataError:
    """Return the error of rows without a finite intercept of their own."""
    return DataError(
        f"there is {what} {where}, so that the site's intercept is not finite and its rows are "
        "uninformative: leave the site out of the plan, or set baseline='common'"
    )
