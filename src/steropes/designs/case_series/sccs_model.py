"""Fit of a case series: rate ratios, profile intervals, and covariates without a finite estimate.

A window without any event (or with all of them) has no finite estimate. The likelihood still has a
limit, in which its rows (or those compared with it) vanish; the other estimates are those of that
limit, and the window's interval has one finite limit.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.designs.case_series.infinite_estimates import find_infinite_estimates
from steropes.designs.case_series.interval_rows import Intervals
from steropes.designs.case_series.model_settings import SeriesModelSettings
from steropes.designs.case_series.series_fits_and_profiles import Profile
from steropes.designs.values.profile_likelihood_points import Evaluate, evaluated, store_profile
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.errors import DataError, MonotoneLikelihoodWarning, SeparationError
from steropes.models.inference.coefficient_profiles import CoefficientProfiles

__all__ = ["CaseSeriesModel", "fit_model"]

NUMBERS = ("log_rr", "rr", "lower", "upper", "se", "p", "one_sided_p", "llr")
R_POINTS = tuple(np.linspace(math.log(0.1), math.log(10), 10).tolist())
# Spacing of a stored profile, see `store_profile`: with refits in one batch, and with separate
# refits.
STEP, LONG_STEP = 0.2, 0.4
FARTHEST = 700.0  # Beyond this log rate ratio the exponential overflows.
NO_DAYS = "no case has a day in it"
NO_CONTRAST = "it does not vary within any case with an event"
NO_EVENTS = "no event in it; the estimate is zero"
ALL_EVENTS = "all events in it; the estimate is infinite"
SEGMENT = "no event in this part of the spline; its rate ratio is zero"
BASE = "no event in the first part of the spline, relative to which there is no finite estimate"


@dataclass(frozen=True, repr=False)
class CaseSeriesModel:
    """A fitted case series.

    Attributes
    ----------
    estimates : DataFrame
        Indexed by covariate: ``log_rr``; ``rr`` with its limits ``lower`` and ``upper``;
        ``interval``, "profile" (for unpenalised windows and the probe), "bootstrap" (percentiles,
        for penalised windows if there are draws) or empty; ``se`` from the width of a profile
        interval on the log scale; ``p`` and ``one_sided_p`` (ratio above one), from the signed root
        of the likelihood ratio; ``llr``, the log-likelihood minus that at a ratio of one; ``note``,
        the reason for a missing or infinite number.
    log_likelihood : float
        Σ y log[t exp(x'β) / Σ t exp(x'β)], with sums within cases.
    variance : float or None
        Variance of the prior, if there is one.
    status : str
        "OK", or the reason why there is no fit.
    profiles : dict
        For columns with ``profile``: DataFrame ``log_rr``, ``log_likelihood``, ``gradient``.
    bootstrap : DataFrame or None
        Indexed by covariate: ``share`` of the draws in which its coefficient is not zero, and the
        limits ``lower`` and ``upper`` of its rate ratio (percentiles).
    penalty : float
        Penalty at the estimate: profiles reach ``log_likelihood - penalty``.
    converged : bool
        Whether all fits converged, other than those of bootstrap draws.
    unconverged_draws : int
        Number of bootstrap draws that did not converge. The percentiles include them, and the
        convergence diagnostic fails.
    fits : Profile or None
        The fits of the model, if there is an estimate.
    """

    estimates: pd.DataFrame
    log_likelihood: float
    variance: float | None
    status: str
    profiles: dict[str, pd.DataFrame] = field(default_factory=dict)
    bootstrap: pd.DataFrame | None = None
    penalty: float = 0.0
    converged: bool = True
    unconverged_draws: int = 0
    fits: Profile | None = None

    @property
    def estimator(self) -> Any:
        """The fitted `SelfControlledCaseSeries`; None if there is no estimate.

        Splines are mostly fitted without a row for each month, and the estimator with all rows is
        only fitted on request.
        """
        return None if self.fits is None else self.fits.estimator()

    def __repr__(self) -> str:
        return f"CaseSeriesModel({len(self.estimates)} covariates, {self.status})"


def fit_model(
    intervals: Intervals, settings: SeriesModelSettings, grid: Sequence[float] | None = None
) -> CaseSeriesModel:
    """Fit the model and compute the intervals of its unpenalised covariates.

    Parameters
    ----------
    grid : sequence of float, optional
        Log rate ratios at which profiles are computed. Default: those of R's package (ten from log
        0.1 to log 10), and further points that cover the relevant range of the likelihood.
    """
    columns = intervals.columns
    free = np.array([not c.penalized for c in columns])
    status, present = _without_days(intervals)
    ends, rows = find_infinite_estimates(intervals, free & present)
    for j, end in ends.items():
        if math.isnan(end):
            present[j] = False
            status[j] = NO_CONTRAST if columns[j].window != -2 else BASE
    estimates = pd.DataFrame(np.nan, index=intervals.names, columns=list(NUMBERS))
    estimates = estimates.assign(interval="", note=status)
    infinite = {j: e for j, e in ends.items() if not math.isnan(e)}
    for j, end in infinite.items():
        estimates.loc[intervals.names[j], ["log_rr", "rr"]] = end, ratio_of(end)
        note = SEGMENT if columns[j].window == -2 else NO_EVENTS if end < 0 else ALL_EVENTS
        estimates.loc[intervals.names[j], "note"] = note
    finite = present.copy()
    finite[list(infinite)] = False
    profile = Profile(intervals, finite, rows, settings)
    try:
        best = profile.maximum()
    except (SeparationError, DataError) as error:
        why = f"no estimate: {error}"
        estimates["note"] = estimates["note"].mask(estimates["note"].eq(""), why)
        return CaseSeriesModel(estimates, math.nan, None, why)
    fitted = np.array(intervals.names)[finite]
    estimates.loc[fitted, "log_rr"] = best.beta[finite]
    estimates.loc[fitted, "rr"] = np.exp(best.beta[finite])
    read = [int(j) for j in np.flatnonzero(free & present) if columns[j].interval]
    _limits_of_finite(estimates, profile, [j for j in read if finite[j]], settings)
    held = {
        k: _limits_of_infinite(estimates, profile, k, infinite, settings)
        for k in read
        if k in infinite
    }
    profiles = {}
    for j in np.flatnonzero(present).tolist():
        if columns[j].profile:
            name = intervals.names[j]
            line = estimates.loc[name]
            profiles[name] = _profile(profile, j, held.get(j), infinite, line, grid)
    draws, unconverged = _bootstrap(profile, settings)
    if draws is not None:
        _limits_of_draws(estimates, draws, intervals)
    return CaseSeriesModel(
        estimates,
        best.log_likelihood,
        best.variance,
        "OK",
        profiles,
        draws,
        best.penalty,
        profile.converged,
        unconverged,
        profile,
    )


def _bootstrap(profile: Profile, settings: SeriesModelSettings) -> tuple[pd.DataFrame | None, int]:
    """Draw people with replacement, with the prior fixed; count draws that did not converge."""
    model = profile.estimator() if settings.bootstrap else None
    if model is None:
        return None, 0
    draws = model.inference.bootstrap(settings.bootstrap, random_state=settings.seed)
    with np.errstate(over="ignore"):
        limits = np.exp(draws.confint(settings.level))
    table = limits.assign(share=draws.nonzero)[["share", "lower", "upper"]]
    return table, int((~draws.converged).sum())


def _limits_of_draws(estimates: pd.DataFrame, draws: pd.DataFrame, intervals: Intervals) -> None:
    """Use percentiles over draws as limits of windows without a profile interval."""
    windows = [n for n, c in zip(intervals.names, intervals.columns, strict=True) if c.window >= 0]
    names = [n for n in windows if n in draws.index and estimates.loc[n, "interval"] == ""]
    names = [n for n in names if not estimates.loc[n, "note"]]
    estimates.loc[names, ["lower", "upper"]] = draws.loc[names, ["lower", "upper"]]
    estimates.loc[names, "interval"] = "bootstrap"


def _without_days(intervals: Intervals) -> tuple[list[str], NDArray]:
    """Return a note for each column, and a mask of the columns with any days."""
    p = intervals.X.shape[1]
    present = np.ones(len(intervals.columns), bool)
    present[:p] = np.diff(intervals.X.indptr) > 0
    return ["" if there else NO_DAYS for there in present], present


def _around(estimator: Any, name: str, line: pd.Series, level: float) -> tuple[float, float, float]:
    """Return the log rate ratio of largest likelihood and its limits, to place the profile."""
    best, lower, upper = (
        math.log(x) if 0 < x < math.inf else side * math.inf
        for side, x in ((np.sign(line["log_rr"]), line["rr"]), (-1, line["lower"]),
                        (1, line["upper"]))
    )  # fmt: skip
    if math.isnan(line["lower"]) and estimator is not None:  # A profile omits its own prior.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MonotoneLikelihoodWarning)
            limits = estimator.confint([name], level, method="profile")
        lower, upper = (float(x) for x in limits.iloc[0])
        best = 0.5 * (lower + upper)
    return best, lower, upper


def _profile(
    profile: Profile,
    j: int,
    held: Any,
    infinite: dict[int, float],
    line: pd.Series,
    grid: Sequence[float] | None,
) -> pd.DataFrame:
    """Compute the stored profile of column j; ``held`` is the fit if its estimate is infinite."""
    name = profile.intervals.names[j]
    batched = profile.monthly and j not in infinite
    model = held
    if j not in infinite and not (batched and not math.isnan(line["lower"])):
        model = profile.estimator()
    refitted = batched or model is None
    evaluate = (
        _refitted(profile, j, infinite)
        if refitted
        else CoefficientProfiles(model, [name]).function(name)
    )
    around = _around(model, name, line, profile.settings.level)
    return _stored(evaluate, around, grid, STEP if batched or model is not None else LONG_STEP)


def _stored(
    evaluate: Evaluate,
    around: tuple[float, float, float],
    grid: Sequence[float] | None,
    step: float,
) -> pd.DataFrame:
    """Evaluate the profile at a given grid, or else at R's points and the relevant range."""
    if grid is not None:
        return evaluated(evaluate, np.asarray(grid, dtype=float))
    return store_profile(
        evaluate, *around, lowest=R_POINTS[0], highest=R_POINTS[-1], step=step, also=R_POINTS
    )


def _refitted(profile: Profile, j: int, infinite: dict[int, float]) -> Evaluate:
    """Return a profile that refits all other covariates at each value."""

    def evaluate(points: NDArray) -> tuple[NDArray, NDArray]:
        """Return log-likelihood and slope at each point; NaN where the others have no fit."""
        profile.prepare(j, points, infinite)
        found = np.full((len(points), 2), np.nan)
        for k, value in enumerate(points):
            with contextlib.suppress(SeparationError, DataError):  # The others may not fit.
                found[k] = profile.at(j, float(value), infinite)
        return found[:, 0], found[:, 1]

    return evaluate


def _limits_of_finite(
    estimates: pd.DataFrame, profile: Profile, columns: list[int], settings: SeriesModelSettings
) -> None:
    """Compute profile limits, likelihood ratios and p-values of all covariates together."""
    if not columns:
        return
    best = profile.maximum()
    names = [profile.intervals.names[j] for j in columns]
    if profile.monthly:
        drop = float(norm.ppf(0.5 + settings.level / 2)) ** 2 / 2
        limits = np.array([profile.limits(j, drop) for j in columns])
        null = {n: profile.at(j, 0.0, {})[0] for n, j in zip(names, columns, strict=True)}
    else:
        with warnings.catch_warnings():  # An open side is reported as an infinite limit.
            warnings.simplefilter("ignore", MonotoneLikelihoodWarning)
            model = profile.estimator()
            limits = model.confint(names, settings.level, method="profile").to_numpy()
        null = model.inference.profile(names, [0.0]).set_index("param")["log_likelihood"]
    top = best.log_likelihood - best.penalty
    for name, (lower, upper) in zip(names, limits, strict=True):
        _enter(estimates, name, lower, upper, top - null[name], settings)


def _limits_of_infinite(
    estimates: pd.DataFrame,
    profile: Profile,
    j: int,
    infinite: dict[int, float],
    settings: SeriesModelSettings,
) -> Any:
    """Compute the finite limit; return the estimator with the column's profile, if any."""
    name = profile.intervals.names[j]
    held = None
    try:
        held = profile.held(j, infinite)
        if held is not None:
            with warnings.catch_warnings():  # The likelihood is known to be monotone.
                warnings.simplefilter("ignore", MonotoneLikelihoodWarning)
                limits = held.confint([name], settings.level, method="profile")
            lower, upper = (float(x) for x in limits.iloc[0])
            null = float(held.inference.profile(name, [0.0])["log_likelihood"].iloc[0])
        else:
            drop = float(norm.ppf(0.5 + settings.level / 2)) ** 2 / 2
            lower, upper = profile.interval(j, drop, infinite)
            null = profile.at(j, 0.0, infinite)[0]
    except (SeparationError, DataError) as error:  # The others have no fit at some value.
        estimates.loc[name, "note"] = f"no interval: {error}"
        return None
    best = profile.maximum()
    fall = best.log_likelihood - best.penalty - null
    _enter(estimates, name, lower, upper, fall, settings)
    return held


def _enter(
    estimates: pd.DataFrame,
    name: str,
    lower: float,
    upper: float,
    fall: float,
    settings: SeriesModelSettings,
) -> None:
    """Enter the limits, and the tests that follow from the profile's drop at a ratio of one."""
    # A profile that is flat within rounding error has no limit on that side.
    lower, upper = (math.copysign(math.inf, x) if abs(x) >= FARTHEST else x for x in (lower, upper))
    llr = max(fall, 0.0)
    root = math.copysign(math.sqrt(2 * llr), float(estimates.loc[name, "log_rr"]))
    width = (upper - lower) / (2 * float(norm.ppf(0.5 + settings.level / 2)))
    estimates.loc[name, "interval"] = "profile"
    estimates.loc[name, ["lower", "upper", "se", "p", "one_sided_p", "llr"]] = (
        ratio_of(lower),
        ratio_of(upper),
        width if math.isfinite(width) else math.nan,
        2 * norm.sf(abs(root)),
        norm.sf(root),
        llr,
    )
