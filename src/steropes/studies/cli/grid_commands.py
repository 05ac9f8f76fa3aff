"""The commands for comparative grids, concepts, and the combination of databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.cli.protocol_options import (
    Freeze,
    ProtocolBy,
    ProtocolFile,
    print_frozen,
    with_unblinding,
)
from steropes.studies.formatting.text_safety import csv_text

if TYPE_CHECKING:
    from steropes.studies.grids.comparative_grid_run import GridResults

__all__ = ["DATABASE", "Disclosure", "Jobs", "Memory", "Quiet", "combine", "concepts", "grid"]

DATABASE = "OMOP CDM v5.x: a DuckDB file, a folder of Parquet files, or a URL (postgresql://...)."

Disclosure = Annotated[
    str | None,
    typer.Option(
        help="Disclosure rules: ohdsi (default), opensafely, none, one with a smallest count "
        "(ohdsi:10), or a TOML file of the site.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory limit of the database, such as 2GB; the rest goes to disk."),
]
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes that estimate outcomes.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print nothing but errors and why estimates are missing (on stderr)."
    ),
]


def grid(
    spec: Annotated[
        Path | None, typer.Argument(help="Specification, a .toml or .json file.")
    ] = None,
    database: Annotated[str | None, typer.Option(help=DATABASE)] = None,
    output: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("steropes-grid"),
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema and exit.")
    ] = False,
    unblind: Annotated[
        bool, typer.Option(help="Also show estimates that fail a diagnostic.")
    ] = False,
    jobs: Jobs = 1,
    memory: Memory = None,
    results_schema: Annotated[
        str | None, typer.Option(help="Also write the result tables to this schema of the server.")
    ] = None,
    protocol: ProtocolFile = None,
    by: ProtocolBy = None,
    freeze: Freeze = False,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Run targets x comparators x outcomes x analyses from one specification.

    An interrupted run is resumed when the same command is given again.
    """
    from steropes.studies.database.open_database import require_database
    from steropes.studies.database.result_upload import require_results_server, write_results
    from steropes.studies.specifications.grid_specification_file import (
        grid_schema,
        read_spec,
        require_database_id,
    )

    if schema:
        print(json.dumps(grid_schema(), indent=1))
        return
    if freeze and spec is not None:
        print_frozen(protocol, read_spec(spec), by)
        return
    if spec is None or database is None:
        raise DataError("give a specification and --database; see steropes grid --schema")
    require_database(database)
    if results_schema is not None:
        require_results_server(database, results_schema)
    require_database_id(spec)
    results = run_and_report(
        database,
        read_spec(spec),
        output,
        unblind,
        quiet,
        jobs,
        disclosure=disclosure,
        protocol=protocol,
        by=by,
        memory=memory,
    )
    if results_schema is not None:
        rows = write_results(database, results_schema, results.tables)
        if not quiet:
            print(f"{len(rows)} tables written to schema {results_schema}")


def run_and_report(
    database: Any,
    spec: Any,
    output: Path,
    unblind: bool,
    quiet: bool,
    jobs: int = 1,
    disclosure: str | None = None,
    protocol: Path | None = None,
    by: str | None = None,
    memory: str | None = None,
) -> GridResults:
    """Run a grid, write its report, and print a summary."""
    from steropes.studies.cli.progress_display import Progress
    from steropes.studies.database.omop import opened
    from steropes.studies.disclosure import applied_rules, site_rules
    from steropes.studies.grids.comparative_grid_run import run_grid
    from steropes.studies.report.analyses_on_controls_page import write_controls_report
    from steropes.studies.report.comparative_grid_page import write_grid_report
    from steropes.studies.report.grid_terminal import print_grid
    from steropes.studies.report.missing_estimates import missing_of_comparisons, report_missing
    from steropes.studies.result_files.atomic_files import output_folder

    folder = output_folder(output)
    rules = site_rules(disclosure, spec.min_cell)
    with (
        Progress(quiet) as progress,
        applied_rules(rules),
        opened(database, spec.schema, spec.time_zone, memory, spec.observed_until) as db,
    ):
        results = run_grid(
            db,
            spec,
            folder,
            jobs=jobs,
            disclosure=disclosure,
            progress=progress,
            protocol=protocol,
            by=by,
        )
        if protocol is not None and unblind:
            results = with_unblinding(results, protocol, by)
        progress("writing the report")
        pages = [write_grid_report(results, folder, unblind=unblind)]
        if len(results.tables["positive_control"]):
            pages.append(write_controls_report(results, folder))
    if quiet:
        report_missing(missing_of_comparisons(results.tables, results.estimates(unblind)))
        return results
    print_grid(results, [*pages, folder / "release" / "results.zip"], unblind)
    return results


def concepts(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    words: Annotated[str, typer.Argument(help="Words of the name, in any order, or an id.")],
    domain: Annotated[str | None, typer.Option(help="Only this domain, such as Drug.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of lines.")] = 20,
    schema: Annotated[str, typer.Option(help="Schema of the CDM tables.")] = "main",
    memory: Memory = None,
) -> None:
    """Find concepts by name in the vocabulary of a database, the most recorded first."""
    from steropes.studies.database.concept_search import find_concepts
    from steropes.studies.database.omop import OmopDatabase
    from steropes.studies.database.open_database import require_database
    from steropes.studies.report.terminal_tables import table_of, wide_console

    require_database(database)
    with OmopDatabase(database, schema, memory) as db:
        found, name = find_concepts(db, words, domain=domain, limit=limit), db.name
    if found.empty:
        raise DataError(f"no concept of {name} has {words!r} in its name")
    heads = ("Id", "Name", "Domain", "Vocabulary", "People")
    columns = found[["concept_id", "name", "domain", "vocabulary", "people"]].fillna("")
    wide_console().print(table_of(None, heads, columns.itertuples(index=False), texts=4))
    if "note" in found.attrs:
        print(f"{found.attrs['note']}.")


def combine(
    archives: Annotated[list[Path], typer.Argument(help="results.zip of each database.")],
    output: Annotated[Path | None, typer.Option(help="CSV file for the table.")] = None,
    unblind: Annotated[
        bool, typer.Option(help="Also use estimates that fail a diagnostic.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Combine the results of databases by fixed and random effects."""
    from steropes.studies.archives.archive_synthesis import combine_archives
    from steropes.studies.report.grid_terminal import print_combined
    from steropes.studies.report.missing_estimates import missing_combinations, report_missing
    from steropes.studies.result_files.atomic_files import write_files

    found = combine_archives(archives, unblind=unblind)
    if output is not None:
        text = csv_text(found)
        write_files(output.parent, {output.name: text})
    if quiet:
        report_missing(missing_combinations(found))
        return
    print_combined(found)
    if output is not None:
        print(output)


COMMANDS = (
    grid,
    concepts,
    combine,
)
