"""The commands ``steropes sccs`` and ``steropes sccs-grid``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.cli.grid_commands import DATABASE, Disclosure
from steropes.studies.sccs import sccs_options as option

if TYPE_CHECKING:
    from steropes.studies.execution.cohort_sources import CohortSources

__all__ = ["sccs", "sccs_grid"]


def sccs(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    outcome: option.Outcome,
    exposure: option.Exposure = None,
    output: option.Output = Path("steropes-sccs"),
    outcomes_from: option.OutcomesFrom = "condition_occurrence",
    descendants: option.Descendants = True,
    risk_start: option.RiskStart = 0,
    risk_end: option.RiskEnd = 0,
    risk_start_at: option.RiskStartAt = "start",
    risk_end_at: option.RiskEndAt = "end",
    first_only: option.FirstOnly = False,
    by_concept: option.ByConcept = False,
    pre_exposure: option.PreExposure = 30,
    probe: option.Probe = 30,
    others: option.Others = False,
    indication: option.Indication = None,
    control: option.Control = None,
    naive: option.Naive = 0,
    first_outcome: option.FirstOutcome = False,
    min_age: option.Years = None,
    max_age: option.Years = None,
    sex: option.Sex = None,
    period: option.Period = None,
    nesting: option.Nesting = None,
    restrict: option.Restrict = None,
    age: option.Age = False,
    season: option.Season = False,
    calendar: option.Calendar = False,
    event_dependent: option.EventDependent = False,
    cohort_table: option.Table = None,
    definition: option.Definitions = None,
    prior: option.Prior = "laplace",
    variance: option.Variance = None,
    bootstrap: option.Bootstrap = 0,
    folds: option.Folds = 10,
    schema: option.Schema = "main",
    time_zone: option.TimeZone = "UTC",
    seed: option.Seed = 1,
    min_cell: option.MinCell = None,
    disclosure: Disclosure = None,
    unblind: option.Unblind = False,
    memory: option.Memory = None,
    quiet: option.Quiet = False,
) -> None:
    """Run a self-controlled case series: compare people's exposed and unexposed time."""
    from steropes.studies.sccs.sccs_cohorts import cohort_settings
    from steropes.studies.sccs.sccs_presets import case_series_settings

    cohorts = _sources(cohort_table, definition, nesting)
    more: dict[str, Any] = {
        "risk_start_at": risk_start_at,  # The settings check these three.
        "risk_end_at": risk_end_at,
        "outcomes_from": outcomes_from,
        "descendants": descendants,
        **_splines(age=age, season=season, calendar=calendar),
        **cohort_settings(cohorts, outcome, exposure, table=cohort_table is not None),
    }
    settings = case_series_settings(
        outcome, exposure, risk_start=risk_start, risk_end=risk_end, first_only=first_only,
        by_concept=by_concept,
        pre_exposure_days=pre_exposure, end_of_observation_days=probe, others=others,
        indication=indication, control=control,
        naive_days=naive, first_outcome_only=first_outcome, min_age=min_age, max_age=max_age,
        sexes=tuple(sex or ()), study_periods=tuple(_period(p) for p in period or ()),
        nesting_cohort=nesting, restrict_to_exposure=restrict,
        event_dependent_observation=event_dependent, prior=prior, variance=variance,
        bootstrap=bootstrap, folds=folds, seed=seed, min_cell=min_cell, unblind=unblind,
        schema=schema, time_zone=time_zone, **more,
    )  # fmt: skip
    _run(database, settings, cohorts, output, disclosure, memory, quiet)


def _splines(**wanted: bool) -> dict[str, Any]:
    """Return default splines for the requested effects of time."""
    from steropes.studies.sccs.settings import Spline

    return {name: Spline() for name, yes in wanted.items() if yes}


def sccs_grid(
    spec: Annotated[
        Path | None, typer.Argument(help="Specification, a .toml or .json file.")
    ] = None,
    database: Annotated[str | None, typer.Option(help=DATABASE)] = None,
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "steropes-sccs-grid"
    ),
    cohort_table: Annotated[
        str | None, typer.Option(help="Cohort table (schema.table), if ids are cohorts.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema and exit.")
    ] = False,
    unblind: option.Unblind = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory limit of the database, such as 2GB; the rest goes to disk."),
    ] = None,
    disclosure: Disclosure = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Run many case series from one specification; an interrupted run can be resumed."""
    from steropes.studies.database.omop import OmopDatabase
    from steropes.studies.database.open_database import require_database
    from steropes.studies.execution.reference_checks import require_database_id
    from steropes.studies.report.atomic_files import output_folder
    from steropes.studies.report.study_terminal import Progress
    from steropes.studies.sccs.grid_page import write_case_series_grid
    from steropes.studies.sccs.sccs_cohorts import make_cohorts
    from steropes.studies.sccs.sccs_grid import run_case_series_grid
    from steropes.studies.sccs.sccs_specification import (
        case_series_grid_schema,
        read_case_series_grid,
    )
    from steropes.studies.sccs.sccs_terminal import print_grid

    if schema:
        print(json.dumps(case_series_grid_schema(), indent=1))
        return
    if spec is None or database is None:
        raise DataError("give a specification and --database; see steropes sccs-grid --schema")
    require_database(database)
    require_database_id(spec)
    grid = read_case_series_grid(spec)
    folder = output_folder(output)
    with (
        Progress(quiet) as progress,
        OmopDatabase(database, grid.schema, memory, grid.time_zone) as db,
    ):
        cohorts = make_cohorts(db, _sources(cohort_table, None, None))
        results = run_case_series_grid(
            db, grid, folder, cohorts=cohorts, disclosure=disclosure, progress=progress
        )
        progress("writing the report")
        page = write_case_series_grid(results, folder, unblind=unblind)
    if not quiet:
        print_grid(results, unblind, page)


def _run(
    database: str,
    settings: Any,
    cohorts: CohortSources | None,
    output: Path,
    disclosure: str | None,
    memory: str | None,
    quiet: bool,
) -> None:
    """Run a case series, write its report and print a summary."""
    from steropes.studies.database.omop import OmopDatabase
    from steropes.studies.database.open_database import require_database
    from steropes.studies.disclosure import site_rules
    from steropes.studies.report.atomic_files import output_folder
    from steropes.studies.report.study_terminal import Progress
    from steropes.studies.sccs.sccs_cohorts import make_cohorts
    from steropes.studies.sccs.sccs_study import case_series
    from steropes.studies.sccs.sccs_terminal import print_series

    require_database(database)
    rules = site_rules(disclosure, settings.min_cell)
    made = not output.exists()
    folder = output_folder(output)  # Check the folder before the work.
    try:
        with (
            Progress(quiet) as progress,
            OmopDatabase(database, settings.schema, memory, settings.time_zone) as db,
        ):
            progress("building cohorts")
            table = make_cohorts(db, cohorts)
            result = case_series(db, settings, cohorts=table, disclosure=rules, progress=progress)
            progress("writing the report")
            paths = result.write(folder)
    except BaseException:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise
    if not quiet:
        print_series(result, paths)


def _sources(
    table: str | None, definitions: list[str] | None, nesting: int | None
) -> CohortSources | None:
    """Combine a cohort table and files from ATLAS to sources of cohorts, if there are any."""
    from steropes.studies.execution.cohort_sources import CohortSources

    files: dict[int, str] = {}
    for text in definitions or ():
        number, equals, path = text.partition("=")
        if not (equals and path and number.strip().isdigit()):
            raise DataError(f"a definition is ID=FILE, such as 3=bleeding.json, not {text!r}")
        if int(number) in files:
            raise DataError(f"cohort {int(number)} is defined twice")
        files[int(number)] = path
    if table is None and nesting is not None and nesting not in files:
        table = "cohort"
    if table is None and not files:
        return None
    schema, _, name = (table or "").rpartition(".")
    return CohortSources(name, schema, definitions=files)


def _period(text: str) -> tuple[str | None, str | None]:
    """Parse a period; an empty end is open."""
    start, colon, end = text.partition(":")
    if not colon:
        raise DataError(f"a period is START:END, such as 2010-01-01:2019-12-31, not {text!r}")
    return start or None, end or None
