"""A site's own intercept, over which its likelihood is maximised at the site.

A model that is stratified by site has an intercept for each site. Derivatives with respect to an
intercept are sums over the rows of one site, so a total that contains them would disclose that
site's sums. Each site therefore contributes its profile likelihood, with the intercept at its
maximum. The estimate and its covariance are those of the model with all intercepts, because the
Hessian of a profile likelihood is the Schur complement of the full Hessian.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..errors import DataError
from .federated_constants import CONVERGENCE
from .federated_plan import FederatedPlan

__all__ = ["maximize_intercept", "refuse_no_intercept"]


def refuse_no_intercept(plan: FederatedPlan, y: np.ndarray, w: np.ndarray, where: str) -> None:
    """Reject rows without a finite intercept of their own, because all or none have the event."""
    if plan.model == "linear":
        return
    without = plan.model == "logistic" and float(w @ (1 - y)) <= 0
    if float(w @ y) <= 0 or without:
        what = "no one without the event" if without else "no event"
        raise DataError(
            f"there is {what} {where}, so that the site's intercept is not finite and its rows are "
            "uninformative: leave the site out of the plan, or set baseline='common'"
        )


def maximize_intercept(plan: FederatedPlan, y: np.ndarray, w: np.ndarray, eta: np.ndarray) -> float:
    """Maximise the likelihood of a site's rows over its intercept.

    Parameters
    ----------
    y, w, eta : (n,) arrays
        Outcome, weight, and linear predictor with the offset but without the intercept.
    """
    some = w > 0
    y, w, eta = y[some], w[some], eta[some]
    if plan.model == "linear":
        return float(w @ (y - eta) / w.sum())
    if plan.model == "poisson":
        top = eta.max()
        return float(np.log(w @ y) - np.log(w @ np.exp(eta - top)) - top)
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
