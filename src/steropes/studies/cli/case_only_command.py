"""The command for case-only and case–control designs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steropes.studies.case_only.case_only_settings import OmopCaseOnly
from steropes.studies.cli.design_options import CdmSchema, SpecificationFile, days_of, run_design
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Memory, Quiet
from steropes.studies.cli.other_cohort_options import CohortTableName, Definition, cohort_sources
from steropes.studies.cli.setting_options import options_of
from steropes.studies.cli.strategus_command import ObservedUntil
from steropes.studies.settings.setting_fields import setting_fields

__all__ = ["case_only"]

SETTINGS = {name: f for name, f in setting_fields(OmopCaseOnly).items() if name != "cohorts"}
CONVERTED: dict[str, Any] = {
    "window": (str, days_of, "Days of exposure before index days, as FIRST:LAST."),
    "risk": (str, days_of, "Days at risk after the start of exposure, as FIRST:LAST."),
    "control": (str, days_of, "Control days before or after that start, as FIRST:LAST."),
    "exposures": (list[int], list, "Cohort of an exposure, or the concept of a drug."),
    "outcome": (int, int, "Cohort of the outcome, or the concept of a condition."),
    "nesting": (int, int, "Cohort or condition at whose first entry observation begins."),
}
NAMES = {
    "exposures": "exposure", "sexes": "sex", "references": "reference", "washout_days": "washout",
}  # fmt: skip
CONCEPTS = {"drugs": ["exposures"], "conditions": ["outcome"], "indications": ["nesting"]}


@options_of(SETTINGS, NAMES, CONVERTED, optional=True)
def case_only(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    settings: dict[str, Any],
    specification: SpecificationFile = None,
    cohort_table: CohortTableName = None,
    definition: Definition = None,
    output: Annotated[Path, typer.Option(help="Folder for report.html and the tables.")] = Path(
        "steropes-case-only"
    ),
    schema: CdmSchema = "main",
    observed_until: ObservedUntil = None,
    memory: Memory = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Run a case-crossover, case-time-control, nested case-control or self-controlled design."""
    from steropes.studies.case_only.case_only_study import case_only_study
    from steropes.studies.cohorts.design_settings import read_design

    sources = cohort_sources(cohort_table, definition)
    question = read_design(OmopCaseOnly, specification, settings, sources, CONCEPTS)
    run_design(
        database,
        lambda db, rules: case_only_study(db, question, disclosure=rules),
        output,
        schema=schema,
        observed_until=observed_until,
        memory=memory,
        disclosure=disclosure,
        quiet=quiet,
    )


COMMANDS = (case_only,)
