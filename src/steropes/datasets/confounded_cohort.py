"""A simulated cohort in which covariates affect both the treatment and the outcome."""

from __future__ import annotations

import numpy as np

from ..data import Surv
from ..errors import DataError
from .simulation_result import Simulated, check_sizes, draw_indicators, draw_truth

__all__ = ["simulate_confounded_cohort"]

# Standard deviation of the log hazard ratios and log odds ratios of the confounders.
CONFOUNDING = 0.7


def simulate_confounded_cohort(
    n: int = 2000,
    p: int = 100,
    *,
    effect: float = 0.0,
    density: float = 0.1,
    n_confounders: int = 20,
    seed: int = 0,
) -> Simulated:
    """Simulate a treatment by covariates and the time to an event by both.

    A confounder has the same log odds ratio of the treatment and log hazard ratio of the event, so
    that the treated have the higher risk, whatever the treatment does.

    Parameters
    ----------
    n, p : int
        Numbers of people and covariates.
    effect : float
        Log hazard ratio of the treatment given the covariates, default 0.
    density : float
        Expected share of people with a covariate.
    n_confounders : int
        Number of covariates that affect treatment and outcome.
    seed : int
        The same seed gives the same data.

    Returns
    -------
    Simulated
        X without the treatment, which is ``treated``. ``truth`` has the coefficients of the
        covariates, for the treatment and for the event. Follow-up is uniform up to 5.

    Raises
    ------
    DataError
        A number is out of range.

    See Also
    --------
    steropes.studies.synthetic_database : Simulate an OMOP database.

    Notes
    -----
    The marginal hazard ratio of a matched or weighted population is closer to one than
    ``exp(effect)``, because hazard ratios are not collapsible, unless ``effect`` is zero.

    References
    ----------
    Rosenbaum and Rubin (1983), Biometrika 70:41–55.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> from steropes.designs.propensity import match_scores
    >>> data = steropes.datasets.simulate_confounded_cohort(n=4000, seed=1)
    >>> crude = steropes.CoxRegression().fit(data.treated[:, None], data.y)
    >>> score = steropes.LogisticRegression(prior=steropes.Normal(0.1)).fit(data.X, data.treated)
    >>> sets = match_scores(score.predict_proba(data.X)[:, 1], data.treated)
    >>> kept = sets >= 0
    >>> matched = steropes.CoxRegression().fit(data.treated[kept, None], data.y[kept])
    >>> bool(abs(matched.coef_[0]) < abs(crude.coef_[0]) / 2)  # the truth is 0
    True
    """
    check_sizes(density, n=n, p=p)
    if not 0 <= n_confounders <= p:
        raise DataError(f"n_confounders must be from 0 to {p}, not {n_confounders!r}.")
    rng = np.random.default_rng(seed)
    X = draw_indicators(n, p, density, rng)
    truth = draw_truth(p, n_confounders, CONFOUNDING, rng)
    risk = X @ truth.to_numpy()
    risk -= risk.mean()
    treated = (rng.random(n) < 1 / (1 + np.exp(-risk))).astype(int)
    time = rng.exponential(np.exp(-risk - effect * treated) / 0.2)
    end = rng.uniform(0.0, 5.0, n)
    return Simulated(X, Surv(np.minimum(time, end), time <= end), truth, treated=treated)
