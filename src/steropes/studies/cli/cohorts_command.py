"""The command that examines cohort definitions on a database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Memory, Quiet
from steropes.studies.cli.strategus_command import INCOMPLETE, ObservedUntil

__all__ = ["cohorts"]

PAGE = "cohorts.html"
NONE = 2  # The exit status if no definition can be used.


def cohorts(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    definitions: Annotated[
        list[Path],
        typer.Argument(
            help="Cohort definitions of ATLAS in JSON, folders of them, or specifications of "
            "Strategus."
        ),
    ],
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "steropes-cohorts"
    ),
    washout: Annotated[
        int, typer.Option(min=0, help="Days of observation before the time at risk of incidence.")
    ] = 0,
    least_mean: Annotated[
        float, typer.Option(min=0, max=1, help="Smallest share of a covariate that is reported.")
    ] = 0.01,
    characteristics: Annotated[
        bool,
        typer.Option(help="Describe cohorts by covariates of time windows, which takes longest."),
    ] = True,
    database_id: Annotated[
        str | None, typer.Option(help="Name of the database in the results.", show_default=False)
    ] = None,
    schema: Annotated[str, typer.Option(help="Schema of the CDM tables.")] = "main",
    observed_until: ObservedUntil = None,
    memory: Memory = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Examine cohort definitions: sizes, rules, index events, incidence, concepts, characteristics.

    Writes the tables of R's CohortDiagnostics for release, and a page of them. The exit status is 0
    if every definition runs, 1 if one does not, and 2 if none can be used.
    """
    from steropes.designs.values.dates_and_ages import calendar_date
    from steropes.studies.cli.strategus_command import print_summary, run_plan
    from steropes.studies.database.open_database import require_database
    from steropes.studies.result_files.atomic_files import output_folder
    from steropes.studies.strategus_plans.cohort_diagnostics_plan import COHORT_DIAGNOSTICS
    from steropes.studies.strategus_plans.definition_files import specification_of_definitions
    from steropes.studies.strategus_plans.specification_plan import specification_plan
    from steropes.studies.viewer.results_page import write_results_page

    until = None if observed_until is None else calendar_date("--observed-until", observed_until)
    plan = specification_plan(
        specification_of_definitions(
            definitions, washout=washout, least_mean=least_mean, windows=characteristics
        )
    )
    require_database(database)
    folder = output_folder(output)
    found = run_plan(
        plan, database, folder, database_id, schema, until, 1, memory, disclosure, quiet
    )
    page = write_results_page([found.folder], folder / PAGE, disclosure=disclosure)
    _print_findings(found.tables, plan.cohorts.names, quiet)
    print_summary(found, quiet)
    if not quiet:
        print(page)
    if COHORT_DIAGNOSTICS not in found.tables:
        raise typer.Exit(NONE)
    raise typer.Exit(0 if found.complete else INCOMPLETE)


def _print_findings(tables: dict, names: Mapping[int, str], quiet: bool) -> None:
    """Print the findings on each cohort."""
    from steropes.studies.formatting.text_safety import plain_text
    from steropes.studies.strategus_plans.cohort_diagnostics_plan import COHORT_DIAGNOSTICS

    of = tables.get(COHORT_DIAGNOSTICS, {})
    if quiet or "cohort_finding" not in of:
        return
    for line in of["cohort_finding"].to_dict("records"):
        name = names.get(line["cohort_id"])
        cohort = f"cohort {line['cohort_id']}" + (f" ({name})" if name else "")
        print(plain_text(f"{cohort}: {line['finding']}"))


COMMANDS = (cohorts,)
