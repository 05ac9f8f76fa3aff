"""Calibrate and combine drawn estimates, and compare with R's packages for both."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, skewnorm

from steropes.designs.controls import (
    ErrorModel,
    SystematicError,
    calibrate,
    calibrate_interval,
    fit_error_model,
    fit_systematic_error,
)
from steropes.designs.evidence import Profile, combine_profiles, random_effects

from .r_programs import run_r
from .table_comparison import R_ERROR, TOLERANCE, StudyComparison

__all__ = ["answers_of_r", "compare_estimates", "draw_estimates"]

GRID = np.linspace(-6.0, 6.0, 121)
GRADIENTS = "grid with gradients"
APPROXIMATIONS = ("normal", "skew normal", "custom", "grid", "adaptive grid", GRADIENTS)
# The points of R's approximateLikelihood(), to which it adds the maximum.
POINTS_OF_R = np.linspace(-math.log(10), math.log(10), 8)
# A posterior may differ from R's chain by this many standard errors of the chain. They are of 20
# batches, and too small for the tails of τ.
MOST_ERRORS = 6.0
Likelihood = Callable[[Any], np.ndarray]


def draw_estimates(seed: int) -> dict[str, Any]:
    """Draw controls with known effects, an estimate, and likelihoods of several databases."""
    rng = np.random.default_rng([74, seed])
    n = int(rng.integers(10, 60))
    mean, sd = rng.normal(0.0, 0.2), rng.choice([0.05, 0.2, 0.4])
    truth = np.repeat(np.log([1.0, 1.5, 2.0, 4.0]), n)
    se = rng.uniform(0.05, 0.5, 4 * n)
    log_rr = truth * rng.uniform(0.8, 1.1) + mean + np.hypot(sd, se) * rng.normal(size=4 * n)
    return {
        "logRr": log_rr.tolist(),
        "seLogRr": se.tolist(),
        "truth": truth.tolist(),
        "newLogRr": float(rng.normal(0.3, 0.5)),
        "newSe": float(rng.uniform(0.05, 0.6)),
        "profiles": [_draw_profile(rng, 3, GRID) for _ in range(int(rng.integers(2, 9)))],
        "approximation": APPROXIMATIONS[seed % len(APPROXIMATIONS)],
        "bayesian": _draw_likelihoods(seed),
    }


def _draw_likelihoods(seed: int) -> list[dict[str, Any]]:
    """Draw approximations of one kind, in turn, of the likelihoods of several databases."""
    rng, kind = np.random.default_rng([75, seed]), APPROXIMATIONS[seed % len(APPROXIMATIONS)]
    databases, spread = int(rng.integers(2, 9)), rng.choice([0.0, 0.2, 0.6])
    if kind.endswith("grid"):
        return [_draw_profile(rng, 3, GRID) for _ in range(databases)]
    if kind == GRADIENTS:  # With more events, so that little of the posterior is beyond R's points.
        return [_draw_profile(rng, 30, POINTS_OF_R) for _ in range(databases)]
    y = rng.normal(rng.normal(0.3, 0.5), spread, databases)
    s, skew = rng.uniform(0.05, 0.6, databases), rng.normal(0.0, 1.0, databases)
    if kind == "normal":
        return [{"logRr": a, "seLogRr": b} for a, b in zip(y, s, strict=True)]
    name, skew = ("gamma", np.clip(skew, -1, 1) / 2) if kind == "custom" else ("alpha", 2 * skew)
    return [{"mu": a, "sigma": b, name: c} for a, b, c in zip(y, s, skew, strict=True)]


def _draw_profile(
    rng: np.random.Generator, least: int, points: np.ndarray
) -> dict[str, list[float]]:
    """Draw the profile of events among exposed people, given all events and the days."""
    events, share = int(rng.integers(least, least + 37)), float(rng.uniform(0.3, 0.7))
    exposed = int(np.clip(rng.binomial(events, share * 1.1), 1, events - 1))
    odds = share / (1 - share)
    if points is POINTS_OF_R:
        points = np.sort(np.append(points, math.log(exposed / (events - exposed) / odds)))
    value = exposed * points - events * np.log1p(odds * np.exp(points))
    derivative = exposed - events * odds * np.exp(points) / (1 + odds * np.exp(points))
    return {
        "point": points.tolist(),
        "value": (value - value.max()).tolist(),
        "derivative": derivative.tolist(),
    }


def answers_of_r(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return R's numbers for drawn estimates."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.json", Path(folder) / "found.json"
        given.write_text(json.dumps(drawn), encoding="utf-8")
        run_r("estimates.R", given, found)
        return list(json.loads(found.read_text(encoding="utf-8")))


def compare_estimates(
    seeds: range, answers: list[dict[str, Any]] | None = None
) -> Iterator[StudyComparison]:
    """Compare the calibration and synthesis of each seed's estimates with R's.

    Parameters
    ----------
    seeds : range
    answers : list of dict, optional
        R's numbers. Default: those of `answers_of_r`.

    Yields
    ------
    StudyComparison
        Numbers that agree and differ, by the part of R that makes them.
    """
    drawn = [draw_estimates(seed) for seed in seeds]
    answers = answers_of_r(drawn) if answers is None else answers
    for seed, inputs, theirs in zip(seeds, drawn, answers, strict=True):
        out = StudyComparison(seed)
        _compare(out, inputs, theirs)
        yield out


def _compare(out: StudyComparison, d: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Compute everything here and compare the numbers."""
    log_rr, se, truth = (np.array(d[name]) for name in ("logRr", "seLogRr", "truth"))
    negative = truth == 0
    null = fit_systematic_error(log_rr[negative], se[negative])
    # R's optimum is to its optimiser's tolerance; both likelihoods decide whose is better.
    _fit(out, "null", [null.mean, null.sd], theirs["null"],
         lambda t: _null_likelihood(log_rr[negative], se[negative], *t))  # fmt: skip
    of_r = SystematicError(*theirs["null"], int(negative.sum()))
    one = calibrate(d["newLogRr"], d["newSe"], of_r)
    _equal(out, "null.ease", of_r.expected_absolute, theirs["ease"], 1e-5)
    _equal(out, "null.p", one.p, theirs["p"], 1e-8)
    _equal(out, "null.one_sided_p", one.one_sided_p, theirs["one_sided_p"], 1e-8)
    _interval(out, "null.interval", one, theirs["simple"])
    model = fit_error_model(log_rr, se, truth)
    mine = [model.intercept, model.slope, model.sd, model.sd_slope]
    _fit(out, "model", mine, theirs["model"], lambda t: _model_likelihood(log_rr, se, truth, *t))
    line = ErrorModel(*theirs["model"], len(truth))
    _interval(out, "model.interval", calibrate_interval(d["newLogRr"], d["newSe"], line),
              theirs["interval"])  # fmt: skip
    profiles = [Profile(p["point"], p["value"], p["derivative"]) for p in d["profiles"]]
    combined = combine_profiles(profiles)
    _equal(out, "synthesis.log_rr", combined.log_rr, theirs["combined"]["logRr"], 1e-4)
    _equal(out, "synthesis.lower", combined.lower, math.log(theirs["combined"]["lb"]), 1e-3)
    _equal(out, "synthesis.upper", combined.upper, math.log(theirs["combined"]["ub"]), 1e-3)
    _equal(out, "synthesis.se", combined.se, theirs["combined"]["seLogRr"], 1e-3)
    if theirs.get("bayesian"):
        _compare_bayesian(out, d, theirs["bayesian"])


def _compare_bayesian(out: StudyComparison, d: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Compare a posterior with R's settled Markov chain, and then with the numbers of R itself."""
    found = random_effects([_likelihood(d["approximation"], one) for one in d["bayesian"]])
    ours = [found.log_rr, found.se, found.lower, found.upper, found.tau, found.tau_lower,
            found.tau_upper, found.predicted_lower, found.predicted_upper]  # fmt: skip
    names = ("log_rr", "se", "lower", "upper", "tau", "tau_lower", "tau_upper",
             "predicted_lower", "predicted_upper")  # fmt: skip
    reported = {"log_rr": "mu", "se": "muSe", "tau": "tau"}  # R's limits are of highest density.
    for name, mine, number, error in zip(
        names, ours, theirs["numbers"], theirs["errors"], strict=True
    ):
        out.compared[f"bayesian.{name}"] += 1
        if not abs(mine - number) <= MOST_ERRORS * error:
            out.differ[f"bayesian.{name}"] += 1
            out.examples.append(f"bayesian.{name}: {mine} / {number} ± {error}")
        elif name in reported:
            out.compared[f"bayesian.R's {name}"] += 1
            if not abs(mine - theirs["reported"][reported[name]]) <= MOST_ERRORS * error:
                out.explained[f"{R_ERROR}: the steps of R's Markov chain never settle"] += 1


def _likelihood(kind: str, one: dict[str, Any]) -> Likelihood:
    """Return the likelihood of a database that R's approximation describes."""
    if kind == "normal":
        return lambda b: norm.logpdf(b, one["logRr"], one["seLogRr"])
    if kind == "skew normal":
        return lambda b: skewnorm.logpdf(b, one["alpha"], one["mu"], one["sigma"])
    if kind == "custom":
        return lambda b: (
            -np.exp(one["gamma"] * (b - one["mu"])) * ((b - one["mu"]) / one["sigma"]) ** 2 / 2
        )
    slopes = one["derivative"] if kind == GRADIENTS else None
    return Profile(one["point"], one["value"], slopes)


def _interval(out: StudyComparison, cell: str, ours: Any, theirs: dict[str, float]) -> None:
    """Compare a calibrated estimate and its limits; R finds them to 1e-4."""
    for name, of_r in (("log_rr", "logRr"), ("lower", "logLb95Rr"), ("upper", "logUb95Rr")):
        _equal(out, f"{cell}.{name}", getattr(ours, name), theirs[of_r], 5e-4)


def _fit(out: StudyComparison, cell: str, ours: Any, theirs: Any, likelihood: Any) -> None:
    """Compare parameters; where they differ, the larger likelihood is right."""
    out.compared[cell] += len(ours)
    apart = sum(abs(a - b) > 1e-3 for a, b in zip(ours, theirs, strict=True))
    if not apart:
        return
    gain = likelihood(ours) - likelihood(theirs)
    if theirs[-1] < 0 and cell == "model":
        out.explained[f"{R_ERROR}: a negative standard deviation of the error model"] += apart
    elif gain > -1e-6:
        out.explained[f"{TOLERANCE}: R's optimiser ends at a lower likelihood"] += apart
    else:
        out.differ[cell] += apart
        out.examples.append(f"{cell}: {ours} / {theirs}, likelihood {gain:+.2e}")


def _equal(
    out: StudyComparison, cell: str, ours: float, theirs: float | None, close: float
) -> None:
    """Compare a number, which R may lack."""
    out.compared[cell] += 1
    if theirs is None:
        out.explained[f"{R_ERROR}: R finds no limit between −100 and 100"] += 1
        return
    if not abs(ours - theirs) <= close * max(1.0, abs(theirs)):
        out.differ[cell] += 1
        out.examples.append(f"{cell}: {ours} / {theirs}")


def _null_likelihood(y: np.ndarray, s: np.ndarray, mean: float, sd: float) -> float:
    variance = s**2 + sd**2
    return float(-0.5 * (np.log(variance) + (y - mean) ** 2 / variance).sum())


def _model_likelihood(
    y: np.ndarray, s: np.ndarray, t: np.ndarray, a: float, b: float, c: float, d: float
) -> float:
    sd = np.maximum(c + d * np.abs(t), 0.0)
    return _null_likelihood(y - a - b * t, np.hypot(s, sd), 0.0, 0.0)
