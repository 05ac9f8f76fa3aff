"""Preparation of a case series from the database: cases, eras, intervals and splines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import pandas as pd

from steropes.designs.case_series.calendar_time_splines import TimeEffects, time_effects
from steropes.designs.case_series.event_dependent_observation import CensorModel, fit_censoring
from steropes.designs.case_series.event_timing import Exposures
from steropes.designs.case_series.interval_rows import Intervals, make_intervals
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.concept_domain_hints import domain_hint
from steropes.studies.database.data_quality_notes import DataNote, explained
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.sccs.cases.case_population import Population, find_cases
from steropes.studies.sccs.cases.era_covariates import era_columns
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.cases.risk_windows import stream_spans
from steropes.studies.sccs.specification.case_series_settings import CaseRules, CaseSeriesSettings

__all__ = ["PreparedSeries", "SharedCases", "exposures_of_interest", "prepare_series"]


@dataclass(frozen=True, repr=False, eq=False)
class PreparedSeries:
    """A case series before its fit, which needs the database no more.

    Attributes
    ----------
    settings, outcome, eras, source, population, intervals, exposures, effects, censoring, notes
        As in `CaseSeries`.
    """

    settings: CaseSeriesSettings
    outcome: str
    eras: pd.DataFrame
    source: str | None
    population: Population
    intervals: Intervals
    exposures: dict[str, Exposures]
    effects: TimeEffects | None
    censoring: CensorModel | None
    notes: tuple[DataNote, ...]


class SharedCases:
    """Cases of case series that are prepared one after the other in one workspace.

    All series share the observation periods and the entries of cohorts, and successive series with
    the same rules also share their cases.
    """

    def __init__(self, db: OmopDatabase, work: Workspace) -> None:
        self.db, self.work = db, work
        self._found: tuple[EraSources, Population] | None = None
        self._placed: CohortTable | None = None  # The cohorts with entries in the workspace.

    def find(self, rules: CaseRules, cohorts: CohortTable | None) -> tuple[EraSources, Population]:
        """Return sources with notes of their own and the cases, whose tables are in ``work``."""
        if self._found is not None:
            sources, population = self._found
            if sources.rules == rules and sources.cohorts is cohorts:
                return sources.copy(), population
        self._found = None
        placed = cohorts is not None and self._placed is cohorts
        sources = EraSources(self.db, self.work, rules, cohorts, placed)
        if sources.placed:
            self._placed = cohorts
        self._found = sources, find_cases(self.db, self.work, rules, sources)
        return sources.copy(), self._found[1]

    def attrition(self, rules: CaseRules, cohorts: CohortTable | None) -> pd.DataFrame | None:
        """Return the attrition of the cases that were found last; None if they are others."""
        if self._found is None:
            return None
        sources, population = self._found
        same = sources.rules == rules and sources.cohorts is cohorts
        return population.attrition if same else None


def prepare_series(
    db: OmopDatabase,
    settings: CaseSeriesSettings,
    cohorts: CohortTable | None,
    say: Callable[[str], None] = lambda _: None,
    shared: SharedCases | None = None,
) -> PreparedSeries:
    """Find the cases and split their time into intervals.

    Parameters
    ----------
    say : callable, optional
        Called with the description of each step.
    shared : SharedCases, optional
        Shares the cases with other series of the database.

    Raises
    ------
    DataError
        There are no cases, eras lie outside of observation, or a concept is unknown.
    """
    with ExitStack() as opened:
        if shared is None:
            shared = SharedCases(db, opened.enter_context(db.workspace()))
        work = shared.work
        say("finding cases")
        sources, population = shared.find(settings.cases, cohorts)
        _refuse_nobody(sources, population)
        say("building intervals")
        eras = Eras(work, sources, settings)
        columns, windows = era_columns(eras, settings)
        _refuse_unseen(eras, settings)
        effects = time_effects(settings, population, settings.cases.study_periods)
        censoring = fit_censoring(population) if settings.event_dependent_observation else None
        intervals = make_intervals(
            stream_spans(eras, windows), population, settings, columns, effects, censoring
        )
        return PreparedSeries(
            settings=settings,
            outcome=sources.outcome_name(),
            eras=_era_names(eras, settings),
            source=db.source_name(),
            population=population,
            intervals=intervals,
            exposures=exposures_of_interest(eras, intervals, settings),
            effects=effects,
            censoring=censoring,
            notes=(*sources.family.notes, *eras.notes, *(() if cohorts is None else cohorts.notes)),
        )


def _refuse_nobody(sources: EraSources, population: Population) -> None:
    """Raise if there are no cases, and name the rule that left none."""
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
    """Raise if the cases have no era of an exposure of interest."""
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
        reason = (
            "those in the database are of people without the outcome, or lie outside of the "
            "cases' observation"
            if any_
            else "nor has anybody else in the database"
            + "".join(dict.fromkeys(domain_hint(sources.db, i, table) for i in window.eras))
        )
        nobody = f"no case has an era of the exposure {names} while observed; {reason}"
        raise DataError(explained(nobody, sources.family.notes))


def exposures_of_interest(
    eras: Eras, intervals: Intervals, settings: CaseSeriesSettings
) -> dict[str, Exposures]:
    """Return the cases' eras of each named exposure of interest (not of all drugs together)."""
    found = {}
    for name, column in zip(intervals.names, intervals.columns, strict=True):
        if not column.of_interest or settings.windows[column.window].eras is None:
            continue
        window = settings.windows[column.window]
        ids = eras.sources.members(eras.sources.table_of(window), column.eras)
        found[name] = Exposures(*eras.of(window.kind, ids))
    return found


def _era_names(eras: Eras, settings: CaseSeriesSettings) -> pd.DataFrame:
    """Tabulate kind, id and name of the eras in use."""
    tables = {"exposure": settings.cases.exposures_from, "condition": "condition_era"}
    names: dict[tuple[str, int], str] = {}
    for kind in {k for k, _ in eras.counts}:
        ids = [i for k, i in eras.counts if k == kind]
        names |= {(kind, i): n for i, n in eras.sources.names(tables[kind], ids).items()}
    return pd.DataFrame(
        [(k, i, names[k, i]) for k, i in eras.counts], columns=["kind", "era_id", "name"]
    )
