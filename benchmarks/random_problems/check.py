"""Fit a problem and hold what comes back against the dense one."""

from __future__ import annotations

import traceback
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import steropes

from .as_if_large import as_if_large
from .draw import Problem, draw
from .expand import dense_problem
from .folds import check_selection, splits
from .inputs import arguments, arrays, coefficients, estimator, variances_of
from .reuse import check_reuse
from .second import kkt, optimise, separated, smooth_optimum, undetermined, units

__all__ = ["STATUSES", "Outcome", "check", "judge"]

STATUSES = ("ok", "refused rightly", "not converged", "refused wrongly", "WRONG")
LARGEST = 1e-6  # KKT violation of a fit that claims 1e-8
UNSURE = 1e-9  # share of its own that the data leave a column: refused or not, both are right


@dataclass
class Outcome:
    """How a problem ended."""

    status: str = "ok"
    findings: list[str] = field(default_factory=list)

    def wrong(self, what: str, status: str = "WRONG") -> None:
        if STATUSES.index(status) > STATUSES.index(self.status):
            self.status = status
        self.findings.append(what)


def judge(
    seed: int, family: str | None = None, large: bool = False
) -> tuple[int, str, str, Outcome]:
    """Draw and check the problem of a seed; a failure of the check itself is told as one."""
    problem = draw(seed, family, wide=large)
    try:
        with as_if_large(seed) if large else nullcontext():
            return seed, problem.family, problem.said(), check(problem)
    except Exception:
        last = traceback.format_exc().strip().splitlines()
        out = Outcome("WRONG", [f"the check itself failed: {last[-1]} ({last[-3].strip()})"])
        return seed, problem.family, problem.said(), out


def check(problem: Problem) -> Outcome:
    """Fit and compare."""
    out = Outcome()
    options: dict[str, Any] = {}
    if problem.words.get("cv"):
        options["cv"] = splits(problem)
    model, given = estimator(problem, **options), arguments(problem)
    before = [x.copy() for x in arrays(given)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            model.fit(**given)
        except steropes.SeparationError as error:
            return _judge_separation(problem, error, out)
        except steropes.DataError as error:
            return _judge_refusal(problem, error, out)
        except Exception as error:
            out.wrong(f"raised {type(error).__name__}: {error}")
            return out
    for same, now in zip(before, arrays(given), strict=True):
        if same.tobytes() != now.tobytes():
            out.wrong("something that was passed in has changed")
    strange = [w for w in seen if not issubclass(w.category, steropes.NotConvergedWarning)]
    if strange:
        out.wrong(f"warned {strange[0].category.__name__}: {strange[0].message}")
    chosen = variances_of(model.prior_, problem.X.shape[1]) if options else None
    dense = dense_problem(problem, chosen)
    if getattr(dense, "interrupted", False):
        out.wrong("infinite weights after competing events were not refused")
        return out
    if not model.converged_:
        if len(strange) == len(seen):
            out.wrong("not converged without a warning")
        return _judge_unfinished(problem, model, dense, out)
    _check_optimum(problem, model, dense, out)
    _check_likelihood(problem, model, dense, out)
    _check_errors(problem, model, dense, out)
    _check_maximum(problem, model, dense, out)
    if problem.words.get("cv"):
        check_selection(problem, model, out.wrong)
    check_reuse(problem, model, given, options, out.wrong)
    return out


# refusals --------------------------------------------------------------------------------------


def _vary(y, strata):
    """Whether any stratum's outcomes differ from row to row."""
    return any(len(np.unique(y[strata == s])) > 1 for s in np.unique(strata))


def _judge_separation(problem, error, out):
    dense = dense_problem(problem)
    share = undetermined(dense)
    if share < UNSURE or separated(dense) is not None:
        out.status = "refused rightly"
        return out
    if problem.words.get("cv"):
        for train, _ in splits(problem).folds:
            rows = np.isin(np.arange(problem.n), train)
            part = dense_problem(problem, rows=rows)
            if undetermined(part) < UNSURE or separated(part) is not None:
                out.status = "refused rightly"
                return out
    _, _, violation = optimise(dense)
    word = f"; own optimiser: KKT {violation:.1e}, share {share:.1e}"
    out.wrong(f"SeparationError: {str(error)[:110]}{word}", "refused wrongly")
    return out


def _judge_refusal(problem, error, out):
    """Right where one can see why."""
    used = np.ones(problem.n, bool) if problem.weights is None else problem.weights > 0
    data, text = problem.data, str(error)
    reasons = [
        "event" in data and not (data["event"][used] == 1).any(),
        "y" in data and len(np.unique(data["y"][used])) < 2,
        "No stratum" in text and not _vary(data["y"][used], problem.strata[used]),
        problem.family == "pooled" and "no event" in text,
        any(word in text for word in ("fold", "Split", "No variance")) and problem.words.get("cv"),
        "sample_weight" in text and problem.words["weights"] in ("scaled", "wide"),
        "under observation" in text and dense_problem(problem).interrupted,
    ]
    if any(reasons):
        out.status = "refused rightly"
    else:
        out.wrong(f"DataError: {text[:160]}", "refused wrongly")
    return out


def _judge_unfinished(problem, model, dense, out):
    out.status = max(out.status, "not converged", key=STATUSES.index)
    word = ""
    if undetermined(dense) < UNSURE:
        word = ", columns undetermined"
    elif separated(dense) is not None:
        word = ", separated"
    else:
        _, _, violation = optimise(dense)
        word = f", own optimiser's {violation:.1e}"
    out.findings.append(f"not converged: KKT {model.optimality_:.1e}, {model.n_iter_} steps{word}")
    return out


# fits that claim to have converged ---------------------------------------------------------------


def _check_optimum(problem, model, dense, out):
    theta = coefficients(problem, model)
    if len(theta) != dense.P or not np.isfinite(theta).all():
        out.wrong(f"coefficients: {len(theta)} of {dense.P}, finite {np.isfinite(theta).all()}")
        return
    value, g, as_is, H, noise, drift = dense.at(theta)
    t, h = dense.in_scale(theta), np.maximum(np.diag(H), 0.0)
    violation = kkt(g, t, dense.l1, dense.l2)
    slopes = slice(dense.n_free, None)
    other = kkt(as_is, t, dense.l1, dense.l2)
    violation[slopes] = np.minimum(violation, other)[slopes]
    spread = 1.0
    if problem.family == "linear":  # the score's standard error is in the outcome's unit
        spread = max(2 * value / dense.loss.w.sum(), 1e-8 * np.var(problem.data["y"]))
    unit = units(dense.l1, spread * h + dense.l2)
    # What rounding of the coefficients and of the sums can make of an exact optimum.
    rounding = (
        noise + drift * np.sqrt(h * max(h.max(initial=0.0), 1e-300)) + dense.l2 * abs(t) * 1e-15
    )
    excess = (violation - rounding) / unit
    if excess.max(initial=0.0) > LARGEST:
        j = int(excess.argmax())
        out.wrong(f"KKT {excess[j]:.1e} at parameter {j}, reported {model.optimality_:.1e}")
    objective = value + np.sum(dense.l1 * abs(t)) + 0.5 * np.sum(dense.l2 * t**2)
    rng = np.random.default_rng(problem.seed)
    cauchy = problem.settings.get("link") == "cauchit"  # may have several optima
    if not cauchy and rng.random() < 0.3:
        _, best, violation = optimise(dense)
        _compare(objective, best, value, "own optimiser", out)
    if not cauchy and not dense.l1.any() and rng.random() < 0.2:
        _compare(objective, smooth_optimum(dense), value, "L-BFGS", out)


def _compare(objective, best, value, who, out):
    if objective - best > 1e-8 * (abs(objective) + abs(value)) + 1e-300:
        out.wrong(f"objective {objective:.10g} where {who} has {best:.10g}")


def _check_likelihood(problem, model, dense, out):
    theta = coefficients(problem, model)
    value = dense.at(theta)[0]
    if problem.family == "linear":
        total = dense.loss.w.sum()
        if 2 * value / total < 1e-18 * np.var(problem.data["y"]):
            return  # a perfect fit
        expected = -0.5 * total * (np.log(2 * np.pi * 2 * value / total) + 1)
    else:
        expected = -value - getattr(getattr(dense, "loss", None), "constant", 0.0)
    size = abs(expected) + abs(value) + (0 if problem.weights is None else problem.weights.sum())
    # A log-likelihood of next to nothing is as exact as the linear predictors.
    size += 1e-6 * (1 + abs(dense.eta(theta)).max()) if hasattr(dense, "eta") else 0.0
    if not abs(model.log_likelihood_ - expected) <= 1e-8 * size:
        out.wrong(f"log-likelihood {model.log_likelihood_:.10g}, dense {expected:.10g}")
    if problem.family in ("pooled", "cumulative", "cox_steps"):
        return
    eta = problem.X.astype(np.longdouble) @ model.coef_ + getattr(model, "intercept_", 0.0)
    size = 1 + abs(eta).max() + (abs(problem.X) @ abs(model.coef_)).max()
    if not (abs(model.linear_predictor(problem.X) - eta) <= 1e-12 * size).all():
        out.wrong("linear_predictor is not intercept + Xβ")


def _lost(dense, theta, error):
    """Whether it says that rounding has the information, and it has."""
    left = (np.diag(dense.at(theta)[3]) + dense.l2).min()
    return "lost in rounding" in str(error) and 1e-15 * dense.mass > 1e-3 * left


def _check_errors(problem, model, dense, out):
    """Standard errors are the roots of the inverse Hessian's diagonal, where there is one."""
    theta = coefficients(problem, model)
    try:
        se = np.sqrt(np.diag(model.vcov("model").to_numpy()))
    except steropes.DataError as error:
        if not (dense.l1.any() and "profile" in str(error)) and not _lost(dense, theta, error):
            out.wrong(f"vcov raised DataError: {str(error)[:120]}")
        return  # under an ℓ1 penalty there are none, and it says what there is
    except Exception as error:
        out.wrong(f"vcov raised {type(error).__name__}: {str(error)[:120]}")
        return
    slopes = dense.P - dense.n_free
    se = se[len(se) - slopes :]
    if dense.l1.any():
        if np.isfinite(se[dense.l1[dense.n_free :] > 0]).any():
            out.wrong("standard errors of coefficients with a Laplace prior")
        return
    H = dense.at(theta)[3] + np.diag(dense.l2)
    root = np.sqrt(np.maximum(np.diag(H), 1e-300))
    C = H / root / root[:, None]
    value = np.linalg.eigvalsh(C)
    if value[0] < 1e-8:
        return
    expected = np.sqrt(np.diag(np.linalg.inv(C))) / root / dense.scale
    if problem.family == "linear":
        total = dense.loss.w.sum() - np.count_nonzero(theta[dense.n_free :]) - dense.n_free
        if total <= 0:
            return
        expected = expected * np.sqrt(2 * dense.at(theta)[0] / total)
    expected = expected[dense.n_free :]
    off = abs(se / expected - 1)
    # Risk sets take the square of a mean from a second moment: digits of what is left.
    digits = 1e-15 * dense.mass / np.diag(H).min()
    if not (off < max(1e-6, 1e-13 / value[0] ** 1.5, 3 * digits)).all():
        j = int(np.argmax(np.where(np.isfinite(off), off, np.inf)))
        out.wrong(f"standard error {se[j]:.8g} of slope {j}, dense {expected[j]:.8g}")


def _check_maximum(problem, model, dense, out):
    """A fit that converged where there is no maximum."""
    free = np.flatnonzero((dense.l1 == 0) & (dense.l2 == 0))
    if len(free) == 0:
        return
    H = dense.at(coefficients(problem, model))[3]
    first = np.diag(dense.derivatives(dense.start())[2])[free]
    root = np.sqrt(np.where(first > 0, first, 1.0))
    at_fit = H[np.ix_(free, free)] / root / root[:, None]
    if np.linalg.eigvalsh(at_fit)[0] > 1e-3:
        return  # strictly convex around a stationary point
    if undetermined(dense) < 1e-13:
        out.wrong("columns that the data do not tell apart, without a word")
    elif separated(dense) is not None:
        largest = abs(coefficients(problem, model)).max()
        out.wrong(f"separation missed: largest |coefficient| {largest:.3g}")
