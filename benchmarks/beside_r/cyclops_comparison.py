"""Fit random problems here, read what Cyclops found, and classify every difference.

Both ends are evaluated by the dense objective of `benchmarks.random_problems`, which shares no line
with either.
"""

from __future__ import annotations

import contextlib
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
from benchmarks.random_problems.folds import Unfinished, held_out
from benchmarks.random_problems.inputs import arguments, coefficients, estimator
from benchmarks.random_problems.second import optimise, separated, undetermined
from scipy.special import gammaln

import steropes

from .cyclops_problems import (
    CONDITIONAL,
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
    "R's error",
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
    coefficients: list[float] = field(default_factory=list)  # Cyclops's
    log_likelihood: float = float("nan")  # Cyclops's, without its constants

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
    answers: dict[int, dict[str, Any]] = {}
    left = problems
    while left:
        found = _answers(left, points)
        answers |= found
        left = [problem for problem in left if problem.seed not in answers]
        if left:  # R was aborted by the next problem.
            answers[left[0].seed] = {"id": left[0].seed, "flag": "R crashed"}
            left = left[1:]
    return [
        _compare(problem, fits[problem.seed], answers[problem.seed], points[problem.seed])
        for problem in problems
    ]


def _answers(problems: list[Problem], points: dict[int, list[float]]) -> dict[int, dict[str, Any]]:
    """Return R's answers by seed, up to a problem at which the process of R ends."""
    with tempfile.TemporaryDirectory() as folder:
        write_problems(problems, Path(folder), points)
        with contextlib.suppress(RuntimeError):
            run_r("cyclops_problems.R", folder)
        file = Path(folder) / "cyclops.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    answers = {}
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):  # the line that was being written
            answer = json.loads(line)
            answers[answer["id"]] = answer
    return answers


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
        except (steropes.DataError, steropes.SeparationError) as error:
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
    problem = out.problem
    out.coefficients, out.log_likelihood = theirs.tolist(), float(value)
    if problem.family == "linear":
        value *= 2  # Cyclops's loss of least squares is the residual sum of squares
    if problem.family in CONDITIONAL and problem.weights is not None:
        # Denominators count rows once in Cyclops, and as often as their weight here.
        used = problem.weights > 0
        w, y = problem.weights[used], problem.data["y"][used]
        value += float(np.sum(w * y * np.log(w)))
    if problem.family == "conditional_poisson":
        w = np.ones(problem.n) if problem.weights is None else problem.weights
        value -= float(np.sum(w * gammaln(problem.data["y"] + 1)))
    near = min(abs(reported - value), abs(reported - value + constant))
    if near > 1e-5 * (1 + abs(value)):
        # Cyclops's exact conditional likelihood is wrong at optima that are right, and that of its
        # model of Efron's approximation is Breslow's.
        wrong = out.problem.settings.get("method") in ("exact", "efron")
        verdict = "R's error" if wrong else "DIFFERENT"
        out.found(verdict, f"log-likelihood {value:.8g}, R reports {reported:.8g}")


def _compare_profile(
    out: Compared, model: Any, answer: dict[str, Any], points: list[float]
) -> None:
    """Compare profiles of the first coefficient, relative to their largest value at the points.

    Cyclops includes the penalty of the coefficient itself.
    """
    theirs = answer.get("profile")
    if theirs is None or out.problem.family == "linear" or out.verdict != "agrees":
        return  # Cyclops does not divide by the residual variance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        try:
            table = model.inference.profile("x0", points)
        except steropes.DataError:
            return  # a point at which exp of a linear predictor would overflow
    here, there = table["log_likelihood"].to_numpy(), np.array(theirs, float)
    if out.problem.prior == "normal" and 0 not in out.problem.excluded:
        here = here - 0.5 * np.square(points) / out.problem.variances["normal"]
    known = np.isfinite(here) & np.isfinite(there)
    out.counts["points of profiles"] += int(known.sum())
    if known.sum() < 2:
        return
    off = here - here[known].max() - (there - there[known].max())
    allowed = 1e-4 * (1 + np.ptp(here[known]))
    if not (abs(off[known]) <= allowed).all():
        confirmed = _confirmed(out.problem, model, points, table["log_likelihood"].to_numpy())
        verdict = "R's error" if confirmed else "DIFFERENT"
        out.found(verdict, f"profile: off by {off.round(5)}")


def _confirmed(problem: Problem, model: Any, points: list[float], ours: np.ndarray) -> bool:
    """Whether the dense optimiser finds the same profile, relative to its largest value."""
    dense = dense_problem(problem)
    j = dense.n_free  # the first slope
    others = np.delete(np.arange(dense.P), j)
    found = []
    for point in points:
        theta = coefficients(problem, model).copy()
        theta[j] = point
        t = dense.in_scale(theta)
        _, objective, violation = optimise(dense, columns=others, start=t)
        penalty = dense.l1[j] * abs(t[j]) + 0.5 * dense.l2[j] * t[j] ** 2
        found.append(penalty - objective if violation < CLOSE else np.nan)
    known = np.isfinite(found)
    if known.sum() < 2:
        return False
    here, there = ours[known], np.array(found)[known]
    apart = (here - here.max()) - (there - there.max())
    return bool((abs(apart) <= 1e-5 * (1 + np.ptp(here))).all())


def _compare_scores(out: Compared, problem: Problem, answer: dict[str, Any]) -> None:
    """Compare held-out log-likelihoods of the same folds, around their mean over variances."""
    scores = answer.get("scores")
    if not scores or problem.family == "linear":
        return  # Cyclops predicts squares without a variance
    theirs = np.array([[np.nan if v is None else v for v in row] for row in scores], float)
    folds = folds_of(problem)
    pairs = [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(FOLDS)]
    grid = [*(GRID * next(iter(problem.variances.values())))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        try:
            fitted = estimator(problem, cv=steropes.CrossValidation(pairs, search=grid))
            ours = fitted.fit(**arguments(problem)).cv_results_.sort_values("variance")["mean"]
        except (steropes.DataError, steropes.SeparationError):
            return  # a fold without an optimum
    mean = theirs.mean(axis=1)
    if not np.isfinite(mean).all() or len(ours) != len(mean):
        return
    out.counts["cross-validated variances"] += len(mean)
    here, there = ours.to_numpy() - ours.mean(), mean - mean.mean()
    allowed = 5e-3 * np.ptp(there) + 3e-3 * abs(mean).max() + 1e-9  # folds are fitted coarsely
    if not (abs(here - there) <= allowed).all():
        key = next(iter(problem.variances))
        try:
            parts = [[held_out(problem, {key: v}, *fold) for fold in pairs] for v in grid]
        except Unfinished:
            return
        dense = np.mean(parts, axis=1)
        confirmed = (abs(here - (dense - dense.mean())) <= allowed).all()
        verdict = "R's error" if confirmed else "DIFFERENT"
        out.found(verdict, f"scores {here.round(5)} here, {there.round(5)} in R")
