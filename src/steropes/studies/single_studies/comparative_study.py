"""Comparative studies of one question, run by the steps of a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.html_representations import TextInHtml
from steropes.designs.settings.validated_types import Whole
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.disclosure import Bound, DisclosureRules, applied_rules, site_rules
from steropes.studies.one_question.question_analyses import (
    QuestionAnalyses,
    collect_people,
    tie_orders,
)
from steropes.studies.one_question.unsuppressed_results import ExactStudy
from steropes.studies.settings.frozen_protocol import open_protocol
from steropes.studies.specifications.one_question_specification import MAIN, ROLES
from steropes.studies.specifications.study_settings import StudySettings

if TYPE_CHECKING:
    from steropes.studies.release.one_question_release import Published

__all__ = ["ComparativeStudy", "comparative_study"]


class ComparativeStudy(ExactStudy, TextInHtml):
    """A finished study; all tables are pandas DataFrames, exact, with small cells.

    Its ``repr`` names no person. The files of ``write`` hide small cells, and, as ``repr`` does,
    the estimate where a diagnostic fails (``settings.unblind`` shows it); the tables hide nothing.

    Attributes
    ----------
    settings : StudySettings
        The settings of the study.
    names : dict
        Names of the ``target``, ``comparator`` and ``outcome`` concepts.
    exact : mapping of str to DataFrame
        The result tables of all analyses, as a grid stores them, with exact numbers.
    people : DataFrame
        One row per person, ordered by person id: ``person_id``, ``treated`` (1 target,
        0 comparator), ``start`` (index date), ``time`` (days at risk), ``event`` (1 if the first
        outcome falls in them), ``score``, ``preference`` and ``set`` (−1 if none).
    covariates : StudyCovariates or None
        ``columns``, ``dropped``. None if the study ended before.
    propensity : Propensity or None
        ``model``, ``auc``, ``coefficients`` … None if the study ended before.
    ties : TieOrders or None
        Equal scores, and the hazard ratios of other orders of the people who share them.
    ended : str
        Reason why the study ended before matching; empty if it did not.
    data_notes : tuple of DataNote
        Notes on the database, such as people whose observation periods were joined.
    rules : DisclosureRules
        Disclosure rules for the release of results.
    protocol : ProtocolStatement or None
        Whether the study follows its protocol, if it has one.

    See Also
    --------
    comparative_study : Run a study.

    Examples
    --------
    >>> import steropes
    >>> from steropes.studies import DEMO, synthetic_database
    >>> settings = steropes.StudySettings(**DEMO, folds=5, tie_orders=0)
    >>> study = steropes.comparative_study(synthetic_database(600), settings)
    >>> study.hazard_ratios.index.tolist()
    ['crude', 'matched', 'matched, stratified']
    >>> study.pairs == len(study.matched) // 2
    True
    """

    @cached_property
    def release(self) -> Published:
        """The results after disclosure control; page, terminal, files and ``repr`` use it."""
        from steropes.studies.release.one_question_release import publish

        return publish(self)

    @property
    def visible(self) -> bool:
        """Whether the estimate is shown: all released diagnostics pass, or it was asked for."""
        return not self.release.blinded

    def __repr__(self) -> str:
        from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
        from steropes.studies.disclosure.effect_suppression import WITHHELD

        public = self.release
        line = next(h for h in public.hazard_ratios if h["analysis"] == "matched, stratified")
        found = f"hazard ratio {line['hr']:.2f} ({line['lower']:.2f} to {line['upper']:.2f})"
        if line["note"] == NOT_SHOWN:
            found = f"{NOT_SHOWN} ({', '.join(v.key for v in public.failed)})"
        elif line["note"]:
            found = line["note"] if line["note"] == WITHHELD else "no estimate"
        pairs = public.pairs if isinstance(public.pairs, Bound) else f"{public.pairs:,}"
        return (
            f"ComparativeStudy({self.names['target']} against {self.names['comparator']}, "
            f"{self.names['outcome']}: {pairs} matched pairs, {found})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the study as plain values, without small counts.

        Returns
        -------
        dict
            Values that can be written as JSON.
        """
        from steropes.studies.report.study_json_and_csv import study_numbers

        return study_numbers(self.release)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the report and the numbers of the study for release.

        Parameters
        ----------
        folder : str or Path
            Folder in which the folder ``release`` is made: ``report.html``, ``study.json``, the
            same as ``tables/*.csv`` and ``figures/*.svg``, and ``manifest.json``, which lists the
            files and the rules that were applied. All files appear, complete, or none.

        Returns
        -------
        list of Path
            The paths of ``report.html`` and ``study.json``.
        """
        from steropes.studies.report.study_report import write_report

        return write_report(self.release, folder)

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
        from steropes.studies.report.study_report import write_paper

        return write_paper(self.release, folder)


@single_threaded_blas()
def comparative_study(
    database: str | Path | OmopDatabase | object,
    settings: StudySettings,
    *,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
    protocol: str | Path | None = None,
    by: str | None = None,
    jobs: int = 1,
    memory: str | None = None,
) -> ComparativeStudy:
    """Compare an outcome between new users of two drugs in an OMOP database.

    The study builds a new-user cohort and its covariates, fits propensity scores by a
    cross-validated lasso, matches pairs, and compares the hazards by Cox regression. The same input
    gives the same result every time.

    A study that cannot be completed (a rule leaves an arm empty, there is no covariate, no pair
    within the caliper, or no event) is returned with the steps that were possible, without an
    estimate and with the reason.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        An OMOP CDM v5.x that `OmopDatabase` can open (a DuckDB file, a folder of Parquet files, a
        URL, an open connection), or an open `OmopDatabase`. It is never modified. One that is
        opened here is closed before the fits, which frees the memory of tables that were read.
    settings : StudySettings
        Drugs, outcome and all rules of the study.
    disclosure : str, optional
        Disclosure rules that the owner of the data requires: "ohdsi" (the default), "opensafely" or
        "none"; see `site_rules`.
    progress : callable, optional
        Called with a line of text at the start of each step.
    protocol : str or Path, optional
        A protocol (`freeze_protocol`). The study states whether it follows it, and the file records
        the run. A file that does not exist is written before the database is opened.
    by : str, optional
        Who runs the study, for the protocol. Default: the name of the user.
    jobs : int, default 1
        Number of processes that analyse further outcomes, negative controls and other orders of
        equal scores. Results do not depend on it.
    memory : str, optional
        Memory limit of a database that is opened here, such as "2GB"; see `OmopDatabase`.

    Returns
    -------
    ComparativeStudy
        The study with its tables, diagnostics and estimates.

    Raises
    ------
    DataError
        A file, concept or setting cannot be used, or a drug has no users.

    See Also
    --------
    case_series : Self-controlled case series.
    run_grid : Many questions, outcomes and analyses.

    Examples
    --------
    >>> import steropes
    >>> from steropes.studies import DEMO, synthetic_database
    >>> settings = steropes.StudySettings(**DEMO, folds=5, tie_orders=0)
    >>> study = steropes.comparative_study(synthetic_database(600), settings)
    >>> study.names["target"], study.matching_done
    ('celecoxib', True)
    """
    Whole(1).require("jobs", jobs)
    say = progress or (lambda line: None)
    rules = site_rules(disclosure, settings.min_cell)
    frozen = None if protocol is None else open_protocol(protocol, settings, by)
    say("opening the database")
    with applied_rules(rules):
        with opened(
            database, settings.schema, settings.time_zone, memory, settings.observed_until
        ) as db:
            if settings.cohorts is None:  # A concept that does not exist is refused first.
                names = {role: db.concept_name(getattr(settings, role)) for role in ROLES}
            versions = db.provenance()
            made = collect_people(db, settings, say)
        found = QuestionAnalyses.run(made, settings, say, jobs)
        del made
    if settings.cohorts is not None:
        names = found.results[MAIN].names
    people = found.people()
    ties = None
    if found.propensity is not None:
        ties = tie_orders(people, found, settings, say, jobs)
    with applied_rules(rules):
        table = People(people)
    study = ComparativeStudy(
        settings=settings,
        names=names,
        exact=found.tables(versions),
        people=table,
        covariates=found.covariates,
        propensity=found.propensity,
        ties=ties,
        ended=found.ended,
        data_notes=found.notes,
        rules=rules,
    )
    if frozen is None or protocol is None:
        return study
    why = "on request (unblind)" if study.release.failed else "all diagnostics passed"
    shown = why if study.visible else ""
    return replace(study, protocol=frozen.record(protocol, settings, by, shown))
