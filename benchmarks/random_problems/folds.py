"""Cross-validations: the same choice in every storage, and scores recomputed fold by fold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import steropes

from .draw import Problem
from .expand import dense_problem
from .inputs import arguments, estimator, variances_of
from .second import optimise, separated

__all__ = ["Unfinished", "check_selection", "held_out", "splits"]

FOLDS = 3


def splits(problem: Problem) -> Any:
    """A cross-validation with folds of its own, strata whole where they are matched."""
    rng = np.random.default_rng([problem.seed, 7])
    label = problem.strata if "conditional" in problem.family or problem.family == "sccs" else None
    label = np.arange(problem.n) if label is None else label
    units, unit = np.unique(label, return_inverse=True)
    fold = (rng.permutation(len(units)) % FOLDS)[unit]
    pairs = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(FOLDS)]
    search: Any = "auto"
    if problem.words["cv"] == "list":
        middle = _overall(problem)
        search = [0.1 * middle, middle, 10.0 * middle]
    return steropes.CrossValidation(pairs, search=search)


def _overall(problem):
    value = problem.variances.get("laplace", problem.variances.get("normal"))
    return float(np.exp(np.mean(np.log(value))))


def check_selection(problem: Problem, model: Any, wrong: Any) -> None:
    """Compare with other storages, and with dense fits of the training rows."""
    table = model.cv_results_
    mean = table["mean"].to_numpy()
    known = mean[np.isfinite(mean)]  # a fold that is impossible makes −∞
    equal = mean >= known.max() - 1e-6 * abs(known).max()  # of ties the smallest variance
    best = table["variance"].to_numpy()[int(equal.argmax())]
    if model.variance_ != best:
        wrong(f"variance_ {model.variance_:.6g} is not the best of cv_results_, {best:.6g}")
    other = "csc" if problem.storage in ("C", "F", "frame", "design") else "C"
    twin = estimator(problem, cv=splits(problem))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            twin.fit(**arguments(problem, other))
        except Exception as error:
            kind = type(error).__name__
            wrong(f"cross-validation refused as {other}: {kind}: {str(error)[:120]}")
            return
    if abs(np.log(twin.variance_ / model.variance_)) > 0.02:
        tried = {*model.cv_results_["variance"], *twin.cv_results_["variance"]}
        if not all(_one_optimum(problem, model.prior_.with_variance(v)) for v in tried):
            return  # two optima of one objective predict differently, and lead elsewhere
        loose = [f for f, pair in enumerate(splits(problem).folds) if _loose(problem, pair[0])]
        word = f"; no maximum in the training rows of {loose}" if loose else ""
        a = float(table["mean"].max())
        b = float(twin.cv_results_["mean"].max())
        wrong(
            f"variance {model.variance_:.4g} (score {a:.8g}) as {problem.storage}, "
            f"{twin.variance_:.4g} ({b:.8g}) as {other}{word}"
        )
    if problem.words["cv"] == "list":
        _check_scores(problem, model, wrong)


def _check_scores(problem, model, wrong):
    """Held-out log-likelihoods, up to a constant that no variance changes."""
    mine = []
    try:
        for variance in model.cv_results_["variance"]:
            prior = model.prior_.with_variance(float(variance))
            given = variances_of(prior, problem.X.shape[1])
            mine.append(
                np.mean([held_out(problem, given, *pair) for pair in splits(problem).folds])
            )
    except Unfinished:
        return
    theirs = model.cv_results_["mean"].to_numpy()
    mine = np.array(mine)
    gap = (theirs - theirs.mean()) - (mine - mine.mean())
    # Folds are fitted to a coarse tol, and a score next to zero is rounding.
    size = 5e-3 * np.ptp(mine) + 3e-3 * np.abs(mine).max() + 1e-12
    if not (abs(gap) <= size).all():
        a, b = (np.array2string(x - x.max(), precision=6) for x in (theirs, mine))
        wrong(f"held-out scores {a}, dense {b}")


class Unfinished(Exception):
    """The dense fit of the training rows did not converge, or is not the only optimum."""


def _one_optimum(problem, prior):
    given = variances_of(prior, problem.X.shape[1])
    for train, _ in splits(problem).folds:
        dense = dense_problem(problem, given, np.isin(np.arange(problem.n), train))
        t, _, violation = optimise(dense)
        if violation < 1e-6 and not _unique(dense, t):
            return False
    return True


def _loose(problem, train):
    return separated(dense_problem(problem, rows=np.isin(np.arange(problem.n), train))) is not None


def _unique(dense, t):
    """Whether the optimum is the only one: with p > n it need not be, and then scores differ."""
    _, g, H = dense.derivatives(t)
    at = np.flatnonzero((dense.l2 == 0) & (abs(g) >= dense.l1 * (1 - 1e-5) - 1e-12))
    if len(at) == 0:
        return True
    root = np.sqrt(np.maximum(np.diag(H)[at], 1e-300))
    value = np.linalg.eigvalsh(H[np.ix_(at, at)] / root / root[:, None])
    return bool(value[0] > 1e-7)


def _reached(dense, t):
    """Whether coefficients that a weak ridge alone holds are where it holds them."""
    _, g, H = dense.derivatives(t)
    at = np.flatnonzero((dense.l1 == 0) & (np.diag(H) + dense.l2 > 0))
    Q = (H + np.diag(dense.l2))[np.ix_(at, at)]
    root = np.sqrt(np.diag(Q))
    d = np.linalg.lstsq(Q / root / root[:, None], (g + dense.l2 * t)[at] / root, rcond=0)[0] / root
    return bool((abs(d) < 1e-3 * np.maximum(1.0, abs(t[at]))).all())


def held_out(problem, given, train, test):
    """Return the log-likelihood of the test rows at the dense fit of the training rows."""
    rows = np.zeros(problem.n, bool)
    rows[train] = True
    dense = dense_problem(problem, given, rows)
    if separated(dense) is not None:
        raise Unfinished
    t, _, violation = optimise(dense)
    if not violation < 1e-8 or not _unique(dense, t) or not _reached(dense, t):
        raise Unfinished
    theta = dense.in_users_units(t)
    held = dense_problem(problem, given, ~rows)
    value = held.loss.value(held.eta(theta))
    if problem.family != "linear":
        return -value
    total, n = dense.loss.w.sum(), held.loss.w.sum()
    variance = 2 * dense.loss.value(dense.eta(theta)) / total
    if variance < 1e-6 * np.var(problem.data["y"]):
        raise Unfinished
    return -value / variance - 0.5 * n * np.log(2 * np.pi * variance)
