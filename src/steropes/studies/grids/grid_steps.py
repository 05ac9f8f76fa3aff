"""The steps of comparative grids: first those that outcomes share, then the outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from steropes.backends.blas_threads import single_threaded_blas
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.comparative.analysis_of_one_outcome import Prepared
from steropes.studies.comparative.grid_questions_and_analyses import Question, StudyAnalysis
from steropes.studies.database.data_quality_notes import DataNote, distinct, note_rows
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.diagnostic import source_of
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.execution.resumable_steps import (
    REFUSED,
    Say,
    StepGroup,
    Tables,
    run_in_processes,
)
from steropes.studies.release.grid_release import release_grid
from steropes.studies.result_files.table_layouts import EXACT, EXACT_KEYS
from steropes.studies.results.calibrated_results import calibrate_grid
from steropes.studies.results.comparative_result_rows import (
    outcome_tables,
    refused_tables,
    specification_tables,
)
from steropes.studies.results.tables_shared_by_outcomes import comparison_id, shared_tables
from steropes.studies.specifications.grid_specification import GridSpec
from steropes.studies.specifications.positive_controls import add_positive_controls

__all__ = ["ComparativeDesign"]


@dataclass(frozen=True, eq=False)
class ComparativeDesign:
    """Comparative cohort studies as a design of the common run (`StudyDesign`).

    Attributes
    ----------
    cohorts : MadeCohorts, optional
        Cohorts that replace those of the specification's sources.
    """

    spec: GridSpec
    cohorts: MadeCohorts | None = None
    tables = EXACT
    keys = EXACT_KEYS

    def prepare(self, db: OmopDatabase, say: Say) -> Sequence[Any]:
        """Return hashes of given cohorts and the further diagnostics.

        Other cohorts depend on the specification and the database.
        """
        given = None if self.cohorts is None else self.cohorts.table
        further = source_of(self.spec.thresholds.further)
        return [*(() if given is None else given.hashes()), *further]

    def steps(self, db: OmopDatabase, store: ResultStore, say: Say) -> Sequence[StepGroup]:
        """Make the cohorts, store the specification, and group the open steps.

        Raises
        ------
        DataError
            No question can be asked.
        """
        spec, done = self.spec, store.done
        say("making cohorts")
        found = spec.make_cohorts(db) if self.cohorts is None else self.cohorts
        refused = found.refused
        questions = spec.questions
        blocked = {comparison_id(q): _blocked(q, refused) for q in questions}
        cohorts = found.table
        if cohorts is None or all(blocked.values()):
            raise DataError("; ".join(dict.fromkeys(w for w in blocked.values() if w)))
        for why in refused.values():
            say(f"left out: {why}")
        for cohort in spec.unused if self.cohorts is None else ():
            say(f"not used: cohort {cohort}, which no question and no analysis asks for")
        made: list[dict[str, object]] = []
        if spec.controls.positive is not None:
            bench = Workbench(self._narrowed(db, refused), cohorts)
            good = tuple(q for q in questions if not blocked[comparison_id(q)])
            added = add_positive_controls(bench, good, spec.analyses, spec.controls.positive, say)
            cohorts, made = added.cohorts, added.made
            more = {comparison_id(q): q for q in added.questions}
            questions = tuple(more.get(comparison_id(q), q) for q in questions)
        if "specification" not in done:
            tables = _specification(spec, db, questions, cohorts, refused, made)
            store.add("specification", tables)
        bench = Workbench(self._narrowed(db, refused), cohorts, spec.thresholds)
        groups = []
        for question in questions:
            for analysis in spec.analyses:
                needed = (analysis.competing, analysis.nesting)
                why = blocked[comparison_id(question)] or next(
                    (refused[c] for c in needed if c is not None and c in refused), ""
                )
                group = _Group(bench, spec, question, analysis, refused, why)
                left = _left(spec, question, analysis, done)
                title = analysis.description or f"analysis {analysis.id}"
                names = tuple(name for name, _ in left)
                groups.append(StepGroup(title, names, partial(group.answers, left), group.prepared))
        return groups

    def _narrowed(self, db: OmopDatabase, refused: Mapping[int, str]) -> OmopDatabase:
        """Restrict the database to people who may be compared, if the sources identify them."""
        return db if self.cohorts is not None else self.spec.of_compared(db, refused)

    def calibrate(self, store: ResultStore) -> None:
        """Calibrate the estimates in a store by the controls."""
        calibrate_grid(store, self.spec.thresholds)

    def release(
        self, exact: Mapping[str, pd.DataFrame], rules: DisclosureRules
    ) -> dict[str, pd.DataFrame]:
        """Return the tables for release; counts of analyses that adjust are released first."""
        order = sorted(self.spec.analyses, key=lambda a: not a.adjusts)
        kinds = {a.id: a.outcome_model.kind for a in order}
        return release_grid(exact, self.spec.thresholds, kinds, rules)


def _specification(
    spec: GridSpec,
    db: OmopDatabase,
    questions: Sequence[Question],
    cohorts: CohortTable,
    refused: Mapping[int, str],
    made: list[dict[str, object]],
) -> Tables:
    """Return the rows that describe the specification, the database and the cohorts."""
    where = {"database_id": spec.database_id}
    tables = specification_tables(questions, spec.analyses)
    tables["database"] = [{**where, **db.provenance()}]
    tables["positive_control"] = [{**row, **where} for row in made]
    names = {o.id for q in questions for o in q.outcomes}
    names |= {c for q in questions for c in (q.target, q.comparator)}
    tables["cohort"] = [{"cohort_id": c, "name": cohorts.name(c)} for c in sorted(names)]
    left_out = (DataNote("left_out", f"Left out: {w}", warning=True) for w in refused.values())
    tables["data_note"] = note_rows(distinct((*left_out, *cohorts.notes)), where)
    return tables


def _blocked(question: Question, refused: dict[int, str]) -> str:
    """Return the reason why a question cannot be asked; "" if it can."""
    needed = [question.target, question.comparator, question.nesting]
    outcomes = [o.id for o in question.outcomes if o.of_interest]
    if outcomes and all(o in refused for o in outcomes):
        needed += outcomes  # controls alone answer nothing
    return next((refused[c] for c in needed if c is not None and c in refused), "")


@dataclass(frozen=True, repr=False, eq=False)
class _Group:
    """A question and an analysis, with the reasons why outcomes, or all of them, are refused."""

    bench: Workbench
    spec: GridSpec
    question: Question
    analysis: StudyAnalysis
    refused: dict[int, str]
    blocked: str

    def prepared(self) -> Prepared:
        """Return everything that all outcomes share."""
        if self.blocked:
            raise DataError(self.blocked)
        self.bench.turn_to(self.question)
        return self.bench.prepared(self.question, self.analysis)

    def shared_rows(self, prepared: Prepared) -> Tables:
        """Return the rows that all outcomes share, with the notes on the data of both cohorts."""
        spec = self.spec
        key = {
            "target_comparator_id": comparison_id(self.question),
            "analysis_id": self.analysis.id,
            "database_id": spec.database_id,
        }
        return {
            **shared_tables(self.question, self.analysis, prepared.shared, spec.database_id),
            "data_note": note_rows(prepared.notes, key),
        }

    def refusal(self, outcome: int, why: str) -> Tables:
        """Return the rows of an outcome without a result, with the reason."""
        key = {
            "target_comparator_id": comparison_id(self.question),
            "outcome_id": outcome,
            "analysis_id": self.analysis.id,
            "database_id": self.spec.database_id,
        }
        return refused_tables(key, self.analysis, why, self.spec.thresholds)

    def answers(self, left: list[tuple[str, int]], jobs: int) -> Iterator[tuple[str, Tables]]:
        """Yield name and rows of each step that is left."""
        try:
            prepared = self.prepared()
        except REFUSED as error:
            for name, outcome in left:
                yield name, {} if outcome < 0 else self.refusal(outcome, str(error))
            return
        if left[0][1] < 0:
            yield left[0][0], self.shared_rows(prepared)
            left = left[1:]
        asked = [(name, o) for name, o in left if o not in self.refused]
        of_interest = {o.id for o in self.question.outcomes if o.of_interest}
        tasks = [(o, o in of_interest) for _, o in asked]
        common = prepared.packed(), self.spec.database_id
        found_rows = run_in_processes(_answer, common, tasks, jobs)
        for (name, outcome), found in zip(asked, found_rows, strict=True):
            yield name, self.refusal(outcome, found) if isinstance(found, str) else found
        for name, outcome in left:
            if outcome in self.refused:
                yield name, self.refusal(outcome, self.refused[outcome])


def _left(
    spec: GridSpec, question: Question, analysis: StudyAnalysis, done: set[str]
) -> list[tuple[str, int]]:
    """List the open steps of a question and an analysis with their outcomes; −1 is shared."""
    name = f"{comparison_id(question)} {analysis.id}"
    asked = [o.id for o in question.outcomes if not spec.excludes(question, o.id, analysis)]
    steps = [(name, -1), *((f"{name} {o}", o) for o in asked)] if asked else []
    return [s for s in steps if s[0] not in done]


@single_threaded_blas()
def _answer(common: tuple[Prepared, str], task: tuple[int, bool]) -> Tables | str:
    """Return the rows of an outcome, with its balance if wanted, or the reason for none."""
    (prepared, database), (outcome, with_balance) = common, task
    try:
        result = prepared.answer(outcome)
    except REFUSED as error:
        return str(error)
    return outcome_tables(result, database, with_balance=with_balance)
