"""Self-controlled case series on a database, from cases to diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.html_representations import TextInHtml
from steropes.designs.settings.validated_types import Whole
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.diagnostics.result_blinding import is_not_shown
from steropes.studies.disclosure import Bound, DisclosureRules, applied_rules, site_rules
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.release.one_series_release import ReleasedSeries
from steropes.studies.release.series_result_blinding import public_estimates
from steropes.studies.sccs.cases.series_preparation import prepare_series
from steropes.studies.sccs.results.series_fit_and_diagnostics import fit_series
from steropes.studies.sccs.specification.case_series_settings import CaseSeriesSettings
from steropes.studies.settings.frozen_protocol import open_protocol

__all__ = ["CaseSeries", "case_series"]


class CaseSeries(ReleasedSeries, TextInHtml):
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
        Irregularities of the eras and cohorts; ``data_quality_notes`` adds those of the cases.
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

    def __repr__(self) -> str:
        from steropes.studies.disclosure.effect_suppression import WITHHELD

        found = []
        for name in self.of_interest[:1]:
            line = public_estimates(self).loc[name]
            told = is_not_shown(line["note"]) or line["note"] == WITHHELD
            text = line["note"] if told else "no estimate"
            if math.isfinite(line["lower"]) or math.isfinite(line["upper"]):
                rr, lower, upper = (decimals(line[c]) for c in ("rr", "lower", "upper"))
                text = f"rate ratio {rr} ({lower} to {upper})"
            found.append(f"{name}: {text}")
        periods = self.release.attrition["periods"].iloc[-1]
        cases = periods if isinstance(periods, Bound) else f"{periods:,}"
        return f"CaseSeries({', '.join([self.outcome, f'{cases} cases', *found])})"

    def page(self) -> str:
        """Return the report.

        Returns
        -------
        str
            One self-contained HTML page without small counts.
        """
        from steropes.studies.series_report.sccs_page import series_page

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
        from steropes.studies.series_report.sccs_page import write_series

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
        from steropes.studies.series_report.series_paper import write_series_paper

        return write_series_paper(self, folder)


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
    until = settings.observed_until
    with (
        applied_rules(rules),
        opened(database, settings.schema, settings.time_zone, observed_until=until) as db,
    ):
        prepared = prepare_series(db, settings, cohorts, say)
        study = fit_series(CaseSeries, prepared, rules, say, jobs)
    if frozen is None or protocol is None:
        return study
    return replace(study, protocol=frozen.record(protocol, settings, by, _why_shown(study)))


def _why_shown(study: CaseSeries) -> str:
    """Return why estimates of interest are shown; "" if none is."""
    if any(d.unblind for d in study.release.diagnostics):
        return "all diagnostics of an exposure passed"
    return "on request (unblind)" if study.settings.unblind else ""
