"""The fit of a prepared case series, with its diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.designs.case_series.calendar_time_splines import TimeEffect, TimeEffects
from steropes.designs.case_series.event_timing import monthly_rates
from steropes.designs.case_series.intervals import Intervals
from steropes.designs.case_series.sccs_model import CaseSeriesModel, fit_model
from steropes.studies.diagnostics.convergence_diagnostic import quiet_fits
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.execution.step_groups import draws_in_tasks
from steropes.studies.sccs.results.sccs_diagnostics import diagnose
from steropes.studies.sccs.results.series_preparation import PreparedSeries
from steropes.studies.sccs.results.unreleased_series import ExactSeries

__all__ = ["fit_series"]

Series = TypeVar("Series", bound=ExactSeries)
# The log rate ratio of a part of a spline without events, for rates by month.
NO_RATE = -1e5


@single_threaded_blas()
def fit_series(
    kind: type[Series],
    prepared: PreparedSeries,
    rules: DisclosureRules,
    say: Callable[[str], None] = lambda _: None,
    jobs: int = 1,
) -> Series:
    """Fit the model to prepared intervals, and evaluate the diagnostics.

    Parameters
    ----------
    kind : type
        The class of the result, `ExactSeries` or one that is derived from it.
    rules : DisclosureRules
        Rules for the release of results.
    say : callable, optional
        Called with the description of each step.
    jobs : int, default 1
        Number of processes that fit bootstrap draws.
    """
    settings, intervals, effects = prepared.settings, prepared.intervals, prepared.effects
    say("fitting")
    with quiet_fits(), draws_in_tasks(jobs):
        model = fit_model(intervals, settings)
    say("evaluating diagnostics")
    monthly = monthly_rates(prepared.population, _fitted(intervals, model, effects))
    diagnostics = diagnose(
        prepared.population,
        intervals,
        model,
        monthly,
        settings.thresholds,
        censoring=prepared.censoring,
    )
    parts = {f.name: getattr(prepared, f.name) for f in fields(prepared)}
    return kind(**parts, model=model, monthly=monthly, diagnostics=diagnostics, rules=rules)


def _fitted(
    intervals: Intervals, model: CaseSeriesModel, effects: TimeEffects | None
) -> list[tuple[TimeEffect, NDArray]]:
    """Return the splines with their coefficients; empty if a coefficient is unknown."""
    found = []
    at = intervals.X.shape[1]
    for effect in () if effects is None else effects.effects:
        names = intervals.names[at : at + len(effect.names)]
        at += len(effect.names)
        beta = model.estimates.loc[names, "log_rr"].to_numpy(float)
        found.append((effect, np.where(np.isneginf(beta), NO_RATE, beta)))
    return found if all(np.isfinite(beta).all() for _, beta in found) else []
