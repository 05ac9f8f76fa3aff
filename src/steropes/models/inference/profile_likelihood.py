"""Profile likelihoods of an estimator, and intervals from them."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from steropes.models.inference.profile_warnings import (
    warn_monotone,
    warn_unconverged_points,
    warn_unknown_limits,
)

from ...convergence_warning import NotConvergedWarning
from ...data import check_level
from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError, listed
from ...fit import Problem
from ...infer import refuse_undetermined
from ...infer.inference_constants import PROFILE
from ...infer.profile_fits import ProfileFits, ProfilePoint
from ...infer.profile_search import (
    Limit,
    Maximum,
    find_limit,
    find_maximum,
    refine_grid,
    run_searches,
)
from ...infer.reparametrisation import reparametrise
from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.fit_steps import Estimator
from .fixed_coefficient_checks import refuse_joint_penalty
from .hypothesis_equations import is_combination, read_combinations

__all__ = [
    "combination_fits",
    "combination_rows",
    "likelihood_ratios",
    "points_at",
    "profile",
    "profile_ends",
    "profile_fits",
    "profile_intervals",
    "ratios_against_zero",
]

# Adaptive points cover the interval of this level.
ADAPTIVE_LEVEL = 0.9999
# The log-likelihood at the ends of adaptive points may differ from the cut-off by this much.
ADAPTIVE_TOLERANCE = 0.3
# After a change of η by this much a monotone likelihood equals its limit up to rounding.
MAX_CHANGE = 40.0
# Number of coefficients that are profiled as one batch.
COEFFICIENTS_PER_BATCH = 64


def profile(
    model: Estimator,
    param: str | int | Sequence[str | int],
    points: Literal["adaptive"] | Sequence[float] | np.ndarray = "adaptive",
) -> ResultTable:
    """Compute the profile log-likelihood of a coefficient, with all others refitted.

    Under a prior the others are refitted under it, and the result is the log-likelihood
    minus their penalty (the log posterior up to a constant); the prior of the coefficient
    itself is ignored. In linear models the residual variance is refitted as well.

    Parameters
    ----------
    param : name or position, or sequence of them; or combination
        Several coefficients are profiled separately in one batch. Positions are those of
        `confint`. A linear combination in words, such as ``"a - b"``, is profiled with all
        coefficients refitted under the restriction; the priors of its coefficients are ignored.
    points : "adaptive" or (m,) array
        Values of the coefficient. ``"adaptive"`` covers the 99.99 % interval, with enough
        points for linear interpolation of ``log_likelihood`` to be within 1e-3
        everywhere, and cubic (Hermite) interpolation, with ``gradient``, within 1e-5. A side
        without an end is covered until the profile is flat.

    Returns
    -------
    DataFrame
        Columns ``point``, ``log_likelihood``, ``gradient`` (its derivative), ascending or in
        the order given; with several parameters, ``param`` in front.

    Warns
    -----
    MonotoneLikelihoodWarning
        Adaptive points of a profile that rises for ever.
    NotConvergedWarning
        Fits stopped before their tolerance: requested points are NaN, and adaptive ones are
        left out.

    References
    ----------
    Barndorff-Nielsen and Cox (1994), Inference and Asymptotics, §3.4.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.inference.profile("x0", [0.0, model.coef_[0]]).round(3).values.tolist()
    [[0.0, -4.159, 0.5], [1.386, -3.819, 0.0]]
    """
    check_is_fitted(model)
    names = model._coefficient_names()
    whole = names if model._fixed is None else model._fixed.all_names(names)
    if is_combination(param, whole):
        table = _combination_profile(model, str(param), points)
        return present(table, "profile_curve", name=str(param))
    several = not (isinstance(param, str) or np.ndim(param) == 0)
    chosen = coefficient_positions(param, names, model._fixed)
    if not chosen:
        raise DataError("param names no coefficient to profile.")
    given = _points(points)
    tables = []
    for held, columns in profile_fits(model, chosen):
        if given is None:
            parts = _adaptive(model, held, columns)
        else:
            parts = [points_at(held, j, given) for j in columns]
        for j, values in zip(columns, parts, strict=True):
            table = {"param": names[j]} if several else {}
            tables.append(_table(values, table))
        warn_unconverged_points([names[j] for j in columns], parts)
    return present(pd.concat(tables, ignore_index=True), "profile_curve")


def profile_intervals(
    model: Estimator,
    chosen: list[int],
    level: float,
    fits: list[tuple[ProfileFits, list[int]]] | None = None,
) -> np.ndarray:
    """Compute lower and upper profile limits of coefficients, (m, 2).

    ``fits`` are those that `_profile_fits` returned for these coefficients, if they are known.
    """
    drop = 0.5 * float(stats.chi2.ppf(check_level(level), 1))
    limits: dict[int, tuple[float, float]] = {}
    for held, columns in profile_fits(model, chosen) if fits is None else fits:
        _, ends = profile_ends(model, held, columns, drop)
        limits |= {j: (a.value, b.value) for j, (a, b) in zip(columns, ends, strict=True)}
    return np.array([limits[j] for j in chosen]).reshape(-1, 2)


def likelihood_ratios(model: Estimator, chosen: list[int]) -> np.ndarray:
    """Compute signed roots of twice the log-likelihood ratios against zero, (m,).

    Unconverged fits result in NaN and a warning that names the coefficient.
    """
    roots: dict[int, float] = {}
    for held, columns in profile_fits(model, chosen):
        best = held.fit(columns, [float(held.beta[j]) for j in columns])
        found = ratios_against_zero(model, held, columns, best)
        roots |= dict(zip(columns, found.tolist(), strict=True))
    return np.array([roots[j] for j in chosen])


def ratios_against_zero(
    model: Estimator, held: ProfileFits, columns: list[int], best: Sequence[ProfilePoint]
) -> np.ndarray:
    """Compute signed roots of twice the log-likelihood ratios of points against zero, (m,)."""
    roots, unknown = [], []
    zero = _profiles_at_zero(held, columns)
    for j, top, low in zip(columns, best, zero, strict=True):
        if top.converged and low is not None and low.converged:
            fall = max(2.0 * (top.f - low.f), 0.0)
            roots.append(float(np.sign(top.value) * np.sqrt(fall)))
        else:
            roots.append(np.nan)
            unknown.append(held.problem.design.names[j])
    if unknown:
        warnings.warn(
            f"Fits with the coefficient of {listed(unknown)} held at zero stopped before their "
            "tolerance, so its test (z, p) is not known (NaN).",
            NotConvergedWarning,
            stacklevel=5,
        )
    return np.array(roots)


# -- fits with held coefficients -------------------------------------------------------------


def profile_fits(model: Estimator, chosen: list[int]) -> list[tuple[ProfileFits, list[int]]]:
    """Group coefficients into batches; those of a baseline need uncentred columns."""
    problem = model._require_replicable("a profile")
    distinct = list(dict.fromkeys(chosen))
    refuse_joint_penalty(model, problem, distinct, "profile")
    baseline = [j for j in distinct if j < problem.n_free]
    effects = [j for j in distinct if j >= problem.n_free]
    out = []
    for a in range(0, len(effects), COEFFICIENTS_PER_BATCH):
        out.append(
            (_held_fits_at(model, problem, model._beta), effects[a : a + COEFFICIENTS_PER_BATCH])
        )
    if baseline:
        at_zero = problem.design.uncentered_coefficients(model._beta)
        out.append((_held_fits_at(model, problem.uncentered(), at_zero), baseline))
    return out


def combination_fits(
    model: Estimator, row: np.ndarray, name: str
) -> tuple[ProfileFits, int, float]:
    """Set up fits with a linear combination of coefficients held at a value.

    Parameters
    ----------
    row : (p,) array
        Weights of the estimated coefficients.
    name : str
        Name of the combination in messages.

    Returns
    -------
    held : ProfileFits
        Fits of a problem in which the combination is a coefficient.
    j : int
        Position of this coefficient.
    factor : float
        The combination is this multiple of it.
    """
    problem = model._require_replicable("a profile")
    columns = np.flatnonzero(row)
    refuse_joint_penalty(model, problem, columns, "profile")
    l1, l2 = (x.copy() for x in problem.penalties(model.prior_))
    shrunken = bool((l1[columns] > 0).any() or (l2[columns] > 0).any())
    l1[columns] = l2[columns] = 0.0
    beta = model._beta
    if (columns < problem.n_free).any():
        beta = problem.design.uncentered_coefficients(beta)
        problem = problem.uncentered()
    changed = reparametrise(problem, row[None])
    j = int(changed.pivots[0])
    design = copy.copy(changed.problem.design)
    design.names = list(design.names)
    design.names[j] = name
    problem = dataclasses.replace(changed.problem, design=design)
    beta = changed.gamma(beta)
    if shrunken:  # the fit without the priors of these coefficients
        l2[j], beta = _start_without_priors(problem, beta, l1, l2, j)
    to_likelihood = model._objective_to_likelihood(problem)
    return ProfileFits(problem, beta, l1, l2, to_likelihood), j, float(row[j])


def _combination_profile(model: Estimator, text: str, points: object) -> pd.DataFrame:
    """Compute the profile log-likelihood of a linear combination in words."""
    given = _points(points)
    held, j, factor = combination_fits(model, combination_rows(model, [text])[0], text)
    if given is None:
        (found,) = _adaptive(model, held, [j], factor)
        found = found if factor > 0 else found[::-1]
        at = [v.value * factor for v in found]
    else:
        found, at = points_at(held, j, given / factor), given.tolist()
    values = [
        dataclasses.replace(v, value=x, g=v.g / factor) for v, x in zip(found, at, strict=True)
    ]
    warn_unconverged_points([text], [values])
    return _table(values)


def combination_rows(model: Estimator, texts: Sequence[str]) -> np.ndarray:
    """Read linear combinations of the estimated coefficients, (r, p)."""
    names = model._coefficient_names()
    if model._fixed is None:
        return read_combinations(texts, names)
    R = read_combinations(texts, model._fixed.all_names(names))
    estimated = model._fixed.rows_of_table(names) >= 0
    if R[:, ~estimated].any():
        raise DataError(
            "A coefficient of the combination is fixed and not estimated; leave it out."
        )
    return np.asarray(R[:, estimated])


def _held_fits_at(model: Estimator, problem: Problem, beta: np.ndarray) -> ProfileFits:
    """Set up fits of a problem with held coefficients, from a solution."""
    l1, l2 = problem.penalties(model.prior_)
    return ProfileFits(problem, beta, l1, l2, model._objective_to_likelihood(problem))


def profile_ends(
    model: Estimator,
    held: ProfileFits,
    columns: list[int],
    drop: float,
    factor: float = 1.0,
    **exact: float,
) -> tuple[list[Maximum], list[tuple[Limit, Limit]]]:
    """Find the maxima, and the points on both sides at which profiles are lower by ``drop``.

    Warnings are in the units of ``factor`` times the coefficients.
    """
    se = held.standard_errors(columns)
    far = [0.0 if held.is_flat(j) else held.largest_change(j, MAX_CHANGE) for j in columns]
    tops = run_searches(
        held,
        columns,
        [find_maximum(float(held.beta[j]), s, f) for j, s, f in zip(columns, se, far, strict=True)],
    )
    # From the far end of a monotone profile, a search may go as far beyond the estimate.
    back = [
        abs(top.point.value - float(held.beta[j])) / PROFILE.max_distance
        for j, top in zip(columns, tops, strict=True)
    ]
    searches = [
        find_limit(top, side, drop, s, f + (b if top.rising_side == -side else 0.0), **exact)
        for side in (-1, 1)
        for top, s, f, b in zip(tops, se, far, back, strict=True)
    ]
    ends = run_searches(held, columns * 2, searches)
    both = list(zip(ends[: len(columns)], ends[len(columns) :], strict=True))
    names = [held.problem.design.names[j] for j in columns]
    warn_monotone(names, both, factor)
    warn_unknown_limits(names, both, factor)
    return tops, both


def _adaptive(
    model: Estimator, held: ProfileFits, columns: list[int], factor: float = 1.0
) -> list[list[ProfilePoint]]:
    """Compute profiles at adaptive points; see `_ends` for ``factor``."""
    drop = 0.5 * float(stats.chi2.ppf(ADAPTIVE_LEVEL, 1))
    tops, ends = profile_ends(model, held, columns, drop, factor, exact=ADAPTIVE_TOLERANCE)
    searches = []
    for j, top, (a, b) in zip(columns, tops, ends, strict=True):
        inside = {v.value: v for v in held.values.get(j, []) if a.last <= v.value <= b.last}
        inside[top.point.value] = top.point
        searches.append(refine_grid([inside[at] for at in sorted(inside)]))
    return run_searches(held, columns, searches)


def _start_without_priors(
    problem: Problem, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, j: int
) -> tuple[float, np.ndarray]:
    """Fit without the priors of a combination's coefficients, as the start of its profile.

    If the outcome is separated without these priors, the fit runs away, and the profile could not
    be computed at other values from there. The start is then a fit with a normal prior on the
    combination, which profiles ignore.

    Parameters
    ----------
    beta : (p,) array
        The fit with all priors.
    l1, l2 : (p,) arrays
        Penalties, which are zero for the combination's coefficients.
    j : int
        Position of the combination.

    Returns
    -------
    penalty : float
        Precision of the normal prior on the combination, or zero.
    beta : (p,) array
        The start.
    """
    batch, scale = problem.batch(), problem.design.scale
    refuse_undetermined(problem, batch, l1, l2)
    batch.start_at((beta * scale)[:, None])
    found = batch.solve(l1, l2, tol=PROFILE.fit_tol)[0].beta
    likelihood = problem.likelihood
    backend = likelihood.backend
    change = problem.design.matmul(((found - beta) * scale)[:, None], backend)
    if likelihood.order is not None:
        change = change[likelihood.order]
    if likelihood.quadratic or likelihood.extent(change, problem.weights) <= MAX_CHANGE:
        return 0.0, found
    held = l2.copy()
    held[j] = 1.0 / max(beta[j] ** 2, scale[j] ** -2.0)
    batch = problem.batch()
    batch.start_at((beta * scale)[:, None])
    return float(held[j]), batch.solve(l1, held, tol=PROFILE.fit_tol)[0].beta


def points_at(held: ProfileFits, j: int, points: np.ndarray) -> list[ProfilePoint]:
    """Compute the profile at given values, from the estimate outwards, unless it is known there."""
    values = {point.value: point for point in held.values.get(j, [])}
    new = sorted({*np.asarray(points, float).tolist()} - values.keys())
    new.sort(key=lambda value: abs(value - held.beta[j]))
    for point in held.fit([j] * len(new), new):
        values[point.value] = point if point.converged else held.fit_in_steps(j, point.value)
    return [values[value] for value in np.asarray(points, float).tolist()]


def _table(values: list[ProfilePoint], first: dict[str, Any] | None = None) -> pd.DataFrame:
    """Tabulate points after other columns; numbers of unconverged fits are NaN."""
    table = dict(first or {})
    table["point"] = [v.value for v in values]
    table["log_likelihood"] = [v.f if v.converged else np.nan for v in values]
    table["gradient"] = [v.g if v.converged else np.nan for v in values]
    return pd.DataFrame(table)


def _points(points: object) -> np.ndarray | None:
    """Validate points given by the user; None for adaptive points."""
    if isinstance(points, str):
        if points != "adaptive":
            raise DataError(f"points must be 'adaptive' or an array of values, not {points!r}.")
        return None
    try:
        values = np.atleast_1d(np.asarray(points, np.float64))
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise DataError(f"points must be 'adaptive' or finite values, not {points!r}.")
    return values


def _profiles_at_zero(held: ProfileFits, columns: list[int]) -> list[ProfilePoint | None]:
    """Compute profiles at zero; None if linear predictors would overflow there."""
    there = [j for j in columns if held.is_representable(j, 0.0)]
    found: dict[int, ProfilePoint] = dict(
        zip(there, held.fit(there, [0.0] * len(there)), strict=True)
    )
    for j, value in found.items():
        if not value.converged:
            found[j] = held.fit_in_steps(j, 0.0)
    return [found.get(j) for j in columns]
