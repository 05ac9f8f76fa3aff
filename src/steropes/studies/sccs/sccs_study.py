"""Self-controlled case series on a database, from cases to diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
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
from steropes.studies.database.data_notes import DataNote, distinct
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.diagnostics.convergence import quiet_fits
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.disclosure import Bound, DisclosureRules, applied_rules, site_rules
from steropes.studies.execution.frozen_protocol import ProtocolStatement, open_protocol
from steropes.studies.execution.setting_types import Whole
from steropes.studies.execution.step_groups import draws_in_tasks
from steropes.studies.report.formatting import decimals
from steropes.studies.sccs.blinding import public_estimates
from steropes.studies.sccs.case_population import Population
from steropes.studies.sccs.event_dependent_observation import CensorModel
from steropes.studies.sccs.event_timing import (
    Exposures,
    age_spans,
    calendar_spans,
    monthly_rates,
    time_to_event,
)
from steropes.studies.sccs.intervals import Intervals
from steropes.studies.sccs.sampling_cost import Sampling, sampling_cost
from steropes.studies.sccs.sccs_diagnostics import Diagnostics, diagnose
from steropes.studies.sccs.sccs_model import CaseSeriesModel, fit_model
from steropes.studies.sccs.series_preparation import PreparedSeries, prepare_series
from steropes.studies.sccs.settings import CaseSeriesSettings
from steropes.studies.sccs.splines import TimeEffect, TimeEffects

if TYPE_CHECKING:
    from steropes.studies.disclosure.series_release import SeriesRelease

__all__ = ["CaseSeries", "case_series", "fit_series"]


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
    protocol : ProtocolStatement or None
        Whether the series follows its protocol, if it has one.

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
    protocol: ProtocolStatement | None = None

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

    def write_paper(self, folder: str | Path) -> list[Path]:
        """Write methods, a RECORD-PE checklist and tables in LaTeX and Word for a paper.

        Parameters
        ----------
        folder : str or Path
            Folder of `write`. The files are added to its folder ``release``: ``paper/methods.md``,
            ``paper/record_pe.md``, ``paper/tables.tex`` and ``paper/tables.docx``.

        Returns
        -------
        list of Path
            The paths of these files.

        Raises
        ------
        ImportError
            ``python-docx`` is missing: ``pip install "steropes[paper]"``.
        """
        from steropes.studies.sccs.series_paper import write_series_paper

        return write_series_paper(self, folder)

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
    jobs: int = 1,
    protocol: str | Path | None = None,
    by: str | None = None,
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
    jobs : int, default 1
        Number of processes that fit bootstrap draws. Results do not depend on it.
    protocol : str or Path, optional
        A protocol (`freeze_protocol`). The series states whether it follows it, and the file
        records the run and whether it showed an estimate. A file that does not exist is frozen
        before the database is read.
    by : str, optional
        Who runs the series, for the protocol. Default: the name of the user.

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
    Whole(1).require("jobs", jobs)
    say = progress or (lambda _: None)
    rules = site_rules(disclosure, settings.min_cell)
    frozen = None if protocol is None else open_protocol(protocol, settings, by)
    with applied_rules(rules), opened(database, settings.schema, settings.time_zone) as db:
        prepared = prepare_series(db, settings, cohorts, say)
        study = fit_series(prepared, rules, say, jobs)
    if frozen is None or protocol is None:
        return study
    frozen = frozen.recorded(settings, by, _why_shown(study))
    frozen.write(protocol)
    return replace(study, protocol=frozen.statement(settings))


def _why_shown(study: CaseSeries) -> str:
    """Return why estimates of interest are shown; "" if none is."""
    if any(d.unblind for d in study.diagnostics):
        return "all diagnostics of an exposure passed"
    return "on request (unblind)" if study.settings.unblind else ""


@single_threaded_blas()
def fit_series(
    prepared: PreparedSeries,
    rules: DisclosureRules,
    say: Callable[[str], None] = lambda _: None,
    jobs: int = 1,
) -> CaseSeries:
    """Fit the model to prepared intervals, and evaluate the diagnostics.

    Parameters
    ----------
    prepared : PreparedSeries
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
    return CaseSeries(**parts, model=model, monthly=monthly, diagnostics=diagnostics, rules=rules)


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
