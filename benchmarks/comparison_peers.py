"""Comparisons of groups beside MatchIt, psmpy, causallib, zEpid, DoubleML and DoWhy, in one run.

    python -m benchmarks.comparison_peers [--n 8000 --p 20 --python PYTHON --limit 300]

draws one table of people and compares its groups by pairs of the score ("matching"), weights of
the score ("weights"), both models ("aipw", "tmle"), both models by maximum likelihood cross-fitted
in five folds ("folds"), and both models as lassos cross-fitted in ten folds
("lasso", beside "one_lasso", the score alone with ten folds) with steropes and every peer that is
installed, each in a process of its own that repeats the comparison after a first one of 500 people.
``--python``
is the interpreter that has the Python peers; R's MatchIt is called by ``Rscript``. A peer that is
absent, fails or passes the limit of seconds is named with the reason. "steropes" makes the whole
comparison (Table 1, balance, diagnostics, all effects with their errors), "parts" only the weights
or pairs and the difference with its error. Of the peers MatchIt computes the
balance, and zEpid an error. "causallib_exact" is causallib with scores at the maximum of the
likelihood, as those of all others; its default stops at a difference of 1e-4.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PROGRAMS = {
    "matching": ["steropes", "parts", "MatchIt", "psmpy", "dowhy"],
    "weights": ["steropes", "parts", "causallib", "causallib_exact", "zepid", "dowhy"],
    "aipw": ["steropes", "parts", "causallib", "causallib_exact", "zepid"],
    "tmle": ["parts", "zepid"],
    "folds": ["parts", "doubleml"],
    "lasso": ["one_lasso", "parts", "doubleml"],
}
OURS = ("steropes", "parts", "one_lasso")
PACKAGES = {"parts": "steropes", "one_lasso": "steropes", "causallib_exact": "causallib"}
ABSENT = 3  # exit status
FIRST = 500  # people of a first comparison, which imports and compiles


def people(n: int, p: int, seed: int = 0) -> pd.DataFrame:
    """Draw normal and binary covariates, a treatment of one in five, and a number as outcome."""
    rng = np.random.default_rng(seed)
    columns, eta = {}, np.zeros(n)
    for j in range(p):
        x = rng.normal(size=n) if j % 2 == 0 else (rng.random(n) < 0.2).astype(float)
        eta += (0.1 if j < 20 else 0.02) * (1 if j % 3 else -1) * x
        columns[f"x{j}"] = x
    columns["drug"] = (rng.random(n) < 1 / (1 + np.exp(1.5 - eta))).astype(np.int64)
    columns["y"] = columns["drug"] + 2 * eta + rng.normal(size=n)
    return pd.DataFrame(columns, copy=False)


# -- programs: each compares the groups and returns the difference of means ------------------------


def steropes(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """Make the whole comparison, with errors that include the score."""
    from steropes import compare_groups

    estimand = "att" if task == "matching" else "ate"
    found = compare_groups(
        table, treatment="drug", outcome="y", covariates=names, estimand=estimand, adjust=task
    )
    return float(found.effects["estimate"].iloc[-1])


def parts(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """The objects of steropes alone."""
    from steropes import LinearRegression, LogisticRegression
    from steropes.designs import DoublyRobust, Matching, PropensityWeights, compare_means

    X, a, y = table[names], table["drug"], table["y"]
    if task == "lasso":
        score, outcome = lassos()
        model = DoublyRobust(treatment_model=score, outcome_model=outcome, folds=10).fit(X, a, y)
        return float(model.effects_["estimate"].iloc[0])
    if task in ("aipw", "tmle", "folds"):
        method, folds = ("tmle", 1) if task == "tmle" else ("aipw", 5 if task == "folds" else 1)
        model = DoublyRobust(
            treatment_model=LogisticRegression(), outcome_model=LinearRegression(),
            method=method, folds=folds, bound=0.01,
        ).fit(X, a, y)  # fmt: skip
        return float(model.effects_["estimate"].iloc[0])
    if task == "matching":
        model = Matching(caliper=None).fit(X, a)
        found = compare_means(y, a, model.weights_, cluster=model.sets_)
    else:
        model = PropensityWeights(estimand="ate").fit(X, a)
        found = compare_means(y, a, model.weights_, weight_model=model)
    return float(found["estimate"].iloc[2])


def lassos() -> tuple[Any, Any]:
    """Models of the treatment and of the outcome with variances chosen by ten folds."""
    from steropes import Laplace, LinearRegression, LogisticRegression

    settings: dict[str, Any] = {"prior": Laplace(), "cv": 10, "random_state": 0}
    return LogisticRegression(**settings), LinearRegression(**settings)


def one_lasso(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """One lasso fit of steropes with ten folds, in whose multiples the others are measured."""
    model = lassos()[0].fit(table[names], table["drug"])
    return float(np.count_nonzero(model.coef_))


def doubleml(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """The interactive regression model with models of scikit-learn."""
    from doubleml import DoubleMLData, DoubleMLIRM
    from sklearn.linear_model import (
        LassoCV,
        LinearRegression,
        LogisticRegression,
        LogisticRegressionCV,
    )

    score: Any = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
    outcome: Any = LinearRegression()
    if task == "lasso":
        score = LogisticRegressionCV(penalty="l1", solver="saga", cv=10, max_iter=1000)
        outcome = LassoCV(cv=10)
    data = DoubleMLData.from_arrays(
        table[names].to_numpy(), table["y"].to_numpy(), table["drug"].to_numpy()
    )
    folds = 10 if task == "lasso" else 5
    model = DoubleMLIRM(data, ml_g=outcome, ml_m=score, n_folds=folds)
    return float(model.fit().coef[0])


def psmpy(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """Pairs without replacement on the logit of the score."""
    from psmpy import PsmPy

    table = table.assign(id=np.arange(len(table)))
    found = PsmPy(table, treatment="drug", indx="id", exclude=["y"])
    found.logistic_ps(balance=False)
    found.kdtree_matched(matcher="propensity_logit", replacement=False, drop_unmatched=True)
    matched = found.df_matched.merge(table[["id", "y"]], on="id")
    means = matched.groupby("drug")["y"].mean()
    return float(means[1] - means[0])


def causallib(task: str, table: pd.DataFrame, names: list[str], **settings: Any) -> float:
    """Weights of an unpenalised score, or means of an outcome model augmented by them."""
    from causallib.estimation import AIPW, IPW, Standardization
    from sklearn.linear_model import LinearRegression, LogisticRegression

    X, a, y = table[names], table["drug"], table["y"]
    model = IPW(LogisticRegression(penalty=None, max_iter=1000, **settings))
    if task == "aipw":
        model = AIPW(Standardization(LinearRegression()), model)
        model.fit(X, a, y)
    else:
        model.fit(X, a)
    means = model.estimate_population_outcome(X, a, y)
    return float(means[1] - means[0])


def causallib_exact(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """The same with scores to the digits that all others have; the default stops before."""
    return causallib(task, table, names, solver="newton-cholesky", tol=1e-10)


def zepid(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """Weights with a marginal structural model, or augmented weights."""
    formula = " + ".join(names)
    if task == "weights":
        from zepid.causal.ipw import IPTW

        model = IPTW(table, treatment="drug", outcome="y")
        model.treatment_model(formula, print_results=False)
        model.marginal_structural_model("drug")
        model.fit()
        return float(model.average_treatment_effect["ATE"].iloc[-1])
    if task == "tmle":
        from zepid.causal.doublyrobust import TMLE

        model = TMLE(table, exposure="drug", outcome="y")
        model.exposure_model(formula, print_results=False)
        model.outcome_model(f"drug + {formula}", print_results=False)
        model.fit()
        return float(model.average_treatment_effect)
    from zepid.causal.doublyrobust import AIPTW

    model = AIPTW(table, exposure="drug", outcome="y")
    model.exposure_model(formula, print_results=False)
    model.outcome_model(f"drug + {formula}", print_results=False)
    model.fit()
    return float(model.average_treatment_effect)


def dowhy(task: str, table: pd.DataFrame, names: list[str]) -> float:
    """Weights, or nearest people with replacement."""
    from dowhy import CausalModel

    table = table.assign(drug=table["drug"] == 1)
    model = CausalModel(table, treatment="drug", outcome="y", common_causes=names)
    effect = model.identify_effect(proceed_when_unidentifiable=True)
    method = f"backdoor.propensity_score_{'weighting' if task == 'weights' else 'matching'}"
    units = "ate" if task == "weights" else "att"
    return float(model.estimate_effect(effect, method_name=method, target_units=units).value)


def work(name: str, task: str, folder: Path) -> None:
    """Compare in this process and print the estimate, seconds and memory as JSON."""
    sys.path.remove(str(Path(__file__).parent))  # has modules with common names
    package = PACKAGES.get(name, name)
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:
        sys.exit(ABSENT)
    warnings.simplefilter("ignore")
    programs = (
        steropes,
        parts,
        one_lasso,
        doubleml,
        psmpy,
        causallib,
        causallib_exact,
        zepid,
        dowhy,
    )
    compare = {f.__name__: f for f in programs}[name]
    with np.load(folder / "people.npz") as columns:
        table = pd.DataFrame({column: columns[column] for column in columns.files}, copy=False)
    names = [column for column in table if column.startswith("x")]
    compare(task, table.head(FIRST), names)
    wall, spent = time.perf_counter(), time.process_time()
    estimate = compare(task, table, names)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found = {"estimate": estimate, "seconds": wall, "processor": spent, "memory": memory}
    print(json.dumps(found | {"version": version(package)}))


# -- the run ---------------------------------------------------------------------------------------


def called(name: str, task: str, folder: Path, given: argparse.Namespace) -> dict | str:
    """Run one program; return what it found, or why there is nothing."""
    if name == "MatchIt":
        if shutil.which("Rscript") is None:
            return "not installed"
        script = Path(__file__).with_suffix(".R")
        command = ["Rscript", str(script), str(folder / "people.csv"), str(folder / "first.csv")]
    else:
        python = sys.executable if name in OURS else given.python
        command = [python, __file__, "--work", name, "--task", task, "--folder", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=given.limit)
    except subprocess.TimeoutExpired:
        return f"more than {given.limit:g} seconds"
    if done.returncode == ABSENT:
        return "not installed"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:80]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Print a row per task and program."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=8000)
    parser.add_argument("--p", type=int, default=20)
    parser.add_argument("--python", default=sys.executable, help="interpreter with the peers")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one program")
    parser.add_argument("--tasks", default=",".join(PROGRAMS))
    parser.add_argument("--only", default="", help="programs, separated by commas")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        return work(given.work, given.task, given.folder)
    print(f"n = {given.n:,}, p = {given.p}")
    print("| task | program | processor s | seconds | ratio | peak GB | difference |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = people(given.n, given.p)
        np.savez(folder / "people.npz", **{name: own.to_numpy() for name, own in table.items()})
        if given.n <= 200_000:
            table.to_csv(folder / "people.csv", index=False)
            table.head(FIRST).to_csv(folder / "first.csv", index=False)
        for task in given.tasks.split(","):
            own = float("nan")
            for program in PROGRAMS[task]:
                if given.only and program not in given.only.split(","):
                    continue
                found = called(program, task, folder, given)
                if isinstance(found, str):
                    print(f"| {task} | {program} | {found} | | | | |", flush=True)
                    continue
                own = (
                    found["processor"]
                    if program in ("steropes", "one_lasso") or own != own
                    else own
                )
                memory = f"{found['memory']:.2f}" if "memory" in found else ""
                print(
                    f"| {task} | {program} {found['version']} | {found['processor']:.2f} "
                    f"| {found['seconds']:.2f} | {found['processor'] / own:.1f} | {memory} "
                    f"| {found['estimate']:.4f} |", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
