"""The commands ``steropes sccs`` and ``steropes sccs-grid``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.cli.cohort_source_options import CohortTableName, Definition, cohort_sources
from steropes.studies.cli.grid_commands import DATABASE, Disclosure, Jobs, Memory, Quiet
from steropes.studies.cli.protocol_options import (
    Freeze,
    Paper,
    ProtocolBy,
    ProtocolFile,
    print_frozen,
    with_unblinding,
)
from steropes.studies.cli.setting_options import options_of
from steropes.studies.sccs.specification.case_series_settings import Spline
from steropes.studies.sccs.specification.sccs_presets import (
    case_series_fields,
    case_series_settings,
)

if TYPE_CHECKING:
    from steropes.studies.cohorts.cohort_sources import CohortSources
    from steropes.studies.sccs.specification.sccs_specification import CaseSeriesGrid

__all__ = ["sccs", "sccs_grid"]


DrawJobs = Annotated[int, typer.Option(min=1, help="Number of processes that fit bootstrap draws.")]


def _period(text: str) -> tuple[str | None, str | None]:
    """Parse a period; an empty end is open."""
    start, colon, end = text.partition(":")
    if not colon:
        raise DataError(f"a period is START:END, such as 2010-01-01:2019-12-31, not {text!r}")
    return start or None, end or None


def _spline(wanted: bool) -> Spline | None:
    """Return the default spline of a requested effect of time."""
    return Spline() if wanted else None


# Options with shorter names than their settings.
NAMES = {
    "pre_exposure_days": "pre_exposure",
    "end_of_observation_days": "probe",
    "naive_days": "naive",
    "first_outcome_only": "first_outcome",
    "sexes": "sex",
    "study_periods": "period",
    "nesting_cohort": "nesting",
    "restrict_to_exposure": "restrict",
    "event_dependent_observation": "event_dependent",
}
# Options with other values than their settings.
CONVERTED: dict[str, Any] = {
    **dict.fromkeys(("age", "season", "calendar"), (bool, _spline, None)),
    "study_periods": (
        list[str],
        lambda texts: tuple(_period(t) for t in texts),
        "Study period, such as 2010-01-01:2019-12-31.",
    ),
}
SETTINGS = {name: f for name, f in case_series_fields().items() if name != "thresholds"}


@options_of(SETTINGS, NAMES, CONVERTED)
def sccs(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    settings: dict[str, Any],
    output: Annotated[
        Path, typer.Option(help="Folder for report.html and the result tables.")
    ] = Path("steropes-sccs"),
    cohort_table: CohortTableName = None,
    definition: Definition = None,
    protocol: ProtocolFile = None,
    by: ProtocolBy = None,
    freeze: Freeze = False,
    paper: Paper = False,
    disclosure: Disclosure = None,
    jobs: DrawJobs = 1,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Run a self-controlled case series: compare people's exposed and unexposed time."""
    from steropes.studies.sccs.specification.sccs_cohorts import cohort_settings

    cohorts = cohort_sources(cohort_table, definition, settings.get("nesting_cohort"))
    of_cohorts = cohort_settings(
        cohorts, settings["outcome"], settings.get("exposure"), table=cohort_table is not None
    )
    made = case_series_settings(**settings | of_cohorts)
    if freeze:
        print_frozen(protocol, made, by)
        return
    _run(database, made, cohorts, output, disclosure, memory, quiet, jobs, protocol, by, paper)


def sccs_grid(
    spec: Annotated[
        Path | None, typer.Argument(help="Specification, a .toml or .json file.")
    ] = None,
    database: Annotated[str | None, typer.Option(help=DATABASE)] = None,
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "steropes-sccs-grid"
    ),
    cohort_table: CohortTableName = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema and exit.")
    ] = False,
    unblind: Annotated[
        bool, typer.Option(help="Also show estimates that fail a diagnostic.")
    ] = False,
    jobs: Jobs = 1,
    protocol: ProtocolFile = None,
    by: ProtocolBy = None,
    freeze: Freeze = False,
    memory: Memory = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Run many case series from one specification; an interrupted run can be resumed."""
    from steropes.studies.sccs.specification.sccs_specification import (
        case_series_grid_schema,
        read_case_series_grid,
    )

    if schema:
        print(json.dumps(case_series_grid_schema(), indent=1))
        return
    if spec is not None and freeze:
        print_frozen(protocol, read_case_series_grid(spec), by)
        return
    spec, database = _require_both(spec, database)
    grid = read_case_series_grid(spec)
    cohorts = cohort_sources(cohort_table, None, None)
    _run_grid(
        database, grid, cohorts, output, disclosure, memory, quiet, jobs, protocol, by, unblind
    )


def _run_grid(
    database: str,
    grid: CaseSeriesGrid,
    sources: CohortSources | None,
    output: Path,
    disclosure: str | None,
    memory: str | None,
    quiet: bool,
    jobs: int,
    protocol: Path | None,
    by: str | None,
    unblind: bool,
) -> None:
    """Run a grid of case series, write its report and print a summary."""
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.database.omop import opened
    from steropes.studies.grids.sccs_grid import run_case_series_grid
    from steropes.studies.report.missing_estimates import missing_of_series, report_missing
    from steropes.studies.result_files.atomic_files import output_folder
    from steropes.studies.sccs.specification.sccs_cohorts import make_cohorts
    from steropes.studies.series_report.sccs_grid_page import write_case_series_grid
    from steropes.studies.series_report.sccs_terminal import print_grid

    folder = output_folder(output)
    with (
        Progress(quiet) as progress,
        opened(database, grid.schema, grid.time_zone, memory, grid.observed_until) as db,
    ):
        cohorts = make_cohorts(db, sources)
        results = run_case_series_grid(
            db, grid, folder, cohorts=cohorts, disclosure=disclosure, progress=progress,
            jobs=jobs, protocol=protocol, by=by,
        )  # fmt: skip
        if protocol is not None and unblind:
            results = with_unblinding(results, protocol, by)
        progress("writing the report")
        page = write_case_series_grid(results, folder, unblind=unblind)
    if quiet:
        report_missing(missing_of_series(results.tables, results.estimates(unblind)))
    else:
        print_grid(results, unblind, page)


def _require_both(spec: Path | None, database: str | None) -> tuple[Path, str]:
    """Return the specification and the database of a grid; refuse others."""
    from steropes.studies.database.open_database import require_database
    from steropes.studies.specifications.grid_specification_file import require_database_id

    if spec is None or database is None:
        raise DataError("give a specification and --database; see steropes sccs-grid --schema")
    require_database(database)
    require_database_id(spec)
    return spec, database


def _run(
    database: str,
    settings: Any,
    cohorts: CohortSources | None,
    output: Path,
    disclosure: str | None,
    memory: str | None,
    quiet: bool,
    jobs: int,
    protocol: Path | None,
    by: str | None,
    paper: bool,
) -> None:
    """Run a case series, write its report and print a summary."""
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.database.omop import opened
    from steropes.studies.database.open_database import require_database
    from steropes.studies.disclosure import applied_rules, site_rules
    from steropes.studies.report.missing_estimates import report_missing
    from steropes.studies.result_files.atomic_files import output_folder_of_run
    from steropes.studies.sccs.specification.sccs_cohorts import make_cohorts
    from steropes.studies.series_report.estimate_text import missing_estimates
    from steropes.studies.series_report.sccs_terminal import print_series
    from steropes.studies.single_studies.case_series_study import case_series

    require_database(database)
    rules = site_rules(disclosure, settings.min_cell)
    with (
        output_folder_of_run(output) as folder,  # Check the folder before the work.
        Progress(quiet) as progress,
        applied_rules(rules),
        opened(
            database, settings.schema, settings.time_zone, memory, settings.observed_until
        ) as db,
    ):
        progress("building cohorts")
        table = make_cohorts(db, cohorts)
        result = case_series(
            db,
            settings,
            cohorts=table,
            disclosure=rules,
            progress=progress,
            jobs=jobs,
            protocol=protocol,
            by=by,
        )
        progress("writing the report")
        paths = result.write(folder)
        if paper:
            paths += result.write_paper(folder)
    if quiet:
        report_missing(missing_estimates(result, result.of_interest))
    else:
        print_series(result, paths)


COMMANDS = (
    sccs,
    sccs_grid,
)
