"""The command that checks and runs specifications of Strategus and ATLAS."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from steropes.errors import DataError
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Jobs, Memory, Quiet

if TYPE_CHECKING:
    from steropes.studies.strategus.specification_run import SpecificationResults
    from steropes.studies.strategus_plans.specification_plan import SpecificationPlan

__all__ = ["INCOMPLETE", "ObservedUntil", "print_summary", "run_plan", "strategus"]

INCOMPLETE = 1  # The exit status if a part of the specification does not run.

Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Print which parts run, which differ from R and which do not run, and exit. With "
        "--database also look up the concepts, and the cohorts that it cannot fill.",
    ),
]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder of results of a database, with a folder for each module, for the "
        "meta-analyses of EvidenceSynthesisModule. Repeatable."
    ),
]
Models = Annotated[
    Path | None,
    typer.Option(
        help="Folder or zip file with the prediction models that the specification validates, such "
        "as a copy of the study's repository.",
        show_default=False,
    ),
]
ObservedUntil = Annotated[
    str | None,
    typer.Option(
        help="Last day of observation, such as 2023-12-31, on which all observation ends that "
        "goes on.",
        show_default=False,
    ),
]


def strategus(
    spec: Annotated[Path, typer.Argument(help="Specification of Strategus or ATLAS, in JSON.")],
    database: Annotated[str | None, typer.Option(help=DATABASE)] = None,
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "steropes-strategus"
    ),
    check: Check = False,
    results: Results = None,
    models: Models = None,
    database_id: Annotated[
        str | None, typer.Option(help="Name of the database in the results.", show_default=False)
    ] = None,
    schema: Annotated[str, typer.Option(help="Schema of the CDM tables.")] = "main",
    observed_until: ObservedUntil = None,
    jobs: Jobs = 1,
    memory: Memory = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Run a specification of Strategus or ATLAS, or check which of its parts run.

    The exit status is 0 if every part runs, 1 if a part does not run and the others do, and 2 if
    the specification or the database cannot be used. An interrupted run is resumed when the same
    command is given again.
    """
    with _collection_paused():
        from steropes.designs.values.dates_and_ages import calendar_date
        from steropes.studies.database.open_database import require_database
        from steropes.studies.result_files.atomic_files import output_folder
        from steropes.studies.strategus_plans.specification_plan import read_specification_plan

        until = None
        if observed_until is not None:
            until = calendar_date("--observed-until", observed_until, text=True)
            if check or results:
                raise DataError(
                    "--observed-until needs a run on a database: leave out --check and --results"
                )
        plan = read_specification_plan(spec, models=models)
        if check:
            _check(plan, database, schema, quiet)
    if results:
        from steropes.studies.strategus.specification_run import run_synthesis

        found = run_synthesis(plan, results, output_folder(output), disclosure=disclosure)
        print_summary(found, quiet)
        raise typer.Exit(0)
    if database is None:
        raise DataError("give --database to run the specification, or --check to check it")
    require_database(database)
    folder = output_folder(output)
    found = run_plan(
        plan, database, folder, database_id, schema, until, jobs, memory, disclosure, quiet
    )
    print_summary(found, quiet)
    raise typer.Exit(0 if found.complete else INCOMPLETE)


def run_plan(
    plan: SpecificationPlan, database: str, folder: Path, database_id: str | None, schema: str,
    until: dt.date | None, jobs: int, memory: Memory, disclosure: Disclosure, quiet: bool,
) -> SpecificationResults:  # fmt: skip
    """Open the database and run a specification, with its progress on standard error."""
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.database.omop import opened
    from steropes.studies.disclosure import applied_rules, site_rules
    from steropes.studies.strategus.specification_run import run_specification

    with (
        Progress(quiet) as progress,
        applied_rules(site_rules(disclosure)),
        opened(database, schema, "UTC", memory, until) as db,
    ):
        return run_specification(
            db,
            plan,
            folder,
            database_id=database_id,
            schema=schema,
            jobs=jobs,
            observed_until=until,
            disclosure=disclosure,
            progress=progress,
        )


@contextlib.contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause the search for unreachable objects.

    It takes a sixth of the time in which a large specification is read and finds next to nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check(plan: SpecificationPlan, database: str | None, schema: str, quiet: bool) -> NoReturn:
    """Print which parts of a specification run, and exit."""
    lines: list[str] = []
    if database is not None:
        from steropes.studies.strategus.concept_and_cohort_checks import check_on_database

        plan, lines = check_on_database(database, schema, plan)
    if not quiet:
        print("\n".join(plan.lines() + lines))
    else:
        from steropes.studies.strategus_plans.supported_parts import summary_lines

        for line in summary_lines(plan.verdicts):
            print(f"steropes: {line}", file=sys.stderr)
    raise typer.Exit(0 if plan.complete else INCOMPLETE)


def print_summary(results: SpecificationResults, quiet: bool) -> None:
    """Print parts that did not run, missing estimates, notes on the data, and result folders.

    If only errors are asked for, parts and missing estimates go to standard error.
    """
    import pandas as pd

    from steropes.studies.database.data_quality_notes import table_sentences
    from steropes.studies.report.missing_estimates import (
        missing_of_specification,
        missing_sentences,
    )
    from steropes.studies.strategus_plans.supported_parts import summary_lines

    lines = summary_lines(results.verdicts)
    lines += missing_sentences(missing_of_specification(results.tables))
    if quiet:
        for line in lines:
            print(f"steropes: {line}", file=sys.stderr)
        return
    notes = [of["data_note"] for of in results.tables.values() if "data_note" in of]
    if notes:
        lines += [sentence for sentence, _ in table_sentences(pd.concat(notes))]
    for module, tables in results.tables.items():
        rows = sum(len(table) for table in tables.values())
        lines.append(f"{results.folder / module}: {rows:,} rows")
    print("\n".join(lines))


COMMANDS = (strategus,)
