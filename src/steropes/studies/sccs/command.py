"""The commands ``steropes sccs``, ``sccs-grid`` and ``sccs-parity``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.grid_commands import DATABASE

__all__ = ["sccs", "sccs_grid", "sccs_parity"]


def sccs(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    outcome: Annotated[int, typer.Option(help="Id of the outcome: a condition, or a cohort.")],
    exposure: Annotated[
        int | None,
        typer.Option(help="Id of the exposure: a drug, or a cohort. Without it, all drugs."),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for report.html and the result tables.")
    ] = Path("steropes-sccs"),
    risk_start: Annotated[int, typer.Option(help="First day at risk, from an era's start.")] = 0,
    risk_end: Annotated[int, typer.Option(help="Last day at risk, from an era's end.")] = 0,
    risk_end_at: Annotated[
        str, typer.Option(help="Whether risk_end counts from the era's 'end' or 'start'.")
    ] = "end",
    first_only: Annotated[bool, typer.Option(help="Only the first era counts.")] = False,
    pre_exposure: Annotated[
        int, typer.Option(min=0, help="Days of the window before exposure; 0 for none.")
    ] = 30,
    others: Annotated[bool, typer.Option(help="All other drugs too, under the prior.")] = False,
    indication: Annotated[
        int | None, typer.Option(help="A condition whose eras are controlled for.")
    ] = None,
    control: Annotated[
        tuple[int, int] | None,
        typer.Option(help="Days of a control interval, such as -180 -1: a risk interval design."),
    ] = None,
    naive: Annotated[
        int, typer.Option(min=0, help="Days at the beginning of observation that do not count.")
    ] = 0,
    first_outcome: Annotated[
        bool, typer.Option(help="Only a person's first outcome counts.")
    ] = False,
    min_age: Annotated[int | None, typer.Option(min=0, help="In completed years.")] = None,
    max_age: Annotated[int | None, typer.Option(min=0, help="In completed years.")] = None,
    sex: Annotated[list[int] | None, typer.Option(help="Concept id of a sex; repeatable.")] = None,
    period: Annotated[
        list[str] | None,
        typer.Option(help="Study period, such as 2010-01-01:2019-12-31; repeatable."),
    ] = None,
    nesting: Annotated[
        int | None, typer.Option(help="Cohort within whose spells time counts.")
    ] = None,
    restrict: Annotated[
        int | None, typer.Option(help="Exposure; only days on which it was seen count.")
    ] = None,
    age: Annotated[bool, typer.Option(help="Adjust for age (spline).")] = False,
    season: Annotated[bool, typer.Option(help="Adjust for season (spline).")] = False,
    calendar: Annotated[bool, typer.Option(help="Adjust for calendar time (spline).")] = False,
    event_dependent: Annotated[
        bool, typer.Option(help="Weights for observation that the event may end.")
    ] = False,
    cohort_table: Annotated[
        str | None,
        typer.Option(help="Cohort table (schema.table) that outcome and exposure are ids of."),
    ] = None,
    prior: Annotated[
        str, typer.Option(help="laplace, normal, or hierarchical (over ATC classes).")
    ] = "laplace",
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Draws of people, for the share that each drug is in.")
    ] = 0,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 10,
    schema: Annotated[str, typer.Option(help="Schema of the CDM tables.")] = "main",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 1,
    min_cell: Annotated[
        int, typer.Option(min=0, help="Counts of fewer people are not shown; 0 shows all.")
    ] = 5,
    memory: Annotated[
        str | None,
        typer.Option(help="Most memory of the database, such as 2GB; more goes to disk."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Compare each person's exposed time with their other time: a self-controlled case series."""
    from steropes.studies.sccs.presets import case_series_settings
    from steropes.studies.sccs.settings import Spline

    source = "cohort" if cohort_table else None
    more: dict[str, Any] = {
        name: Spline()
        for name, wanted in (("age", age), ("season", season), ("calendar", calendar))
        if wanted
    }
    more["risk_end_at"] = risk_end_at  # refused there where it is neither
    if source:
        more |= {"outcomes_from": source, "exposures_from": source}
    settings = case_series_settings(
        outcome,
        exposure,
        risk_start=risk_start,
        risk_end=risk_end,
        first_only=first_only,
        pre_exposure_days=pre_exposure,
        others=others,
        indication=indication,
        control=control,
        naive_days=naive,
        first_outcome_only=first_outcome,
        min_age=min_age,
        max_age=max_age,
        sexes=tuple(sex or ()),
        study_periods=tuple(_period(p) for p in period or ()),
        nesting_cohort=nesting,
        restrict_to_exposure=restrict,
        event_dependent_observation=event_dependent,
        prior=prior,
        bootstrap=bootstrap,
        folds=folds,
        seed=seed,
        min_cell=min_cell,
        schema=schema,
        **more,
    )
    _run(database, settings, cohort_table, nesting, output, memory, quiet)


def sccs_parity(
    reference: Annotated[
        Path, typer.Argument(help="Folder with the sccs_*.csv that R's package exported.")
    ],
    database: Annotated[
        str | None, typer.Option(help="The database R was run on. Default: the demonstration's.")
    ] = None,
    cohort_table: Annotated[
        str | None, typer.Option(help="Its cohort table (schema.table); of the demo, made anew.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="CSV file for the whole comparison, number by number.")
    ] = None,
) -> None:
    """Compare with results of R's SelfControlledCaseSeries 6 on the same database."""
    from steropes.studies.demo import demo_database
    from steropes.studies.omop import OmopDatabase
    from steropes.studies.sccs.parity import compare_with_r
    from steropes.studies.sccs.terminal import print_parity

    with OmopDatabase(database or demo_database()) as db:
        cohorts = _cohorts(db, cohort_table)
        if database is not None and cohorts is None:
            raise DataError("name the cohort table that R was run on: --cohort-table")
        parity = compare_with_r(db, reference, cohorts)
    print_parity(parity)
    if output is not None:
        parity.table.to_csv(output, index=False)
    if len(parity.disagreements):
        raise typer.Exit(1)


def sccs_grid(
    spec: Annotated[Path, typer.Argument(help="Specification, a .toml file.")],
    database: Annotated[str, typer.Option(help=DATABASE)],
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "steropes-sccs-grid"
    ),
    cohort_table: Annotated[
        str | None, typer.Option(help="Cohort table (schema.table), where ids are cohorts.")
    ] = None,
    unblind: Annotated[
        bool, typer.Option("--unblind", help="Show estimates that fail a diagnostic too.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Most memory of the database, such as 2GB; more goes to disk."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Run many case series from one specification; an interrupted run goes on where it was."""
    from steropes.studies.databases.opening import require_database
    from steropes.studies.omop import OmopDatabase
    from steropes.studies.report import output_folder
    from steropes.studies.sccs.grid import read_case_series_grid, run_case_series_grid
    from steropes.studies.sccs.grid_page import write_case_series_grid
    from steropes.studies.sccs.terminal import print_grid
    from steropes.studies.terminal import Progress

    require_database(database)
    grid = read_case_series_grid(spec)
    folder = output_folder(output)
    with Progress(quiet) as progress, OmopDatabase(database, grid.schema, memory) as db:
        cohorts = _cohorts(db, cohort_table)
        results = run_case_series_grid(db, grid, folder, cohorts=cohorts, progress=progress)
        progress("writing the report")
        page = write_case_series_grid(results, folder, unblind=unblind)
    if not quiet:
        print_grid(results, unblind, page)


def _run(
    database: str,
    settings: Any,
    cohort_table: str | None,
    nesting: int | None,
    output: Path,
    memory: str | None,
    quiet: bool,
) -> None:
    from steropes.studies.databases.opening import require_database
    from steropes.studies.omop import OmopDatabase
    from steropes.studies.report import output_folder
    from steropes.studies.sccs.study import case_series
    from steropes.studies.sccs.terminal import print_series
    from steropes.studies.terminal import Progress

    require_database(database)
    made = not output.exists()
    folder = output_folder(output)  # before the work, not after it
    try:
        with Progress(quiet) as progress, OmopDatabase(database, settings.schema, memory) as db:
            table = cohort_table or ("cohort" if nesting is not None else None)
            result = case_series(db, settings, cohorts=_cohorts(db, table), progress=progress)
            progress("writing the report")
            paths = result.write(folder)
    except BaseException:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise
    if not quiet:
        print_series(result, paths)


def _cohorts(db: Any, table: str | None) -> Any:
    from steropes.studies.cohorts import read_cohorts

    if table is None:
        return None
    schema, _, name = table.rpartition(".")
    return read_cohorts(db, table=name, schema=schema or None)


def _period(text: str) -> tuple[str | None, str | None]:
    start, colon, end = text.partition(":")
    if not colon:
        raise DataError(f"a period is START:END, such as 2010-01-01:2019-12-31, not {text!r}")
    return start or None, end or None
