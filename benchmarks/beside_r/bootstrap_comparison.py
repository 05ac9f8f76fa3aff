"""Compare coefficients of bootstrap samples with those of Cyclops, in distribution."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.random_problems.draw import Problem
from benchmarks.random_problems.inputs import arguments, estimator
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from .cyclops_problems import cyclops_problem, write_problems
from .r_programs import run_r

__all__ = ["compare_bootstraps"]


def compare_bootstraps(seeds: range, draws: int) -> pd.DataFrame:
    """Draw samples of the problems of some seeds in both programs.

    The problems have a prior, under which all samples have an optimum, and no weights.

    Returns
    -------
    DataFrame
        One row per problem: ``family``, ``seed``, ``R`` (Cyclops's status), ``coefficients``,
        ``smallest_p`` of Kolmogorov and Smirnov's test of equal distributions, and ``error_ratio``,
        the ratio of standard errors (here over R) that is farthest from one.
    """
    problems = []
    for seed in seeds:
        problem = cyclops_problem(seed)
        if problem.prior in ("normal", "laplace") and not problem.excluded:
            problem.weights = None
            problem.words["cv"] = False
            problems.append(problem)
    with tempfile.TemporaryDirectory() as folder:
        write_problems(problems, Path(folder), {}, draws)
        run_r("cyclops_problems.R", folder)
        lines = (Path(folder) / "cyclops.jsonl").read_text(encoding="utf-8").splitlines()
    answers = {answer["id"]: answer for answer in map(json.loads, lines)}
    return pd.DataFrame([_compared(p, answers[p.seed], draws) for p in problems])


def _compared(problem: Problem, answer: dict[str, Any], draws: int) -> dict[str, Any]:
    """Compare the samples of one problem."""
    row = {"family": problem.family, "seed": problem.seed, "R": answer["flag"], "coefficients": 0}
    if "samples" not in answer:
        return row
    theirs = np.array(answer["samples"], dtype=float)
    ours = _samples(problem, draws)
    tests = [ks_2samp(ours[:, j], theirs[:, j]).pvalue for j in range(ours.shape[1])]
    errors = ours.std(axis=0) / np.maximum(theirs.std(axis=0), 1e-12)
    moved = errors[theirs.std(axis=0) > 1e-9]
    farthest = moved[np.abs(np.log(moved)).argmax()] if len(moved) else np.nan
    return row | {
        "coefficients": ours.shape[1], "smallest_p": min(tests), "error_ratio": farthest,
    }  # fmt: skip


def _samples(problem: Problem, draws: int) -> NDArray:
    """Return our coefficients of samples, of columns that are not all zero, as R has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(problem).fit(**arguments(problem))
        coef = model.inference.bootstrap(draws, random_state=problem.seed).coef
    intercepts = coef.shape[1] - problem.X.shape[1]
    used = np.concatenate([np.ones(intercepts, bool), (problem.X != 0).any(axis=0)])
    return np.asarray(coef)[:, used]
