"""The case series from database to verdicts: the order of the steps, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.data_notes import DataNote, distinct, explained
from steropes.studies.database.domain_hints import domain_hint
from steropes.studies.database.omop import OmopDatabase, Workspace, opened
from steropes.studies.diagnostics.convergence import quiet_fits
from steropes.studies.disclosure import Bound, DisclosureRules, site_rules
from steropes.studies.report.formatting import decimals
from steropes.studies.sccs.blinding import public_estimates
from steropes.studies.sccs.case_population import Population, find_cases
from steropes.studies.sccs.case_sampling import Sampling, sampling_cost
from steropes.studies.sccs.era_covariates import era_columns
from steropes.studies.sccs.era_sources import Sources
from steropes.studies.sccs.eras import Eras
from steropes.studies.sccs.event_dependent_observation import CensorModel, fit_censoring
from steropes.studies.sccs.event_timing import (
    Exposures,
    age_spans,
    calendar_spans,
    monthly_rates,
    time_to_event,
)
from steropes.studies.sccs.intervals import Intervals, make_intervals
from steropes.studies.sccs.sccs_diagnostics import Diagnostics, diagnose
from steropes.studies.sccs.sccs_model import CaseSeriesModel, fit_model
from steropes.studies.sccs.settings import CaseSeriesSettings
from steropes.studies.sccs.splines import TimeEffect, TimeEffects, time_effects
from steropes.studies.verdicts import NOT_SHOWN

if TYPE_CHECKING:
    from steropes.studies.disclosure.series_study import SeriesRelease

__all__ = ["CaseSeries", "case_series", "exposures_of_interest"]


@dataclass(frozen=True, repr=False)
class CaseSeries:
    """A finished case series; its tables are exact, with small cells.

    Its ``repr`` names no person, and the files of ``write`` hide small cells. ``repr``, ``page``
    and the figures hide the effect of an exposure that fails a diagnostic (``settings.unblind``
    shows it); the tables hide none.

    Attributes
    ----------
    settings : CaseSeriesSettings
    outcome : str
        Name of the outcome.
    eras : DataFrame
        The eras in use: ``kind``, ``era_id``, ``name``.
    source : str or None
        What the database calls itself.
    population : Population
        The cases; ``attrition`` and more.
    intervals : Intervals
        Rows and columns of the model.
    model : CaseSeriesModel
        ``estimates``, ``profiles``.
    exposures : dict
        The eras of each exposure of interest, by the name of its covariate.
    effects : TimeEffects or None
        The splines.
    censoring : CensorModel or None
        Of the weights of event-dependent observation.
    monthly : DataFrame
        See `monthly_rates`.
    diagnostics : list of Diagnostics
        One an exposure of interest.
    notes : tuple of DataNote
        Properties of the eras and cohorts; ``data_notes`` adds those of the cases.
    rules : DisclosureRules
        What may be released of it.
    """

    settings: CaseSeriesSettings
    outcome: str
    eras: pd.DataFrame
    source: str | None
    population: Population
    intervals: Intervals
    model: CaseSeriesModel
    exposures: dict[str, Exposures]
    effects: TimeEffects | None
    censoring: CensorModel | None
    monthly: pd.DataFrame
    diagnostics: list[Diagnostics]
    notes: tuple[DataNote, ...] = ()
    rules: DisclosureRules = field(default_factory=DisclosureRules)

    @cached_property
    def release(self) -> SeriesRelease:
        """What may be released; page, figures, tables and ``repr`` are made of it."""
        from steropes.studies.disclosure.series_study import release_study

        return release_study(self)

    def __repr__(self) -> str:
        from steropes.studies.disclosure.study import WITHHELD

        found = []
        for name in self.of_interest[:1]:
            line = public_estimates(self).loc[name]
            said = line["note"] if line["note"] in (NOT_SHOWN, WITHHELD) else "no estimate"
            if math.isfinite(line["lower"]) or math.isfinite(line["upper"]):
                rr, lower, upper = (decimals(line[c]) for c in ("rr", "lower", "upper"))
                said = f"rate ratio {rr} ({lower} to {upper})"
            found.append(f"{name}: {said}")
        told = self.release.attrition["periods"].iloc[-1]
        cases = told if isinstance(told, Bound) else f"{told:,}"
        return f"CaseSeries({', '.join([self.outcome, f'{cases} cases', *found])})"

    @property
    def estimates(self) -> pd.DataFrame:
        """Rate ratios; see `CaseSeriesModel`."""
        return self.model.estimates

    @cached_property
    def sampling(self) -> Sampling | None:
        """What leaving out unexposed cases (``spline_cases``) costs; None if none was left out."""
        return sampling_cost(self.intervals, self.estimates)

    @property
    def attrition(self) -> pd.DataFrame:
        """What each rule leaves: people, outcomes, observation periods, days."""
        rows = [r for r in (self.intervals.comparable, self.intervals.attrition) if r is not None]
        last = pd.DataFrame(rows, columns=self.population.attrition.columns)
        return pd.concat([self.population.attrition, last], ignore_index=True)

    @property
    def data_notes(self) -> tuple[DataNote, ...]:
        """Notes on the database, such as people whose observation periods were joined."""
        return distinct((*self.population.notes, *self.notes))

    @property
    def of_interest(self) -> list[str]:
        """Names of the covariates that the study is about."""
        pairs = zip(self.intervals.names, self.intervals.columns, strict=True)
        return [name for name, column in pairs if column.of_interest]

    def time_to_event(self, covariate: str | None = None) -> pd.DataFrame:
        """Outcomes week by week around the first exposure; see `timing.time_to_event`."""
        name = self._exposure(covariate)
        return time_to_event(self.population, self.exposures[name])

    def age_spans(self) -> pd.DataFrame:
        """Cases whose time covers each month of age; see `timing.age_spans`."""
        self.population.require_age("age spans need")
        return age_spans(self.population)

    def calendar_spans(self) -> pd.DataFrame:
        """Cases whose time covers each calendar month; see `timing.calendar_spans`."""
        return calendar_spans(self.population)

    def effect_names(self, effect: TimeEffect) -> list[str]:
        """Names of the columns of one of the splines of ``effects``."""
        assert self.effects is not None
        at = self.intervals.X.shape[1]
        for e in self.effects.effects:
            names = self.intervals.names[at : at + len(e.names)]
            if e is effect:
                return names
            at += len(e.names)
        raise DataError("the effect is of another study")

    def effect_coefficients(self, effect: TimeEffect) -> NDArray:
        """Coefficients of one of the splines of ``effects``."""
        return self.estimates.loc[self.effect_names(effect), "log_rr"].to_numpy(float)

    def tables(
        self, analysis_id: int = 1, set_id: int = 1, database_id: str | None = None
    ) -> dict[str, pd.DataFrame]:
        """The tables that may be released, in the layout of SelfControlledCaseSeries 6."""
        from steropes.studies.disclosure.series import release_series
        from steropes.studies.sccs.results import exact_tables

        return release_series(exact_tables(self, analysis_id, set_id, database_id), self.rules)

    def page(self) -> str:
        """The report, one HTML page without outside references and without small cells."""
        from steropes.studies.sccs.sccs_page import series_page

        return series_page(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the report and the result tables to ``folder/release``; returns the paths.

        The tables are R's results model and hold, as R's do, the estimates that fail a diagnostic
        beside the flag ``unblind`` of ``sccs_diagnostics_summary``.
        """
        from steropes.studies.sccs.sccs_page import write_series

        return write_series(self, folder)

    def _exposure(self, covariate: str | None) -> str:
        names = list(self.exposures)
        if covariate is None and len(names) == 1:
            return names[0]
        if covariate not in names:
            raise DataError(f"covariate must be one of {', '.join(names)}, not {covariate!r}")
        return str(covariate)


def case_series(
    database: str | Path | OmopDatabase | Any,
    settings: CaseSeriesSettings,
    *,
    cohorts: CohortTable | None = None,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
) -> CaseSeries:
    """Run a self-controlled case series on an OMOP database.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        Whatever `OmopDatabase` opens, or one that is open.
    settings : CaseSeriesSettings
        See `case_series_settings` for the usual ones.
    cohorts : CohortTable, optional
        Where outcomes, exposures or nesting are cohorts.
    disclosure : str, optional
        The rules of disclosure that the owner of the data asks for: "ohdsi" (the default),
        "opensafely" or "none"; see `site_rules`.
    progress : callable, optional
        Told each step.

    Returns
    -------
    CaseSeries

    Raises
    ------
    DataError
        No cases, and the rule that left none; overlapping observation periods; eras outside of
        observation; exposure that covers everybody's time; unknown concepts.

    Examples
    --------
    >>> from steropes.studies import case_series, case_series_settings, demo_database
    >>> settings = case_series_settings(exposure=1118084, outcome=192671)
    >>> case_series(demo_database(), settings)  # doctest: +SKIP
    """
    say = progress or (lambda _: None)
    rules = site_rules(disclosure, settings.min_cell)
    with (
        opened(database, settings.schema, settings.time_zone) as db,
        db.workspace() as work,
    ):
        return _run(db, work, settings, cohorts, rules, say)


def _run(
    db: OmopDatabase,
    work: Workspace,
    settings: CaseSeriesSettings,
    cohorts: CohortTable | None,
    rules: DisclosureRules,
    say: Callable[[str], None],
) -> CaseSeries:
    say("finding cases")
    sources = Sources(db, work, settings.cases, cohorts)
    population = find_cases(db, work, settings.cases, sources)
    _refuse_nobody(sources, population)
    say("cutting time")
    eras = Eras(work, sources, settings)
    columns, windows = era_columns(eras, settings)
    _refuse_unseen(eras, settings)
    effects = time_effects(settings, population)
    censoring = fit_censoring(population) if settings.event_dependent_observation else None
    intervals = make_intervals(eras, population, settings, columns, windows, effects, censoring)
    exposures = exposures_of_interest(eras, intervals, settings)
    say("fitting")
    with quiet_fits():
        model = fit_model(intervals, settings)
    say("checking assumptions")
    monthly = monthly_rates(population, _fitted(intervals, model, effects))
    diagnostics = diagnose(
        population, intervals, model, monthly, settings.thresholds, censoring=censoring
    )
    return CaseSeries(
        settings=settings,
        outcome=sources.outcome_name(),
        eras=_era_names(eras, settings),
        source=db.source_name(),
        population=population,
        intervals=intervals,
        model=model,
        exposures=exposures,
        effects=effects,
        censoring=censoring,
        monthly=monthly,
        diagnostics=diagnostics,
        notes=(*sources.family.notes, *eras.notes, *(() if cohorts is None else cohorts.notes)),
        rules=rules,
    )


def _refuse_nobody(sources: Sources, population: Population) -> None:
    if len(population):
        return
    rules = population.attrition
    outcome = f"{sources.rules.outcome} ({sources.outcome_name()})"
    if rules["periods"].iloc[0] == 0:
        hint = domain_hint(sources.db, sources.rules.outcome, sources.rules.outcomes_from)
        nobody = f"nobody has the outcome {outcome} during an observation period{hint}"
        raise DataError(explained(nobody, sources.family.notes))
    rule = rules["rule"][rules["periods"] == 0].iloc[0]
    raise DataError(f"no case of the outcome {outcome} is left after the rule: {rule}")


def _refuse_unseen(eras: Eras, settings: CaseSeriesSettings) -> None:
    """Refuse an exposure of interest of which the cases have no era."""
    work, sources = eras.work, eras.sources
    for window in settings.windows:
        if not window.of_interest or window.eras is None:
            continue
        table = sources.table_of(window)
        if {*sources.members(table, window.eras)} & {*eras.ids(window.kind)}:
            continue
        names = ", ".join(f"{i} ({sources.name(table, i)})" for i in window.eras)
        relation = sources.relation(table, sources.members(table, window.eras))
        [(any_,)] = work.rows(f"SELECT count(*) FROM ({relation})")
        why = (
            "those in the database are of people without the outcome, or lie outside of the "
            "cases' observation"
            if any_
            else "nor has anybody else in the database"
            + "".join(dict.fromkeys(domain_hint(sources.db, i, table) for i in window.eras))
        )
        nobody = f"no case has an era of the exposure {names} while observed; {why}"
        raise DataError(explained(nobody, sources.family.notes))


def exposures_of_interest(
    eras: Eras, intervals: Intervals, settings: CaseSeriesSettings
) -> dict[str, Exposures]:
    """The cases' eras of each exposure of interest that is named; not of all drugs there are."""
    found = {}
    for name, column in zip(intervals.names, intervals.columns, strict=True):
        if not column.of_interest or settings.windows[column.window].eras is None:
            continue
        window = settings.windows[column.window]
        ids = eras.sources.members(eras.sources.table_of(window), column.eras)
        found[name] = Exposures(*eras.of(window.kind, ids))
    return found


def _era_names(eras: Eras, settings: CaseSeriesSettings) -> pd.DataFrame:
    tables = {"exposure": settings.cases.exposures_from, "condition": "condition_era"}
    names: dict[tuple[str, int], str] = {}
    for kind in {k for k, _ in eras.counts}:
        ids = [i for k, i in eras.counts if k == kind]
        names |= {(kind, i): n for i, n in eras.sources.names(tables[kind], ids).items()}
    return pd.DataFrame(
        [(k, i, names[k, i]) for k, i in eras.counts], columns=["kind", "era_id", "name"]
    )


def _fitted(
    intervals: Intervals, model: CaseSeriesModel, effects: TimeEffects | None
) -> list[tuple[TimeEffect, NDArray]]:
    """The splines with their coefficients; none where one of those is not known."""
    found = []
    at = intervals.X.shape[1]
    for effect in () if effects is None else effects.effects:
        names = intervals.names[at : at + len(effect.names)]
        at += len(effect.names)
        found.append((effect, model.estimates.loc[names, "log_rr"].to_numpy(float)))
    return found if all(np.isfinite(beta).all() for _, beta in found) else []
