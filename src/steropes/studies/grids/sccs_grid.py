"""Grids of case series: all combinations of questions and analyses of one specification.

Negative controls, questions with a known ratio of one, measure systematic error: their estimates
calibrate the others of the same exposure and analysis, and give the EASE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.settings.validated_types import Whole
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.diagnostic import source_of
from steropes.studies.diagnostics.failing_diagnostics import (
    FAILED,
    not_shown,
    series_names,
    with_failing,
)
from steropes.studies.diagnostics.result_blinding import without_effects
from steropes.studies.disclosure import DisclosureRules, applied_rules
from steropes.studies.execution.common_run_of_designs import DesignResults, run_design
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.execution.resumable_steps import (
    REFUSED,
    Say,
    StepGroup,
    Tables,
    run_in_processes,
)
from steropes.studies.grids.sccs_grid_controls import (
    calibrate_series,
    calibrated_series,
    with_positives,
)
from steropes.studies.grids.sccs_grid_result_tables import (
    Refusal,
    refusal_rows,
    specification_rows,
    study_rows,
)
from steropes.studies.grids.unanswerable_questions import cohort_not_built, refuse_unanswerable_grid
from steropes.studies.release.series_table_release import release_series
from steropes.studies.result_files.sccs_results_schema import EXACT, EXACT_KEYS, TABLES
from steropes.studies.sccs.cases.series_preparation import (
    PreparedSeries,
    SharedCases,
    prepare_series,
)
from steropes.studies.sccs.results.series_fit_and_diagnostics import fit_series
from steropes.studies.sccs.results.unsuppressed_series_results import ExactSeries
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.sccs_cohorts import attempted_cohorts
from steropes.studies.sccs.specification.sccs_specification import read_case_series_grid
from steropes.studies.settings.frozen_protocol import ProtocolStatement, open_protocol

__all__ = [
    "CaseSeriesGrid",
    "CaseSeriesGridResults",
    "SeriesAnalysis",
    "SeriesQuestion",
    "read_case_series_grid",
    "run_case_series_grid",
]

# The store has exact numbers; the rules of the run apply to their release.
EXACT_RULES = DisclosureRules("none", 0)


@dataclass(frozen=True, repr=False, eq=False)
class CaseSeriesGridResults(DesignResults[CaseSeriesGrid]):
    """The results of a grid of case series.

    Attributes
    ----------
    path : Path
        The DuckDB file with exact numbers, which is not for release.
    tables : dict of str to DataFrame
        The tables for release, sorted by their keys.
    spec : CaseSeriesGrid
        The specification.
    rules : DisclosureRules
        Disclosure rules that were applied to the tables.
    protocol : ProtocolStatement or None
        Whether the run follows its protocol, if it has one.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import CaseSeriesGrid
    >>> from steropes.studies.sccs import SeriesAnalysis, SeriesQuestion
    >>> from steropes.studies import run_case_series_grid, synthetic_database
    >>> grid = CaseSeriesGrid(
    ...     (SeriesQuestion(1118084, 192671),), (SeriesAnalysis(1, "simple", {}),)
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_case_series_grid(synthetic_database(300), grid, folder)
    >>> sorted(results.tables)[-1]
    'sccs_time_trend'
    """

    prefix = "sccs"
    protocol: ProtocolStatement | None = None

    @property
    def grid(self) -> CaseSeriesGrid:
        """The specification."""
        return self.spec

    def estimates(self, unblind: bool = False) -> ResultTable:
        """Return the estimates of the questions of interest, without those that fail a diagnostic.

        ``era_id`` is the requested exposure; if each of its concepts is a separate covariate,
        ``covariate_name`` names the one of the row.

        Parameters
        ----------
        unblind : bool, default False
            Include estimates that fail a diagnostic.

        Returns
        -------
        DataFrame
            A row for each exposure of interest; effects that fail a diagnostic are missing.
        """
        key = ["analysis_id", "exposures_outcome_set_id"]
        t = self.tables
        found = t["sccs_result"].merge(
            t["sccs_diagnostics_summary"][[*key, "covariate_id", "unblind"]],
            on=[*key, "covariate_id"],
        )
        found = found.merge(t["sccs_exposures_outcome_set"], on="exposures_outcome_set_id")
        found = found.merge(t["sccs_exposure"], on="exposures_outcome_set_id")
        found = found.merge(t["note"][[*key, "note", "unconverged"]], on=key, how="left")
        named = t["sccs_covariate"][[*key, "covariate_id", "covariate_name"]]
        found = found.merge(named, on=[*key, "covariate_id"], how="left")
        found = found[found["true_effect_size"].isna()].reset_index(drop=True)
        if unblind:
            return _drawn(found)
        # A note that all or no outcomes fell in the time at risk reveals the effect too.
        reveals = (found["unblind"] == 0) & found["log_rr"].notna()
        found = with_failing(found, t, "sccs", series_names(self.spec.thresholds))
        found.loc[reveals, "note"] = found.loc[reveals, FAILED].map(not_shown)
        return _drawn(without_effects(found.drop(columns=FAILED), ("covariate_outcomes",)))


def _drawn(estimates: pd.DataFrame) -> ResultTable:
    """Make estimates a result with a forest plot."""
    shown = Interval("Rate ratio", "rr", "ci_95_lb", "ci_95_ub", level=0.95)
    return present(estimates, "ratio_forest", intervals=[shown], ratio=shown.caption)


def run_case_series_grid(
    database: str | Path | object,
    grid: CaseSeriesGrid,
    output: str | Path,
    *,
    cohorts: CohortTable | None = None,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
    jobs: int = 1,
    protocol: str | Path | None = None,
    by: str | None = None,
) -> CaseSeriesGridResults:
    """Run a grid, or resume an interrupted run of the same grid.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        A database that `OmopDatabase` accepts, or an open one.
    grid : CaseSeriesGrid
        Questions and analyses.
    output : str or Path
        Folder for ``results.duckdb``, with exact numbers, and for ``release/results.zip``, the
        tables for release as CSV files.
    cohorts : CohortTable, optional
        Required if outcomes or exposures are cohorts that ``grid.cohorts`` does not define.
    disclosure : str, optional
        Disclosure rules of the data's owner: "ohdsi" (the default), "opensafely" or "none"; see
        `site_rules`.
    progress : callable, optional
        Called with the description of each step.
    jobs : int, default 1
        Number of processes that fit case series; the calling process reads the database. Results do
        not depend on it.
    protocol : str or Path, optional
        A protocol (`freeze_protocol`). The results state whether they follow it, and the file
        records the run and whether it showed an estimate. A file that does not exist is frozen
        before the database is read.
    by : str, optional
        Who runs the grid, for the protocol. Default: the name of the user.

    Returns
    -------
    CaseSeriesGridResults
        The results, which are also in ``output``.

    Raises
    ------
    DataError
        A setting is invalid, or the folder contains results of something else. Errors of single
        questions are in the table ``note``, and the other questions are answered.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import CaseSeriesGrid
    >>> from steropes.studies.sccs import SeriesAnalysis, SeriesQuestion
    >>> from steropes.studies import run_case_series_grid, synthetic_database
    >>> grid = CaseSeriesGrid(
    ...     (SeriesQuestion(1118084, 192671),), (SeriesAnalysis(1, "simple", {}),)
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_case_series_grid(synthetic_database(300), grid, folder)
    >>> results.estimates(unblind=True)["covariate_name"].tolist()
    ['exposure']
    """
    Whole(1).require("jobs", jobs)
    frozen = None if protocol is None else open_protocol(protocol, grid, by)
    design = CaseSeriesDesign(grid, cohorts, jobs)
    path, tables, rules = run_design(
        design, database, output, jobs=jobs, disclosure=disclosure, progress=progress
    )
    results = CaseSeriesGridResults(path, tables, grid, rules)
    if frozen is None or protocol is None:
        return results
    passing = bool(results.estimates()["rr"].notna().any())
    why = "all diagnostics of an estimate passed" if passing else ""
    return replace(results, protocol=frozen.record(protocol, grid, by, why))


class CaseSeriesDesign:
    """Self-controlled case series as a design of the common run (`StudyDesign`).

    Parameters
    ----------
    cohorts : CohortTable, optional
        Cohorts that the specification does not define.
    jobs : int, default 1
        Number of case series that are prepared before they are fitted at the same time.

    Raises
    ------
    DataError
        A setting of an analysis is invalid.
    """

    tables, keys = EXACT, EXACT_KEYS

    def __init__(
        self, spec: CaseSeriesGrid, cohorts: CohortTable | None = None, jobs: int = 1
    ) -> None:
        self.spec, self.cohorts, self.jobs = spec, cohorts, jobs
        self.refused: dict[int, str] = {}
        for question in spec.questions:
            for analysis in spec.analyses:
                analysis.settings_for(question, spec)  # Invalid settings raise before the work.

    def prepare(self, db: OmopDatabase, say: Say) -> Sequence[Any]:
        """Build the cohorts, and return the hashes of all entries and the further diagnostics.

        Raises
        ------
        DataError
            No question can be answered.
        """
        made = attempted_cohorts(db, self.spec.cohorts)
        self.refused = made.refused
        for why in made.refused.values():
            say(f"left out: {why}")
        if made.table is not None:
            self.cohorts = made.table if self.cohorts is None else made.table + self.cohorts
        refuse_unanswerable_grid(db, self.spec, self.cohorts, self.refused)
        further = source_of(self.spec.thresholds.further)
        return [*([] if self.cohorts is None else [self.cohorts.hashes()]), *further]

    def steps(self, db: OmopDatabase, store: ResultStore, say: Say) -> Sequence[StepGroup]:
        """Make the positive controls, store the specification, and return the open steps."""
        grid, done = self.spec, store.done
        questions, made, controls = with_positives(db, grid, self.cohorts, say)
        if "specification" not in done:
            tables = specification_rows(grid, questions, made)
            tables["question_name"] = [
                _named(db, grid, self.cohorts, q, controls) for q in questions
            ]
            store.add("specification", tables)

        left = [
            (q, a)
            for q in questions
            for a in grid.analyses
            if not any(e.covers(q, a.id) for e in grid.exclude) and _name(q, a) not in done
        ]
        # Series with the same rules follow one another, so that they share their cases.
        rules = [a.settings_for(q, grid, made=q.number in controls).cases for q, a in left]
        first_with = {r: k for k, r in reversed([*enumerate(rules)])}
        left = [left[k] for k in sorted(range(len(left)), key=lambda k: first_with[rules[k]])]
        opened = ExitStack()
        shared = SharedCases(db, opened.enter_context(db.workspace()))
        groups = []
        for first in range(0, len(left), self.jobs):
            group = left[first : first + self.jobs]
            title = ", ".join(dict.fromkeys(a.description for _, a in group))
            names = tuple(_name(q, a) for q, a in group)
            last = opened if first + self.jobs >= len(left) else ExitStack()
            answers = partial(self._answers, shared, group, controls, last)
            groups.append(StepGroup(title, names, answers))
        return groups

    def calibrate(self, store: ResultStore) -> None:
        """Calibrate the estimates in a store by the negative controls."""
        calibrate_series(store, self.spec)

    def release(
        self, exact: Mapping[str, pd.DataFrame], rules: DisclosureRules
    ) -> dict[str, pd.DataFrame]:
        """Return the tables for release; calibrated estimates depend on released ones only."""
        tables = release_series(exact, rules, self.spec.thresholds)
        if not rules.open:
            results, checks = calibrated_series(tables, self.spec)
            tables |= {"sccs_result": results, "sccs_diagnostics_summary": checks}
        return {name: tables[name] for name in TABLES}

    def _answers(
        self,
        shared: SharedCases,
        group: Sequence[tuple[SeriesQuestion, SeriesAnalysis]],
        controls: Mapping[int, CohortTable],
        opened: ExitStack,
        jobs: int,
    ) -> Iterator[tuple[str, Tables]]:
        """Prepare some case series in this process, close ``opened``, and fit them in several."""
        with opened:
            tasks = [(q, a, self._prepared(shared, q, a, controls.get(q.number))) for q, a in group]
        found = run_in_processes(_answer, self.spec, tasks, jobs)
        for (question, analysis, _), tables in zip(tasks, found, strict=True):
            yield _name(question, analysis), tables

    def _prepared(
        self,
        shared: SharedCases,
        question: SeriesQuestion,
        analysis: SeriesAnalysis,
        own: CohortTable | None,
    ) -> PreparedSeries | Refusal:
        """Prepare one case series, or return the reason why that is impossible.

        ``own`` has the outcomes of a positive control.
        """
        settings = analysis.settings_for(question, self.spec, made=own is not None)
        cohorts = self.cohorts
        if own is not None:
            cohorts = own if cohorts is None else cohorts + own
        why = cohort_not_built(question, settings.cases, {} if own is not None else self.refused)
        if why:
            return Refusal(why)
        try:
            with applied_rules(EXACT_RULES):
                return prepare_series(shared.db, settings, cohorts, shared=shared)
        except REFUSED as error:
            return Refusal(str(error), shared.attrition(settings.cases, cohorts))


def _answer(
    grid: CaseSeriesGrid, task: tuple[SeriesQuestion, SeriesAnalysis, PreparedSeries | Refusal]
) -> Tables:
    """Fit one case series and return its rows, or those of its refusal."""
    question, analysis, prepared = task
    if isinstance(prepared, Refusal):
        return refusal_rows(grid, question, analysis, prepared)
    try:
        with applied_rules(EXACT_RULES):
            return study_rows(
                fit_series(ExactSeries, prepared, EXACT_RULES), grid, question, analysis
            )
    except REFUSED as error:
        why = Refusal(str(error), prepared.population.attrition)
        return refusal_rows(grid, question, analysis, why)


def _named(
    db: OmopDatabase,
    grid: CaseSeriesGrid,
    cohorts: CohortTable | None,
    question: SeriesQuestion,
    controls: Mapping[int, CohortTable],
) -> dict[str, object]:
    """Name exposure and outcome of a question."""
    rules = grid.analyses[0].settings_for(question, grid).cases

    def name(table: str, of: int) -> str:
        """Name a cohort or a concept."""
        if table == "cohort":
            return cohorts.name(of) if cohorts is not None else f"cohort {of}"
        return db.concept_names([of]).get(of, f"concept {of}")

    own = controls.get(question.number)
    outcome = question.outcome
    return {
        "exposures_outcome_set_id": question.number,
        "era_id": question.exposure,
        "exposure_name": name(rules.exposures_from, question.exposure),
        "outcome_id": outcome,
        "outcome_name": own.name(outcome) if own else name(rules.outcomes_from, outcome),
    }


def _name(question: SeriesQuestion, analysis: SeriesAnalysis) -> str:
    """Identify a step in the store."""
    nesting = "" if question.nesting is None else f" {question.nesting}"
    return f"{question.exposure} {question.outcome}{nesting} {analysis.id}"
