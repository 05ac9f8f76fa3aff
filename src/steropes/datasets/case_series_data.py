"""Simulated case series: people with own rates, and drugs that multiply these while taken."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..errors import DataError
from .simulation_result import Simulated, check_sizes, draw_truth

__all__ = ["simulate_case_series"]


def simulate_case_series(
    people: int = 1000,
    p: int = 5,
    *,
    periods: int = 24,
    density: float = 0.2,
    n_effects: int | None = None,
    effect_sd: float = 0.5,
    rate: float = 0.05,
    seed: int = 0,
) -> Simulated:
    """Simulate events of people and the periods in which they take each of p drugs.

    A person takes a drug in one interval of periods or never. Rates without drugs are gamma
    distributed over people, which a case series conditions on.

    Parameters
    ----------
    people : int
        Number of people; those without an event are left out.
    p : int
        Number of drugs.
    periods : int
        Number of periods of 30 days.
    density : float
        Probability that a person takes a drug.
    n_effects : int, optional
        Number of drugs with an effect, default all.
    effect_sd : float
        Standard deviation of the log rate ratios.
    rate : float
        Mean number of events in a period without drugs.
    seed : int
        The same seed gives the same data.

    Returns
    -------
    Simulated
        A row for each period of a person with an event; ``y`` are numbers of events, and
        ``fit_params`` has ``strata`` (people) and ``exposure`` (days).

    Raises
    ------
    DataError
        A number is out of range, or no one has an event.

    References
    ----------
    Farrington (1995), Biometrics 51:228–235.

    Examples
    --------
    >>> import steropes
    >>> data = steropes.datasets.simulate_case_series(people=2000, p=2, seed=1)
    >>> model = steropes.SelfControlledCaseSeries().fit(data.X, data.y, **data.fit_params)
    >>> bool((abs(model.coef_ - data.truth) < 0.2).all())
    True
    """
    check_sizes(density, people=people, p=p, periods=periods)
    if not rate > 0:
        raise DataError(f"rate must be positive, not {rate!r}.")
    rng = np.random.default_rng(seed)
    truth = draw_truth(p, n_effects, effect_sd, rng)
    ends = np.sort(rng.integers(0, periods + 1, (people, p, 2)), axis=2)
    takes = rng.random((people, p)) < density
    period = np.arange(periods)
    taken = (period >= ends[..., :1]) & (period < ends[..., 1:]) & takes[..., None]
    exposed = taken.transpose(0, 2, 1)  # (people, periods, p)
    own = rate * rng.gamma(2.0, 0.5, people)
    events = rng.poisson(own[:, None] * np.exp(exposed @ truth.to_numpy()))
    case = np.flatnonzero(events.sum(axis=1) > 0)
    if len(case) == 0:
        raise DataError("Nobody has an event; simulate more people or a higher rate.")
    X = sparse.csc_array(exposed[case].reshape(-1, p).astype(float))
    n = X.shape[0]
    fit_params = {"strata": np.repeat(case, periods), "exposure": np.full(n, 30.0)}
    return Simulated(X, events[case].ravel().astype(float), truth, fit_params)
