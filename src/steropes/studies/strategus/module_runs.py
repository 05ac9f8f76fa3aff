"""Runs of the modules of a specification on one database, with released tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.data_quality_notes import note_rows, released_notes
from steropes.studies.database.irregular_rows import unknown_people
from steropes.studies.database.observation_periods import joined_periods, people_notes
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.grids.sccs_grid import run_case_series_grid
from steropes.studies.prediction.model_validation import validated_designs
from steropes.studies.prediction.prediction_models import predicted_designs
from steropes.studies.release.strategus_release import (
    released_baseline,
    released_challenges,
    released_rates,
    released_times,
)
from steropes.studies.strategus.characterization_case_tables import case_tables
from steropes.studies.strategus.cohort_diagnostics_tables import diagnostics_tables
from steropes.studies.strategus.dechallenge_rechallenge import challenge_counts
from steropes.studies.strategus.incidence_rates import incidence_tables
from steropes.studies.strategus.pathway_tables import pathway_tables
from steropes.studies.strategus.prediction_model_export import write_models
from steropes.studies.strategus.prediction_result_tables import prediction_tables, validation_tables
from steropes.studies.strategus.target_baseline import baseline_tables
from steropes.studies.strategus.time_to_event import times_to_events
from steropes.studies.strategus.treatment_pathways import target_pathways
from steropes.studies.strategus_plans.characterization_plan import CHARACTERIZATION
from steropes.studies.strategus_plans.cohort_diagnostics_plan import COHORT_DIAGNOSTICS
from steropes.studies.strategus_plans.comparative_plan import COHORT_METHOD
from steropes.studies.strategus_plans.incidence_plan import INCIDENCE
from steropes.studies.strategus_plans.pathway_plan import PATHWAYS
from steropes.studies.strategus_plans.prediction_plan import PREDICTION
from steropes.studies.strategus_plans.series_plan import CASE_SERIES
from steropes.studies.strategus_plans.specification_plan import SpecificationPlan
from steropes.studies.strategus_plans.validation_plan import VALIDATION

__all__ = ["ModuleRuns"]


Tables = dict[str, pd.DataFrame]


ENTRIES = "noted_entries"
PEOPLE = f"SELECT subject_id FROM {ENTRIES}"
COLUMNS = ["topic", "note", "counted", "count", "warning"]
# The parts of CharacterizationModule that describe cases.
CASE_PARTS = ("covariates of cases", "risk factors", "case series")


def module_notes(
    db: OmopDatabase,
    cohorts: CohortTable,
    used: Iterable[int],
    rules: DisclosureRules,
    database_id: str,
) -> pd.DataFrame:
    """Return the released table ``data_note`` of the people in the cohorts that a module uses."""
    with db.workspace() as work:
        cohorts.only(used).place(work, ENTRIES)
        notes = (
            *unknown_people(db, work, PEOPLE),
            *people_notes(db, work, PEOPLE, joined_periods(db, PEOPLE)),
        )
    rows = pd.DataFrame(note_rows(notes, {}), columns=COLUMNS)
    return released_notes(rows, rules).assign(database_id=database_id)


@dataclass(frozen=True)
class ModuleRuns:
    """The modules of a specification on one database; each is None if nothing of it runs.

    Modules without the tables of a grid note irregularities of the database in ``data_note``.
    """

    db: OmopDatabase
    plan: SpecificationPlan
    made: MadeCohorts
    folder: Path
    database_id: str
    schema: str
    jobs: int
    rules: DisclosureRules
    say: Callable[[str], None]

    def _of_grid(self) -> dict[str, Any]:
        """Return the settings that both grids share."""
        return {
            "database_id": self.database_id,
            "schema": self.schema,
            "observed_until": self.db.observed_until,
        }

    def _notes(self, targets: Iterable[int], cohorts: CohortTable) -> pd.DataFrame:
        """Return the released notes on the people in some cohorts."""
        return module_notes(self.db, cohorts, targets, self.rules, self.database_id)

    def comparative(self) -> Tables | None:
        """Run CohortMethodModule."""
        plan = self.plan.comparative
        spec = None if plan is None else plan.spec(**self._of_grid())
        if spec is None:
            return None
        self.say(COHORT_METHOD)
        return run_grid(
            self.db, spec, self.folder / COHORT_METHOD, jobs=self.jobs, cohorts=self.made,
            disclosure=self.rules, progress=self.say,
        ).tables  # fmt: skip

    def characterization(self, failed: dict[str, str]) -> Tables | None:
        """Run CharacterizationModule without cohorts that could not be made; fill ``failed``."""
        described, cohorts = self.plan.characterization, self.made.table
        if described is None or cohorts is None:
            return None
        described = described.without(self.made.refused)
        asked = (described.pairs, described.challenges, described.baselines, described.cases)
        if not any(asked):
            return None
        self.say(CHARACTERIZATION)
        released = self.rules, self.database_id
        exact = baseline_tables(self.db, described, cohorts)
        more: Tables = {}
        try:
            if described.cases:
                more = case_tables(self.db, described.cases, described.least_count, cohorts)
        except DataError as error:  # The other parts run.
            failed |= self._case_parts(str(error))
        if more:
            both = {name: [t for t in (exact[name], more[name]) if len(t)] for name in exact}
            exact = {n: pd.concat(of, ignore_index=True) for n, of in both.items() if of}
            exact = {n: exact.get(n, pd.DataFrame()) for n in both}
        found = released_baseline(exact, *released)
        found["data_note"] = self._notes(described.targets, cohorts)
        if described.pairs:
            times = times_to_events(self.db, described.pairs, cohorts)
            found["c_time_to_event"] = released_times(times, *released)
        if described.challenges:
            counts = challenge_counts(self.db, described.challenges, cohorts)
            found["c_dechallenge_rechallenge"] = released_challenges(counts, *released)
        return found

    def _case_parts(self, why: str) -> dict[str, str]:
        """Return the reason of all parts of CharacterizationModule that describe cases."""
        return {
            f"{CHARACTERIZATION}, {v.part}": why
            for v in self.plan.verdicts
            if v.module == CHARACTERIZATION and not v.reason and v.part.startswith(CASE_PARTS)
        }

    def diagnostics(
        self, database: Tables, counted: Mapping[str, pd.DataFrame], failed: dict[str, str]
    ) -> Tables | None:
        """Run CohortDiagnosticsModule; a part that cannot be computed is added to ``failed``."""
        plan = self.plan.diagnostics
        if plan is None:
            return None
        self.say(COHORT_DIAGNOSTICS)
        [source] = database["database_meta_data"].iloc
        found = diagnostics_tables(
            self.db, plan, self.plan.cohorts, self.made, counted, self.rules, source, failed,
            self.say,
        )  # fmt: skip
        if self.made.table is not None:
            found["data_note"] = self._notes(plan.cohorts, self.made.table)
        return found

    def incidence(self) -> Tables | None:
        """Run CohortIncidenceModule."""
        plan = self.plan.incidence
        if plan is None or not plan.combinations or self.made.table is None:
            return None
        self.say(INCIDENCE)
        plan = plan.without(self.made.refused)
        tables = incidence_tables(self.db, plan, self.made.table)
        tables["data_note"] = self._notes(plan.targets, self.made.table)
        rates = released_rates(tables["ci_incidence_summary"], self.rules, self.database_id)
        return {**tables, "ci_incidence_summary": rates}

    def pathways(self, database: Tables) -> Tables | None:
        """Run TreatmentPatternsModule."""
        plan = self.plan.pathways
        if plan is None or self.made.table is None:
            return None
        self.say(PATHWAYS)
        plan = plan.without(self.made.refused)
        found = target_pathways(self.db, plan, self.made.table)
        tables = pathway_tables(found, plan, database["database_meta_data"], self.rules)
        return {**tables, "data_note": self._notes(plan.targets, self.made.table)}

    def series(self) -> Tables | None:
        """Run SelfControlledCaseSeriesModule."""
        plan = self.plan.series
        spec = None if plan is None else plan.spec(**self._of_grid())
        if spec is None:
            return None
        self.say(CASE_SERIES)
        return run_case_series_grid(
            self.db, spec, self.folder / CASE_SERIES, jobs=self.jobs, cohorts=self.made.table,
            disclosure=self.rules, progress=self.say,
        ).tables  # fmt: skip

    def prediction(self, database: Tables, failed: dict[str, str]) -> Tables | None:
        """Run PatientLevelPredictionModule; a design without a model is added to ``failed``."""
        plan, cohorts = self.plan.prediction, self.made.table
        if plan is None or cohorts is None:
            return None
        named = {f"{PREDICTION}, design {d.number}": d.cohorts for d in plan.designs}
        failed |= self._refused(named)
        plan = plan.without(self.made.refused)
        results = predicted_designs(self.db, plan, cohorts, failed, self.say)
        if not results:
            return None
        write_models(self.folder / PREDICTION / "models", results, self.database_id)
        found = prediction_tables(results, self.plan.cohorts, database, self.rules)
        return {**found, "data_note": self._notes(plan.targets, cohorts)}

    def validation(self, database: Tables, failed: dict[str, str]) -> Tables | None:
        """Run PatientLevelPredictionValidationModule; failures are added to ``failed``."""
        plan, cohorts = self.plan.validation, self.made.table
        if plan is None or cohorts is None:
            return None
        named = {f"{VALIDATION}, validation {d.number}": d.cohorts for d in plan.designs}
        failed |= self._refused(named)
        plan = plan.without(self.made.refused)
        results = validated_designs(self.db, plan, cohorts, failed, self.say)
        if not results:
            return None
        found = validation_tables(results, self.plan.cohorts, database, self.rules)
        return {**found, "data_note": self._notes(plan.targets, cohorts)}

    def _refused(self, needed: Mapping[str, Iterable[int]]) -> dict[str, str]:
        """Return the reasons of parts whose cohorts could not be made."""
        return {
            part: self.made.refused[cohort]
            for part, cohorts in needed.items()
            for cohort in sorted(cohorts)
            if cohort in self.made.refused
        }
