"""The command that emulates a target trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steropes.studies.cli.design_options import CdmSchema, SpecificationFile, run_design
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Memory, Quiet
from steropes.studies.cli.other_cohort_options import CohortTableName, Definition, cohort_sources
from steropes.studies.cli.setting_options import options_of
from steropes.studies.cli.strategus_command import ObservedUntil
from steropes.studies.settings.setting_fields import setting_fields
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["target_trial"]

IN_FILES = ("cohorts", "features")
SETTINGS = {name: f for name, f in setting_fields(OmopTrial).items() if name not in IN_FILES}
CONVERTED: dict[str, Any] = {
    "treatment": (int, int, "Cohort of the treated, or the concept of a drug."),
    "outcome": (int, int, "Cohort of the outcome, or the concept of a condition."),
    "nesting": (int, int, "Cohort or condition that people must have had by the start."),
}
NAMES = {"sexes": "sex", "washout_days": "washout", "covariates": "covariate"}
CONCEPTS = {
    "drugs": ["treatment"], "conditions": ["outcome"], "indications": ["nesting"],
}  # fmt: skip


@options_of(SETTINGS, NAMES, CONVERTED, optional=True)
def target_trial(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    settings: dict[str, Any],
    specification: SpecificationFile = None,
    cohort_table: CohortTableName = None,
    definition: Definition = None,
    output: Annotated[Path, typer.Option(help="Folder for report.html and the tables.")] = Path(
        "steropes-target-trial"
    ),
    schema: CdmSchema = "main",
    observed_until: ObservedUntil = None,
    memory: Memory = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Emulate a target trial of starting a treatment, as a sequence of trials."""
    from steropes.studies.cohorts.design_settings import read_design
    from steropes.studies.target_trials.target_trial_study import target_trial_study

    sources = cohort_sources(cohort_table, definition)
    question = read_design(OmopTrial, specification, settings, sources, CONCEPTS)
    run_design(
        database,
        lambda db, rules: target_trial_study(db, question, disclosure=rules),
        output,
        schema=schema,
        observed_until=observed_until,
        memory=memory,
        disclosure=disclosure,
        quiet=quiet,
    )


COMMANDS = (target_trial,)
