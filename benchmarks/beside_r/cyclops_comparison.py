"""Fit random problems here, read what Cyclops found, and classify every difference.

Both ends are evaluated by the dense objective of `benchmarks.random_problems`, which shares no line
with either.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.random_problems.draw import Problem
from benchmarks.random_problems.expand import dense_problem
from benchmarks.random_problems.inputs import arguments, coefficients, estimator
from benchmarks.random_problems.second import separated, undetermined

import steropes

from .cyclops_problems import (
    FOLDS,
    GRID,
    cyclops_problem,
    folds_of,
    profile_points,
    write_problems,
)
from .r_programs import run_r

__all__ = ["CLASSES", "Compared", "compare_with_cyclops", "counts_by_family"]

# Classes of a problem, from agreement to what must be explained.
CLASSES = (
    "agrees",
    "R's optimum is worse",
    "R failed or refused",
    "no optimum exists",
    "documented convention",
    "DIFFERENT",
)
CLOSE = 1e-6  # of the objective, and of a coefficient in its standard errors
RANGE = 1e-9  # an eigenvalue of the scaled information below which coefficients are not determined


@dataclass
class Compared:
    """How one problem compares."""

    problem: Problem
    verdict: str = "agrees"
    words: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)

    def found(self, verdict: str, words: str) -> None:
        """Note a difference; the worst class is the problem's."""
        if CLASSES.index(verdict) > CLASSES.index(self.verdict):
            self.verdict = verdict
        self.words.append(words)


def compare_with_cyclops(seeds: range, family: str | None = None) -> list[Compared]:
    """Fit the problems of some seeds in both programs and compare them."""
    problems = [cyclops_problem(seed, family) for seed in seeds]
    fits = {problem.seed: _fit(problem) for problem in problems}
    points = {seed: _points(model) for seed, model in fits.items()}
    with tempfile.TemporaryDirectory() as folder:
        write_problems(problems, Path(folder), points)
        run_r("cyclops_problems.R", folder)
        lines = (Path(folder) / "cyclops.jsonl").read_text(encoding="utf-8").splitlines()
    answers = {answer["id"]: answer for answer in map(json.loads, lines)}
    return [
        _compare(problem, fits[problem.seed], answers[problem.seed], points[problem.seed])
        for problem in problems
    ]


def counts_by_family(results: list[Compared]) -> dict[str, Counter]:
    """Numbers of problems in each class, by family."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for result in results:
        counts[result.problem.family][result.verdict] += 1
    return counts


def _fit(problem: Problem) -> Any:
    """The fitted model, or the error that refuses the problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        try:
            return estimator(problem).fit(**arguments(problem))
        except steropes.DataError as error:
            return error


def _points(model: Any) -> list[float]:
    """Where both evaluate the profile of the first column: around its estimate, if it has one."""
    if isinstance(model, Exception) or not model.converged_:
        return []
    try:
        error = float(model.vcov("model").iloc[-len(model.coef_), -len(model.coef_)]) ** 0.5
    except steropes.DataError:
        return []
    if not np.isfinite(error):
        return []
    return [float(v) for v in profile_points(model.coef_[0], error)]


def _compare(problem: Problem, model: Any, answer: dict[str, Any], points: list[float]) -> Compared:
    out = Compared(problem)
    if isinstance(model, Exception):
        return _refused(out, model, answer)
    if answer["flag"] != "SUCCESS":
        out.found("R failed or refused", str(answer["flag"]))
        return out
    dense = dense_problem(problem)
    theirs = np.array([np.nan if b is None else b for b in answer["coefficients"]], float)
    ours = coefficients(problem, model)
    if not np.isfinite(theirs).all():
        out.found("R failed or refused", "coefficients are not finite")
        return out
    _compare_optimum(out, dense, ours, theirs)
    if out.verdict == "agrees":
        _compare_likelihood(out, dense, theirs, answer)
        _compare_profile(out, model, answer, points)
    _compare_scores(out, problem, answer)
    return out


def _refused(out: Compared, error: Exception, answer: dict[str, Any]) -> Compared:
    """A problem that is refused here: whether it has an optimum."""
    dense = dense_problem(out.problem)
    said = f"{type(error).__name__}: {str(error)[:80]}; R: {answer['flag']}"
    missing = isinstance(error, steropes.SeparationError) and (
        separated(dense) is not None or undetermined(dense) < RANGE
    )
    if missing or answer["flag"] != "SUCCESS" or "at least" in said or "No stratum" in said:
        out.found("no optimum exists", said)
    else:
        out.found("DIFFERENT", said)
    return out


def _objective(dense: Any, theta: np.ndarray) -> float:
    t = dense.in_scale(theta)
    penalty = np.sum(dense.l1 * abs(t)) + 0.5 * np.sum(dense.l2 * t**2)
    return float(dense.at(theta)[0] + penalty)


def _compare_optimum(out: Compared, dense: Any, ours: np.ndarray, theirs: np.ndarray) -> None:
    here, there = _objective(dense, ours), _objective(dense, theirs)
    out.counts["coefficients"] += len(ours)
    allowed = CLOSE * (1 + abs(here))
    if here > there + allowed:
        out.found("DIFFERENT", f"objective {here:.9g} here, {there:.9g} in R")
    elif there > here + allowed:
        out.found("R's optimum is worse", f"objective {here:.9g} here, {there:.9g} in R")


def _compare_likelihood(
    out: Compared, dense: Any, theirs: np.ndarray, answer: dict[str, Any]
) -> None:
    """R's log-likelihood at its own coefficients, up to the constants that it leaves out."""
    value = -dense.at(theirs)[0]
    constant = getattr(getattr(dense, "loss", None), "constant", 0.0)
    reported = float(answer["log_likelihood"])
    out.counts["log-likelihoods"] += 1
    if out.problem.family == "linear":
        value *= 2  # Cyclops's loss of least squares is the residual sum of squares
    near = min(abs(reported - value), abs(reported - value + constant))
    if near > 1e-5 * (1 + abs(value)):
        out.found("DIFFERENT", f"log-likelihood {value:.8g}, R reports {reported:.8g}")


def _compare_profile(
    out: Compared, model: Any, answer: dict[str, Any], points: list[float]
) -> None:
    """Profiles of the first coefficient, each below its own largest value at the points."""
    theirs = answer.get("profile")
    if theirs is None or out.problem.family == "linear":
        return  # Cyclops does not divide by the residual variance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        table = model.inference.profile(0, points)
    here, there = table["log_likelihood"].to_numpy(), np.array(theirs, float)
    known = np.isfinite(here) & np.isfinite(there)
    out.counts["points of profiles"] += int(known.sum())
    if known.sum() < 2:
        return
    off = here - here[known].max() - (there - there[known].max())
    allowed = 1e-4 * (1 + np.ptp(here[known]))
    if not (abs(off[known]) <= allowed).all():
        out.found("DIFFERENT", f"profile: off by {off.round(5)}")


def _compare_scores(out: Compared, problem: Problem, answer: dict[str, Any]) -> None:
    """Compare held-out log-likelihoods of the same folds, around their mean over variances."""
    scores = answer.get("scores")
    if not scores:
        return
    theirs = np.array([[np.nan if v is None else v for v in row] for row in scores], float)
    folds = folds_of(problem)
    pairs = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(FOLDS)]
    grid = [*(GRID * next(iter(problem.variances.values())))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        try:
            fitted = estimator(problem, cv=steropes.CrossValidation(pairs, search=grid))
            ours = fitted.fit(**arguments(problem)).cv_results_.sort_values("variance")["mean"]
        except steropes.DataError:
            return  # a fold without an optimum
    mean = theirs.mean(axis=1)
    if not np.isfinite(mean).all() or len(ours) != len(mean):
        return
    out.counts["cross-validated variances"] += len(mean)
    here, there = ours.to_numpy() - ours.mean(), mean - mean.mean()
    if problem.family == "linear":
        there = there / 2
    allowed = 5e-3 * np.ptp(there) + 3e-3 * abs(mean).max()  # folds are fitted coarsely
    if not (abs(here - there) <= allowed).all():
        out.found("DIFFERENT", f"scores {here.round(5)} here, {there.round(5)} in R")
