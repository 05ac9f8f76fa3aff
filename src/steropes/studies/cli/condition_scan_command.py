"""The command that scans all conditions of people after an exposure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steropes.studies.cli.design_options import CdmSchema, SpecificationFile, days_of, run_design
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Memory, Quiet
from steropes.studies.cli.other_cohort_options import CohortTableName, Definition, cohort_sources
from steropes.studies.cli.setting_options import options_of
from steropes.studies.cli.strategus_command import ObservedUntil
from steropes.studies.monitoring.condition_scan_settings import OmopTreeScan
from steropes.studies.settings.setting_fields import setting_fields

__all__ = ["condition_scan"]

IN_FILES = ("cohorts", "features", "propensity")
SETTINGS = {name: f for name, f in setting_fields(OmopTreeScan).items() if name not in IN_FILES}
CONVERTED: dict[str, Any] = {
    "target": (int, int, "Cohort of the exposure, or the concept of a drug."),
    "comparator": (int, int, "Cohort, or the concept of a drug, with which it is compared."),
    "nesting": (int, int, "Cohort or condition that people must have had by the start."),
    "days": (str, days_of, "Days of the window after the start, as FIRST:LAST, default 1:365."),
    "control_days": (
        str, days_of, "Days without exposure of a self-controlled scan, as FIRST:LAST.",
    ),
}  # fmt: skip
NAMES = {"sexes": "sex", "washout_days": "washout"}
CONCEPTS = {"drugs": ["target", "comparator"], "indications": ["nesting"]}


@options_of(SETTINGS, NAMES, CONVERTED, optional=True)
def condition_scan(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    settings: dict[str, Any],
    specification: SpecificationFile = None,
    cohort_table: CohortTableName = None,
    definition: Definition = None,
    output: Annotated[Path, typer.Option(help="Folder for report.html and the tables.")] = Path(
        "steropes-condition-scan"
    ),
    schema: CdmSchema = "main",
    observed_until: ObservedUntil = None,
    memory: Memory = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Scan all conditions after an exposure for parts of the vocabulary with more than expected."""
    from steropes.studies.cohorts.design_settings import read_design
    from steropes.studies.monitoring.condition_scan import scan_conditions

    sources = cohort_sources(cohort_table, definition)
    question = read_design(OmopTreeScan, specification, settings, sources, CONCEPTS)
    run_design(
        database,
        lambda db, rules: scan_conditions(db, question, disclosure=rules),
        output,
        schema=schema,
        observed_until=observed_until,
        memory=memory,
        disclosure=disclosure,
        quiet=quiet,
    )


COMMANDS = (condition_scan,)
