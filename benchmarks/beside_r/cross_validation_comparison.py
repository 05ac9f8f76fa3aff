"""Compare held-out deviances of the same folds, and the chosen penalty, with glmnet's."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import steropes
from steropes import CrossValidation, Laplace, Surv, variance_from_glmnet

from .r_programs import run_r

__all__ = ["compare_cross_validation"]

MODELS = {
    "binomial": steropes.LogisticRegression,
    "poisson": steropes.PoissonRegression,
    "gaussian": steropes.LinearRegression,
    "cox": steropes.CoxRegression,
}
FOLDS, POINTS = 5, 12


def compare_cross_validation(count: int) -> pd.DataFrame:
    """Cross-validate random problems in both programs.

    Returns
    -------
    DataFrame
        One row a problem and measure: ``seed``, ``family``, ``weighted``, ``offset``, ``measure``,
        ``apart`` (the largest relative difference of the mean deviances), ``same`` (whether the
        same λ is chosen) and ``same_at_once`` (whether it is if all folds have one variance).
        In Cox models glmnet scales the weights of all and of the training people to means of one
        before it subtracts their deviances, so that ``difference`` is another number with weights.
    """
    problems = [_draw(seed) for seed in range(count)]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        index = [{k: p[k] for k in ("id", "family", "lambda")} for p in problems]
        (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
        for problem in problems:
            problem["frame"].to_csv(folder / f"{problem['id']}.csv", index=False)
        run_r("cross_validation.R", folder)
        answers = json.loads((folder / "glmnet.json").read_text(encoding="utf-8"))
    lines = [line for p, a in zip(problems, answers, strict=True) for line in _compare(p, a)]
    return pd.DataFrame(lines)


def _draw(seed: int) -> dict[str, Any]:
    """Draw a problem with folds; every second has weights, every third offsets."""
    rng = np.random.default_rng([74, seed])
    family = [*MODELS][seed % len(MODELS)]
    n, p = int(rng.integers(80, 200)), int(rng.integers(3, 15))
    X = rng.normal(size=(n, p)) * rng.choice([0.5, 1.0, 2.0], p)
    offset = rng.normal(0, 0.5, n) if (seed // 4) % 3 == 0 else np.zeros(n)
    eta = X @ (rng.normal(0, 0.5, p) * (rng.random(p) < 0.5)) + offset
    frame = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(p)])
    if family == "binomial":
        frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    elif family == "poisson":
        frame["y"] = rng.poisson(np.exp(np.clip(0.3 * eta, -3, 3)))
    elif family == "gaussian":
        frame["y"] = eta + rng.normal(size=n)
    else:
        frame["time"] = np.ceil(20 * rng.exponential(np.exp(-0.5 * eta))) + 1
        frame["y"] = (rng.random(n) < 0.6).astype(int)
    weighted = (seed // 4) % 2 == 0
    frame["w"] = rng.integers(1, 4, n) if weighted else 1
    frame["offset"] = offset.round(4)
    frame["fold"] = rng.permutation(np.arange(n) % FOLDS)
    w = frame["w"] / frame["w"].sum()
    score = float(np.abs((w.to_numpy()[:, None] * (X - X.mean(0))).sum(0)).max()) + 0.3
    return {
        "id": seed, "family": family, "frame": frame, "weighted": weighted,
        "lambda": [*(score * np.geomspace(1.0, 0.003, POINTS))],
    }  # fmt: skip


def _compare(problem: dict[str, Any], answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare the mean deviance at each λ, and the best one."""
    frame, family = problem["frame"], problem["family"]
    cox = family == "cox"
    fold, w = frame["fold"].to_numpy(), frame["w"].to_numpy()
    measures = {"difference": "cvm", "held_out": "alone"} if cox else {"deviance": "cvm"}
    lines = []
    for scoring, name in measures.items():
        theirs = np.array(answer[name], float)
        total = np.zeros(POINTS)
        for k in range(FOLDS):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            variances = variance_from_glmnet(problem["lambda"], w[train].sum())
            size = w[test].sum()
            if cox:  # glmnet scales the weights of held-out people to a mean of one.
                size = len(test) / size if scoring == "held_out" else 1.0
            total += _scores(problem, [(train, test)], variances, scoring) * size
        ours = -total / w.sum()
        if cox:  # glmnet divides by the events, and measures against a constant.
            ours = -2 * total / (w @ frame["y"])
            ours = ours + np.mean(theirs - ours)
        pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]
        common = variance_from_glmnet(problem["lambda"], w.sum() * (FOLDS - 1) / FOLDS)
        at_once = _scores(problem, pairs, common, scoring)
        best = int(theirs.argmin())
        lines.append(
            {
                "seed": problem["id"], "family": family, "weighted": problem["weighted"],
                "offset": bool(frame["offset"].any()), "measure": scoring,
                "apart": float((np.abs(ours - theirs) / np.abs(theirs)).max()),
                "same": int(ours.argmin()) == best, "same_at_once": int(at_once.argmax()) == best,
            }
        )  # fmt: skip
    return lines


def _scores(
    problem: dict[str, Any], folds: list[Any], variances: np.ndarray, scoring: str
) -> np.ndarray:
    """Return our mean score of the folds at each variance."""
    frame, family = problem["frame"], problem["family"]
    settings: dict[str, Any] = {"ties": "breslow"} if family == "cox" else {}
    cv = CrossValidation(folds, search=[*map(float, variances)], scoring=scoring, tol=1e-8)
    model = MODELS[family](prior=Laplace(1.0), cv=cv, n_jobs=1, **settings)
    y = Surv(frame["time"], frame["y"]) if family == "cox" else frame["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one fold alone does not test all rows
        fitted = model.fit(
            frame.filter(regex="^x"), y, sample_weight=frame["w"], offset=frame["offset"]
        )
    found = fitted.cv_results_.set_index("variance")["mean"]
    nearest = [np.abs(np.log(found.index.to_numpy() / v)).argmin() for v in variances]
    return found.to_numpy()[nearest]
