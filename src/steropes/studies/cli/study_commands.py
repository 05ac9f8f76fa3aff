"""The commands for comparative studies of one question."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.cli.cohort_source_options import (
    CohortTableName,
    Definition,
    cohort_sources,
    listed_concepts,
)
from steropes.studies.cli.grid_commands import (
    DATABASE,
    Disclosure,
    Jobs,
    Memory,
    Quiet,
)
from steropes.studies.cli.protocol_options import (
    Freeze,
    Paper,
    ProtocolBy,
    ProtocolFile,
    print_frozen,
)
from steropes.studies.cli.setting_options import options_of
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import applied_rules, site_rules
from steropes.studies.settings.setting_fields import setting_fields
from steropes.studies.single_studies.comparative_study import comparative_study
from steropes.studies.specifications.study_settings import StudySettings, read_study, study_schema

__all__ = ["demo", "study"]

Output = Annotated[
    Path,
    typer.Option(help="Folder; report.html, study.json, tables and figures go into its release."),
]
SETTINGS = setting_fields(StudySettings)
for nested in ("thresholds", "at_risk", "cohorts", "controls"):
    del SETTINGS[nested]
# The settings of `TimeAtRisk` that options have; a file of settings has all.
RISK_PARTS = {
    "start": "First day at risk, counted from the start.",
    "end": "Last day at risk, counted from the anchor.",
    "end_anchor": "Anchor of the last day at risk; --risk-end 30 --risk-end-anchor 'cohort end' is "
    "on treatment with a gap of 30 days.",
}
RISK = {
    f"risk_{name}": replace(setting_fields(TimeAtRisk)[name], description=text)
    for name, text in RISK_PARTS.items()
}


def _print_schema(wanted: bool) -> None:
    """Print the JSON Schema of a file of settings and exit, if the option is given."""
    if wanted:
        print(json.dumps(study_schema(), indent=1))
        raise typer.Exit()


@options_of(
    SETTINGS | RISK,
    {
        "washout_days": "washout",
        "window_days": "window",
        "further_outcomes": "further_outcome",
        "risk_times": "risk_time",
    },
    optional=True,
)
def study(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    settings: dict[str, Any],
    specification: Annotated[
        Path | None,
        typer.Option(help="Settings as a .toml or .json file; options take precedence."),
    ] = None,
    specification_schema: Annotated[
        bool,
        typer.Option(
            "--specification-schema",
            callback=_print_schema,
            is_eager=True,
            help="Print the JSON Schema of such a file and exit.",
        ),
    ] = False,
    control: Annotated[
        list[str] | None,
        typer.Option(
            help="Negative control: a concept id, or a CSV file of ids, of which the rows of this "
            "comparison are read if it names comparisons. Repeatable."
        ),
    ] = None,
    cohort_table: CohortTableName = None,
    definition: Definition = None,
    protocol: ProtocolFile = None,
    by: ProtocolBy = None,
    freeze: Freeze = False,
    paper: Paper = False,
    output: Output = Path("steropes-study"),
    disclosure: Disclosure = None,
    jobs: Jobs = 1,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Compare an outcome between new users of two drugs in an OMOP database."""
    sources = cohort_sources(cohort_table, definition)
    asked = _asked(settings, specification, control, sources)
    if freeze:
        print_frozen(protocol, asked, by)
        return
    _run(database, asked, output, disclosure, quiet, protocol, by, paper, memory, jobs)


def _asked(
    options: dict[str, Any],
    specification: Path | None,
    control: list[str] | None,
    cohorts: CohortSources | None,
) -> StudySettings:
    """Combine the options of a study with a file of settings, if there is one."""
    at_risk = {n: options.pop(f"risk_{n}") for n in RISK_PARTS if f"risk_{n}" in options}
    if specification is not None:
        tables = {"at_risk": at_risk, "cohorts": {} if cohorts is None else asdict(cohorts)}
        asked = read_study(specification, options | {k: v for k, v in tables.items() if v})
    else:
        names = ("target", "comparator", "outcome")
        missing = [f"--{name}" for name in names if name not in options]
        if missing:
            raise DataError(f"give {', '.join(missing)}, or a file of settings (--specification)")
        asked = StudySettings(**options, at_risk=TimeAtRisk(**at_risk), cohorts=cohorts)
    concepts = listed_concepts(control or (), asked.target, asked.comparator)
    if not concepts:
        return asked
    return replace(asked, controls=replace(asked.controls, concepts=concepts))


@options_of({name: SETTINGS[name] for name in ("seed", "min_cell")})
def demo(
    settings: dict[str, Any],
    output: Output = Path("steropes-demo"),
    disclosure: Disclosure = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Run four analyses with negative controls.")
    ] = False,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls", help="Compare Cox and Fine-Gray models on negative and positive controls."
        ),
    ] = False,
    unblind: Annotated[bool, typer.Option(help="Show estimates that fail a diagnostic.")] = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Compare gastrointestinal bleeding between celecoxib and diclofenac, in simulated data."""
    from steropes.studies.cli.grid_commands import run_and_report
    from steropes.studies.database.synthetic_database import synthetic_database
    from steropes.studies.specifications.demonstration import (
        DEMO,
        RATE_RATIO,
        demo_controls,
        demo_database,
        demo_grid,
    )

    if grid and controls:
        raise DataError("--grid and --controls are two demonstrations; choose one")
    if grid or controls:
        name = "grid" if grid else "controls"
        min_cell = settings.get("min_cell")
        spec = demo_grid(min_cell) if grid else demo_controls(min_cell)
        run_and_report(
            demo_database(), spec, output / name, unblind, quiet, jobs, disclosure=disclosure
        )
        return
    # The true hazard ratio is that of the first half year, since eras last at least as long.
    asked = StudySettings(**DEMO, risk_days=180, unblind=unblind, **settings)
    database = synthetic_database(20_000, rate_ratio=RATE_RATIO)
    _run(database, asked, output, disclosure, quiet, jobs=jobs)
    if not quiet:
        typer.echo(f"\nThe people are simulated with a true hazard ratio of {RATE_RATIO}.")


def _run(
    database: str | OmopDatabase,
    settings: StudySettings,
    output: Path,
    disclosure: str | None,
    quiet: bool,
    protocol: Path | None = None,
    by: str | None = None,
    paper: bool = False,
    memory: str | None = None,
    jobs: int = 1,
) -> None:
    """Run a comparative study and write its report; remove a new folder that stays empty."""
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.database.open_database import require_database
    from steropes.studies.report.missing_estimates import missing_of_study, report_missing
    from steropes.studies.result_files.atomic_files import output_folder_of_run
    from steropes.studies.single_studies.study_terminal import print_study

    if isinstance(database, str):
        require_database(database)
    rules = site_rules(disclosure, settings.min_cell)
    with (
        output_folder_of_run(output) as folder,  # Check the folder before the work.
        Progress(quiet) as progress,
        applied_rules(rules),
    ):
        result = comparative_study(
            database,
            settings,
            disclosure=rules,
            progress=progress,
            protocol=protocol,
            by=by,
            jobs=jobs,
            memory=memory,
        )
        progress("writing the report")
        paths = result.write(folder)
        if paper:
            paths += result.write_paper(folder)
    if quiet:
        report_missing(missing_of_study(result.release))
    else:
        print_study(result, paths)


COMMANDS = (
    study,
    demo,
)
