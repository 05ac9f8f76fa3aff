"""Self-controlled case series on a database, from cases to diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.html_facts import TextInHtml
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.data_notes import DataNote, distinct, explained
from steropes.studies.database.domain_hints import domain_hint
from steropes.studies.database.omop import OmopDatabase, Workspace, opened
from steropes.studies.diagnostics.convergence import quiet_fits
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.disclosure import Bound, DisclosureRules, applied_rules, site_rules
from steropes.studies.report.formatting import decimals
from steropes.studies.sccs.blinding import public_estimates
from steropes.studies.sccs.case_population import Population, find_cases
from steropes.studies.sccs.era_covariates import era_columns
from steropes.studies.sccs.era_sources import EraSources
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
from steropes.studies.sccs.sampling_cost import Sampling, sampling_cost
from steropes.studies.sccs.sccs_diagnostics import Diagnostics, diagnose
from steropes.studies.sccs.sccs_model import CaseSeriesModel, fit_model
from steropes.studies.sccs.settings import CaseSeriesSettings
from steropes.studies.sccs.splines import TimeEffect, TimeEffects, time_effects

if TYPE_CHECKING:
    from steropes.studies.disclosure.series_release import SeriesRelease

__all__ = ["CaseSeries", "case_series", "exposures_of_interest"]


@dataclass(frozen=True, repr=False)
class CaseSeries(TextInHtml):
    """A finished case series, with exact tables that may contain small counts.

    Its ``repr`` identifies no person, and the files of ``write`` suppress small counts. ``repr``,
    ``page`` and the figures hide the effect of an exposure that fails a diagnostic (unless
    ``settings.unblind``); the tables do not.

    Attributes
    ----------
    settings : CaseSeriesSettings
        The settings of the study.
    outcome : str
        Name of the outcome.
    eras : DataFrame
        The eras in use: ``kind``, ``era_id``, ``name``.
    source : str or None
        Name of the database.
    population : Population
        The cases with their attrition.
    intervals : Intervals
        Rows and columns of the model.
    model : CaseSeriesModel
        ``estimates``, ``profiles``.
    exposures : dict
        Eras of each exposure of interest, by the name of its covariate.
    effects : TimeEffects or None
        The splines.
    censoring : CensorModel or None
        Model of the weights for event-dependent observation.
    monthly : DataFrame
        See `monthly_rates`.
    diagnostics : list of Diagnostics
        One per exposure of interest.
    notes : tuple of DataNote
        Irregularities of the eras and cohorts; ``data_notes`` adds those of the cases.
    rules : DisclosureRules
        Rules for the release of results.

    See Also
    --------
    case_series : Run a case series.

    Examples
    --------
    >>> from steropes.studies import case_series, case_series_settings, synthetic_database
    >>> settings = case_series_settings(exposure=1118084, outcome=192671)
    >>> series = case_series(synthetic_database(400), settings)
    >>> series.of_interest
    ['exposure']
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
        """The results after disclosure control; page, figures, tables and ``repr`` use it."""
        from steropes.studies.disclosure.series_release import release_study

        return release_study(self)

    def __repr__(self) -> str:
        from steropes.studies.disclosure.effect_secrecy import WITHHELD

        found = []
        for name in self.of_interest[:1]:
            line = public_estimates(self).loc[name]
            text = line["note"] if line["note"] in (NOT_SHOWN, WITHHELD) else "no estimate"
            if math.isfinite(line["lower"]) or math.isfinite(line["upper"]):
                rr, lower, upper = (decimals(line[c]) for c in ("rr", "lower", "upper"))
                text = f"rate ratio {rr} ({lower} to {upper})"
            found.append(f"{name}: {text}")
        periods = self.release.attrition["periods"].iloc[-1]
        cases = periods if isinstance(periods, Bound) else f"{periods:,}"
        return f"CaseSeries({', '.join([self.outcome, f'{cases} cases', *found])})"

    @property
    def estimates(self) -> pd.DataFrame:
        """Rate ratios; see `CaseSeriesModel`."""
        return self.model.estimates

    @cached_property
    def sampling(self) -> Sampling | None:
        """The cost of leaving out unexposed cases (``spline_cases``); None if all are used."""
        return sampling_cost(self.intervals, self.estimates)

    @property
    def attrition(self) -> pd.DataFrame:
        """People, outcomes, observation periods and days that each rule leaves."""
        rows = [r for r in (self.intervals.comparable, self.intervals.attrition) if r is not None]
        last = pd.DataFrame(rows, columns=self.population.attrition.columns)
        return pd.concat([self.population.attrition, last], ignore_index=True)

    @property
    def data_notes(self) -> tuple[DataNote, ...]:
        """Notes on the database, such as people whose observation periods were joined."""
        return distinct((*self.population.notes, *self.notes))

    @property
    def of_interest(self) -> list[str]:
        """Names of the covariates of interest."""
        pairs = zip(self.intervals.names, self.intervals.columns, strict=True)
        return [name for name, column in pairs if column.of_interest]

    def time_to_event(self, covariate: str | None = None) -> pd.DataFrame:
        """Count outcomes by week around the first exposure.

        Parameters
        ----------
        covariate : str, optional
            The exposure, if there are several of interest.

        Returns
        -------
        DataFrame
            ``week`` (−26 … 25; week 0 begins with the exposure), ``outcomes``, ``exposed``
            (outcomes during any era) and ``observed`` (cases observed in that week).
        """
        name = self._exposure(covariate)
        return time_to_event(self.population, self.exposures[name])

    def age_spans(self) -> pd.DataFrame:
        """Count cases whose time covers each month of age.

        Returns
        -------
        DataFrame
            ``age_month`` (completed months) and ``cases``.

        Raises
        ------
        DataError
            Years of birth are missing.
        """
        self.population.require_age("age spans need")
        return age_spans(self.population)

    def calendar_spans(self) -> pd.DataFrame:
        """Count cases whose time covers each calendar month.

        Returns
        -------
        DataFrame
            ``year``, ``month`` (1 … 12) and ``cases``.
        """
        return calendar_spans(self.population)

    def effect_names(self, effect: TimeEffect) -> list[str]:
        """Return the names of the columns of one of the splines in ``effects``.

        Parameters
        ----------
        effect : TimeEffect
            One of the splines in ``effects``.

        Returns
        -------
        list of str
            Names of the columns.

        Raises
        ------
        DataError
            The effect belongs to another study.
        """
        assert self.effects is not None
        at = self.intervals.X.shape[1]
        for e in self.effects.effects:
            names = self.intervals.names[at : at + len(e.names)]
            if e is effect:
                return names
            at += len(e.names)
        raise DataError("the effect belongs to another study")

    def effect_coefficients(self, effect: TimeEffect) -> NDArray:
        """Return the coefficients of one of the splines in ``effects``.

        Parameters
        ----------
        effect : TimeEffect
            One of the splines in ``effects``.

        Returns
        -------
        ndarray
            Log rate ratios of the columns of the spline.
        """
        return self.estimates.loc[self.effect_names(effect), "log_rr"].to_numpy(float)

    def tables(
        self, analysis_id: int = 1, set_id: int = 1, database_id: str | None = None
    ) -> dict[str, pd.DataFrame]:
        """Return the tables for release, in the layout of SelfControlledCaseSeries 6.

        Parameters
        ----------
        analysis_id : int, default 1
            Number of the analysis.
        set_id : int, default 1
            Number of the set of exposures and outcome.
        database_id : str, optional
            Name of the database. Default: its own name.

        Returns
        -------
        dict of str to DataFrame
            Tables by name, after disclosure control.
        """
        from steropes.studies.disclosure.series import release_series
        from steropes.studies.sccs.results import exact_tables

        return release_series(exact_tables(self, analysis_id, set_id, database_id), self.rules)

    def page(self) -> str:
        """Return the report.

        Returns
        -------
        str
            One self-contained HTML page without small counts.
        """
        from steropes.studies.sccs.sccs_page import series_page

        return series_page(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the report and the result tables for release.

        The tables follow R's results model. As in R, they contain estimates that fail a diagnostic,
        marked by the flag ``unblind`` of ``sccs_diagnostics_summary``.

        Parameters
        ----------
        folder : str or Path
            Folder in which the folder ``release`` is made.

        Returns
        -------
        list of Path
            Paths of the files.
        """
        from steropes.studies.sccs.sccs_page import write_series

        return write_series(self, folder)

    def _exposure(self, covariate: str | None) -> str:
        """Return the named exposure, or the only one."""
        names = list(self.exposures)
        if covariate is None and len(names) == 1:
            return names[0]
        if covariate not in names:
            raise DataError(f"covariate must be one of {', '.join(names)}, not {covariate!r}")
        return str(covariate)


@single_threaded_blas()
def case_series(
    database: str | Path | OmopDatabase | object,
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
        A database that `OmopDatabase` accepts, or an open one.
    settings : CaseSeriesSettings
        See `case_series_settings` for common designs.
    cohorts : CohortTable, optional
        Required if outcomes, exposures or nesting are cohorts.
    disclosure : str, optional
        Disclosure rules of the data's owner: "ohdsi" (the default), "opensafely" or "none"; see
        `site_rules`.
    progress : callable, optional
        Called with the description of each step.

    Returns
    -------
    CaseSeries
        The study with its estimates, diagnostics and report.

    Raises
    ------
    DataError
        There are no cases (the message names the rule that left none), eras lie outside of
        observation, exposure covers everybody's time, or a concept is unknown.

    References
    ----------
    Farrington (1995), Biometrics 51:228–235. Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM
    TOMACS 23:10.

    Examples
    --------
    >>> from steropes.studies import case_series, case_series_settings, synthetic_database
    >>> settings = case_series_settings(exposure=1118084, outcome=192671)
    >>> series = case_series(synthetic_database(400), settings)
    >>> series.estimates.index.tolist()
    ['exposure', 'pre-exposure', 'end of observation']
    """
    say = progress or (lambda _: None)
    rules = site_rules(disclosure, settings.min_cell)
    with (
        applied_rules(rules),
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
    """Run the steps in order."""
    say("finding cases")
    sources = EraSources(db, work, settings.cases, cohorts)
    population = find_cases(db, work, settings.cases, sources)
    _refuse_nobody(sources, population)
    say("building intervals")
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
    say("evaluating diagnostics")
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


def _fitted(
    intervals: Intervals, model: CaseSeriesModel, effects: TimeEffects | None
) -> list[tuple[TimeEffect, NDArray]]:
    """Return the splines with their coefficients; empty if a coefficient is unknown."""
    found = []
    at = intervals.X.shape[1]
    for effect in () if effects is None else effects.effects:
        names = intervals.names[at : at + len(effect.names)]
        at += len(effect.names)
        found.append((effect, model.estimates.loc[names, "log_rr"].to_numpy(float)))
    return found if all(np.isfinite(beta).all() for _, beta in found) else []
