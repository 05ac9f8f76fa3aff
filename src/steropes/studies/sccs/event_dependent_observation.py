"""Observation that the event may end: weights of time (Farrington and others 2011).

Where an event makes the end of observation likelier (a death, a move to another hospital), time
after it is missing because of it, and a case series is biased. Farrington, Anaya-Izquierdo,
Whitaker, Hocine, Douglas and Smeeth (2011, JASA 106:417–426) model the end of observation given
an event at age t, and weigh the time at each age t by the density w(t) of the end that was seen,
had the event been at t: the length of an interval becomes the integral of w over it.

The model is a mixture of a short time after the event (exponential) and the end that people have
anyway (Weibull or gamma, on the scale of age or of the time since the event). Ends that have
nothing to do with the person (``end_known``) are censored. The best of the four by AIC is taken.
What is known of an end is its day, and the models are fitted to that: a density at a point has a
pole at the event, in which a few events on the last day would outweigh all other data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaincc, gammaln, log_expit

from steropes.errors import DataError
from steropes.studies.sccs.case_population import DAYS_A_YEAR, Population

__all__ = ["MODELS", "CensorModel", "fit_censoring"]

MODELS = ("weibull-age", "weibull-interval", "gamma-age", "gamma-interval")
N_PARAMETERS = 7
PANELS, NARROWER, NODES = 5, 3.0, 14
SLICE = 50_000
STARTS = ((0.5, -3.0), (0.1, -1.5), (0.02, -0.5), (0.003, -2.0))  # mean over that of all; log odds
FIRST_STEPS = 25  # from each of the starts; the best goes on
NEAR = 1e-3  # of a log-likelihood: far below the two units by which AIC tells models apart
TINY = 1e-300  # a survival below it is taken to be this small
DAY = 1 / DAYS_A_YEAR


@dataclass(frozen=True)
class CensorModel:
    """How the end of observation depends on the age at the event.

    Attributes
    ----------
    kind : str
        One of `MODELS`.
    parameters : (7,) array
        log ρ of the exponential's mean; intercept and slope (on the log of age) of the log scale;
        intercept and slope (on age) of the logit of the share that ends soon; intercept and
        slope of the log shape. Ages in years; the age is that at the start of observation, in
        interval models that at the event.
    aic : float
    converged : bool
        Whether the search ended at its optimum: another Newton step would add less than
        `NEAR` to the log-likelihood.
    """

    kind: str
    parameters: tuple[float, ...]
    aic: float
    converged: bool = True

    def log_density(self, t: NDArray, start: NDArray, end: NDArray, known: NDArray) -> NDArray:
        """log w(t): of an end at age ``end``, had the event been at age t (years)."""
        return _log_density(self.kind, np.asarray(self.parameters), t, start, end, known)

    def weights(
        self, age: NDArray, start: NDArray, end: NDArray, known: NDArray, first: NDArray,
        last: NDArray,
    ) -> NDArray:  # fmt: skip
        """Weights of intervals, ∫ w(t) dt, in days.

        Parameters
        ----------
        age, start, end, known : (n,) arrays
            Of each interval's case, as in `Population`.
        first, last : (n,) arrays
            First and last day of each interval.
        """
        s, w = _quadrature()
        out = np.empty(len(age))
        for a in range(0, len(age), SLICE):
            part = slice(a, a + SLICE)
            begin = _years(age[part])
            length = (last[part] - first[part] + 1) / DAYS_A_YEAR
            high = begin + (last[part] + 1) / DAYS_A_YEAR
            t = high[:, None] - length[:, None] * s
            log_w = self.log_density(
                t,
                _years(age[part] + start[part])[:, None],
                (begin + (end[part] + 1) / DAYS_A_YEAR)[:, None],
                known[part][:, None],
            )
            out[part] = length * (np.exp(log_w) @ w) * DAYS_A_YEAR
        if not (np.isfinite(out) & (out > 0)).all():
            bad = int((~(np.isfinite(out) & (out > 0))).sum())
            raise DataError(
                f"event-dependent observation: {bad} of {len(out)} weights are not positive "
                f"numbers under the model {self.kind}; the end of observation cannot be modelled "
                "in these data. Leave event_dependent_observation out and read the diagnostic"
            )
        return out


def _quadrature() -> tuple[NDArray, NDArray]:
    """Nodes and weights on (0, 1), a distance from the end of an interval.

    Gauss–Legendre in panels, each a third as wide as the next: a density that is high for days
    only is resolved in years. Next to 0, where it may have a pole, the distance is s⁴.
    """
    s, w = np.polynomial.legendre.leggauss(NODES)
    s, w = (s + 1) / 2, w / 2
    edges = NARROWER ** -np.arange(PANELS - 1.0, -1.0, -1.0)
    nodes, weights = [edges[0] * s**4], [edges[0] * 4 * s**3 * w]
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        nodes.append(low + (high - low) * s)
        weights.append((high - low) * w)
    return np.concatenate(nodes), np.concatenate(weights)


def fit_censoring(population: Population) -> CensorModel:
    """Fit the four models to each case's first outcome; returns that of the least AIC.

    Raises
    ------
    DataError
        Ages are not known, no end of observation that could depend on the event, or no model
        that can be fitted.
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
    end = (population.age[case] + population.end[case] + 1) / DAYS_A_YEAR
    known = population.end_known[case]
    t = np.where(t >= end, end - 0.5 * DAY, t)  # an event on the last day is in its middle
    found = [_fit(kind, t, start, end, known) for kind in MODELS]
    fitted = [m for m in found if m is not None]
    if not fitted:
        raise DataError("event-dependent observation: none of the four models could be fitted")
    return min(fitted, key=lambda m: m.aic)


def _fit(kind: str, t: NDArray, start: NDArray, end: NDArray, known: NDArray) -> CensorModel | None:
    scaled = _scales(start if kind.endswith("age") else t, t)

    def loss(q: NDArray) -> float:
        with np.errstate(all="ignore"):
            value = -float(_log_of_day(kind, scaled @ q, t, start, end, known).sum())
        return value if math.isfinite(value) else 1e100

    tried = [
        minimize(loss, begin, method="BFGS", options={"maxiter": FIRST_STEPS})
        for begin in _starts(kind, t, end)
    ]
    begin = min(tried, key=lambda found: found.fun).x
    best = minimize(loss, begin, method="BFGS", options={"maxiter": 500})
    if best.fun >= 1e99:
        return None
    aic = 2 * N_PARAMETERS + 2 * float(best.fun)
    # BFGS calls a search a failure too if differences of the loss are below its rounding
    gain = float(best.jac @ best.hess_inv @ best.jac) / 2
    converged = math.isfinite(gain) and gain < NEAR
    return CensorModel(kind, tuple(map(float, scaled @ best.x)), aic, converged)


def _scales(anchor: NDArray, t: NDArray) -> NDArray:
    """Parameters of slopes on standardised ages to those of `CensorModel`, (7, 7).

    Ages are far from 0, where an intercept and a slope say nearly the same, and BFGS ends early.
    """
    out = np.eye(N_PARAMETERS)
    for at, x in ((1, np.log(anchor)), (3, t), (5, np.log(anchor))):
        spread = float(x.std()) or 1.0
        out[at, at + 1], out[at + 1, at + 1] = -float(x.mean()) / spread, 1 / spread
    return out


def _starts(kind: str, t: NDArray, end: NDArray) -> list[NDArray]:
    """Where the search begins: late ends as they are spread in the data, soon ones of four kinds.

    The likelihood has several maxima: what is short may be days or years, a few or many.
    """
    x = end if kind.endswith("age") else end - t
    scale = math.log(float(x.mean()))
    spread = float(np.log(x).std())
    # of a Weibull distribution the log has a standard deviation of π / (√6 shape)
    shape = math.log(1.28 / spread) if kind.endswith("age") and spread > 0 else 0.0
    gap = float((end - t).mean())
    return [
        np.array([math.log(gap * part), scale, 0.0, odds, 0.0, min(shape, 4.0), 0.0])
        for part, odds in STARTS
    ]


def _log_density(
    kind: str, p: NDArray, t: NDArray, start: NDArray, end: NDArray, known: NDArray
) -> NDArray:
    """log of π f₁ + (1 − π) f₂, densities of the end, or survivals where it is censored."""
    rate, eta = np.exp(-p[0]), p[3] + p[4] * t
    soon = -rate * (end - t) + np.where(known, 0.0, np.log(rate))
    hazard, survival = _late(kind, p, t, start, end)
    late = survival + np.where(known, 0.0, hazard)
    return np.logaddexp(log_expit(eta) + soon, log_expit(-eta) + late)


def _log_of_day(
    kind: str, p: NDArray, t: NDArray, start: NDArray, end: NDArray, known: NDArray
) -> NDArray:
    """The same with the mean of the densities over the day that ends at ``end`` (from t on)."""
    rate, eta = np.exp(-p[0]), p[3] + p[4] * t
    before = np.maximum(end - DAY, t)
    soon = -rate * (before - t), -rate * (end - t)
    late = _late(kind, p, t, start, before)[1], _late(kind, p, t, start, end)[1]
    late = np.where(before > t, late[0], 0.0), late[1]  # everybody is left at the event
    parts = [np.where(known, until[1], _of_day(*until)) for until in (soon, late)]
    return np.logaddexp(log_expit(eta) + parts[0], log_expit(-eta) + parts[1])


def _of_day(before: NDArray, after: NDArray) -> NDArray:
    """Log of the mean density over a day, from the log survivals before and after it."""
    before = np.maximum(before, -1e300)  # nobody is left
    return before + np.log(np.maximum(-np.expm1(after - before), TINY) / DAY)


def _late(
    kind: str, p: NDArray, t: NDArray, start: NDArray, end: NDArray
) -> tuple[NDArray, NDArray]:
    """Log hazard at ``end`` and log survival from t until then, of those whom nothing ends soon."""
    family, scale = kind.split("-")
    anchor = np.log(start if scale == "age" else t)
    lam = np.exp(-(p[1] + p[2] * anchor))
    nu = np.exp(np.clip(p[5] + p[6] * anchor, -20, 20))
    x, x0 = (end, t) if scale == "age" else (np.maximum(end - t, 1e-12), None)
    with np.errstate(over="ignore", invalid="ignore"):  # callers look for NaN
        return _weibull(x, x0, lam, nu) if family == "weibull" else _gamma(x, x0, lam, nu)


def _weibull(x: NDArray, x0: NDArray | None, lam: NDArray, nu: NDArray) -> tuple[NDArray, NDArray]:
    """Log hazard at x, and log survival from x0 (or 0) to x."""
    hazard = np.log(nu) + np.log(lam) + (nu - 1) * (np.log(x) + np.log(lam))
    gone = (x * lam) ** nu - (0.0 if x0 is None else (x0 * lam) ** nu)
    return hazard, -gone


def _gamma(x: NDArray, x0: NDArray | None, lam: NDArray, nu: NDArray) -> tuple[NDArray, NDArray]:
    """The same of a gamma distribution of shape ν and mean 1 / λ."""
    rate = nu * lam
    density = nu * np.log(rate) + (nu - 1) * np.log(x) - rate * x - gammaln(nu)
    survival = np.log(np.maximum(gammaincc(nu, x * rate), TINY))
    before = 0.0 if x0 is None else np.log(np.maximum(gammaincc(nu, x0 * rate), TINY))
    return density - survival, survival - before


def _years(days: NDArray) -> NDArray:
    return np.maximum(days, 1.0) / DAYS_A_YEAR
