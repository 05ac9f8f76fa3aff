"""Event-dependent observation: weights of time by the method of Farrington and others (2011).

If an event makes the end of observation more likely (a death, a move to another hospital), time
after it is missing because of the event, and a case series is biased. Farrington, Anaya-Izquierdo,
Whitaker, Hocine, Douglas and Smeeth (2011, JASA 106:417–426) model the end of observation given an
event at age t, and weight the time at each age t by the density w(t) of the observed end, had the
event been at t: the length of an interval is replaced by the integral of w over it.

The model is a mixture of a short time after the event (exponential) and the usual end of
observation (Weibull or gamma, on the scale of age or of the time since the event). Ends that are
independent of the person (``end_known``) are censored. The best of the four models by AIC is used.
The models are fitted to the day of each end: a point density has a pole at the event, so that a few
events on the last day would outweigh all other data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaincc, gammaln, log_expit

from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.errors import DataError

__all__ = ["MODELS", "CensorModel", "fit_censoring"]

MODELS = ("weibull-age", "weibull-interval", "gamma-age", "gamma-interval")
N_PARAMETERS = 7
PANELS, NARROWER, NODES = 5, 3.0, 14
# The number of cases per slice, whose matrices have a column for each node.
SLICE = 50_000
STARTS = ((0.5, -3.0), (0.1, -1.5), (0.02, -0.5), (0.003, -2.0))  # Relative mean, log odds.
NEAR = 1e-3  # Tolerance of the log-likelihood, far below the two units that matter for AIC.
TINY = 1e-300  # Smaller survival probabilities are replaced by this value.
DAY = 1 / DAYS_PER_YEAR


@dataclass(frozen=True)
class CensorModel:
    """Model of the end of observation given the age at the event.

    Attributes
    ----------
    kind : str
        One of `MODELS`.
    parameters : (7,) array
        log ρ of the exponential's mean; intercept and slope (on log age) of the log scale;
        intercept and slope (on age) of the logit of the share of early ends; intercept and slope of
        the log shape. Ages are in years: at the start of observation in age models, at the event in
        interval models.
    converged : bool
        Whether the search converged: another Newton step would add less than `NEAR` to the
        log-likelihood.
    """

    kind: str
    parameters: tuple[float, ...]
    aic: float
    converged: bool = True

    def log_density(self, t: NDArray, start: NDArray, end: NDArray, known: NDArray) -> NDArray:
        """Return log w(t), the density of an end at age ``end`` after an event at age t (years)."""
        return _log_density(self.kind, np.asarray(self.parameters), t, start, end, known)

    def weights(
        self, age: NDArray, start: NDArray, end: NDArray, known: NDArray, first: NDArray,
        last: NDArray,
    ) -> NDArray:  # fmt: skip
        """Integrate w(t) over intervals; returns weights in days.

        Parameters
        ----------
        age, start, end, known : (n,) arrays
            Attributes of each interval's case, as in `Cases`.
        first, last : (n,) arrays
            First and last day of each interval.
        """
        s, w = _quadrature()
        out = np.empty(len(age))
        for a in range(0, len(age), SLICE):
            part = slice(a, a + SLICE)
            begin = _years(age[part])
            length = (last[part] - first[part] + 1) / DAYS_PER_YEAR
            high = begin + (last[part] + 1) / DAYS_PER_YEAR
            t = high[:, None] - length[:, None] * s
            log_w = self.log_density(
                t,
                _years(age[part] + start[part])[:, None],
                (begin + (end[part] + 1) / DAYS_PER_YEAR)[:, None],
                known[part][:, None],
            )
            out[part] = length * (np.exp(log_w) @ w) * DAYS_PER_YEAR
        if not (np.isfinite(out) & (out > 0)).all():
            raise DataError(
                "event-dependent observation: some weights are not positive numbers under the "
                f"model {self.kind}; the end of observation cannot be modelled in these data. "
                "Leave event_dependent_observation out and read the diagnostic"
            )
        return out


def _quadrature() -> tuple[NDArray, NDArray]:
    """Return nodes and weights on (0, 1), as distances from the end of an interval.

    Gauss–Legendre in panels, each a third as wide as the next: a density that is high only for days
    is resolved within years. Next to 0, where it may have a pole, the distance is s⁴.
    """
    s, w = np.polynomial.legendre.leggauss(NODES)
    s, w = (s + 1) / 2, w / 2
    edges = NARROWER ** -np.arange(PANELS - 1.0, -1.0, -1.0)
    nodes, weights = [edges[0] * s**4], [edges[0] * 4 * s**3 * w]
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        nodes.append(low + (high - low) * s)
        weights.append((high - low) * w)
    return np.concatenate(nodes), np.concatenate(weights)


def fit_censoring(population: Cases) -> CensorModel:
    """Fit the four models to each case's first outcome and return the one with the lowest AIC.

    Raises
    ------
    DataError
        Ages are unknown, no end of observation could depend on the event, or no model can be
        fitted.
    """
    population.require_age("event-dependent observation needs")
    if population.end_known.all():
        raise DataError(
            "event-dependent observation: every case is observed to the end of the database or of "
            "the study, so that nothing ended by the event; leave event_dependent_observation out"
        )
    case, first = np.unique(population.outcome_case, return_index=True)
    t = _years(population.age[case] + population.outcome_day[first] + 1)
    start = _years(population.age[case] + population.start[case])
    end = (population.age[case] + population.end[case] + 1) / DAYS_PER_YEAR
    known = population.end_known[case]
    t = np.where(t >= end, end - 0.5 * DAY, t)  # An event on the last day is placed in its middle.
    found = [_fit(kind, t, start, end, known) for kind in MODELS]
    fitted = [m for m in found if m is not None]
    if not fitted:
        raise DataError("event-dependent observation: none of the four models could be fitted")
    return min(fitted, key=lambda m: m.aic)


def _fit(kind: str, t: NDArray, start: NDArray, end: NDArray, known: NDArray) -> CensorModel | None:
    """Fit one model by maximum likelihood; None if the search fails."""
    scaled = _scales(start if kind.endswith("age") else t, t)

    def loss(q: NDArray) -> float:
        """Return minus the log-likelihood for standardised parameters."""
        with np.errstate(all="ignore"):
            value = -float(_log_of_day(kind, scaled @ q, t, start, end, known).sum())
        return value if math.isfinite(value) else 1e100

    tried = [
        minimize(loss, begin, method="BFGS", options={"maxiter": 25})
        for begin in _starts(kind, t, end)
    ]
    begin = min(tried, key=lambda found: found.fun).x
    best = minimize(loss, begin, method="BFGS", options={"maxiter": 500})
    if best.fun >= 1e99:
        return None
    aic = 2 * N_PARAMETERS + 2 * float(best.fun)
    # BFGS also reports failure if differences of the loss are below its rounding error.
    gain = float(best.jac @ best.hess_inv @ best.jac) / 2
    converged = math.isfinite(gain) and gain < NEAR
    return CensorModel(kind, tuple(map(float, scaled @ best.x)), aic, converged)


def _scales(anchor: NDArray, t: NDArray) -> NDArray:
    """Return the matrix from parameters on standardised ages to those of `CensorModel`, (7, 7).

    On raw ages, far from 0, intercept and slope are nearly collinear, and BFGS stops early.
    """
    out = np.eye(N_PARAMETERS)
    for at, x in ((1, np.log(anchor)), (3, t), (5, np.log(anchor))):
        spread = float(x.std()) or 1.0
        out[at, at + 1], out[at + 1, at + 1] = -float(x.mean()) / spread, 1 / spread
    return out


def _starts(kind: str, t: NDArray, end: NDArray) -> list[NDArray]:
    """Choose starting points: usual ends as spread in the data, early ends of four kinds.

    The likelihood has several maxima: early may mean days or years, for few or many people.
    """
    x = end if kind.endswith("age") else end - t
    scale = math.log(float(x.mean()))
    spread = float(np.log(x).std())
    # The log of a Weibull variable has a standard deviation of π / (√6 shape).
    shape = math.log(1.28 / spread) if kind.endswith("age") and spread > 0 else 0.0
    gap = float((end - t).mean())
    return [
        np.array([math.log(gap * part), scale, 0.0, odds, 0.0, min(shape, 4.0), 0.0])
        for part, odds in STARTS
    ]


def _log_density(
    kind: str, p: NDArray, t: NDArray, start: NDArray, end: NDArray, known: NDArray
) -> NDArray:
    """Return log[π f₁ + (1 − π) f₂], with densities of the end, or survivals if censored."""
    rate, eta = np.exp(-p[0]), p[3] + p[4] * t
    soon = -rate * (end - t) + np.where(known, 0.0, np.log(rate))
    hazard, survival = _late(kind, p, t, start, end)
    late = survival + np.where(known, 0.0, hazard)
    return np.logaddexp(log_expit(eta) + soon, log_expit(-eta) + late)


def _log_of_day(
    kind: str, p: NDArray, t: NDArray, start: NDArray, end: NDArray, known: NDArray
) -> NDArray:
    """Return the same with mean densities over the day that ends at ``end``, from t on."""
    rate, eta = np.exp(-p[0]), p[3] + p[4] * t
    before = np.maximum(end - DAY, t)
    soon = -rate * (before - t), -rate * (end - t)
    late = _late(kind, p, t, start, before)[1], _late(kind, p, t, start, end)[1]
    late = np.where(before > t, late[0], 0.0), late[1]  # Survival is one at the event.
    parts = [np.where(known, until[1], _of_day(*until)) for until in (soon, late)]
    return np.logaddexp(log_expit(eta) + parts[0], log_expit(-eta) + parts[1])


def _of_day(before: NDArray, after: NDArray) -> NDArray:
    """Return the log mean density over a day, from the log survivals before and after it."""
    before = np.maximum(before, -1e300)  # A survival of zero.
    return before + np.log(np.maximum(-np.expm1(after - before), TINY) / DAY)


def _late(
    kind: str, p: NDArray, t: NDArray, start: NDArray, end: NDArray
) -> tuple[NDArray, NDArray]:
    """Return log hazard at ``end`` and log survival from t to then, without an early end."""
    family, scale = kind.split("-")
    anchor = np.log(start if scale == "age" else t)
    lam = np.exp(-(p[1] + p[2] * anchor))
    nu = np.exp(np.clip(p[5] + p[6] * anchor, -20, 20))
    x, x0 = (end, t) if scale == "age" else (np.maximum(end - t, 1e-12), None)
    with np.errstate(over="ignore", invalid="ignore"):  # Callers check for NaN.
        return _weibull(x, x0, lam, nu) if family == "weibull" else _gamma(x, x0, lam, nu)


def _weibull(x: NDArray, x0: NDArray | None, lam: NDArray, nu: NDArray) -> tuple[NDArray, NDArray]:
    """Return log hazard at x and log survival from x0 (or 0) to x, for a Weibull distribution."""
    hazard = np.log(nu) + np.log(lam) + (nu - 1) * (np.log(x) + np.log(lam))
    gone = (x * lam) ** nu - (0.0 if x0 is None else (x0 * lam) ** nu)
    return hazard, -gone


def _gamma(x: NDArray, x0: NDArray | None, lam: NDArray, nu: NDArray) -> tuple[NDArray, NDArray]:
    """Return the same for a gamma distribution of shape ν and mean 1 / λ."""
    rate = nu * lam
    density = nu * np.log(rate) + (nu - 1) * np.log(x) - rate * x - gammaln(nu)
    survival = np.log(np.maximum(gammaincc(nu, x * rate), TINY))
    before = 0.0 if x0 is None else np.log(np.maximum(gammaincc(nu, x0 * rate), TINY))
    return density - survival, survival - before


def _years(days: NDArray) -> NDArray:
    """Convert days to years, with a minimum of one day."""
    return np.maximum(days, 1.0) / DAYS_PER_YEAR
