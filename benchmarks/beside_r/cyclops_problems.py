"""Random problems that both steropes and Cyclops have, in files that R reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.random_problems.draw import Problem, draw

__all__ = [
    "CONDITIONAL",
    "FOLDS",
    "GRID",
    "MODEL_TYPES",
    "cyclops_problem",
    "folds_of",
    "profile_points",
    "write_problems",
]

# Families, with Cyclops's names of its models.
MODEL_TYPES = {
    "linear": "ls",
    "logistic": "lr",
    "poisson": "pr",
    "cox": "cox",
    "fine_gray": "fgr",
    "conditional_logistic": "clr",
    "conditional_poisson": "cpr",
    "sccs": "sccs",
}
CONDITIONAL = ("conditional_logistic", "conditional_poisson", "sccs")
METHODS = {"exact": "clr_exact", "efron": "clr_efron", "breslow": "clr"}
FOLDS = 4
GRID = np.array([0.1, 1.0, 10.0])  # multiples of the drawn variance


def cyclops_problem(seed: int, family: str | None = None) -> Problem:
    """Draw a problem, and leave out what Cyclops does not have.

    Cyclops has no late entry, no mixture of both priors, no offset beside the time at risk, and
    Breslow's ties alone; prior variances are the same for all columns. Its weights of conditional
    models are meant for whole strata, and Fine-Gray models have none; their censored times are
    moved beyond tied events, since cmprsk, which it follows, has another convention of ties.
    """
    names = [*MODEL_TYPES]
    problem = draw(seed, family or names[np.random.default_rng([7, seed]).integers(len(names))])
    problem.data.pop("entry", None)
    problem.offset = None
    problem.settings.pop("solver", None)
    problem.settings.pop("max_iter", None)
    if problem.family in ("linear", "logistic", "poisson"):
        problem.settings["fit_intercept"] = True
    if problem.family == "cox":
        problem.settings["ties"] = "breslow"
    if problem.family in ("conditional_poisson", "linear", "logistic"):
        problem.exposure = None
    if problem.family in CONDITIONAL and problem.weights is not None:
        first = np.unique(problem.strata, return_index=True, return_inverse=True)
        problem.weights = problem.weights[first[1]][first[2]]
    if problem.family == "fine_gray":
        problem.weights = problem.strata = None
        data = problem.data
        data["time"] = data["time"] + np.where(data["event"] == 0, 1e-4, 0.0)
    if problem.prior == "elastic":
        problem.prior = "laplace"
        del problem.variances["normal"]
    problem.variances = {k: float(np.median(v)) for k, v in problem.variances.items()}
    problem.storage = "frame"
    problem.words["cv"] = bool(problem.variances) and seed % 3 == 0
    if problem.family == "fine_gray" and problem.words["cv"]:
        # Cyclops weights by the censoring of all folds, so that one person alone is censored, last.
        event, time = problem.data["event"], problem.data["time"]
        event = np.where(event == 0, 2, event)
        event[np.argmax(time)] = 0
        problem.data |= {"event": event, "time": time + np.where(event == 0, 1e-4, 0.0)}
    return problem


def folds_of(problem: Problem) -> np.ndarray:
    """The fold of each row: whole strata, as Cyclops and steropes divide conditional models."""
    rng = np.random.default_rng([8, problem.seed])
    if problem.family in CONDITIONAL:
        labels, code = np.unique(problem.strata, return_inverse=True)
        return rng.permutation(np.arange(len(labels)) % FOLDS)[code]
    return rng.permutation(np.arange(problem.n) % FOLDS)


def profile_points(centre: float, error: float) -> np.ndarray:
    """Values of a coefficient at which both evaluate a profile."""
    return centre + error * np.array([-2.0, -1.0, -0.3, 0.5, 1.0, 2.0])


def scale_of_loss(problem: Problem) -> float:
    """Return what a prior variance is divided by for Cyclops.

    Its loss of least squares is the residual sum of squares instead of half of it.
    """
    if problem.family != "linear":
        return 1.0
    return 4.0 if problem.prior == "laplace" else 2.0


def model_type(problem: Problem) -> str:
    """Cyclops's name of a problem's model."""
    if problem.family == "conditional_logistic":
        return METHODS[problem.settings["method"]]
    return MODEL_TYPES[problem.family]


def write_problems(
    problems: list[Problem], folder: Path, points: dict[int, list[float]], draws: int | None = None
) -> None:
    """Write a CSV file for each problem, and one JSON file that describes them all.

    With a number of draws R returns coefficients of bootstrap samples.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index: list[dict[str, Any]] = []
    for problem in problems:
        frame = pd.DataFrame(problem.X, columns=[f"x{j}" for j in range(problem.X.shape[1])])
        data = problem.data
        frame["y"] = data["y"] if "y" in data else data["event"]
        time = problem.exposure if problem.exposure is not None else np.ones(problem.n)
        frame["time"] = data.get("time", time)
        frame["w"] = 1.0 if problem.weights is None else problem.weights
        frame["stratum"] = 0 if problem.strata is None else problem.strata
        frame["fold"] = folds_of(problem)
        falling = -frame["time"] if "time" in data else np.zeros(problem.n)
        frame = frame.iloc[np.lexsort((frame["y"], falling, frame["stratum"]))]
        frame.to_csv(folder / f"{problem.seed}.csv", index=False, float_format="%.17g")
        prior = problem.prior if problem.variances else "none"
        variance = next(iter(problem.variances.values()), 1.0) / scale_of_loss(problem)
        index.append(
            {
                "id": problem.seed,
                "type": model_type(problem),
                "intercept": bool(problem.settings.get("fit_intercept", False)),
                "stratified": problem.strata is not None,
                "weighted": problem.weights is not None,
                "prior": prior,
                "variance": variance,
                "exclude": [int(j) for j in problem.excluded],
                "grid": [*(GRID * variance)] if problem.words["cv"] else [],
                "points": points.get(problem.seed, []),
                "draws": draws,
            }
        )
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
