"""Simulated outcomes of independent people, for each family of regression."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..data import Surv
from ..errors import DataError
from .simulation_result import Simulated, check_sizes, draw_indicators, draw_truth

__all__ = ["simulate_regression"]

Family = Literal["linear", "logistic", "poisson", "cox", "fine_gray"]
FAMILIES = ("linear", "logistic", "poisson", "cox", "fine_gray")
# The share of people without covariates who have the event of interest if no one is censored
# (Fine and Gray 1999).
SHARE = 0.3


def simulate_regression(
    family: Family,
    n: int = 1000,
    p: int = 10,
    *,
    density: float = 0.2,
    n_effects: int | None = None,
    effect_sd: float = 0.5,
    seed: int = 0,
) -> Simulated:
    """Simulate covariates of zeros and ones and an outcome that depends on them.

    Parameters
    ----------
    family : {"linear", "logistic", "poisson", "cox", "fine_gray"}
        Model of the outcome. Errors of the linear model are standard normal. Survival times have
        a constant hazard of one without covariates; the logistic and Poisson models have an
        intercept of −1, and half of the survival times or more are usually observed. In
        ``"fine_gray"`` the subdistribution hazard of event 1 is proportional and event 2 is
        independent of the covariates.
    n, p : int
        Numbers of rows and columns.
    density : float
        Mean prevalence of the binary columns; prevalences differ as in claims.
    n_effects : int, optional
        Number of columns with an effect, default all.
    effect_sd : float
        Standard deviation of the effects.
    seed : int
        The same seed gives the same data.

    Returns
    -------
    Simulated
        The data with the coefficients.

    Raises
    ------
    DataError
        A number is out of range, or there is no such family.

    References
    ----------
    Bender, Augustin and Blettner (2005), Stat Med 24:1713–1723 (survival times). Fine and Gray
    (1999), JASA 94:496–509, §5 (competing risks).

    Examples
    --------
    >>> import steropes
    >>> data = steropes.datasets.simulate_regression("cox", n=2000, p=3, seed=1)
    >>> model = steropes.CoxRegression().fit(data.X, data.y)
    >>> bool((abs(model.coef_ - data.truth) < 0.2).all())
    True
    """
    if family not in FAMILIES:
        raise DataError(f"family must be one of {', '.join(map(repr, FAMILIES))}, not {family!r}.")
    check_sizes(density, n=n, p=p)
    rng = np.random.default_rng(seed)
    X = draw_indicators(n, p, density, rng)
    truth = draw_truth(p, n_effects, effect_sd, rng)
    eta = X @ truth.to_numpy()
    if family == "linear":
        y = eta + rng.normal(size=n)
    elif family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(1 - eta))).astype(float)
    elif family == "poisson":
        exposure = rng.uniform(0.5, 2.0, n)
        y = rng.poisson(exposure * np.exp(eta - 1)).astype(float)
        return Simulated(X, y, truth, {"exposure": exposure})
    else:
        time, cause = _times(family, eta, rng)
        censored = rng.uniform(0.0, 4.0, n)
        y = Surv(np.minimum(time, censored), np.where(time <= censored, cause, 0))
    return Simulated(X, y, truth)


def _times(family: str, eta: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw times and causes of events.

    With competing risks, P(T ≤ t, cause 1) = 1 − [1 − SHARE (1 − exp(−t))]^exp(η), so that the
    subdistribution hazard is proportional; all others have cause 2, with a rate of 1.
    """
    time = rng.exponential(size=len(eta))
    if family == "cox":
        return time * np.exp(-eta), np.ones(len(eta), int)
    ever = 1.0 - (1.0 - SHARE) ** np.exp(eta)
    u = rng.random(len(eta))
    first = u < ever
    u = np.where(first, u, 0.0)
    inverse = -np.log1p(-(1.0 - (1.0 - u) ** np.exp(-eta)) / SHARE)
    return np.where(first, inverse, time), np.where(first, 1, 2)
