"""The commands for grids, for looking up concepts, and for putting databases together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steropes.errors import DataError
from steropes.studies.report.plain_text import csv_text

if TYPE_CHECKING:
    from steropes.studies.execution.runner import GridResults

__all__ = ["DATABASE", "Disclosure", "Quiet", "add_commands"]

DATABASE = "OMOP CDM v5.x: a DuckDB file, a folder of Parquet files, or a URL (postgresql://...)."

Disclosure = Annotated[
    str | None,
    typer.Option(
        help="Rules of disclosure: ohdsi (default), opensafely, none, one with a smallest count "
        "(ohdsi:10), or a TOML file of the site.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(grid)
    app.command()(concepts)
    app.command()(combine)


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
        bool, typer.Option(help="Show estimates that fail a diagnostic too.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that answer outcomes.")] = 1,
    results_schema: Annotated[
        str | None, typer.Option(help="Write the result tables to this schema of the server too.")
    ] = None,
    disclosure: Disclosure = None,
    quiet: Quiet = False,
) -> None:
    """Run targets x comparators x outcomes x analyses from one specification.

    An interrupted run goes on where it was when the same command is given again.
    """
    from steropes.studies.database.open_database import require_database
    from steropes.studies.database.results import require_results_server, write_results
    from steropes.studies.execution.reference_checks import require_database_id
    from steropes.studies.execution.specification import grid_schema, read_spec

    if schema:
        print(json.dumps(grid_schema(), indent=1))
        return
    if spec is None or database is None:
        raise DataError("name a specification and --database; steropes grid --schema tells more")
    require_database(database)
    if results_schema is not None:
        require_results_server(database, results_schema)
    require_database_id(spec)
    results = run_and_report(
        database, read_spec(spec), output, unblind, quiet, jobs, disclosure=disclosure
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
) -> GridResults:
    """Run a grid, write its report, and print a summary."""
    from steropes.studies.database.data_notes import table_sentences
    from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN
    from steropes.studies.execution.runner import run_grid
    from steropes.studies.report.atomic_files import output_folder
    from steropes.studies.report.controls_page import write_controls_report
    from steropes.studies.report.formatting import title_case
    from steropes.studies.report.grid_page import write_grid_report
    from steropes.studies.report.study_terminal import Progress
    from steropes.studies.report.unusable_values import unusable_words

    folder = output_folder(output)
    with Progress(quiet) as progress:
        results = run_grid(
            database, spec, folder, jobs=jobs, disclosure=disclosure, progress=progress
        )
        progress("writing the report")
        pages = [write_grid_report(results, folder, unblind=unblind)]
        judged = len(results.tables["positive_control"]) > 0
        if judged:
            pages.append(write_controls_report(results, folder))
    if quiet:
        return results
    print(results)
    t = results.tables
    cohorts = t["cohort"][["cohort_id", "name"]].itertuples(index=False)
    names = {number: title_case(str(name)) for number, name in cohorts}
    pairs = {
        c.target_comparator_id: f"{names[c.target_id]} against {names[c.comparator_id]}"
        for c in t["cm_target_comparator"].itertuples(index=False)
    }
    for line in results.estimates(unblind).itertuples(index=False):
        effect = (
            f"{line.rr:.2f} ({line.ci_95_lb:.2f} to {line.ci_95_ub:.2f})"
            if line.rr == line.rr
            else line.note or (NOT_SHOWN if not line.unblind else "none")
        )
        if line.rr == line.rr and isinstance(line.unconverged, str):
            effect += f" ({line.unconverged} did not converge)"
        said = names.get(line.outcome_id, f"outcome {line.outcome_id}")
        where = pairs[line.target_comparator_id]
        print(f"  {where}, {said}, analysis {line.analysis_id}: {effect}")
    for words in [*unusable_words(t), *(said for said, _ in table_sentences(t["data_note"]))]:
        print(f"  {words}")
    if judged:
        _print_performance(results)
    print(results.rules.sentence())
    for path in (*pages, folder / "release" / "results.zip"):
        print(path)
    print(f"{results.path} (exact numbers, not to be released)")
    return results


def _print_performance(results: Any) -> None:
    """A line for each analysis: how it fared on the controls."""
    from steropes.studies.results.control_results import analysis_performance

    names = results.tables["cm_analysis"].set_index("analysis_id")["description"]
    table = analysis_performance(results)
    every = table[table["ratio"].isna()]
    calibrated = every[every["calibrated"]].set_index(["target_comparator_id", "analysis_id"])
    for line in every[~every["calibrated"]].itertuples(index=False):
        after = calibrated.loc[(line.target_comparator_id, line.analysis_id), "coverage"]
        print(
            f"  {names[line.analysis_id]}: coverage {100 * line.coverage:.0f}% (calibrated "
            f"{100 * after:.0f}%), precision {line.precision:.1f}, squared error {line.mse:.3f}, "
            f"type 1 {100 * line.type_1:.0f}%, type 2 {100 * line.type_2:.0f}%, "
            f"auc {line.auc:.2f}"
        )


def concepts(
    database: Annotated[str, typer.Argument(help=DATABASE)],
    words: Annotated[str, typer.Argument(help="Words of the name, in any order, or an id.")],
    domain: Annotated[str | None, typer.Option(help="Only this domain, such as Drug.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most lines to print.")] = 20,
    schema: Annotated[str, typer.Option(help="Schema of the CDM tables.")] = "main",
) -> None:
    """Find concepts by name in the vocabulary of a database, the most recorded first."""
    from steropes.studies.database.concept_search import find_concepts
    from steropes.studies.database.omop import OmopDatabase
    from steropes.studies.database.open_database import require_database

    require_database(database)
    with OmopDatabase(database, schema) as db:
        found, name = find_concepts(db, words, domain=domain, limit=limit), db.name
    if found.empty:
        raise DataError(f"no concept of {name} has {words!r} in its name")
    for line in found.itertuples(index=False):
        about = ", ".join(str(x) for x in (line.domain, line.vocabulary) if x)
        kind = f" ({about})" if about else ""
        print(f"{line.concept_id:>12}  {line.name}{kind}, {line.people} people")
    if "note" in found.attrs:
        print(f"{found.attrs['note']}.")


def combine(
    archives: Annotated[list[Path], typer.Argument(help="results.zip of each database.")],
    output: Annotated[Path | None, typer.Option(help="CSV file for the table.")] = None,
    unblind: Annotated[
        bool, typer.Option(help="Use estimates that fail a diagnostic too.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Put the results of databases together: fixed and random effects."""
    from steropes.studies.evidence.archives import combine_archives
    from steropes.studies.report.atomic_files import write_files
    from steropes.studies.report.formatting import decimals

    found = combine_archives(archives, unblind=unblind)
    if output is not None:
        text = csv_text(found)
        write_files(output.parent, {output.name: text})
    if quiet:
        return
    if found.empty:
        print("no result passes the diagnostics for evidence synthesis in any database")
    question: tuple[str, ...] = ()
    for line in found.itertuples(index=False):
        pair = f"{line.target} against {line.comparator}" if line.target else "comparison"
        ids = (
            f"comparison {line.target_comparator_id}, outcome {line.outcome_id}, analysis "
            f"{line.analysis_id}"
        )
        if question != (pair, line.outcome, line.analysis, ids):
            question = (pair, line.outcome, line.analysis, ids)
            print(f"{pair}, {line.outcome}, {line.analysis} ({ids})")
        limits = f"{decimals(line.ci_95_lb, 3)} to {decimals(line.ci_95_ub, 3)}"
        ratio = decimals(line.rr, 3) if line.rr == line.rr else "no finite estimate"
        said = [f"{ratio} ({limits})"] if line.ci_95_lb == line.ci_95_lb else []
        databases = f"{line.databases} database{'s' * (line.databases != 1)}"
        print(
            f"  {line.method}, {databases}: {'; '.join([*said, *([line.note] * bool(line.note))])}"
        )
    if len(found):
        print(f"Disclosure control: {found['disclosure'].iloc[0]}")
    if output is not None:
        print(output)
