"""The fit of a prepared case series, with its diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from steropes.backends.blas_threads import single_threaded_blas
from steropes.designs.case_series.event_timing import monthly_rates
from steropes.designs.case_series.rate_stability import fitted_effects
from steropes.designs.case_series.sccs_model import fit_model
from steropes.studies.diagnostics.convergence_diagnostic import quiet_fits
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.execution.resumable_steps import draws_in_tasks
from steropes.studies.sccs.cases.series_preparation import PreparedSeries
from steropes.studies.sccs.results.sccs_diagnostics import diagnose
from steropes.studies.sccs.results.unsuppressed_series_results import ExactSeries

__all__ = ["fit_series"]

Series = TypeVar("Series", bound=ExactSeries)


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
    monthly = monthly_rates(prepared.population, fitted_effects(intervals, model, effects))
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
